"""The report of a figure: tables, as CSV for programs and as Markdown for people, and drawings; and their files."""

import collections
import dataclasses
import io
import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from acer_tf.files import write_whole
from acer_tf.reproduction.curves import Axis, RunCurve
from acer_tf.reproduction.evidence import Evidence, files_of, read_evidence, require_free, write_evidence
from acer_tf.reproduction.published import PublishedCurve

Groups = Mapping[str, Sequence[RunCurve]]

_DPI = 150
_PATH, _DECIMALS = re.compile(rb' d="[^"]*"'), re.compile(rb"(\.\d\d)\d+")  # of an SVG
_THIN = 3  # runs of a group that are drawn one by one: more are seen by their band
_GREY = 7  # of Matplotlib's colours: a single published curve is grey
FAR = 3  # times as long as ours: published curves beyond that get a logarithmic axis


@dataclasses.dataclass(frozen=True)
class Table:
    """Text by cell."""

    caption: str  # with units and protocol
    head: Sequence[str]  # names of the columns
    rows: Sequence[Sequence[str]]  # each as long as the head

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.head):
                raise ValueError(f"{len(self.head)} columns, but a row of {len(row)} cells: {list(row)}")


def write_csv(table: Table, path: Path) -> None:
    text = pd.DataFrame([*table.rows], columns=[*table.head], dtype=str).to_csv(index=False, lineterminator="\n")
    write_whole(path, text)


def write_table(table: Table, folder: Path, name: str) -> None:
    """Writes <name>.csv, and <name>.md with the caption below."""
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(table, folder / f"{name}.csv")
    write_whole(folder / f"{name}.md", f"{markdown(table)}\n\n{table.caption}\n")


def markdown(table: Table) -> str:
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in (table.head, *table.rows)]
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    return "\n".join([lines[0], "|" + " --- |" * len(table.head), *lines[1:]])


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A figure and the text below it."""

    caption: str
    figure: Figure


@dataclasses.dataclass(frozen=True)
class Report:
    """Tables and figures by file name; the first of each is called "table" and "figure"."""

    tables: Mapping[str, Table]
    figures: Mapping[str, Drawing]


def write_report(evidence: Evidence, report: Report, folder: Path) -> None:
    """Writes tables and figures, then experiment.json, which names them; those that it named before are gone then.

    Raises EvidenceError if files are there that no report has written.
    """
    files = files_of(report.tables, report.figures)
    if (before := read_evidence(folder)) is None:
        require_free(folder, files)
        # If the call is stopped here, the tables and figures must not be taken for files of the user's.
        write_evidence(folder, evidence)
    for name, table in report.tables.items():
        write_table(table, folder, name)
    for name, drawing in report.figures.items():
        save(drawing.figure, folder, name)
    captions = [{name: made.caption for name, made in of.items()} for of in (report.tables, report.figures)]
    write_evidence(folder, dataclasses.replace(evidence, tables=captions[0], figures=captions[1]))
    if before is not None:
        for file in {*files_of(before.tables, before.figures)} - {*files}:
            (folder / file).unlink(missing_ok=True)


def number(value: float | None, digits: int = 2) -> str:
    """Empty for None and NaN."""
    return "" if value is None or np.isnan(value) else f"{value:z,.{digits}f}"


def numbers(values: Sequence[float]) -> str:
    """A list of numbers, with a dash for NaN."""
    return ", ".join(number(value) or "–" for value in values)


def span(values: Collection[float], form: str = "") -> str:
    """The least and the largest of some values, once where they are written alike: "3", or "1–3"."""
    return "–".join(dict.fromkeys(f"{value:{form}}" for value in (min(values), max(values))))


def mean_with_error(mean: float, error: float) -> str:
    """ "12.00 ± 0.50"; a NaN is left out, as the error of one seed."""
    return number(mean) + ("" if np.isnan(error) or np.isnan(mean) else f" ± {error:,.2f}")


def difference(ours: float, published: float | None) -> str:
    """Ours less theirs, with its sign."""
    gap = np.nan if published is None else ours - published
    return "" if np.isnan(gap) else f"{gap:+z,.2f}"


def save(figure: Figure, folder: Path, name: str) -> None:
    """Writes <name>.png and <name>.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn, vectors, palette = io.BytesIO(), io.BytesIO(), io.BytesIO()
    # Text stays text; the same data give the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "acer_tf"}):
        figure.savefig(vectors, format="svg", metadata={"Date": None})
    figure.savefig(drawn, format="png", dpi=_DPI)
    # 256 colours make a quarter of the file. Without k-means, pale bands and the grid get other hues.
    whole, coverage = Image.open(drawn).convert("RGB"), Image.Quantize.MAXCOVERAGE
    colours = whole.quantize(256, coverage, kmeans=1, dither=Image.Dither.NONE)
    colours.save(palette, "png", optimize=True, dpi=(_DPI, _DPI))
    write_whole(folder / f"{name}.png", palette.getvalue())
    # Two decimals are a hundredth of a point; the other four make a fifth of the file.
    shorter = _PATH.sub(lambda path: _DECIMALS.sub(rb"\1", path[0]), vectors.getvalue())
    write_whole(folder / f"{name}.svg", shorter)


def panels(count: int, *, columns: int = 3, width: float = 4.6, height: float = 3.3) -> tuple[Figure, list[Axes]]:
    """Makes a figure of `count` axes in rows of `columns`."""
    columns = min(columns, max(count, 1))
    rows = max(1, -(-count // columns))
    width, height = (max(7.5, width), max(4.5, height)) if count == 1 else (width * columns, height * rows)
    figure = Figure((width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for spare in axes.flat[count:]:
        spare.set_axis_off()
    return figure, list(axes.flat[:count])


def learning_curves(
    by_env: Mapping[str, Groups],
    published: Callable[[str], Sequence[PublishedCurve]],
    *,
    titles: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    unit: str = "seeds",
    axis: Axis = "steps",
    styles: Mapping[str, tuple[str, str]] | None = None,
) -> Figure:
    """Draws a panel per environment: each group's mean ± standard error, up to three runs thin; published ones dashed.

    Args:
        by_env: label to runs, by environment. A label has one colour in all panels.
        published: the published curves of an environment. Their labels have one colour in all panels too.
        titles: the panels' titles by environment; by default the environment.
        labels: ours by the name of the published method that shares their colour; by default those that are equal.
        unit: what the runs of a group differ in, for the legend.
        axis: "seconds" draws hours; published curves have steps alone.
        styles: colour and line style by label; by default a colour each, solid.
    """
    counts: dict[str, list[int]] = collections.defaultdict(list)
    for groups in by_env.values():
        for label, runs in groups.items():
            counts[label].append(len(runs))
    colours = (f"C{number % 10}" for number in itertools.count() if number % 10 != _GREY)
    given = styles or {}
    legend = {label: (_named(label, n, unit), *given.get(label, (next(colours), "-"))) for label, n in counts.items()}
    curves = {
        env: [curve._replace(method=(labels or {}).get(curve.method, curve.method)) for curve in published(env)]
        for env in by_env
    }
    others = dict.fromkeys(curve.label for each in curves.values() for curve in each if curve.method not in legend)
    shades = {label: "0.45" if len(others) == 1 else next(colours) for label in others}
    figure, axes = panels(len(by_env))
    for ax, (env, groups) in zip(axes, by_env.items(), strict=True):
        _draw_runs(ax, groups, curves[env], legend, shades, axis)
        ax.set_title((titles or {}).get(env, env).replace("$", r"\$"))
        x = "environment steps (agent decisions)" if axis == "steps" else "hours"
        ax.set_xlabel(x, fontsize=None if len(by_env) == 1 else "small")
    shared_legend(figure, axes)
    figure.supylabel("mean return of the last 100 episodes", fontsize="medium")
    return figure


def _draw_runs(
    axes: Axes,
    groups: Groups,
    published: Sequence[PublishedCurve],
    legend: Mapping[str, tuple[str, str, str]],
    shades: Mapping[str, str],
    axis: Axis,
) -> None:
    """Draws one panel of `learning_curves`.

    `legend` has the name there, the colour and the line style, by label; `shades` the colours of published curves whose
    method it lacks, by theirs.
    """
    longest = max((_x(run, axis)[-1] for runs in groups.values() for run in runs), default=0.0)
    for curve in published:
        colour = legend[curve.method][1] if curve.method in legend else shades[curve.label]
        draw_band(axes, curve.steps, curve.low, curve.high, colour)
        axes.plot(curve.steps, curve.mean, "--", color=colour, linewidth=1.5, label=curve.label)
    for label, runs in groups.items():
        name, colour, line = legend[label]
        for run in runs if len(runs) <= _THIN else ():
            x, thin = _x(run, axis), 0.3 if len(runs) > 1 else 1.0
            axes.plot(x, run.mean_return, color=colour, alpha=thin, linewidth=0.7)
        shared = min(_x(run, axis)[-1] for run in runs)
        grid = np.linspace(0.0, shared, 200)
        returns = np.full((len(runs), len(grid)), np.nan)
        for row, run in zip(returns, runs, strict=True):
            if (known := ~np.isnan(run.mean_return)).any():
                row[:] = np.interp(grid, _x(run, axis)[known], run.mean_return[known], left=np.nan)
        mean = np.mean(returns, axis=0)
        if len(runs) > 1:
            error = np.std(returns, axis=0, ddof=1) / len(runs) ** 0.5
            draw_band(axes, grid, mean - error, mean + error, colour)
        axes.plot(grid, mean, color=colour, linestyle=line, linewidth=2, label=name)
    place_axis(axes, longest, max((curve.steps[-1] for curve in published), default=0.0))
    dress(axes, axis)  # after the scale, which brings its own formatter


def dots(
    games: Sequence[str], ours: Mapping[str, Mapping[str, float]], published: Mapping[str, Mapping[str, float]]
) -> Figure:
    """Draws scores by game, ours filled, published hollow; the axis is linear around 0 and logarithmic beyond."""
    figure, (axes,) = panels(1)
    figure.set_size_inches(8.0, max(3.5, 1.2 + 0.22 * len(games)))
    for count, (label, scores) in enumerate([*ours.items(), *published.items()]):
        filled, colour = count < len(ours), f"C{count % 10}"
        axes.scatter(
            [scores[game] for game in games if game in scores],
            [place for place, game in enumerate(games) if game in scores],
            s=28 if filled else 18,
            facecolors=colour if filled else "none",
            edgecolors=colour,
            label=f"ours: {label}" if filled else label,
        )
    axes.set_yticks(range(len(games)), games, fontsize="small")
    axes.set_xscale("symlog", linthresh=1.0)
    axes.axvline(1.0, color="0.6", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xlabel("human-normalised score")
    axes.grid(alpha=0.25)
    axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def dress(axes: Axes, axis: Axis = "steps") -> None:
    """Adds a grid, and writes thousands and millions of steps as 10 k and 10 M."""
    if axis == "steps":
        axes.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter())
    axes.grid(alpha=0.25)


def shared_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """Adds one legend below all panels, each label once, in up to three columns: as many as fit into the figure."""
    found = {label: line for ax in axes for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    for columns in (3, 2, 1) if found else ():
        legend = figure.legend(
            found.values(), found.keys(), loc="outside lower center", ncols=columns, fontsize="small", frameon=False
        )
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def draw_band(axes: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, colour: str) -> None:
    axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def _named(label: str, counts: Sequence[int], unit: str) -> str:
    """The label with its numbers of runs; Matplotlib would take $ for a formula, and leave out what begins with _."""
    count = " to ".join(dict.fromkeys([str(min(counts)), str(max(counts))]))
    named = (label if count == "1" else f"{label} ({count} {unit})").replace("$", r"\$")
    return f" {named}" if named.startswith("_") else named


def _x(run: RunCurve, axis: Axis) -> np.ndarray:
    return run.steps if axis == "steps" else run.seconds / 3600


def place_axis(axes: Axes, ours: float, published: float) -> None:
    """Sets the horizontal axis so that all curves are seen, and marks where the published ones end; 0 stands for none.

    It is logarithmic if ours end far before the published ones.
    """
    if ours and published > FAR * ours:
        axes.set(xscale="log", xlim=(ours / 50, 1.2 * published))
    elif published:
        axes.set_xlim(-0.02 * max(ours, published), 1.02 * max(ours, published))
    if published:
        axes.axvline(published, color="0.6", linestyle=":", linewidth=1, label="end of the published axis")
