"""Runs cells as tasks of Slurm arrays, submitted by submitit, on nodes that share the sweep's folder.

A task that nears its time limit asks its run for a checkpoint and requeues itself; Slurm requeues those of lost nodes
and those that give way to other jobs. Both remain the same attempt. A task that Slurm drops without a result is
reported as lost. A task's result lies in a file, and squeue, not sacct, tells that the task is gone: many clusters keep
no accounts.

A running task knows by the probe, a file in the sweep's folder, that it is still wanted. So it also stops when its
sweep was killed and another has begun there.
"""

import dataclasses
import functools
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acer_tf.errors import SweepError, first_line
from acer_tf.reproduction.sweep.attempt import STOP_SECONDS, Attempt, AttemptEnd
from acer_tf.reproduction.sweep.cluster import ClusterLauncher, noted_signals, run_task
from acer_tf.runs.checkpoint import Checkpoints

_LOOK_SECONDS = 2.0  # between looks at the folder of results
_LIST_SECONDS = 30.0  # between calls of squeue, which clusters want to be rare; also before a failed sbatch's next
_ANSWER_SECONDS = 60.0
_TO_REQUEUE = STOP_SECONDS + 30.0  # from the request to a run to stop until its task is requeued
_MEMORY_MIB = 256
_ARRAY_TASKS = 500  # at first; the least MaxArraySize in use is Slurm's default, 1001


class SlurmLauncher(ClusterLauncher):
    """Makes each cell a task of Slurm, which runs as many at a time as the cluster and its rules admit.

    Args:
        partition: a partition of the cluster; None for its default.
        minutes: the time limit of a task, which is requeued as often as its run needs; None for the partition's.
        common: see `ClusterLauncher`.

    Raises:
        SweepError: submitit or Slurm's commands are not installed, or a part of a GPU is asked for.
    """

    def __init__(self, partition: str | None = None, minutes: int | None = None, **common: Any) -> None:
        super().__init__(**common)
        if self._gpus not in (0.0, 1.0):
            raise SweepError(f"--gpus_per_cell={self._gpus:g}: must be 0 or 1 with --launcher=slurm")
        self._minutes = minutes
        given = {"partition": partition, "time": minutes, "gpus-per-node": int(self._gpus)}
        self._options = {name: value for name, value in given.items() if value} | {"cpus-per-task": self.threads}
        self._waiting: list[Attempt] = []  # until the next submission
        self._tasks: dict[str, tuple[str, Any]] = {}  # name of the cell, and submitit's job, by Slurm's id
        self._missing: set[str] = set()  # the ids that the last list did not have
        self._looked = self._listed = self._refused = -math.inf
        self._most_tasks = _ARRAY_TASKS  # the most tasks in an array, fewer after a refusal
        self._said = ""  # the message of sbatch at its last refusal
        self._stopping = False
        # Else it configures logging when it is imported, which closes the handlers of others.
        os.environ.setdefault("SUBMITIT_LOG_LEVEL", "NOCONFIG")
        try:
            import submitit
        except ImportError as error:
            raise SweepError("--launcher=slurm needs submitit: pip install 'acer_tf[slurm]'") from error
        for name in ("sbatch", "srun", "squeue", "scancel"):
            if not shutil.which(name):
                where = "run this on a machine that submits to the cluster"
                raise SweepError(f"--launcher=slurm: {name} is not found; {where}")
        self._executor_of = functools.partial(submitit.SlurmExecutor, python=shlex.quote(self._needs[0]))

    def check(self, memory: Sequence[int], actors: int = 0, actor_memory: int = 1) -> None:
        options = [f"--{name}={value}" for name, value in self._options_of(max(memory)).items()]
        done = _slurm("sbatch", "--test-only", "--wrap=true", *options)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no answer"])[0].removeprefix("sbatch: error: ")
            raise SweepError(f"--launcher=slurm: sbatch {' '.join(options)}, which a cell needs, is refused: {said}")

    def open(self, sweep_dir: Path) -> None:
        super().open(sweep_dir)
        self._executor = self._executor_of(sweep_dir / "slurm" / self._probe.name)

    def room(self, actors: int) -> int:
        return 1  # Slurm queues tasks that cannot run yet

    def start(self, attempt: Attempt) -> None:
        self._waiting.append(attempt)

    def poll(self) -> list[tuple[str, AttemptEnd]]:
        now = time.monotonic()
        if self._stopping:
            ended = [(self._waiting.pop().cell.name, AttemptEnd("stopped")) for _ in range(len(self._waiting))]
        else:
            ended = self._submit() if self._waiting and now - self._refused > _LIST_SECONDS else []
        if not self._tasks or now - self._looked < _LOOK_SECONDS:
            return ended
        self._looked = now
        gone = self._gone(now)  # before the results: a task that ends in between is not taken for lost
        results = set(os.listdir(self._executor.folder))
        for number, (name, task) in list(self._tasks.items()):
            if task.paths.result_pickle.name in results:
                try:
                    end = task.result()
                except (RuntimeError, OSError, EOFError):
                    end = AttemptEnd("lost", f"Slurm's task {number} failed: see {task.paths.stderr}")
            elif number in gone:
                end = AttemptEnd("lost", f"Slurm's task {number} is gone without a result: see {task.paths.stderr}")
            else:
                continue
            del self._tasks[number]
            ended.append((name, AttemptEnd("stopped") if self._stopping and end.kind == "lost" else end))
        return ended

    def stop(self) -> None:
        self._stopping = True
        super().close()  # removes the probe, which asks the running tasks
        self._cancel("--state=PENDING")

    def close(self) -> None:
        self._cancel()
        super().close()

    def _options_of(self, memory: int) -> dict[str, Any]:
        # In large units, so that cells of nearly the same size share an array.
        return {**self._options, "mem": f"{_MEMORY_MIB * math.ceil(memory / 2**20 / _MEMORY_MIB)}M"}

    def _submit(self) -> list[tuple[str, AttemptEnd]]:
        """Submits an array of attempts that need as much memory as the first.

        An attempt that is refused by itself, while there is no other task, is lost: returns its end.
        """
        options = self._options_of(self._waiting[0].memory)
        attempts = [a for a in self._waiting if self._options_of(a.memory) == options][: self._most_tasks]
        self._executor.update_parameters(
            job_name="acer_tf",
            time=None,  # else submitit's five minutes
            array_parallelism=len(attempts),
            # Less if the limit is short, or the run would be asked before it has begun.
            signal_delay_s=math.ceil(min(_TO_REQUEUE, 6 * (self._minutes or math.inf))),
            srun_args=[f"--cpus-per-task={self.threads}"],  # which srun does not take over from sbatch
            additional_parameters={**options, "requeue": True},
        )
        run = functools.partial(_run, probe=self._probe, needs=self._needs)
        try:
            tasks = self._executor.map_array(run, attempts)
        except (RuntimeError, OSError) as error:
            said, self._refused = first_line(error), time.monotonic()
            if len(attempts) == 1 and not self._tasks:
                self._waiting.remove(attempts[0])
                return [(attempts[0].cell.name, AttemptEnd("lost", f"not submitted: {said}"))]
            # They wait for a smaller array, which may keep to a limit on tasks, or for the end of a task.
            self._most_tasks = max(1, len(attempts) // 2)
            if said != self._said:
                print(f"sbatch refuses {len(attempts)} tasks, which wait: {said}", file=sys.stderr, flush=True)
            self._said = said
            return []
        self._tasks |= {task.job_id: (attempt.cell.name, task) for task, attempt in zip(tasks, attempts, strict=True)}
        self._waiting = [attempt for attempt in self._waiting if attempt not in attempts]
        return []

    def _gone(self, now: float) -> set[str]:
        """Finds tasks that two lists in a row lack: a file system may show a result later than its task's end."""
        if now - self._listed < (_LOOK_SECONDS if self._stopping else _LIST_SECONDS):
            return set()
        self._listed = now
        done = _slurm("squeue", "--me", "--noheader", "--array", "--format=%i")
        if done.returncode:  # it does not answer now
            return set()
        before, self._missing = self._missing, self._tasks.keys() - set(done.stdout.split())
        return before & self._missing

    def _cancel(self, *which: str) -> None:
        if self._tasks:
            _slurm("scancel", *which, *self._tasks)


def _run(attempt: Attempt, probe: Path, needs: tuple[str, str]) -> AttemptEnd:
    """Runs an attempt as a task, which ends without a result where Slurm will start it again, or may."""
    noted = noted_signals(signal.SIGUSR2, signal.SIGTERM)
    starts = int(os.environ.get("SLURM_RESTART_COUNT", 0))
    _keep_logs(attempt.log, starts)
    checkpoints = Checkpoints(attempt.run_dir / "checkpoints")
    before = checkpoints.saved()
    end = run_task(attempt, probe, needs, lambda: signal.SIGUSR2 in noted or not probe.exists())
    if signal.SIGTERM in noted and end.kind != "ended":
        sys.exit("stopped by Slurm")  # cancelled, or in the way of another job; Slurm has told the run too
    if end.kind != "stopped" or not probe.exists():
        return end
    # Its time is over. A run that had only begun also ends by SIGTERM, but without a checkpoint it would never end.
    if end.status != 128 + signal.SIGTERM or checkpoints.saved() <= before:
        return dataclasses.replace(end, kind="failed", reason="its time was over before it could write a checkpoint")
    import submitit

    _keep_logs(attempt.log, starts + 1)
    done = _slurm("scontrol", "requeue", submitit.JobEnvironment().job_id)
    if done.returncode:
        return dataclasses.replace(end, kind="lost", reason=f"its time was over; not requeued: {done.stderr.strip()}")
    sys.exit("requeued")


def _keep_logs(log: Path, requeue: int) -> None:
    """Renames the logs that an attempt wrote before this requeue; the next start would overwrite them."""
    for suffix in (".out", ".err"):
        if log.with_suffix(suffix).exists():
            log.with_suffix(suffix).rename(log.with_suffix(f".requeue-{requeue}{suffix}"))


def _slurm(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
