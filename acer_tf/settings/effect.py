"""Whether settings suit an environment, and have an effect there."""

from typing import Any

from acer_tf.errors import InvalidEnvironment, SettingsError
from acer_tf.settings import Settings, make_settings
from acer_tf.settings.declaration import declarations
from acer_tf.settings.presets import FOR_CONTINUOUS_ACTIONS
from acer_tf.settings.rules import RULES, rules_for
from acer_tf.types import EnvironmentSpec


def require_actions(settings: Settings, spec: EnvironmentSpec) -> None:
    """Raises InvalidEnvironment unless agent and preset are made for the environment's kind of actions."""
    kind = "continuous" if spec.continuous else "discrete"
    if not settings.rule.accepts(continuous=spec.continuous):
        size = f"[-1, 1]^{spec.action_size}" if spec.continuous else f"{spec.num_actions} actions"
        raise InvalidEnvironment(
            f"{settings.env} has a {kind} action space ({size}), for which --agent={settings.agent} is not made; "
            f"it takes --agent={', '.join(rules_for(continuous=spec.continuous))}"
        )
    if (settings.preset in FOR_CONTINUOUS_ACTIONS) != spec.continuous:
        raise InvalidEnvironment(
            f"{settings.env} has a {kind} action space, for which --preset={settings.preset} is not made; leave it out"
        )


def missing_for(name: str, settings: Settings, spec: EnvironmentSpec) -> list[str]:
    """What a setting needs, and resolved `settings` do not have, to have an effect; [] if it has one."""
    declared = declarations(Settings)[name]
    missing = [condition.needed for condition in declared.conditions if not condition.holds(settings, spec)]
    # It is not known which settings a user's rule reads.
    if declared.classes and settings.agent in RULES:
        readers = [agent for agent, rule in RULES.items() if rule.class_for(spec.continuous) in declared.classes]
        if settings.agent not in readers:
            kind = "continuous" if spec.continuous else "discrete"
            missing.append(f"--agent={' or '.join(readers)}" if readers else f"other actions than {kind} ones")
    return missing


def without_effect(settings: Settings, spec: EnvironmentSpec) -> dict[str, Any]:
    """The changed settings of resolved `settings` that have no effect, and their usual values."""
    usual = make_settings(env=settings.env, agent=settings.agent, preset=settings.preset)
    values = {name: getattr(usual, name) for name in declarations(Settings)}
    return {n: v for n, v in values.items() if getattr(settings, n) != v and missing_for(n, settings, spec)}


def require_effect(settings: Settings, spec: EnvironmentSpec) -> None:
    """Raises SettingsError if a changed setting of resolved `settings` has no effect, and says what it would need."""
    for name, usual in without_effect(settings, spec).items():
        raise SettingsError(
            f"--{name}={getattr(settings, name)}: has no effect with --agent={settings.agent} in {settings.env}: "
            f"it needs {' and '.join(missing_for(name, settings, spec))}; leave it at {usual}"
        )
