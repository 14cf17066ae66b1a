"""The torsos that `--network` names, one line each: from observations to features, before the heads.

A torso is built with `building.Layers`, so nothing here imports TensorFlow. Users name their own `Torso` as
`--network=module:NAME`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

from acer_tf.references import imported, is_reference
from acer_tf.types import EnvironmentSpec

Layers = Any  # building.Layers, which this must not import
Execution = Literal["xla", "serial", "parallel"]  # see agents.compiled

# Side of the patches in which the torso "nature" reads frames: its first layer, 8x8 kernels at stride 4, is a 2x2
# convolution at stride 1 over these patches.
PATCH = 4
LSTM_UNITS = 256


@dataclasses.dataclass(frozen=True)
class Torso:
    """Turns observations into features.

    Attributes:
        build: from `building.Layers` and planes [N, *plane] (a Keras tensor) to features [N, F]. Planes are
            observations with frames stacked along the last axis, not yet scaled: see `Layers.scaled`.
        reads: whether the torso can read the observations of an environment.
        continuous: whether it is the default with continuous actions; `ContinuousNetwork` has its own sizes.
        patches: whether planes come as patches of 4 x 4 pixels, [H/4, W/4, S * 16], which moves less memory.
        acting: how the policy is compiled for acting on the CPU; "serial" with `keras.layers.Conv2D` or
            `Layers.convolution`, which XLA makes much slower there. On a GPU XLA compiles all.
        updates: how updates are compiled there; "parallel" with these. `Layers.product_convolution` suits XLA.
    """

    build: Callable[[Layers, Any], Any]
    reads: Callable[[EnvironmentSpec], bool]
    continuous: bool = False
    patches: bool = False
    acting: Execution = "xla"
    updates: Literal["xla", "parallel"] = "xla"  # a loop over updates cannot be compiled serially

    def __post_init__(self) -> None:
        for name, allowed in (("acting", get_args(Execution)), ("updates", ("xla", "parallel"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"Torso({name}={getattr(self, name)!r}): must be one of {', '.join(allowed)}")

    @property
    def large(self) -> bool:
        """Whether matrix products are large enough for several threads, and hardware bfloat16, to pay."""
        return self.updates == "parallel"


def _after_conv1(layers: Layers, x: Any) -> Any:
    x = layers.convolution(64, 3, 1, "conv3", layers.convolution(64, 4, 2, "conv2", x))
    return layers.hidden(512, "relu", "dense", layers.flat(x))


def _nature(layers: Layers, x: Any) -> Any:
    return _after_conv1(layers, layers.patch_convolution(32, "conv1", x))


def _nature_reads(spec: EnvironmentSpec) -> bool:
    shape = spec.frame_shape
    fits = len(shape) == 2 and min(shape) >= 36 and all(side % PATCH == 0 for side in shape)
    return fits and spec.observation_dtype == "uint8"


def _image(layers: Layers, x: Any) -> Any:
    x = layers.scaled(x if len(x.shape) == 4 else x[..., None])
    return _after_conv1(layers, layers.convolution(32, 8, 4, "conv1", x))


def _image_reads(spec: EnvironmentSpec) -> bool:
    shape = spec.frame_shape
    return spec.stack == 1 and len(shape) in (2, 3) and min(shape[:2]) >= 36


def _small(layers: Layers, x: Any) -> Any:
    x = layers.product_convolution(16, 3, "conv", layers.scaled(x))
    return layers.hidden(128, "relu", "dense", layers.flat(x))


def _small_reads(spec: EnvironmentSpec) -> bool:
    return spec.stack == 1 and len(spec.frame_shape) == 3 and min(spec.frame_shape[:2]) >= 3


def _mlp(layers: Layers, x: Any) -> Any:
    return layers.hidden(64, "tanh", "dense2", layers.hidden(64, "tanh", "dense1", layers.flat(layers.scaled(x))))


# In the order in which `--network=auto` tries them.
TORSOS: dict[str, Torso] = {
    # Mnih et al. 2015: 84x84 frames, convolutions of 32, 64 and 64 channels, 512 units.
    "nature": Torso(_nature, _nature_reads, patches=True, acting="serial", updates="parallel"),
    # The same layers for other images [H, W] or [H, W, C] of at least 36 pixels a side, such as RGB ones.
    "image": Torso(_image, _image_reads, acting="serial", updates="parallel"),
    # Young & Tian 2019: small images [H, W, C] such as MinAtar's, one 3x3 convolution of 16 channels, 128 units.
    "small": Torso(_small, _small_reads, acting="serial"),
    # Flattened observations, two layers of 64 tanh units.
    "mlp": Torso(_mlp, lambda spec: spec.stack == 1, continuous=True),
}


class Architecture(NamedTuple):
    """The meaning of a value of `--network`."""

    torso: str  # of `TORSOS`, or "module:NAME" of a user's torso
    recurrent: bool = False  # whether an LSTM of 256 units follows the torso

    @property
    def state_size(self) -> int:
        """U, the length of the recurrent state: h and c of the LSTM."""
        return 2 * LSTM_UNITS if self.recurrent else 0


ARCHITECTURES: dict[str, Architecture] = {name: Architecture(name) for name in TORSOS} | {
    f"{name}_lstm": Architecture(name, recurrent=True) for name in TORSOS
}


def architecture_of(network: str) -> Architecture:
    """The architecture that `--network` names; ValueError if it is not in `ARCHITECTURES`, nor like "module:NAME"."""
    if is_reference(network):
        return Architecture(network)
    if network not in ARCHITECTURES:
        raise ValueError(f"unknown network {network!r}: must be one of {', '.join(ARCHITECTURES)}, or module:NAME")
    return ARCHITECTURES[network]


def torso_of(network: str) -> Torso:
    """The torso that `--network` names; ValueError if a user's cannot be imported, or is not a `Torso`."""
    name = architecture_of(network).torso
    if name in TORSOS:
        return TORSOS[name]
    found = imported(name)
    if not isinstance(found, Torso):
        raise ValueError(f"{name} is of type {type(found).__name__}; must be an acer_tf.networks.torsos.Torso")
    return found


def require_channels_last(network: str, spec: EnvironmentSpec) -> None:
    """Raises ValueError if a convolution would read channels × height × width as height × width × channels."""
    shape = spec.frame_shape
    first = len(shape) == 3 and (shape[0] < shape[1] == shape[2] or shape[0] <= 4 < 16 <= min(shape[1:]))
    if first and spec.stack == 1 and torso_of(network) is TORSOS["small"]:
        turned = (*shape[1:], shape[0])
        raise ValueError(
            f"observations of shape {shape} look like channels × height × width, but it reads height × width × "
            f"channels: make them {turned}, with gymnasium.wrappers.TransformObservation(env, "
            f"lambda x: x.transpose(1, 2, 0), Box(low, high, {turned}, dtype)); or, if they are right, --network=mlp"
        )


def default_network(spec: EnvironmentSpec) -> str:
    """The name of the first torso that can read the observations, or ValueError; "mlp" if actions are continuous."""
    for name, torso in TORSOS.items():
        if torso.reads(spec) and (torso.continuous or not spec.continuous):
            return name
    raise ValueError(
        f"no network can read observations of shape {spec.observation_shape} and dtype {spec.observation_dtype}"
    )
