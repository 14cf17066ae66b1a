"""Copies of a gymnasium environment in several processes, each with a share of them, as one vector environment.

The processes are those of gymnasium's AsyncVectorEnv, with observations in shared memory. Each has a `CheckedVector` of
its copies, so that they answer, fail and reset as they do in this process.
"""

import contextlib
import ctypes
import functools
import multiprocessing.util
import operator
import os
import signal
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn, cast

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.vector.utils import write_to_shared_memory

from acer_tf.envs.checked import CheckedVector
from acer_tf.envs.spaces import paths_of
from acer_tf.envs.vector import blamed
from acer_tf.errors import AcerError, EnvironmentFailure

# A terminal or a batch system sends these to every process; this one answers, and ends the others.
_SIGNALS = {
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU),
}
_PARENT_DEATH_SIGNAL = 1  # an option of prctl
_CLOSE_SECONDS = 5.0  # for the environments' close()


class WorkerTraceback(Exception):
    """The traceback of what an environment raised in its process."""


class WorkersVector(AsyncVectorEnv):
    """`make()` of a `CheckedVector` of `copies` environments, in each of `workers` processes.

    The environments' spaces are given, so that none is made in this process. A process that ends is an
    EnvironmentFailure; none outlives this process, however that ends.
    """

    def __init__(
        self, env_id: str, make: Callable[[], CheckedVector], observations: Any, actions: Any, workers: int, copies: int
    ) -> None:
        self._id, self._copies = env_id, copies
        self._leaves = paths_of(observations)  # with their keys in what `CheckedVector` returns
        group = _Group(env_id, make, _shared_space(self._leaves, copies), actions)
        # The caller's script needs no guard `if __name__ == "__main__"`, since no process imports it.
        with _main_hidden(), contextlib.ExitStack() as self._starting:
            self._starting.enter_context(_signals_blocked())
            try:
                super().__init__(
                    [group] * workers, context="spawn", worker=cast(Any, _work), autoreset_mode=AutoresetMode.NEXT_STEP
                )
            except BaseException:
                _kill(getattr(self, "processes", []))
                raise
        # At the end of Python, before it waits for them: they take no SIGTERM.
        multiprocessing.util.Finalize(self, _kill, args=(self.processes,), exitpriority=0)
        self.num_envs = workers * copies
        self.single_observation_space, self.single_action_space = observations, actions

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        seeds = [None] * self.num_envs if seed is None else seed
        return self._ask("reset", [{"seed": share, "options": options} for share in self._shares(seeds)])

    def step(self, actions: Any) -> Any:
        return self._ask("step", [{"actions": share} for share in self._shares(actions)])

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        for pipe in self.parent_pipes:
            with contextlib.suppress(OSError):
                pipe.send(("close", None))
        ends = time.monotonic() + (0 if terminate else _CLOSE_SECONDS)
        for process in self.processes:
            process.join(max(0.0, ends - time.monotonic()))
        _kill(self.processes)
        failures = []
        for pipe in self.parent_pipes:
            failed = None
            with contextlib.suppress(Exception):  # of a process that was killed, or a call that was interrupted
                while pipe.poll():
                    _, failed = pipe.recv()
            failures += [failed] if failed else []
            pipe.close()
        if failures:
            _raise(*failures[0])

    def _check_spaces(self) -> None:
        """Called once the processes are started. They make their environments, and check their spaces."""
        self._starting.close()
        self._ask("begin", [None] * len(self.processes))

    def _shares(self, values: Sequence[Any]) -> list[Any]:
        return [values[first : first + self._copies] for first in range(0, self.num_envs, self._copies)]

    def _ask(self, method: str, arguments: Sequence[Any]) -> Any:
        """What the processes answer to a call of `method`, joined; raises what the first failure was."""
        for pipe, argument in zip(self.parent_pipes, arguments, strict=True):
            with contextlib.suppress(OSError):  # reading says that it is gone
                pipe.send((method, argument))
        answers: list[Any] = []
        failures: list[AcerError] = []
        for number in range(len(self.processes)):
            try:  # an answer left in its pipe would be taken for that of the next call
                answers.append(self._answer_of(number, method))
            except AcerError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        if method == "begin":
            return None
        observations, *arrays, infos = zip(*answers, strict=True)
        joined: dict[Any, Any] = {}
        for number, (path, _) in enumerate(self._leaves):
            parts = [answer[number] for answer in observations]
            shared = self.observations[str(number)]
            values = [shared[i] if part is None else part for i, part in enumerate(parts)]
            _put(joined, path, np.concatenate(values))
        merged = {name: [each for info in infos for each in info[name]] for name in infos[0]}
        return (joined.get((), joined), *map(np.concatenate, arrays), merged)

    def _answer_of(self, number: int, method: str) -> Any:
        try:
            answer, error = self.parent_pipes[number].recv()
        except (EOFError, OSError):
            process = self.processes[number]
            process.join(1.0)
            where = "when it was made" if method == "begin" else f"in {method}()"
            how = f"process {number + 1} of {len(self.processes)} that step it ended with status {process.exitcode}"
            # Without a cause: its traceback would not be of the environment's code.
            raise EnvironmentFailure(f"{self._id} failed {where}: {how}") from None
        if error is not None:
            _raise(*error)
        return answer


def _raise(kind: type[AcerError], message: str, trace: str) -> NoReturn:
    """What was raised in a process, with its traceback there as the cause."""
    raise kind(message) from (WorkerTraceback(trace) if trace else None)


class _Group(gymnasium.Env):
    """What AsyncVectorEnv makes of an environment in this process: its spaces. A worker calls `make`."""

    def __init__(self, env_id: str, make: Callable[[], CheckedVector], observations: Any, actions: Any) -> None:
        self.env_id, self.make = env_id, make
        self.observation_space, self.action_space = observations, actions

    def __call__(self) -> "_Group":
        return self


def _work(index: int, group: Any, pipe: Any, parent_pipe: Any, shared: Any, *_: Any) -> None:
    """The program of a process: answers the calls of `WorkersVector._ask` until nobody listens.

    How many arguments follow depends on gymnasium's version.
    """
    parent = os.getppid()
    with contextlib.suppress(AttributeError):  # Linux alone has it
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    parent_pipe.close()
    group, leaves = group.fn, list[tuple[tuple[Any, ...], Any]]()
    vector: CheckedVector | None = None

    def shown(observation: Any) -> list[Any]:
        """Per leaf None, if it is in the shared memory now, else the values."""
        space = group.observation_space
        rest = {str(i): functools.reduce(operator.getitem, path, observation) for i, (path, _) in enumerate(leaves)}
        alike = {name for name, values in rest.items() if values.dtype == space[name].dtype}
        for name in alike:
            write_to_shared_memory(space[name], index, rest[name], shared[name])
        return [None if name in alike else values for name, values in rest.items()]

    with contextlib.suppress(EOFError, OSError):
        while os.getppid() == parent:
            method, argument = pipe.recv()
            answer, failed = cast(Any, None), None
            where = "when it was made" if vector is None else f"in {method}()"
            try:
                with blamed(group.env_id, where, trial=vector is None):
                    if vector is None:
                        vector = group.make()
                        leaves[:] = paths_of(vector.single_observation_space)
                    elif method == "close":
                        vector.close()
                    else:
                        observation, *others = getattr(vector, method)(**argument)
                        answer = shown(observation), *others
            except AcerError as error:
                trace = "".join(traceback.format_exception(error.__cause__)) if error.__cause__ else ""
                failed = type(error), str(error), trace
            pipe.send((answer, failed))
            if method == "close":
                return


def _shared_space(leaves: Sequence[tuple[Any, Any]], copies: int) -> Dict:
    def batch(space: Any) -> Box:
        dtype = np.dtype(space.dtype)
        low, high = (-np.inf, np.inf) if dtype.kind == "f" else (0, 1)
        return Box(low, high, (copies, *space.shape), dtype)

    return Dict({str(number): batch(space) for number, (_, space) in enumerate(leaves)})


def _put(tree: dict[Any, Any], path: tuple[Any, ...], value: np.ndarray) -> None:
    """Sets a leaf; the one leaf of observations that are arrays has the key ()."""
    if not path:
        tree[()] = value
        return
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = value


def _kill(processes: Sequence[BaseProcess]) -> None:
    for process in processes:
        if process.pid is not None:  # it was started
            process.kill()
            process.join()


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Processes that are started here keep the signals blocked; this one gets them afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        # Also multiprocessing's own, whose successor would print tracebacks. This unblocks some here.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _main_hidden() -> Iterator[None]:
    """multiprocessing has each new process import the program's file; cloudpickle sends what is needed of it."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
