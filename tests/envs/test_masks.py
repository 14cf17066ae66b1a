"""Action masks: where they are found, what they are where episodes end, and what is wrong with them."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from acer_tf import envs
from acer_tf.envs.vector import VectorEnvironment
from acer_tf.errors import EnvironmentFailure, InvalidEnvironment
from tests.envs.test_vector_environment import Tape
from tests.gymnasium_ids import TAXI

A = 4
CODES = np.array([[number >> bit & 1 for bit in range(A)] for number in range(16)])  # all masks of four actions


class Masked(gymnasium.Env):
    """Shows the number of its mask, which its info gives; episodes of three steps terminate, or are truncated.

    `last` is the mask that it gives at the end, in place of the one that it shows.
    """

    observation_space, action_space = Box(0, 15, (1,), np.float32), Discrete(A)

    def __init__(self, cut=False, last="shown"):
        self.cut, self.last, self._random = cut, last, np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._random = np.random.default_rng(seed)
        self.count = 0
        return self._see()

    def step(self, action):
        assert CODES[self.code][action], "forbidden"
        self.count += 1
        observation, info = self._see()
        over = self.count == 3
        return observation, 1.0, over and not self.cut, over and self.cut, info

    def mask(self):
        if self.count == 3 and not isinstance(self.last, str):
            return self.last
        return CODES[self.code]

    def _see(self):
        self.code = int(self._random.integers(1, 16))
        return self.observation(), self.info()

    def observation(self):
        return np.array([self.code], np.float32)

    def info(self):
        return {"action_mask": self.mask().astype(np.int8) if self.mask() is not None else None}


class ByMethod(Masked):
    """sb3-contrib's form."""

    def info(self):
        return {}

    def action_masks(self):
        return self.mask().astype(bool)


class Shown(Masked):
    """PettingZoo's form."""

    observation_space = Dict({"observation": Masked.observation_space, "action_mask": MultiBinary(A)})

    def info(self):
        return {}

    def observation(self):
        mask = CODES[self.code].astype(np.int8) if self.mask() is None else self.mask().astype(np.int8)
        return {"observation": super().observation(), "action_mask": mask}


class Both(Masked):
    """The info comes first."""

    def action_masks(self):
        raise AssertionError("not asked")


class InfoAndShown(Shown):
    """The info comes before the observation, whose mask is another one here."""

    def info(self):
        return Masked.info(self)

    def observation(self):
        return {**super().observation(), "action_mask": np.ones(A, np.int8)}


class ShownAndMethod(Shown):
    """The observation comes before the method."""

    def action_masks(self):
        raise AssertionError("not asked")


SHARED = np.zeros(A, np.int8), [0] * A


class InOneArray(Masked):
    """All copies write their masks into one array."""

    def info(self):
        SHARED[0][:] = self.mask()
        return {"action_mask": SHARED[0]}


class InOneList(ByMethod):
    def action_masks(self):
        SHARED[1][:] = self.mask().tolist()
        return SHARED[1]


def wrapped():
    return gymnasium.wrappers.TimeLimit(gymnasium.wrappers.OrderEnforcing(ByMethod()), 50)


def rows_of(env, count=20, seed=0):
    """The time steps of environments that are acted in by their masks."""
    random, steps = np.random.default_rng(seed), [env.reset()]
    for _ in range(count):
        legal = steps[-1].legal
        steps.append(env.step(np.array([random.choice(np.flatnonzero(valid)) for valid in legal])))
    return steps


KINDS = [Masked, ByMethod, Shown, Both, InfoAndShown, ShownAndMethod, InOneArray, InOneList, wrapped]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cut", [False, True])
def test_masks_are_those_of_what_is_shown_wherever_they_are_given(kind, cut):
    make = kind if kind is wrapped else lambda: kind(cut)
    env = envs.make("masked", 3, 0, factory=make)
    assert env.spec.action_masks and env.spec.num_actions == A and env.spec.observation_shape == (1,)
    steps = rows_of(env)
    assert sum(step.last.sum() for step in steps) > 10 and all(step.legal.dtype == bool for step in steps)
    for step in steps:
        shown = CODES[step.observation[:, 0].astype(int)].astype(bool)
        # Nothing is read at the observation after a termination, where every action is valid.
        shown[step.last & (step.discount == 0)] = True
        np.testing.assert_array_equal(step.legal, shown)


@pytest.mark.parametrize(
    ("last", "wanted"),
    [(np.array([0, 1, 0, 1]), [0, 1, 0, 1]), (np.zeros(A), [1] * A), (None, [1] * A)],
)
def test_the_mask_of_a_truncated_episode_s_end_is_what_is_given_there_or_all_actions(last, wanted):
    env = envs.make("masked", 2, 0, factory=lambda: Masked(True, last))
    ends = [step.legal[i] for step in rows_of(env) for i in np.flatnonzero(step.last)]
    assert len(ends) > 5 and all(legal.tolist() == [bool(one) for one in wanted] for legal in ends)


@pytest.mark.parametrize("last", ["nonsense", np.ones(9), None, np.zeros(A)])
def test_what_is_given_where_an_episode_terminated_is_not_read(last):
    class Ends(Masked):
        def info(self):
            return {"action_mask": last} if self.count == 3 else super().info()

    steps = rows_of(envs.make("masked", 2, 0, factory=Ends))
    assert all(step.legal[step.last].all() for step in steps)


def test_masks_are_not_used_where_they_are_turned_off_or_there_are_none():
    off = envs.make("masked", 2, 0, factory=Masked, action_masks=False)
    assert not off.spec.action_masks and off.reset().legal is None
    assert not envs.spec("CartPole-v1").action_masks and envs.make("CartPole-v1", 1, 0).reset().legal is None
    assert not envs.spec("masked", factory=Masked, action_masks=False).action_masks
    assert envs.spec("masked", factory=Shown, action_masks=False).observation_shape.keys() == {
        "observation",
        "action_mask",
    }


def test_taxi_gives_its_own():
    env = envs.make("taxi", 2, 3, factory=lambda: gymnasium.make(TAXI))
    taxi = gymnasium.make(TAXI).unwrapped
    assert env.spec.action_masks and env.spec.num_actions == 6
    allowed = set()
    for step in rows_of(env, 450):
        states = step.observation.argmax(axis=1)
        expected = np.array([taxi.action_mask(state) for state in states]).astype(bool)
        np.testing.assert_array_equal(step.legal[step.discount == 1], expected[step.discount == 1])
        allowed |= {tuple(mask) for mask in step.legal.tolist()}
    assert len(allowed) > 10


@pytest.mark.parametrize(
    ("mask", "part"),
    [
        (np.zeros(A, np.int8), "forbids every action"),
        (np.ones(A + 1, bool), r"not 4 numbers.*shape \(5,\)"),
        (np.ones((1, A)), r"shape \(1, 4\)"),
        (np.array([0, 1, 2, 0]), "not 4 numbers"),
        (np.array([0.0, 1.0, np.nan, 0.0]), "not 4 numbers"),
        (np.array(["0", "1", "1", "0"]), "not 4 numbers"),
        (None, "None"),
        ("mask", "'mask'"),
        ({}, "{}"),
        ([True, [True]], "not 4 numbers"),
    ],
)
def test_a_wrong_mask_names_the_environment_the_step_and_what_it_is(mask, part):
    class Wrong(Masked):
        made = 0

        def __init__(self):
            super().__init__()
            self.wrong = Wrong.made % 3 == 2  # the trial is the first
            Wrong.made += 1

        def info(self):
            return {"action_mask": mask} if self.wrong and self.count == 2 else super().info()

    env = envs.make("odd", 2, 0, factory=Wrong)
    with pytest.raises(EnvironmentFailure, match=f"^odd failed in step.*environment 1, 2 steps.*{part}"):
        rows_of(env)


def test_a_wrong_mask_at_a_reset():
    class Wrong(Masked):
        def info(self):
            return {"action_mask": [1, 0]}

    with pytest.raises(EnvironmentFailure, match=r"^odd failed in reset.*environment 0, 0 steps.*shape \(2,\)"):
        envs.make("odd", 1, 0, factory=Wrong).reset()


def test_masks_of_continuous_actions_are_refused_by_name_and_can_be_turned_off():
    class Arm(gymnasium.Env):
        observation_space, action_space = Box(-1, 1, (2,)), Box(-1, 1, (3,))

        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.float32), {"action_mask": np.ones(3)}

    with pytest.raises(InvalidEnvironment, match=r"^arm .*Box.*masks.*--noaction_masks"):
        envs.spec("arm", factory=Arm)
    assert envs.spec("arm", factory=Arm, action_masks=False).continuous


def test_a_trial_reset_that_raises_is_the_environment_s_failure():
    class Broken(Masked):
        def reset(self, *, seed=None, options=None):
            raise ZeroDivisionError("no")

    with pytest.raises(EnvironmentFailure, match="^broken failed in reset.*ZeroDivisionError"):
        envs.make("broken", 1, 0, factory=Broken)


@pytest.mark.parametrize(
    ("sizes", "mask", "valid"),
    [
        ([2, 3], np.arange(6).reshape(2, 3) % 2, [1, 3, 5]),
        ([2, 3], np.array([1, 0, 1, 0, 1]), [0, 2]),
        ([2, 3], (np.array([0, 1]), np.array([1, 1, 0])), [3, 4]),
        ([2, 3], ((1, 0), (1, 1, 0)), [0, 1]),
        ([2, 2], ((1, 0), (1, 1)), [0, 1]),
        ([2, 2], ([1, 0], [1, 1]), [0, 1]),
        ([2, 2], [[1, 0], [1, 1]], [0, 2, 3]),
        ([2, 3], np.ones(6), None),
        ([2, 3], (np.array([0, 1]), np.array([1, 1])), None),
        ([2, 3], (np.array([0, 0]), np.array([1, 1, 1])), None),
    ],
)
def test_masks_of_composite_actions_are_of_combinations_or_of_each_entry(sizes, mask, valid):
    class Composite(gymnasium.Env):
        observation_space, action_space = Box(-1, 1, (2,)), MultiDiscrete(sizes)

        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.float32), {"action_mask": mask}

    env = envs.make("composite", 1, 0, factory=Composite)
    if valid is None:
        form = r"forbids every action|is not an array of 0 or 1 of shape \(2, 3\), or 5 numbers, a row for each entry: "
        with pytest.raises(EnvironmentFailure, match=form):
            env.reset()
    else:
        assert np.flatnonzero(env.reset().legal[0]).tolist() == valid


@pytest.mark.parametrize(
    ("actions", "mask"),
    [
        (MultiDiscrete([4]), (np.array([0, 1, 1, 0]),)),
        (MultiDiscrete([[2], [2]]), ((np.array([0, 1]),), (np.array([1, 1]),))),
    ],
)
def test_masks_have_the_nested_form_that_gymnasium_samples_by(actions, mask):
    """`MultiDiscrete.sample(mask=...)` takes them."""

    class Nested(gymnasium.Env):
        observation_space, action_space = Box(-1, 1, (2,)), actions

        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.float32), {"action_mask": mask}

    legal = envs.make("nested", 1, 0, factory=Nested).reset().legal[0]
    joint = [
        np.ravel_multi_index(np.ravel(actions.sample(mask=as_int8(mask))), np.ravel(actions.nvec)) for _ in range(40)
    ]
    assert {int(each) for each in joint} == set(np.flatnonzero(legal).tolist())


def as_int8(mask):
    return tuple(map(as_int8, mask)) if isinstance(mask, tuple) else mask.astype(np.int8)


def test_vector_environments_give_masks_in_their_infos():
    class Taped(Tape):
        def _answer(self):
            *answer, _ = super()._answer()
            return (*answer, {"action_mask": np.array([[0, 1, 0]])})

    rows = [(0.0, 0, 0, 0), (1.0, 0, 0, 0)]
    env = VectorEnvironment("tape", Taped(rows), seeds=None, action_masks=True)
    assert env.reset().legal.tolist() == env.step(np.array([1])).legal.tolist() == [[False, True, False]]
