"""The fields that replay stores per row, and their sizes."""

from __future__ import annotations

import numpy as np

from acer_tf.types import EnvironmentSpec, RecurrentContext, Trajectory

SHOWN = ("observation", "age")  # the fields that the pending row has already


def fields(spec: EnvironmentSpec) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and dtype per environment and row, under the names of `Trajectory`."""
    return {
        "observation": (spec.frame_shape, np.dtype(spec.observation_dtype)),
        "age": ((), np.dtype(np.uint8)),
        "action": (spec.action_shape, np.dtype(spec.action_dtype)),
        "reward": ((), np.dtype(np.float32)),
        "discount": ((), np.dtype(np.float32)),
        "mask": ((), np.dtype(np.bool_)),
        "behaviour": ((spec.statistics_size,), np.dtype(np.float32)),
    }


def row_bytes(spec: EnvironmentSpec) -> int:
    """Size of one environment's row in bytes."""
    return sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in fields(spec).values())


def rows_held(name: str, first: int, last: int) -> np.ndarray:
    """The rows of a field in the chunk [first, last): observations also have the bootstrap row `last`."""
    return np.arange(first, last + (name in SHOWN))


def blank(spec: EnvironmentSpec, batch: int, rows: int, burn_in: int, state_size: int) -> Trajectory:
    """Zeros in the shapes of B windows of T rows with W rows of burn-in."""
    seen = burn_in + rows + 1
    lengths = {"observation": spec.stack - 1 + seen, "age": seen}
    arrays = {
        name: np.zeros((batch, lengths.get(name, rows), *shape), dtype) for name, (shape, dtype) in fields(spec).items()
    }
    memory = RecurrentContext(np.zeros((batch, state_size), np.float32), np.zeros((batch, seen), bool))
    return Trajectory(**arrays, memory=memory if state_size else None)
