"""The conditions that the settings of a run must fulfil together, in one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from acer_tf.settings.presets import fitting_presets
from acer_tf.settings.rules import RULES

_RECURRENT = ", ".join(name for name, rule in RULES.items() if rule.recurrent)


class Check(NamedTuple):
    """A condition on several settings."""

    holds: Callable[[Any], bool]  # takes the `Settings`
    message: str  # what is wrong if it does not hold; {s.NAME} is a setting, {presets} those that the agent takes


# fmt: off
CHECKS = (
    Check(
        lambda s: s.trust_region or not s.rule.without_trust_region,
        "--trust_region_delta=inf: --agent={s.agent} is defined by its trust region; without it, it is "
        "--agent={s.rule.without_trust_region}"),
    Check(
        lambda s: s.num_envs % (s.trajectories_per_update or 1) == 0,
        "--trajectories_per_update={s.trajectories_per_update}: must divide --num_envs={s.num_envs}, or be 0 for all "
        "environments"),
    Check(
        lambda s: s.num_envs % s.groups == 0,
        "--actors={s.actors}: must divide --num_envs={s.num_envs}, or be 0"),
    Check(
        lambda s: s.preset in fitting_presets(s.agent),
        "--preset={s.preset}: --agent={s.agent} takes one of {presets}"),
    Check(
        lambda s: s.replay_poisson or s.replay_ratio % 1 == 0,
        "--replay_ratio={s.replay_ratio}: must be a whole number with --noreplay_poisson"),
    Check(
        lambda s: s.on_policy_updates or s.replay_ratio > 0,
        "--noon_policy_updates with --replay_ratio=0.0: nothing would be learned"),
    Check(
        lambda s: s.replay_capacity >= s.unroll_length,
        "--replay_capacity={s.replay_capacity}: must be at least --unroll_length={s.unroll_length}"),
    Check(
        lambda s: s.replay_ratio == 0 or s.replay_start <= s.replay_capacity,
        "--replay_start={s.replay_start}: replay would never start; must be at most "
        "--replay_capacity={s.replay_capacity} (both in rows per environment)"),
    Check(
        lambda s: s.reduction != "threads" or s.replay_batch in (0, s.threads_per_update),
        "--replay_batch={s.replay_batch}: must be 0 or {s.threads_per_update} with --reduction=threads, where every "
        "update has one trajectory per thread"),
    Check(
        lambda s: s.rule.recurrent or not s.recurrent,
        f"--network={{s.network}}: --agent must be one of {_RECURRENT}, got {{s.agent}}"),
    Check(
        lambda s: s.replay_priority == "uniform" or not s.recurrent,
        "--replay_priority={s.replay_priority}: must be uniform with --network={s.network}, whose state is stored "
        "where collected segments start, not where prioritized trajectories do"),
    Check(
        lambda s: s.replay_ratio == 0 or s.replay_capacity >= 2 * s.unroll_length + s.burn_in or not s.recurrent,
        "--replay_capacity={s.replay_capacity}: must be at least twice --unroll_length={s.unroll_length} and "
        "--burn_in={s.burn_in} with --network={s.network}"),
)
# fmt: on
