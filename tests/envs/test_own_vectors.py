"""Vector environments of the caller's: their reset modes, seeds, numbers and answers."""

from __future__ import annotations

import signal

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from acer_tf import envs, evaluate, load_policy
from acer_tf.envs.own_vectors import PAUSED, OwnVector
from acer_tf.errors import EnvironmentFailure, InvalidEnvironment, SettingsError
from acer_tf.networks.discrete import Network
from acer_tf.policies.current import CurrentPolicy
from acer_tf.training.train import train
from tests.envs.test_masks import CODES, A, ByMethod, Masked, Shown
from tests.envs.test_masks import rows_of as masked_rows
from tests.envs.test_workers import Nested
from tests.gymnasium_ids import TAXI
from tests.policies.test_export import make_metadata
from tests.training.scripted import rows_of, small_settings, timeless

BOX = spaces.Box(0, 100, (1,), np.float32)


class Counting(gymnasium.Env):
    """Observes 10 · episode + steps; its episodes have `length` steps, of which the last of each third one is a cut."""

    observation_space, action_space = BOX, spaces.Discrete(2)

    def __init__(self, length):
        self.length, self.episode = length, -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.steps = self.episode + 1, 0
        return self._see(), {}

    def step(self, action):
        self.steps += 1
        over = self.steps == self.length
        return self._see(), 1.0, over and self.episode % 3 != 2, over and self.episode % 3 == 2, {}

    def _see(self):
        return np.array([10 * self.episode + self.steps], np.float32)


def counting(mode, lengths=(2, 3)):
    return SyncVectorEnv([lambda n=n: Counting(n) for n in lengths], autoreset_mode=mode)


def stream(env, number, count):
    """What environment `number` did, without masked rows: (observation, reward, last, discount)."""
    rows = [(float(env.reset().observation[number, 0]),)]
    for _ in range(count):
        step = env.step(np.zeros(env.num_envs, int))
        if not step.mask[number]:
            assert step.reward[number] == 0 and step.discount[number] == 1 and not step.last[number]
        if step.mask[number] or rows[-1][0] != step.observation[number, 0]:
            rows.append(
                (float(step.observation[number, 0]), step.reward[number], step.last[number], step.discount[number])
            )
    return rows


@pytest.mark.parametrize("number", [0, 1])
def test_same_step_is_the_same_stream_as_next_step(number):
    following, same = (
        stream(envs.make("mine", 1, 0, factory=lambda mode=mode: counting(mode)), number, 40)
        for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)
    )
    count = min(len(following), len(same))
    assert count > 20 and following[:count] == same[:count]
    assert {row[3] for row in same[1:] if row[2]} == {0.0, 1.0}  # terminations and cuts


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("kind", [SyncVectorEnv, pytest.param(AsyncVectorEnv, marks=pytest.mark.process)])
def test_nested_observations_and_their_final_ones(mode, kind):
    def make(num_envs):
        return kind([Nested] * num_envs, autoreset_mode=mode)

    ours, own = envs.make("mine", 2, 5, factory=Nested), envs.make("mine", 2, 5, factory=make)
    rows = []
    for env in (ours, own):
        found = [env.reset()]
        while sum(step.last[0] for step in found) < 3:
            found.append(env.step(np.zeros(2, int)))
        rows.append([step for step in found if step.mask[0] or env is ours or step is found[0]])
        env.close()
    masked = [step for step in rows[0] if step.mask[0]]
    for one, other in zip(masked, [step for step in rows[1] if step.mask[0]], strict=True):
        for name, leaf in one.observation.items():
            np.testing.assert_array_equal(leaf[0], other.observation[name][0])


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_its_action_masks_are_those_of_the_observations(mode):
    """In Taxi, as infos; after a pause too, and at the final observation of an episode that is cut."""

    def make(num_envs):
        taxi = [lambda: gymnasium.make(TAXI, max_episode_steps=7), lambda: gymnasium.make(TAXI)]
        return SyncVectorEnv(taxi[:num_envs], autoreset_mode=mode)

    env, table = envs.make(TAXI, 2, 0, factory=make), gymnasium.make(TAXI).unwrapped
    assert env.spec.action_masks
    found = [env.reset()]
    for _ in range(30):
        found.append(env.step(found[-1].legal.argmax(axis=1)))
    for step in found:
        for place, legal in zip(step.observation.argmax(axis=1), step.legal, strict=True):
            expected = table.action_mask(place).astype(bool)
            assert (legal == expected).all()
    assert sum(step.last[0] and not legal.all() for step in found for legal in [step.legal[0]]) >= 3
    assert not envs.make(TAXI, 2, 0, factory=make, action_masks=False).spec.action_masks


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("kind", [Shown, ByMethod])
@pytest.mark.parametrize("cut", [False, True])
def test_masks_in_observations_and_of_methods_are_those_of_single_environments(cut, kind, mode):
    """But for a method at an episode's end in SAME_STEP mode, when the next episode has begun: all actions."""

    def make(num_envs):
        return SyncVectorEnv([lambda: kind(cut)] * num_envs, autoreset_mode=mode)

    env = envs.make("masked", 2, 0, factory=make)
    assert env.spec.action_masks
    steps = masked_rows(env)
    assert sum(step.last.any() for step in steps) >= 5
    for step in steps:
        shown = CODES[step.observation[:, 0].astype(int)].astype(bool)
        unread = step.discount == 0  # nothing is read after a termination
        if kind is ByMethod and mode == AutoresetMode.SAME_STEP:
            unread[:] = True
        shown[step.last & unread] = True
        np.testing.assert_array_equal(step.legal, shown)


@pytest.mark.parametrize("mode", [None, AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_method_is_not_asked_for_a_mask_where_an_episode_has_terminated(mode):
    class Strict(ByMethod):
        def action_masks(self):
            assert self.count < 3
            return super().action_masks()

    def make(num_envs):
        return SyncVectorEnv([Strict] * num_envs, autoreset_mode=mode)

    env = envs.make("masked", 2, 0, factory=make if mode else Strict)
    assert sum(step.last.any() for step in masked_rows(env)) >= 5


def test_a_wrong_mask_is_of_the_step_since_its_own_reset_also_after_a_pause_for_another():
    class Uneven(Masked):
        number = 0

        def step(self, action):
            observation, reward, _, truncated, info = super().step(action)
            if self.number and self.count == 2:
                info = {"action_mask": np.zeros(A, np.int8)}
            return observation, reward, self.number == 0, truncated, info

    def make(num_envs):
        env = SyncVectorEnv([Uneven] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
        env.envs[1].number = 1
        return env

    env = envs.make("masked", 2, 0, factory=make)
    with pytest.raises(EnvironmentFailure, match="environment 1, 2 steps after its reset, gave .* that forbids"):
        masked_rows(env)


@pytest.mark.parametrize("final", [np.array([{"action_mask": np.array([0, 1])}, None]), [{"action_mask": [0, 1]}, 5]])
def test_final_infos_may_be_those_of_each_environment(final):
    info = {"final_obs": np.full((2, 1), 7.0), "action_mask": np.array([[1, 0], [1, 0]]), "final_info": final}
    env = OwnVector("mine", Scripted(answer(info=info)))
    env.mask_of = lambda observation, info: info.get("action_mask")
    *_, found = env.step(None)
    assert [list(mask) for mask in found["action_mask"]] == [[0, 1], [1, 0]]  # environment 0 has ended


def test_a_way_out_that_is_a_wrapper_goes_around_each_environment():
    vector = counting(AutoresetMode.NEXT_STEP)
    vector.single_action_space = spaces.Box(-np.inf, np.inf, (2,))
    with pytest.raises(InvalidEnvironment, match="TransformAction.*, around each environment before they are joined$"):
        envs.make("mine", 2, 0, factory=lambda: vector)


def test_a_vector_environment_that_was_closed_is_not_taken_again():
    kept = counting(AutoresetMode.NEXT_STEP)
    envs.make("mine", 2, 0, factory=lambda: kept).close()
    with pytest.raises(InvalidEnvironment, match="^mine: its function must make a new vector environment at each call"):
        envs.make("mine", 2, 0, factory=lambda: kept)


class EnvPoolMixin:
    """The name by which EnvPool's environments are known."""


class OldPool(EnvPoolMixin):
    """EnvPool's CartPole as it was before version 1.2.5: no VectorEnv, its spaces those of one environment."""

    def __init__(self, num_envs, seed):
        self.seed, self._envs = seed, gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="sync")
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space

    def __len__(self):
        return self._envs.num_envs

    def reset(self):
        return self._envs.reset(seed=self.seed)

    def step(self, actions):
        return self._envs.step(actions)

    def close(self):
        self._envs.close()


@pytest.mark.training
def test_old_envpool_is_trained_in(tmp_path):
    made = []

    def make(num_envs, seed):
        made.append(OldPool(num_envs, seed))
        return made[-1]

    train(small_settings(total_steps=200), tmp_path / "run", env=make, quiet=True)
    assert evaluate(tmp_path / "run" / "policy", episodes=2, env=make).mean > 0
    assert len({pool.seed for pool in made}) > 1 and all(pool._envs.closed for pool in made)


class Scripted(VectorEnv):
    """Two environments that give the answers that they are made with, in SAME_STEP mode."""

    single_observation_space, single_action_space = BOX, spaces.Discrete(2)
    num_envs = 2

    def __init__(self, answer, mode=AutoresetMode.SAME_STEP):
        self.answer, self.metadata, self.seeds = answer, {"autoreset_mode": mode}, []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return np.zeros((2, 1), np.float32), {}

    def step(self, actions):
        return self.answer


def answer(**changes):
    usual = {
        "observation": np.ones((2, 1), np.float32),
        "reward": np.ones(2),
        "terminated": np.array([True, False]),
        "truncated": np.zeros(2, bool),
        "info": {"final_obs": np.full((2, 1), 7.0)},
    }
    return tuple((usual | changes).values())


def test_final_observations_may_be_one_array_and_are_not_kept_by_reference():
    shown = np.ones((2, 1), np.float32)
    env = OwnVector("mine", Scripted(answer(observation=shown)))
    observation, *_ = env.step(None)
    assert observation.tolist() == [[7.0], [1.0]]
    shown[:] = 5  # its buffer
    observation, reward, _, _, info = env.step(None)
    assert observation.tolist() == [[1.0], [1.0]] and info[PAUSED] and not reward.any()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"observation": np.ones((3, 1))}, r"observations of shape \(3, 1\)"),
        ({"observation": np.ones((2, 1), complex)}, "dtype complex128"),
        ({"reward": np.ones((2, 1))}, r"rewards of shape \(2, 1\)"),
        ({"terminated": np.ones(2)}, "terminated of shape .* dtype float64, but 2 booleans are due"),
        ({"info": {}}, "final_obs"),
        ({"info": None}, "infos must be a dictionary"),
        ({"info": {"final_obs": np.ones((2, 3))}}, r"final_obs of environment 0 has shape \(3,\)"),
        ({"info": {"final_obs": np.ones((2, 1), complex)}}, "final_obs of environment 0 .* dtype complex128"),
        ({"info": {"final_obs": None}}, "final_obs must have an observation where an episode ends"),
        ({"info": {"final_obs": np.ones((0, 1))}}, "final_obs must have an observation where an episode ends"),
        ({"observation": [[1.0], [1.0, 2.0]]}, "observations of shape"),
        ({"reward": [1.0, [2.0]]}, "rewards of shape"),
    ],
)
def test_wrong_answers_are_one_line(wrong, message):
    env = envs.make("mine", 2, 0, factory=lambda: Scripted(answer(**wrong)))
    env.reset()
    with pytest.raises(EnvironmentFailure, match=f"^mine failed in step.*{message}"):
        env.step(np.zeros(2, int))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"action_mask": 1}, "action masks 1, but 2 are due"),
        ({"action_mask": "11"}, "action masks '11', but 2 are due"),
        ({"action_mask": np.ones(3)}, "action masks .*, but 2 are due"),
        ({"_action_mask": np.ones(3, bool)}, r"_action_mask of shape \(3,\)"),
        ({"_action_mask": "yes"}, "_action_mask of shape"),
        ({"_action_mask": np.full(2, 0.5)}, "_action_mask of shape .* dtype float64"),
    ],
)
def test_masks_of_another_form_are_one_line(wrong, message):
    given = {"final_obs": np.full((2, 1), 7.0), "action_mask": np.ones((2, 2), np.int8)}
    env = OwnVector("mine", Scripted(answer(info={**given, **wrong})))
    env.mask_of = lambda observation, info: info.get("action_mask")
    with pytest.raises(EnvironmentFailure, match=rf"^mine failed in step\(\): it returned {message}"):
        env.step(None)


def test_seeds_reach_it_in_the_form_that_it_takes():
    made = []

    def make(num_envs, seed):
        made.append((num_envs, seed))
        return Scripted(answer())

    def make_unseeded(num_envs):
        return make(num_envs, None)

    seeded, unseeded = (envs.make("mine", 2, 0, factory=one) for one in (make, make_unseeded))
    for env in (seeded, unseeded):
        env.reset()
    assert [env._env._env.seeds[-1] for env in (seeded, unseeded)] == [None, made[0][1]]


@pytest.mark.parametrize("mode", [AutoresetMode.DISABLED, None, "Sometimes"])
def test_one_that_does_not_begin_episodes_is_refused(mode):
    with pytest.raises(InvalidEnvironment, match='metadata."autoreset_mode".*NEXT_STEP or SAME_STEP'):
        envs.make("mine", 2, 0, factory=lambda: Scripted(answer(), mode))


@pytest.mark.parametrize("given", [gymnasium.make("CartPole-v1"), counting(AutoresetMode.NEXT_STEP), "CartPole-v1"])
def test_an_object_is_no_function_that_makes_one(given, tmp_path):
    with pytest.raises(InvalidEnvironment, match="env must be a function that makes one environment"):
        train(small_settings(), tmp_path / "run", env=given)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("factory", "options", "message"),
    [
        (lambda num_envs: Nested(), {}, "takes num_envs.*VectorEnv, not a Nested"),
        (lambda num_envs: Scripted(answer()), {}, "made 2 environments for num_envs=3"),
        (lambda: Scripted(answer()), {"max_episode_steps": 5}, "no limit of 5 steps"),
        (lambda: Scripted(answer()), {"workers": 3}, "leave --env_workers"),
        (lambda: Scripted(answer()), {"render": True}, "cannot be rendered"),
    ],
)
def test_what_it_does_not_do_is_refused(factory, options, message):
    with pytest.raises(InvalidEnvironment, match=message):
        envs.make("mine", 3, 0, factory=factory, **options)


@pytest.mark.training
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_it_trains_and_is_evaluated(mode, tmp_path):
    def make(num_envs):
        options = {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": mode}}
        return gymnasium.make_vec("CartPole-v1", num_envs=num_envs, **options)

    train(small_settings(num_envs=4), tmp_path / "own", quiet=True, env=make)
    result = evaluate(load_policy(tmp_path / "own/policy"), episodes=5, num_envs=2, env=make)
    assert len(result.returns) == 5 and result.returns == result.steps  # CartPole pays 1 a step
    last = rows_of(tmp_path / "own")[-1]
    assert float(last["mean_return"]) == float(last["mean_length"])
    if mode == AutoresetMode.NEXT_STEP:  # then nothing differs from our own
        train(small_settings(num_envs=4), tmp_path / "ours", quiet=True)
        assert timeless(tmp_path / "own") == timeless(tmp_path / "ours")
        assert result == evaluate(load_policy(tmp_path / "ours/policy"), episodes=5, num_envs=2)


@pytest.mark.parametrize(
    ("given", "mode", "flag"),
    [
        ({"num_envs": 6}, AutoresetMode.NEXT_STEP, "--num_envs=6: must be 2"),
        ({"lstm_units": 256, "replay_capacity": 400}, AutoresetMode.SAME_STEP, "--lstm_units=256.*NEXT_STEP"),
    ],
)
def test_it_must_suit_the_settings(given, mode, flag, tmp_path):
    with pytest.raises(SettingsError, match=flag):
        train(small_settings(**given), tmp_path / "run", quiet=True, env=lambda: gymnasium_pair(mode))
    assert not (tmp_path / "run").exists()


def test_a_recurrent_policy_is_not_evaluated_where_all_copies_pause():
    network = Network(envs.spec("CartPole-v1"), architecture="mlp", lstm_units=4)
    policy = CurrentPolicy(network, lambda: 0, lambda: make_metadata("CartPole-v1"))
    with pytest.raises(InvalidEnvironment, match="NEXT_STEP mode, not SAME_STEP"):
        evaluate(policy, episodes=2, env=lambda: gymnasium_pair(AutoresetMode.SAME_STEP))


def gymnasium_pair(mode):
    return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2, autoreset_mode=mode)


def test_processes_that_the_function_starts_do_not_end_at_ctrl_c():
    seen = []

    def make(num_envs):
        seen.append(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        return counting(AutoresetMode.NEXT_STEP)

    envs.make("own", 2, 0, factory=make).close()
    assert seen and all(seen)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
