"""How a setting is declared: default, range, help text and the conditions for an effect, all in one line."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from acer_tf.networks.torsos import takes_dense

# Real settings stay far from the bounds of float32, in which runs compute.
_SMALLEST, _LARGEST = 1e-30, 1e30


class Range(NamedTuple):
    """The values that a setting may have."""

    holds: Callable[[Any], bool]  # a comparison with NaN is False, so every range excludes NaN
    wanted: str  # completes "must be ..."


class Condition(NamedTuple):
    """A condition for a setting to have an effect."""

    needed: str  # completes "only with ..." and "it needs ..."
    holds: Callable[[Any, Any], bool]  # takes the resolved `Settings` and the `EnvironmentSpec`


class Search(NamedTuple):
    """The values that a search of hyper-parameters tries: numbers between two, or each of some values."""

    low: float = 0.0
    high: float = 0.0
    log: bool = False  # whether numbers are uniform in their logarithm
    values: tuple[Any, ...] = ()

    def holds(self, value: Any) -> bool:
        """Whether the value may be tried."""
        return value in self.values if self.values else value is not None and bool(self.low <= value <= self.high)

    @property
    def ends(self) -> tuple[Any, ...]:
        """Values that are allowed if all are."""
        return self.values or (self.low, self.high)


class Declaration(NamedTuple):
    """The facts about a setting besides its name, type and default."""

    range: Range
    help: str  # the text for --help
    classes: tuple[str, ...]  # names of the agent classes that read it; () for all
    conditions: tuple[Condition, ...]  # all must hold for the setting to have an effect
    search: Search | None  # what `tune` tries, if it searches the setting unless told otherwise
    section: str | None  # the heading, if a section of --help begins with it


def setting(
    default: Any,
    range_: Range,
    help_: str,
    *conditions: Condition,
    classes: tuple[str, ...] = (),
    search: Search | None = None,
    section: str | None = None,
) -> Any:
    """A dataclass field that declares a setting; see `Declaration`."""
    declaration = Declaration(range_, help_, classes, conditions, search, section)
    return dataclasses.field(default=default, metadata={"declaration": declaration})


@functools.cache
def declarations(kind: type) -> dict[str, Declaration]:
    """The declarations of a dataclass's settings, by name."""
    return {field.name: field.metadata["declaration"] for field in dataclasses.fields(kind)}


def at_least(low: int) -> Range:
    return Range(lambda x: x >= low, f"at least {low}")


def between(low: float, high: float) -> Range:
    return Range(lambda x: low <= x <= high, f"at least {low} and at most {high:,}")


def one_of(*choices: str) -> Range:
    return Range(lambda x: x in choices, "one of " + ", ".join(choices))


def log_uniform(low: float, high: float) -> Search:
    return Search(low, high, log=True)


def values(*tried: Any) -> Search:
    return Search(values=tried)


ANY = Range(lambda x: True, "anything")
TRUTH = Range(lambda x: x in (True, False), "true or false")
POSITIVE = Range(lambda x: _SMALLEST <= x <= _LARGEST, "above 0 and finite (1e-30 to 1e30)")
NOT_NEGATIVE = Range(lambda x: 0 <= x <= _LARGEST, "at least 0 and finite (at most 1e30)")
POSITIVE_OR_INFINITE = Range(lambda x: x == math.inf or POSITIVE.holds(x), "above 0 (1e-30 to 1e30; inf turns it off)")
OPTIONAL_NOT_NEGATIVE = Range(lambda x: x is None or NOT_NEGATIVE.holds(x), NOT_NEGATIVE.wanted)
UNIT_INTERVAL = Range(lambda x: 0 <= x <= 1, "in [0, 1]")
BELOW_ONE = Range(lambda x: 0 <= x < 1, "in [0, 1)")

EVALUATED = Condition("--evaluate_every above 0", lambda s, spec: s.evaluate_every > 0)
ATARI = Condition("Atari games", lambda s, spec: s.family.atari)
REAL_ACTIONS = Condition("continuous actions", lambda s, spec: spec.continuous)
REPLAY = Condition("--replay_ratio above 0", lambda s, spec: s.replay_ratio > 0)
PRIORITIES = Condition("--replay_priority=proportional or rank", lambda s, spec: s.replay_priority != "uniform")
PROPORTIONAL = Condition(
    "--replay_priority=proportional, as a constant changes no rank", lambda s, spec: s.replay_priority == "proportional"
)
WEIGHTED = Condition(
    "--importance_exponent or --importance_exponent_final above 0",
    lambda s, spec: s.importance_exponent > 0 or s.importance_exponent_final > 0,
)
BATCHES = Condition(
    "--agent=dqn or draws by priority", lambda s, spec: s.rule.transitions or s.replay_priority != "uniform"
)
WINDOWS = Condition(
    "uniform draws of windows", lambda s, spec: not s.rule.transitions and s.replay_priority == "uniform"
)
DUELING = Condition("--dueling", lambda s, spec: s.dueling)
DENSE = Condition("a --network that is mlp, combined or your own", lambda s, spec: takes_dense(s.network))
RECURRENT = Condition("--lstm_units above 0", lambda s, spec: s.recurrent)
FEED_FORWARD = Condition("--lstm_units=0", lambda s, spec: not s.recurrent)
INITIALIZED = Condition("--initialize_from", lambda s, spec: s.initialize_from is not None)
RMSPROP = Condition("--optimizer=rmsprop", lambda s, spec: s.optimizer == "rmsprop")
RETRACE = Condition("--retrace", lambda s, spec: s.retrace)
TRUNCATED = Condition("a finite --importance_truncation", lambda s, spec: math.isfinite(s.importance_truncation))
TRUST_REGION = Condition("a finite --trust_region_delta", lambda s, spec: s.trust_region)
ENTROPY = Condition("--entropy_weight above 0", lambda s, spec: s.entropy_weight > 0 or bool(s.entropy_weight_final))
IMPORTANCE = Condition(
    "an agent with importance weights, which a3c and trust_a3c have with discrete actions only",
    # The class of A3C's continuous update is TIS's too; a user's class stands for both kinds of actions.
    lambda s, spec: s.rule.trajectory_weights or not spec.continuous or s.rule.discrete in ("", s.rule.continuous),
)
