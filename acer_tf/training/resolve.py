"""Replaces the setting "auto" by the value that it stands for. Nothing here imports TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from acer_tf.errors import InvalidEnvironment, SettingsError
from acer_tf.networks.image_axes import require_image_axes
from acer_tf.networks.torsos import default_network, has_plain_numbers, readable_torso
from acer_tf.settings import Settings, make_settings
from acer_tf.settings.declaration import declarations
from acer_tf.settings.presets import FOR_CONTINUOUS_ACTIONS
from acer_tf.settings.rules import RULES, rules_for
from acer_tf.training.device import CPU, Device
from acer_tf.types import EnvironmentSpec

DECIDED_BY_RUN = ("network", "precision")  # settings that may be "auto"


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


def resolve(
    settings: Settings, spec: EnvironmentSpec, recorded: Mapping[str, Any] | None = None, device: Device = CPU
) -> Settings:
    """`settings` with every "auto" replaced by its value for this environment and device, for the run's record.

    In a run that is continued, "auto" keeps the `recorded` value: another version or machine may choose others.

    Raises:
        InvalidEnvironment: the agent or the preset is not made for the environment's kind of actions.
        SettingsError: the network does not accept the observations, or none does; they look like images that none
            reads as such; or a user's torso cannot be imported.
    """
    require_actions(settings, spec)
    kept = {name: (recorded or {}).get(name, "auto") for name in DECIDED_BY_RUN}
    network, precision = (kept[name] if getattr(settings, name) == "auto" else getattr(settings, name) for name in kept)
    try:
        if not recorded:
            require_image_axes(network, spec)
        if network == "auto":
            network = default_network(spec)
        torso = readable_torso(network, spec)
        if precision == "auto":
            # Only large convolutions gain by it; with normalised numbers learning does not suffer (results/precision).
            normal = spec.continuous or settings.dense_normalize_inputs or not has_plain_numbers(spec)
            precision = "bfloat16" if torso.large and normal and device.fast_bfloat16 else "float32"
    except ValueError as error:
        raise SettingsError(f"--network={network}: {error}") from error
    return dataclasses.replace(settings, network=network, precision=precision)


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


def require_effect(settings: Settings, spec: EnvironmentSpec) -> None:
    """Raises SettingsError if a changed setting of resolved `settings` has no effect, and says what it would need."""
    usual = make_settings(env=settings.env, agent=settings.agent, preset=settings.preset)
    for name in declarations(Settings):
        changed = getattr(settings, name) != getattr(usual, name)
        if changed and (missing := missing_for(name, settings, spec)):
            raise SettingsError(
                f"--{name}={getattr(settings, name)}: has no effect with --agent={settings.agent} in {settings.env}: "
                f"it needs {' and '.join(missing)}; leave it at {getattr(usual, name)}"
            )
