"""What a stranger gives: policies with other metadata or damaged files, and observations of any shape."""

import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from acer_tf import load_policy
from tests.torture import common
from tests.torture.spaces import HOSTILE, require_inside

_VALUES: tuple[Any, ...] = (
    *(None, True, 5, -1, 1.5, 10**18, float("inf"), [], [None], {}, {"a": 1}, "", "x", "x" * 5000, "a\0b", "../../x"),
    *(
        "torture_evil:x-v0",
        "torture_evil:x-v0",
        [1],
        [-1],
        [10**9, 10**9],
        ["4"],
        "acer2016",
        "atari/Pong",
        "float64",
        "object",
    ),
)
_IMPORTED = "the module of a stranger was imported"


def policy(rng: random.Random, scratch: Path) -> common.Attempt:
    """A changed policy is refused, or plays as it did."""
    folder = shutil.copytree(common.stopped_run(scratch) / "policy", scratch / "policy")
    path, chance = folder / "metadata.json", rng.random()
    if chance < 0.75:
        document = json.loads(path.read_text())
        name = rng.choice((*sorted(document), "env", "env", "env", "atari_preset"))
        document[name] = rng.choice(_VALUES)
        what = f"{name} is {document[name]!r:.40}"
        path.write_text(json.dumps(document))
    elif chance < 0.8:
        path.write_text('{"format": ' + "[" * 100_000)
        what = "deeply nested"
    else:
        path = common.any_file(rng, folder)
        what = f"{path.relative_to(folder)} {common.damage_bytes(path, rng)}"
    (scratch / "torture_evil.py").write_text(f"raise SystemExit({_IMPORTED!r})\n")
    sys.path.insert(0, str(scratch))
    done = common.evaluation(folder, scratch / "evaluate").end()
    wrong = _IMPORTED if _IMPORTED in done.err else common.judge_evaluation(done, scratch)
    return common.Attempt("fuzzed policies", what, wrong)


def observation(rng: random.Random, scratch: Path) -> common.Attempt:
    """The policy answers every observation with actions or a ValueError, and its graph with any error but its death."""
    over = {"env": "minatar/breakout", "total_steps": 100}
    run = common.once(scratch.parent / "convolutional", lambda path: common.start(path, "train", run_dir=path, **over))
    other = {"env": "Pendulum-v1", "agent": "acer_continuous", "total_steps": 100}
    torques = common.once(scratch.parent / "torques", lambda path: common.start(path, "train", run_dir=path, **other))
    folder = rng.choice((common.stopped_run(scratch), run, run, torques)) / "policy"
    wanted = tuple(json.loads((folder / "metadata.json").read_text())["observation_shape"])
    shape = list(rng.choice(((3, *wanted), wanted, (2, 1, *wanted), (*wanted, 1), (), (0, *wanted), wanted[::-1])))
    if shape and rng.random() < 0.4:
        shape[rng.randrange(len(shape))] = rng.choice((0, 1, 2, 7))
    dtype = rng.choice(("float32", "float64", "bool", "uint8", "int64", "complex64", "str", "object", "float16"))
    filling, raw = rng.choice((*HOSTILE, float("nan"))), rng.random() < 0.5
    with np.errstate(all="ignore"):
        values = np.full(shape, filling).astype(dtype)
    done = common.Fork(lambda: _answer(folder, wanted, values, raw), scratch / "answer").end()
    what = f"{'graph' if raw else 'policy'} for {wanted}: {dtype} {tuple(shape)} of {filling}"
    return common.Attempt("fuzzed observations", what, common.complaint(done, (0,)))


def _answer(folder: Path, wanted: tuple[int, ...], values: np.ndarray, raw: bool) -> None:
    policy = load_policy(folder)
    try:
        if raw:  # as a server gets it: of the right dtype, and of any shape
            signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
            ((name, spec),) = signature.structured_input_signature[1].items()
            with np.errstate(all="ignore"):
                given = values.real.astype(spec.dtype.as_numpy_dtype)
            actions = signature(**{name: tf.constant(given, shape=values.shape)})["action"].numpy()
        else:
            actions = policy(values)
    except Exception as error:
        if raw or isinstance(error, ValueError):
            return
        raise
    assert values.shape[1:] == wanted and len(actions) == len(values), f"it answered with {actions.shape}"
    require_inside(actions, policy.spec)
