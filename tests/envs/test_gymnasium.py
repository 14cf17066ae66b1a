"""gymnasium's environments: time limits, seeds, pictures, and arrays that are not overwritten."""

from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from acer_tf import envs
from acer_tf.envs.gymnasium import split_arguments
from acer_tf.errors import InvalidEnvironment
from tests.gymnasium_ids import TAXI


class Corridor(gymnasium.Env):
    """Walk to the right end; actions are -1 and 1, observations float64."""

    metadata = {"render_modes": ["rgb_array"]}
    action_space = gymnasium.spaces.Discrete(2, start=3)
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)

    made: ClassVar[list[gymnasium.Env]] = []

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.made.append(self)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.array([0.0]), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.at += {3: -1, 4: 1}[int(action)]
        return np.array([float(self.at)]), float(self.at), self.at == 3, False, {}

    def render(self):
        return np.full((4, 4, 3), 40 * self.at, np.uint8)


@pytest.fixture(autouse=True)
def corridor():
    gymnasium.register("Corridor-v0", lambda **settings: Corridor(**settings), max_episode_steps=5)
    yield
    del gymnasium.registry["Corridor-v0"]


def test_termination_and_time_limit():
    env = envs.make("Corridor-v0", 2, 0)
    env.reset()
    steps = [env.step(np.array([1, step % 2])) for step in range(7)]
    np.testing.assert_array_equal(
        [s.observation[:, 0] for s in steps], [[1, -1], [2, 0], [3, -1], [0, 0], [1, -1], [2, 0], [3, -1]]
    )
    np.testing.assert_array_equal(
        [s.reward for s in steps], [[1, -1], [2, 0], [3, -1], [0, 0], [1, -1], [2, 0], [3, -1]]
    )
    np.testing.assert_array_equal([s.last for s in steps], [[0, 0], [0, 0], [1, 0], [0, 0], [0, 1], [0, 0], [1, 0]])
    np.testing.assert_array_equal([s.mask for s in steps], [[1, 1], [1, 1], [1, 1], [0, 1], [1, 1], [1, 0], [1, 1]])
    np.testing.assert_array_equal([s.discount for s in steps], [[1, 1], [1, 1], [0, 1], [1, 1], [1, 1], [1, 1], [0, 1]])
    assert steps[0].observation.dtype == np.float32


def test_cartpole_balanced_to_its_limit_is_truncated_and_dropped_is_terminated():
    env = envs.make("CartPole-v1", 2, 0)
    steps = [env.reset()]
    for _ in range(500):
        lean = steps[-1].observation[0] @ [0.2, 0.3, 1.0, 1.0]
        steps.append(env.step(np.array([int(lean > 0), 0])))
    last, discount = np.array([s.last for s in steps]), np.array([s.discount for s in steps])
    np.testing.assert_array_equal(np.flatnonzero(last[:, 0]), [500])
    assert discount[:, 0].all()
    assert last[:, 1].sum() > 40
    np.testing.assert_array_equal(discount[:, 1], 1 - last[:, 1])


LIMITED = ["Pendulum-v1", "minatar/freeway", "atari/Freeway", "control/cheetah", "dm_control/cheetah-run-v0"]


@pytest.mark.parametrize("env_id", LIMITED)
def test_an_earlier_time_limit_truncates_in_every_family(env_id):
    if "control" in env_id:
        pytest.importorskip("mujoco")
    env = envs.make(env_id, 2, 0, max_episode_steps=3)
    env.reset()
    action = np.zeros((2, *env.spec.action_shape), env.spec.action_dtype)
    steps = [env.step(action) for _ in range(9)]
    np.testing.assert_array_equal([s.last.all() for s in steps], [t % 4 == 2 for t in range(9)])
    np.testing.assert_array_equal([s.mask.any() for s in steps], [t % 4 != 3 for t in range(9)])
    assert all(s.discount.all() for s in steps) and env.has_time_limit


def test_a_later_time_limit_changes_nothing():
    env = envs.make("Corridor-v0", 1, 0, max_episode_steps=6)
    env.reset()
    assert [env.step(np.array([0])).last.item() for _ in range(6)] == [False] * 4 + [True, False]


def test_whether_there_is_a_time_limit():
    assert envs.make("Corridor-v0", 1, 0).has_time_limit
    assert not envs.make("own", 1, 0, factory=Corridor).has_time_limit
    assert envs.make("own", 1, 0, factory=Corridor, max_episode_steps=9).has_time_limit
    assert envs.make("own", 1, 0, factory=lambda: OrderEnforcing(TimeLimit(Corridor(), 9))).has_time_limit


@pytest.mark.parametrize("env_id", ["CartPole-v1", "minatar/freeway"])
def test_seeds(env_id):
    def play(seed, num_envs=8):
        env = envs.make(env_id, num_envs, seed)
        env.reset()
        return np.stack([env.step(np.full(num_envs, t % 2)).observation for t in range(40)], axis=1)

    np.testing.assert_array_equal(play(0), play(0))
    # No two environments of a run, a run with a nearby seed, or its resumption share an episode.
    episodes = np.concatenate([play(0), play(1), play((0, 1)), play((0, 2))]).reshape(32, -1)
    assert len(np.unique(episodes, axis=0)) == 32
    np.testing.assert_array_equal(play(0, num_envs=3), play(0)[:3])


@pytest.mark.parametrize("env_id", ["Corridor-v0", "CartPole-v1", TAXI, "minatar/breakout", "atari/Pong"])
def test_returned_arrays_are_never_overwritten(env_id):
    env = envs.make(env_id, 2, 0)
    answers = [env.reset()] + [env.step(np.array([0, 1])) for _ in range(30)]
    kept = [[array for array in step if array is not None] for step in answers]
    copies = [[array.copy() for array in step] for step in kept]
    for _ in range(30):
        env.step(np.array([1, 0]))
    env.reset()
    for step, copy in zip(kept, copies, strict=True):
        for array, as_returned in zip(step, copy, strict=True):
            np.testing.assert_array_equal(array, as_returned)
    for earlier, later in zip(kept, kept[1:], strict=False):
        assert not any(np.shares_memory(a, b) for a, b in zip(earlier, later, strict=True))


def test_pictures():
    env = envs.make("Corridor-v0", 2, 0, render=True)
    env.reset()
    env.step(np.array([1, 0]))
    env.step(np.array([1, 1]))
    picture = env.render()
    assert picture.shape == (160, 160, 3) and picture.dtype == np.uint8
    assert (picture == 80).all()


def test_only_the_first_is_drawn():
    envs.make("Corridor-v0", 3, 0, render=True)
    assert [env.unwrapped.render_mode for env in Corridor.made[-3:]] == ["rgb_array", None, None]


@pytest.mark.parametrize(
    ("declared", "rate"),
    [(20, 20), (12.5, 12.5), (None, None), (0, None), (-3, None), ("fast", None), (np.nan, None), (np.inf, None)],
)
def test_a_second_of_video_is_a_second_of_what_the_environment_declares(monkeypatch, declared, rate):
    monkeypatch.setitem(Corridor.metadata, "render_fps", declared)
    assert envs.make("Corridor-v0", 1, 0).steps_per_second == rate


def test_the_spec_is_the_environments():
    assert envs.spec("Corridor-v0") == envs.make("Corridor-v0", 3, 0).spec
    assert envs.spec("CartPole-v1").observation_shape == (4,) and envs.spec("CartPole-v1").num_actions == 2
    assert envs.spec("Corridor-v0").frame_shape == (1,)


def test_close():
    env = envs.make("Corridor-v0", 1, 0)
    env.close()
    env.close()


@pytest.mark.parametrize("env_id, observation, action", [("Pendulum-v1", 3, 1), ("HalfCheetah-v5", 17, 6)])
def test_continuous_actions(env_id, observation, action):
    """Compared with the bare environment, whose actions are ours scaled to its bounds."""
    if env_id == "HalfCheetah-v5":
        pytest.importorskip("mujoco")
    env = envs.make(env_id, 2, 0)
    assert env.spec.observation_shape == (observation,) and env.spec.observation_dtype == "float32"
    assert env.spec.action_size == action and env.spec.num_actions == 0
    actions = np.random.default_rng(0).normal(0, 1, (30, 2, action)).astype(np.float32)
    steps = [env.reset()] + [env.step(a) for a in actions]
    for i, word in enumerate(np.random.SeedSequence(0).generate_state(2)):
        bare = gymnasium.make(env_id)
        first, _ = bare.reset(seed=int(word >> 1))
        np.testing.assert_allclose(steps[0].observation[i], first, rtol=1e-6)
        for step, a in zip(steps[1:], actions[:, i], strict=True):
            want, reward, *_ = bare.step(np.clip(a, -1, 1) * bare.action_space.high)
            np.testing.assert_allclose(step.observation[i], want, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(step.reward[i], reward, rtol=1e-4, atol=1e-5)


def test_pendulums_time_limit_is_not_a_termination():
    env = envs.make("Pendulum-v1", 1, 0)
    env.reset()
    steps = [env.step(np.zeros((1, 1), np.float32)) for _ in range(202)]
    assert np.flatnonzero([s.last.item() for s in steps]).tolist() == [199]
    assert all(s.discount.all() for s in steps)


@pytest.mark.parametrize(
    "env_id", ["ALE/Pong-v5", "PongNoFrameskip-v4", "PongDeterministic-v4", "Pong-v0", "ALE/MsPacman-v5"]
)
def test_other_projects_ids_of_atari_games_name_ours(env_id):
    game = "MsPacman" if "MsPacman" in env_id else "Pong"
    with pytest.raises(InvalidEnvironment, match=f"^{env_id} .*atari/{game}$"):
        envs.spec(env_id)


def test_what_follows_the_id_are_arguments():
    assert split_arguments("FrozenLake-v1") == ("FrozenLake-v1", {})
    text = "m:X-v0,slip=false,wind=True,size=1_000,rate=1e-3,low=.5,high=inf,map=8x8,goal=a:b=c,none=None,null=null"
    expected = {"slip": False, "wind": True, "size": 1_000, "rate": 1e-3, "low": 0.5, "high": np.inf, "map": "8x8"}
    expected |= {"goal": "a:b=c", "none": None, "null": None}
    found, arguments = split_arguments(text)
    assert (found, arguments) == ("m:X-v0", expected)
    assert [type(value) for value in arguments.values()] == [type(value) for value in expected.values()]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.process)])
def test_an_environment_is_made_with_its_arguments(workers):
    env = envs.make("FrozenLake-v1,is_slippery=false,map_name=8x8,max_episode_steps=3", 2, 0, workers=workers)
    assert env.spec.observation_shape == (64,)
    env.reset()
    seen = [env.step(np.array([2, 1])) for _ in range(3)]  # right, and down: on ice the way would be another
    assert [step.observation.argmax(axis=1).tolist() for step in seen] == [[1, 8], [2, 16], [3, 24]]
    assert seen[-1].last.all() and seen[-1].discount.all(), "its limit of 3 steps truncates"
    env.close()


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("FrozenLake-v1,slip=1", "^FrozenLake-v1 takes no argument slip$"),
        ("FrozenLake-v1,is_slippery", "^FrozenLake-v1,is_slippery: 'is_slippery' must be NAME=VALUE"),
        ("FrozenLake-v1,", "^FrozenLake-v1,: '' must be NAME=VALUE"),
        ("FrozenLake-v1,is_slippery=1,is_slippery=0", "is_slippery is given twice"),
        ("FrozenLake-v1,render_mode=human", "render_mode is no argument to give"),
        ("FrozenLake-v1,id=CartPole-v1", "id is no argument to give"),
        ("FrozenLak-v1,is_slippery=false", "there is no environment 'FrozenLak-v1'; did you mean FrozenLake-v1"),
        ("atari/Pong,frameskip=4", "there is no environment 'atari/Pong,frameskip=4': atari/Pong takes no arguments$"),
    ],
)
def test_arguments_that_it_does_not_take_are_refused(env_id, message):
    with pytest.raises(InvalidEnvironment, match=message):
        envs.spec(env_id)


class Shared(gymnasium.Env):
    """All copies show their number of steps in one array."""

    observation_space = gymnasium.spaces.Dict(a=gymnasium.spaces.Box(0, 99, (1,)), b=gymnasium.spaces.Box(0, 99, (1,)))
    action_space = gymnasium.spaces.Discrete(3)
    action_space.dtype = np.dtype(np.uint8)  # gymnasium 1.1 has no argument for it
    shown = {"a": np.zeros(1, np.float32), "b": np.zeros(1, np.float32)}

    def reset(self, *, seed=None, options=None):
        self.count = 0 if seed is None else seed % 50
        return self._see(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.count += 1
        return self._see(), float(self.count), False, False, {}

    def _see(self):
        for part in self.shown.values():
            part[:] = self.count
        return self.shown


def test_copies_may_share_an_array_and_actions_have_the_dtype_of_their_space():
    env = envs.make("shared", 3, 0, factory=Shared)
    first = env.reset().observation["a"]
    assert len(np.unique(first)) > 1
    step = env.step(np.array([0, 1, 2]))
    np.testing.assert_array_equal(step.observation["b"][:, 0], step.reward)
    np.testing.assert_array_equal(first, step.observation["a"] - 1)
