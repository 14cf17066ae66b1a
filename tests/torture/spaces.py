"""Environments of random spaces, which keep to them, and give action masks, right ones or of any kind, in their infos.

Spaces of a fixed form are trained as they are; all others by the ways out that their refusals name.
"""

import contextlib
import functools
import math
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gym
from gymnasium.vector.utils import concatenate, create_empty_array

from acer_tf import load_policy
from acer_tf.envs.masks import seen
from acer_tf.envs.spaces import MOST_COMBINATIONS, observed
from acer_tf.policies.policy import Policy, observation_inputs
from acer_tf.types import leaves_of, map_leaves
from tests.torture import common

ENV, VARIABLE, WAYS = "tests.torture.spaces:Spaces-v0", "TORTURE_SPACES", "TORTURE_WAYS"
_INF = float("inf")
_DTYPES = ("float16", "float32", "float32", "float64", "uint8", "uint8", "int8", "uint16", "int32", "int64", "bool")
_BOUNDS = ((-1, 1), (-1, 1), (0, 1), (0, 1), (0, 255), (0, 255), (0, 10), (-2.5, 0.5), (5, 5), (-100, 100), (1, 0))
_WIDE_BOUNDS = ((-_INF, _INF), (-_INF, _INF), (0, _INF), (-_INF, 0), (-1e30, 1e30), (-1e300, 1e300))
_VECTORS: tuple[tuple[int, ...], ...] = ((), (1,), (4,), (4,), (4,), (4,), (7,), (0,), (3, 2), (10, 10), (2, 0))
_IMAGES = ((12, 12, 3), (3, 12, 12), (84, 84), (84, 84, 3), (84, 84, 1), (84, 84, 12), (3, 84, 84), (4, 84, 84))
_ODD_IMAGES = ((1, 84, 84), (2, 84, 84), (4, 84, 84, 1), (36, 40, 2), (2, 5, 36, 36), (1, 1, 1, 1, 2), (2, 3, 1, 2))
_SHAPES = (*_VECTORS, *_IMAGES, *_ODD_IMAGES)
_LARGE = 1000.0  # what is usually returned lies in ±1000


def _box(rng: random.Random, shape: tuple[int, ...], dtype: str, wide: float) -> gym.Box:
    low, high = rng.choice(_WIDE_BOUNDS if rng.random() < wide else _BOUNDS)
    with contextlib.suppress(ValueError, OverflowError), np.errstate(all="ignore"):  # gymnasium refuses some
        if rng.random() < 0.2 and np.isfinite((low, high)).all():
            highs = np.linspace(low + (high - low) / 2, high, int(np.prod(shape))).reshape(shape)
            return gym.Box(np.full(shape, low).astype(dtype), highs.astype(dtype), shape, dtype)
        return gym.Box(low, high, shape, dtype)
    return _box(rng, shape, dtype, wide)


def _discrete(rng: random.Random) -> gym.Discrete:
    return gym.Discrete(rng.choice((1, 2, 3, 6, 18, 300)), start=rng.choice((0, 0, 0, 1, -3, 10**6)))


def _other(rng: random.Random, part: Callable[[], gym.Space]) -> gym.Space:
    """A space that is neither a Box nor a Discrete; those within it are `part`s."""
    makers: tuple[Callable[[], gym.Space], ...] = (
        lambda: gym.MultiDiscrete([rng.randint(1, 5) for _ in range(rng.randint(1, 4))]),
        lambda: gym.MultiDiscrete([[2, 3], [4, 2]]),
        lambda: gym.MultiBinary(rng.randint(1, 6)),
        lambda: gym.MultiBinary([2, 3]),
        lambda: gym.Tuple([part(), part()]),
        lambda: gym.Dict({"a": part(), "b": gym.Dict({"c": part()})}),
        lambda: gym.Dict({"observation": part(), "action_mask": gym.MultiBinary(3)}),
        lambda: gym.Text(rng.randint(1, 9)),
        lambda: gym.Graph(gym.Box(-1, 1, (3,)), gym.Discrete(4)),
        lambda: gym.Sequence(part()),
        lambda: gym.OneOf([part(), part()]),
    )
    return rng.choice(makers)()


def _observations(rng: random.Random) -> gym.Space:
    def part() -> gym.Space:
        return _discrete(rng) if rng.random() < 0.3 else _box(rng, rng.choice(_SHAPES), rng.choice(_DTYPES), 0.2)

    if rng.random() < 0.65:
        return _box(rng, rng.choice(_SHAPES), rng.choice(_DTYPES), 0.3)
    return part() if rng.random() < 0.3 else _other(rng, part)


def _actions(rng: random.Random) -> gym.Space:
    def part() -> gym.Space:
        if rng.random() < 0.5:
            return _discrete(rng)
        return _box(rng, (rng.randint(1, 6),), rng.choice(("float32", "float32", "float64", "float16")), 0.2)

    chance = rng.random()
    if chance < 0.75:
        return part()
    if chance < 0.85:
        return _box(rng, rng.choice(((), (1,), (2,), (2, 2), (0,))), rng.choice(_DTYPES), 0.2)
    return _other(rng, part)


def _value(space: gym.Space, generator: np.random.Generator, *, extreme: bool) -> Any:
    if isinstance(space, gym.Dict):
        return {name: _value(each, generator, extreme=extreme) for name, each in space.items()}
    if isinstance(space, gym.Tuple):
        return tuple(_value(each, generator, extreme=extreme) for each in space)
    if not isinstance(space, gym.Box):
        return space.sample()
    if extreme:
        return space.high if generator.random() < 0.5 else space.low
    low, high = (np.clip(bound.astype(np.float64), -_LARGE, _LARGE) for bound in (space.low, space.high))
    drawn = generator.uniform(low, high)
    return np.asarray(np.clip(drawn if space.dtype.kind == "f" else np.rint(drawn), space.low, space.high), space.dtype)


class Spaces(gymnasium.Env):
    def __init__(self) -> None:
        rng = random.Random(os.environ[VARIABLE])
        self.observation_space, self.action_space = _observations(rng), _actions(rng)
        self.observation_space.seed(0)
        self.extreme, self._count = rng.random() < 0.1, 0
        self.masks = rng.choice(("", "", "right", "right", "any"))
        self._sizes, self._valid = sizes_of(self.action_space), list[np.ndarray]()
        if self.masks == "right" and not self._sizes:
            self.masks = ""
        self._generator = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._observation(), self._info()

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        entries = np.ravel(action - getattr(self.action_space, "start", 0)) if self._valid else ()
        assert all(valid[entry] for valid, entry in zip(self._valid, entries, strict=True)), f"{action!r} is not valid"
        self._count += 1
        return self._observation(), 1.0, self._count % 20 == 0, self._count % 13 == 0, self._info()

    def _observation(self) -> Any:
        return _value(self.observation_space, self._generator, extreme=self.extreme)

    @property
    def may_fail(self) -> bool:
        """Whether its masks need not be any: also one among its observations has not as many numbers as actions."""
        shown = isinstance(self.observation_space, gym.Dict) and "action_mask" in self.observation_space.spaces
        return self.masks == "any" or shown

    def _info(self) -> dict[str, Any]:
        if not self.masks:
            return {}
        if self.masks == "right":
            self._valid = [self._generator.random(size) < 0.5 for size in self._sizes]
            for valid in self._valid:
                valid[self._generator.integers(len(valid))] = True
            whole = functools.reduce(np.multiply.outer, self._valid)
            forms = [np.concatenate(self._valid).astype(np.int8), whole, tuple(self._valid)]
            return {"action_mask": forms[self._generator.integers(3 if len(self._sizes) > 1 else 2)]}
        shape = tuple(self._generator.integers(0, 4, self._generator.integers(0, 3)))
        dtype = self._generator.choice(["bool", "int8", "float32", "int64", "object", "str"])
        fit = np.ones(getattr(self.action_space, "n", 2), np.int8)
        choices = (fit, fit, np.zeros(shape).astype(dtype), None, [1, 0], "mask", {}, _INF)
        return {"action_mask": choices[self._generator.integers(len(choices))]}


def sizes_of(space: gym.Space) -> list[int]:
    """The numbers of values of the entries of actions that are trained as they are; empty for others."""
    sizes = np.ravel(getattr(space, "nvec", ())).tolist()
    if isinstance(space, gym.MultiBinary):
        sizes = [2] * math.prod(space.shape)
    if isinstance(space, gym.Discrete):
        return [int(space.n)]
    return sizes if math.prod(sizes) <= MOST_COMBINATIONS else []


def _wrongly_refused(env: Spaces, message: str) -> str:
    """What was refused though it has a fixed form; empty if nothing was."""

    def parts(space: gym.Space) -> list[gym.Space]:
        if isinstance(space, gym.Dict | gym.Tuple):
            inner = space.spaces.values() if isinstance(space, gym.Dict) else space.spaces
            return [found for part in inner for found in parts(part)]
        return [space]

    seen_parts, fixed = parts(env.observation_space), gym.Box | gym.Discrete | gym.MultiDiscrete | gym.MultiBinary
    trained = all(isinstance(part, fixed) for part in seen_parts) and any(map(gym.flatdim, seen_parts))
    if "observation space" in message and trained:
        return "its observations have a fixed form"
    return "its actions are numbered" if "action space" in message and sizes_of(env.action_space) else ""


def make() -> gymnasium.Env:
    """The environment, with the wrappers around it that the refusals named."""
    env: gymnasium.Env = Spaces()
    for way in filter(None, os.environ.get(WAYS, "").split("\n")):
        names = {"gymnasium": gymnasium, "np": np, "env": env, "FUNCTION": lambda _: np.zeros(3), "SHAPE": (3,)}
        names["ACTIONS"] = [env.action_space.sample() for _ in range(3)]
        env = eval(way, names)
    return env


gymnasium.register("Spaces-v0", make)


def spaces(rng: random.Random, scratch: Path) -> common.Attempt:
    """They are trained, also by the ways out that refusals name, and the policy's actions are in the space."""
    os.environ[VARIABLE], os.environ[WAYS] = str(rng.random()), ""
    env, run = Spaces(), scratch / "run"
    written = [" ".join(str(space).split())[:70] for space in (env.observation_space, env.action_space)]
    what = f"{', '.join(written)}{', its bounds' if env.extreme else ''}"
    flags: dict[str, Any] = {"env": ENV, "run_dir": run, "total_steps": 100}
    for number in range(6):  # of the observations, the actions, their masks, the agent and its network
        done = common.start(scratch / f"train{number}", "train", **flags).end()
        # Values at the bounds may be no finite float32, or too large to learn from.
        allowed = (0, 1, 2) if env.extreme or env.may_fail else (0, 2)
        wrong = common.complaint(done, allowed, ("observation", "action", "is inf", "is nan"))
        if wrong or done.status != 2:
            break
        ways = ways_out(done.err)
        if run.exists() or not ways or (number == 0 and (wrong := _wrongly_refused(env, done.err))):
            wrong = wrong or ("a refusal left the folder of the run" if run.exists() else "no way out")
            wrong += f": {done.err[:300]}"
            break
        way = rng.choice(ways)
        what += f"; {way.strip()[:60]}"
        if way == "--noaction_masks":
            flags["action_masks"] = False
        elif way.startswith("--"):
            flags |= [way[2:].split("=")]
        else:
            os.environ[WAYS] += f"{way}\n"
    else:
        wrong = f"refused after {number} ways out: {done.err[:300]}"
    if not wrong and done.status == 0:
        wrong = _judge_policy(run / "policy", scratch, to=rng.choice(("", "", "", "tflite", "onnx")))
    return common.Attempt("spaces", what, wrong)


def ways_out(message: str) -> list[str]:
    """The agent or network, and the expression of a wrapper, that a refusal names."""
    flags = r"(?<=it takes )--agent=\w+|--network=mlp|--noaction_masks"
    ways, begin = re.findall(flags, message), message.find("gymnasium.wrappers.")
    for end in range(begin, len(message)) if begin >= 0 else ():
        if message[end] == ")" and message[begin:end].count("(") == message[begin : end + 1].count(")"):
            return [*ways, message[begin : end + 1]]
    return ways


def _judge_policy(policy: Path, scratch: Path, *, to: str) -> str:
    played = common.evaluation(policy, scratch / "play", env=ENV).end()
    # Extreme observations, and masks that are none, may be refused there too.
    if wrong := common.complaint(played, (0, 1), ("observation", "not finite", "action mask")):
        return wrong
    asked = common.Fork(lambda: _ask(policy), scratch / "ask").end()
    if (wrong := common.complaint(asked, (0,))) or not to:
        return wrong
    file = scratch / f"policy.{to}"
    converted = common.start(scratch / "export", "export", policy=policy, format=to, output=file).end()
    return common.complaint(converted, (0,), (f"--format={to}",))


def _ask(folder: Path) -> None:
    """The policy and its graph, given anything of the right shape, answer with actions in the space or an error."""
    policy, env = load_policy(folder), make()
    space, generator = env.observation_space, np.random.default_rng(1)
    values = [_value(space, generator, extreme=False) for _ in range(3)]
    batch = concatenate(space, values, create_empty_array(space, 3))
    leaves = observed("", seen(space, policy.spec.action_masks))
    usual = map_leaves(lambda leaf: leaf.read(batch), leaves)
    for value in (usual, *HOSTILE):
        with np.errstate(all="ignore"):
            given = value
            if value is not usual:
                given = map_leaves(lambda leaf, value=value: np.full((3, *leaf.shape), value), leaves)
            for greedy in (False, True):
                with contextlib.suppress(ValueError):
                    require_inside(policy(given, greedy), policy.spec)
            given = map_leaves(lambda leaf, array: tf.constant(array.astype(leaf.dtype)), leaves, given)
        with contextlib.suppress(tf.errors.OpError):
            answers = _served(policy, given)
            for name in ("action", "greedy_action"):
                require_inside(answers[name].numpy(), policy.spec)
    with np.errstate(all="ignore"):
        require_inside(policy(usual), policy.spec)  # what is usual is answered


def _served(policy: Policy, observation: Any) -> dict[str, tf.Tensor]:
    inputs = dict(zip(observation_inputs(policy.spec), leaves_of(observation), strict=True))
    if policy.spec.action_masks:
        inputs["action_mask"] = tf.ones((3, policy.spec.num_actions), tf.bool)
    answers: dict[str, tf.Tensor] = policy.signature(**inputs)
    return answers


HOSTILE = (0.0, 1.0, -1.0, 255.0, 1e300, -1e300, 3e38, _INF, -_INF, float("nan"))


def require_inside(actions: np.ndarray, spec: Any) -> None:
    """Raises AssertionError if not all of the actions are in the space that the policy was trained for."""
    low, high = np.array(spec.action_low), np.array(spec.action_high)
    if not spec.continuous:
        low = np.array(spec.action_start)
        high = low + np.array(spec.action_sizes or spec.num_actions) - 1
    assert ((low <= actions.astype(np.float64)) & (actions <= high)).all(), f"{actions} is not in [{low}, {high}]"
