"""The whole loop of this checkout beside another's: runs of the training command, in turn."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from acer_tf.errors import SettingsError
from benchmarks.peers import PROGRAMS, PeerError, speed

HERE = Path(__file__).resolve().parents[1]
SECONDS = 6.0  # that each run measures for


class Loop(NamedTuple):
    """What is compared: flags of the training command that both checkouts know, at each replay ratio."""

    flags: tuple[str, ...]
    ratios: tuple[int, ...] = (0, 4)


_SMALL = ("--network=small", "--env=minatar/breakout", "--log_interval=3200", "--precision=float32")
_CONTROL = ("--env=control/cheetah", "--agent=acer_continuous", "--precision=float32", "--network=mlp")
_ONE_TORSO = ("--preset=paper_continuous", "--shared_torso")
_NATURE = ("--network=nature", "--env=atari/Pong", "--preset=baselines", "--log_interval=640", "--precision=float32")
_BFLOAT16 = (*_NATURE[:-1], "--precision=bfloat16")
WORKLOADS = {
    "minatar/breakout, 16 trajectories per update": Loop((*_SMALL, "--trajectories_per_update=16")),
    "minatar/breakout, 4 trajectories per update": Loop((*_SMALL, "--trajectories_per_update=4")),
    "minatar/breakout, 1 trajectory per update": Loop((*_SMALL, "--trajectories_per_update=1")),
    "control/cheetah, preset paper_continuous with one torso": Loop((*_CONTROL, *_ONE_TORSO), (4,)),
    "atari/Pong, 16 trajectories per update": Loop((*_NATURE, "--trajectories_per_update=16")),
    "atari/Pong, 4 trajectories per update": Loop((*_NATURE, "--trajectories_per_update=4")),
    "atari/Pong, 1 trajectory per update": Loop((*_NATURE, "--trajectories_per_update=1")),
    "atari/Pong in bfloat16, 16 trajectories per update": Loop((*_BFLOAT16, "--trajectories_per_update=16"), (4,)),
    "atari/Pong in bfloat16, 4 trajectories per update": Loop((*_BFLOAT16, "--trajectories_per_update=4"), (4,)),
    "atari/Pong in bfloat16, 1 trajectory per update": Loop((*_BFLOAT16, "--trajectories_per_update=1"), (4,)),
}


def require_checkout(other: Path) -> None:
    """Raises SettingsError unless `other` is a checkout of this project."""
    if not (other / "experiments" / "train.py").exists():
        raise SettingsError(f"--against={other}: must be the folder of a checkout of acer_tf")


def compare(other: Path, repetitions: int) -> Iterator[tuple[str, list[dict[str, float]], list[dict[str, float]]]]:
    """By workload, as each is measured: its name, and steps/s by ratio of this checkout and of `other`.

    Args:
        other: a checkout of this project (`require_checkout`), at any commit whose `experiments.train` takes the flags
            of WORKLOADS.
        repetitions: runs of each; one of this checkout, one of the other, and so on.

    Raises:
        ValueError: `other` cannot be measured.
    """
    other = other.resolve()
    for name, loop in WORKLOADS.items():
        found = [(_rates(HERE, loop), _rates(other, loop)) for _ in range(repetitions)]
        ours, theirs = (list(rates) for rates in zip(*found, strict=True))
        yield name, ours, theirs


def table(compared: Mapping[str, Any]) -> str:
    """Medians of both, and of the ratios repetition by repetition, as Markdown."""
    lines = ["| loop, usually float32 | ratio | that checkout | this | this / that |", "|---|---|---|---|---|"]
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


def _rates(checkout: Path, loop: Loop) -> dict[str, float]:
    command = [sys.executable, str(PROGRAMS / "acer_tf_train.py"), f"--checkout={checkout}", *loop.flags]
    # A fixed number of replayed updates: older checkouts compile a graph of its own for each number that is drawn.
    fixed = {ratio: ["--noreplay_poisson"] * (ratio > 0) for ratio in loop.ratios}
    try:
        return {
            str(ratio): speed([*command, f"--replay_ratio={ratio}", *fixed[ratio]], SECONDS)["steps_per_second"]
            for ratio in loop.ratios
        }
    except PeerError as error:
        raise ValueError(f"{checkout} cannot be measured: {error}") from error
