"""What the claims of several figures share: which records they read, and how they decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from acer_tf.errors import EvidenceError
from acer_tf.reproduction.coverage import coverage
from acer_tf.reproduction.evidence import Evidence, read_evidence
from acer_tf.reproduction.figure import Figure, Judged, Method
from acer_tf.reproduction.recorded_runs import RecordedRuns


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
    cells = [c for c in evidence.cells if c.steps and c.method in methods and c.draw in methods[c.method].variants()]
    return (evidence, RecordedRuns(methods, cells, folder)) if cells else None


def own_design(figure: Figure, folder: Path) -> Judged | None:
    """The runs of the paper's own design."""
    if not (found := begun(figure, folder)):
        return None
    _, recorded = found
    share = coverage(figure, recorded.cells)
    return Judged(recorded, str(share), share is not None and share.is_whole)


def most(found: Sequence[bool]) -> bool | None:
    """What more than half of the comparisons say; None if neither side has more."""
    return None if sum(found) * 2 == len(found) else sum(found) * 2 > len(found)
