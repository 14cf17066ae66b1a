"""The results page: one static index.html over all experiments of a results folder.

It is made from the folders alone (see evidence) and asks for nothing from elsewhere, so that it opens from a disk, too.
Its script draws the curves anew by task and method; without scripts the images show them.
"""

import contextlib
import csv
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import jinja2
import numpy as np
from PIL import Image

from acer_tf.errors import CurveError, EvidenceError
from acer_tf.files import write_whole
from acer_tf.reproduction.cells import Cell, State
from acer_tf.reproduction.curves import RunCurve, read_run
from acer_tf.reproduction.evidence import Evidence, changing, read_evidence
from acer_tf.reproduction.figure import KINDS, figures
from acer_tf.reproduction.published import PublishedCurve, published_curves
from acer_tf.reproduction.report.output import number
from acer_tf.reproduction.verdicts import HEAD, RULE, answer, coverage
from acer_tf.runs.records import RECORDS

# What needs attention comes first.
_ORDER: tuple[State, ...] = ("failed", "interrupted", "not begun", "finished")
_MARK = b'<meta name="generator" content="acer_tf">'
_LONG = 12  # rows of a table: one with more is shown when asked for
_SCALE = 0.45  # pixels of the page per pixel of a picture, which has 150 to an inch
_POINTS = 60  # points of a curve: more than its pixels can show would make the page heavy
_NUMBER = frozenset("0123456789.,;+-−–±×%()[] eE")
_VIDEOS, _ANIMATIONS = (".mp4", ".webm"), (".gif",)


class Link(NamedTuple):
    text: str
    href: str  # percent-encoded, relative to the page


def require_page(results: Path) -> None:
    """Raises EvidenceError for an index.html that is not ours and would be replaced, or that could not be written."""
    page = results / "index.html"
    there = next(path for path in (results, *results.absolute().parents) if path.exists())
    if not os.access(there, os.W_OK):
        raise EvidenceError(f"{page} cannot be written, because {there} is not writable: choose another folder")
    try:
        ours = not page.exists() or _MARK in page.read_bytes()[:2_000]
    except OSError:
        ours = False
    if not ours:
        raise EvidenceError(f"{page} is not a page of results, and would be replaced: choose another folder")


def results_of(output: Path) -> Path:
    """The folder whose page shows the evidence in `output`: that in which it lies, also for "." and ".."."""
    return output.parent if output.name not in ("", "..") else Path(os.path.abspath(output)).parent


def write_page(results: Path) -> Path:
    """Writes `results`/index.html, whole or not at all, and returns its path.

    It shows the folders with an experiment.json, at most two deep, in the order of the papers' figures and tables, then
    single curves, then diagnostics; a section whose experiment.json cannot be read says so. Files outside `results` are
    never shown, whatever a name or a link says. The same files give the same bytes in the same working folder.

    Raises:
        EvidenceError: see `require_page`.
        OSError: it cannot be written.
    """
    loader = jinja2.PackageLoader("acer_tf.reproduction.report")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = number
    require_page(results)
    with changing(results):  # of two that end together, the second must see what the first has written
        return _write_page(results, environment)


def _write_page(results: Path, environment: jinja2.Environment) -> Path:
    shown = _Shown(results)
    folders = sorted(path.parent for depth in ("*", "*/*") for path in results.glob(f"{depth}/experiment.json"))
    sections = _in_order([_section(folder, shown) for folder in folders])
    verdicts = _verdicts(results, shown) if shown.has(results / "verdicts.csv") else None
    policies, page = _policies(results / "policies", shown), results / "index.html"
    anchors = {section["path"]: section["anchor"] for section in sections}
    parts = {"sections": sections, "verdicts": verdicts, "policies": policies, "anchors": anchors}
    write_whole(page, environment.get_template("page.html").render(parts))
    return page


class _Shown:
    """The files that the page may show: those that lie in the folder of results, also after all links."""

    def __init__(self, results: Path) -> None:
        self.results, self._inside = results, results.resolve()

    def has(self, path: Path) -> bool:
        try:
            return path.is_file() and path.resolve().is_relative_to(self._inside)
        except OSError:
            return False

    def href(self, path: Path) -> str:
        return quote(os.fsencode(path.relative_to(self.results)))

    def links(self, paths: Iterable[Path]) -> list[Link]:
        return [Link(path.name, self.href(path)) for path in paths if self.has(path)]

    def policy(self, text: str, folder: Path) -> Link | None:
        """A link to the policy at `text`, by the working or the experiment's folder; None if it is not in `results`."""
        for start in (Path.cwd(), folder.resolve()):
            with contextlib.suppress(OSError, ValueError, RuntimeError):  # a name that cannot be, or links in a circle
                path = (start / text).resolve()
                if path.exists() and path.is_relative_to(self._inside):
                    return Link("policy", quote(os.fsencode(path.relative_to(self._inside))) + "/" * path.is_dir())
        return None


def _section(folder: Path, shown: _Shown) -> dict[str, Any]:
    """The content of one folder's section; if there is an error, only that, its title and its path are shown."""
    path, places = folder.relative_to(shown.results).as_posix(), list(figures())
    section = {"anchor": shown.href(folder), "path": path, "title": path, "place": (len(places), 0), "cells": []}
    try:
        evidence = read_evidence(folder) if shown.has(folder / "experiment.json") else None
    except EvidenceError as error:
        return section | {"error": str(error).replace(f"{folder}/", "")}
    if evidence is None:
        return section | {"error": "experiment.json is not a file in this folder"}
    cells = sorted(evidence.cells, key=lambda cell: _ORDER.index(cell.state))
    figure = figures().get(evidence.name)
    counts = Counter(cell.state for cell in cells)
    tables = [_table(folder, name, caption, shown) for name, caption in evidence.tables.items()]
    media = sorted(path for place in (folder, folder / "videos") for path in place.glob("*"))
    return section | {
        "title": evidence.title,
        "error": "",
        "place": (places.index(evidence.name) if figure else len(places), evidence.diagnostic),
        "evidence": evidence,
        "finished": counts["finished"],
        "unfinished": ", ".join(f"{counts[state]} {state}" for state in _ORDER[:-1] if counts[state]),
        "steps": sum(cell.steps for cell in cells),
        "commits": list(dict.fromkeys(cell.commit for cell in evidence.cells if cell.commit)),
        "figures": [_figure(folder, name, caption, shown) for name, caption in evidence.figures.items()],
        "tables": [t | {"open": t is tables[0] and len(t["rows"]) <= _LONG} for t in tables],
        "videos": shown.links(path for path in media if path.suffix in _VIDEOS),
        "animations": shown.links(path for path in media if path.suffix in _ANIMATIONS),
        "cells": [_cell(cell, evidence, folder, shown) for cell in cells],
        "scope": str((figure and figure.methods and coverage(figure, evidence.cells)) or ""),
        "curves": _curves(evidence, folder, shown),
    }


def _in_order(sections: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The sections in the order of the page; those of one title together, the one of most cells first.

    The others of that title have their folder added to it, and are shown when asked for, as diagnostics are.
    """
    groups: dict[Any, list[dict[str, Any]]] = {}
    for section in sorted(sections, key=lambda section: (section["place"], "/" in section["path"], section["path"])):
        groups.setdefault((section["place"], section["title"]), []).append(section)
    found = []
    for (place, title), group in groups.items():
        for rank, section in enumerate(sorted(group, key=lambda section: -len(section["cells"]))):
            own = f"{title} ({section['path']})" if len(group) > 1 else title
            found.append(section | {"title": own, "collapsed": rank > 0 or bool(place[-1])})
    return found


def _policies(folder: Path, shown: _Shown) -> list[dict[str, Any]]:
    """The policies in a folder, by their evaluations <name>.json."""
    found = []
    for path in filter(shown.has, sorted(folder.glob("*.json"))):
        try:
            document = json.loads(path.read_text())
            env, mean, error, episodes = (document[name] for name in ("env", "mean", "standard_error", "episodes"))
            spread = "" if error is None else f" ± {error:,.1f}"  # None: a single episode
            score = f"{mean:,.1f}{spread} over {episodes} episode{'s' * (episodes != 1)}"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue  # some other file
        model, video = path.with_suffix(""), path.with_suffix(".mp4")
        saved = [Link("SavedModel", shown.href(model) + "/")] if shown.has(model / "saved_model.pb") else []
        film = shown.href(video) if shown.has(video) else None
        links = [*shown.links([path]), *saved]
        found.append({"name": path.stem, "env": env, "score": score, "links": links, "video": film})
    return found


def _files(folder: Path, name: str, caption: str, suffixes: Sequence[str], shown: _Shown) -> dict[str, Any]:
    """A figure or table: its name and caption, links to its files, and the names of those that are missing."""
    paths = [folder / f"{name}{suffix}" for suffix in suffixes]
    missing = [path.name for path in paths if not shown.has(path)]
    return {"name": name, "caption": caption, "links": shown.links(paths), "missing": missing}


def _figure(folder: Path, name: str, caption: str, shown: _Shown) -> dict[str, Any]:
    image, href, size = folder / f"{name}.png", None, None
    if shown.has(image):
        href = shown.href(image)
        with contextlib.suppress(OSError, ValueError, Image.DecompressionBombError), Image.open(image) as opened:
            size = [round(_SCALE * pixels) for pixels in opened.size]
    figure = _files(folder, name, caption, (".png", ".svg"), shown)
    return figure | {"alt": caption or name, "image": href, "size": size}


def _table(folder: Path, name: str, caption: str, shown: _Shown) -> dict[str, Any]:
    head: list[str] = []
    rows: list[list[str]] = []
    problem, source = "", folder / f"{name}.csv"
    try:
        if shown.has(source):
            with source.open(newline="", encoding="utf-8") as file:
                head, *rows = list(csv.reader(file)) or [[]]
        if uneven := [place for place, row in enumerate(rows, start=2) if len(row) != len(head)]:
            raise ValueError(f"row {uneven[0]} does not have the {len(head)} cells of the head")
    except (OSError, ValueError, csv.Error) as error:
        head, rows, problem = [], [], f"{source.name} cannot be read: {error}"
    columns = [{"head": text, "numeric": _mostly_numbers(row[i] for row in rows)} for i, text in enumerate(head)]
    table = _files(folder, name, caption, (".csv", ".md"), shown)
    return table | {"columns": columns, "rows": rows, "problem": problem}


def _verdicts(results: Path, shown: _Shown) -> dict[str, Any]:
    table = _table(results, "verdicts", " ".join(RULE), shown)
    ours = [column["head"] for column in table["columns"]] == [*HEAD]
    kinds = [kind for kind in KINDS if ours and any(row[HEAD.index("kind")] == kind for row in table["rows"])]
    return table | {"answer": " ".join(answer(table["rows"])) if ours else "", "kinds": kinds}


def _mostly_numbers(texts: Iterable[str]) -> bool:
    """Whether more than half of a column's cells are numbers, perhaps with errors or intervals."""
    given = [text for text in texts if text.strip()]
    numbers = [text for text in given if set(text) <= _NUMBER and any(c.isdigit() for c in text)]
    return 2 * len(numbers) > len(given)


def _cell(cell: Cell, evidence: Evidence, folder: Path, shown: _Shown) -> dict[str, Any]:
    policy = shown.policy(cell.policy, folder) if cell.policy else None
    links = shown.links(folder / "runs" / cell.name / record for record in RECORDS)
    return {
        "cell": cell,
        "method": evidence.label(cell),
        "links": [*links, policy] if policy else links,
        "place": cell.policy if cell.policy and not policy else "",  # of a policy that cannot be linked
    }


def _curves(evidence: Evidence, folder: Path, shown: _Shown) -> dict[str, list[dict[str, Any]]]:
    """The curves by task: one per method with the range over its runs, then the published ones, with 0 runs.

    The draws of a search are one method's runs.
    """
    runs: dict[str, dict[tuple[str, str], list[RunCurve]]] = {}
    for cell in evidence.cells:
        place = folder / "runs" / cell.name
        if cell.steps and shown.has(place / "progress.csv"):
            try:
                run = read_run(place)
            except CurveError:
                continue  # the cells say so
            key = evidence.label(cell), "seeds" if cell.draw is None else "draws"
            runs.setdefault(cell.env, {}).setdefault(key, []).append(run)
    figure = figures().get(evidence.name)
    found = {}
    for env, by_method in runs.items():
        ours = [_ours(*key, of) for key, of in by_method.items()]
        theirs = figure.published(env) if figure and env in figure.envs else published_curves(env)
        theirs = theirs if evidence.options.get("published", True) else []
        found[env] = [*filter(None, ours), *map(_published, theirs)]
    return found


def _ours(label: str, unit: str, runs: Sequence[RunCurve]) -> dict[str, Any] | None:
    """The mean and the range of runs over the steps that all of them have returns at; None without any."""
    known = [(run.steps[ended], run.mean_return[ended]) for run in runs if (ended := ~np.isnan(run.mean_return)).any()]
    first, last = max((x[0] for x, _ in known), default=0), min((x[-1] for x, _ in known), default=-1)
    if last < first:  # none has a return yet, or one is not where another began: no mean is known
        return None
    steps = np.linspace(first, last, _POINTS)
    values = np.array([np.interp(steps, x, y) for x, y in known])
    return _curve(label, label, len(known), unit, steps, values.mean(0), values.min(0), values.max(0))


def _published(curve: PublishedCurve) -> dict[str, Any]:
    places = np.unique(np.linspace(0, len(curve.steps) - 1, _POINTS).astype(int))
    columns = (values[places] for values in (curve.steps, curve.mean, curve.low, curve.high))
    return _curve(curve.label, curve.method, 0, "", *columns)


def _curve(label: str, method: str, runs: int, unit: str, *columns: np.ndarray) -> dict[str, Any]:
    known = np.isfinite(columns).all(axis=0)  # JSON has no NaN
    numbers = ([float(f"{value:.4g}") for value in column[known]] for column in columns)
    of_curve = zip(("x", "y", "low", "high"), numbers, strict=True)
    return {"label": label, "method": method, "runs": runs, "unit": unit, **dict(of_curve)}
