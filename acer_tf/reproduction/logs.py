"""Learning curves in the logs of other libraries, turned into records that `curves.read_run` reads.

Stable-Baselines3's Monitor files and progress.csv, TensorBoard events, and any CSV whose two columns are named.
"""

import csv
import dataclasses
import hashlib
import io
import json
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from acer_tf.errors import CurveError, RecordError
from acer_tf.files import write_json
from acer_tf.runs.records import FORMAT, read_record

WINDOW = 100  # episodes in a mean, as in progress.csv
_HEAD = ("steps", "seconds", "episodes", "mean_return", "interval_return")


class Quantity(NamedTuple):
    """A quantity that a library logs."""

    steps: str  # column of the steps; events have steps of their own
    protocol: str  # what the quantity is
    episodes: bool = False  # whether a value is one episode's return, so that the mean is to be taken here


# By tag or column, in the order in which they are guessed.
_SB3 = "time/total_timesteps"
KNOWN: dict[str, Quantity] = {
    "rollout/ep_rew_mean": Quantity(_SB3, "mean of the last 100 training episodes"),
    "charts/episodic_return": Quantity("", f"mean of the last {WINDOW} training episodes", episodes=True),  # CleanRL
    "mean_return": Quantity("steps", "mean of the last 100 training episodes"),  # ours
    "eval/mean_reward": Quantity(_SB3, "evaluation of the policy"),
}


@dataclasses.dataclass(frozen=True)
class Reading:
    """How logs are read."""

    env: str = ""  # the environment, instead of the one that a log names
    tag: str = ""  # tag or column of the return; "" for one of `KNOWN`
    columns: tuple[str, str] | None = None  # of steps and return, in any CSV


class _Points(NamedTuple):
    """A log's content."""

    protocol: str
    steps: np.ndarray  # [P] float64
    values: np.ndarray  # [P] float64: returns, or means of returns
    seconds: np.ndarray  # [P] float64; NaN if unknown
    episodes: bool = False  # whether a value is one episode's
    env: str = ""


def is_log(path: Path) -> bool:
    """Whether `path` is read as another library's log: any file, or a folder that holds no run of ours."""
    if not os.path.isdir(path):  # False also for names that cannot be
        return os.path.isfile(path)
    return not os.path.lexists(path / "run.json")


def named(path: Path, reading: Reading) -> Collection[str]:
    """Which of tag and columns decide what is read of the log at `path`."""
    file = _files(path, reading)[0]
    if _is_monitor(file):
        return ()
    return ("columns",) if reading.columns and not _is_events(file) else ("tag",)


def write_record(path: Path, reading: Reading, seed: int, env: str, folder: Path) -> None:
    """Writes the learning curve in a log as a run's record into `folder`.

    Args:
        path: a file, or a folder of logs of one run.
        reading: how it is read.
        seed: the number of the run; logs have none.
        env: the environment, if neither `reading` nor the log names it; "" for none.
        folder: created; gets run.json and progress.csv.

    Raises:
        CurveError: the log cannot be read; the message names the file and what would be right.
    """
    try:
        points = _read(path, reading)
        rows = _rows(points)
    except CurveError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
        raise CurveError(f"{path} cannot be read as a log: {error}") from error
    where = reading.env or points.env or env
    if not where:
        raise CurveError(f"{path} does not say its environment: name it, as in --env=CartPole-v1")
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_HEAD, *rows])
    folder.mkdir(parents=True)
    (folder / "progress.csv").write_text(text.getvalue(), encoding="utf-8")
    settings = {"env": where, "seed": seed, "total_steps": int(rows[-1][0]), "log": points.protocol}
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in _files(path, reading)]
    write_json(folder / "run.json", {"format": FORMAT, "settings": settings, "finished": True, "sha256": digests})


def protocol_of(folder: Path) -> str:
    """What the returns in a record of another library's log are; "" for a run of ours, whose figure says it."""
    try:
        return str(read_record(folder).settings.get("log", ""))
    except RecordError as error:
        raise CurveError(f"{folder} is not a readable run: {error}") from error


def _read(path: Path, reading: Reading) -> _Points:
    file, *others = _files(path, reading)
    if _is_monitor(file):
        return _monitor([file, *others])
    return _events(path, reading) if _is_events(file) else _table(file, reading)


def _files(path: Path, reading: Reading) -> list[Path]:
    """The files of one run's log."""
    if not path.is_dir():
        return [path]
    if files := _in_folder(path, named=bool(reading.tag or reading.columns)):
        return files
    raise CurveError(f"{path} holds no log: neither a run's run.json, nor *monitor.csv, progress.csv or events.*")


def _in_folder(path: Path, *, named: bool = False) -> list[Path]:
    """The log in a folder; if a tag or columns are `named`, rather one that has names."""
    patterns = ["*monitor.csv", "progress.csv", "*tfevents*"]
    for pattern in [*patterns[1:], patterns[0]] if named else patterns:
        if files := sorted(path.glob(pattern)):
            return files
    return []


def _is_monitor(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(2) == b"#{"


def _is_events(file: Path) -> bool:
    return "tfevents" in file.name


def _monitor(files: Sequence[Path]) -> _Points:
    """Stable-Baselines3's Monitor: an episode per row, a file per environment."""
    parts, begun, env = [], math.inf, ""
    for file in files:
        head, _, rows = _whole_lines(file.read_text(encoding="utf-8")).partition("\n")
        if not head:  # it is being written
            continue
        about = json.loads(head.removeprefix("#"))
        begun, env = min(begun, float(about["t_start"])), env or str(about.get("env_id", "None"))
        if not rows.partition("\n")[2]:  # no episode of this environment has ended
            continue
        table = _columns(rows, file, ("r", "l", "t"))
        # A training that is continued appends, and its time begins at 0 again.
        ends = np.where(np.diff(table["t"], prepend=0.0) < 0, np.roll(table["t"], 1), 0.0).cumsum()
        parts.append(np.stack([table["r"], table["l"], table["t"] + ends + float(about["t_start"])]))
    if not parts:
        raise ValueError("it has no episodes")
    returns, lengths, times = np.concatenate(parts, axis=1)
    order = np.argsort(times, kind="stable")  # all environments step together
    protocol = f"SB3 Monitor, mean of the last {WINDOW} training episodes"
    columns = np.cumsum(lengths[order]), returns[order], times[order] - begun
    return _Points(protocol, *columns, True, "" if env == "None" else env)


def _table(file: Path, reading: Reading) -> _Points:
    """A CSV with a head: that of Stable-Baselines3, or one whose columns are named."""
    text = file.read_text(encoding="utf-8-sig")
    if not reading.columns:  # what is written by hand need not end in a newline
        text = _whole_lines(text)
    head = next(csv.reader([text.partition("\n")[0]]), [])
    seconds = "time/time_elapsed" if "time/time_elapsed" in head else ""
    if reading.columns:
        steps, value = reading.columns
        known = Quantity(steps, f"CSV, {value}")
    else:
        value = _chosen(file, head, reading, [name for name, quantity in KNOWN.items() if quantity.steps in head])
        steps = KNOWN[value].steps if value in KNOWN else _SB3
        known = KNOWN.get(value, Quantity(steps, ""))
        known = known._replace(protocol=f"{file.name}, {value}: {known.protocol}".removesuffix(": "))
    wanted = (steps, value, *([seconds] if seconds else []))
    if missing := [name for name in wanted if name not in head]:
        names = ", ".join(head)[:300]
        raise ValueError(f"it has no column {missing[0]}, but {names}; name two by --columns=STEPS:RETURN")
    table = _columns(text, file, wanted)
    there = ~(np.isnan(table[steps]) | np.isnan(table[value]))
    time = table[seconds] if seconds else np.full(len(there), np.nan)
    return _Points(known.protocol, table[steps][there], table[value][there], time[there], known.episodes)


def _events(path: Path, reading: Reading) -> _Points:
    """TensorBoard events, of whichever writer."""
    # Imports TensorFlow, for which other logs need not wait.
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    tags = events.Tags()
    value = _chosen(path, [*tags["scalars"], *tags["tensors"]], reading, KNOWN)
    if value in tags["scalars"]:
        found = [(event.step, event.value, event.wall_time) for event in events.Scalars(value)]
    else:
        found = [(e.step, float(make_ndarray(e.tensor_proto)), e.wall_time) for e in events.Tensors(value)]
    steps, values, times = np.array(found, float).T
    known = KNOWN.get(value, Quantity("", ""))
    protocol = f"TensorBoard, {value}: {known.protocol}".removesuffix(": ")
    return _Points(protocol, steps, values, times - times[0], known.episodes)


def _chosen(path: Path, there: Sequence[str], reading: Reading, known: Iterable[str]) -> str:
    """The tag or column of the return."""
    for name in [reading.tag] if reading.tag else known:
        if name in there:
            return name
    wanted = f"--tag={reading.tag}: {path} has none of that name" if reading.tag else f"{path} has no tag that is known"
    names = ", ".join(there)[:300] or "nothing"
    raise CurveError(f"{wanted}, but {names}; name one by --tag, or two columns of a CSV by --columns=STEPS:RETURN")


def _whole_lines(text: str) -> str:
    """The lines that a library has written to their end: it may be in one, or was stopped there."""
    return text[: text.rfind("\n") + 1]


def _columns(text: str, file: Path, wanted: Sequence[str]) -> Mapping[str, np.ndarray]:
    """Columns of a CSV, NaN where a cell is empty."""
    lines = csv.DictReader(io.StringIO(text, newline=""))
    rows = []
    for number, line in enumerate(lines, start=2):
        if None in line.values():  # the library was stopped within a row
            continue
        try:
            rows.append([float(line[name] or "nan") for name in wanted])
        except KeyError as error:
            raise ValueError(f"{file.name} has no column {error}") from error
        except ValueError as error:
            raise ValueError(f"{file.name}, row {number}: {error}") from error
    if not rows:
        raise ValueError(f"{file.name} has no rows")
    return dict(zip(wanted, np.array(rows).T, strict=True))


def _rows(points: _Points) -> list[list[float | int | str]]:
    """Rows of progress.csv, one for each step that has a value."""
    if np.isinf(points.steps).any() or np.isinf(points.values).any():
        raise ValueError("it has infinite numbers")
    rows: list[list[float | int | str]] = []
    returns: list[float] = []
    begun = 0  # the first return of the last row
    for step, value, second in zip(points.steps, points.values, points.seconds, strict=True):
        if not step > 0 or math.isnan(value):  # such as an evaluation before training
            continue
        if step != int(step):
            raise ValueError(f"its steps are not whole numbers: {step}")
        if rows and step < rows[-1][0]:
            raise ValueError(f"its steps decrease, from {rows[-1][0]:,} to {step:,.0f}: it holds more than one run")
        if rows and step == rows[-1][0]:
            rows.pop()
        else:
            begun = len(returns)
        returns.append(value)
        interval = float(np.mean(returns[begun:])) if points.episodes else value
        mean = float(np.mean(returns[-WINDOW:])) if points.episodes else value
        time = "" if math.isnan(second) else float(second)
        rows.append([int(step), time, len(returns) if points.episodes else "", mean, interval])
    if not rows:
        raise ValueError("it has no returns")
    return rows
