"""Environments whose action masks are right until one is missing or none, as the variable TORTURE_MASKS says."""

import os
import random
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from tests.torture import common

ENV, VARIABLE = "tests.torture.masks:Masks-v0", "TORTURE_MASKS"
_ACTIONS, _LENGTH = 4, 13  # of episodes, in steps
_NAN = np.array([1, np.nan, 0, 1])
# Those that must be refused; and those that must not, though few give them.
WRONG: dict[str, Any] = {
    "missing": None,
    "one number less": np.ones(_ACTIONS - 1, np.int8),
    "one number more": np.ones(_ACTIONS + 1, np.int8),
    "no numbers": np.ones(0, np.int8),
    "a number": 1,
    "of two axes": np.ones((1, _ACTIONS), np.int8),
    "text": "1111",
    "a list of text": ["1"] * _ACTIONS,
    "objects": np.array([True, None, True, True]),
    "complex numbers": np.ones(_ACTIONS, np.complex64),
    "NaN": _NAN,
    "NaN of float16": _NAN.astype(np.float16),
    "infinity": np.array([1, np.inf, 0, 1]),
    "2": np.full(_ACTIONS, 2),
    "-1": np.array([1, -1, 1, 1]),
    "a half": np.full(_ACTIONS, 0.5),
    "indices": np.arange(_ACTIONS),
    "lists of several lengths": [[1], [1, 0], [1], [1]],
    "a dictionary": {0: 1, 1: 1},
    "all forbidden": np.zeros(_ACTIONS, np.int8),
}
RIGHT: dict[str, Any] = {
    "a list": [1, 0, 0, 1],
    "Booleans": [True, False, False, True],
    "float64": np.array([1.0, 0.0, 0.0, 1.0]),
    "uint64": np.array([1, 0, 0, 1], np.uint64),
    "-0.0": np.array([1.0, -0.0, -0.0, 1.0]),
    "0-dimensional": [np.array(1), np.array(0), np.array(0), np.array(1)],
}
AT_ENDS = {"missing": None, "all forbidden": WRONG["all forbidden"], **RIGHT}
_SOURCES = ("infos", "observations", "a method")


class Masks(gymnasium.Env):
    """Counts its steps and episodes; raises at an action that the last mask forbids."""

    action_space = gymnasium.spaces.Discrete(_ACTIONS)

    def __init__(self) -> None:
        self._source, self._fault, self._episode, self._at = _of_variable()
        numbers = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
        mask = gymnasium.spaces.MultiBinary(_ACTIONS)
        seen = gymnasium.spaces.Dict(numbers=numbers, action_mask=mask)
        self.observation_space = seen if self._source == "observations" else numbers
        if self._source == "a method":
            self.action_masks = lambda: self._mask
        self._episodes, self._steps = -1, 0
        self._mask: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._episodes, self._steps = self._episodes + 1, 0
        return self._answer()

    def step(self, action: Any) -> Any:
        assert np.asarray(self._mask)[action], f"{action} is not valid: {self._mask}"
        self._steps += 1
        observation, info = self._answer()
        return observation, 1.0, self._steps == _LENGTH, False, info

    def _answer(self) -> tuple[Any, dict[str, Any]]:
        self._mask = self.np_random.integers(0, 2, _ACTIONS).astype(np.int8)
        self._mask[self.np_random.integers(_ACTIONS)] = 1
        if self._episodes >= self._episode and self._steps == self._at:
            self._mask = {**WRONG, **RIGHT}.get(self._fault, self._mask)
        seen: Any = np.full(3, self._steps / _LENGTH, np.float32)
        if self._source == "observations":
            seen = {"numbers": seen, "action_mask": self._mask}
        return seen, {"action_mask": self._mask} if self._source == "infos" and self._mask is not None else {}


gymnasium.register("Masks-v0", Masks)


def _of_variable() -> tuple[str, str, int, int]:
    source, fault, episode, at = os.environ[VARIABLE].split("/")
    return source, fault, int(episode), int(at)


def masks(rng: random.Random, scratch: Path) -> common.Attempt:
    """No action is outside the last mask; one that is none ends the run with its environment and step; then as usual.

    Whether there are masks is seen at the first reset, so that one is right.
    """
    at_end = rng.random() < 0.2
    source, fault = rng.choice(_SOURCES), rng.choice([*(AT_ENDS if at_end else {**WRONG, **RIGHT})])
    at = _LENGTH if at_end else rng.randrange(_LENGTH)
    episode, run = rng.randrange(1 if at == 0 else 0, 6), scratch / "run"
    os.environ[VARIABLE] = f"{source}/{fault}/{episode}/{at}"
    flags: dict[str, Any] = {"run_dir": run, "env": ENV, "env_workers": rng.choice((1, 1, 1, 2))}
    flags |= {"evaluate_every": 100, "evaluate_episodes": 2} if rng.random() < 0.3 else {}
    flags |= (thread := common.acting_thread(rng))
    done = common.start(scratch / "broken", "train", **flags).end()
    wrong = _judge(done, fault in WRONG and not at_end, source, at)
    os.environ[VARIABLE] = f"{source}//0/0"
    wrong = wrong or common.complaint(common.start(scratch / "repaired", "train", **flags).end(), (0,))
    if not wrong:
        wrong = common.complaint(common.evaluation(run / "policy", scratch / "play", env=ENV).end(), (0,))
    what = f"{fault} in {source}, {at} steps after reset {episode}{common.beside(thread)}"
    return common.Attempt("action masks", what, wrong)


def _judge(done: common.Done, refused: bool, source: str, at: int) -> str:
    if source == "observations" and "an observation of" in done.err:
        return common.complaint(done, (1,))  # whose form is checked before
    if wrong := common.complaint(done, (int(refused),)):
        return wrong
    if not refused:
        return ""
    found = re.search(r"environment (\d+), (\d+) steps after its reset, gave an action mask that", done.err)
    if found is None or int(found[1]) >= common.SMALL["num_envs"] or int(found[2]) != at:
        return f"it does not say that a mask was wrong {at} steps after a reset: {done.err[-200:]}"
    return ""
