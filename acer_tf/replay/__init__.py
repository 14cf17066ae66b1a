"""Experience replay in NumPy."""

from acer_tf.replay.chunks import ReplayCorrupt
from acer_tf.replay.priorities import Priorities, RankHeap, SumTree
from acer_tf.replay.prioritized import PrioritizedReplay
from acer_tf.replay.trajectories import TrajectoryReplay

__all__ = ["Priorities", "PrioritizedReplay", "RankHeap", "ReplayCorrupt", "SumTree", "TrajectoryReplay"]
