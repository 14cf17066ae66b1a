"""A run of `python -m acer_tf train` that also prints what its parts took, in ms per iteration.

python -m benchmarks.timed_run --run_dir=... FLAGS OF TRAIN

The last line is JSON: the rate in steps/s and the parts, both from the second row of progress on. Parts in several
threads take time at once, and "environments" and "acting" are sums over threads.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from acer_tf.commands import cli, train

COUNTED_FROM = 2  # rows of progress: by then all is compiled, and the replay has begun


class Parts:
    """Seconds by part, and iterations, since the second row of progress."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = collections.defaultdict(float)
        self.iterations = self.rows = 0
        self.marks: list[tuple[int, float]] = []  # steps and time at each row from the second on

    def time(self, owner: Any, method: str, part: str, *, within: str = "") -> None:
        """Adds what calls of `owner.method` take to `part`, and takes it off `within`, which calls it."""
        timed = getattr(owner, method)

        @functools.wraps(timed)
        def call(*arguments: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return timed(*arguments, **options)
            finally:
                took = time.perf_counter() - began
                self.seconds[part] += took
                if within:
                    self.seconds[within] -= took

        setattr(owner, method, call)

    def after(self, owner: Any, method: str, then: Callable[..., None]) -> None:
        """Calls `then` after each call of `owner.method`, with its arguments."""
        called = getattr(owner, method)

        @functools.wraps(called)
        def call(*arguments: Any) -> Any:
            answer = called(*arguments)
            then(*arguments)
            return answer

        setattr(owner, method, call)

    def iterated(self) -> None:
        self.iterations += 1

    def row(self, steps: int) -> None:
        self.rows += 1
        if self.rows == COUNTED_FROM:
            self.seconds.clear()
            self.iterations = 0
        if self.rows >= COUNTED_FROM:
            self.marks.append((steps, time.perf_counter()))

    def document(self) -> dict[str, Any]:
        (first, began), (last, ended) = self.marks[0], self.marks[-1]
        each = {part: 1e3 * seconds / self.iterations for part, seconds in self.seconds.items()}
        each["whole"] = 1e3 * (ended - began) / self.iterations
        return {"rate": (last - first) / (ended - began), "parts": each}


def main(argv: list[str]) -> int:
    from acer_tf.agents.agent import Agent
    from acer_tf.replay import PrioritizedReplay, TrajectoryReplay
    from acer_tf.runs.progress import Progress
    from acer_tf.training.actor import Actor
    from acer_tf.training.collector import Collector
    from acer_tf.training.loop import Loop

    parts = Parts()
    parts.time(Agent, "act", "acting", within="environments")
    parts.time(Actor, "unroll", "environments")
    parts.time(Collector, "collect", "waiting for rows")
    parts.time(Agent, "learn", "updates")
    parts.time(TrajectoryReplay, "batch", "drawing")
    parts.time(PrioritizedReplay, "draw", "drawing")
    parts.after(Loop, "iterate", lambda loop: parts.iterated())
    parts.after(Progress, "write", lambda progress, row: parts.row(row["steps"]))
    with contextlib.redirect_stdout(sys.stderr):
        status = train.main(["train", *argv[1:]])
    if status == 0 and len(parts.marks) < 2:
        return cli.fail(2, f"the run has fewer than {COUNTED_FROM + 1} rows of progress: give a smaller --log_interval")
    if status == 0:
        print(json.dumps(parts.document()))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv))
