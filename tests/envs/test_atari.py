"""The Atari pipeline: golden hashes, a second implementation in NumPy, and its rules."""

import dataclasses
import hashlib
from typing import Any

import ale_py
import numpy as np
import pytest
from ale_py import roms
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import VectorEnv

from acer_tf import envs
from acer_tf.envs import atari
from acer_tf.envs.families import ATARI_GAMES, ATARI_PRESETS, ATARI_ROMS, AtariPreset
from tests.core import first_in_core

ACER = ATARI_PRESETS["acer2016"]
MACHADO = ATARI_PRESETS["machado2018"]


def rollout(env, steps, seed=0):
    """The reset's TimeStep and `steps` more of uniformly random actions, and these actions."""
    actions = np.random.default_rng(seed).integers(0, env.spec.num_actions, (steps, env.num_envs))
    return [env.reset()] + [env.step(action) for action in actions], actions


def rollout_of(game, num_envs=2, steps=200, seed=0, preset=ACER, **settings):
    env = envs.make(f"atari/{game}", num_envs, seed, atari_preset=preset, **settings)
    return rollout(env, steps)[0]


def same(left, right):
    return all(np.array_equal(a, b) for x, y in zip(left, right, strict=True) for a, b in zip(x, y, strict=True))


# Of ale-py 0.12.1. A change here changes what every result was measured on.
GOLDEN = {
    ("Pong", "acer2016"): "46aab9d4c3667c65738c0832d31fcc64d378364a88581750c4a9bd71179ae673",
    ("Pong", "machado2018"): "18cf6dc3975cbae4695c99f6ebc599356fb3ee1c47f81e30cbf4635b0225011b",
    ("Breakout", "acer2016"): "2ee02508152c0f3d6c2d0f946f55f245ad99d60afeb64132c1405be156d2bfbf",
    ("Breakout", "machado2018"): "b9b1baafb9a60498182facb3d11d668096dc2e62c16f581118055d235403cd23",
    ("MsPacman", "acer2016"): "47482d2af58e22f88ca5762645293f46b9a106430d0aac9b6634412d0413dbf8",
    ("MsPacman", "machado2018"): "fb40dbd51eba662bca038d2a28f77df6605c0ed9ed5319935da919bfeba2998f",
}


@pytest.mark.parametrize("game, preset", GOLDEN)
def test_golden_hash(game, preset):
    digest = hashlib.sha256()
    for step in rollout_of(game, preset=preset):
        for array in step[:6]:  # without a mask of actions
            digest.update(array.tobytes())
    assert digest.hexdigest() == GOLDEN[game, preset]


def area_weights(size, source):
    """[size, source] weights of area interpolation: each source pixel's share in each of `size` equal intervals."""
    edges = np.arange(size + 1) * source / size
    pixels = np.arange(source)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return np.maximum(overlap, 0) * size / source


@pytest.mark.parametrize(
    "game, preset, num_steps", [("Breakout", ACER, 240), ("MsPacman", ACER, 540), ("SpaceInvaders", MACHADO, 370)]
)
def test_equals_a_second_implementation_on_the_bare_emulator(game, preset, num_steps):
    """Skip, maximum, grey, resize, stack, FIRE, sticky actions, lives and rewards, on the bare interface."""
    preset = dataclasses.replace(preset, max_no_ops=0)
    steps, actions = rollout(envs.make(f"atari/{game}", 1, 3, atari_preset=preset), num_steps)

    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", preset.sticky_probability)
    ale.setInt("random_seed", int(np.random.SeedSequence(3).generate_state(1)[0] >> 1))
    rom = roms.get_rom_path(ATARI_ROMS[game])
    assert rom is not None
    ale.loadROM(rom)
    legal = ale.getLegalActionSet() if preset.full_action_set else ale.getMinimalActionSet()
    rows, columns = area_weights(84, 210), area_weights(84, 160)

    def start():
        ale.reset_game()
        if preset.fire_at_start and ale_py.Action.FIRE in legal:
            ale.act(ale_py.Action.FIRE)
        return ale.getScreenGrayscale()

    games_over, lives_lost, best = 0, 0, 0
    stack, over = np.zeros((4, 84, 84)), True
    for t, (step, action) in enumerate(zip(steps, [None, *actions[:, 0]], strict=True)):
        if over:
            picture, reward, discount, over, first = start(), 0, 1, False, True
        else:
            reward, lives, shots = 0, ale.lives(), []
            for frame in range(4):
                reward += ale.act(legal[action])
                over = ale.game_over()
                if over:
                    break
                if frame >= 2:
                    shots.append(ale.getScreenGrayscale())
            # ALE takes no last picture of a game that ends within a step.
            picture = None if over else np.maximum(*shots)
            lost = preset.life_loss_ends_return and 0 < ale.lives() < lives
            discount, first = (0 if over or lost else 1), False
            games_over += over
            lives_lost += lost
        if first:
            stack[:] = 0
        shown = step.observation[0].astype(int)
        np.testing.assert_array_equal(shown[:-1], stack[1:])
        if picture is not None and (first or t % 10 == 0):
            assert np.abs(shown[-1] - rows @ picture.astype(float) @ columns.T).max() <= 1
        stack = shown
        assert step.reward == reward and step.discount == discount and step.last == over
        best = max(best, reward)
    assert games_over > 0
    assert (lives_lost > 0) == preset.life_loss_ends_return
    assert game == "Breakout" or best > 1, "rewards above 1 show that nothing clips them"


@pytest.mark.parametrize("preset", [ACER, MACHADO], ids=["acer2016", "machado2018"])
@pytest.mark.parametrize("game", first_in_core(["Pong", "Breakout"]))
def test_planes_older_than_age_are_zero_and_the_others_are_earlier_frames(game, preset):
    """What replay needs to rebuild stacks from single frames: at no-op and FIRE starts, lost lives and time limits."""
    preset = dataclasses.replace(preset, max_frames=120)
    steps = rollout_of(game, num_envs=4, steps=320, preset=preset)
    masked = 0
    for before, step in zip(steps, steps[1:], strict=False):
        for i in range(4):
            if step.mask[i]:
                np.testing.assert_array_equal(step.observation[i, :-1], before.observation[i, 1:])
                assert step.age[i] == min(before.age[i] + 1, 3)
            else:
                masked += 1
                assert step.age[i] == 0
            assert not step.observation[i, : 3 - step.age[i]].any()
            assert step.observation[i, 3 - step.age[i] :].any(axis=(1, 2)).all()
    assert masked >= 40


def test_lost_lives_end_the_return_and_nothing_else():
    steps = rollout_of("Breakout", num_envs=2, steps=600)[1:]
    _, _, reward, discount, mask, last = (np.array(field) for field in [*zip(*steps, strict=True)][:6])
    for i in range(2):
        overs = np.flatnonzero(last[:, i])
        assert len(overs) >= 2
        np.testing.assert_array_equal(np.flatnonzero(~mask[:, i]), overs[overs < 599] + 1)
        assert not reward[~mask[:, i], i].any() and discount[~mask[:, i], i].all()
        for start, over in zip([0, *overs + 1], overs, strict=False):
            lost = np.flatnonzero(discount[start : over + 1, i] == 0)
            assert len(lost) == 5 and lost[-1] == over - start


def test_machado2018_continues_after_lost_lives():
    steps = rollout_of("Breakout", steps=400, preset="machado2018")[1:]
    ended = np.array([s.discount for s in steps]) == 0
    assert ended.any()
    np.testing.assert_array_equal(ended, [s.last for s in steps])


def test_the_frame_cap_truncates():
    for max_frames in (37, 40):  # in the middle of the tenth step, and at its end
        steps = rollout_of("Pong", steps=12, preset=dataclasses.replace(ACER, max_frames=max_frames))[1:]
        np.testing.assert_array_equal([s.last[0] for s in steps], [False] * 9 + [True, False, False])
        np.testing.assert_array_equal([s.mask[0] for s in steps], [True] * 10 + [False, True])
        assert all(s.discount.all() for s in steps)


@pytest.mark.parametrize("preset", [ACER, MACHADO], ids=["acer2016", "machado2018"])
def test_the_frame_cap_shows_its_last_observation_as_if_the_game_went_on(preset):
    whole = rollout_of("Seaquest", steps=100, preset=preset)
    cut = rollout_of("Seaquest", steps=100, preset=dataclasses.replace(preset, max_frames=400))
    assert cut[-1].last.all() and not whole[-1].last.any()
    assert same(cut, [*whole[:-1], whole[-1]._replace(last=cut[-1].last)])


@pytest.mark.slow
def test_the_frame_cap_equals_that_of_ale_but_for_its_stale_last_frame():
    """Over truncations, games over and lost lives. If the last line fails, ALE's own limit can be used."""
    preset = dataclasses.replace(ACER, max_frames=640)
    ours = envs.make("atari/Breakout", 2, 0, atari_preset=preset)._env
    theirs = AtariVectorEnv(
        "breakout", 2, noop_max=31, max_num_frames_per_episode=640, reward_clipping=False, use_fire_reset=True
    )
    seeds, random, stale, cuts, overs = np.arange(2, dtype=np.int32), np.random.default_rng(0), 0, 0, 0
    ours.reset(seed=seeds)
    theirs.reset(seed=seeds)
    for _ in range(500):
        actions = random.integers(0, 4, 2)
        (shown, *mine, info), (theirs_shown, *rest, their_info) = ours.step(actions), theirs.step(actions)
        np.testing.assert_array_equal(mine, rest)
        np.testing.assert_array_equal(info["lives"], their_info["lives"])
        np.testing.assert_array_equal(info["episode_frame_number"], their_info["episode_frame_number"])
        over, cut = mine[1:]
        np.testing.assert_array_equal(shown[~cut], theirs_shown[~cut])
        np.testing.assert_array_equal(shown[cut][:, :-1], theirs_shown[cut][:, :-1])
        cuts, overs, stale = cuts + cut.sum(), overs + over.sum(), stale + (shown[cut] != theirs_shown[cut]).sum()
    assert cuts >= 3 and overs >= 3
    assert stale > 0


def test_presets():
    assert AtariPreset(4, True, 84, 84, True, 4, 30, True, 0.0, False, True, 108_000) == ACER
    assert AtariPreset(4, True, 84, 84, True, 4, 0, False, 0.25, True, False, 108_000) == MACHADO
    assert AtariPreset(**dataclasses.asdict(MACHADO)) == MACHADO
    assert envs.spec("atari/Pong") == envs.make("atari/Pong", 2, 1).spec
    assert envs.spec("atari/Pong").observation_shape == (4, 84, 84)
    assert envs.spec("atari/Pong").frames_per_step == 4
    assert [envs.spec("atari/Pong", atari_preset=p).num_actions for p in ("acer2016", "machado2018")] == [6, 18]


def test_fire_starts_the_episode_and_nothing_else():
    """Breakout's ball flies only after FIRE: if the agent never presses it, one life is lost and no more."""

    def lives_lost(preset):
        env = envs.make("atari/Breakout", 1, 0, atari_preset=preset)
        env.reset()
        return sum(env.step(np.array([0])).discount.item() == 0 for _ in range(150))

    assert lives_lost(ACER) == 1
    assert lives_lost(dataclasses.replace(ACER, max_no_ops=0)) == 1
    assert lives_lost(dataclasses.replace(ACER, fire_at_start=False)) == 0


@pytest.mark.parametrize("max_no_ops, fire, fewest", first_in_core([(6, True, 1), (6, False, 0), (0, False, 0)]))
def test_start_frames(max_no_ops, fire, fewest):
    preset = dataclasses.replace(ACER, max_no_ops=max_no_ops, fire_at_start=fire, max_frames=4)
    ale: Any = envs.make("atari/Pong", 4, 0, atari_preset=preset)._env
    ale.reset(seed=np.arange(4, dtype=np.int32))
    frames = []
    for t in range(60):
        *_, info = ale.step(np.zeros(4, np.int32))
        if t % 2:
            frames.extend(info["episode_frame_number"])
    assert set(frames) == set(range(fewest, max_no_ops + 1))


@pytest.mark.slow
def test_seeds():
    reference = rollout_of("Breakout", steps=60)
    assert same(reference, rollout_of("Breakout", steps=60))
    assert same(reference, rollout_of("Breakout", steps=60, threads=2))
    assert not same(reference, rollout_of("Breakout", steps=60, seed=1))
    assert not np.array_equal(reference[-1].observation[0], reference[-1].observation[1])


def test_the_metadata_that_all_vector_environments_share_are_left_alone(monkeypatch):
    monkeypatch.setattr(VectorEnv, "metadata", {})
    envs.make("atari/Pong", 1, 0)
    assert VectorEnv.metadata == {}


def test_the_threads_asked_for_reach_ale(monkeypatch):
    asked = []

    def ale(*game, **settings):
        asked.append(settings["num_threads"])
        return AtariVectorEnv(*game, **settings)

    monkeypatch.setattr(atari, "_AtariVector", ale)
    envs.make("atari/Pong", 1, 0)
    envs.make("atari/Pong", 1, 0, threads=3)
    assert asked == [1, 3]


@pytest.mark.slow
def test_sticky_actions_depend_on_the_seed_and_continue_after_a_reset():
    def play(preset, seed):
        env = envs.make("atari/Pong", 1, seed, atari_preset=dataclasses.replace(preset, max_no_ops=0, max_frames=240))
        steps, _ = rollout(env, 61)
        actions = np.random.default_rng(0).integers(0, env.spec.num_actions, (60, 1))
        return steps, [env.reset()] + [env.step(action) for action in actions]

    sticky, plain = play(MACHADO, 0), play(ACER, 0)
    assert same(plain[0], play(ACER, 1)[0])
    assert not same(sticky[0], play(MACHADO, 1)[0])
    assert same(sticky[0], play(MACHADO, 0)[0])
    assert not same(sticky[0][:61], sticky[1])
    assert same(plain[0][1:61], plain[1][1:])


def luminance(picture):
    return picture @ np.array([0.2989, 0.5870, 0.1140])


@pytest.mark.parametrize("game, preset", first_in_core([("Breakout", ACER), ("SpaceInvaders", MACHADO)]))
def test_pictures_show_the_same_episodes(game, preset):
    """At every step, also after resets, the observation in screen size is the luminance of the picture."""
    large = dataclasses.replace(preset, height=210, width=160, stack=1, max_pool=False, max_frames=400)
    env = envs.make(f"atari/{game}", 2, 0, atari_preset=large, render=True)
    step = env.reset()
    actions = np.random.default_rng(0).integers(0, env.spec.num_actions, (250, 2))
    for action in actions:
        picture = env.render()
        assert picture.shape == (210, 160, 3) and picture.dtype == np.uint8
        np.testing.assert_allclose(luminance(picture), step.observation[0, 0], atol=1)
        step = env.step(action)


@pytest.mark.slow
def test_rendering_changes_no_episode():
    assert same(rollout_of("Pong", steps=50), rollout_of("Pong", steps=50, render=True))


def test_57_games():
    assert len(set(ATARI_GAMES)) == 57
    assert {"MsPacman", "UpNDown", "Hero", "Surround", "StarGunner", "Jamesbond"} <= set(ATARI_GAMES)


# One in six here; all of them with `pytest -m slow`.
GAMES = [pytest.param(g, marks=[] if i % 6 == 0 else pytest.mark.slow) for i, g in enumerate(ATARI_GAMES)]


@pytest.mark.parametrize("game", GAMES)
def test_every_game_plays(game):
    env = envs.make(f"atari/{game}", 1, 0)
    steps, _ = rollout(env, 8)
    assert 3 <= env.spec.num_actions <= 18
    assert steps[-1].observation.shape == (1, 4, 84, 84) and steps[-1].observation.any()
    assert steps[-1].age == 3 and steps[-1].mask.all()
