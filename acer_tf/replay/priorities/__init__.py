"""Prioritized draws: proportional and rank-based, importance weights, annealing."""

from acer_tf.replay.priorities.interface import Priorities, annealed, importance_weights
from acer_tf.replay.priorities.rank_heap import RankHeap
from acer_tf.replay.priorities.sum_tree import SumTree

__all__ = ["Priorities", "RankHeap", "SumTree", "annealed", "importance_weights"]
