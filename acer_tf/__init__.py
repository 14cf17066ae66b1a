"""acer_tf: Sample Efficient Actor-Critic with Experience Replay (ACER) in TensorFlow 2 and Keras 3.

>>> settings = acer_tf.make_settings(env="CartPole-v1", total_steps=30_000, replay_start=100)
>>> policy = acer_tf.load_policy(acer_tf.train(settings, "runs/cartpole"))
>>> result = acer_tf.evaluate(policy, episodes=10)
>>> curve = acer_tf.read_run("runs/cartpole")
"""

import ast
import importlib
import os
import sys
from pathlib import Path
from typing import Any

from acer_tf.importing import Finder

# TensorFlow reads this when it is first used. By default it takes oneDNN's convolutions only if the processor has
# VNNI, AVX512_BF16 or AMX instructions; they are a third faster with AVX2 too.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# Keras reads this when it is first imported, before ~/.keras/keras.json; networks and updates are TensorFlow's.
os.environ["KERAS_BACKEND"] = "tensorflow"

sys.meta_path.insert(0, Finder())

__version__ = "0.3.0.dev0"

# The public names, imported when they are first used: `import acer_tf` loads neither TensorFlow nor a simulator.
_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_MODULES = {name.name: line.module for line in _STUB.body if isinstance(line, ast.ImportFrom) for name in line.names}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
