"""Runs cells as tasks of a Ray cluster whose nodes share the sweep's folder.

Ray decides where a task runs. The sweep, not Ray, retries: a task whose node is lost is reported as lost, and the next
attempt resumes from the last checkpoint on any node. The run folder's lock keeps the two apart if the lost one is still
alive, so every node must first be seen to respect locks.
"""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from acer_tf.errors import SweepError, first_line
from acer_tf.reproduction.sweep.attempt import Attempt, AttemptEnd
from acer_tf.reproduction.sweep.cluster import ClusterLauncher, complaint, noted_signals, run_task
from acer_tf.training.ray_connection import connect

_PROBE_SECONDS = 120.0


class RayLauncher(ClusterLauncher):
    """Makes each cell a task of Ray, which runs as many at a time as the cluster can hold.

    Args:
        address: the cluster's: "local" to start one that only this machine can reach, "auto" for the one that it
            belongs to, or host:port.
        common: see `ClusterLauncher`.

    Raises:
        SettingsError: Ray is not installed, or there is no cluster at `address`.
    """

    def __init__(self, address: str, **common: Any) -> None:
        super().__init__(**common)
        self._tasks: dict[Any, Attempt] = {}
        ray = self._ray = connect(address)
        self.ray_address = ray.get_runtime_context().gcs_address
        self._task = ray.remote(max_retries=0)(_run)

    def check(self, memory: Sequence[int], actors: int = 0) -> None:
        nodes = [node["Resources"] for node in self._nodes()]
        needed = {"CPU": self.threads, "GPU": self._gpus, "memory": max(memory)}
        if not any(all(node.get(name, 0) >= amount for name, amount in needed.items()) for node in nodes):
            raise SweepError(
                f"--launcher=ray: no node has the {_resources(needed)} of memory that a cell needs; the cluster's "
                f"nodes have: {'; '.join(map(_resources, nodes))}"
            )
        if (cores := self.threads + actors) > self._cores():
            what = f"a cell and its {actors} actors need {cores} cores; the cluster has {self._cores()}"
            raise SweepError(f"--launcher=ray: {what}")

    def open(self, sweep_dir: Path) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        super().open(sweep_dir)
        check, nodes = self._ray.remote(max_retries=0, num_cpus=0)(complaint), self._nodes()
        there = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
        answers = [check.options(scheduling_strategy=where).remote(self._probe, self._needs) for where in there]
        for node, answer in zip(nodes, answers, strict=True):
            try:
                complained = self._ray.get(answer, timeout=_PROBE_SECONDS)
            except (self._ray.exceptions.RayError, TimeoutError) as error:
                complained = f"does not answer ({first_line(error)})"
            if complained:
                name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, node {node['NodeID'][:8]})"
                raise SweepError(f"node {name} cannot be used: {complained}")

    def room(self, actors: int) -> int:
        # Ray queues tasks that cannot run yet. But a run whose actors find no core would wait for them in vain.
        taken = [attempt.cell.train_settings.actors for attempt in self._tasks.values()]
        if not actors and not any(taken):
            return 1
        return int(self.threads * (len(taken) + 1) + sum(taken) + actors <= self._cores())

    def start(self, attempt: Attempt) -> None:
        amounts = {"num_cpus": self.threads, "num_gpus": self._gpus, "memory": attempt.memory}
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

    def close(self) -> None:
        # This kills the tasks, and with them the kernel stops their runs: see attempt.
        self._ray.shutdown()
        super().close()

    def _cores(self) -> int:
        return int(sum(node["Resources"].get("CPU", 0) for node in self._nodes()))

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]


def _resources(amounts: Mapping[str, float]) -> str:
    """Writes amounts as text: "4 cores, 0.5 GPUs, 3.0 GB", without GPUs if there are none."""
    gpus = f"{amounts['GPU']:g} GPUs, " if amounts.get("GPU") else ""
    return f"{amounts.get('CPU', 0):.0f} cores, {gpus}{amounts.get('memory', 0) / 1e9:.1f} GB"


def _run(attempt: Attempt, probe: Path, needs: tuple[str, str]) -> AttemptEnd:
    """Runs an attempt as a task. It must listen to SIGINT, which ray.cancel sends and background processes ignore."""
    noted = noted_signals(signal.SIGINT)
    return run_task(attempt, probe, needs, lambda: bool(noted))
