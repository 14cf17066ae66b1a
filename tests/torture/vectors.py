"""Vector environments of the caller's, of which one answer is none that gymnasium allows."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from acer_tf.commands import cli
from acer_tf.settings import make_settings
from acer_tf.training.train import train
from tests.torture import common

_N, _LENGTH = common.SMALL["num_envs"], 9  # environments; steps of their episodes
_OBJECTS = np.array([None] * _N)
Answer = tuple[Any, ...]


def _at(place: int, value: Any) -> Callable[[Answer], Any]:
    """A fault that puts `value` in this place of an answer of `step`."""
    return lambda answer: (*answer[:place], value, *answer[place + 1 :])


def _info(**more: Any) -> Callable[[Answer], Any]:
    return lambda answer: (*answer[:-1], {**answer[-1], **more})


# What `step` returns instead; the first are allowed.
ALLOWED: dict[str, Callable[[Answer], Any]] = {
    "other infos": _info(episode={"r": _OBJECTS}, _episode=np.zeros(_N, bool), lives=3, final_info=None),
    "rewards of int8": lambda answer: _at(1, np.ones(_N, np.int8))(answer),
    "a list of rewards": _at(1, [1.0] * _N),
    "float64 observations": lambda answer: _at(0, answer[0].astype(np.float64))(answer),
    "no mask at ends": lambda answer: _info(_action_mask=~answer[2])(answer),  # in NEXT_STEP mode
}
STEPS: dict[str, Callable[[Answer], Any]] = {
    "nothing": lambda answer: None,
    "a list": list,
    "four values": lambda answer: (*answer[:2], answer[2], answer[4]),
    "observations of NaN": _at(0, np.full((_N, 3), np.nan, np.float32)),
    "one observation less": lambda answer: _at(0, answer[0][1:])(answer),
    "one number less": lambda answer: _at(0, answer[0][:, 1:])(answer),
    "observations of objects": _at(0, _OBJECTS),
    "complex observations": lambda answer: _at(0, answer[0].astype(np.complex64))(answer),
    "observations of text": _at(0, "observations"),
    "no observations": _at(0, None),
    "a tuple of observations": lambda answer: _at(0, ({}, answer[0]))(answer),
    "one reward": _at(1, 1.0),
    "rewards of shape (N, 1)": _at(1, np.ones((_N, 1))),
    "rewards of None": _at(1, _OBJECTS),
    "rewards of NaN": _at(1, np.full(_N, np.nan)),
    "rewards of text": _at(1, ["1.0"] * _N),
    "terminated of None": _at(2, None),
    "terminated of numbers": _at(2, np.full(_N, 0.5)),
    "one terminated more": _at(2, np.zeros(_N + 1, bool)),
    "truncated of objects": _at(3, np.array([False] * _N, object)),
    "infos of None": _at(4, None),
    "infos of each": _at(4, [{}] * _N),
    "one mask": _info(action_mask=np.ones(3, np.int8)),
    "masks of one number less": _info(action_mask=np.ones((_N, 2), np.int8)),
    "masks of NaN": _info(action_mask=np.full((_N, 3), np.nan)),
    "masks that forbid all": _info(action_mask=np.zeros((_N, 3), np.int8)),
    "a number as masks": _info(action_mask=1),
    "masks of None": _info(action_mask=None),
    "flags of masks of another length": _info(_action_mask=np.ones(_N + 1, bool)),
    "flags of masks of text": _info(_action_mask="yes"),
    "flags of masks of numbers": _info(_action_mask=np.full(_N, 0.5)),
}
# In SAME_STEP mode, at ends.
ENDS: dict[str, Callable[[Answer], Any]] = {
    "no final observations": lambda answer: (*answer[:-1], {k: v for k, v in answer[-1].items() if k != "final_obs"}),
    "final observations of None": _info(final_obs=None),
    "final observations of objects of None": _info(final_obs=_OBJECTS),
    "a final observation less": _info(final_obs=np.zeros((_N - 1, 3), np.float32)),
    "final observations of another shape": _info(final_obs=np.zeros((_N, 2), np.float32)),
    "final observations of text": _info(final_obs="final"),
    "final observations of NaN": _info(final_obs=np.full((_N, 3), np.nan, np.float32)),
}
RESETS: dict[str, Callable[[Answer], Any]] = {
    "reset with nothing": lambda answer: None,
    "reset with observations alone": lambda answer: answer[0],
    "reset with three values": lambda answer: (*answer, {}),
    "reset with one number less": lambda answer: (answer[0][:, 1:], answer[1]),
    "reset with NaN": lambda answer: (answer[0] * np.nan, answer[1]),
    "reset with infos of None": lambda answer: (answer[0], None),
}


class Vectors(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Episodes of nine steps, each environment's a step later; its arrays are overwritten by the next answer."""

    single_observation_space = gymnasium.spaces.Box(-10, 10, (3,), np.float32)
    single_action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, num_envs: int, mode: AutoresetMode, fault: str, at: int) -> None:
        self.num_envs, self.metadata = num_envs, {"autoreset_mode": mode}
        self._same, self._fault, self._at, self._count = mode == AutoresetMode.SAME_STEP, fault, at, 0
        self._observations, self._over = np.zeros((num_envs, 3), np.float32), np.zeros(num_envs, bool)
        self._masks = np.ones((num_envs, 3), np.int8)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self._lengths, self._over[:] = np.arange(self.num_envs), False
        answer = self._seen(), self._info()
        return RESETS[self._fault](answer) if self._fault in RESETS and self._count >= self._at else answer

    def step(self, actions: Any) -> Any:
        taken = self._masks[np.arange(self.num_envs), actions].astype(bool)
        assert (taken | self._over).all(), f"{actions} are not valid: {self._masks}"
        self._count += 1
        self._lengths = np.where(self._over, 0, self._lengths + 1)
        self._over = self._lengths >= _LENGTH
        final, info, ends = self._seen().copy(), {}, self._over.copy()
        if self._same and ends.any():
            info, self._lengths, self._over = (
                {"final_obs": final},
                np.where(ends, 0, self._lengths),
                np.zeros_like(ends),
            )
        answer = (self._seen(), np.ones(self.num_envs), ends, np.zeros(self.num_envs, bool), {**self._info(), **info})
        if self._count < self._at:
            return answer
        if self._fault == "an error":
            raise RuntimeError("the environment's own error")
        if self._fault in ENDS:
            return ENDS[self._fault](answer) if info else answer
        return {**ALLOWED, **STEPS}.get(self._fault, lambda given: given)(answer)

    def _seen(self) -> np.ndarray:
        self._observations[:] = self._lengths[:, None] / _LENGTH
        return self._observations

    def _info(self) -> dict[str, Any]:
        self._masks = self.np_random.integers(0, 2, (self.num_envs, 3)).astype(np.int8)
        self._masks[:, self._count % 3] = 1
        return {"action_mask": self._masks.copy()}


def vectors(rng: random.Random, scratch: Path) -> common.Attempt:
    """A line says which answer is none; after a repair, the same run ends; what is allowed is no fault."""
    fault, run = rng.choice(("an error", *ALLOWED, *STEPS, *ENDS, *RESETS)), scratch / "run"
    same = fault in ENDS or (fault != "no mask at ends" and rng.random() < 0.4)
    mode = AutoresetMode.SAME_STEP if same else AutoresetMode.NEXT_STEP
    at = 0 if fault in RESETS else rng.randrange(1, 200)
    thread = common.acting_thread(rng)
    done = _train(run, scratch / "broken", mode, fault, at, thread)
    names = ("reset()", "step()", "its function", "when it was made")
    if fault in ALLOWED:
        wrong = common.complaint(done, (0,))
    else:
        wrong = common.complaint(done, (1, 2), names, raised=fault == "an error")
    if not wrong and done.status == 2 and run.exists():
        wrong = "a refusal left the folder of the run"
    wrong = wrong or common.complaint(_train(run, scratch / "repaired", mode, "", 0, thread), (0,))
    what = f"{fault} at step {at}, {mode.name}{common.beside(thread)}"
    return common.Attempt("own vector environments", what, wrong)


def _train(run: Path, log: Path, mode: AutoresetMode, fault: str, at: int, thread: dict[str, Any]) -> common.Done:
    def make(num_envs: int) -> Vectors:
        return Vectors(num_envs, mode, fault, at)

    @cli.command
    def action() -> int:
        of_run = {name: value for name, value in thread.items() if name not in common.OF_PROCESS}
        options = {name: thread[name] for name in thread if name in common.OF_PROCESS}
        settings = make_settings({**common.SMALL, "env": "vectors", "preset": "classic", **of_run})
        train(settings, run, env=make, checkpoint_minutes=0.0, **{"threads": 1, **options})
        return 0

    return common.Fork(action, log).end()
