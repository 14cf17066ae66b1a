"""The rules of TimeStep, on recorded rows written by hand."""

import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv

from acer_tf import envs
from acer_tf.envs.vector import VectorEnvironment
from acer_tf.errors import EnvironmentFailure, InvalidEnvironment


class Tape(VectorEnv):
    """Replays recorded answers; row 0 is the reset's. Remembers the seeds and actions that it receives."""

    def __init__(self, rows, num_envs=1, observation=np.uint8, first_action=0, actions=None):
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.num_envs = num_envs
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (4, 2, 2), observation)
        self.single_action_space = actions or gymnasium.spaces.Discrete(3, start=first_action)
        self._rows = iter(rows)
        self.seeds = []
        self.actions = []

    def _answer(self):
        reward, terminated, truncated, lives = (np.reshape(x, self.num_envs) for x in next(self._rows))
        observation = np.ones((self.num_envs, 4, 2, 2), self.single_observation_space.dtype)
        return observation, reward, terminated.astype(bool), truncated.astype(bool), {"lives": lives}

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        answer = self._answer()
        return answer[0], answer[4]

    def step(self, actions):
        self.actions.append(actions)
        return self._answer()


def play(rows, **settings):
    """The TimeSteps of one environment whose tape is `rows`: (reward, terminated, truncated, lives)."""
    env = VectorEnvironment("tape", Tape(rows), seeds=None, stack=4, **settings)
    env.reset()
    steps = [env.step(np.array([0])) for _ in rows[1:]]
    return {field: [getattr(step, field)[0].item() for step in steps] for field in steps[0]._fields[1:-1]}


GAME = [
    (0.0, 0, 0, 2),  # the reset
    (5.0, 0, 0, 2),
    (7.0, 0, 0, 1),  # a life is lost
    (-3.0, 0, 0, 1),
    (0.5, 0, 0, 1),
    (2.0, 1, 0, 0),  # game over
    (9.0, 1, 1, 2),  # the next episode's first observation; the rest has no meaning
    (1.0, 0, 0, 3),  # a life is won
    (4.0, 0, 0, 2),  # and lost
    (6.0, 0, 1, 2),  # time limit
    (0.0, 0, 0, 1),  # reset to fewer lives: no life is lost here
    (8.0, 0, 0, 1),
]


def test_a_life_a_game_over_and_a_time_limit():
    steps = play(GAME, life_loss_ends_return=True)
    assert steps["mask"] == [True] * 5 + [False] + [True] * 3 + [False, True]
    assert steps["last"] == [False] * 4 + [True] + [False] * 3 + [True, False, False]
    assert steps["reward"] == [5, 7, -3, 0.5, 2, 0, 1, 4, 6, 0, 8]
    assert steps["discount"] == [1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1]
    assert steps["age"] == [1, 2, 3, 3, 3, 0, 1, 2, 3, 0, 1]


def test_without_the_life_rule_only_termination_ends_the_return():
    steps = play(GAME, life_loss_ends_return=False)
    assert steps["discount"] == [1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1]


def test_the_fall_to_no_lives_is_left_to_termination():
    steps = play([(0, 0, 0, 1), (0, 0, 0, 0), (0, 1, 0, 0)], life_loss_ends_return=True)
    assert steps["discount"] == [1, 0]


def test_termination_at_the_time_limit_ends_the_return():
    steps = play([(0, 0, 0, 1), (1, 1, 1, 1)])
    assert steps["discount"] == [0] and steps["last"] == [True]


def test_a_life_lost_at_the_time_limit_ends_the_return():
    steps = play([(0, 0, 0, 2), (1, 0, 1, 1)], life_loss_ends_return=True)
    assert steps["discount"] == [0] and steps["last"] == [True]


def test_environments_are_independent():
    rows = [([0, 0], [0, 0], [0, 0], [3, 3])] + [([1, 2], [k == 1, 0], [0, k == 2], [3, 3]) for k in range(4)]
    env = VectorEnvironment("tape", Tape(rows, num_envs=2), seeds=None, stack=4)
    env.reset()
    steps = [env.step(np.array([0, 0])) for _ in range(4)]
    np.testing.assert_array_equal([s.last for s in steps], [[0, 0], [1, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal([s.mask for s in steps], [[1, 1], [1, 1], [0, 1], [1, 0]])
    np.testing.assert_array_equal([s.age for s in steps], [[1, 1], [2, 2], [0, 3], [1, 0]])
    np.testing.assert_array_equal([s.discount for s in steps], [[1, 1], [0, 1], [1, 1], [1, 1]])


def test_shapes_and_dtypes():
    env = VectorEnvironment("tape", Tape([([0] * 5,) * 4] * 2, num_envs=5), seeds=None, stack=4)
    dtypes = dict(observation="uint8", age="uint8", reward="float32", discount="float32", mask="bool", last="bool")
    for step in (env.reset(), env.step(np.zeros(5, np.int32))):
        assert {field: str(getattr(step, field).dtype) for field in step._fields[:-1]} == dtypes
        assert step.legal is None
        assert step.observation.shape == (5, 4, 2, 2)
        assert all(getattr(step, field).shape == (5,) for field in step._fields[1:-1])


def test_an_unstacked_observation_has_age_zero():
    env = VectorEnvironment("tape", Tape(GAME), seeds=None)
    assert env.reset().age == 0
    assert [env.step(np.array([0])).age.item() for _ in GAME[1:]] == [0] * (len(GAME) - 1)


@pytest.mark.parametrize(
    "given, kept",
    [("float64", "float32"), ("float32", "float32"), ("uint8", "uint8"), ("bool", "bool"), ("int64", "float32")],
)
def test_observations_are_uint8_bool_or_float32(given, kept):
    env = VectorEnvironment("tape", Tape(GAME, observation=np.dtype(given).type), seeds=None)
    assert env.spec.observation_dtype == env.reset().observation.dtype == kept


def test_actions_are_shifted_to_the_start_of_the_space():
    tape = Tape(GAME, first_action=-1)
    env = VectorEnvironment("tape", tape, seeds=None)
    env.reset()
    env.step(np.array([0]))
    env.step(np.array([2]))
    assert (env.spec.num_actions, env.spec.action_start) == (3, -1)
    assert [a.item() for a in tape.actions] == [-1, 1]


def test_seeds_go_to_the_first_reset_only():
    tape = Tape(GAME)
    env = VectorEnvironment("tape", tape, seeds=[11])
    env.reset()
    env.reset()
    assert tape.seeds == [[11], None]


def test_a_second_reset_forgets_the_previous_episode():
    env = VectorEnvironment(
        "tape", Tape([GAME[0], GAME[5], GAME[0], GAME[1]]), seeds=None, stack=4, life_loss_ends_return=True
    )
    env.reset()
    assert env.step(np.array([0])).last
    env.reset()
    step = env.step(np.array([0]))
    assert step.mask and step.reward == 5 and step.age == 1


@pytest.mark.parametrize("action", [np.array([3]), np.array([-1]), np.array([0, 0]), np.array(0), np.array([0.0])])
def test_bad_actions_are_refused(action):
    env = VectorEnvironment("tape", Tape(GAME), seeds=None)
    env.reset()
    with pytest.raises(ValueError, match="actions"):
        env.step(action)


def test_a_step_before_reset_is_refused():
    with pytest.raises(RuntimeError, match="reset"):
        VectorEnvironment("tape", Tape(GAME), seeds=None).step(np.array([0]))


def test_another_autoreset_mode_is_refused():
    tape = Tape(GAME)
    tape.metadata["autoreset_mode"] = AutoresetMode.SAME_STEP
    with pytest.raises(ValueError, match="NEXT_STEP"):
        VectorEnvironment("tape", tape, seeds=None)


def test_pictures_must_be_asked_for():
    with pytest.raises(RuntimeError, match="render=True"):
        VectorEnvironment("tape", Tape(GAME), seeds=None).render()


@pytest.mark.parametrize("picture, size", [((10, 10), 160), ((7, 100), 161), ((210, 160), 210)])
def test_small_pictures_are_enlarged(picture, size):
    height, width = picture
    first = np.linspace(0, 1, height * width * 3).reshape(height, width, 3)
    enlarged = VectorEnvironment("tape", Tape(GAME), seeds=None, picture=lambda: first).render()
    scale = size // height
    assert enlarged.dtype == np.uint8 and enlarged.shape == (height * scale, width * scale, 3)
    np.testing.assert_array_equal(enlarged[::scale, ::scale], np.rint(255 * first))
    np.testing.assert_array_equal(enlarged[scale - 1 :: scale, scale - 1 :: scale], np.rint(255 * first))


def test_colours_are_from_0_to_1_or_to_255_and_pictures_of_one_size():
    given = [np.full((200, 200, 3), 200.0), np.full((200, 200, 3), 0.5), np.zeros((200, 100, 3)), None]
    pictures = iter([*given, np.zeros((200, 200, 4))])
    env = VectorEnvironment("tape", Tape(GAME), seeds=None, picture=lambda: next(pictures))
    assert [env.render().max() for _ in range(2)] == [200, 128]
    for shape in (r"\(200, 100, 3\)", r"\(\)", r"\(200, 200, 4\)"):
        with pytest.raises(EnvironmentFailure, match=rf"^tape failed in render.* of shape {shape}.*\(200, 200, 3\)"):
            env.render()


LOW, HIGH = np.float32([-2, 0, 10]), np.float32([2, 1, 30])


def continuous(num_envs=1, dtype=np.float32, low=LOW, high=HIGH):
    tape = Tape([([0] * num_envs,) * 4] * 9, num_envs=num_envs, actions=gymnasium.spaces.Box(low, high, dtype=dtype))
    env = VectorEnvironment("tape", tape, seeds=None)
    env.reset()
    return env, tape


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_continuous_actions_are_clipped_then_scaled(dtype):
    env, tape = continuous(num_envs=2, dtype=dtype)
    assert env.spec.continuous and env.spec.action_size == 3 and env.spec.num_actions == 0
    env.step(np.float32([[-1, -1, -1], [1, 1, 1]]))
    env.step(np.float32([[-7, 1.5, 1e30], [0, 0, 0]]))
    env.step(np.float32([[0.5, -0.5, 0.25], [-0.25, 0.75, -0.75]]))
    want = [[[-2, 0, 10], [2, 1, 30]], [[-2, 1, 30], [0, 0.5, 20]], [[1, 0.25, 22.5], [-0.5, 0.875, 12.5]]]
    np.testing.assert_array_equal(tape.actions, want)
    assert all(action.dtype == dtype for action in tape.actions)


def test_scaled_actions_keep_to_odd_bounds():
    random = np.random.default_rng(0)
    low = random.normal(size=1000).astype(np.float32)
    env, tape = continuous(low=low, high=low + random.uniform(0, 3, 1000).astype(np.float32))
    for end in (-1, 1, 0.9999999):
        env.step(np.full((1, 1000), end, np.float32))
    assert all(tape.single_action_space.contains(action[0]) for action in tape.actions)
    np.testing.assert_array_equal(tape.actions[0][0], low)


@pytest.mark.parametrize(
    "action, complaint",
    [
        (np.zeros((2, 2), np.float32), "expected \\[2, 3\\] real"),
        (np.zeros((3, 3), np.float32), "expected \\[2, 3\\] real"),
        (np.zeros(3, np.float32), "expected \\[2, 3\\] real"),
        (np.zeros((2, 3), np.int32), "got int32"),
        (np.float32([[0, 0, np.nan], [0, 0, 0]]), "finite"),
        (np.float32([[0, 0, 0], [0, -np.inf, 0]]), "finite"),
    ],
)
def test_bad_continuous_actions(action, complaint):
    env, tape = continuous(num_envs=2)
    with pytest.raises(ValueError, match=complaint):
        env.step(action)
    assert tape.actions == []


@pytest.mark.parametrize("space", [gymnasium.spaces.Box(-np.inf, 1, (2,)), gymnasium.spaces.MultiBinary(13)])
def test_unsupported_action_spaces(space):
    with pytest.raises(InvalidEnvironment, match="action space"):
        VectorEnvironment("tape", Tape(GAME, actions=space), seeds=None)


def test_the_clock():
    assert VectorEnvironment("tape", Tape(GAME), seeds=None).steps_per_second is None
    assert VectorEnvironment("tape", Tape(GAME), seeds=None, steps_per_second=40.0).steps_per_second == 40


def test_infos_that_gymnasium_could_not_join_are_ignored():
    infos = [{"winner": 3}, {"winner": None}, {"path": np.arange(2)}, {"path": np.arange(5)}, {"winner": "none"}]
    left = itertools.cycle(infos)

    class Talkative(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), next(left)

        def step(self, action):
            return np.zeros(1, np.float32), 1.0, False, False, next(left)

    env = envs.make("talkative", 5, 0, factory=Talkative)
    env.reset()
    for _ in range(2):
        assert (env.step(np.zeros(5, int)).reward == 1.0).all()
    env.close()
