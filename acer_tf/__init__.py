"""acer_tf: Sample Efficient Actor-Critic with Experience Replay (ACER) in TensorFlow 2 and Keras 3."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acer_tf.policy import load_policy

# TensorFlow reads it once, when it is first used. By itself it takes oneDNN's convolutions only where the processor has
# AVX-512 or more; with AVX2 alone they are a third faster too.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

__version__ = "0.1.0"
__all__ = ["__version__", "load_policy"]


def __getattr__(name: str) -> Any:
    # Not imported above: acer_tf.envs and acer_tf.replay must be usable without TensorFlow being loaded.
    if name == "load_policy":
        from acer_tf.policy import load_policy

        return load_policy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
