"""Environments that never end, or break, in the way and at the step that the variable TORTURE_FAULT says."""

import json
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
WHOLE = np.zeros(4, np.float32), 1.0, False, False, {}
REFUSED, ANY, DONE = (1, 2), (0, 1, 2), (0,)  # exit statuses


def _with(at: int, value: Any) -> tuple[Any, ...]:
    return (*WHOLE[:at], value, *WHOLE[at + 1 :])


# What step returns, with which statuses the run may end, and words of which the message must contain one.
ANSWERS: dict[str, tuple[Any, tuple[int, ...], tuple[str, ...]]] = {
    "NaN": (_with(0, np.full(4, np.nan, np.float32)), REFUSED, ("observation of nan",)),
    "another shape": (_with(0, np.zeros((2, 3), np.float32)), REFUSED, ("(2, 3)",)),
    "one element less": (_with(0, np.zeros(3, np.float32)), REFUSED, ("(3,)",)),
    "one for all": (_with(0, 0.0), REFUSED, ("observation",)),  # which could be broadcast
    "text": (_with(0, "observation"), REFUSED, ("observation",)),
    "no numbers": (_with(0, np.array([None] * 4)), REFUSED, ("observation",)),
    "complex numbers": (_with(0, np.zeros(4, np.complex64)), REFUSED, ("observation",)),
    "1e300": (_with(0, np.full(4, 1e300)), REFUSED, ("observation",)),
    "an infinite reward": (_with(1, np.inf), REFUSED, ("reward of inf",)),
    "a reward of NaN": (_with(1, np.nan), REFUSED, ("reward of nan",)),
    "a reward of 1e39": (_with(1, 1e39), REFUSED, ("1e+39",)),
    "a reward of shape (1,)": (_with(1, np.array([1.0])), REFUSED, ("reward of shape (1,)",)),
    "a reward of shape (2,)": (_with(1, np.array([1.0, 2.0])), REFUSED, ("reward of shape (2,)",)),
    "a reward of text": (_with(1, "1.0"), REFUSED, ("reward",)),
    "no reward": (_with(1, None), REFUSED, ("reward",)),
    "a scalar array as reward": (_with(1, np.array(1.0)), DONE, ()),
    "a Boolean as reward": (_with(1, True), DONE, ()),
    "terminated of None": (_with(2, None), REFUSED, ("terminated",)),
    "terminated of text": (_with(2, "False"), REFUSED, ("terminated",)),
    "terminated of shape (1,)": (_with(2, np.array([False])), REFUSED, ("terminated",)),
    "terminated of 0": (_with(2, 0), ANY, ("terminated",)),
    "terminated of NumPy": (_with(2, np.bool_(False)), DONE, ()),
    "truncated of NaN": (_with(3, np.nan), REFUSED, ("truncated",)),
    "truncated of infos": (_with(3, {"TimeLimit.truncated": False}), REFUSED, ("truncated",)),
    "four values, as old gym": ((*WHOLE[:2], False, {}), REFUSED, ("step() must return",)),
    "six values": ((*WHOLE, {}), REFUSED, ("step() must return",)),
    "nothing": (None, REFUSED, ("step() must return",)),
    "a list": (list(WHOLE), ANY, ("step() must return",)),
    "infos of None": (_with(4, None), ANY, ("info",)),
    "infos of text": (_with(4, "info"), ANY, ("info",)),
}
# What reset returns.
RESETS: dict[str, tuple[Any, tuple[int, ...], tuple[str, ...]]] = {
    "only an observation": (WHOLE[0], REFUSED, ("reset() must return",)),
    "reset with nothing": (None, REFUSED, ("reset() must return",)),
    "reset with three values": ((WHOLE[0], {}, {}), REFUSED, ("reset() must return",)),
    "reset with another shape": ((np.zeros((2, 3), np.float32), {}), REFUSED, ("(2, 3)",)),
    "reset with NaN": ((np.full(4, np.nan, np.float32), {}), REFUSED, ("observation of nan",)),
}
OTHERS = ("raise in step", "raise in reset", "raise in init", "hang", "hang", "no render_mode", "other infos each step")
FAULTS = (*ANSWERS, *RESETS, *OTHERS)


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
        return RESETS[self._fault][0] if self._fault in RESETS and self._count >= self._at else (WHOLE[0], {})

    def step(self, action: Any) -> Any:
        self._count += 1
        fault = self._fault if self._count >= self._at else ""
        if fault == "raise in step":
            raise RuntimeError("the environment's own error")
        while fault == "hang":
            time.sleep(0.1)
        if fault in ANSWERS:
            return ANSWERS[fault][0]
        if fault == "other infos each step":
            return _with(4, _info(self._count))
        return _with(2, self._count % 20 == 0)


class Endless(Faulty):
    """Has no time limit, and no end of its own."""

    def step(self, action: Any) -> Any:
        return WHOLE


gymnasium.register("Faulty-v0", Faulty)
gymnasium.register("Endless-v0", Endless)


def _info(count: int) -> dict[Any, Any]:
    values = (count, np.zeros(count % 5), "text", None, {"a": count}, [1, "a"], np.array([None]), float("nan"))
    names = ("action_mask", "lives", "final_obs", "final_info", "episode", "_lives", 7, f"key {count}")
    return {name: values[(count + at) % len(values)] for at, name in enumerate(names) if (count + at) % 3}


def faulty(rng: random.Random, scratch: Path) -> common.Attempt:
    """One line says what broke; after a repair, the same command trains to the end."""
    fault, at, run = rng.choice(FAULTS), rng.randrange(1, 250), scratch / "run"
    flags = {"run_dir": run, "env": ENV, **(thread := common.acting_thread(rng))}
    if fault in RESETS and rng.random() < 0.5:
        at = 0
    os.environ[VARIABLE] = f"{fault}@{at}"
    process = common.start(scratch / "broken", "train", **flags)
    if fault == "hang":
        process.wait_for((run / "run.json").exists)
        time.sleep(rng.uniform(5, 10))
        # After the first it waits for the step to end, and no other SIGTERM changes that.
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            if process.process.is_alive():
                os.kill(process.process.pid, number)
            time.sleep(2)
    done = process.end()
    others = {"hang": (130, 143, -signal.SIGTERM), "no render_mode": DONE, "other infos each step": DONE}
    _, allowed, names = {**ANSWERS, **RESETS}.get(fault, (None, others.get(fault, REFUSED), ()))
    wrong = common.complaint(done, allowed, names, raised=fault.startswith("raise"))
    os.environ[VARIABLE] = ""
    if not wrong and done.status == 2 and run.exists():
        wrong = "a refusal left the folder of the run"
    elif not wrong:
        wrong = common.complaint(common.start(scratch / "repaired", "train", **flags).end(), (0,))
    return common.Attempt("faulty environments", f"{fault} at step {at}{common.beside(thread)}", wrong)


def endless(rng: random.Random, scratch: Path) -> common.Attempt:
    """An evaluation that would never end says so; a limit ends its episodes there."""
    env = "tests.torture.faulty:Endless-v0"

    def train(folder: Path) -> common.Fork:
        return common.start(folder, "train", run_dir=folder, env=env, total_steps=100)

    policy, limit = common.once(scratch.parent / "endless", train) / "policy", rng.randint(1, 300)
    flags = {"env": env, "greedy": rng.random() < 0.5}
    process = common.evaluation(policy, scratch / "limited", **flags, max_episode_steps=limit)
    done = process.end()
    wrong = common.complaint(done, DONE)
    if not wrong and json.loads(done.out)["steps"] != [limit, limit]:
        wrong = f"episodes of {json.loads(done.out)['steps']} steps"
    process, begun = common.evaluation(policy, scratch / "endless", **flags), time.monotonic()

    def said() -> bool:
        return process.begun and "--max_episode_steps" in (scratch / "endless.err").read_text()

    process.wait_for(lambda: said() or time.monotonic() - begun > 60)
    notice = said()
    process.process.kill()
    process.end()
    wrong = wrong or ("" if notice else "no notice that it may not end")
    return common.Attempt("faulty environments", f"no end, --max_episode_steps={limit}", wrong)
