# The public names, for type checkers and editors. acer_tf/__init__.py imports each when it is first used.
from acer_tf.errors import AcerError as AcerError
from acer_tf.errors import CheckpointError as CheckpointError
from acer_tf.errors import ClusterLost as ClusterLost
from acer_tf.errors import EnvironmentFailure as EnvironmentFailure
from acer_tf.errors import Interrupted as Interrupted
from acer_tf.errors import InvalidEnvironment as InvalidEnvironment
from acer_tf.errors import Mismatch as Mismatch
from acer_tf.errors import NonFiniteError as NonFiniteError
from acer_tf.errors import PolicyError as PolicyError
from acer_tf.errors import PolicyFolderError as PolicyFolderError
from acer_tf.errors import RecordError as RecordError
from acer_tf.errors import RunFolderError as RunFolderError
from acer_tf.errors import SettingsError as SettingsError
from acer_tf.policies.evaluation import EvaluationResult as EvaluationResult
from acer_tf.policies.evaluation import evaluate as evaluate
from acer_tf.policies.policy import Policy as Policy
from acer_tf.policies.policy import load_policy as load_policy
from acer_tf.reproduction.curves import RunCurve as RunCurve
from acer_tf.reproduction.curves import read_run as read_run
from acer_tf.reproduction.published import Figure1Method as Figure1Method
from acer_tf.reproduction.published import dqn_zoo_medians as dqn_zoo_medians
from acer_tf.reproduction.published import figure1_by_frames as figure1_by_frames
from acer_tf.reproduction.published import figure1_by_hours as figure1_by_hours
from acer_tf.reproduction.published import published_ablations as published_ablations
from acer_tf.reproduction.published import published_curves as published_curves
from acer_tf.reproduction.published import published_search as published_search
from acer_tf.reproduction.scores import atari_references as atari_references
from acer_tf.reproduction.scores import human_normalized as human_normalized
from acer_tf.reproduction.scores import published_agents as published_agents
from acer_tf.reproduction.scores import published_scores as published_scores
from acer_tf.settings.settings import Settings as Settings
from acer_tf.settings.settings import make_settings as make_settings
from acer_tf.training.export_run import load_network as load_network
from acer_tf.training.logged import Episode as Episode
from acer_tf.training.train import train as train

__version__: str
