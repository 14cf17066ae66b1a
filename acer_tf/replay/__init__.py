"""Experience replay in NumPy."""

from acer_tf.replay.chunks import ReplayCorrupt
from acer_tf.replay.prioritized import PrioritizedReplay
from acer_tf.replay.trajectories import TrajectoryReplay

__all__ = ["PrioritizedReplay", "ReplayCorrupt", "TrajectoryReplay"]
