"""The torsos that `--network` names, one line each: what reads observations, before the heads.

A torso is built of `networks.Layers`, so nothing here imports TensorFlow. A user's own is a `Torso` in a module of
theirs: `--network=module:NAME`.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from acer_tf.rules import is_reference
from acer_tf.types import EnvironmentSpec

if TYPE_CHECKING:
    from acer_tf.networks import Layers

# See agents.compiled.
Execution = Literal["xla", "serial", "parallel"]

# Side of the patches in which the torso "nature" reads frames. Its first layer has 8x8 kernels at stride 4: a 2x2
# convolution at stride 1 over such patches.
PATCH = 4


@dataclasses.dataclass(frozen=True)
class Torso:
    """What turns observations into features.

    Attributes:
        build: from `networks.Layers` and planes [N, *plane] (a Keras tensor) to features [N, F]. Planes are what the
            environment shows, frames stacked along the last axis, not yet scaled: see `Layers.scaled`.
        reads: whether it can read the observations of an environment.
        patches: whether planes come as patches of 4 x 4 pixels, [H/4, W/4, S * 16], which moves less memory.
        acting: how the policy is compiled to act. With convolutions, XLA is slower than operation by operation.
        updates: how updates are compiled. "parallel" pays only where products are large, and then so do more threads
            and, where the processor has it in hardware, bfloat16.
    """

    build: Callable[[Layers, Any], Any]
    reads: Callable[[EnvironmentSpec], bool]
    patches: bool = False
    acting: Execution = "xla"
    updates: Execution = "xla"

    @property
    def large(self) -> bool:
        """Whether its products are large enough for several threads and for bfloat16 to pay."""
        return self.updates == "parallel"


def _nature(layers: Layers, x: Any) -> Any:
    x = layers.patch_convolution(32, "conv1", x)
    x = layers.convolution(64, 4, 2, "conv2", x)
    x = layers.convolution(64, 3, 1, "conv3", x)
    return layers.hidden(512, "relu", "dense", layers.flat(x))


def _nature_reads(spec: EnvironmentSpec) -> bool:
    shape = spec.frame_shape
    fits = len(shape) == 2 and min(shape) >= 36 and all(side % PATCH == 0 for side in shape)
    return fits and spec.observation_dtype == "uint8"


def _small(layers: Layers, x: Any) -> Any:
    x = layers.product_convolution(16, 3, "conv", layers.scaled(x))
    return layers.hidden(128, "relu", "dense", layers.flat(x))


def _small_reads(spec: EnvironmentSpec) -> bool:
    return spec.stack == 1 and len(spec.frame_shape) == 3 and min(spec.frame_shape[:2]) >= 3


def _mlp(layers: Layers, x: Any) -> Any:
    return layers.hidden(64, "tanh", "dense2", layers.hidden(64, "tanh", "dense1", layers.flat(layers.scaled(x))))


# In the order in which `--network=auto` asks them whether they can read an environment.
TORSOS: dict[str, Torso] = {
    # Mnih et al. 2015: 84x84 frames, convolutions 32-64-64 and 512 units.
    "nature": Torso(_nature, _nature_reads, patches=True, acting="serial", updates="parallel"),
    # Young & Tian 2019: images [H, W, C] such as MinAtar's, one 3x3 convolution of 16 and 128 units.
    "small": Torso(_small, _small_reads, acting="serial"),
    # Flat observations, two layers of 64 tanh units.
    "mlp": Torso(_mlp, lambda spec: spec.stack == 1),
}


class Architecture(NamedTuple):
    """What `--network` stands for."""

    torso: str  # of `TORSOS`, or "module:NAME" of a user's own
    recurrent: bool = False  # whether an LSTM of 256 units follows the torso


ARCHITECTURES: dict[str, Architecture] = {name: Architecture(name) for name in TORSOS} | {
    f"{name}_lstm": Architecture(name, recurrent=True) for name in TORSOS
}


def architecture_of(network: str) -> Architecture:
    """The architecture that `--network` names.

    Raises:
        ValueError: neither of `ARCHITECTURES` nor of the form "module:NAME".
    """
    if is_reference(network):
        return Architecture(network)
    if network not in ARCHITECTURES:
        raise ValueError(f"there is no network {network!r}; there are {', '.join(ARCHITECTURES)}, and module:NAME")
    return ARCHITECTURES[network]


def torso_of(network: str) -> Torso:
    """The torso of what `--network` names; a user's own is imported.

    Raises:
        ValueError: a user's own cannot be imported, or is no `Torso`.
    """
    name = architecture_of(network).torso
    if name in TORSOS:
        return TORSOS[name]
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"it cannot be imported: {error}") from error
    if not isinstance(found, Torso):
        raise ValueError(f"{name} is of type {type(found).__name__}; it must be an acer_tf.torsos.Torso")
    return found


def default_network(spec: EnvironmentSpec) -> str:
    """The name of the first torso that can read an environment; "mlp" where actions are continuous.

    Raises:
        ValueError: none can.
    """
    for name, torso in TORSOS.items():
        if torso.reads(spec) and (name == "mlp" or not spec.continuous):
            return name
    raise ValueError(
        f"no network can read observations of shape {spec.observation_shape} and dtype {spec.observation_dtype}"
    )
