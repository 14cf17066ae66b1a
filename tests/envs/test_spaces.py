"""What agents see and do of each space; and those that are refused, with ways out that are executed as written."""

import re
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from acer_tf import envs
from acer_tf.envs.spaces import MOST_COMBINATIONS, observed, spec_of
from acer_tf.errors import EnvironmentFailure, InvalidEnvironment
from acer_tf.types import leaves_of, map_leaves

MOVES, SEEN = spaces.Discrete(3), spaces.Box(-1, 1, (2,))


class World(gymnasium.Env):
    """Shows what its observation space holds, and takes only what its action space holds."""

    def __init__(self, observations=SEEN, actions=MOVES):
        self.observation_space, self.action_space = observations, actions
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        if isinstance(self.action_space, spaces.Box):  # contains() takes float32 for float64
            assert action.dtype == self.action_space.dtype
        assert self.action_space.contains(action), action
        self.taken.append(action)
        return self.observation_space.sample(), 1.0, len(self.taken) % 5 == 0, False, {}


def let_in(env, **given):
    """`env`, wrapped as long as it is refused, by the lines that the refusals name; and these."""
    lines, names = [], {"gymnasium": gymnasium, "np": np, "env": env, **given}
    while True:
        try:
            spec_of("World-v0", names["env"].observation_space, names["env"].action_space)
            return names["env"], lines
        except InvalidEnvironment as error:
            assert "\n" not in str(error) and str(error).startswith("World-v0 has the ")
            lines.append(re.search(r"gymnasium\.wrappers\.\w+\(env\b.*", str(error))[0])
            assert len(lines) <= 3
            exec(f"env = {lines[-1]}", names)


def lived(env):
    """The vector environment of `env`, after twelve random steps."""
    vector, rng = envs.make("World-v0", 1, 0, factory=factory_of(env)), np.random.default_rng(0)
    vector.reset()
    for _ in range(12):
        spec = vector.spec
        action = (
            rng.uniform(-1, 1, (1, spec.action_size)) if spec.continuous else rng.integers(spec.num_actions, size=1)
        )
        step = vector.step(action)
        for leaf, shape, dtype in zip(*map(leaves_of, (step.observation, *seen_by(spec))), strict=True):
            assert np.isfinite(leaf).all() and leaf.shape == (1, *shape) and leaf.dtype == dtype
    vector.close()
    return vector


def seen_by(spec):
    return spec.observation_shape, spec.observation_dtype


def factory_of(env):
    """Makes a new one, like `env`, at each call: here from the same wrappers, around a copy of the world."""
    import copy

    return lambda: copy.deepcopy(env)


ARM = spaces.Box(-1, 1, (3,))
EMPTY = spaces.Box(0, 1, (0, 2))
SMALL_IMAGE = spaces.Box(0, 10, (4, 5, 3), np.uint8)
SEEN_SPACES = {
    "box": ARM,
    "float64": spaces.Box(-np.inf, np.inf, (2, 3), np.float64),
    "image": SMALL_IMAGE,
    "bool": spaces.Box(0, 1, (4,), np.bool_),
    "int8": spaces.Box(-3, 3, (2,), np.int8),
    "scalar": spaces.Box(-1, 1, ()),
    "discrete": spaces.Discrete(5, start=-2),
    "one": spaces.Discrete(1),
    "far": spaces.Discrete(3, start=2**40),
    "multi_discrete": spaces.MultiDiscrete([3, 2], start=[1, -4]),
    "matrix": spaces.MultiDiscrete([[3, 1], [2, 4]], start=[[0, 7], [-1, 2]]),
    "multi_binary": spaces.MultiBinary([2, 2]),
    "tuple": spaces.Tuple([spaces.Discrete(3, start=1), ARM]),
    "goal": spaces.Dict(observation=ARM, achieved_goal=SEEN, desired_goal=SEEN),
    "nested": spaces.Dict(
        place=SMALL_IMAGE,
        parts=spaces.Tuple([ARM, spaces.Dict(bits=spaces.MultiBinary(3), kind=spaces.MultiDiscrete([2, 3]))]),
    ),
    "with nothing": spaces.Dict(a=EMPTY, b=spaces.Dict(), c=ARM, d=spaces.Discrete(2)),
}


@pytest.mark.parametrize("kind", SEEN_SPACES)
def test_observations_are_those_that_gymnasium_flattens(kind):
    class Remembering(World):
        def step(self, action):
            self.shown, *others = super().step(action)
            return self.shown, *others

    space = SEEN_SPACES[kind]
    vector = envs.make("World-v0", 3, 0, factory=lambda: Remembering(space))
    vector.reset()
    step, leaves = vector.step(np.zeros(3, np.int64)), observed("", space)
    for row, env in enumerate(vector._env.envs):
        wanted = map_leaves(lambda leaf, env=env: flattened(leaf, env.shown), leaves)
        found = map_leaves(lambda leaf, row=row: leaf[row].ravel(), step.observation)
        map_leaves(np.testing.assert_array_equal, found, wanted)
    assert vector.spec.observation_size == spaces.flatdim(space) == sum(map(len, leaves_of(found)))
    vector.close()


def flattened(leaf, observation):
    for key in leaf.path:
        observation = observation[key]
    return spaces.flatten(leaf.space, observation).astype(leaf.dtype)


def test_leaves_have_the_names_and_the_dtypes_of_their_parts():
    spec = spec_of("", SEEN_SPACES["nested"], MOVES)
    assert spec.observation_shape == {"parts/0": (3,), "parts/1/bits": (3,), "parts/1/kind": (5,), "place": (4, 5, 3)}
    assert list(spec.observation_dtype.values()) == ["float32", "uint8", "uint8", "uint8"]
    assert spec.observation_scale == {"parts/0": None, "parts/1/bits": 1.0, "parts/1/kind": 1.0, "place": 10.0}
    assert spec.of_leaf("place") == spec_of("", SMALL_IMAGE, MOVES)
    # One leaf is an array, and what has no elements is none.
    assert spec_of("", spaces.Dict(a=ARM, b=EMPTY), MOVES) == spec_of("", ARM, MOVES)


@pytest.mark.parametrize(
    ("space", "answer", "message"),
    [
        (spaces.Discrete(4), 4, r"an observation of 4, .*Discrete\(4\)"),
        (spaces.Discrete(4), 1.5, "an observation of .*1.5"),
        (spaces.MultiDiscrete([2, 3], start=[1, 1]), np.array([0, 1]), r"an observation of \[0, 1\], "),
        (spaces.MultiBinary(2), np.array([0, 2], np.int8), r"an observation of \[0, 2\], "),
        (spaces.Tuple([MOVES, ARM]), (1,), r"an observation of shape \(1,\)"),
        (spaces.Dict(a=ARM, b=MOVES), {"a": ARM.sample()}, "an observation of type dict"),
        (spaces.Dict(a=ARM, b=MOVES), {"a": ARM.sample(), "c": 1}, "an observation of type dict"),
        (spaces.Dict(a=ARM, b=MOVES), {"a": np.zeros(2), "b": 1}, r"an observation of shape \(2,\)"),
        (spaces.Dict(a=ARM, b=MOVES), {"a": np.full(3, np.nan), "b": 1}, "an observation of nan"),
        (spaces.Dict(a=ARM, b=MOVES), 3, "an observation of type int, 3"),
    ],
)
def test_an_observation_outside_its_space_is_an_error(space, answer, message):
    class Broken(World):
        def reset(self, *, seed=None, options=None):
            return answer, {}

    vector = envs.make("Broken-v0", 1, 0, factory=lambda: Broken(space))
    with pytest.raises(EnvironmentFailure, match=rf"Broken-v0 failed in reset\(\): it returned {message}"):
        vector.reset()


OBSERVATIONS = {
    "text": spaces.Text(6),
    "dict": spaces.Dict(place=spaces.Box(0, 255, (4, 4, 3), np.uint8), parts=spaces.Tuple([ARM, spaces.Text(3)])),
    "one_of": spaces.OneOf([spaces.Discrete(3), ARM]),
    "empty": EMPTY,
    "empty_dict": spaces.Dict(nothing=EMPTY),
    "like names": spaces.Dict({"a b": ARM, "a/b": ARM}),
}


@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_observations_that_are_refused_are_taken_after_the_wrapper_that_is_named(kind):
    env, lines = let_in(World(OBSERVATIONS[kind]))
    assert lived(env).spec.observation_dtype in ("float32", "uint8")
    assert ("FlattenObservation(env)" in lines[0]) == ("empty" not in kind)


@pytest.mark.parametrize(
    ("space", "function", "shape"),
    [
        (spaces.Sequence(spaces.Discrete(3)), lambda x: np.float32([len(x)]), (1,)),
        (spaces.Graph(ARM, spaces.Discrete(2)), lambda x: x.nodes.sum(axis=0), (3,)),
        (spaces.Dict(a=spaces.Sequence(ARM)), lambda x: np.float32([len(x["a"])]), (1,)),
        (spaces.Discrete(10**9), lambda x: np.float32([x]) / 1e9, (1,)),
        (spaces.OneOf([MOVES, OBSERVATIONS["empty"]]), lambda x: np.float32([x[0]]), (1,)),
        (spaces.OneOf([MOVES, spaces.Graph(ARM, None)]), lambda x: np.float32([x[0]]), (1,)),
    ],
)
def test_observations_of_no_fixed_size_need_a_function(space, function, shape):
    env, lines = let_in(World(space), FUNCTION=function, SHAPE=shape)
    assert len(lines) == 1 and lived(env).spec.observation_shape == shape


@pytest.mark.parametrize(
    ("space", "shape"),
    [
        (spaces.Dict(a=ARM, b=spaces.Sequence(ARM), c=MOVES), {"a": (3,), "c": (3,)}),
        (spaces.Dict(a=spaces.Dict(b=ARM, c=spaces.Sequence(ARM)), d=ARM), (3,)),
        (
            spaces.Tuple([spaces.Sequence(ARM), MOVES, spaces.Tuple([ARM, MOVES])]),
            {"0": (3,), "1/0": (3,), "1/1": (3,)},
        ),
    ],
)
def test_parts_of_no_fixed_size_may_be_left_out(space, shape):
    env, lines = let_in(World(space))
    assert "FilterObservation" in lines[0] and lived(env).spec.observation_shape == shape


@pytest.mark.parametrize(
    ("space", "count"),
    [
        (spaces.MultiDiscrete([3, 2]), 6),
        (spaces.MultiDiscrete([[3], [2]], start=[[-1], [4]]), 6),
        (spaces.MultiDiscrete([5]), 5),
        (spaces.MultiBinary(3), 8),
        (spaces.MultiBinary([2, 1]), 4),
        (spaces.MultiDiscrete([16, 16, 16], start=[0, 2**40, -5]), MOST_COMBINATIONS),
    ],
)
def test_composite_actions_are_numbered(space, count):
    vector = envs.make("World-v0", 1, 0, factory=lambda: World(actions=space))  # takes nothing outside its space
    assert vector.spec.num_actions == count
    vector.reset()
    for action in range(count):
        vector._env.envs[0].step(vector._native(np.array([action]))[0])
    taken = vector._env.envs[0].unwrapped.taken
    assert len({one.tobytes() for one in taken}) == count
    # Numbered with the last entry first.
    sizes = np.full(space.shape, 2) if isinstance(space, spaces.MultiBinary) else space.nvec
    start = getattr(space, "start", 0)
    for number in (0, count // 2, count - 1):
        wanted = np.reshape(np.unravel_index(number, sizes.ravel()), sizes.shape) + start
        np.testing.assert_array_equal(taken[number], wanted)


@pytest.mark.parametrize("space", [spaces.Box(-1, 1, (0,)), spaces.Box(0, 1, (2, 0), np.float64)])
def test_an_action_without_components_is_the_only_one(space):
    env, lines = let_in(World(actions=space))
    assert len(lines) == 1 and lived(env).spec.num_actions == 1


@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiDiscrete([100] * 5),
        spaces.MultiBinary(40),
        spaces.Tuple([MOVES, ARM]),
        spaces.Dict(move=MOVES, more=spaces.Dict(bits=spaces.MultiBinary(2))),
        spaces.Text(4),
        spaces.Sequence(MOVES),
        spaces.Graph(ARM, None),
        spaces.OneOf([MOVES, ARM]),
        spaces.Dict(),
    ],
)
def test_other_actions_are_chosen_from_a_list(space):
    space.seed(0)
    env, lines = let_in(World(actions=space), ACTIONS=[space.sample() for _ in range(4)])
    assert len(lines) == 1 and lived(env).spec.num_actions == 4


INFINITE = (-np.inf, np.inf)
HALF = spaces.Box(np.float32([[0, -np.inf]]), np.float32([[np.inf, -5]]))
BOXES = {
    "matrix": (spaces.Box(-2, 2, (2, 3)), (-2,) * 6, (2,) * 6),
    "scalar": (spaces.Box(-0.1, 0.1, (), np.float64), (-0.1,), (0.1,)),
    "ragged": (spaces.Box(np.array([[0.0, 0.1]]), np.array([[1.0, 0.3]]), dtype=np.float64), (0.0, 0.1), (1.0, 0.3)),
    "unbounded": (spaces.Box(*INFINITE, (2,)), (-1, -1), (1, 1)),
    "half_bounded": (HALF, (0, -6), (1, -5)),
    "too_far": (spaces.Box(np.float32(-3e38), np.float32(3e38), (2,)), (-1, -1), (1, 1)),
    "integers": (spaces.Box(0, 5, (2,), np.int64), (0, 0), (5, 5)),
    "some_integers": (spaces.Box(np.int32([0, 3]), np.int32([5, 4]), dtype=np.int32), (0, 3), (5, 4)),
    "bits": (spaces.Box(0, 1, (1, 2), np.bool_), (0, 0), (1, 1)),
    "dict": (spaces.Dict(arm=ARM, more=spaces.Tuple([spaces.Box(0, 9, (1, 1))])), (-1, -1, -1, 0), (1, 1, 1, 9)),
    "dict_unbounded": (spaces.Dict(arm=spaces.Box(*INFINITE, (2,))), (-1, -1), (1, 1)),
}


@pytest.mark.parametrize("kind", BOXES)
def test_other_boxes_of_actions_become_bounded_vectors(kind):
    space, low, high = BOXES[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env, lines = let_in(World(actions=space))
    spec = lived(env).spec
    assert (spec.action_low, spec.action_high) == (low, high)
    assert len(lines) == (2 if kind == "dict_unbounded" else 1)


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
def test_a_space_that_was_forgotten(name):
    spaces_of = {"observation_space": SEEN, "action_space": MOVES} | {name: None}
    with pytest.raises(InvalidEnvironment, match=f"space None; .* set the environment's {name}"):
        spec_of("World-v0", *spaces_of.values())


@pytest.mark.parametrize(
    ("space", "scale"),
    [
        (spaces.Box(0, 255, (84, 84), np.uint8), 255),
        (spaces.Box(0, 255, (128,), np.uint8), 255),
        (spaces.Box(0, 10, (7, 7, 3), np.uint8), 10),
        (spaces.Box(np.zeros((2, 2), np.uint8), np.uint8([[10, 5], [2, 1]]), dtype=np.uint8), 10),
        (spaces.Box(0, 1, (5, 5, 2), np.uint8), 1),
        (spaces.Box(0, 0, (3,), np.uint8), 1),
        (spaces.Box(0, 255, (64, 64, 3), np.float32), 255),
        (spaces.Box(0, 255, (64, 64, 3), np.int32), 255),
        (spaces.Box(0, 255, (64, 64), np.float64), 255),
        (spaces.Box(0, 65_535, (64, 64), np.uint16), 65_535),
        (spaces.Box(0, 1, (64, 64, 3), np.float32), 1),
        (spaces.Box(0, 0.5, (5, 5, 3), np.float32), 1),
        (spaces.Box(0, 10, (5, 5, 3), np.float16), 10),
        # As they are.
        (spaces.Box(0, 1, (10, 10, 4), np.bool_), None),
        (spaces.Box(0, 255, (4,), np.float32), None),
        (spaces.Box(0, 9, (4, 4), np.int64), None),
        (spaces.Box(-1, 1, (64, 64, 3)), None),
        (spaces.Box(0, np.inf, (64, 64, 3)), None),
        (spaces.Box(0, np.finfo(np.float32).max, (64, 64, 3)), None),
        (spaces.Box(0, np.iinfo(np.int32).max, (64, 64, 3), np.int32), None),
        (spaces.Box(np.zeros((3, 3, 1)), np.arange(9.0).reshape(3, 3, 1), dtype=np.float64), None),
    ],
)
@pytest.mark.filterwarnings("error")
def test_the_scale_of_observations_follows_from_their_bounds(space, scale):
    found = spec_of("World-v0", space, MOVES).observation_scale
    assert found == scale and isinstance(found, type(scale if scale is None else 1.0))
