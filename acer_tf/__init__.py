"""acer_tf: Sample Efficient Actor-Critic with Experience Replay (ACER) in TensorFlow 2 and Keras 3.

>>> settings = acer_tf.make_settings(env="CartPole-v1", total_steps=30_000, replay_start=100)
>>> policy = acer_tf.load_policy(acer_tf.train(settings, "runs/cartpole"))
>>> result = acer_tf.evaluate(policy, episodes=10)
>>> curve = acer_tf.read_run("runs/cartpole")
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the names of _MODULES, for editors and type checkers
    from acer_tf.errors import AcerError as AcerError
    from acer_tf.errors import CheckpointError as CheckpointError
    from acer_tf.errors import ClusterLost as ClusterLost
    from acer_tf.errors import EnvironmentFailure as EnvironmentFailure
    from acer_tf.errors import Interrupted as Interrupted
    from acer_tf.errors import InvalidEnvironment as InvalidEnvironment
    from acer_tf.errors import NonFiniteError as NonFiniteError
    from acer_tf.errors import PolicyError as PolicyError
    from acer_tf.errors import RecordError as RecordError
    from acer_tf.errors import RunFolderError as RunFolderError
    from acer_tf.errors import SettingsError as SettingsError
    from acer_tf.policies.evaluation import EvaluationResult as EvaluationResult
    from acer_tf.policies.evaluation import evaluate as evaluate
    from acer_tf.policies.policy import Policy as Policy
    from acer_tf.policies.policy import load_policy as load_policy
    from acer_tf.reproduction.curves import RunCurve as RunCurve
    from acer_tf.reproduction.curves import read_run as read_run
    from acer_tf.reproduction.published import published_ablations as published_ablations
    from acer_tf.reproduction.published import published_curves as published_curves
    from acer_tf.reproduction.published import published_search as published_search
    from acer_tf.reproduction.published_medians import Figure1Method as Figure1Method
    from acer_tf.reproduction.published_medians import dqn_zoo_medians as dqn_zoo_medians
    from acer_tf.reproduction.published_medians import figure1_by_frames as figure1_by_frames
    from acer_tf.reproduction.published_medians import figure1_by_hours as figure1_by_hours
    from acer_tf.reproduction.published_scores import published_agents as published_agents
    from acer_tf.reproduction.published_scores import published_scores as published_scores
    from acer_tf.reproduction.scores import atari_references as atari_references
    from acer_tf.reproduction.scores import human_normalized as human_normalized
    from acer_tf.settings.settings import Settings as Settings
    from acer_tf.settings.settings import make_settings as make_settings
    from acer_tf.training.export_run import load_network as load_network
    from acer_tf.training.train import train as train

# TensorFlow reads this when it is first used. By default it takes oneDNN's convolutions only if the processor has
# VNNI, AVX512_BF16 or AMX instructions; they are a third faster with AVX2 too.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# Keras reads this when it is first imported, before ~/.keras/keras.json; networks and updates are TensorFlow's.
os.environ["KERAS_BACKEND"] = "tensorflow"

__version__ = "0.2.0"

# Imported when first used, so that `import acer_tf` loads neither TensorFlow nor a simulator.
_NAMES = {
    "errors": "AcerError CheckpointError ClusterLost EnvironmentFailure Interrupted InvalidEnvironment "
    "NonFiniteError PolicyError RecordError RunFolderError SettingsError",
    "policies.policy": "Policy load_policy",
    "reproduction.curves": "RunCurve read_run",
    "reproduction.published": "published_ablations published_curves published_search",
    "reproduction.published_medians": "Figure1Method dqn_zoo_medians figure1_by_frames figure1_by_hours",
    "reproduction.published_scores": "published_agents published_scores",
    "reproduction.scores": "atari_references human_normalized",
    "settings.settings": "Settings make_settings",
    "policies.evaluation": "EvaluationResult evaluate",
    "training.export_run": "load_network",
    "training.train": "train",
}
_MODULES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
