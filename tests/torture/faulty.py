"""Environments that break, in the way and at the step that the environment's variable TORTURE_FAULT says."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from tests.torture import common

ENV, VARIABLE = "tests.torture.faulty:Faulty-v0", "TORTURE_FAULT"
WHOLE = np.zeros(4, np.float32), 1.0
# What step returns in place of an observation and a reward.
ANSWERS: dict[str, Any] = {
    "NaN": (np.full(4, np.nan, np.float32), 1.0),
    "another shape": (np.zeros((2, 3), np.float32), 1.0),
    "text": ("observation", 1.0),
    "no numbers": (np.array([None] * 4), 1.0),
    "an infinite reward": (np.zeros(4, np.float32), np.inf),
    "no reward": (np.zeros(4, np.float32), None),
}
FAULTS = (*ANSWERS, "raise in step", "raise in reset", "raise in init", "hang", "hang", "no render_mode")


class Faulty(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, **given: Any) -> None:
        self._fault, _, at = os.environ.get(VARIABLE, "").partition("@")
        self._at, self._count, self.render_mode = int(at or 0), 0, given.get("render_mode")
        if given and self._fault == "no render_mode":
            raise TypeError(f"Faulty.__init__() got an unexpected keyword argument {next(iter(given))!r}")
        if self._fault == "raise in init":
            raise RuntimeError("the environment's own error")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if self._fault == "raise in reset" and self._count >= self._at:
            raise RuntimeError("the environment's own error")
        return WHOLE[0], {}

    def step(self, action: Any) -> Any:
        self._count += 1
        fault = self._fault if self._count >= self._at else ""
        if fault == "raise in step":
            raise RuntimeError("the environment's own error")
        while fault == "hang":
            time.sleep(0.1)
        return *ANSWERS.get(fault, WHOLE), self._count % 20 == 0, False, {}


gymnasium.register("Faulty-v0", Faulty)


def faulty(rng: random.Random, scratch: Path) -> common.Attempt:
    """One line says what broke; after a repair, the same command trains to the end."""
    fault, at, run = rng.choice(FAULTS), rng.randrange(1, 250), scratch / "run"
    os.environ[VARIABLE] = f"{fault}@{at}"
    process = common.start(scratch / "broken", "train", run_dir=run, env=ENV)
    if fault == "hang":
        process.wait_for((run / "run.json").exists)
        time.sleep(rng.uniform(5, 10))
        # After the first it waits for the step to end, and no other SIGTERM changes that.
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            if process.process.is_alive():
                os.kill(process.process.pid, number)
            time.sleep(2)
    done = process.end()
    allowed = {"hang": (130, 143, -signal.SIGTERM), "no render_mode": (0,)}.get(fault, (1, 2))
    wrong = common.complaint(done, allowed, raised=fault.startswith("raise"))
    os.environ[VARIABLE] = ""
    if not wrong and done.status == 2 and run.exists():
        wrong = "a refusal left the folder of the run"
    elif not wrong:
        wrong = common.complaint(common.start(scratch / "repaired", "train", run_dir=run, env=ENV).end(), (0,))
    return common.Attempt("faulty environments", f"{fault} at step {at}", wrong)
