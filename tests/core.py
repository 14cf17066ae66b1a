"""What belongs to the core of the tests (`make test`), and what holds them to it.

A test is in the core unless it names, by a marker, the mechanism that keeps it out: see MECHANISMS. A core test that
starts a process or a training fails, and so does one that takes far longer than SECONDS.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing.util
import sys
from collections.abc import Callable, Iterable, Iterator
from time import monotonic, process_time, thread_time
from typing import Any

import pytest

MECHANISMS = ("process", "training", "slow", "cluster", "learning")
SECONDS = 3.0  # what a test of the core takes at most
_MARGIN = 2  # it fails at so many times that: the same test takes 2 s on one run and 3 s on the next
_REFERENCE = 0.03  # CPU seconds that `_calculate` takes on the machine for which SECONDS is meant
_STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system")

# What the core test that is running has done against the rules; None while none is running.
_broken: list[str] | None = None


def is_core(item: pytest.Item) -> bool:
    return not any(item.get_closest_marker(name) for name in MECHANISMS)


def first_in_core(values: Iterable[Any]) -> list[Any]:
    """Values for `parametrize`, of which the core takes the first alone, because each takes seconds to compile."""
    first, *others = values
    return [first, *(pytest.param(*(x if isinstance(x, tuple) else (x,)), marks=pytest.mark.slow) for x in others)]


@contextlib.contextmanager
def rules_of_the_core(*, apply: bool = True) -> Iterator[None]:
    """While the body runs, processes and trainings fail it; with `apply=False` they do not, whatever is around it."""
    global _broken
    before, _broken = _broken, [] if apply else None
    try:
        yield
        if _broken:  # also where the code under test has caught the failure
            pytest.fail(_broken[0])
    finally:
        _broken = before


@contextlib.contextmanager
def at_most(seconds: float = _MARGIN * SECONDS) -> Iterator[None]:
    """Fails if the body takes longer.

    The shorter of CPU and wall time counts: the first does not grow when other processes have the cores, the second not
    when several threads work at once. A longer one is compared with a calculation made right after it, since a core may
    be slower than others, or slow just then.
    """
    cpu, wall = process_time(), monotonic()
    yield
    taken = min(process_time() - cpu, monotonic() - wall)
    if taken > seconds and taken > seconds * (slowness := max(1.0, _calculate() / _REFERENCE)):
        pytest.fail(
            f"took {taken:.1f} s, and a test of the core fails at {seconds * slowness:.1f} s on this machine: make it "
            f"faster ({SECONDS:g} s), or mark it with pytest.mark.slow"
        )


def watch_processes() -> None:
    """From now on; once per process, since an audit hook stays."""
    sys.addaudithook(
        lambda event, arguments: _refuse("process", f"{event} {arguments[:2]}") if event in _STARTS else None
    )
    # With this multiprocessing starts processes that it does not fork; Python does not audit it.
    _watch(multiprocessing.util, "spawnv_passfds", lambda path, *_: _refuse("process", str(path)))


def watch_trainings() -> None:
    """A training is a loop of a real agent; those of tests/training/scripted.py only count their updates."""
    from acer_tf.agents.agent import Agent
    from acer_tf.training.loop import Loop

    def look(*arguments: Any, **named: Any) -> None:
        if any(isinstance(value, Agent) for value in (*arguments, *named.values())):
            _refuse("training", "a loop of a real agent")

    if not hasattr(Loop.__init__, "__wrapped__"):
        _watch(Loop, "__init__", look)


def _watch(owner: Any, name: str, look: Callable[..., None]) -> None:
    whole = getattr(owner, name)

    @functools.wraps(whole)
    def watched(*arguments: Any, **named: Any) -> Any:
        look(*arguments, **named)
        return whole(*arguments, **named)

    setattr(owner, name, watched)


def _refuse(mechanism: str, what: str) -> None:
    if _broken is not None:
        _broken.append(f"{what}: no test of the core starts a {mechanism}; mark it with pytest.mark.{mechanism}")
        pytest.fail(_broken[-1])


def _calculate() -> float:
    """The CPU seconds of a calculation of Python, in this thread."""
    begun = thread_time()
    sum(n * n for n in range(500_000))
    return thread_time() - begun
