"""The whole loop of this checkout beside another's: each in processes of its own, in turn."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from acer_tf.settings import changed, make_settings

HERE = Path(__file__).resolve().parents[3]
_SMALL = {"network": "small", "env": "minatar/breakout"}
_NATURE = {"network": "nature", "env": "atari/Pong"}
# By what is compared: settings, with everything that a run would decide for itself.
WORKLOADS: dict[str, dict[str, Any]] = {
    "minatar/breakout, 16 trajectories per update": {**_SMALL, "trajectories_per_update": 16},
    "minatar/breakout, 4 trajectories per update": {**_SMALL, "trajectories_per_update": 4},
    "minatar/breakout, 1 trajectory per update": {**_SMALL, "trajectories_per_update": 1},
    "control/cheetah, preset paper_continuous": {
        "env": "control/cheetah",
        "agent": "acer_continuous",
        "preset": "paper_continuous",
        "network": "mlp",
    },
    "atari/Pong, 16 trajectories per update": {**_NATURE, "trajectories_per_update": 16},
    "atari/Pong, 4 trajectories per update": {**_NATURE, "trajectories_per_update": 4},
    "atari/Pong, 1 trajectory per update": {**_NATURE, "trajectories_per_update": 1},
}


def compare(other: Path, repetitions: int) -> Iterator[tuple[str, list[dict[str, float]], list[dict[str, float]]]]:
    """By workload, as each is measured: its name, and steps/s at ratios 0 and 4 of this checkout and of `other`.

    Args:
        other: a checkout of this project, at any commit that can say what a cell of a sweep would take.
        repetitions: processes of each; one of this checkout, one of the other, and so on.

    Raises:
        ValueError: `other` is no such checkout, or cannot be measured.
    """
    if not (other / "acer_tf" / "reproduction" / "plan" / "__main__.py").exists():
        raise ValueError(f"--against={other}: must be the folder of a checkout of acer_tf")
    for name, given in WORKLOADS.items():
        found = [(_rates(HERE, given), _rates(other, given)) for _ in range(repetitions)]
        ours, theirs = (list(rates) for rates in zip(*found, strict=True))
        yield name, ours, theirs


def table(compared: Mapping[str, Any]) -> str:
    """Medians of both, and of the ratios repetition by repetition, as Markdown."""
    lines = ["| loop, float32 | ratio | that checkout | this | this / that |", "|---|---|---|---|---|"]
    for name, (ours, theirs) in compared.items():
        for ratio in ours[0]:
            here, there = ([rates[ratio] for rates in side] for side in (ours, theirs))
            quotient = statistics.median(a / b for a, b in zip(here, there, strict=True))
            lines.append(
                f"| {name} | {ratio} | {statistics.median(there):,.0f} steps/s | "
                f"{statistics.median(here):,.0f} steps/s | "
                f"{quotient:.2f} |"
            )
    return "\n".join(lines) + "\n"


def _rates(checkout: Path, given: Mapping[str, Any]) -> dict[str, float]:
    settings = make_settings({**given, "precision": "float32", "replay_ratio": 4.0})
    # What differs from the defaults alone: the other may not know every setting.
    document = changed(settings) | {"env": settings.env}
    answer = subprocess.run(
        [sys.executable, "-m", "acer_tf.reproduction.plan"],
        input=json.dumps({"settings": document, "threads": 0}) + "\n\n",
        capture_output=True,
        text=True,
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        check=False,
    )
    if answer.returncode:
        said = answer.stderr.strip().splitlines() or ["nothing said"]
        raise ValueError(f"{checkout} cannot be measured: {said[-1]}")
    found = json.loads(answer.stdout.splitlines()[-1])
    if isinstance(found, dict):
        before, after = found["before"], found["after"]
    else:  # an older checkout says seconds per step, and per replayed update
        rows = (settings.trajectories_per_update or settings.num_envs) * settings.unroll_length
        before, after = found[0], found[0] + 4 * found[1] / rows
    return {"0": 1.0 / before, "4": 1.0 / after} if settings.on_policy_updates else {"4": 1.0 / after}
