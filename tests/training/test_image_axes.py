"""Observations that look like images are read by a convolution on the right axes, or refused; never silently by mlp."""

import re

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from acer_tf.envs.spaces import spec_of
from acer_tf.errors import SettingsError
from acer_tf.settings import make_settings
from acer_tf.training.resolve import resolve

CONVOLUTIONS = ("nature", "image", "small")
# Bounds and dtypes of images.
KINDS = [(0, 255, np.uint8), (0, 10, np.uint8), (0, 255, np.float32), (0, 255, np.int32), (0, 1, np.float64)]
KINDS += [(0, 1, np.bool_), (0, 1, np.uint8)]
OTHERS = [(-np.inf, np.inf, np.float32), (-1, 1, np.float64), (0, np.inf, np.float32), (-5, 5, np.int64)]


class Shown(gymnasium.Env):
    """Shows one array, whose numbers differ as far as its dtype allows."""

    def __init__(self, shape, low, high, dtype):
        self.observation_space, self.action_space = Box(low, high, shape, dtype), Discrete(2)
        self.picture = np.random.default_rng(0).integers(0, 2 if high == 1 else 10, size=shape).astype(dtype)

    def reset(self, *, seed=None, options=None):
        return self.picture, {}


def chosen(space, network="auto", actions=None):
    return resolve(make_settings(env="Shown-v0", network=network), spec_of("Shown-v0", space, actions or Discrete(2)))


def network_of(space):
    """(the network of a new run, None), or (None, why the observations are refused)."""
    try:
        return chosen(space).network, None
    except SettingsError as error:
        return None, str(error)


def wrapped(env, message):
    """`env`, wrapped by the line that the message names."""
    names = {"gymnasium": gymnasium, "env": env}
    exec("env = " + message[message.index("gymnasium.wrappers.") :], names)
    return names["env"]


def explained(shape, message):
    assert message.startswith("--network=auto: ") and f"shape {shape} " in message and "--network=mlp" in message
    assert "\n" not in message


@pytest.mark.parametrize("seed", range(10))
def test_any_image_is_read_by_a_convolution_or_refused(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        shape = tuple(rng.choice([1, 2, 3, 4, 5, 7, 10, 16, 20, 36, 40, 84], size=rng.integers(3, 6)).tolist())
        if np.prod(shape) > 100_000:
            continue
        env = Shown(shape, *KINDS[rng.integers(len(KINDS))])
        network, message = network_of(env.observation_space)
        if message is None:
            assert network in CONVOLUTIONS and len(shape) == 3
            continue
        explained(shape, message)
        assert chosen(env.observation_space, "mlp").network == "mlp"
        if "too small" in message:
            assert sorted(shape)[-2] < 3
            continue
        turned = wrapped(env, message)
        assert network_of(turned.observation_space)[0] in CONVOLUTIONS
        assert turned.observation_space.contains(turned.reset()[0])


LAYOUTS = ("HWC", "CHW", "SHW", "SHWC", "SCHW", "HWCS", "CSHW")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_height_and_width_are_found(layout, kind):
    rng = np.random.default_rng(kind)
    low, high, dtype = KINDS[kind]
    for _ in range(10):
        sizes = dict(C=rng.integers(1, 5), S=rng.integers(1, 5), H=rng.integers(5, 60), W=rng.integers(5, 60))
        # Planes of 0 and 1 may have few rows, and many kinds of things: 3 × 10 × 12 is right as height first, too.
        if high == 1 and min(sizes["H"], sizes["W"]) < 16:
            sizes["W"] = sizes["H"]
        shape = tuple(int(sizes[axis]) for axis in layout)
        env = Shown(shape, low, high, dtype)
        network, message = network_of(env.observation_space)
        if layout == "HWC":
            assert network == ("image" if min(shape[:2]) >= 36 else "small")
            continue
        explained(shape, message)
        shown = wrapped(env, message).reset()[0]
        assert shown.shape == (sizes["H"], sizes["W"], env.picture.size // (sizes["H"] * sizes["W"]))
        planes = np.moveaxis(env.picture, [layout.index("H"), layout.index("W")], [0, 1])
        np.testing.assert_array_equal(shown, planes.reshape(shown.shape))


@pytest.mark.parametrize(
    ("shape", "turned"),
    [
        ((1, 84, 84), (84, 84, 1)),
        ((2, 84, 84), (84, 84, 2)),
        ((3, 84, 84), (84, 84, 3)),
        ((4, 84, 84), (84, 84, 4)),
        ((6, 84, 96), (84, 96, 6)),
        ((7, 10, 10), (10, 10, 7)),
        ((4, 84, 84, 1), (84, 84, 4)),
        ((4, 84, 84, 3), (84, 84, 12)),
        ((4, 3, 84, 84), (84, 84, 12)),
        ((84, 1, 84), (84, 84, 1)),
        ((84, 84, 3, 4), (84, 84, 12)),
        ((3, 6, 9, 3), (9, 6, 9)),  # (6, 9, 9) would look like six channels
    ],
)
@pytest.mark.parametrize("bounds", [(0, 255, np.uint8), (0, 255, np.float32)])
def test_what_an_image_should_become(shape, turned, bounds):
    env = Shown(shape, *bounds)
    message = network_of(env.observation_space)[1]
    explained(shape, message)
    assert f"make them {turned}" in message
    after = wrapped(env, message)
    space = after.observation_space
    assert (space.shape, space.dtype, space.low.min(), space.high.max()) == (turned, bounds[2], 0, 255)
    assert spec_of("", space, Discrete(2)).observation_scale == 255
    if len(shape) == 3 and shape[0] > 2 and shape[0] < shape[1]:
        with pytest.raises(SettingsError, match=re.escape(f"--network=small: observations of shape {shape}")):
            chosen(env.observation_space, "small")


@pytest.mark.parametrize("shape", [(2, 84, 1), (1, 1, 5), (2, 2, 2, 2)])
def test_pixels_that_no_convolution_fits_are_refused_without_a_wrapper(shape):
    message = network_of(Box(0, 255, shape, np.uint8))[1]
    explained(shape, message)
    assert "gymnasium" not in message


@pytest.mark.parametrize("shape", [(96, 96, 3), (3, 64, 64)])
def test_images_are_read_with_continuous_actions_as_with_others(shape):
    space = Box(0, 255, shape, np.uint8)
    settings = dict(env="Shown-v0", agent="acer_continuous", preset="classic_continuous")
    spec, (network, message) = spec_of("", space, Box(-1, 1, (2,))), network_of(space)
    if message is None:
        assert resolve(make_settings(**settings), spec).network == network == "image"
    else:
        with pytest.raises(SettingsError, match=re.escape(message)):
            resolve(make_settings(**settings), spec)
    assert resolve(make_settings(**settings, network="mlp"), spec).network == "mlp"


@pytest.mark.parametrize(
    ("space", "network"),
    [
        *(
            (Box(0, 1, shape, np.bool_), "small")
            for shape in [(10, 10, 4), (6, 7, 2), (8, 8, 8), (5, 5, 20), (7, 9, 20)]
        ),
        (Box(0, 1, (3, 3, 2), np.bool_), "small"),
        (Box(0, 10, (7, 7, 3), np.uint8), "small"),
        (Box(0, 10, (7, 9, 12), np.uint8), "small"),
        (Box(0, 255, (84, 84), np.uint8), "nature"),
        (Box(0, 255, (84, 84, 3), np.float32), "image"),
        (Box(0, 255, (10, 10), np.uint8), "mlp"),
        (Box(0, 255, (128,), np.uint8), "mlp"),
        (Box(-np.inf, np.inf, (5,)), "mlp"),
        (Box(-np.inf, np.inf, (4, 4)), "mlp"),
        *((Box(*kind[:2], (2, 5, 5), kind[2]), "mlp") for kind in OTHERS),
        *((Box(*kind[:2], (2, 3, 4, 5), kind[2]), "mlp") for kind in OTHERS),
        *((Box(*kind[:2], (10, 10, 3), kind[2]), "small") for kind in OTHERS),
    ],
)
def test_what_is_no_image_or_a_right_one_is_read(space, network):
    assert network_of(space) == (network, None)


@pytest.mark.parametrize("bounds", OTHERS)
def test_size_makes_an_image_of_what_has_no_such_bounds(bounds):
    for shape in [(1, 84, 84), (2, 84, 84), (4, 84, 84), (4, 84, 84, 1)]:
        env = Shown(shape, *bounds)
        message = network_of(env.observation_space)[1]
        explained(shape, message)
        assert network_of(wrapped(env, message).observation_space) == ("image", None)
