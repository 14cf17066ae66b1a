"""Searches of hyper-parameters: killed, signalled, joined by another process, damaged, or begun with other settings.

Their runs are stand-ins, whose return follows from the learning rate.
"""

import csv
import math
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import optuna

from acer_tf import __main__ as acer_tf
from acer_tf.commands import tune
from tests.torture import clusters, common

_ROOT = Path(__file__).parents[2]
_STAND_IN = _ROOT / "tests" / "commands" / "trial.py"
_TRIALS = 4
_ENDED = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)


def search(rng: random.Random, scratch: Path) -> common.Attempt:
    """The same command continues a search and loses no trial; what is damaged or another search is refused."""
    clusters.adopt()
    action = rng.choice((_killed, _killed, _signalled, _signalled, _joined, _joined, _damaged, _damaged, _other))
    what, wrong = action(rng, scratch)
    return common.Attempt("searches", what, wrong)


def _start(scratch: Path, log: str, *more: str, trials: int = _TRIALS) -> common.Fork:
    def run() -> int:
        os.chdir(scratch)
        os.environ.update(PYTHONPATH=str(_ROOT), SLOW="0.02")
        tune.PROGRAM = (sys.executable, str(_STAND_IN))
        usual: dict[str, Any] = {"env": "CartPole-v1", "total_steps": 1000, "tune_dir": "search", "trials": trials}
        usual |= {"processes": 2, "threads": 1, "evaluation_seeds": 1, "search": "learning_rate=1e-5:1e-1:log"}
        return acer_tf.main([*common.argv_of("tune", **usual), *more])

    return common.Fork(run, scratch / log)


def _killed(rng: random.Random, scratch: Path) -> tuple[str, str]:
    process = _begun(rng, scratch)
    process.process.kill()
    process.process.join()
    left = clusters.left_of(process)
    process.end()
    return "kill -9", f"left: {', '.join(left)}" if left else _again(scratch)


def _signalled(rng: random.Random, scratch: Path) -> tuple[str, str]:
    number = rng.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1))
    process = _begun(rng, scratch)
    os.kill(process.process.pid or 0, number)
    done = process.end()
    wrong = common.complaint(done, (0, 128 + number))
    if done.status and not wrong and sum(number.name in line for line in done.err.splitlines()) != 1:
        wrong = f"no line says that {number.name} stopped it: {done.err[-200:]!r}"
    return number.name, wrong or _again(scratch)


def _begun(rng: random.Random, scratch: Path) -> common.Fork:
    """A search at a random moment."""
    process = _start(scratch, "hit")
    process.wait_for((scratch / "search" / "tune.json").exists)
    time.sleep(rng.uniform(0, 9))
    return process


def _again(scratch: Path) -> str:
    done = _start(scratch, "again").end()
    return common.complaint(done, (0,)) or _judge(scratch, [done])


def _joined(rng: random.Random, scratch: Path) -> tuple[str, str]:
    one = _start(scratch, "one")
    time.sleep(rng.uniform(0, 6))
    ended = [_start(scratch, "two").end(), one.end()]
    wrong = [found for done in ended if (found := common.complaint(done, (0,)))]
    return "two processes", wrong[0] if wrong else _judge(scratch, ended)


def _finished(scratch: Path) -> Path:
    """A copy of the folder of a search of two trials that has ended."""

    def make(folder: Path) -> common.Fork:
        folder.mkdir()
        return _start(folder, "search", trials=2)

    made = common.once(scratch.parent / "searched", make)
    return shutil.copytree(made / "search", scratch / "search")


def _damaged(rng: random.Random, scratch: Path) -> tuple[str, str]:
    """It is refused with a line that names the file, or goes on with all trials.

    A digit that has become another one cannot be told: the journal has no checksum.
    """
    folder = _finished(scratch)
    path = folder / rng.choice(("journal.log", "journal.log", "journal.log", "tune.json"))
    how = common.damage_bytes(path, rng)
    if path.suffix == ".log" and rng.random() < 0.3:
        path.open("ab").write(b'{"op_code":6,"worker_id":"x"}\n')
        how += " and a line added"
    done = _start(scratch, "again").end()
    wrong = common.complaint(done, (0, 1, 2), (path.name, "--tune_dir", "trial"))
    if not wrong and done.status == 0 and len(_study(scratch)) < _TRIALS:
        wrong = f"it ends with {len(_study(scratch))} trials"
    return f"{path.name} {how}", wrong


def _other(rng: random.Random, scratch: Path) -> tuple[str, str]:
    folder = _finished(scratch)
    flag = rng.choice(("--gamma=0.5", "--seed=7", "--env=Acrobot-v1", "--search=gamma=0.9,0.99", "--total_steps=900"))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = _start(scratch, "other", flag).end()
    wrong = common.complaint(done, (2,), ("--tune_dir=search",))
    if not wrong and before != {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}:
        wrong = "the folder of the other search was changed"
    return f"with {flag}", wrong


def _study(scratch: Path) -> list[optuna.trial.FrozenTrial]:
    backend = optuna.storages.journal.JournalFileBackend(str(scratch / "search" / "journal.log"))
    return optuna.load_study(study_name="tune", storage=optuna.storages.JournalStorage(backend)).trials


def _judge(scratch: Path, ended: list[common.Done]) -> str:
    """What is wrong with a search that has ended; empty if nothing is."""
    trials = _study(scratch)
    if len(trials) != _TRIALS or not {trial.state for trial in trials} <= {*_ENDED}:
        return f"instead of {_TRIALS} trials: {', '.join(trial.state.name for trial in trials)}"
    said = [line.partition(":")[0] for done in ended for line in done.out.splitlines() if line.startswith("trial ")]
    if len(said) != len(set(said)):
        return f"a trial ended twice: {', '.join(sorted(said))}"
    for trial in trials:
        with (scratch / "search" / "cells" / f"trial-{trial.number:04}" / "run" / "progress.csv").open() as file:
            rows = list(csv.DictReader(file))
        steps, complete = [int(row["steps"]) for row in rows], trial.state == optuna.trial.TrialState.COMPLETE
        if steps != sorted(set(steps)) or (complete and len(steps) != 50):
            return f"trial {trial.number} has rows of {steps}"
        if complete and not math.isclose(trial.value or 0, float(rows[-1]["mean_return"]), rel_tol=1e-6):
            return f"trial {trial.number} has the value {trial.value}, and its run {rows[-1]['mean_return']}"
    best = max((trial for trial in trials if trial.value is not None), key=lambda trial: trial.value or 0)
    if not any(f"trial {best.number}: {best.value:,.2f}" in done.out for done in ended):
        return f"nobody says that trial {best.number} is the best"
    if not (scratch / "my_results" / "tune_CartPole_v1" / "table.csv").exists():
        return "no table compares the best with what was given"
    return common.leftovers(scratch / "search")
