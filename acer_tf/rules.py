"""The update rules that `--agent` names, one line each. Nothing here imports TensorFlow."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Rule:
    """What `--agent` stands for.

    Attributes:
        discrete: "module:Class" of the agent with discrete actions; "" where there is none.
        continuous: the same with continuous actions.
        fixed: settings that define it.
        without_trust_region: the rule that this is without its trust region, which then defines it; else "".
        trajectory_weights: whether rows weigh by the importance of their trajectory: what makes TIS of A3C.
        recurrent: whether it learns on recurrent networks too, where actions are discrete.
        transitions: whether it learns from single transitions, drawn as a batch, rather than from whole windows.
        presets: of `acer_tf.presets` that are its own; without any it takes those that are no other rule's.
    """

    discrete: str = ""
    continuous: str = ""
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    without_trust_region: str = ""
    trajectory_weights: bool = False
    recurrent: bool = False
    transitions: bool = False
    presets: tuple[str, ...] = ()

    def accepts(self, *, continuous: bool) -> bool:
        """Whether it chooses actions of this kind."""
        return bool(self.continuous if continuous else self.discrete)


_ACER = "acer_tf.agents.acer:Acer"
_ACTOR_CRITIC = "acer_tf.agents.actor_critic:ActorCritic"
_ON_POLICY = {"on_policy_updates": True, "replay_ratio": 0.0}

# The paper calls replay ratio 0 A3C (§4): the same update, without the trust region or with it. With continuous actions
# it is A3C's own (appendix E.2), and TIS is its off-policy form.
RULES: dict[str, Rule] = {
    "acer": Rule(_ACER, recurrent=True),
    "acer_continuous": Rule(continuous="acer_tf.agents.acer_continuous:AcerContinuous"),
    "a3c": Rule(_ACER, _ACTOR_CRITIC, {**_ON_POLICY, "trust_region_delta": math.inf}, recurrent=True),
    "trust_a3c": Rule(_ACER, _ACTOR_CRITIC, _ON_POLICY, without_trust_region="a3c", recurrent=True),
    "tis": Rule(continuous=_ACTOR_CRITIC, fixed={"trust_region_delta": math.inf}, trajectory_weights=True),
    "trust_tis": Rule(continuous=_ACTOR_CRITIC, without_trust_region="tis", trajectory_weights=True),
    "dqn": Rule(
        "acer_tf.agents.dqn:Dqn",
        fixed={"on_policy_updates": False, "trust_region_delta": math.inf},
        transitions=True,
        presets=("dqn", "dqn_rank", "ddqn_tuned", "ddqn_rank", "ddqn_proportional"),
    ),
}


def rule_of(agent: str) -> Rule:
    """The rule that `--agent` names: of `RULES`, or "module:Class", a subclass of `acer_tf.agents.agent.Agent`.

    The class is not imported here; whether it suits the environment's actions shows when it is made.

    Raises:
        KeyError: neither.
    """
    if agent in RULES:
        return RULES[agent]
    if is_reference(agent):
        return Rule(agent, agent)
    raise KeyError(agent)


def rules_for(*, continuous: bool) -> list[str]:
    """The names of the rules for one kind of actions."""
    return [name for name, rule in RULES.items() if rule.accepts(continuous=continuous)]


def is_reference(name: str) -> bool:
    """Whether `name` has the form "module:attribute", for what users bring themselves."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))
