"""The process that acts for a run on a Ray cluster: it starts actors, gathers their unrolls, and replaces the lost.

The weights go out once per iteration as one object. This module imports no TensorFlow; the actors' processes do.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from acer_tf.errors import ClusterLost, first_line
from acer_tf.settings import Settings
from acer_tf.training.actor import Request
from acer_tf.training.device import CPU, use_device, use_threads
from acer_tf.training.ray_connection import connect, require_cluster
from acer_tf.types import EnvironmentSpec, Unroll

ATTEMPTS = 5  # at one unroll of all actors
START_SECONDS = 300.0  # an actor may take this long to start, imports included
_KILL_SECONDS = 10.0
_PAUSE_SECONDS = 2.0
_CHECK_SECONDS = 5.0  # Ray itself takes a minute to notice the loss of its cluster


class Driver:
    """The actors of a run on the cluster at `address`, at one core and `memory` bytes each; see `connect`."""

    def __init__(self, address: str, actors: int, memory: int) -> None:
        self._ray = connect(address, actors, memory)
        options: dict[str, Any] = {"num_cpus": 1, "memory": memory, "scheduling_strategy": "SPREAD"}
        self._remote = self._ray.remote(max_restarts=0, max_task_retries=0, **options)(_Remote)
        self._address, self._checked = self._ray.get_runtime_context().gcs_address, time.monotonic()
        self.notes: list[str] = []  # a line for each actor that is replaced; see `RayProcess`, also for `alive`
        self.alive: Callable[[], None] = lambda: None

    def start(self, settings: Settings, spec: EnvironmentSpec, factory: bytes, steps: int, timeout: float) -> None:
        """Starts the actors of a run of `steps` steps so far; see `RayActors`. `factory` is pickled by cloudpickle."""
        # Modules that the package needs beside its own may stand in the folder of the learner.
        self._arguments, self._timeout = (settings, spec, factory, sys.path), timeout
        self._actors = [self._remote.remote(*self._arguments, steps, group) for group in range(settings.acting_groups)]
        self._states: list[np.ndarray | None] = [None] * settings.acting_groups  # recurrent, after the last unroll
        self._places: list[Any] = [actor.place.remote() for actor in self._actors]  # nodes and process ids

    def unroll(self, weights: list[np.ndarray], request: Request) -> Unroll:
        """The next unroll of all actors, by these weights. Raises as `RayActors.take`."""
        self._request = request
        with self._failures():
            self._weights = self._ray.put(weights)
            self._begun = [actor.unroll.remote(self._weights, request) for actor in self._actors]
        unrolls: dict[int, Unroll] = {}
        for attempt in range(ATTEMPTS):
            lost = self._gather(unrolls)
            if not lost:
                break
            if attempt == ATTEMPTS - 1:
                group, why = next(iter(lost.items()))
                raise ClusterLost(f"actor {group} {why}, and actors were replaced {attempt} times at this unroll")
            time.sleep(_PAUSE_SECONDS * attempt)  # Ray may not know yet that a node died
            for group, why in lost.items():
                self.notes.append(f"actor {group} {why}: another takes its place, with new episodes")
                self._replace(group, attempt)
        ordered = [unrolls[group] for group in range(len(self._actors))]
        self._states = [unroll.next_state for unroll in ordered]
        return Unroll.joined(ordered)

    def _gather(self, unrolls: dict[int, Unroll]) -> dict[int, str]:
        """Waits for the unrolls that are missing; returns why some still are."""
        missing = [group for group in range(len(self._actors)) if group not in unrolls]
        for found, seconds in ((self._places, START_SECONDS), (self._begun, self._timeout)):
            self._wait([found[group] for group in missing], seconds)
        lost = {}
        for group in missing:
            try:
                unrolls[group] = self._ray.get(self._begun[group], timeout=0)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from error  # what the environment or the policy raised
            except self._ray.exceptions.GetTimeoutError:
                placed, _ = self._ray.wait([self._places[group]], timeout=0)
                what, seconds = ("gave no unroll", self._timeout) if placed else ("did not start", START_SECONDS)
                lost[group] = f"{what} for {seconds:g} s"
            except self._ray.exceptions.RayError as error:
                lost[group] = f"is gone ({first_line(error)})"
        return lost

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Turns an error of Ray itself, such as a full object store or a server that is gone, into ClusterLost."""
        try:
            yield
        except self._ray.exceptions.RayError as error:
            raise ClusterLost(f"the Ray cluster failed: {first_line(error)}") from error

    def _wait(self, results: list[Any], seconds: float) -> None:
        """Waits for all results, for at most `seconds`, while the cluster answers."""
        deadline, missing = time.monotonic() + seconds, results
        while missing and (left := deadline - time.monotonic()) > 0:
            with self._failures():
                _, missing = self._ray.wait(missing, num_returns=len(missing), timeout=min(left, _CHECK_SECONDS))
            self.alive()
            if time.monotonic() - self._checked > _CHECK_SECONDS:
                self._require_nodes()
                self._checked = time.monotonic()

    def _require_nodes(self) -> None:
        """Raises ClusterLost unless the cluster answers and has a node.

        Its servers may outlive the last one, where Ray does not always end this process: actors would be waited for.
        """
        require_cluster(self._address)
        with self._failures():
            nodes = self._ray.nodes()
        if not any(node["Alive"] for node in nodes):
            raise ClusterLost("the Ray cluster is gone: none of its nodes is alive")

    def _replace(self, group: int, attempt: int) -> None:
        self._kill(group)
        # More steps than the run has, so that the seeds give other episodes than any lost actor had.
        steps, truncates = self._request.steps + 1 + attempt, self._states[group]
        actor = self._actors[group] = self._remote.remote(*self._arguments, steps, group, truncates=truncates)
        self._places[group] = actor.place.remote()
        self._begun[group] = actor.unroll.remote(self._weights, self._request)

    def _kill(self, group: int) -> None:
        """Ends an actor, even if its process was stopped (SIGSTOP) and does not hear Ray's own request."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        try:
            self._ray.kill(self._actors[group])
            node, pid = self._ray.get(self._places[group], timeout=0)
            there = NodeAffinitySchedulingStrategy(node, soft=False)
            kill = self._ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(_kill)
            self._ray.get(kill.remote(pid), timeout=_KILL_SECONDS)
        except (self._ray.exceptions.RayError, TimeoutError, OSError):
            pass  # it never began, or is gone with its node


class _Remote:
    """The process of one actor."""

    def __init__(
        self, settings: Settings, spec: EnvironmentSpec, factory: bytes, path: list[str], *of_actor: Any, **options: Any
    ) -> None:
        from ray import cloudpickle

        self._error: Exception | None = None
        try:
            sys.path += [folder for folder in path if folder not in sys.path]
            from acer_tf.training.build import make_actor, make_agent

            use_device(CPU)
            use_threads(1, settings)
            self._agent = make_agent(settings, spec)
            options["factory"] = cloudpickle.loads(factory)
            self._actor = make_actor(settings, self._agent.act, *of_actor, **options)
        except Exception as error:  # Ray would report only that the actor died
            self._error = error

    def place(self) -> tuple[str, int]:
        """The node and the process id."""
        import ray

        return ray.get_runtime_context().get_node_id(), os.getpid()

    def unroll(self, weights: list[np.ndarray], request: Request) -> Unroll:
        if self._error is not None:
            raise self._error
        self._agent.act_as(weights, request.scheduled)
        return self._actor.unroll(request)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
