"""Learning curves of finished and unfinished runs, and the scores that papers report of them: means, maxima."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from acer_tf.errors import CurveError, EvidenceError, RecordError
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.figure import Method
from acer_tf.reproduction.statistics import Comparison, larger_gain, mean_and_error, probability_of_improvement
from acer_tf.runs.records import read_progress, read_record

# The ACER paper, §4: "the past 1 million consecutive frames of training"; frames are the emulator's, 4 per step.
ATARI_WINDOW_STEPS = 250_000
Axis = Literal["steps", "seconds"]


class NoRowsYet(CurveError):
    """A run that is still in its first log interval."""


class RunCurve(NamedTuple):
    """One run's training score, by log interval."""

    env: str
    seed: int
    total_steps: int  # steps of the whole run
    steps: np.ndarray  # [P] agent steps at the end of each interval
    seconds: np.ndarray  # [P] seconds of work until then
    episodes: np.ndarray  # [P] episodes that had ended by then
    mean_return: np.ndarray  # [P] raw, mean of the last 100 episodes; NaN before the first
    interval_return: np.ndarray  # [P] raw, mean of the episodes that ended in the interval; NaN without any

    def until(self, steps: float) -> "RunCurve":
        """The curve up to its first row at or after `steps`."""
        rows = slice(int(np.searchsorted(self.steps, steps)) + 1)
        return self._replace(**{name: getattr(self, name)[rows] for name in _COLUMNS})


_COLUMNS = RunCurve._fields[3:]  # of progress.csv


def read_run(folder: str | Path) -> RunCurve:
    """The learning curve in a run's folder, also during the run.

    >>> curve = acer_tf.read_run("runs/cartpole")
    >>> best = np.nanmax(curve.mean_return)

    Raises:
        NoRowsYet: progress.csv is missing or empty.
        CurveError: run.json is missing, or one of the two cannot be read.
    """
    folder = Path(folder)
    try:
        settings, columns = read_record(folder).settings, read_progress(folder)
        if len(columns.get("steps", ())):
            if not isinstance(settings["env"], str) or type(settings["seed"]) is not int:
                raise ValueError("its env is no text, or its seed no integer")
            of_run = (settings[name] for name in RunCurve._fields[:3])
            curve = RunCurve(*of_run, *(columns[name] for name in _COLUMNS))
            if (np.diff(curve.episodes) < 0).any():
                raise ValueError("its number of episodes decreases")
            return curve
    except RecordError as error:
        raise CurveError(f"{folder} is not a readable run: {error}") from error
    except (OSError, ValueError, KeyError) as error:
        raise CurveError(f"{folder} is not a readable run: {type(error).__name__} {error}") from error
    raise NoRowsYet(f"{folder / 'progress.csv'} has no rows yet")


def return_at(run: RunCurve, steps: float) -> float:
    """The mean return of the last 100 episodes at the first row at or after `steps`; NaN if there is no such row."""
    reached = np.flatnonzero(run.steps >= steps)
    return float(run.mean_return[reached[0]]) if len(reached) else float("nan")


def training_score(run: RunCurve, window: float) -> np.ndarray:
    """Mean raw return of the episodes that ended in the last `window` steps, at the end of each log interval.

    The window is rounded up to whole log intervals. Returns [P] float64; NaN if no episode ended in the window.
    """
    episodes = np.diff(run.episodes, prepend=0.0)
    total = np.cumsum(np.where(episodes > 0, np.nan_to_num(run.interval_return) * episodes, 0.0))
    # The last interval that ends before the window begins; -1 where the window reaches back to the start.
    before = np.searchsorted(run.steps, run.steps - window, side="right") - 1
    ended = run.episodes - np.where(before >= 0, run.episodes[before], 0.0)
    returns = total - np.where(before >= 0, total[before], 0.0)
    return np.divide(returns, ended, out=np.full(len(ended), np.nan), where=ended > 0)


def last_return(run: RunCurve) -> float:
    """The mean return of the last 100 episodes at the end of the curve."""
    return float(run.mean_return[-1])


def final_score(run: RunCurve, window: float) -> float:
    """`training_score` at the end of the curve."""
    return float(training_score(run, window)[-1])


def final_return(run: RunCurve, share: float = 0.1) -> float:
    """`final_score` over the last `share` of its steps."""
    return final_score(run, share * run.steps[-1])


def cumulative_maximum(values: np.ndarray) -> np.ndarray:
    """The largest value so far; NaN before the first and after the last value that is not NaN."""
    known = ~np.isnan(values)
    largest = np.fmax.accumulate(values)
    end = np.flatnonzero(known)[-1] + 1 if known.any() else 0
    return np.where(np.arange(len(values)) < end, largest, np.nan)


def reached(runs: Sequence[RunCurve], axis: Axis = "steps") -> float:
    """Where the shortest of `runs` ends, in steps or seconds."""
    return min(float(getattr(run, axis)[-1]) for run in runs)


def hours_per_run(runs: Mapping[str, Sequence[RunCurve]]) -> float:
    """Mean over runs, which are by task."""
    return float(np.mean([run.seconds[-1] / 3600 for seeds in runs.values() for run in seeds]))


def equally_long(runs: Sequence[RunCurve]) -> list[RunCurve]:
    """`runs` up to the end of the shortest."""
    return [run.until(reached(runs)) for run in runs] if runs else []


def whole_matrix(runs: Mapping[str, Sequence[RunCurve]]) -> list[list[RunCurve]]:
    """[seeds][tasks]: of runs by task those of the seeds that have begun in every task."""
    by_task = [{run.seed: run for run in seeds} for seeds in runs.values()]
    return [[of[seed] for of in by_task] for seed in sorted(set.intersection(*map(set, by_task)))] if by_task else []


def score_at(run: RunCurve, points: np.ndarray, window: float, axis: Axis = "steps") -> np.ndarray:
    """`training_score` at each of `points` [G], linear between log intervals: [G] float64; NaN outside the scores."""
    scores, x = training_score(run, window), getattr(run, axis)
    known = ~np.isnan(scores)
    if not known.any():
        return np.full(len(points), np.nan)
    return np.interp(points, x[known], scores[known], left=np.nan, right=np.nan)


def task_scores(
    runs: Mapping[str, Sequence[RunCurve]],
    points: np.ndarray,
    window: float,
    normalize: Callable[[str, float], float],
    axis: Axis = "steps",
) -> np.ndarray:
    """`score_at` of each task, mean over its seeds, normalised: [tasks, G]; NaN after the shortest seed's end."""
    means = [np.mean([score_at(run, points, window, axis) for run in seeds], axis=0) for seeds in runs.values()]
    return np.array([[normalize(t, s) for s in mean] for t, mean in zip(runs, means, strict=True)])


class RecordedRuns:
    """The cells of a figure, and the curves of those that have begun.

    Args:
        methods: the figure's, by key; every cell is of one of them. The attribute has only methods with cells.
        cells: all of them; the attribute `envs` has the ids of their tasks.
        folder: the figure's results, with runs/; an attribute, too.

    Raises:
        EvidenceError: a curve cannot be read.
    """

    def __init__(self, methods: Mapping[str, Method], cells: Iterable[Cell], folder: Path) -> None:
        self.cells = tuple(cells)
        self.methods = {key: m for key, m in methods.items() if any(cell.method == key for cell in self.cells)}
        self.envs = tuple(dict.fromkeys(cell.env for cell in self.cells))
        self.folder = folder
        self._runs: dict[tuple[str, str], list[RunCurve]] = {}
        self._draws: dict[tuple[str, str], list[int | None]] = {}
        for cell in sorted(self.cells, key=lambda cell: cell.seed):
            if cell.steps:
                try:
                    run = read_run(folder / "runs" / cell.name)
                except CurveError as error:
                    what = "bring it back, or remove that folder and make the report again with --report_only"
                    raise EvidenceError(f"{error}: {what}") from error
                self._runs.setdefault((cell.method, cell.env), []).append(run)
                self._draws.setdefault((cell.method, cell.env), []).append(cell.draw)

    def runs(self, method: str, env: str) -> list[RunCurve]:
        """The runs of a method in a task that have a row, by seed."""
        return self._runs.get((method, env), [])

    def drawn(self, method: str, env: str) -> list[tuple[int | None, RunCurve]]:
        """The same runs, each with the number of its draw."""
        return list(zip(self._draws.get((method, env), []), self.runs(method, env), strict=True))

    def by_env(self, method: str) -> dict[str, list[RunCurve]]:
        """The runs of a method, by the tasks in which it has begun."""
        return {env: runs for env in self.envs if (runs := self.runs(method, env))}

    def shared(self, methods: Sequence[str], envs: Sequence[str] | None = None) -> list[str]:
        """Those of `envs`, by default of all tasks, in which all of these methods have begun."""
        return [env for env in envs or self.envs if all(self.runs(method, env) for method in methods)]

    def by_method(self, env: str) -> dict[str, list[RunCurve]]:
        """The runs in a task, by the methods that have begun there."""
        return {key: runs for key in self.methods if (runs := self.runs(key, env))}

    def by_label(self) -> dict[str, dict[str, list[RunCurve]]]:
        """The runs of every task, by the label of their method."""
        return {env: {self.methods[key].label: r for key, r in self.by_method(env).items()} for env in self.envs}

    def finished(self, method: str, env: str | None = None) -> str:
        """The count of finished cells of a method, in one task or all: "3 of 4"."""
        cells = [cell for cell in self.cells if cell.method == method and env in (None, cell.env)]
        return f"{sum(cell.state == 'finished' for cell in cells)} of {len(cells)}"

    def compared(
        self, env: str, methods: Sequence[str], score: Callable[[RunCurve], float] = final_return
    ) -> list[float]:
        """Each method's mean score over seeds where the shortest run of all ends; [] if one has no score yet."""
        return [float(values.mean()) for values in self.scores(methods, score, [env])]

    def scores(
        self, methods: Sequence[str], score: Callable[[RunCurve], float], envs: Sequence[str] | None = None
    ) -> list[np.ndarray]:
        """Each method's scores, [seeds, tasks], where the shortest run of all ends in a task; [] without any.

        The tasks are those of `envs`, by default all, where each method has a score; the seeds those that have begun
        in each of them.
        """
        shared = self.shared(methods, envs)
        runs = [whole_matrix({env: self.runs(method, env) for env in shared}) for method in methods]
        if not (runs and all(runs)):
            return []
        ends = [reached([row[place] for rows in runs for row in rows]) for place in range(len(shared))]
        found = [
            np.array([[score(run.until(end)) for run, end in zip(row, ends, strict=True)] for row in rows])
            for rows in runs
        ]
        known = np.all([np.isfinite(values).all(axis=0) for values in found], axis=0)
        return [values[:, known] for values in found] if known.any() else []

    def improvement(
        self,
        method: str,
        compared: str,
        score: Callable[[RunCurve], float] = final_return,
        envs: Sequence[str] | None = None,
    ) -> Comparison:
        """The probability that a run of a method beats one of another, by their `scores`."""
        groups = self.scores([method, compared], score, envs)
        return probability_of_improvement(*groups) if groups else Comparison()

    def larger_gain(
        self, more: tuple[str, str], less: tuple[str, str], what: str, score: Callable[[RunCurve], float]
    ) -> Comparison:
        """Whether the first method of `more` beats its second more often than the first of `less` beats its second.

        `what` names the difference.
        """
        # Of one pair the runs may be longer than of the other, and later the gain may be another.
        groups = self.scores([*more, *less], score)
        return larger_gain(*groups, what=what) if groups else Comparison()

    @property
    def hours(self) -> float:
        """The hours of the machines of all runs."""
        return sum(float(run.seconds[-1]) for runs in self._runs.values() for run in runs) / 3600

    def result(
        self, method: str, env: str, score: Callable[[RunCurve], float] = final_return, until: float = np.inf
    ) -> tuple[float, float, float]:
        """Where the shortest seed of a method ends, up to `until`, and the mean score there with its standard error.

        NaN without a run.
        """
        runs = equally_long([run.until(until) for run in self.runs(method, env)])
        return (reached(runs) if runs else np.nan), *mean_and_error([score(run) for run in runs])
