"""Fuzzed flags of `acer_tf train`, from the declared types and ranges, and from beyond them."""

import random
import re
from pathlib import Path
from typing import Any

from acer_tf import __main__ as acer_tf
from acer_tf.settings import Settings, setting_types
from acer_tf.settings.declaration import declarations
from acer_tf.training import run as training
from tests.torture import common

_TYPES: dict[str, type] = {**setting_types(), "checkpoint_minutes": float, "threads": int, "replay_file": str}
_TYPES |= {"env_workers": int, "acting_device": str, "gpu_memory_gb": float, "actor_timeout": float}
_NUMBERS = ("nan", "inf", "-inf", "-1", "0", "1", "1e300", "1e-300", "1e12", str(10**18), str(10**400), "", "x", "0x10")
_TEXTS = ("", " ", "x", "x" * 300, "auto", "../..", "/", "module:Class", "no_module:X-v0", "é", "a:b:c", "-1", "\n")
_ENVS = ("CartPole-v1", "Pendulum-v1", "minatar/breakout", "minatar/pong", "control/nothing", "atari/", "CartPole")


def fuzz(rng: random.Random, scratch: Path) -> common.Attempt:
    """One to three flags are accepted, or refused with a message that names one of them, and nothing is written."""
    given = {name: _value(rng, name) for name in rng.sample(sorted(_TYPES), rng.randint(1, 3))}
    what = " ".join(f"--{name}={value[:40]}" for name, value in given.items())
    argv = common.argv_of("train", run_dir=scratch / "run", **{"total_steps": 60, **given})
    done = common.Fork(lambda: _resolve(argv), scratch / "resolve").end(60)
    names = [f"--{no}{name}" for name in given for no in ("", "no")] + [repr(given.get("env", "--env"))[1:-1]]
    names += ["--preset"] * ("env" in given)  # the environment's usual one need not fit the small run
    wrong = common.complaint(done, (0, 2), names)
    if not wrong and (scratch / "run").exists():
        wrong = "the folder of the run was left"
    if not wrong and done.status == 0 and rng.random() < 0.04:
        what, done = f"{what} (trained)", common.Fork(lambda: acer_tf.main(argv), scratch / "real").end(40)
        wrong = common.complaint(done) if done.status is not None else ""  # it may be a long run
    return common.Attempt("fuzzed flags", what, wrong)


def _value(rng: random.Random, name: str) -> str:
    kind = _TYPES[name]
    if kind is bool:
        return rng.choice(("true", "false", "1", "maybe", ""))
    if kind is str:
        wanted = declarations(Settings)[name].range.wanted if name in declarations(Settings) else ""
        declared = [word for word in re.split(r",? (?:of|or) |, ", wanted) if word.isidentifier() and word != "one"]
        return rng.choice(_ENVS if name == "env" and rng.random() < 0.7 else (*declared, *_TEXTS))
    likely = str(rng.randint(0, 100)) if kind is int else f"{rng.uniform(0, 1):.3f}"
    return rng.choice((likely, likely, *_NUMBERS))


class _Resolved(Exception):
    pass


def _resolve(argv: list[str]) -> int:
    """The command up to where it would write into the run's folder, without the network, which takes seconds."""

    def stop(*_: Any) -> None:
        raise _Resolved

    training.Lock, training.make_network = stop, lambda *_: None
    try:
        return acer_tf.main(argv)
    except _Resolved:
        return 0
