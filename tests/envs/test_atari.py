"""The Atari pipeline: against golden hashes, against a second implementation in NumPy, and against its own rules."""

import dataclasses
import hashlib

import ale_py
import numpy as np
import pytest
from ale_py import roms

from acer_tf import envs

ACER = envs.ATARI_PRESETS["acer2016"]
MACHADO = envs.ATARI_PRESETS["machado2018"]


def rollout(env, steps, seed=0):
    """`steps` TimeSteps of uniformly random actions after the reset's, which comes first, and the actions."""
    actions = np.random.default_rng(seed).integers(0, env.spec.num_actions, (steps, env.num_envs))
    return [env.reset()] + [env.step(action) for action in actions], actions


def rollout_of(game, num_envs=2, steps=200, seed=0, preset=ACER, **settings):
    env = envs.make(f"atari/{game}", num_envs, seed, atari_preset=preset, **settings)
    return rollout(env, steps)[0]


def same(left, right):
    return all(np.array_equal(a, b) for x, y in zip(left, right, strict=True) for a, b in zip(x, y, strict=True))


GOLDEN = {}


@pytest.mark.parametrize("game, preset", GOLDEN)
def test_golden_hash(game, preset):
    digest = hashlib.sha256()
    for step in rollout_of(game, preset=preset):
        for array in step:
            digest.update(np.ascontiguousarray(array))
    assert digest.hexdigest()[:16] == GOLDEN[game, preset]


def area_weights(size, source):
    """[size, source] weights of area interpolation: the share of each source pixel in each of `size` equal intervals."""
    edges = np.arange(size + 1) * source / size
    pixels = np.arange(source)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return np.maximum(overlap, 0) * size / source


@pytest.mark.parametrize("game, preset", [("Breakout", ACER), ("MsPacman", ACER), ("SpaceInvaders", MACHADO)])
def test_equals_a_second_implementation_on_the_bare_emulator(game, preset):
    """Skip, maximum, grey, resize, stack, FIRE, sticky actions, lives, rewards: written again on ALE's own interface."""
    preset = dataclasses.replace(preset, max_no_ops=0)
    steps, actions = rollout(envs.make(f"atari/{game}", 1, 3, atari_preset=preset), 700)

    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", preset.sticky_probability)
    ale.setInt("random_seed", int(np.random.SeedSequence(3).generate_state(1)[0] >> 1))
    ale.loadROM(roms.get_rom_path(envs.names.ATARI_ROMS[game]))
    legal = ale.getLegalActionSet() if preset.full_action_set else ale.getMinimalActionSet()
    rows, columns = area_weights(84, 210), area_weights(84, 160)

    def start():
        ale.reset_game()
        if preset.fire_at_start and ale_py.Action.FIRE in legal:
            ale.act(ale_py.Action.FIRE)
        return ale.getScreenGrayscale()

    games_over, lives_lost, best = 0, 0, 0
    stack, over = np.zeros((4, 84, 84)), True
    for step, action in zip(steps, [None, *actions[:, 0]], strict=True):
        if over:
            picture, reward, discount, over, first = start(), 0, 1, False, True
        else:
            reward, lives, shots = 0, ale.lives(), []
            for _ in range(4):
                reward += ale.act(legal[action])
                shots.append(ale.getScreenGrayscale())
                over = ale.game_over()
                if over:
                    break
            # ALE takes no new picture of a game that ends within the step before its last two frames.
            picture = np.maximum(*shots[-2:]) if len(shots) == 4 and not over else None
            lost = preset.life_loss_ends_return and 0 < ale.lives() < lives
            discount, first = (0 if over or lost else 1), False
            games_over += over
            lives_lost += lost
        if first:
            stack[:] = 0
        shown = step.observation[0].astype(int)
        np.testing.assert_array_equal(shown[:-1], stack[1:])
        if picture is not None:
            assert np.abs(shown[-1] - rows @ picture @ columns.T).max() <= 1
        stack = shown
        assert step.reward == reward and step.discount == discount and step.last == over
        best = max(best, reward)
    assert games_over > 0
    assert (lives_lost > 0) == preset.life_loss_ends_return
    assert game == "Breakout" or best > 1, "rewards above 1 show that nothing clips them"


@pytest.mark.parametrize("preset", [ACER, MACHADO], ids=["acer2016", "machado2018"])
@pytest.mark.parametrize("game", ["Pong", "Breakout"])
def test_planes_older_than_age_are_zero_and_the_others_are_the_frames_before(game, preset):
    """What replay needs to rebuild stacks from single frames: at no-op and FIRE starts, lost lives and time limits."""
    preset = dataclasses.replace(preset, max_frames=120)
    steps = rollout_of(game, num_envs=8, steps=320, preset=preset)
    masked = 0
    for before, step in zip(steps, steps[1:], strict=False):
        for i in range(8):
            if step.mask[i]:
                np.testing.assert_array_equal(step.observation[i, :-1], before.observation[i, 1:])
                assert step.age[i] == min(before.age[i] + 1, 3)
            else:
                masked += 1
                assert step.age[i] == 0
            assert not step.observation[i, : 3 - step.age[i]].any()
            assert step.observation[i, 3 - step.age[i] :].any(axis=(1, 2)).all()
    assert masked > 60


def test_lost_lives_end_the_return_and_nothing_else():
    steps = rollout_of("Breakout", num_envs=4, steps=600)[1:]
    mask, last, discount, reward = (np.array([getattr(s, f) for s in steps]) for f in ("mask", "last", "discount", "reward"))
    for i in range(4):
        overs = np.flatnonzero(last[:, i])
        assert len(overs) >= 2
        np.testing.assert_array_equal(np.flatnonzero(~mask[:, i]), overs[overs < 599] + 1)
        assert not reward[~mask[:, i], i].any() and discount[~mask[:, i], i].all()
        for start, over in zip([0, *overs + 1], overs, strict=False):
            lost = np.flatnonzero(discount[start : over + 1, i] == 0)
            assert len(lost) == 5 and lost[-1] == over - start


def test_machado2018_plays_on_through_lost_lives():
    steps = rollout_of("Breakout", num_envs=4, steps=900, preset="machado2018")[1:]
    ended = np.array([s.discount for s in steps]) == 0
    assert ended.any()
    np.testing.assert_array_equal(ended, [s.last for s in steps])


def test_the_frame_cap_truncates():
    steps = rollout_of("Pong", steps=12, preset=dataclasses.replace(ACER, max_frames=40))[1:]
    np.testing.assert_array_equal([s.last[0] for s in steps], [False] * 9 + [True, False, False])
    np.testing.assert_array_equal([s.mask[0] for s in steps], [True] * 10 + [False, True])
    assert all(s.discount.all() for s in steps)


def test_presets():
    assert ACER == envs.AtariPreset(4, True, 84, 84, True, 4, 30, True, 0.0, False, True, 108_000)
    assert MACHADO == envs.AtariPreset(4, True, 84, 84, True, 4, 0, False, 0.25, True, False, 108_000)
    assert envs.AtariPreset(**dataclasses.asdict(MACHADO)) == MACHADO
    assert envs.spec("atari/Pong") == envs.make("atari/Pong", 2, 1).spec
    assert envs.spec("atari/Pong").observation_shape == (4, 84, 84)
    assert envs.spec("atari/Pong").frames_per_step == 4
    assert [envs.spec("atari/Pong", atari_preset=p).num_actions for p in ("acer2016", "machado2018")] == [6, 18]


def test_fire_starts_the_game_and_only_the_game():
    """Breakout's ball flies only after FIRE: without a press from the agent one life is lost, and none after it."""

    def lives_lost(preset):
        env = envs.make("atari/Breakout", 1, 0, atari_preset=preset)
        env.reset()
        return sum(env.step(np.array([0])).discount.item() == 0 for _ in range(150))

    assert lives_lost(ACER) == 1
    assert lives_lost(dataclasses.replace(ACER, max_no_ops=0)) == 1
    assert lives_lost(dataclasses.replace(ACER, fire_at_start=False)) == 0


@pytest.mark.parametrize("max_no_ops, fire, fewest", [(30, True, 1), (30, False, 0), (3, False, 0), (0, False, 0)])
def test_start_frames(max_no_ops, fire, fewest):
    preset = dataclasses.replace(ACER, max_no_ops=max_no_ops, fire_at_start=fire)
    env = envs.make("atari/Pong", 400, 0, atari_preset=preset, threads=2)._env
    frames = env.reset(seed=np.arange(400, dtype=np.int32))[1]["episode_frame_number"]
    assert frames.min() == fewest and frames.max() == max_no_ops


def test_seeds():
    reference = rollout_of("Breakout", steps=60)
    assert same(reference, rollout_of("Breakout", steps=60))
    assert same(reference, rollout_of("Breakout", steps=60, threads=1))
    assert not same(reference, rollout_of("Breakout", steps=60, seed=1))
    assert not np.array_equal(reference[-1].observation[0], reference[-1].observation[1])


def test_sticky_actions_are_the_seeds_doing_and_go_on_after_a_reset():
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


@pytest.mark.parametrize("game, preset", [("Breakout", ACER), ("SpaceInvaders", MACHADO)])
def test_pictures_show_the_same_games(game, preset):
    """The observation, made as large as the screen, is the luminance of the picture at every step, through resets."""
    large = dataclasses.replace(preset, height=210, width=160, stack=1, max_pool=False, max_frames=400)
    env = envs.make(f"atari/{game}", 2, 0, atari_preset=large, render=True)
    step = env.reset()
    actions = np.random.default_rng(0).integers(0, env.spec.num_actions, (250, 2))
    for action in actions:
        pictures = env.render()
        assert pictures.shape == (2, 210, 160, 3) and pictures.dtype == np.uint8
        np.testing.assert_allclose(luminance(pictures), step.observation[:, 0], atol=1)
        step = env.step(action)


def test_pictures_leave_the_games_alone():
    assert same(rollout_of("Pong", steps=50), rollout_of("Pong", steps=50, render=True))


def test_57_games():
    assert len(set(envs.ATARI_GAMES)) == 57
    assert {"MsPacman", "UpNDown", "Hero", "Surround", "StarGunner", "Jamesbond"} <= set(envs.ATARI_GAMES)


@pytest.mark.parametrize("game", envs.ATARI_GAMES)
def test_every_game_plays(game):
    env = envs.make(f"atari/{game}", 1, 0)
    steps, _ = rollout(env, 8)
    assert 3 <= env.spec.num_actions <= 18
    assert steps[-1].observation.shape == (1, 4, 84, 84) and steps[-1].observation.any()
    assert steps[-1].age == 3 and steps[-1].mask.all()
