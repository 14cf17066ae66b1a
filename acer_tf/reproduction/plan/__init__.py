"""What a sweep would take of time, disk and memory on this machine, before it is started."""

from acer_tf.reproduction.plan.estimate import Plan, Row, plan
from acer_tf.reproduction.plan.measure import Speed, measured
from acer_tf.reproduction.plan.table import lines

__all__ = ["Plan", "Row", "Speed", "lines", "measured", "plan"]
