"""The verdicts: what the papers claim, whether the records of a results folder show it, and how much was run.

Each claim is decided by its records alone. "Reproduced" wants the whole figure as its command defines it (--help says
how that differs from the paper's runs); "partly" says that the claim holds in what was run; "undecided" that the runs
do not decide it.
"""

from __future__ import annotations

from pathlib import Path

from acer_tf.reproduction.catalogue import figures
from acer_tf.reproduction.figure import Finding
from acer_tf.reproduction.report.tables import Table

WORDS = (
    "Reproduced: the claim holds over the whole experiment as its command defines it (--help says how that differs "
    "from the paper's). Partly: it holds in what was run, or in most of it. Contradicted: it does not. Undecided: our "
    "runs do not decide it; so it is where a published learning curve has not made a tenth of its whole rise, and our "
    "run has not risen as far either. With NAME=VALUE: a setting that is not the experiment's own."
)
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
    for figure in figures().values():
        for claim in figure.claims:
            folder = claim.folder or figure.name
            if judged := claim.read(figure, results / folder):
                finding = claim.judge(judged.content)
                shown = [verdict(finding, judged.whole), judged.share, finding.ours, finding.theirs, folder]
            else:
                shown = [verdict(None, False), "none of it", "", "", ""]
            rows.append([claim.source or figure.source, claim.text, *shown])
    return Table(f"{WORDS} Derived from the records by `python -m acer_tf verdicts`.", _HEAD, rows)
