"""Runs the trials of a search of hyper-parameters: see tuning.py."""

import contextlib
import dataclasses
import math
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optuna
from optuna.trial import Trial, TrialState

from acer_tf.errors import CurveError, NonFiniteError, SettingsError
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.curves import RunCurve, final_return, read_run, score_at
from acer_tf.reproduction.sweep.folder import CellFolder
from acer_tf.reproduction.sweep.launcher import LocalLauncher
from acer_tf.reproduction.sweep.runner import Place
from acer_tf.reproduction.tuning import REASON, Tuning, name_of
from acer_tf.runs.folder import Lock
from acer_tf.runs.signals import StopRequest

REPORTS = 20  # interim returns of a whole run
_WINDOW = 0.1  # the share of a run's steps whose episodes count
_POLL_SECONDS = 0.2
_LOOK_SECONDS = 2.0  # between looks for a trial to run


class RunOptions(NamedTuple):
    """How the runs of trials are started; see `sweep.run_sweep`."""

    program: tuple[str, ...]
    cwd: Path
    stall_minutes: float
    checkpoint_minutes: float


class _Run:
    """A trial that this process runs."""

    def __init__(self, trial: Trial, lock: Lock, place: Place) -> None:
        self.trial, self.place, self.pruned, self._lock = trial, place, False, lock
        self._reported = {*trial.storage.get_trial(trial._trial_id).intermediate_values}
        self._seen = 0.0

    def report(self) -> None:
        """Reports interim returns, and asks the run to stop if those of other trials are better."""
        path = self.place.folder.run_dir / "progress.csv"
        with contextlib.suppress(OSError, CurveError):
            if (seen := path.stat().st_mtime) == self._seen:
                return
            self._seen = seen
            run = read_run(path.parent)
            total = self.place.cell.total_steps
            scores = score_at(run, total * np.arange(1, REPORTS + 1) / REPORTS, _WINDOW * total)
            new = [n for n, score in enumerate(scores, 1) if np.isfinite(score) and n not in self._reported]
            for number in new:
                self.trial.report(float(scores[number - 1]), number)
            self._reported.update(new)
            if new and new[-1] < REPORTS and self.place.attempt and not self.pruned and self.trial.should_prune():
                self.pruned = True
                self.place.attempt.stop()

    def tell(self, study: optuna.Study) -> str:
        """Records how the trial ended; returns it in words."""
        value = math.nan
        if self.place.over == "finished":
            value = value_of(read_run(self.place.folder.run_dir))
        if math.isfinite(value):
            study.tell(self.trial, value)
            said = f"{value:,.2f}"
        elif self.pruned and self.place.over != "failed":
            study.tell(self.trial, state=TrialState.PRUNED)
            shutil.rmtree(self.place.folder.run_dir / "checkpoints", ignore_errors=True)  # it is not continued
            said = f"pruned after {self.place.folder.latest()[0]:,} steps"
        else:
            why = self.place.reason or "no episode has ended"
            said = _fail(study, self.trial, why, by_values=self.place.over == "finished" or _diverged(why))
        self._lock.release()
        return _line(self.trial, said)

    def leave(self) -> None:
        """Leaves the trial to the next process that looks for work."""
        self._lock.release()


def _diverged(why: str) -> bool:
    """Whether a process that ended so did because its run came to NaN or infinity."""
    return why.endswith(NonFiniteError.left)


def _fail(study: optuna.Study, trial: Trial, why: str, *, by_values: bool) -> str:
    """Records why a trial has no value; returns it in words.

    Optuna's sampler does not see trials that failed. Where the values tried are the reason, it must, or it would
    propose such values again: for Optuna that trial is pruned.
    """
    trial.set_user_attr(REASON, why)
    study.tell(trial, state=TrialState.PRUNED if by_values else TrialState.FAIL)
    return f"failed: {why}"


def _line(trial: Trial, said: str) -> str:
    return f"trial {trial.number}: {said}  ({values_of(trial.params)})"


def value_of(run: RunCurve) -> float:
    """The value of a trial: the mean return of the last tenth of its run."""
    return final_return(run, _WINDOW)


def values_of(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {shown(value)}" for name, value in params.items())


def shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def search(
    tuning: Tuning, launcher: LocalLauncher, options: RunOptions, stop: StopRequest, say: Callable[[str], None]
) -> None:
    """Runs trials until there are as many as there are to be, or `stop` is asked for: then they can be continued.

    Raises:
        SweepError: the first trials have all failed.
    """
    running: dict[str, _Run] = {}
    stopping, looked = False, -math.inf
    try:
        while True:
            if stop.signal_number is not None and not stopping:
                stopping = True
                launcher.stop()
            if not stopping and (not running or time.monotonic() - looked > _LOOK_SECONDS):
                looked = time.monotonic()
                _fill(tuning, launcher, options, running, say)
            if not (any(run.place.attempt for run in running.values()) if stopping else running):
                return
            for name, end in launcher.poll():
                run = running[name]
                run.place.attempt = None
                if end.status == 2 or _diverged(end.reason):  # another attempt would end in the same way
                    run.place.limits = {"failed": 0, "lost": 0}
                run.place.end(end, stopping or run.pruned)
            for name, run in list(running.items()):
                run.report()
                if run.place.over or (run.pruned and not run.place.attempt):
                    said = run.tell(tuning.study)
                    del running[name]  # before what may fail: its lock is released
                    say(said)
                    tuning.require_some_success()
            time.sleep(_POLL_SECONDS)
    finally:
        for run in running.values():
            run.leave()


def _fill(
    tuning: Tuning, launcher: LocalLauncher, options: RunOptions, running: dict[str, _Run], say: Callable[[str], None]
) -> None:
    """Starts as many trials as there is room for: those that failed again, then others."""
    command = *options.program, f"--threads={launcher.threads}", f"--checkpoint_minutes={options.checkpoint_minutes:g}"
    limits = {"failed": 1, "lost": 1}
    waiting = [run for run in running.values() if not run.place.attempt]
    while launcher.room(0):
        if waiting:
            waiting.pop().place.start()
            continue
        if (taken := tuning.take(running)) is None:
            return
        trial, lock = taken
        name = name_of(trial.number)
        try:
            cell = dataclasses.replace(Cell.asked(name, tuning.settings_of(trial)), name=name)
        except SettingsError as error:  # values that do not go together
            said = _fail(tuning.study, trial, str(error), by_values=True)
            lock.release()
            say(_line(trial, said))
            tuning.require_some_success()
            continue
        folder = CellFolder(tuning.folder.absolute(), cell)
        place = Place(
            folder,
            0,  # of memory: launchers on this machine do not read it
            launcher,
            (*command, "--repair=restart"),
            options.cwd,
            limits,
            60.0 * options.stall_minutes,
        )
        running[name] = _Run(trial, lock, place)
        place.look()
        if not place.over:
            place.start()
