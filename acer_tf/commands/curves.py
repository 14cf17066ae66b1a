r"""Compares the learning curves of runs with each other, and with published ones.

python -m acer_tf curves --output=my_results/minatar_breakout \
    --runs="ratio 4=runs/b4_0,runs/b4_1" --runs="ratio 0=runs/b0_0,runs/b0_1" --at_steps=1_000_000

Runs in several environments get a panel each. A run of another library is given by its log: a folder or file of
Stable-Baselines3 (monitor.csv, progress.csv), of TensorBoard, or any CSV whose columns --columns names.

Writes table.csv, table.md, figure.png, figure.svg and experiment.json, with --hours also hours.png and hours.svg,
copies each run's records into runs/ next to them, and writes the page of all results: index.html in the folder that
--page names.
"""

import collections
import dataclasses
import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from acer_tf.commands import cli
from acer_tf.errors import CurveError, EvidenceError
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.collecting import copy_records, describe
from acer_tf.reproduction.curves import RunCurve, equally_long, hours_per_run, last_return, read_run, return_at
from acer_tf.reproduction.evidence import Evidence, changing, file_name, own_evidence, require_folder
from acer_tf.reproduction.figure import RESULTS
from acer_tf.reproduction.logs import Reading, is_log, named, protocol_of, write_record
from acer_tf.reproduction.published import PublishedCurve, published_curves
from acer_tf.reproduction.report.output import (
    Drawing,
    Report,
    Table,
    learning_curves,
    markdown,
    mean_with_error,
    number,
    write_report,
)
from acer_tf.reproduction.report.page import require_page, write_page
from acer_tf.reproduction.statistics import interquartile_mean, mean_and_error
from acer_tf.runs.folder import may_change
from acer_tf.runs.records import read_record
from acer_tf.settings.record import DEFAULTS, differences, idle

_MAY_DIFFER = {"seed", "total_steps", "log_interval"}
FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.multi_string(
    "runs", [], "LABEL=PATH,PATH,...: the runs of one setting, its seeds in each environment; a run's folder or a log"
)
flag.string("env", None, "environment of the logs; by default that which they name, or else that of the other runs")
flag.string("tag", None, "tag of TensorBoard, or column of a progress.csv, that is the return; by default a usual one")
flag.string("columns", None, "STEPS:RETURN, the columns of logs that are CSV files of any kind")
flag.path("output", None, "folder for the table, the figure and copies of the records")
flag.multi_integer("at_steps", [], "also tabulate the mean of the last 100 episodes at this step", 1, 10**12)
flag.boolean(
    "published", True, "beside the published curves of the environment; --nopublished for runs that end long before"
)
flag.boolean("hours", False, "also draw the curves against hours: for runs on one machine")
flag.string("title", "", "title of the figure; by default the environments")
flag.multi_string("text", [], "a paragraph about what the figure shows; may be repeated")
flag.boolean("diagnostic", False, "a figure about this implementation, not a result: the page shows it last, collapsed")
flag.path("page", RESULTS, "folder of the page, written if --output lies in it")

_LONGEST_LABEL = 150


@cli.command
def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__, required=("runs", "output"))
    output, page = Path(FLAGS.output), Path(FLAGS.page)
    # The page shows the folders in its own, and those in them.
    on_page = Path(os.path.realpath(page)) in Path(os.path.realpath(output)).parents[:2]
    if FLAGS["page"].present and not on_page:
        raise CurveError(f"--page={page}: --output={output} must lie in it, or in a folder there")
    folders = _labelled(FLAGS.runs)
    for name, texts in (("title", [FLAGS.title]), ("text", FLAGS.text)):
        for text in texts:
            _require_text(name, text)
    own_evidence(output, "curves", figures=("figure", "hours") if FLAGS.hours else ("figure",))
    if on_page:
        require_page(page)
    columns = None if FLAGS.columns is None else FLAGS.columns.partition(":")
    if columns is not None and not (columns[0] and columns[2]):
        raise CurveError(f"--columns={FLAGS.columns}: must be STEPS:RETURN, the names of two columns")
    reading = Reading(FLAGS.env or "", FLAGS.tag or "", (columns[0], columns[2]) if columns else None)
    logs = [path for paths in folders.values() for path in paths if is_log(path)]
    used = {"env"} if logs else set()
    for path in logs:
        used |= {*named(path, reading)}
    if unused := [name for name in ("env", "tag", "columns") if FLAGS[name].present and name not in used]:
        raise CurveError(
            f"--{unused[0]}={FLAGS[unused[0]].value}: has no effect on these --runs; docs/sweeps.md says on which"
        )
    command = shlex.join(["python", "-m", "acer_tf", "curves", *argv[1:]])
    options = {} if FLAGS.published else {"published": False}
    kept = {"options": options, "diagnostic": FLAGS.diagnostic}
    about = Evidence("curves", FLAGS.title, tuple(FLAGS.text), command, **kept)
    with tempfile.TemporaryDirectory() as scratch:
        shown = show(_as_records(folders, reading, Path(scratch)), output, about, FLAGS.at_steps, hours=FLAGS.hours)
    print(markdown(shown))
    print(f"table, figure and records in {output}")
    if on_page:
        print(f"page: {write_page(page)}")
    return 0


def show(
    folders: Mapping[str, Sequence[Path]],
    output: Path,
    about: Evidence,
    at_steps: Sequence[int] = (),
    *,
    hours: bool = False,
) -> Table:
    """Makes the evidence of runs.

    Args:
        folders: the runs' records, by label; those already in `output`, the evidence's folder, are not copied.
        about: the evidence without its cells, tables and figures; by default its title is the environments. If its
            options have "published" as False, the published curves of the environments are left out.
        at_steps: steps at which the mean of the last 100 episodes is tabulated too.
        hours: draw the curves against hours too.

    Raises:
        CurveError, EvidenceError: a run or record cannot be read or kept; nothing has changed.
        OSError: writing failed (disk full).
    """
    read = [(label, folder, read_run(folder)) for label, paths in folders.items() for folder in paths]
    if hours and not any(run.seconds[-1] > 0 for _, _, run in read):
        raise CurveError("--hours: no log of these --runs says how long it took; leave the flag out")
    protocols = {label: {protocol_of(folder) for folder in paths} for label, paths in folders.items()}
    if mixed := [label for label, kinds in protocols.items() if len(kinds) > 1]:
        raise CurveError(f"--runs={mixed[0]}=...: its logs are of different kinds, and no mean is of both: split them")
    labels = {label: f"{label} ({kind})" for label, (kind,) in protocols.items() if kind}
    about = dataclasses.replace(about, text=(*about.text, *_mixed(folders)))
    by_env: dict[str, dict[str, list[RunCurve]]] = {}
    for label, _, run in read:
        by_env.setdefault(run.env, {}).setdefault(labels.get(label, label), []).append(run)
    one = len(by_env) == 1
    runs = [
        (label, of, run_folder(output, label if one else f"{label} {run.env}", run.seed)) for label, of, run in read
    ]
    places = collections.Counter(kept for _, _, kept in runs)
    if twice := [place for place, count in places.items() if count > 1]:
        raise CurveError(f"two runs would be kept as {twice[0]}: each label and seed must be there once")
    for label, folder, kept in runs:
        _require_same_run(kept, folder, describe(folder, kept.name, label))
    require_folder(output)
    with changing(output):
        return _keep(runs, by_env, labels, output, about, at_steps, hours=hours)


def _keep(
    runs: Sequence[tuple[str, Path, Path]],
    by_env: Mapping[str, Mapping[str, Sequence[RunCurve]]],
    labels: Mapping[str, str],
    output: Path,
    about: Evidence,
    at_steps: Sequence[int],
    *,
    hours: bool,
) -> Table:
    """Copies the records of runs (label, folder, where they are kept) to `output`, and makes its tables and figures."""
    one = len(by_env) == 1
    for _, folder, kept in runs:
        if kept.resolve() != folder.resolve():
            copy_records(folder, kept)
    cells = [describe(kept, kept.name, label, policy=folder / "policy") for label, folder, kept in runs]
    others = {env: published_curves(env) if about.options.get("published", True) else [] for env in by_env}
    title = about.title or ", ".join(by_env)
    titles = {env: title if one else env for env in by_env}
    caption = "Means over seeds with standard errors, up to three runs thin"
    steps = learning_curves(by_env, others.__getitem__, titles=titles)
    drawings = {"figure": Drawing(caption + ("; dashed: published." if any(others.values()) else "."), steps)}
    if hours:
        timed = {
            env: {label: known for label, runs in groups.items() if (known := [r for r in runs if r.seconds[-1] > 0])}
            for env, groups in by_env.items()
        }
        figure = learning_curves(timed, lambda env: (), titles=titles, axis="seconds")
        drawings["hours"] = Drawing(f"{caption}, against hours of the machine that ran them.", figure)
    if not one and about.title:
        for drawing in drawings.values():
            drawing.figure.suptitle(title.replace("$", r"\$"))
    made = _table(by_env, others, at_steps)
    evidence = dataclasses.replace(about, title=title, cells=tuple(cells), labels=labels)
    write_report(evidence, Report({"table": made}, drawings), output)
    return made


def _mixed(folders: Mapping[str, Sequence[Path]]) -> list[str]:
    """A sentence on each label whose runs in an environment differ in more than seed and length.

    Raises CurveError if they are of different agents.
    """
    found = []
    for label, paths in folders.items():
        names: set[str] = set()
        first: dict[str, dict[str, Any]] = {}
        for path in paths:
            here = DEFAULTS | read_record(path).settings
            there = first.setdefault(here["env"], here)
            names |= {n for n in here.keys() | there.keys() if here.get(n) != there.get(n)} - _MAY_DIFFER - idle(here)
            if here.get("agent") != there.get("agent"):
                agents = " and ".join(sorted(str(each.get("agent")) for each in (here, there)))
                raise CurveError(f"--runs={label}=...: its runs are of {agents}, and no mean is of both: split them")
        if names:
            found.append(f"The runs of {label} differ in {', '.join(sorted(names))}.")
    return found


def run_folder(output: Path, label: str, seed: int) -> Path:
    """The folder in which the evidence in `output` keeps a run."""
    return output / "runs" / f"{file_name(label.lower())}-seed{seed}"


def _table(
    by_env: Mapping[str, Mapping[str, Sequence[RunCurve]]],
    published: Mapping[str, Sequence[PublishedCurve]],
    at_steps: Sequence[int],
) -> Table:
    """Tabulates runs, means and interquartile means of equally long ones, and published curves: what is drawn."""
    head = ["environment", "setting", "seed", "steps", "hours", *(f"return at {step:,}" for step in at_steps)]
    head.append("return at the end")
    rows: list[list[str]] = []
    for env, groups in by_env.items():
        for label, runs in groups.items():
            for run in runs:
                row = [env, label, str(run.seed), f"{run.steps[-1]:,.0f}", number(run.seconds[-1] / 3600)]
                rows.append([*row, *map(number, _returns(run, at_steps))])
            if len(runs) > 1:
                same = equally_long(runs)
                values = np.array([_returns(run, at_steps) for run in same])
                means = (mean_with_error(*mean_and_error(column)) for column in values.T)
                length = f"{min(run.steps[-1] for run in runs):,.0f}", number(hours_per_run({env: same}))
                rows.append([env, label, f"{len(runs)} seeds, mean", *length, *means])
                if (known := np.isfinite(values).all(axis=0)).any():
                    columns = zip(values.T, known, strict=True)
                    middles = (str(interquartile_mean(column)) if there else "" for column, there in columns)
                    shown = "95 %" if len(runs) > 4 else "range"
                    rows.append([env, label, f"{len(runs)} seeds, IQM [{shown}]", *length, *middles])
        for curve in published[env]:
            row = [env, curve.label, "published", f"{curve.steps[-1]:,.0f}", ""]
            rows.append([*row, *map(number, [*map(curve.at, at_steps), curve.mean[-1]])])
    caption = (
        "Mean raw return of the last 100 training episodes, which the figure shows; of other programs what their label "
        "says. Hours are those of a run's machine."
    )
    return Table(caption, head, rows)


def _returns(run: RunCurve, at_steps: Sequence[int]) -> list[float]:
    return [*(return_at(run, step) for step in at_steps), last_return(run)]


def _as_records(folders: Mapping[str, Sequence[Path]], reading: Reading, scratch: Path) -> dict[str, list[Path]]:
    """The folders of runs, with a record in `scratch` in the place of each log of another library."""
    ours = {read_run(path).env for paths in folders.values() for path in paths if not is_log(path)}
    env = next(iter(ours)) if len(ours) == 1 else ""
    found: dict[str, list[Path]] = {}
    for label, paths in folders.items():
        records = found[label] = []
        for seed, path in enumerate(paths):
            records.append(path)
            if is_log(path):
                records[-1] = scratch / str(len(found)) / f"{seed}"
                write_record(path, reading, seed, env, records[-1])
                for other, record in zip(paths[:seed], records[:seed], strict=True):
                    if is_log(other) and _rows(record) == _rows(records[-1]):
                        raise CurveError(f"--runs={label}=...: {other} and {path} have the same rows: they are one run")
    return found


def _require_same_run(kept: Path, folder: Path, new: Cell) -> None:
    """Refuses to replace the records in `kept` by those in `folder`, as `new`, of another run or of fewer steps."""
    if not (kept / "run.json").exists():
        return
    old = describe(kept, new.name, new.method)
    may = {"total_steps", *may_change(*({**DEFAULTS, **run.settings} for run in (old, new)))}
    different = differences(*({k: v for k, v in run.settings.items() if k not in may} for run in (old, new)))
    if old.steps > new.steps:
        different.append(f"{old.steps:,} steps there, {new.steps:,} here")
    begun = [read_record(run).document.get("started") for run in (kept, folder)]  # logs do not have it
    if not (begun[0] and begun[0] == begun[1]) and not _rows(folder).startswith(_rows(kept)):
        different.append("other rows")
    if different:
        raise EvidenceError(
            f"{kept} holds another run ({different[0]}) than --runs={new.method}=...: give that another label, or move "
            f"{kept} away"
        )


def _rows(run: Path) -> bytes:
    path = run / "progress.csv"
    return path.read_bytes() if path.exists() else b""


def _require_text(name: str, text: str) -> None:
    """Raises CurveError for bytes that are no text: no figure shows them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CurveError(f"--{name}={text!a}: must be text in UTF-8") from None


def _labelled(texts: Sequence[str]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for text in texts:
        label, separator, paths = text.partition("=")
        if not separator or not paths or not label.strip():
            raise CurveError(f"--runs={text}: must be LABEL=PATH,PATH,..., each a run's folder or a log")
        _require_text("runs", label)
        if len(os.fsencode(label)) > _LONGEST_LABEL:
            raise CurveError(f"--runs={label}=...: the label must be of at most {_LONGEST_LABEL} bytes; it names files")
        if label in found:
            raise CurveError(f"--runs={text}: '{label}' has runs already; name them all in one flag")
        found[label] = [Path(path) for path in paths.split(",")]
    return found
