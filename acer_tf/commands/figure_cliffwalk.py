r"""Reproduces the Blind Cliffwalk of "Prioritized Experience Replay" (Schaul et al., 2016): Figures 1 and 2, whole.

python -m acer_tf figure_cliffwalk --output=my_results/cliffwalk

10 runs per point, n = 2 ... 16: median and range. Writes results.csv (a row per run), table.csv, table.md, figure.png,
figure.svg, run.json and experiment.json. One process: 34 minutes on a busy machine of 2 cores, most of them for n = 15
and 16; the same command continues after the last finished point. acer_tf/reproduction/cliffwalk.py lists what the paper
leaves open.
"""

from __future__ import annotations

import contextlib
import itertools
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from acer_tf.commands import cli
from acer_tf.errors import EvidenceError
from acer_tf.reproduction.cliffwalk import (
    REPLAYS,
    REPRESENTATIONS,
    RUNS,
    SIZES,
    Result,
    read_results,
    run,
    write_results,
)
from acer_tf.reproduction.evidence import Evidence, changing, own_evidence, require_folder
from acer_tf.reproduction.experiment import RESULTS
from acer_tf.reproduction.report.cliffwalk import report
from acer_tf.reproduction.report.output import write_report
from acer_tf.reproduction.report.page import require_page, write_page
from acer_tf.reproduction.report.tables import markdown
from acer_tf.runs.records import read_record, run_document, write_json

_TITLE = "The Blind Cliffwalk of prioritized experience replay"
_TEXT = (
    "Q-learning updates to convergence in the small world of Schaul et al. 2016 (Figures 1 and 2, Appendix B.1): two "
    "actions in each of n states in a row, of which one is right; the memory holds the transitions of all 2^n action "
    "sequences, of which one is rewarded.",
    "Beyond the paper: every variant in both representations (the paper: greedy tabular, the stochastic ones linear), "
    "and greedy replay by current errors. Deviation: where no update reduces the loss, the oracle takes the largest TD "
    "error.",
)

FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.list("sizes", [str(n) for n in SIZES], "numbers of states n, from 2 to 20")
flag.integer("runs", RUNS, "per point", 1, 100_000)
flag.integer("seed", 0, "of all runs", lower_bound=0)
flag.integer("limit", 20_000_000, "updates after which a run is given up", lower_bound=1)
flag.path("output", f"{RESULTS}/cliffwalk", "folder for the tables and the figure")
flag.bool("report_only", False, "make table and figure again from results.csv")


def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, "\n\n".join([(__doc__ or "").rstrip(), *_TEXT]) + "\n")
    output = Path(FLAGS.output)
    try:
        settings = {"sizes": _sizes(FLAGS.sizes), "runs": FLAGS.runs, "seed": FLAGS.seed, "limit": FLAGS.limit}
        own_evidence(output, "figure_cliffwalk")
        require_page(output.parent)
        _known(output, settings)
        require_folder(output)
    except (EvidenceError, OSError, ValueError, KeyError, TypeError) as error:
        return cli.fail(2, error)
    try:
        with contextlib.nullcontext() if FLAGS.report_only else changing(output):
            try:
                document, results = _known(output, settings)  # again: another process may have added to them
            except (ValueError, KeyError, TypeError) as error:
                return cli.fail(2, error)
            if not FLAGS.report_only:
                _run_rest(document, settings, results, output)
            _show(results, output)
    except KeyboardInterrupt:
        return cli.fail(130, "stopped; the same command continues")
    except (EvidenceError, OSError) as error:
        return cli.fail(1, error)
    return 0


def _known(output: Path, settings: dict[str, Any]) -> tuple[dict[str, Any] | None, list[Result]]:
    return _recorded(output) if FLAGS.report_only else _begun(output, settings)


def _run_rest(document: dict[str, Any] | None, settings: dict[str, Any], results: list[Result], output: Path) -> None:
    """Adds to `results` the points that they lack, and writes them after each."""
    document = document or run_document(settings, {"seconds": 0})
    began = time.monotonic() - document["seconds"]
    points = itertools.product(settings["sizes"], REPRESENTATIONS, REPLAYS)
    for states, representation, replay in itertools.islice(points, len(results) // FLAGS.runs, None):
        results += _runs(representation, replay, states)
        write_json(output / "run.json", document | {"seconds": round(time.monotonic() - began)})
        write_results(results, output / "results.csv")


def _recorded(output: Path) -> tuple[dict[str, Any] | None, list[Result]]:
    results = read_results(output / "results.csv")
    return read_record(output).document, results


def _begun(output: Path, settings: dict[str, Any]) -> tuple[dict[str, Any] | None, list[Result]]:
    """What an interrupted call with the same settings left in `output`: its run.json, and the results so far."""
    record, table = output / "run.json", output / "results.csv"
    if not record.exists():
        if table.exists():
            raise ValueError(f"--output={output} holds a results.csv without its run.json: choose another")
        return None, []
    known, results = read_record(output), read_results(table) if table.exists() else []
    if known.settings != settings:
        raise ValueError(f"--output={output} holds results of other settings, {known.settings}: choose another")
    return known.document, results


def _show(results: Sequence[Result], output: Path) -> None:
    command = shlex.join(read_record(output).document["command"])
    made = report(results)
    write_report(Evidence("figure_cliffwalk", _TITLE, _TEXT, command), made, output)
    print(f"{markdown(made.tables['table'])}\n\ntable and figure in {output}; page: {write_page(output.parent)}")


def _runs(representation: str, replay: str, states: int) -> list[Result]:
    began = time.monotonic()
    results = [
        run(representation, replay, states, number, seed=FLAGS.seed, limit=FLAGS.limit) for number in range(FLAGS.runs)
    ]
    median = np.median([result.updates for result in results])
    unfinished = sum(not result.converged for result in results)
    note = f", {unfinished} not converged" if unfinished else ""
    seconds = time.monotonic() - began
    print(f"n={states} {representation}, {replay}: {median:,.0f} updates{note} ({seconds:.1f} s)", flush=True)
    return results


def _sizes(texts: list[str]) -> list[int]:
    if not texts or not all(text.isdecimal() and 2 <= int(text) <= 20 for text in texts):
        raise ValueError(f"--sizes={','.join(texts)}: must be numbers from 2 to 20, as in 2,4,8")
    return sorted({int(text) for text in texts})
