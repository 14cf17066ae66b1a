"""The benchmark's outcome as tables and a figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

from benchmarks.groups import ENVIRONMENTS, PRECISIONS, RATIOS, REPLAY_ROWS, TRAJECTORIES
from benchmarks.operations import roofline
from benchmarks.priorities import SIZES, STORED, STRUCTURES
from benchmarks.recurrent import PAIRS, RATIO

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

_PIXELS = 84 * 84  # bytes of one frame
_LEARNING = {"atari": "Atari Pong", "minatar": "MinAtar Breakout"}


def table(groups: Mapping[str, Any]) -> str:
    """Every measurement as Markdown: median, lowest and highest."""
    lines = ["| group | figure | median | lowest to highest | unit |", "|---|---|---|---|---|"]
    for group, outcome in groups.items():
        for name, m in outcome["measurements"].items():
            spread = f"{_number(m['low'])} to {_number(m['high'])}"
            lines.append(f"| {group} | {name} | {_number(m['median'])} | {spread} | {m['unit']} |")
    return "\n".join(lines) + "\n"


def summary(groups: Mapping[str, Any]) -> str:
    """The loop beside its limit, memory and checkpoints, as Markdown; what was not measured is left out."""
    devices = sorted({outcome["device"] for outcome in groups.values() if "device" in outcome})
    lines = [f"Computed on {', '.join(devices)}.", ""] if devices else []
    rows: list[str] = []
    for group, game in _LEARNING.items():
        for ratio, precision, speed, limit in _loops(groups.get(group, {})):
            cells = f"{_number(speed)} steps/s | {_number(limit)} | {speed / limit:.2f}"
            rows.append(f"| {game}, replay ratio {ratio}, {precision} | {cells} |")
        rows += _by_trajectories(game, groups.get(group, {}).get("measurements", {}))
    if "control" in groups:
        outcome = groups["control"]
        speed = outcome["measurements"]["loop, ratio 4"]["median"]
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in outcome["facts"]["shares"].items())
        rows.append(f"| control/cheetah, replay ratio 4 | {_number(speed)} steps/s | | {shares} of the time |")
    for group, (env_id, torso, *_) in PAIRS.items():
        if group in groups:
            outcome = groups[group]
            for network, share in ((torso, ""), (f"{torso}_lstm", f"{outcome['facts']['share']:.2f} of {torso}'s")):
                speed = outcome["measurements"][f"loop, ratio {RATIO}, {network}"]["median"]
                rows.append(f"| {env_id}, replay ratio {RATIO}, {network} | {_number(speed)} steps/s | | {share} |")
    if "priorities" in groups:
        for name, share in groups["priorities"]["facts"]["shares_of_a_dqn_update"].items():
            cost = groups["priorities"]["measurements"][f"{name}, {STORED:,} items, batch 32"]["median"]
            rows.append(
                f"| prioritized draw and its new priorities, {name}, {STORED:,} transitions | {cost:.3f} ms | | "
                f"{100 * share:.1f} % of a DQN update |"
            )
    if "atari" in groups:
        facts = groups["atari"]["facts"]
        stored, size = facts["stored_steps"], facts["replay_bytes"]
        besides = (facts["resident_bytes"] - size) / 1e9
        rows += [
            f"| replay of {stored:,} Atari steps | {size / 1e9:.2f} GB | | |",
            f"| memory per stored step, in its frame's bytes | {size / stored / _PIXELS:.3f} | | |",
            f"| the process besides, with two agents | {besides:.2f} GB | | |",
        ]
        interval = groups["atari"]["measurements"]["checkpoint"]["median"]
        checkpoint = facts["checkpoint"]
        share = interval / (60.0 * checkpoint["minutes"])
        size = checkpoint["bytes_per_interval"] / 1e9
        rows.append(
            f"| a checkpoint every {checkpoint['minutes']:.0f} minutes, {size:.1f} GB each | {interval:.1f} s | | "
            f"{100 * share:.1f} % of the time |"
        )
    if rows:
        lines += ["| figure | measured | limit | share of the limit |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _by_trajectories(game: str, measurements: Mapping[str, Any]) -> Iterator[str]:
    for precision in PRECISIONS:
        for trajectories in TRAJECTORIES:
            few = measurements.get(f"loop, ratio 4, {precision}, {trajectories} trajectories per update")
            if few is not None:
                share = few["median"] / measurements[f"loop, ratio 4, {precision}"]["median"]
                yield (
                    f"| {game}, replay ratio 4, {precision}, trajectories per update: {trajectories} | "
                    f"{_number(few['median'])} steps/s | | {share:.2f} of all 16's |"
                )


def draw(groups: Mapping[str, Any], path: Path) -> None:
    """How cost grows with environments, replay ratio and replay size: a panel for each of these that was measured.

    Args:
        groups: as `benchmarks.__main__` writes them; nothing is drawn if none of them has a panel.
        path: .png or .svg; its folder is made.
    """
    drawn = [(panel, groups[name]) for name, panel in _PANELS if name in groups]
    if not drawn:
        return
    columns = math.ceil(math.sqrt(len(drawn)))
    rows = math.ceil(len(drawn) / columns)
    size = (5 * columns, 3.75 * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, constrained_layout=True)
    for axes in grid.flat[len(drawn) :]:
        axes.remove()
    for axes, (panel, outcome) in zip(grid.flat, drawn, strict=False):
        panel(axes, outcome)
        axes.grid(alpha=0.25)
        axes.legend(loc="best")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _loops(outcome: dict[str, Any]) -> Iterator[tuple[int, str, float, float]]:
    """(ratio, precision, measured steps/s, limit in steps/s) of one group's loops."""
    if not outcome:
        return
    medians = {name: m["median"] for name, m in outcome["measurements"].items()}
    for ratio in RATIOS:
        for precision in PRECISIONS:
            operations = outcome["facts"]["operations_per_step"][str(ratio)]
            peak = 1e9 * medians[f"matrix product, {precision}"]
            limit = roofline(operations, peak, medians["environments"])
            yield ratio, precision, medians[f"loop, ratio {ratio}, {precision}"], limit


def _draw_environments(axes: plt.Axes, outcome: dict[str, Any]) -> None:
    axes.set(title="environments alone", xlabel="environments", ylabel="µs per step", xscale="log", yscale="log")
    axes.set_xticks(ENVIRONMENTS, [str(n) for n in ENVIRONMENTS])
    axes.minorticks_off()
    for env_id in ("atari/Pong", "minatar/breakout"):
        points = [outcome["measurements"][f"{env_id} × {n}"] for n in ENVIRONMENTS]
        _draw_band(axes, ENVIRONMENTS, [{k: 1e6 / m[k] for k in ("median", "low", "high")} for m in points], env_id)


def _draw_ratios(axes: plt.Axes, outcome: dict[str, Any]) -> None:
    axes.set(title="whole loop, Atari Pong, 16 × 20", xlabel="replay ratio", ylabel="ms per step")
    loops = list(_loops(outcome))
    for colour, precision in enumerate(PRECISIONS):
        points = [outcome["measurements"][f"loop, ratio {ratio}, {precision}"] for ratio in RATIOS]
        costs = [{k: 1e3 / m[k] for k in ("median", "low", "high")} for m in points]
        _draw_band(axes, RATIOS, costs, precision, color=f"C{colour}")
        limits = [1e3 / limit for _, p, _, limit in loops if p == precision]
        axes.plot(RATIOS, limits, color=f"C{colour}", linestyle="--", label=f"{precision}, limit")


def _draw_memory(axes: plt.Axes, outcome: dict[str, Any]) -> None:
    axes.set(title="Atari replay in memory", xlabel="stored steps", ylabel="resident GB")
    axes.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter())
    steps = [0, *(point["steps"] for point in outcome["facts"]["memory"])]
    axes.plot(steps, [0, *(p["bytes"] / 1e9 for p in outcome["facts"]["memory"])], marker=".", label="measured")
    axes.plot(steps, [n * _PIXELS / 1e9 for n in steps], linestyle="--", label="the frames alone")


def _draw_samples(axes: plt.Axes, outcome: dict[str, Any]) -> None:
    axes.set(title="sampling 16 windows of 20 Atari rows", xlabel="stored steps", ylabel="ms")
    axes.set(xscale="log", yscale="log")
    for place in ("memory", "file", "file, out of memory"):
        measured = {n: outcome["measurements"].get(f"sample 16 × 21, {n:,} rows, {place}") for n in REPLAY_ROWS}
        points = {16 * n: m for n, m in measured.items() if m}
        axes.set_xticks(list(points), [f"{n:,}" for n in points])
        axes.minorticks_off()
        _draw_band(axes, list(points), list(points.values()), place)


def _draw_priorities(axes: plt.Axes, outcome: dict[str, Any]) -> None:
    axes.set(title="prioritized draw of 32 and their new priorities", xlabel="items", ylabel="ms", xscale="log")
    for name in STRUCTURES:
        points = [outcome["measurements"][f"{name}, {size:,} items, batch 32"] for size in SIZES]
        _draw_band(axes, SIZES, points, name)
    if cpprb := outcome["measurements"].get(f"cpprb, {STORED:,} items, batch 32"):
        axes.plot(STORED, cpprb["median"], "x", label="cpprb (C++), proportional")


_PANELS: tuple[tuple[str, Callable[[plt.Axes, dict[str, Any]], None]], ...] = (
    ("environments", _draw_environments),
    ("atari", _draw_ratios),
    ("replay", _draw_memory),
    ("replay", _draw_samples),
    ("priorities", _draw_priorities),
)


def _draw_band(axes: plt.Axes, x: Any, points: Sequence[Mapping[str, float]], label: str, **style: Any) -> None:
    (line,) = axes.plot(x, [p["median"] for p in points], marker=".", label=label, **style)
    low, high = ([p[k] for p in points] for k in ("low", "high"))
    axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
