"""Evaluation while training: whole episodes at intervals, in environments of their own; the best policy is kept."""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acer_tf.errors import NonFiniteError, NonFinitePolicy
from acer_tf.files import POLICY_METADATA, missing_parts
from acer_tf.policies.current import CurrentPolicy
from acer_tf.policies.export import exporting
from acer_tf.settings import Settings
from acer_tf.training.build import derive_seed

BEST = "best_policy"
_PROTOCOL = ("env", "episodes", "greedy", "seed", "max_episode_steps")  # scores that differ in these do not compare


class Evaluations:
    """The evaluations of a run, all with the same seed: every policy meets the same environments.

    Args:
        settings: the run's.
        policy: the run's at each time.
        folder: of the run; the best policy is `BEST` there, with its score in its metadata.
        options: `env`, `env_workers` and `threads`, as in `evaluate`.
    """

    def __init__(self, settings: Settings, policy: CurrentPolicy, folder: Path, options: dict[str, Any]) -> None:
        self.settings, self._policy, self._options = settings, policy, options
        self._best = folder / BEST
        self.steps = 0  # of the run at the last evaluation
        self.mean: float | None = None  # its mean return
        self._protocol = settings.evaluation_protocol  # its
        self._error: float | None = None
        self.seconds = 0.0  # that evaluations have taken in this process

    @property
    def reached(self) -> bool:
        """Whether the last evaluation ends the run."""
        return self.mean is not None and self.settings.ended_by(self.mean, self._protocol)

    def due(self, steps: int) -> bool:
        """Whether a row of progress at `steps` has an evaluation: the first one after each interval, and the last."""
        every = self.settings.evaluate_every
        return every > 0 and (steps // every > self.steps // every or steps >= self.settings.total_steps > self.steps)

    def evaluate(self, steps: int, check: Callable[[], None], report: Callable[[str], None]) -> None:
        """Evaluates the policy of `steps`, and keeps it if none before was better; `check` and `report` as `evaluate`.

        Raises:
            NonFiniteError: the policy's answers are not finite.
            OSError: the policy could not be written (disk full).
            And what `evaluate` raises of environments that do not begin, do not suit the policy, or fail.
        """
        from acer_tf.policies.evaluation import evaluate

        h, began = self.settings, time.monotonic()
        try:
            result = evaluate(
                self._policy,
                episodes=h.evaluate_episodes,
                greedy=h.evaluate_greedy,
                seed=derive_seed(h, "evaluation"),
                num_envs=h.evaluation_envs,
                max_episode_steps=h.evaluate_max_episode_steps or None,
                **self._options,
                check=check,
                report=report,
            )
            self.keep_if_best(
                {name: getattr(result, name) for name in ("mean", "standard_error", "episodes", "num_envs")}
                | {name: getattr(result, name) for name in ("greedy", "seed", "max_episode_steps")}
            )
        except NonFinitePolicy as error:
            raise NonFiniteError(f"{error}, at step {steps:,}") from error
        finally:
            self.seconds += time.monotonic() - began
        self.steps, self.mean, self._error = steps, result.mean, result.standard_error
        self._protocol = h.evaluation_protocol

    def keep_if_best(self, score: dict[str, Any]) -> None:
        """Keeps the present policy if it is better than the kept one, or that one's score is of another protocol."""
        with exporting(self._best) as export:  # which puts back what an interrupted export took away
            best, present = None, {"env": self.settings.env, **score}
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # there is none that can be read
                if not missing_parts(self._best):
                    metadata = json.loads((self._best / POLICY_METADATA).read_text())
                    kept = {"env": metadata["env"], **metadata["evaluation"]}
                    if all(kept[name] == present[name] for name in _PROTOCOL):
                        best = float(kept["mean"])
            if best is None or score["mean"] > best:
                export(self._policy.network, {**self._policy.describe(), "evaluation": score})

    def columns(self, steps: int) -> dict[str, float | None]:
        """The cells of a row of progress at `steps`; none in a run without evaluations."""
        if not self.settings.evaluate_every:
            return {}
        now = steps == self.steps
        return {"evaluation_return": self.mean if now else None, "evaluation_error": self._error if now else None}

    def state(self) -> dict[str, Any]:
        """JSON-able, for a checkpoint."""
        return {"steps": self.steps, "mean": self.mean, "error": self._error, "protocol": self._protocol}

    def restore(self, state: dict[str, Any]) -> None:
        self.steps, self.mean, self._error = state["steps"], state["mean"], state["error"]
        self._protocol = tuple(state["protocol"])
