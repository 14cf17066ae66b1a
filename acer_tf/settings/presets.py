"""Named sets of settings: those of the papers, of OpenAI baselines, and the usual ones for families of environments."""

import math
from typing import Any

from acer_tf.envs import spec
from acer_tf.envs.families import family_of
from acer_tf.errors import InvalidEnvironment, SettingsError
from acer_tf.settings.rules import RULES, rule_of, rules_for

# fmt: off
# Mnih et al. 2015, and its authors' google-deepmind/dqn_zoo, where RMSProp's ε is for the mean over a batch of 32.
_DQN: dict[str, Any] = dict(
    num_envs=1, unroll_length=4, trajectories_per_update=1,
    replay_ratio=1.0, replay_poisson=False, replay_start=50_000, replay_capacity=1_000_000, replay_batch=32,
    learning_rate=2.5e-4, rmsprop_decay=0.95, rmsprop_epsilon=0.01 / 32**2, rmsprop_centered=True,
    rmsprop_initial_accumulator=0.0, max_gradient_norm=math.inf,
    initialization="fan_in", entropy_weight=0.0, critic_weight=1.0,
)
# Schaul et al. 2016, Tables 2 and 3: a quarter of the learning rate; RMSProp's ε as in DQN Zoo.
_QUARTER = dict(learning_rate=2.5e-4 / 4, rmsprop_epsilon=0.01 / 32**2 / 4**2)
_ORIGINAL = dict(
    double_q=False, shared_bias=False, target_period=10_000, exploration_final=0.1, evaluation_epsilon=0.05
)
# For a million steps or fewer, as Stable-Baselines3 and RL Zoo have them: Adam, ε and target period of that length, 8
# environments, one bias per action.
_DQN_SHORT: dict[str, Any] = _DQN | dict(
    num_envs=8, replay_capacity=12_500, optimizer="adam", max_gradient_norm=10.0, initialization="orthogonal",
    shared_bias=False, priority_epsilon=0.01,
)
# The ACER paper, §6 and appendix E.
_CONTINUOUS: dict[str, Any] = dict(
    on_policy_updates=False, replay_start=0, replay_capacity=5_000,
    importance_truncation=5.0, trust_region_delta=0.42, average_decay=0.995, entropy_weight=0.0, critic_weight=1.0,
    dense_units="256,256", normalize_observations=True,
)

# A value that a preset does not list is the default of `Settings`.
PRESETS: dict[str, dict[str, Any]] = dict(
    # OpenAI baselines' ACER, the public implementation to match.
    baselines={},
    # The paper's §4. What it leaves open is as A3C's authors told it by e-mail (RMSProp ε 0.1 presumes summed
    # gradients); the clip is the one usual in public A3Cs. One update stands for those of four threads: it costs less
    # and moves θ as they do. The entropy weight is A3C's, as that of OpenAI baselines.
    paper=dict(
        trajectories_per_update=4, rmsprop_epsilon=0.1, rmsprop_initial_accumulator=0.0, max_gradient_norm=40.0,
        critic_weight=1.0, initialization="fan_in", reduction="threads", replay_start=0,
    ),
    # `baselines` with step size and replay for games that are learned in a million steps.
    minatar=dict(learning_rate=3e-3, replay_start=1_000),
    # `baselines` for tasks that are learned in some 100,000 steps: more updates per step, and replay from early on.
    # Rewards and inputs are normalized, since the tasks' returns differ by a factor of a hundred, and so do the numbers
    # that they show (MountainCar's velocity is at most 0.07). The entropy weight is one for rewards so divided. The
    # learning rate falls to 0, as OpenAI's.
    classic=dict(
        num_envs=8, replay_start=200, optimizer="adam", learning_rate=1e-3, learning_rate_final=0.0,
        entropy_weight=1e-3, normalize_rewards=True,
        dense_activation="gelu", dense_normalization=True, normalize_observations=True,
    ),
    # `paper_continuous` for tasks that are learned in a few 100,000 steps. Twice the learning rate learns faster, but
    # its policies forget states for a while.
    classic_continuous=dict(
        _CONTINUOUS, num_envs=8, unroll_length=20, trajectories_per_update=2, learning_rate=5e-4,
        learning_rate_final=0.0, normalize_rewards=True, reward_scale=10.0,
    ),
    # Learning rate and δ are near good ones of the paper's Figures 5 and 6. Through a shared torso the critic's
    # gradient would move the policy, which the trust region does not bound: more means left the actions' bounds.
    paper_continuous=dict(
        _CONTINUOUS, unroll_length=50, trajectories_per_update=1, shared_torso=False, learning_rate=1.4e-4
    ),
    dqn=_DQN | _ORIGINAL,
    dqn_rank=_DQN | _ORIGINAL | _QUARTER | dict(
        replay_priority="rank", priority_exponent=0.5, priority_exponent_final=0.0, importance_exponent=0.0,
        importance_exponent_final=0.0,
    ),
    ddqn_tuned=_DQN,
    ddqn_rank=_DQN | _QUARTER | dict(
        replay_priority="rank", priority_exponent=0.7, importance_exponent=0.5
    ),
    ddqn_proportional=_DQN | _QUARTER | dict(replay_priority="proportional", priority_epsilon=0.01),
    minatar_dqn=_DQN_SHORT | dict(
        replay_start=1_250, learning_rate=2.5e-4, target_period=1_000, exploration_steps=100_000,
    ),
    # At twice the learning rate policies got worse again: CartPole ended at 245 and 302 after 100,000 steps.
    classic_dqn=_DQN_SHORT | dict(
        replay_start=200, replay_ratio=4.0, replay_batch=64, learning_rate=3e-4, learning_rate_final=0.0,
        target_period=250, exploration_steps=10_000, exploration_final=0.05, normalize_rewards=True,
        dense_units="256,256", dense_activation="relu",
    ),
)
# fmt: on


# All others are for discrete ones.
FOR_CONTINUOUS_ACTIONS = ("classic_continuous", "paper_continuous")


def fitting_presets(agent: str) -> tuple[str, ...]:
    """The presets that an agent takes: its own, or else those of its kinds of actions and of no other agent."""
    rule = rule_of(agent)
    owned = {preset for other in RULES.values() for preset in other.presets}
    fits = {name: rule.accepts(continuous=name in FOR_CONTINUOUS_ACTIONS) for name in PRESETS}
    return rule.presets or tuple(name for name in PRESETS if fits[name] and name not in owned)


def usual_preset(env: str, agent: str) -> str:
    """The preset that `--preset=auto` means: that of the environment's family, or of the agent there (minatar_dqn).

    It is the agent's first own one where the family has none for it.

    The environment is made only if neither its family nor the agent tells the kind of its actions.

    Raises:
        SettingsError: the agent does not take its family's kind of actions.
        InvalidEnvironment: it cannot be made.
        EnvironmentFailure: it raised when it was made.
    """
    rule = rule_of(agent)
    discrete, continuous = family_of(env).preset
    if rule.presets:
        own = f"{discrete}_{agent}"
        return own if own in rule.presets else rule.presets[0]
    if not (discrete and continuous):
        if not rule.accepts(continuous=bool(continuous)):
            kind, fitting = (
                "continuous" if continuous else "discrete",
                ", ".join(rules_for(continuous=bool(continuous))),
            )
            raise SettingsError(f"--agent={agent}: {env} has {kind} actions, for which it must be of {fitting}")
        return discrete or continuous
    both = rule.discrete and rule.continuous
    try:
        acts_continuously = spec(env, action_masks=False).continuous if both else bool(rule.continuous)
    except InvalidEnvironment as error:
        remedy = f"if a function of yours makes it, give --preset={discrete} or --preset={continuous}"
        raise InvalidEnvironment(f"{error}; {remedy}") from error
    return continuous if acts_continuously else discrete
