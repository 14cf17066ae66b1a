"""MinAtar through `envs.make` equals the bare MinAtar."""

import sys

import numpy as np
import pytest

from acer_tf import envs
from acer_tf.envs import minatar as our_minatar
from acer_tf.envs.families import MINATAR_GAMES
from acer_tf.envs.minatar import make_minatar

minatar = pytest.importorskip("minatar")
BaseEnv = pytest.importorskip("minatar.gym").BaseEnv

CHANNELS_AND_ACTIONS = {
    "asterix": (4, 5),
    "breakout": (4, 3),
    "freeway": (7, 3),
    "seaquest": (10, 6),
    "space_invaders": (6, 4),
}


def play(env, steps):
    actions = np.random.default_rng(0).integers(0, env.spec.num_actions, (steps, env.num_envs))
    return [env.reset()] + [env.step(action) for action in actions], actions


@pytest.mark.parametrize("game", MINATAR_GAMES)
def test_equals_the_bare_game(game):
    env = envs.make(f"minatar/{game}", 2, 7)
    channels, num_actions = CHANNELS_AND_ACTIONS[game]
    assert env.spec.observation_shape == (10, 10, channels) and env.spec.observation_dtype == "bool"
    assert env.spec.num_actions == num_actions and env.spec.stack == 1 and env.spec.frames_per_step == 1
    steps, actions = play(env, 3000 if game == "freeway" else 1000)
    for i, word in enumerate(np.random.SeedSequence(7).generate_state(2)):
        bare = minatar.Environment(game)
        bare.seed(int(word >> 1))
        bare.reset()
        legal, over, episodes = bare.minimal_action_set(), False, 0
        np.testing.assert_array_equal(steps[0].observation[i], bare.state())
        for step, action in zip(steps[1:], actions[:, i], strict=True):
            assert step.mask[i] == (not over)
            if over:
                bare.reset()
                reward, over = 0, False
            else:
                reward, over = bare.act(legal[action])
            episodes += over
            assert step.reward[i] == reward and step.last[i] == over and step.discount[i] == (not over)
            np.testing.assert_array_equal(step.observation[i], bare.state())
            assert step.age[i] == 0
        assert episodes > 0


def test_resets_continue_the_generator():
    """Breakout's ball starts on one of two sides: if resets restarted the generator, the side would never change."""
    steps, _ = play(envs.make("minatar/breakout", 1, 0), 1000)
    starts = [step.observation[0, 3, 0, 1] for step in steps[1:] if not step.mask[0]]
    assert set(starts) == {0, 1}


def test_the_time_limit_truncates(monkeypatch):
    monkeypatch.setattr(our_minatar, "MINATAR_MAX_STEPS", 5)
    steps, _ = play(envs.make("minatar/freeway", 1, 0), 7)
    assert [s.last.item() for s in steps[1:]] == [False] * 4 + [True, False, False]
    assert all(s.discount.all() for s in steps[1:])


def test_no_package_of_pictures_is_imported_before_a_picture(monkeypatch):
    for name in ("minatar", "seaborn", "matplotlib"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    play(envs.make("minatar/breakout", 2, 0), 3)
    assert not sys.modules.keys() & {"minatar", "seaborn", "matplotlib"}


def test_pictures_are_those_of_minatar():
    theirs = BaseEnv("freeway", render_mode="rgb_array", use_minimal_action_set=True)
    ours = make_minatar("freeway", 1, [5], render=True, max_episode_steps=100)
    ours.reset()
    theirs.reset(seed=5)
    for action in np.random.default_rng(0).integers(0, 3, 50):
        theirs.step(action)
        ours.step(np.array([action]))
        np.testing.assert_array_equal(ours.render()[::16, ::16], np.rint(255 * theirs.render()))


def test_pictures_can_be_seen():
    env = envs.make("minatar/breakout", 2, 0, render=True)
    step = env.reset()
    picture = env.render()
    assert picture.shape == (160, 160, 3) and picture.dtype == np.uint8
    lit = picture[8::16, 8::16].any(axis=-1)
    np.testing.assert_array_equal(lit, step.observation[0].any(axis=-1))
    assert picture.max() > 100
