"""The torsos that `--network` names, one line each: from observations to features, before the heads.

A torso is built with `building.Layers`, so nothing here imports TensorFlow. Users name their own `Torso` as
`--network=module:NAME`.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

from acer_tf.references import imported, is_reference
from acer_tf.types import EnvironmentSpec, leaves_of

Layers = Any  # building.Layers, which this must not import
Execution = Literal["xla", "serial", "parallel"]  # see agents.compiled

# Side of the patches in which the torso "nature" reads frames: its first layer, 8x8 kernels at stride 4, is a 2x2
# convolution at stride 1 over these patches.
PATCH = 4


# The heads after a torso, and the layers of each. All others are the torso's, but for `SCHEDULED`, whose weight the
# agent's schedule sets.
HEADS: dict[str, tuple[str, ...]] = {
    "policy": ("policy",),
    "q": ("q", "q_bias"),
    "mean": ("mean",),
    "value": ("value",),
    "critic": ("critic_torso", "critic_state", "critic_action", "critic"),
}
SCHEDULED = "exploration"


class Dense(NamedTuple):
    """The dense layers of the torsos "mlp" and "combined", and of a user's that calls `Layers.dense`."""

    units: tuple[int, ...] = (64, 64)  # of each layer
    activation: str = "tanh"  # a name of Keras
    layer_norm: bool = False  # layer normalization before each activation
    normalize_inputs: bool = False  # by their running mean and variance


USUAL_DENSE = Dense()


@dataclasses.dataclass(frozen=True)
class Torso:
    """Turns observations into features.

    Attributes:
        build: from `building.Layers` and planes [N, *plane] (a Keras tensor, or a dictionary of those of the leaves) to
            features [N, F]. Planes are observations with frames stacked along the last axis, not yet scaled: see
            `Layers.scaled`.
        reads: whether the torso can read the observations of an environment.
        images: whether observations are images: their axes are checked, and a separate critic scales them, where it
            would normalise vectors.
        patches: whether planes come as patches of 4 x 4 pixels, [H/4, W/4, S * 16], which moves less memory.
        acting: how the policy is compiled for acting on the CPU; "serial" with `keras.layers.Conv2D` or
            `Layers.convolution`, which XLA makes much slower there. On a GPU XLA compiles all.
        updates: how updates are compiled there; "parallel" with these. `Layers.product_convolution` suits XLA.
        most_rows: the most rows of an update that "xla" compiles: with more, "parallel" is faster.
    """

    build: Callable[[Layers, Any], Any]
    reads: Callable[[EnvironmentSpec], bool]
    images: bool = False
    patches: bool = False
    acting: Execution = "xla"
    updates: Literal["xla", "parallel"] = "xla"  # a loop over updates cannot be compiled serially
    most_rows: float = math.inf

    def __post_init__(self) -> None:
        for name, allowed in (("acting", get_args(Execution)), ("updates", ("xla", "parallel"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"Torso({name}={getattr(self, name)!r}): must be one of {', '.join(allowed)}")

    def updates_of(self, rows: int) -> Literal["xla", "parallel"]:
        """How updates of so many rows are compiled on the CPU."""
        return self.updates if rows <= self.most_rows else "parallel"

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
    shape = _array_shape(spec)
    fits = len(shape) == 2 and min(shape) >= 36 and all(side % PATCH == 0 for side in shape)
    return fits and spec.observation_dtype == "uint8"


def _image(layers: Layers, x: Any) -> Any:
    x = layers.scaled(x if len(x.shape) == 4 else x[..., None])
    return _after_conv1(layers, layers.convolution(32, 8, 4, "conv1", x))


def _image_reads(spec: EnvironmentSpec) -> bool:
    return spec.stack == 1 and _is_large(_array_shape(spec))


def _is_large(shape: tuple[int, ...]) -> bool:
    return len(shape) in (2, 3) and min(shape[:2]) >= 36


def _small(layers: Layers, x: Any) -> Any:
    x = layers.product_convolution(16, 3, "conv", layers.scaled(x))
    return layers.hidden(128, "relu", "dense", layers.flat(x))


def _small_reads(spec: EnvironmentSpec) -> bool:
    return spec.stack == 1 and _is_small(_array_shape(spec))


def _is_small(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and min(shape[:2]) >= 3


def _array_shape(spec: EnvironmentSpec) -> tuple[int, ...]:
    """The shape of a frame, where observations are arrays; else ()."""
    return () if isinstance(spec.frame_shape, dict) else spec.frame_shape


def _image_torso(shape: tuple[int, ...]) -> Callable[[Layers, Any], Any] | None:
    """What reads a leaf of this shape; None for a vector."""
    return _image if _is_large(shape) else _small if _is_small(shape) else None


def _combined(layers: Layers, x: dict[str, Any]) -> Any:
    torsos = {name: _image_torso(leaf.shape[1:]) for name, leaf in x.items()}
    parts = [torso(layers.of_leaf(name), x[name]) for name, torso in torsos.items() if torso]
    vectors = {name: x[name] for name, torso in torsos.items() if not torso}
    if vectors:
        parts.append(layers.dense(layers.normalized(vectors)))
    # The heads are linear: without this layer, what is best could not depend on two leaves together.
    return layers.hidden(128, "relu", "joint", layers.joined(parts))


def _combined_reads(spec: EnvironmentSpec) -> bool:
    return bool(_images(spec))


def _images(spec: EnvironmentSpec) -> frozenset[str]:
    shapes = spec.frame_shape if isinstance(spec.frame_shape, dict) else {}
    return frozenset(name for name, shape in shapes.items() if _image_torso(shape))


def _mlp(layers: Layers, x: Any) -> Any:
    return layers.dense(layers.normalized(x))


# In the order in which `--network=auto` tries them.
TORSOS: dict[str, Torso] = {
    # Mnih et al. 2015: 84x84 frames, convolutions of 32, 64 and 64 channels, 512 units.
    "nature": Torso(_nature, _nature_reads, images=True, patches=True, acting="serial", updates="parallel"),
    # The same layers for other images [H, W] or [H, W, C] of at least 36 pixels a side, such as RGB ones.
    "image": Torso(_image, _image_reads, images=True, acting="serial", updates="parallel"),
    # Young & Tian 2019: small images [H, W, C] such as MinAtar's, one 3x3 convolution of 16 channels, 128 units.
    "small": Torso(_small, _small_reads, images=True, acting="serial", most_rows=256),
    # Several leaves: images through the layers of "image" or "small", all others through those of "mlp", and one layer
    # of 128 units over them all.
    "combined": Torso(_combined, _combined_reads, acting="serial", updates="parallel"),
    # Flattened observations, all leaves joined, and `Dense` layers.
    "mlp": Torso(_mlp, lambda spec: spec.stack == 1),
}


def image_leaves(architecture: str, spec: EnvironmentSpec) -> frozenset[str]:
    """The leaves that the torso of `architecture` reads as images: they are scaled, where others are normalised."""
    return _images(spec) if architecture == "combined" else frozenset()


def has_plain_numbers(spec: EnvironmentSpec) -> bool:
    """Whether a leaf that is no image has other numbers than bytes and booleans; bfloat16 would round these."""
    leaves = zip(leaves_of(spec.frame_shape), leaves_of(spec.observation_dtype), strict=True)
    return any(not _image_torso(shape) and dtype not in ("uint8", "bool") for shape, dtype in leaves)


def takes_dense(network: str) -> bool:
    """Whether the torso that `--network` names has `Dense` layers: mlp, combined, or a user's, which may have them."""
    return network in ("mlp", "combined") or is_reference(network)


def torso_of(network: str) -> Torso:
    """The torso that `--network` names.

    Raises:
        ValueError: no torso has that name, a user's module cannot be imported, or its object is not a `Torso`.
    """
    if network in TORSOS:
        return TORSOS[network]
    if not is_reference(network):
        raise ValueError(f"unknown network {network!r}: must be one of {', '.join(TORSOS)}, or module:NAME")
    found = imported(network)
    if not isinstance(found, Torso):
        raise ValueError(f"{network} is of type {type(found).__name__}; must be an acer_tf.networks.torsos.Torso")
    return found


def readable_torso(architecture: str, spec: EnvironmentSpec) -> Torso:
    """The torso that `architecture` names; ValueError if it does not exist or cannot read the observations."""
    torso = torso_of(architecture)
    if not torso.reads(spec):
        able = [name for name, one in TORSOS.items() if one.reads(spec)]
        raise ValueError(
            f"network {architecture!r} cannot read observations of shape {spec.observation_shape} and dtype "
            f"{spec.observation_dtype}; {'take ' + ' or '.join(able) if able else 'none can'}"
        )
    return torso


def default_network(spec: EnvironmentSpec) -> str:
    """The name of the first torso that can read the observations, or ValueError."""
    for name, torso in TORSOS.items():
        if torso.reads(spec):
            return name
    raise ValueError(
        f"no network can read observations of shape {spec.observation_shape} and dtype {spec.observation_dtype}"
    )
