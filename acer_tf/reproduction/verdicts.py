"""The verdicts: what the papers claim, whether the records of a results folder show it, and how much was run.

Each claim is decided by its records alone. "Reproduced" wants the whole figure as its command defines it (--help says
how that differs from the paper's runs); "partly" says that the claim holds in what was run; "undecided" that the runs
do not decide it.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from acer_tf.errors import EvidenceError
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.evidence import Evidence, read_evidence
from acer_tf.reproduction.figure import Figure, Finding, Judged, Method, cells_of, figures
from acer_tf.reproduction.report.output import Table
from acer_tf.settings.presets import PRESETS
from acer_tf.settings.record import DEFAULTS, jsonable

WORDS = (
    "Reproduced: the claim holds over the whole experiment as its command defines it (--help says how that differs "
    "from the paper's). Partly: it holds in what was run, or in most of it. Contradicted: it does not. Undecided: our "
    "runs do not decide it; so it is where a published learning curve has not made a tenth of its whole rise, and our "
    "run has not risen as far either. With NAME=VALUE: a setting that is not the experiment's own."
)
_OF_LENGTH = ("total_steps", "log_interval")
_HEAD = ("source", "claim", "verdict", "what was run", "ours", "the paper's", "records")


def verdict(finding: Finding | None, whole: bool) -> str:
    """The word for a finding that is of all of the figure's runs, or of a part."""
    if finding is None:
        return "not run"
    if finding.holds is None:
        return "undecided"
    return ("reproduced" if whole else "partly") if finding.holds else "contradicted"


def folders() -> dict[str, list[str]]:
    """The sources of the claims, by the folder of their records."""
    found: dict[str, list[str]] = {}
    for figure in figures().values():
        for claim in figure.claims:
            sources = found.setdefault(claim.folder or figure.name, [])
            sources += [source for source in [claim.source or figure.source] if source not in sources]
    return found


def verdicts(results: Path) -> Table:
    """The table of all claims. Raises EvidenceError, CurveError, ResultsError or OSError for a bad record."""
    rows = []
    for figure, claim in ((each, claim) for each in figures().values() for claim in each.claims):
        folder = claim.folder or figure.name
        shown = [verdict(None, False), "none of it", "", "", ""]
        if judged := claim.read(figure, results / folder):
            finding = claim.judge(judged.content)
            shown = [verdict(finding, judged.whole), judged.share, finding.ours, finding.theirs, folder]
        rows.append([claim.source or figure.source, claim.text, *shown])
    return Table(f"{WORDS} Derived from the records by `python -m acer_tf verdicts`.", _HEAD, rows)


def begun(
    figure: Figure, folder: Path, methods: Mapping[str, Method] | None = None
) -> tuple[Evidence, RecordedRuns] | None:
    """A figure's evidence, and those of its runs that have begun; None without any.

    Only runs of `methods` count, by default the figure's: its own runs are not judged as those of a search.
    """
    if (evidence := read_evidence(folder)) is None:
        return None
    if evidence.name != figure.name:
        raise EvidenceError(f"{folder} holds the evidence of {evidence.name}, not of {figure.name}: move it away")
    methods = methods or figure.methods
    cells = [cell for cell in cells_of(methods, evidence.cells) if cell.steps]
    return (evidence, RecordedRuns(methods, cells, folder)) if cells else None


def own_design(figure: Figure, folder: Path) -> Judged | None:
    """The runs of the paper's own design."""
    if not (found := begun(figure, folder)):
        return None
    share = coverage(figure, found[1].cells)
    return Judged(found[1], str(share), share is not None and share.is_whole)


def most(found: Sequence[bool]) -> bool | None:
    """What more than half of the comparisons say; None if neither side has more."""
    return None if sum(found) * 2 == len(found) else sum(found) * 2 > len(found)


class Coverage(NamedTuple):
    """The share of a whole reproduction that has begun."""

    runs: int
    whole_runs: int
    least: float  # share of its steps that the shortest run has done, 1 is all; 0 if none has begun
    most: float  # the same of the longest run
    altered: tuple[str, ...] = ()  # settings that are not the figure's: "with gamma=0.5", "2 of them with ..."

    @property
    def is_whole(self) -> bool:
        return self.runs == self.whole_runs and self.least >= 0.99 and not self.altered

    def __str__(self) -> str:
        if not self.runs:
            return f"none of {self.whole_runs} runs"
        low, high = (f"{min(100.0, 100 * share):.{0 if share > 0.1 else 1}f} %" for share in (self.least, self.most))
        steps = low if low == high else f"{low} to {high}"
        return "; ".join([f"{self.runs} of {self.whole_runs} runs, {steps} of their steps", *self.altered])


def coverage(figure: Figure, cells: Collection[Cell]) -> Coverage | None:
    """How much of a figure its cells are; None if some are of a search, or of methods that the figure does not have."""
    whole = figure.whole
    if not {(cell.method, cell.draw) for cell in cells} <= {(method, draw) for method, draw, *_ in whole}:
        return None
    begun = [cell for cell in cells if cell.steps and cell.place in whole]
    shares = [cell.steps / whole[cell.place].total_steps for cell in begun]
    return Coverage(len(shares), len(whole), min(shares, default=0.0), max(shares, default=0.0), altered(begun, whole))


def altered(cells: Collection[Cell], whole: Mapping[tuple[str, int | None, str, int], Cell]) -> tuple[str, ...]:
    """The settings of cells that are not those of the cell in the same place of `whole`, length aside."""
    found: Counter[str] = Counter()
    for cell in cells:
        known = whole[cell.place].settings if cell.place in whole else {}
        here = {**DEFAULTS, **cell.settings}
        names = [n for n, value in known.items() if n not in _OF_LENGTH and value not in ("auto", here.get(n))]
        differing = {name: here.get(name) for name in names}
        if "preset" in differing:  # its name says what it changes
            given = DEFAULTS | jsonable(PRESETS.get(here["preset"], {})) | {"preset": None}
            differing = {name: value for name, value in differing.items() if given.get(name) != value}
        found.update(f"{name}={value}" for name, value in differing.items())
    groups: dict[str, list[str]] = {}
    for setting, count in sorted(found.items()):
        groups.setdefault("" if count == len(cells) else f"{count} of them ", []).append(setting)
    return tuple(f"{runs}with {', '.join(group)}" for runs, group in groups.items())
