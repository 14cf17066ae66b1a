"""acer_tf: Sample Efficient Actor-Critic with Experience Replay (ACER) in TensorFlow 2 and Keras 3."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acer_tf.training.export import load_policy

__version__ = "0.1.0"
__all__ = ["__version__", "load_policy"]


def __getattr__(name: str) -> Any:
    # Not imported above: acer_tf.envs and acer_tf.replay must be usable without TensorFlow being loaded.
    if name == "load_policy":
        from acer_tf.training.export import load_policy

        return load_policy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
