"""The report of the Blind Cliffwalk: updates to convergence, as a table and against n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from acer_tf.reproduction.cliffwalk import REPLAYS, Result, transitions
from acer_tf.reproduction.report.figures import panels
from acer_tf.reproduction.report.output import Drawing, Report
from acer_tf.reproduction.report.tables import Table


def report(results: Sequence[Result]) -> Report:
    """Table and figure of any runs."""
    caption = (
        'Updates to convergence by number of states n: median [minimum, maximum] over runs; ">" stands before a number '
        "that a run did not converge within."
    )
    drawn = (
        "Median over runs, bands from minimum to maximum; triangles: runs that did not converge count with the updates "
        "they did, a lower bound."
    )
    return Report({"table": Table(caption, *_rows(results))}, {"figure": Drawing(drawn, _figure(results))})


def _rows(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    replays = [replay for replay in REPLAYS if any(result.replay == replay for result in results)]
    rows = []
    for representation, groups in _by_representation(results).items():
        for states in sorted({states for _, states in groups}):
            cells = [_cell(groups.get((replay, states), [])) for replay in replays]
            rows.append([representation, str(states), f"{transitions(states):,}", *cells])
    return ["representation", "n", "transitions", *replays], rows


def _figure(results: Sequence[Result]) -> Figure:
    by_representation = _by_representation(results)
    figure, axes = panels(len(by_representation), width=5.5, height=5.0)
    for panel, (representation, groups) in zip(axes, by_representation.items(), strict=True):
        for colour, replay in enumerate(REPLAYS):
            sizes = sorted(states for there, states in groups if there == replay)
            if not sizes:
                continue
            updates = [[result.updates for result in groups[replay, states]] for states in sizes]
            medians = np.array([np.median(one) for one in updates])
            color = "black" if replay == "uniform" else f"C{colour}"
            panel.fill_between(sizes, [min(u) for u in updates], [max(u) for u in updates], color=color, alpha=0.15)
            panel.plot(sizes, medians, color=color, marker="o", markersize=3, label=replay)
            unfinished = [not all(result.converged for result in groups[replay, states]) for states in sizes]
            panel.plot(np.array(sizes)[unfinished], medians[unfinished], color=color, marker="^", linestyle="")
        sizes = sorted({states for _, states in groups})
        memory = [transitions(states) for states in sizes]
        panel.plot(sizes, memory, color="0.6", linestyle=":", label="number of transitions")
        panel.set(title=representation, xlabel="number of states n", yscale="log")
        panel.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
        panel.grid(alpha=0.25)
        if panel is not axes[0]:
            panel.sharey(axes[0])
    axes[0].set_ylabel("updates to convergence (median; minimum to maximum)")
    axes[0].legend(loc="upper left")
    return figure


def _by_representation(results: Sequence[Result]) -> Mapping[str, dict[tuple[str, int], list[Result]]]:
    groups: dict[str, dict[tuple[str, int], list[Result]]] = {}
    for result in results:
        groups.setdefault(result.representation, {}).setdefault((result.replay, result.states), []).append(result)
    return groups


def _cell(results: Sequence[Result]) -> str:
    if not results:
        return "–"
    ordered = sorted(results, key=lambda result: (not result.converged, result.updates))
    middle = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    median = sum(result.updates for result in middle) / 2
    bounds = [median, ordered[0].updates, ordered[-1].updates]
    open_ends = [not middle[1].converged, not ordered[0].converged, not ordered[-1].converged]
    texts = [f"{'>' if open_end else ''}{bound:,.0f}" for bound, open_end in zip(bounds, open_ends, strict=True)]
    return f"{texts[0]} [{texts[1]}, {texts[2]}]"
