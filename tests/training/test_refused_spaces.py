"""Runs in environments whose spaces are refused, after the wrappers that the refusals name."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import acer_tf
from acer_tf.errors import InvalidEnvironment, SettingsError
from tests.envs.test_spaces import MOVES, OBSERVATIONS, SEEN, World, factory_of, let_in
from tests.training.test_image_axes import wrapped

SMALL = dict(num_envs=2, unroll_length=5, replay_start=0, replay_capacity=200, total_steps=40, log_interval=20)
WORLDS = {
    "flat dict": (OBSERVATIONS["dict"], spaces.Box(-np.inf, np.inf, (2,))),
    "blind": (OBSERVATIONS["empty"], spaces.MultiBinary(20)),
    "one action": (SEEN, spaces.Box(-1, 1, (0,))),
    "one number": (spaces.Box(-1, 1, ()), spaces.Box(0, 5, (2, 1), np.int64)),
    "channels first": (spaces.Box(0, 10, (3, 9, 9), np.uint8), MOVES),
}


def small(env, **given):
    agent = "acer" if isinstance(env.action_space, spaces.Discrete) else "acer_continuous"
    preset = "classic" if agent == "acer" else "classic_continuous"
    return acer_tf.make_settings(env="World-v0", agent=agent, preset=preset, **SMALL, **given)


@pytest.mark.training
@pytest.mark.parametrize("kind", WORLDS)
def test_a_wrapped_environment_trains_and_its_policy_acts(kind, tmp_path):
    world = World(*WORLDS[kind])
    with pytest.raises((InvalidEnvironment, SettingsError), match=r"gymnasium\.wrappers\."):
        acer_tf.train(small(world), tmp_path / "run", env=factory_of(world), quiet=True)
    env, _ = let_in(world, ACTIONS=[world.action_space.sample() for _ in range(3)])
    if kind == "channels first":
        with pytest.raises(SettingsError) as refused:
            acer_tf.train(small(env), tmp_path / "run", env=factory_of(env), quiet=True)
        env = wrapped(env, str(refused.value))
    acer_tf.train(small(env), tmp_path / "run", env=factory_of(env), quiet=True)
    policy = acer_tf.load_policy(tmp_path / "run" / "policy")
    shown, _ = env.reset(seed=0)
    assert isinstance(env, gymnasium.Env) and env.action_space.contains(policy(np.array([shown]))[0])


@pytest.mark.training
@pytest.mark.parametrize("normalize", [True, False])
def test_images_train_with_continuous_actions_and_mlp(normalize, tmp_path):
    world = World(spaces.Box(0, 255, (9, 9, 3), np.uint8), spaces.Box(-1, 1, (2,)))
    settings = small(world, network="mlp", normalize_observations=normalize)
    acer_tf.train(settings, tmp_path / "run", env=factory_of(world), quiet=True)
    policy = acer_tf.load_policy(tmp_path / "run" / "policy")
    assert policy.spec.observation_scale == 255 and np.isfinite(policy(world.reset(seed=0)[0][None])).all()
