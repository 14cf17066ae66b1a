"""How the rate of one run grows with its actors, on Ray and with an environment as slow as a simulator.

python -m benchmarks.actors --actors=1 --actors=2 --actors=4 --actors=8 --actors=16 --output=results/benchmark/actors

Each actor has four environments that wait 20 ms per step. Writes actors.json, actors.md and figure.png.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from acer_tf.commands import cli

ENVIRONMENTS = 4  # per actor
WAIT_SECONDS = 0.02
FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.multi_integer("actors", [1, 2, 4, 8, 16], "numbers of actors")
flag.integer("rows", 8, "rows of progress that count, after two that do not", 1)
flag.path("output", "my_results/benchmark/actors", "folder")


class Waits(gymnasium.Env[np.ndarray, np.int64]):
    """Ends after 50 steps, each of which takes 20 ms and next to no computation."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    wait_seconds = WAIT_SECONDS
    _steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict]:
        time.sleep(self.wait_seconds)
        self._steps += 1
        return np.full(4, self._steps / 50, np.float32), float(action), self._steps == 50, False, {}


def rate(actors: int, rows: int) -> float:
    """Steps per second of a run with so many actors."""
    from acer_tf.settings import make_settings
    from acer_tf.training.train import train

    iteration = actors * ENVIRONMENTS * 20
    seen: list[tuple[float, int]] = []
    settings = make_settings(
        env="Waits-v0",
        preset="classic",
        num_envs=actors * ENVIRONMENTS,
        unroll_length=20,
        actors=actors,
        replay_ratio=1.0,
        replay_start=20,
        replay_capacity=1000,
        log_interval=iteration,
        total_steps=(rows + 3) * iteration,
    )
    with tempfile.TemporaryDirectory() as folder:

        def note(row: dict[str, Any], policy: Any) -> None:
            seen.append((time.monotonic(), row["steps"]))
            print(f"{actors} actors: {row['steps']:,} steps, {row['steps_per_second']} steps/s", flush=True)

        train(settings, Path(folder, "run"), threads=1, ray_address="local", quiet=True, env=Waits, on_row=note)
    (began, before), (ended, after) = seen[1], seen[1 + rows]
    return (after - before) / (ended - began)


@cli.command
def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__)
    from benchmarks.outputs import require_new

    require_new(Path(FLAGS.output, "actors.json"))
    rates = {actors: rate(actors, FLAGS.rows) for actors in sorted(set(FLAGS.actors))}
    each = f"each with {ENVIRONMENTS} environments of {1000 * WAIT_SECONDS:.0f} ms per step"
    return report(rates, Path(FLAGS.output), "actors", f"actors, {each}")


def report(rates: dict[int, float], output: Path, name: str, label: str) -> int:
    """Writes NAME.json, NAME.md and figure.png of the rates by numbers of `name`; returns 0."""
    from acer_tf.files import write_json, write_whole
    from acer_tf.runs.records import run_document

    first = min(rates)
    efficiency = {count: found * first / (count * rates[first]) for count, found in rates.items()}
    measured = {"steps_per_second": rates, "efficiency": efficiency}
    write_json(output / f"{name}.json", run_document({}, measured))
    lines = [f"| {name} | steps/s | efficiency |", "|---|---|---|"]
    lines += [f"| {count} | {found:.1f} | {efficiency[count]:.3f} |" for count, found in rates.items()]
    write_whole(output / f"{name}.md", "\n".join(lines) + "\n")
    _draw(rates, output / "figure.png", label)
    print("\n".join(lines))
    return 0


def _draw(rates: dict[int, float], path: Path, label: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    first = min(rates)
    axes.plot(list(rates), [rates[first] / first * count for count in rates], color="0.7", label="linear")
    axes.plot(list(rates), list(rates.values()), "o-", label="measured")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(list(rates), [str(count) for count in rates])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(label)
    axes.set_ylabel("steps per second")
    axes.legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
