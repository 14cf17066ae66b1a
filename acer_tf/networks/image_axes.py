"""The axes of images: observations that look like images, but are not height × width × channels, are refused."""

import itertools
import math

from acer_tf.networks.torsos import TORSOS, torso_of
from acer_tf.types import EnvironmentSpec


def require_image_axes(network: str, spec: EnvironmentSpec) -> None:
    """Raises ValueError if observations look like images that are not read as height × width × channels.

    Either a convolution would read other axes so, or `network` is "auto", which would be "mlp" without a word.
    """
    if not isinstance(spec.frame_shape, dict):
        return _require_image_axes(network, spec)
    for name in spec.frame_shape:
        _require_image_axes(network, spec.of_leaf(name), name)


def _require_image_axes(network: str, spec: EnvironmentSpec, leaf: str = "") -> None:
    shape = spec.frame_shape
    seen = f"{shape}, called {leaf!r}," if leaf else str(shape)
    if spec.stack > 1 or len(shape) < 3:
        return
    torsos = TORSOS.values() if network in ("auto", "combined") else [torso_of(network)]
    plane, others = _plane(shape)
    # A named torso that cannot read the shape is checked too: that the axes are wrong says more than that it cannot.
    if any(torso.images and (len(torsos) == 1 or torso.reads(spec)) for torso in torsos):
        if not _channels_first(shape, spec):
            return
    elif network != "auto" or not _is_image(spec, min(shape[axis] for axis in plane)):
        return
    flat = "--network=mlp reads them as vectors"

    def turned() -> tuple[int, ...]:
        return (*(shape[axis] for axis in plane), math.prod(shape[axis] for axis in others))

    if _channels_first(turned(), spec):  # many channels: with the longer side first, nothing looks so
        plane = plane[::-1]
    if min(turned()[:2]) < 3:
        raise ValueError(f"observations of shape {seen} are images, too small for a convolution: {flat}")
    turn = f"x.transpose{(*plane, *others)}" + (f".reshape{turned()}" if len(shape) > 3 else "")
    low, high, dtype = (f"env.observation_space.{name}" for name in ("low", "high", "dtype"))
    wrapper = (
        f", with gymnasium.wrappers.TransformObservation(env, turn := lambda x: {turn}, gymnasium.spaces.Box("
        f"turn({low}), turn({high}), dtype={dtype}))"
    )
    raise ValueError(
        f"observations of shape {seen} look like images, but are not height × width × channels, as "
        f"convolutions read them; if they are right, {flat}; else make them {turned()}{'' if leaf else wrapper}"
    )


def _plane(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The two axes that look most like height and width, being both large, and alike; and the others."""

    def likeness(axes: tuple[int, ...]) -> tuple[int, int]:
        sides = [shape[axis] for axis in axes]
        return min(sides), -max(sides)

    plane = max(itertools.combinations(range(len(shape)), 2), key=likeness)
    return plane, tuple(axis for axis in range(len(shape)) if axis not in plane)


def _is_image(spec: EnvironmentSpec, side: int) -> bool:
    """Whether observations of three or more axes are images, by dtype, bounds, or two axes of at least `side`."""
    return spec.observation_dtype == "bool" or spec.observation_scale is not None or side >= 16


def _channels_first(shape: tuple[int, ...], spec: EnvironmentSpec) -> bool:
    """Whether images of this shape look like channels × height × width; planes of 0 and 1 may be many and small."""
    channels, least, pixels = shape[0], min(shape[1:]), (spec.observation_scale or 1) > 1
    few = channels <= 4 and (pixels or least >= 16)
    return channels < least and (shape[1] == shape[2] or few or least >= 36)
