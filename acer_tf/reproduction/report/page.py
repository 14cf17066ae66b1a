"""The results page: one static index.html over all experiments of a results folder.

It is made from the folders alone (see evidence) and has no scripts, so that it opens from a disk, too.
"""

from __future__ import annotations

import csv
import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import jinja2

from acer_tf.reproduction.evidence import (
    CellEvidence,
    CellState,
    Evidence,
    EvidenceError,
    read_evidence,
)
from acer_tf.training.records import RECORDS

# What needs attention comes first.
_ORDER: tuple[CellState, ...] = ("failed", "interrupted", "not begun", "finished")
_NONE = "–"
_MARK = b'<meta name="generator" content="acer_tf">'
_NUMBER = frozenset("0123456789.,;+-−–±×%()[] eE")


class Link(NamedTuple):
    text: str
    href: str  # percent-encoded, relative to the page


class Commit(NamedTuple):
    full: str
    short: str
    changes: bool  # whether the code differed from it


class Column(NamedTuple):
    head: str
    numeric: bool


@dataclasses.dataclass(frozen=True)
class FigureView:
    caption: str
    alt: str
    image: str | None  # href; None if the file is missing
    links: list[Link]
    missing: list[str]  # names of missing files


@dataclasses.dataclass(frozen=True)
class TableView:
    caption: str
    columns: list[Column]
    rows: list[list[str]]
    links: list[Link]
    missing: list[str]
    problem: str  # why its file cannot be shown


@dataclasses.dataclass(frozen=True)
class CellView:
    cell: CellEvidence
    progress: str
    hours: str
    mean_return: str
    commit: Commit | None
    links: list[Link]  # to its records, and to its policy if that can be linked
    place: str  # of its policy, if that cannot be linked


@dataclasses.dataclass(frozen=True)
class SectionView:
    """One folder on the page; without evidence, only its title, path and error are shown."""

    anchor: str
    path: str
    title: str
    error: str = ""
    evidence: Evidence | None = None
    finished: int = 0
    unfinished: str = ""  # "1 failed, 2 not begun"; empty if all are finished
    steps: int = 0
    commits: Sequence[Commit] = ()
    figures: Sequence[FigureView] = ()
    tables: Sequence[TableView] = ()
    videos: Sequence[Link] = ()
    animations: Sequence[Link] = ()
    cells: Sequence[CellView] = ()


def require_page(results: Path) -> None:
    """Raises EvidenceError for an index.html that is not ours, and would be replaced."""
    page = results / "index.html"
    if page.exists() and _MARK not in page.read_bytes()[:2_000]:
        raise EvidenceError(f"{page} is not a page of results, and would be replaced: choose an --output elsewhere")


def write_page(results: Path) -> Path:
    """Writes `results`/index.html, whole or not at all, and returns its path.

    It shows the folders with an experiment.json, at most two deep; a section whose experiment.json cannot be read says
    so. The same files give the same bytes.

    Raises:
        EvidenceError: see `require_page`.
        OSError: it cannot be written.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("acer_tf.reproduction.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    require_page(results)
    folders = sorted(path.parent for depth in ("*", "*/*") for path in results.glob(f"{depth}/experiment.json"))
    sections = [_section(folder, results) for folder in folders]
    page = results / "index.html"
    partial = page.with_name(page.name + ".partial")
    partial.write_text(environment.get_template("page.html").render(sections=sections), encoding="utf-8")
    return partial.replace(page)


def _section(folder: Path, results: Path) -> SectionView:
    path = folder.relative_to(results).as_posix()
    anchor = quote(path)
    try:
        evidence = read_evidence(folder)
    except EvidenceError as error:
        return SectionView(anchor, path, title=path, error=str(error).replace(f"{folder}/", ""))
    if evidence is None:
        return SectionView(anchor, path, title=path, error="experiment.json was removed meanwhile")
    cells = sorted(evidence.cells, key=lambda cell: _ORDER.index(cell.state))
    counts = Counter(cell.state for cell in cells)
    commits = dict.fromkeys(cell.commit for cell in evidence.cells if cell.commit)
    return SectionView(
        anchor,
        path,
        evidence.title,
        evidence=evidence,
        finished=counts["finished"],
        unfinished=", ".join(f"{counts[state]} {state}" for state in _ORDER[:-1] if counts[state]),
        steps=sum(cell.steps for cell in cells),
        commits=[_commit(commit) for commit in commits],
        figures=[_figure(name, caption, evidence, folder, results) for name, caption in evidence.figures.items()],
        tables=[_table(name, caption, folder, results) for name, caption in evidence.tables.items()],
        videos=_media(folder, results, {".mp4", ".webm"}),
        animations=_media(folder, results, {".gif"}),
        cells=[_cell(cell, folder, results) for cell in cells],
    )


def _figure(name: str, caption: str, evidence: Evidence, folder: Path, results: Path) -> FigureView:
    links, missing = _files(folder, name, (".png", ".svg"), results)
    image = next((link.href for link in links if link.text.endswith(".png")), None)
    return FigureView(caption, f"{evidence.title}: {caption or name}", image, links, missing)


def _table(name: str, caption: str, folder: Path, results: Path) -> TableView:
    links, missing = _files(folder, name, (".csv", ".md"), results)
    head: list[str] = []
    rows: list[list[str]] = []
    problem = ""
    try:
        with (folder / f"{_stem(name)}.csv").open(newline="", encoding="utf-8") as file:
            head, *rows = list(csv.reader(file)) or [[]]
        if uneven := [number for number, row in enumerate(rows, start=2) if len(row) != len(head)]:
            raise ValueError(f"row {uneven[0]} does not have the {len(head)} cells of the head")
    except FileNotFoundError:
        pass  # among the missing
    except (OSError, ValueError, csv.Error) as error:
        head, rows, problem = [], [], f"{_stem(name)}.csv cannot be read: {error}"
    columns = [Column(text, _mostly_numbers([row[i] for row in rows])) for i, text in enumerate(head)]
    return TableView(caption, columns, rows, links, missing, problem)


def _cell(cell: CellEvidence, folder: Path, results: Path) -> CellView:
    records = [folder / "runs" / cell.name / record for record in RECORDS]
    percent = f" ({100 * cell.steps // cell.total_steps} %)" if cell.total_steps else ""
    policy = _policy(cell.policy, folder, results) if cell.policy else None
    known = cell.mean_return is not None and math.isfinite(cell.mean_return)
    return CellView(
        cell,
        progress=f"{cell.steps:,} / {cell.total_steps:,}{percent}",
        hours=f"{cell.seconds / 3600:,.2f}" if cell.steps else _NONE,
        mean_return=f"{cell.mean_return:,.2f}" if known else _NONE,
        commit=_commit(cell.commit) if cell.commit else None,
        links=[Link(p.name, _href(p, results)) for p in records if p.is_file()] + ([policy] if policy else []),
        place=cell.policy if cell.policy and not policy else "",
    )


def _commit(text: str) -> Commit:
    commit, _, changes = text.partition("+")
    return Commit(text, commit[:7], bool(changes))


def _policy(text: str, folder: Path, results: Path) -> Link | None:
    """A link to the policy at `text`, which is relative to the working folder or to the experiment's.

    None if it does not exist, or lies outside `results`, which may be published alone.
    """
    inside = results.resolve()
    for start in (Path.cwd(), folder.resolve()):
        path = (start / text).resolve()
        if path.exists() and path.is_relative_to(inside):
            return Link("policy", _href(path, inside) + ("/" if path.is_dir() else ""))
    return None


def _media(folder: Path, results: Path, suffixes: set[str]) -> list[Link]:
    found = [path for place in (folder, folder / "videos") for path in place.glob("*") if path.suffix in suffixes]
    return [Link(path.name, _href(path, results)) for path in sorted(found) if path.is_file()]


def _files(folder: Path, name: str, suffixes: Sequence[str], results: Path) -> tuple[list[Link], list[str]]:
    """Links to the files of a figure or table, and the names of those that are missing."""
    paths = [folder / f"{_stem(name)}{suffix}" for suffix in suffixes]
    links = [Link(path.name, _href(path, results)) for path in paths if path.is_file()]
    return links, [path.name for path in paths if not path.is_file()]


def _stem(name: str) -> str:
    """The name without its ending: evidence may name figure.png as figure."""
    path = Path(name)
    return path.stem if path.suffix in (".csv", ".md", ".png", ".svg") else name


def _href(path: Path, results: Path) -> str:
    return quote(path.relative_to(results).as_posix())


def _mostly_numbers(texts: Sequence[str]) -> bool:
    """Whether more than half of a column's cells are numbers, perhaps with errors or intervals."""
    given = [text for text in texts if text.strip()]
    numbers = [text for text in given if set(text) <= _NUMBER and any(c.isdigit() for c in text)]
    return 2 * len(numbers) > len(given)
