"""Runs cells as tasks of a Ray cluster whose nodes share the sweep's folder.

Ray decides where a task runs. The sweep, not Ray, retries: a task whose node is lost is reported as lost, and the next
attempt resumes from the last checkpoint on any node. The run folder's lock keeps the two apart if the lost one is still
alive, so every node must first be seen to respect locks.
"""

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from acer_tf.errors import SweepError, first_line
from acer_tf.reproduction.sweep.attempt import STOP_SECONDS, Attempt, AttemptEnd
from acer_tf.reproduction.sweep.cluster import ClusterLauncher, complaint, noted_signals, run_task
from acer_tf.resources import in_bytes
from acer_tf.training.ray_connection import connect, in_words
from acer_tf.training.ray_process import RayProcess

_PROBE_SECONDS = 120.0


class RayLauncher(ClusterLauncher):
    """Makes each cell a task of Ray, which runs as many at a time as the cluster can hold.

    All methods raise ClusterLost when the cluster is gone.

    Args:
        address: the cluster's: "local" to start one that only this machine can reach, "auto" for the one that it
            belongs to, or host:port.
        common: see `ClusterLauncher`.

    Raises:
        SettingsError: Ray is not installed, or there is no cluster at `address`.
    """

    def __init__(self, address: str, **common: Any) -> None:
        super().__init__(**common)
        arguments = address, self.threads, self._gpus, self._needs
        # A local cluster's processes end in order when this one is killed; Ray's workers then kill the runs below them.
        self._tasks = RayProcess("acer_tf.reproduction.sweep.ray_cluster:Tasks", *arguments, grace=STOP_SECONDS)
        self.ray_address = self._tasks.call("address")

    def check(self, memory: Sequence[int], actors: int = 0, actor_memory: int = 1) -> None:
        self._tasks.call("check", memory, actors, actor_memory)

    def open(self, sweep_dir: Path) -> None:
        super().open(sweep_dir)
        self._tasks.call("open", self._probe)

    def room(self, actors: int) -> int:
        return int(self._tasks.call("room", actors))

    def start(self, attempt: Attempt) -> None:
        self._tasks.call("start", attempt)

    def poll(self) -> list[tuple[str, AttemptEnd]]:
        ended: list[tuple[str, AttemptEnd]] = self._tasks.call("poll")
        return ended

    def stop(self) -> None:
        self._tasks.call("stop")

    def close(self) -> None:
        # This kills the tasks, and with them the kernel stops their runs: see attempt.
        self._tasks.close()
        super().close()


class Tasks:
    """The tasks of a sweep, in the process that is connected to the cluster; its methods are `RayLauncher`'s."""

    def __init__(self, address: str, threads: int, gpus: float, needs: tuple[str, str]) -> None:
        self._threads, self._gpus, self._needs = threads, gpus, needs
        self._tasks: dict[Any, Attempt] = {}
        self.alive: Callable[[], None] = lambda: None  # see `RayProcess`
        self._cell_memory = self._actor_memory = 1
        self._ray = connect(address)
        self._task = self._ray.remote(max_retries=0)(_run)

    def address(self) -> str:
        """That of the cluster."""
        return str(self._ray.get_runtime_context().gcs_address)

    def check(self, memory: Sequence[int], actors: int, actor_memory: int) -> None:
        nodes = [node["Resources"] for node in self._nodes()]
        needed = {"CPU": self._threads, "GPU": self._gpus, "memory": max(memory)}
        if not any(all(node.get(name, 0) >= amount for name, amount in needed.items()) for node in nodes):
            raise SweepError(
                f"--launcher=ray: no node has the {in_words(needed)} of memory that a cell needs; the cluster's "
                f"nodes have: {'; '.join(map(in_words, nodes))}"
            )
        self._cell_memory, self._actor_memory = max(memory), actor_memory
        if lacking := self._lacking(1, actors):
            raise SweepError(f"--launcher=ray: a cell and its {actors} actors need {lacking}")

    def open(self, probe: Path) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._probe = probe
        check, nodes = self._ray.remote(max_retries=0, num_cpus=0)(complaint), self._nodes()
        there = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
        answers = [check.options(scheduling_strategy=where).remote(self._probe, self._needs) for where in there]
        for node, answer in zip(nodes, answers, strict=True):
            self.alive()
            try:
                complained = self._ray.get(answer, timeout=_PROBE_SECONDS)
            except (self._ray.exceptions.RayError, TimeoutError) as error:
                complained = f"does not answer ({first_line(error)})"
            if complained:
                name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, node {node['NodeID'][:8]})"
                raise SweepError(f"node {name} cannot be used: {complained}")

    def room(self, actors: int) -> int:
        # Ray queues tasks that cannot run yet. But a run whose actors find no room would wait for them in vain.
        taken = sum(attempt.cell.train_settings.actors for attempt in self._tasks.values())
        return int(not (actors or taken) or not self._lacking(len(self._tasks) + 1, taken + actors))

    def start(self, attempt: Attempt) -> None:
        amounts = {"num_cpus": self._threads, "num_gpus": self._gpus, "memory": attempt.memory}
        options = self._task.options(**amounts, name=attempt.cell.label, scheduling_strategy="SPREAD")
        self._tasks[options.remote(attempt, self._probe, self._needs)] = attempt

    def poll(self) -> list[tuple[str, AttemptEnd]]:
        if not self._tasks:
            return []
        ready, _ = self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        ended = []
        for task in ready:
            try:
                end = self._ray.get(task)
            except self._ray.exceptions.TaskCancelledError:
                end = AttemptEnd("stopped")
            except self._ray.exceptions.RayError as error:
                end = AttemptEnd("lost", first_line(error))
            ended.append((self._tasks.pop(task).cell.name, end))
        return ended

    def stop(self) -> None:
        for task in self._tasks:
            self._ray.cancel(task)

    def _lacking(self, cells: int, actors: int) -> str:
        """What so many cells and actors need, and the cluster does not have; "" if it has all."""
        nodes = [node["Resources"] for node in self._nodes() if node["Resources"].get("CPU")]
        cores, needed = int(sum(node["CPU"] for node in nodes)), self._threads * cells + actors
        if needed > cores:
            return f"{needed} cores; the cluster has {cores}"
        memory = self._cell_memory * cells + self._actor_memory * actors
        # The last actor finds room on one node, if each of the others has too little left for it.
        room = sum(node.get("memory", 0) for node in nodes) - self._actor_memory * (len(nodes) - 1)
        if actors and memory > room:
            return f"{in_bytes(memory)} of memory; the cluster's nodes have: {'; '.join(map(in_words, nodes))}"
        return ""

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]


def _run(attempt: Attempt, probe: Path, needs: tuple[str, str]) -> AttemptEnd:
    """Runs an attempt as a task. It must listen to SIGINT, which ray.cancel sends and background processes ignore."""
    noted = noted_signals(signal.SIGINT)
    return run_task(attempt, probe, needs, lambda: bool(noted))
