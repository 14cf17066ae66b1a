"""The update rules that `--agent` names, one line each. Nothing here imports TensorFlow."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from acer_tf.references import is_reference


@dataclasses.dataclass(frozen=True)
class Rule:
    """The meaning of a value of `--agent`."""

    discrete: str = ""  # "module:Class" of the agent for discrete actions; "" if it has none
    continuous: str = ""  # the same for continuous actions
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # settings that define it and cannot be changed
    without_trust_region: str = ""  # for a rule defined by its trust region, the name of the same rule without one
    trajectory_weights: bool = False  # whether rows are weighted by their trajectory's importance: TIS, but not A3C
    recurrent: bool = False  # whether it supports recurrent networks
    transitions: bool = False  # whether it learns from batches of single transitions, not from whole windows
    presets: tuple[str, ...] = ()  # presets that only this rule takes; if empty, it takes all that no rule lists

    def accepts(self, *, continuous: bool) -> bool:
        """Whether the rule supports actions of this kind."""
        return bool(self.continuous if continuous else self.discrete)

    def class_for(self, continuous: bool) -> str:
        """The name of its class for actions of this kind; "" if it has none."""
        return (self.continuous if continuous else self.discrete).partition(":")[2]


OPTIMIZERS = ("rmsprop", "adam")  # names of `--optimizer`: see `agents.optimizer`

_ACER = "acer_tf.agents.acer:Acer"
_ACTOR_CRITIC = "acer_tf.agents.actor_critic:ActorCritic"
_ON_POLICY = {"on_policy_updates": True, "replay_ratio": 0.0}

# With discrete actions, A3C and Trust-A3C are ACER's update at replay ratio 0 (§4). With continuous actions they are
# A3C's own update, and TIS is its off-policy form (appendix E.2).
RULES: dict[str, Rule] = {
    "acer": Rule(_ACER, recurrent=True),
    "acer_continuous": Rule(continuous="acer_tf.agents.acer_continuous:AcerContinuous", recurrent=True),
    "a3c": Rule(_ACER, _ACTOR_CRITIC, {**_ON_POLICY, "trust_region_delta": math.inf}, recurrent=True),
    "trust_a3c": Rule(_ACER, _ACTOR_CRITIC, _ON_POLICY, without_trust_region="a3c", recurrent=True),
    "tis": Rule(
        continuous=_ACTOR_CRITIC, fixed={"trust_region_delta": math.inf}, trajectory_weights=True, recurrent=True
    ),
    "trust_tis": Rule(continuous=_ACTOR_CRITIC, without_trust_region="tis", trajectory_weights=True, recurrent=True),
    "dqn": Rule(
        "acer_tf.agents.dqn:Dqn",
        fixed={"on_policy_updates": False, "trust_region_delta": math.inf},
        transitions=True,
        presets=("dqn", "dqn_rank", "ddqn_tuned", "ddqn_rank", "ddqn_proportional", "minatar_dqn", "classic_dqn"),
    ),
}


def rule_of(agent: str) -> Rule:
    """The rule that `--agent` names: of `RULES`, or "module:Class", an `Agent` that is not imported here; or KeyError.

    Whether a user's class supports the environment's actions is found when it is made. One that extends
    `agents.actor_critic.ActorCritic` may replay, so its rows have the weights of TIS. One that reads an LSTM's windows
    without their memory is told so by the network.
    """
    if agent in RULES:
        return RULES[agent]
    if is_reference(agent):
        return Rule(agent, agent, trajectory_weights=True, recurrent=True)
    raise KeyError(agent)


def rules_for(*, continuous: bool) -> list[str]:
    """The names of the rules that support actions of this kind."""
    return [name for name, rule in RULES.items() if rule.accepts(continuous=continuous)]
