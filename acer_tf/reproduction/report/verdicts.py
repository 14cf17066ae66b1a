"""The verdicts: what the papers claim, whether the records of a results folder show it, and of how much of it they are.

Each claim is decided by its records alone. "Reproduced" wants the whole experiment as its command defines it (--help
says how that differs from the paper's runs); "partly" says that the claim holds in what was run; "undecided" that the
runs do not decide it.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from acer_tf.errors import EvidenceError
from acer_tf.reproduction.catalogue import EXPERIMENTS
from acer_tf.reproduction.cliffwalk import REPRESENTATIONS, RUNS, SIZES, read_results
from acer_tf.reproduction.curves import read_run
from acer_tf.reproduction.evidence import Evidence, read_evidence
from acer_tf.reproduction.grids import BEST_DRAWS, CONTROL, DRAWS, figure1_minatar, figure3_draws
from acer_tf.reproduction.methods import Method, label_of_search, make_cells, names_by_label
from acer_tf.reproduction.outcome import Outcome
from acer_tf.reproduction.published import published_curves
from acer_tf.reproduction.report import findings
from acer_tf.reproduction.report.findings import CLIFFWALK_REPLAYS, CliffwalkUpdates, Finding
from acer_tf.reproduction.report.tables import Table
from acer_tf.reproduction.scope import Scope, altered, by_place, scope
from acer_tf.settings import make_settings
from acer_tf.settings.record import settings_document

WORDS = (
    "Reproduced: the claim holds over the whole experiment as its command defines it (--help says how that differs "
    "from the paper's). Partly: it holds in what was run, or in most of it. Contradicted: it does not. Undecided: our "
    "runs do not decide it; so it is where a published learning curve has not made a tenth of its whole rise, and our "
    "run has not risen as far either. With NAME=VALUE: a setting that is not the experiment's own."
)


class Records(NamedTuple):
    """What was run of a claim."""

    content: Any  # for its judge
    share: str  # of the experiment's runs
    whole: bool = False  # whether these are all


def _begun(folder: Path, search: Mapping[str, Method] | None = None) -> tuple[Evidence, Outcome] | None:
    """The evidence of a folder, and those of its runs that have begun; None without any.

    Its methods are the experiment's, or those of a `search`.
    """
    if (evidence := read_evidence(folder)) is None:
        return None
    if evidence.name not in EXPERIMENTS:
        raise EvidenceError(f"{folder} holds the evidence of {evidence.name}, not of a figure or table: move it away")
    methods = search or EXPERIMENTS[evidence.name].methods
    # A search has other labels: its runs are not judged as the experiment's, nor those as a search's.
    cells = [cell for cell in evidence.cells if cell.steps and cell.method in names_by_label(methods)]
    return (evidence, Outcome(methods, cells, folder)) if cells else None


def _of_paper(folder: Path) -> Records | None:
    """Runs of the paper's own design."""
    if not (begun := _begun(folder)):
        return None
    evidence, outcome = begun
    found = scope(evidence.name, outcome.cells)
    return Records(outcome, str(found), found is not None and found.is_whole)


def _best_draws(folder: Path) -> Records | None:
    """The best draws of each method, by Figure 3's protocol."""
    methods = figure3_draws(DRAWS)
    if not (begun := _begun(folder, methods)):
        return None
    evidence, outcome = begun
    steps = {method.label: method.steps for method in outcome.methods.values()}
    shares = [cell.steps / whole for cell in outcome.cells if (whole := steps[cell.method](cell.env))]
    shown = BEST_DRAWS * len(methods) * len(CONTROL)
    made = Counter((label_of_search(cell.method), cell.env) for cell in outcome.cells)
    other = altered(outcome.cells, by_place(make_cells(methods, CONTROL, seeds=1)))
    of = Scope(sum(min(n, BEST_DRAWS) for n in made.values()), shown, min(shares), max(shares), other)
    draws = min(map(int, re.findall(r"(?<!\S)--?draws[= ](\d+)", evidence.command)), default=0)
    return Records(outcome, f"the best of {draws} draws: {of}", of.is_whole and draws >= DRAWS)


def _on_minatar(folder: Path, methods: Mapping[str, Method] | None = None) -> Records | None:
    """Runs of the paper's design on other games; of `methods`, if they are not the experiment's."""
    if not (begun := _begun(folder)):
        return None
    evidence, outcome = begun
    experiment = EXPERIMENTS[evidence.name]
    whole = by_place(make_cells(methods or experiment.methods, experiment.envs, experiment.seeds))
    seeds = _span(Counter((cell.method, cell.env) for cell in outcome.cells).values())
    steps = _span([cell.steps / 1e6 for cell in outcome.cells], ".1f")
    games = f"{len(outcome.envs)} MinAtar games, {seeds} seeds, {steps}M steps"
    return Records(outcome, "; ".join([f"none of it on Atari; {games}", *altered(outcome.cells, whole)]))


def _span(values: Collection[float], form: str = "") -> str:
    """ "3", or "1 to 3"."""
    return " to ".join(dict.fromkeys(f"{value:{form}}" for value in (min(values), max(values))))


def _longest_run(folder: Path, preset: str = "baselines") -> Records | None:
    """The longest run of ACER with a preset, in an environment of which a curve was published."""
    evidence = read_evidence(folder)
    known = evidence.cells if evidence else ()
    wanted = {"agent": "acer", "preset": preset}
    cells = [
        cell for cell in known if cell.steps and wanted.items() <= cell.settings.items() and published_curves(cell.env)
    ]
    if not cells:
        return None
    longest = max(cells, key=lambda cell: cell.steps)
    run = read_run(folder / "runs" / longest.name)
    (curve, *_) = published_curves(run.env)
    which = f"the longest of {len(cells)} runs" if len(cells) > 1 else "one run"
    length = f"{which}, {run.steps[-1] / 1e6:.1f}M of {curve.steps[-1] / 1e6:.0f}M steps"
    usual = make_settings(env=longest.env, agent="acer", preset=preset, seed=longest.seed)
    return Records(run, "; ".join([length, *altered([longest], {longest.place: settings_document(usual)})]))


def _cliffwalk(folder: Path) -> Records | None:
    """The updates that each run took."""
    if not (folder / "results.csv").exists():
        return None
    groups: CliffwalkUpdates = {}
    for result in read_results(folder / "results.csv"):
        groups.setdefault((result.representation, result.states, result.replay), []).append(result.updates)
    kinds = list(itertools.product(REPRESENTATIONS, CLIFFWALK_REPLAYS))
    # An interrupted experiment has not all replays at its last size.
    sizes = {size for _, size, _ in groups if all((kind, size, replay) in groups for kind, replay in kinds)}
    groups = {key: updates for key, updates in groups.items() if key[1] in sizes}
    if not groups:
        return None
    runs = min(map(len, groups.values()))
    share = f"{min(sizes)} to {max(sizes)} states of {SIZES[0]} to {SIZES[-1]}, {runs} of {RUNS} runs"
    return Records(groups, share, sizes >= set(SIZES) and runs >= RUNS)


class Claim(NamedTuple):
    """One statement of a paper that records can support or contradict."""

    source: str  # paper, and figure or table
    text: str
    folder: str  # of its records, in the folder of results
    judge: Callable[[Any], Finding]  # given the content of its records
    read: Callable[[Path], Records | None] = _of_paper


def verdict(finding: Finding | None, whole: bool) -> str:
    """The word for a finding that is of all of the experiment's runs, or of a part."""
    if finding is None:
        return "not run"
    if finding.holds is None:
        return "undecided"
    return ("reproduced" if whole else "partly") if finding.holds else "contradicted"


def verdicts(results: Path) -> Table:
    """The table of all claims. Raises EvidenceError, CurveError, ResultsError or OSError for a bad record."""
    rows = []
    for claim in CLAIMS:
        if records := claim.read(results / claim.folder):
            finding = claim.judge(records.content)
            shown = [verdict(finding, records.whole), records.share, finding.ours, finding.theirs, claim.folder]
        else:
            shown = [verdict(None, False), "none of it", "", "", ""]
        rows.append([claim.source, claim.text, *shown])
    head = ["source", "claim", "verdict", "what was run", "ours", "the paper's", "records"]
    return Table(
        f"{WORDS} Derived from the records by `python -m acer_tf verdicts`.",
        head,
        rows,
    )


_by_preset_paper = functools.partial(_on_minatar, methods=figure1_minatar("paper"))
_SAME, _CURVE = "the same, other games", "ACER learns at least as fast as the published curve"
_GAINS = "the trust region gains more the more is replayed"
_ORDER = "the order of the five methods by their best draws"
_SETTINGS = "which settings of learning rate and δ are good"
_BY_PRESET_PAPER = {"Pong": "pong_preset_paper"} | {
    game: f"atari_{game.lower()}_paper" for game in ("Breakout", "Qbert", "Seaquest", "BeamRider")
}
CLAIMS = (
    Claim("ACER, Figure 1", "more replay learns more per frame", "figure1_atari57", findings.more_replay),
    Claim("ACER, Figure 1, on MinAtar", _SAME, "figure1_minatar", findings.more_replay_minatar, _on_minatar),
    Claim(
        "ACER, Figure 1, on MinAtar, preset paper",
        _SAME,
        "figure1_minatar_paper",
        findings.more_replay_minatar,
        _by_preset_paper,
    ),
    Claim("ACER, Section 4, on MinAtar", _GAINS, "figure1_minatar", findings.trust_minatar, _on_minatar),
    Claim(
        "ACER, Section 4, on MinAtar, preset paper",
        "the same",
        "figure1_minatar_paper",
        findings.trust_minatar,
        _by_preset_paper,
    ),
    Claim("ACER, Figure 3", "ACER leads five methods on six control tasks", "figure3_continuous", findings.acer_leads),
    Claim(
        "ACER, Figure 3", "TIS and A3C are better with the trust region", "figure3_continuous", findings.trust_control
    ),
    Claim("ACER, Figure 3, its protocol", _ORDER, "figure3_best", findings.order_of_draws, _best_draws),
    Claim(
        "ACER, Figure 3, its protocol, policy and critic on one torso",
        "the same",
        "figure3_best_shared_torso",
        findings.order_of_draws,
        _best_draws,
    ),
    Claim("ACER, Figure 4", "without one of its parts ACER is worse", "figure4_ablation", findings.every_part),
    Claim("ACER, Figures 5 and 6", _SETTINGS, "figure5_sensitivity", findings.settings_matter),
    Claim("OpenAI baselines, Pong", _CURVE, "atari_pong", findings.published_curve, _longest_run),
    Claim("OpenAI baselines, Breakout", _CURVE, "atari_breakout", findings.published_curve, _longest_run),
    *(
        Claim(
            f"OpenAI baselines, {game}, preset paper",
            _CURVE,
            folder,
            findings.published_curve,
            functools.partial(_longest_run, preset="paper"),
        )
        for game, folder in _BY_PRESET_PAPER.items()
    ),
    Claim("PPO, Table 6", "ACER's scores on 49 games after 40M frames", "table_atari49", findings.table6),
    Claim("PER, Table 1", "priorities raise the median over 57 games", "table1_prioritized", findings.table1),
    Claim("PER, Table 1, on MinAtar", _SAME, "table_minatar_priorities", findings.priorities, _on_minatar),
    Claim("PER, Figure 1", "an oracle needs exponentially fewer updates", "cliffwalk", findings.oracle, _cliffwalk),
    Claim(
        "PER, Figure 2", "priorities lie between uniform replay and the oracle", "cliffwalk", findings.order, _cliffwalk
    ),
)
