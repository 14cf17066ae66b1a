"""Searches hyper-parameters with Optuna: each trial is a run in a folder, as the cells of a sweep are.

<tune_dir>/tune.json         the settings that all trials share, and what is searched
<tune_dir>/journal.log       Optuna's journal: trials, their values and states
<tune_dir>/cells/trial-<n>/  see sweep.folder; its lock is held by the process that runs the trial
<tune_dir>/evaluation/       the sweep of the best settings on other seeds

Several processes, on one machine or on several that share the folder, take trials in turn. One whose process died is
continued by the next that looks for work.
"""

import dataclasses
import fcntl
import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from acer_tf.errors import FolderInUse, SettingsError, SweepError, first_line, reason, status_of
from acer_tf.files import read_json, remove_empty, write_json
from acer_tf.runs.folder import Lock
from acer_tf.settings import Settings, setting_types
from acer_tf.settings.declaration import Search, declarations
from acer_tf.settings.effect import missing_for, without_effect
from acer_tf.settings.record import differences, settings_document
from acer_tf.training.resolve import resolve
from acer_tf.types import EnvironmentSpec

FORMAT = 1
_RANDOM = 10  # trials before Optuna's sampler begins to model
_UNPRUNED = 5  # the same for its pruner; and the first reports of each trial, by which nothing is pruned
_FAILURES = 3  # trials that fail before any ends well stop the search: the reason is not in what it tries
_FILES = ("journal.log", "journal.lock", "tune.json", "turn.lock")  # that a search begins with
REASON = "reason"  # the attribute of a trial that says why it has failed

Space = Mapping[str, Search]


def search_space(settings: Settings, spec: EnvironmentSpec, given: Mapping[str, Any], asked: Space) -> Space:
    """What is searched: `asked`, or if that is empty all settings that are declared so and have an effect.

    Args:
        settings: the resolved settings that trials share.
        spec: the environment's.
        given: the settings that the user fixed.
        asked: the settings that the user names, and what to try.

    Raises:
        SettingsError: a setting is fixed and searched, would have no effect, or may not have one of the values.
    """
    for name, tried in asked.items():
        if name in given or name in settings.rule.fixed:
            raise SettingsError(f"--search={name}: is fixed by {'--' + name if name in given else '--agent'}; not both")
        if missing := missing_for(name, settings, spec):
            raise SettingsError(f"--search={name}: has no effect in these runs: it needs {' and '.join(missing)}")
        for value in tried.ends:
            try:
                dataclasses.replace(settings, **{name: value})
            except SettingsError as error:
                raise SettingsError(f"--search={name}: {error}") from error
    declared = {name: d.search for name, d in declarations(Settings).items() if d.search is not None}
    fixed = {*given, *settings.rule.fixed}
    free = {n: s for n, s in declared.items() if n not in fixed and not missing_for(n, settings, spec)}
    if not (asked or free):
        raise SettingsError("nothing is left to search: leave out a flag, or name settings by --search")
    return asked or free


def largest(settings: Settings, spec: EnvironmentSpec, space: Space) -> Settings:
    """The settings with the upper ends of the numbers that are searched; without, if these do not go together."""
    numbers = {name: max(tried.ends) for name, tried in space.items() if setting_types()[name] in (int, float)}
    try:
        return _with(settings, spec, numbers)
    except SettingsError:
        return settings


def _with(settings: Settings, spec: EnvironmentSpec, values: Mapping[str, Any]) -> Settings:
    """The settings with other values; those that have no effect then have their usual ones."""
    changed = dataclasses.replace(settings, **values)
    return dataclasses.replace(changed, **without_effect(resolve(changed, spec), spec))


def end_of(trial: FrozenTrial) -> str:
    """How a trial has ended: complete, pruned, or failed, also where Optuna's state is another; or its state."""
    if trial.state != TrialState.COMPLETE and trial.state.is_finished():
        return "failed" if trial.state == TrialState.FAIL or REASON in trial.user_attrs else "pruned"
    return trial.state.name.lower()


class Tuning:
    """A search in a folder; several processes may work in it at the same time.

    Args:
        folder: created if it does not exist.
        settings: what the trials share; not resolved.
        spec: the environment's.
        space: what is searched.
        trials: how many there are to be, those of other processes included.

    Raises:
        SweepError: the folder holds something else, or another search; nothing was changed.
    """

    def __init__(self, folder: Path, settings: Settings, spec: EnvironmentSpec, space: Space, trials: int) -> None:
        self.folder, self.settings, self.space, self.trials, self._spec = folder, settings, space, trials, spec
        self._distributions = {name: _distribution(name, tried) for name, tried in space.items()}
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        document = {"settings": settings_document(settings), "search": {n: s._asdict() for n, s in space.items()}}
        self._require_same(document)
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        self._turn = _FileLock(folder / "turn.lock")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self._turn:
                self._require_same(document)
                begins = not (folder / "tune.json").exists()
                try:
                    if begins:
                        write_json(folder / "tune.json", {"format": FORMAT, **document})
                    self.study = self._open()
                except OSError:
                    for name in _FILES if begins else ():
                        (folder / name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            remove_empty(made)
            failure = SweepError(f"--tune_dir={folder} cannot be used: {error}")
            failure.status = status_of(error)
            raise failure from error

    def _require_same(self, document: Mapping[str, Any]) -> None:
        path = self.folder / "tune.json"
        if self.folder.exists() and not self.folder.is_dir():
            raise SweepError(f"--tune_dir={self.folder} is not a folder: choose another")
        try:
            known = dict(read_json(path))
            if known.pop("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            mine = json.loads(json.dumps(document))  # as it was read: JSON has no tuples
            searched = [
                f"{name}: {known['search'].get(name, '(none)')} there, {mine['search'].get(name, '(none)')} here"
                for name in {**known["search"], **mine["search"]}
                if known["search"].get(name) != mine["search"].get(name)
            ]
            if different := [*differences(known["settings"], mine["settings"]), *searched]:
                raise SweepError(
                    f"--tune_dir={self.folder} holds another search ({different[0]}): choose another folder"
                )
        except FileNotFoundError:
            names = sorted(path.name for path in self.folder.iterdir()) if self.folder.is_dir() else []
            if others := [name for name in names if not name.startswith(("turn.lock", "tune.json."))]:
                raise SweepError(
                    f"--tune_dir={self.folder} has a {others[0]} but no tune.json: it holds no search; choose another"
                ) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, SweepError):
                raise
            raise SweepError(
                f"{path} cannot be read ({reason(error)}): restore it, or choose another --tune_dir"
            ) from error

    def _open(self) -> optuna.Study:
        """The study in the journal, whose first trial is what was asked for."""
        path = self.folder / "journal.log"
        lock: Any = _FileLock(self.folder / "journal.lock")
        pruner = optuna.pruners.MedianPruner(n_startup_trials=_UNPRUNED, n_warmup_steps=_UNPRUNED + 1)
        try:
            with lock:
                _require_lines(path)
            study = optuna.create_study(
                storage=JournalStorage(JournalFileBackend(str(path), lock_obj=lock)),
                study_name="tune",
                direction="maximize",
                load_if_exists=True,
                pruner=pruner,
            )
            trials = {name_of(trial.number) for trial in study.get_trials(deepcopy=False)}
            begun = {cell.name for cell in (self.folder / "cells").glob("trial-*")}
            if unknown := sorted(begun - trials):
                raise ValueError(f"it has nothing of {unknown[0]}, which has begun")
            if not trials:
                usual = {name: getattr(self.settings, name) for name in self.space}
                study.enqueue_trial({name: v for name, v in usual.items() if self.space[name].holds(v)})
        except OSError:
            raise
        except Exception as error:  # what is damaged raises nearly anything in Optuna
            raise SweepError(
                f"{path} cannot be read ({first_line(error)}): restore it, or choose another --tune_dir"
            ) from error
        return study

    def running(self) -> int:
        """The number of trials that run, here or in other processes."""
        return sum(trial.state == TrialState.RUNNING for trial in self._known())

    def _known(self) -> list[FrozenTrial]:
        """The trials that have all their values."""
        trials = self.study.get_trials(deepcopy=False)
        return [t for t in trials if t.state != TrialState.WAITING and t.params.keys() == self.space.keys()]

    def take(self, held: Mapping[str, object]) -> "tuple[Trial, Lock] | None":
        """A trial to run, which no other process runs, and its lock; None if there is none left."""
        with self._turn:
            for trial in self.study.get_trials(deepcopy=False):
                if trial.state != TrialState.RUNNING or name_of(trial.number) in held:
                    continue
                if (lock := self._lock(trial.number)) is None:
                    continue
                if self.study.get_trials(deepcopy=False)[trial.number].state != TrialState.RUNNING:
                    lock.release()  # its process has just finished it
                elif trial.params.keys() != self.space.keys():  # it died before it had all values
                    self._renew(trial)
                    lock.release()
                else:
                    return Trial(self.study, trial._trial_id), lock
            if (count := len(self._known())) >= self.trials:
                return None
            # Anew for each trial: a process that comes later must not draw what another drew.
            seed = int(np.random.SeedSequence([self.settings.seed, count]).generate_state(1)[0])
            self.study.sampler = optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=_RANDOM, multivariate=True, constant_liar=True
            )
            asked = self.study.ask(self._distributions)
            lock = self._lock(asked.number)
            assert lock is not None  # it is this process's turn
            return asked, lock

    def _renew(self, trial: FrozenTrial) -> None:
        """Ends a trial that has not all its values; what was given for it, the first trial's, is tried all the same."""
        waiting = self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
        given = trial.system_attrs.get("fixed_params")
        # Before its end is told: a process that dies in between leaves the trial to the next one.
        if given and given not in [other.system_attrs.get("fixed_params") for other in waiting]:
            self.study.enqueue_trial(given)
        self.study.tell(trial.number, state=TrialState.FAIL)

    def _lock(self, number: int) -> Lock | None:
        try:
            return Lock(self.folder / "cells" / name_of(number), "tune_dir")
        except FolderInUse:
            return None

    def settings_of(self, trial: Trial | FrozenTrial) -> Settings:
        """The settings of a trial, where those without an effect in it have their usual values.

        Raises:
            SettingsError: its values do not go together.
        """
        return _with(self.settings, self._spec, trial.params)

    def ranked(self) -> list[FrozenTrial]:
        """The trials: complete ones, the best first, then pruned ones, then those that failed.

        Of equal values the one whose interim returns have the higher mean comes first: it was there earlier.
        """
        ends = ("complete", "pruned", "failed", "running")

        def place(trial: FrozenTrial) -> tuple[float, ...]:
            interim = [*trial.intermediate_values.values()] or [-math.inf]
            return ends.index(end_of(trial)), -(trial.value or 0.0), -sum(interim) / len(interim), trial.number

        return sorted(self._known(), key=place)

    def best(self) -> FrozenTrial | None:
        """The complete trial of the highest value; None without any."""
        first = next(iter(self.ranked()), None)
        return first if first is not None and first.state == TrialState.COMPLETE else None

    def require_some_success(self) -> None:
        """Raises SweepError if several trials have failed and none has ended well: what is tried is not the reason."""
        ends = [(end_of(trial), trial.user_attrs.get(REASON, "")) for trial in self._known()]
        failed = [why for end, why in ends if end == "failed"]
        if len(failed) >= _FAILURES and not any(end in ("complete", "pruned") for end, _ in ends):
            raise SweepError(f"the first {len(failed)} trials failed, the last so: {failed[-1]}")


def _require_lines(path: Path) -> None:
    """Cuts half a line, which a machine that stopped may have left; ValueError if another is none of a journal.

    Optuna itself takes a last line that is none for one that is being written, and fails when others follow.
    """
    if not path.exists():
        return
    content = path.read_bytes()
    if len(content) != (whole := content.rfind(b"\n") + 1):
        with path.open("r+b") as file:
            file.truncate(whole)
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        try:
            json.loads(line)["op_code"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"line {number}: {error}") from error


def name_of(number: int) -> str:
    """The name of a trial's folder."""
    return f"trial-{number:04}"


def _distribution(name: str, tried: Search) -> BaseDistribution:
    if tried.values:
        return CategoricalDistribution(tried.values)
    if setting_types()[name] is int:
        return IntDistribution(int(tried.low), int(tried.high), log=tried.log)
    return FloatDistribution(tried.low, tried.high, log=tried.log)


class _FileLock:
    """A lock of a file, also for Optuna's journal, that the kernel frees when its holder dies."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def acquire(self) -> bool:
        self._file = self._path.open("a")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        self._file.close()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
