"""A run under way: its iterations, rows of progress, evaluations and checkpoints, and its end."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from acer_tf import envs
from acer_tf.agents.agent import Agent
from acer_tf.errors import ClusterLost, EnvironmentFailure, Interrupted, NonFiniteError
from acer_tf.files import write_json
from acer_tf.policies.current import CurrentPolicy
from acer_tf.policies.export import exporting
from acer_tf.policies.policy import Policy
from acer_tf.runs import records
from acer_tf.runs.checkpoint import Checkpoints, Snapshot
from acer_tf.runs.progress import Progress, progress_line
from acer_tf.runs.records import ProgressRow
from acer_tf.runs.signals import StopRequest
from acer_tf.settings.record import settings_document
from acer_tf.training.actor import Actors, Stopped
from acer_tf.training.evaluations import Evaluations
from acer_tf.training.export_run import policy_metadata
from acer_tf.training.job import Job
from acer_tf.training.loop import Loop
from acer_tf.training.reach import Reach

STATE = ("actor", "loop", "seconds", "evaluations", "row_due", "reach", "last_row")  # that `ActiveRun.save` writes


@dataclasses.dataclass
class ActiveRun:
    """A run between its beginning, or its continuation, and its end."""

    job: Job
    agent: Agent
    loop: Loop
    actors: Actors
    checkpoints: Checkpoints
    progress: Progress
    maker: dict[str, Any]  # what makes its rows from here on, see `maker_of`
    seconds_before: float  # the work of its earlier processes
    unsaved: bool  # whether it differs from its newest checkpoint
    row_due: bool = False  # whether the row of progress at the last step is still to be written

    def __post_init__(self) -> None:
        job = self.job
        self.policy = CurrentPolicy(self.agent.network, lambda: self.steps, self._metadata)
        options = {"env": job.env or job.settings.env, "env_workers": job.env_workers, "threads": job.threads}
        self.evaluations = Evaluations(job.settings, self.policy, job.folder, options)
        self.reach = Reach(job.settings)
        self._began = time.monotonic() - self.seconds_before
        self.last_row = (self.steps, self.seconds_before)  # steps and seconds at the last row of progress

    @property
    def steps(self) -> int:
        return self.loop.collector.steps

    def advance(self, stop: StopRequest) -> None:
        """Collects and learns until the last step. Raises Interrupted after a checkpoint, if asked to stop."""
        settings, job = self.job.settings, self.job
        # A finished run that is extended has an empty replay too.
        missing = max(0, settings.replay_start - self.loop.replay.stored) * settings.num_envs
        if settings.replay_ratio and missing > settings.total_steps - self.steps > 0:
            per_environment = f"--replay_start={settings.replay_start} is per environment"
            job.say(f"no replay before the end: {per_environment}, and needs {missing:,} more steps")
        # The first interval with replay throughout tells the rate that will last.
        slower_at = self.steps + missing + settings.log_interval if settings.replay_ratio and missing else 0
        if self.row_due:  # the run was stopped during its evaluation
            self._write_row(stop, slower_at)
        if self.unsaved:
            self.save()
        saved = time.monotonic()
        while self.steps < settings.total_steps and not self.evaluations.reached:
            interval = self.steps // settings.log_interval
            try:
                self.loop.iterate()
            except (ClusterLost, EnvironmentFailure, Stopped) as error:
                # A signal to all processes of a terminal or job may have ended one that an environment talks to.
                if isinstance(error, ClusterLost) or stop.signal_number is None:
                    self.save()
                    raise
            finally:
                if notes := self.actors.notes:
                    self._note(notes)
                    notes.clear()
            if self.steps // settings.log_interval > interval or self.steps >= settings.total_steps:
                self._write_row(stop, slower_at)
            if stop.signal_number is not None:
                self.save()
                raise Interrupted(stop.signal_number)
            if time.monotonic() - saved >= job.checkpoint_minutes * 60:
                self.save()
                saved = time.monotonic()

    def _write_row(self, stop: StopRequest, slower_at: int) -> None:
        """Evaluates if it is time, writes a row of progress, and shows it; see `progress_line`."""
        self.row_due = True
        if self.evaluations.due(self.steps):
            self._evaluate(stop)
        row = self._row()
        self.progress.write(row)
        self.row_due = False
        if (notice := self.reach.notice(row)) is not None:
            self._note([notice])
        if self.job.on_row is not None:
            self._call(self.job.on_row, dict(row), stop)
        try:
            self.job.say(progress_line(row, self.job.settings.total_steps, slower_at))
        except Exception as error:
            self.save()
            # Ctrl-C also ends the reader of a pipe.
            if isinstance(error, OSError) and stop.signal_number is not None:
                raise Interrupted(stop.signal_number) from error
            raise

    def _note(self, notes: Sequence[str]) -> None:
        """Says what is not as expected, and records it."""
        self.job.note(self.steps, notes)
        records.amend_record(self.job.folder, settings_document(self.job.settings), self.steps, notes, self.maker)

    def _evaluate(self, stop: StopRequest) -> None:
        """Raises Interrupted after a checkpoint, before the row of progress, if asked to stop."""

        def check() -> None:
            if stop.signal_number is not None:
                raise Stopped

        try:
            self.evaluations.evaluate(self.steps, check, lambda line: self.job.say(f"evaluation: {line}"))
        except NonFiniteError:
            raise
        except Exception as error:
            self.save()
            if isinstance(error, Stopped | EnvironmentFailure) and stop.signal_number is not None:
                raise Interrupted(stop.signal_number) from None
            raise

    def _call(self, on_row: Callable[[ProgressRow, Policy], None], row: ProgressRow, stop: StopRequest) -> None:
        """Calls `on_row`. If it raises, a checkpoint and the policy are left, but at once after a second Ctrl-C."""
        try:
            on_row(row, self.policy)
        except BaseException as error:
            if stop.signal_number is None or isinstance(error, Exception):
                self.save()
                self._export()
            if isinstance(error, OSError) and stop.signal_number is not None:  # as in `_write_row`
                raise Interrupted(stop.signal_number) from error
            raise

    def _export(self) -> Path:
        policy = self.job.folder / "policy"
        with exporting(policy) as export:
            export(self.agent.network, self._metadata())
        return policy

    def _metadata(self) -> dict[str, Any]:
        return policy_metadata(self.job.settings, self.steps, self.maker["commit"], envs.name_of(self.job.env))

    def finish(self) -> Path:
        """Writes the policy and the end of the record, after the last checkpoint; returns the policy's folder."""
        policy = self._export()
        done: dict[str, Any] = {"finished": True, "steps": self.steps, "seconds": round(self._seconds(), 1)}
        if self.evaluations.reached and self.steps < self.job.settings.total_steps:
            done["stopped_at_return"] = self.evaluations.mean
        document = records.read_record(self.job.folder).document | done
        write_json(self.job.folder / "run.json", document)
        return policy

    def save(self, *, with_replay: bool = True) -> None:
        """Writes a checkpoint; raises NonFiniteError instead if a weight is not finite."""
        state = {"actor": self.loop.collector.state(), "loop": self.loop.state(), "seconds": self._seconds()}
        state |= {"evaluations": self.evaluations.state(), "row_due": self.row_due, "reach": self.reach.rows}
        state |= {"last_row": self.last_row}
        arrays, state = self.agent.arrays(), state | self.progress.state()
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise NonFiniteError(f"{name} is not finite, at step {self.steps:,}")
        self.checkpoints.save(Snapshot(arrays, state), self.loop.replay if with_replay else None, self.steps)

    def _row(self) -> ProgressRow:
        loop, collector, (steps, seconds) = self.loop, self.loop.collector, self.last_row
        self.last_row = (self.steps, self._seconds())
        diagnostics, new_returns = loop.take_diagnostics(), collector.take_returns()
        row = {
            "steps": self.steps,
            "frames": self.steps * self.agent.network.spec.frames_per_step,
            "seconds": self.last_row[1],
            "steps_per_second": (self.steps - steps) / max(self.last_row[1] - seconds, 1e-9),
            "episodes": collector.episodes,
            "mean_return": float(np.mean(collector.recent_returns)) if collector.recent_returns else None,
            "interval_return": float(np.mean(new_returns)) if new_returns else None,
            "mean_length": float(np.mean(collector.recent_lengths)) if collector.recent_lengths else None,
            "on_policy_updates": loop.updates["on_policy"],
            "replay_updates": loop.updates["replay"],
            "stored_rows": loop.replay.stored,
            **self.evaluations.columns(self.steps),
            **{name: diagnostics.get(name) for name in loop.diagnostics},
        }
        # As many digits as float32 has: with Python's 17 the records would be 1.6 times as large.
        return {name: float(f"{value:.7g}") if isinstance(value, float) else value for name, value in row.items()}

    def _seconds(self) -> float:
        return time.monotonic() - self._began - self.evaluations.seconds
