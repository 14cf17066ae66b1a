"""What must hold between the settings of a run, whatever its environment; ranges stand with each setting."""

from collections.abc import Callable
from typing import Any

from acer_tf.settings.presets import fitting_presets
from acer_tf.settings.rules import RULES

_RECURRENT = ", ".join(name for name, rule in RULES.items() if rule.recurrent)

# A condition on `Settings`, and what is wrong if it does not hold: {s.NAME} is a setting, {presets} the agent's.
# fmt: off
CHECKS: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (lambda s: s.trust_region or not s.rule.without_trust_region,
     "--trust_region_delta=inf: --agent={s.agent} is defined by its trust region; without it, it is "
     "--agent={s.rule.without_trust_region}"),
    (lambda s: s.num_envs % (s.trajectories_per_update or 1) == 0,
     "--trajectories_per_update={s.trajectories_per_update}: must divide --num_envs={s.num_envs}, or be 0 for all "
     "environments"),
    (lambda s: s.num_envs % s.acting_groups == 0,
     "--actors={s.actors}: must divide --num_envs={s.num_envs}, or be 0"),
    (lambda s: s.evaluate_every == 0 or s.evaluate_every >= s.log_interval,
     "--evaluate_every={s.evaluate_every}: must be at least --log_interval={s.log_interval}, since an evaluation is "
     "part of a row of progress.csv, or 0 for none"),
    (lambda s: s.preset in fitting_presets(s.agent),
     "--preset={s.preset}: --agent={s.agent} takes one of {presets}"),
    (lambda s: s.replay_poisson or s.replay_ratio % 1 == 0,
     "--replay_ratio={s.replay_ratio}: must be a whole number with --noreplay_poisson"),
    (lambda s: s.on_policy_updates or s.replay_ratio > 0,
     "--noon_policy_updates with --replay_ratio=0.0: nothing would be learned; give --on_policy_updates, or a ratio "
     "above 0"),
    (lambda s: s.critic_weight > 0 or not s.rule.transitions,
     "--critic_weight=0.0: with --agent={s.agent} nothing would be learned; must be above 0"),
    (lambda s: s.importance_truncation > 0
     or (s.bias_correction and (s.rule.discrete or not s.rule.trajectory_weights)),
     "--importance_truncation=0.0: no row would have a weight; must be above 0, but with --agent=acer or "
     "acer_continuous and --bias_correction"),
    (lambda s: s.reduction != "sum" or not s.rule.transitions,
     "--reduction=sum: --agent={s.agent} learns from single transitions, whose gradients are averaged; give "
     "--reduction=mean"),
    (lambda s: s.replay_ratio == 0 or s.replay_capacity >= s.unroll_length,
     "--replay_capacity={s.replay_capacity}: must be at least --unroll_length={s.unroll_length}"),
    (lambda s: s.replay_ratio == 0 or s.replay_start <= s.replay_capacity,
     "--replay_start={s.replay_start}: replay would never start; must be at most "
     "--replay_capacity={s.replay_capacity} (both in rows per environment)"),
    (lambda s: s.reduction != "threads" or s.replay_batch in (0, s.threads_per_update),
     "--replay_batch={s.replay_batch}: must be 0 or {s.threads_per_update} with --reduction=threads, where every "
     "update has one trajectory per thread"),
    (lambda s: s.reduction != "threads" or s.optimizer == "rmsprop",
     "--optimizer={s.optimizer}: must be rmsprop with --reduction=threads, since only its steps add up to those of "
     "several threads; give --reduction=mean or sum"),
    (lambda s: s.rule.recurrent or not s.recurrent,
     f"--lstm_units={{s.lstm_units}}: --agent must be one of {_RECURRENT}, got {{s.agent}}"),
    (lambda s: s.replay_priority == "uniform" or not s.recurrent,
     "--replay_priority={s.replay_priority}: must be uniform with --lstm_units={s.lstm_units}, whose state is stored "
     "where collected segments start, not where prioritized trajectories do"),
    (lambda s: s.replay_ratio == 0 or s.replay_capacity >= 2 * s.unroll_length + s.burn_in or not s.recurrent,
     "--replay_capacity={s.replay_capacity}: must be at least twice --unroll_length={s.unroll_length} and "
     "--burn_in={s.burn_in} with --lstm_units={s.lstm_units}"),
)
# fmt: on
