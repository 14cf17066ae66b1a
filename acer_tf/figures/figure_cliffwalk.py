r"""The Blind Cliffwalk of the prioritized-replay paper (Schaul et al. 2016): its Figures 1 and 2, whole.

python -m acer_tf figure_cliffwalk --output=my_results/figure_cliffwalk

10 runs per point, n = 2 ... 16: median and range. Writes results.csv (a row per run), table.csv, table.md, figure.png,
figure.svg, run.json and experiment.json. One process: 34 minutes on a busy machine of 2 cores, most of them for n = 15
and 16; the same command continues after the last finished point. acer_tf/reproduction/cliffwalk.py lists what the paper
leaves open.
"""

import contextlib
import itertools
import math
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

from acer_tf.commands import cli
from acer_tf.errors import EvidenceError, RecordError, SettingsError
from acer_tf.files import write_json
from acer_tf.reproduction import cliffwalk
from acer_tf.reproduction.cliffwalk import REPLAYS, REPRESENTATIONS, RUNS, SIZES, Result, transitions
from acer_tf.reproduction.evidence import Evidence, changing, own_evidence, require_folder
from acer_tf.reproduction.figure import RESULTS, Claim, Figure, Finding, Judged
from acer_tf.reproduction.report.output import Axes, Drawing, Report, Table, markdown, panels, write_report
from acer_tf.reproduction.report.page import require_page, results_of, write_page
from acer_tf.reproduction.statistics import Comparison, Estimate, compare, probability_of_improvement
from acer_tf.runs.records import read_record, run_document
from acer_tf.runs.signals import STOPPED, signal_of

# What the paper's Figure 2 shows beside uniform replay and the oracle.
_PRIORITIZED = {"tabular": ("greedy",), "linear": ("rank-based", "proportional")}
_JUDGED = [(kind, replay) for kind, others in _PRIORITIZED.items() for replay in ("uniform", *others, "oracle")]

FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.list("sizes", [str(n) for n in SIZES], "numbers of states n, from 2 to 20")
flag.integer("runs", RUNS, "per point", 1, 100_000)
flag.integer("seed", 0, "of all runs", lower_bound=0)
flag.integer("limit", 20_000_000, "updates after which a run is given up", lower_bound=1)
flag.path("output", f"{RESULTS}/figure_cliffwalk", "folder for the tables and the figure")
flag.bool("report_only", False, "make table and figure again from results.csv")


@cli.command
def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, "\n\n".join([FIGURE.doc, *FIGURE.text]) + "\n")
    output = Path(FLAGS.output)
    settings = {"sizes": _sizes(FLAGS.sizes), "runs": FLAGS.runs, "seed": FLAGS.seed, "limit": FLAGS.limit}
    own_evidence(output, FIGURE.name)
    require_page(results_of(output))
    _known(output, settings)
    require_folder(output)
    with contextlib.nullcontext() if FLAGS.report_only else changing(output):
        document, results = _known(output, settings)  # again: another process may have added to them
        try:
            with cli.begun():
                if not FLAGS.report_only:
                    _run_rest(document or run_document(settings, {"seconds": 0}), results, output)
                command, made = shlex.join(read_record(output).document["command"]), report(results)
                write_report(Evidence(FIGURE.name, FIGURE.title, FIGURE.text, command), made, output)
                page = write_page(results_of(output))
            print(f"{markdown(made.tables['table'])}\n\ntable and figure in {output}; page: {page}")
        except STOPPED as stop:
            return cli.fail(128 + signal_of(stop), "stopped; the same command continues")
    return 0


def _known(output: Path, settings: dict[str, Any]) -> tuple[dict[str, Any] | None, list[Result]]:
    """What an earlier call left in `output`: its run.json, and the results so far.

    Raises EvidenceError if it had other settings, of which a report counts those that are given, or cannot be read.
    """
    record, table = output / "run.json", output / "results.csv"
    if not (FLAGS.report_only or table.exists() or record.exists()):
        return None, []
    results = cliffwalk.read_results(table) if table.exists() else []
    if FLAGS.report_only and not results:
        raise EvidenceError(
            f"--report_only: --output={output} has no results: leave the flag out to make them, or name the folder "
            "that has them"
        )
    try:
        known = read_record(output)
    except RecordError as error:
        raise EvidenceError(f"--output={output} cannot be continued or shown ({error}): choose another") from error
    asked = {name: value for name, value in settings.items() if FLAGS[name].present or not FLAGS.report_only}
    if any(known.settings.get(name) != value for name, value in asked.items()):
        raise EvidenceError(f"--output={output} holds results of other settings, {known.settings}: choose another")
    return known.document, results


def _run_rest(document: dict[str, Any], results: list[Result], output: Path) -> None:
    """Adds to `results` the points that they lack, and writes them after each."""
    began = time.monotonic() - document["seconds"]
    points = itertools.product(document["settings"]["sizes"], REPRESENTATIONS, REPLAYS)
    for states, representation, replay in itertools.islice(points, len(results) // FLAGS.runs, None):
        results += _runs(representation, replay, states)
        write_json(output / "run.json", document | {"seconds": round(time.monotonic() - began)})
        cliffwalk.write_results(results, output / "results.csv")


def _runs(representation: str, replay: str, states: int) -> list[Result]:
    began = time.monotonic()
    point, given = (representation, replay, states), {"seed": FLAGS.seed, "limit": FLAGS.limit}
    results = [cliffwalk.run(*point, number, **given) for number in range(FLAGS.runs)]
    median, unfinished = np.median([result.updates for result in results]), sum(not r.converged for r in results)
    note = f", {unfinished} not converged" if unfinished else ""
    took = f"({time.monotonic() - began:.1f} s)"
    print(f"n={states} {representation}, {replay}: {median:,.0f} updates{note} {took}", flush=True)
    return results


def _sizes(texts: list[str]) -> list[int]:
    if not texts or not all(text.isdecimal() and 2 <= int(text) <= 20 for text in texts):
        raise SettingsError(f"--sizes={','.join(texts)}: must be numbers from 2 to 20, as in 2,4,8")
    return sorted({int(text) for text in texts})


def report(results: Sequence[Result]) -> Report:
    """The updates to convergence by number of states, as a table and a figure."""
    frame = pd.DataFrame(results)
    replays = [replay for replay in REPLAYS if replay in set(frame.replay)]
    groups = list(frame.groupby("representation", sort=False))
    rows = [
        [kind, str(states), f"{transitions(states):,}", *(_cell(of_size[of_size.replay == name]) for name in replays)]
        for kind, group in groups
        for states, of_size in group.groupby("states")
    ]
    caption = (
        'Updates to convergence by number of states n: median [minimum, maximum] over runs; ">" stands before a number '
        "that a run did not converge within."
    )
    table = Table(caption, ["representation", "n", "transitions", *replays], rows)
    figure, axes = panels(len(groups), width=5.5, height=5.0)
    for panel, (kind, group) in zip(axes, groups, strict=True):
        _draw(panel, group)
        panel.set_title(kind)
        if panel is not axes[0]:
            panel.sharey(axes[0])
    axes[0].set_ylabel("updates to convergence (median; minimum to maximum)")
    axes[0].legend(loc="upper left")
    drawn = (
        "Median over runs, bands from minimum to maximum; triangles: runs that did not converge count with the updates "
        "they did, a lower bound."
    )
    return Report({"table": table}, {"figure": Drawing(drawn, figure)})


def _draw(panel: Axes, results: pd.DataFrame) -> None:
    """The updates of each replay against the number of states."""
    for place, replay in enumerate(REPLAYS):
        by_size = results[results.replay == replay].groupby("states")
        if not len(by_size):
            continue
        updates = by_size.updates.agg(["min", "median", "max"])
        color = "black" if replay == "uniform" else f"C{place}"
        panel.fill_between(updates.index, updates["min"], updates["max"], color=color, alpha=0.15)
        panel.plot(updates.index, updates["median"], color=color, marker="o", markersize=3, label=replay)
        unfinished = updates["median"][~by_size.converged.all()]
        panel.plot(unfinished.index, unfinished, color=color, marker="^", linestyle="")
    sizes = sorted(results.states.unique())
    memory = [transitions(states) for states in sizes]
    panel.plot(sizes, memory, color="0.6", linestyle=":", label="number of transitions")
    panel.set(xlabel="number of states n", yscale="log")
    panel.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    panel.grid(alpha=0.25)


def _cell(results: pd.DataFrame) -> str:
    """Median, minimum and maximum of the updates; runs that did not converge come last."""
    if results.empty:
        return "–"
    ordered = results.sort_values(["converged", "updates"], ascending=[False, True])
    last = len(ordered) - 1
    texts = [
        f"{'' if ordered.converged.iloc[high] else '>'}{ordered.updates.iloc[[low, high]].mean():,.0f}"
        for low, high in ((last // 2, (last + 1) // 2), (0, 0), (last, last))
    ]
    return "{} [{}, {}]".format(*texts)


def read_updates(figure: Figure, folder: Path) -> Judged | None:
    """The updates to convergence [runs, sizes] by representation and replay, and the sizes, the whole ones alone."""
    if not (folder / "results.csv").exists():
        return None
    results = pd.DataFrame(cliffwalk.read_results(folder / "results.csv"), columns=Result._fields)
    columns = pd.MultiIndex.from_tuples(_JUDGED)
    # An interrupted experiment has not all replays at its last size.
    counts = results.pivot_table("updates", "states", ["representation", "replay"], "count").reindex(columns=columns)
    sizes = list(counts.dropna().index)
    if not sizes:
        return None
    runs = int(counts.loc[sizes].min(axis=None))
    tables = {
        (kind, replay): group.pivot_table("updates", "run", "states")[sizes].to_numpy()[:runs]
        for (kind, replay), group in results.groupby(["representation", "replay"])
        if (kind, replay) in _JUDGED
    }
    share = f"{sizes[0]}–{sizes[-1]} of {SIZES[0]}–{SIZES[-1]} states, {runs}/{RUNS} runs"
    hours = np.nan
    with contextlib.suppress(RecordError, KeyError, TypeError):  # the results count without it
        hours = read_record(folder).document["seconds"] / 3600
    return Judged((sizes, tables), share, hours)


Updates = tuple[list[int], dict[tuple[str, str], np.ndarray]]


def oracle_gains(updates: Updates) -> Finding:
    """Whether uniform replay needs more times the oracle's updates with each state, by an exponential, not a power."""
    sizes, tables = updates
    if len(sizes) < 2:
        return Finding(())

    def gains(uniform: np.ndarray, oracle: np.ndarray) -> np.ndarray:
        return np.median(uniform, axis=0) / np.median(oracle, axis=0)

    def growth(*groups: np.ndarray) -> float:
        return float(2 ** np.polyfit(sizes, np.log2(gains(*groups)), 1)[0])

    def misfits(*groups: np.ndarray) -> float:
        logs = np.log2(gains(*groups))
        power, exponential = (np.polynomial.Polynomial.fit(x, logs, 1)(np.asarray(x)) for x in (np.log2(sizes), sizes))
        return float(np.sum((logs - power) ** 2) - np.sum((logs - exponential) ** 2))

    groups = tables["tabular", "uniform"], tables["tabular", "oracle"]
    ours = f"{gains(*groups)[-1]:,.0f} times fewer at {sizes[-1]} states"
    theirs = "the same, no numbers"
    what = "growth with each state"
    if min(map(len, groups)) == 1:  # of which `compare` would resample the sizes, but it is their order that counts
        grown = Comparison(Estimate(growth(*groups), math.nan, math.nan), 1.0, "2 runs", 2, what)
        return Finding([grown], ours, theirs)
    grown = compare(growth, *groups, even=1.0, unit="runs", what=what)
    if len(sizes) == 2:  # which a power fits as well
        return Finding([grown, Comparison(needs="3 sizes")], ours, theirs)
    fitted = compare(misfits, *groups, even=0.0, unit="runs", what="misfit of a power less that of an exponential")
    return Finding([grown, fitted], ours, theirs)


def priorities_between(updates: Updates) -> Finding:
    """Whether prioritized replay lies between uniform replay and the oracle, at the largest number of states."""
    sizes, tables = updates
    last = {key: table[:, -1:] for key, table in tables.items()}
    between = [(kind, replay) for kind, replays in _PRIORITIZED.items() for replay in replays]
    pairs = [(kind, pair) for kind, replay in between for pair in ((replay, "uniform"), ("oracle", replay))]
    # Runs that were cut off at the limit of updates are equal, and decide nothing.
    gains = [
        probability_of_improvement(-last[kind, fewer], -last[kind, more], unit="runs") for kind, (fewer, more) in pairs
    ]
    shown = "; ".join(
        f"{kind} " + ", ".join(f"{replay} {np.median(last[kind, replay]):,.0f}" for of, replay in _JUDGED if of == kind)
        for kind in _PRIORITIZED
    )
    return Finding(gains, shown, "order only, no numbers", f"compared: {sizes[-1]} states" if len(sizes) > 1 else "")


_BETWEEN = "priorities lie between uniform replay and the oracle"
FIGURE = Figure(
    __name__,
    order=62,
    source="PER, Figure 1",
    title="The Blind Cliffwalk of prioritized experience replay",
    text=(
        "Q-learning updates to convergence in the small world of Schaul et al. 2016 (Figures 1 and 2, Appendix B.1): "
        "two actions in each of n states in a row, of which one is right; the memory holds the transitions of all 2^n "
        "action sequences, of which one is rewarded.",
        "Beyond the paper: every variant in both representations (the paper: greedy tabular, the stochastic ones "
        "linear), and greedy replay by current errors. Deviation: where no update reduces the loss, the oracle takes "
        "the largest TD error.",
    ),
    claims=(
        Claim("an oracle needs exponentially fewer updates", oracle_gains, read_updates),
        Claim(_BETWEEN, priorities_between, read_updates, "PER, Figure 2"),
    ),
)
