"""Replaces the setting "auto" by the value that it stands for. Nothing here imports TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from acer_tf.errors import SettingsError
from acer_tf.networks.image_axes import require_image_axes
from acer_tf.networks.torsos import default_network, has_plain_numbers, readable_torso
from acer_tf.settings import Settings
from acer_tf.settings.effect import require_actions
from acer_tf.training.device import CPU, Device
from acer_tf.types import EnvironmentSpec

DECIDED_BY_RUN = ("network", "precision")  # settings that may be "auto"


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
            normal = settings.normalize_observations or not has_plain_numbers(spec)
            precision = "bfloat16" if torso.large and normal and device.fast_bfloat16 else "float32"
    except ValueError as error:
        raise SettingsError(f"--network={network}: {error}") from error
    return dataclasses.replace(settings, network=network, precision=precision)
