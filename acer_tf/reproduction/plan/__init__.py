"""Estimates the time, disk and memory of a sweep on this machine."""

from acer_tf.reproduction.plan.estimate import plan
from acer_tf.reproduction.plan.measure import Measured, measured

__all__ = ["Measured", "measured", "plan"]
