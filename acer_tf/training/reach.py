"""A notice of rewards so large that the critic does not come near its targets for hundreds of updates."""

from collections.abc import Mapping

from acer_tf.settings import Settings

# In all 875 runs recorded under results/ and in searches, with rewards that suit, the first rows of progress end this;
# with raw rewards on Acrobot, LunarLander and Pendulum they do not, at any --log_interval from 1,000 to 10,000.
_UPDATES, _ROWS = 200, 2
_DISTANCE, _SHARE = 5.0, 0.15  # of values from targets, in units of rewards as learned; of the values


class Reach:
    """Whether the critic's values come near their targets in a run's first rows of progress.

    Values begin near 0, and each update moves them by a bounded step. While they are far from what they learn, the
    critic's error alone decides the direction of updates, and the policy follows advantages that mean nothing.

    Attributes:
        rows: how many rows there were, in all of which they were far; None once one was not, or the notice was given.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.rows: int | None = 0

    def notice(self, row: Mapping[str, float | int | None]) -> str | None:
        """The notice that is due at a row of progress.csv; None if none is, as with rules that log no target."""
        kind = "on_policy" if row.get("on_policy/value") is not None else "replay"
        value, target = row.get(f"{kind}/value"), row.get(f"{kind}/q_retrace", row.get(f"{kind}/return"))
        if self.rows is None or value is None or target is None:
            return None
        updates = (row["on_policy_updates"] or 0) + (row["replay_updates"] or 0)
        far = abs(target - value) > max(_DISTANCE, _SHARE * abs(value))
        self.rows = self.rows + 1 if far else None
        if self.rows is None or self.rows < _ROWS or updates < _UPDATES:
            return None
        self.rows = None
        ways = f"a --reward_scale below {self._settings.reward_scale:g}"
        if not self._settings.normalize_rewards:
            ways = f"--normalize_rewards, or {ways}"
        return (
            f"the critic's targets are {target:.4g} on average and its values {value:.4g}, still after {updates:,} "
            f"updates: rewards are too large to be learned from soon; in a new folder, give {ways}"
        )
