"""What a sweep would take of time, disk and memory on this machine, before it is started."""

from acer_tf.reproduction.plan.estimate import plan
from acer_tf.reproduction.plan.measure import Measured, measured

__all__ = ["Measured", "measured", "plan"]
