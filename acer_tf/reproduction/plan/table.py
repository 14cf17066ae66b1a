"""A plan for people."""

from __future__ import annotations

from acer_tf.reproduction.plan.estimate import Plan, Row

# Share of the cores that others keep busy, from which a measured rate says little of an idle machine.
_BUSY = 0.5
_DAYS_SECONDS = 48 * 3600


def lines(plan: Plan) -> list[str]:
    """`plan` as an aligned table, what it rests on, and a warning for each thing that would not suffice."""
    head = f"{plan.cells} cells in {plan.sweep_dir}, {plan.finished} finished; "
    head += f"{plan.steps:,} steps, {plan.steps_left:,} of them left"
    table = _aligned([_HEAD, *(_row(row) for row in plan.rows)])
    if plan.finished == plan.cells:
        return [head, *table, "all cells are finished: nothing would be run"]
    threads = f"{plan.threads} thread{'s' * (plan.threads > 1)}"
    together = f"{plan.processes} processes of {threads} each, side by side" if plan.processes > 1 else "one process"
    days = f" ({plan.seconds / 86400:,.0f} days)" if plan.seconds >= _DAYS_SECONDS else ""
    return [
        head,
        *table,
        f"time: {_hours(plan.seconds)} hours{days} by {together}; the longest cell takes {_hours(plan.longest_cell)}",
        f"steps/s and hours left of a method are those of one process of {threads}: {_hours(plan.seconds_alone)} hours "
        "for all; checkpoints (about 2 %) and failures are not counted",
        *(f"rates: {source}" for source in plan.sources),
        f"disk: up to about {_gigabytes(plan.disk_peak)} more while cells run, of which {_gigabytes(plan.disk_kept)} "
        f"stay; {_gigabytes(plan.disk_free)} are free at {plan.disk_place}",
        f"memory: up to {_gigabytes(plan.memory)}; {_gigabytes(plan.memory_available)} are available",
        *_warnings(plan),
    ]


_HEAD = ("method", "cells", "finished", "envs", "steps per cell", "steps/s", "hours left")


def _row(row: Row) -> tuple[str, ...]:
    fewest, most = row.steps
    return (
        row.method,
        str(row.cells),
        str(row.finished),
        str(row.envs),
        f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}",
        "-" if row.steps_per_second is None else f"{row.steps_per_second:,.0f}",
        _hours(row.seconds_left),
    )


def _warnings(plan: Plan) -> list[str]:
    found = []
    if plan.memory > plan.memory_available:
        found.append(
            f"memory does not suffice for --processes={plan.processes}: the sweep would refuse to start; fewer "
            "processes, or a smaller replay, need less"
        )
    if plan.disk_peak > plan.disk_free:
        found.append("disk does not suffice: cells would fail at a checkpoint")
    if plan.processes * plan.threads > plan.cores:
        found.append(f"{plan.processes} × {plan.threads} threads share {plan.cores} cores")
    if plan.load > _BUSY * plan.cores:
        found.append(
            f"this machine is busy (load {plan.load:.1f} on {plan.cores} cores): rates measured now are low, and times "
            "too long where that ends"
        )
    return [f"warning: {text}" for text in found]


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def _hours(seconds: float) -> str:
    hours = seconds / 3600.0
    return f"{hours:,.1f}" if hours >= 10 or hours == 0 else f"{hours:.2g}"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e9:.2g} GB"
