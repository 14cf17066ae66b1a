"""The fields that replay stores per row, their sizes, and their invariants."""

from __future__ import annotations

from collections.abc import Mapping

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


def invariants(
    spec: EnvironmentSpec, first: int, age: np.ndarray, row: Mapping[str, np.ndarray]
) -> list[tuple[bool, str]]:
    """Whether each holds for rows from `first` on: ages [N, K+1], and the other fields [N, K, ...] by name."""
    discrete = [
        ((row["action"] < spec.num_actions).all(), "actions are below A"),
        ((row["action"] >= 0).all(), "actions are not negative"),
        ((row["behaviour"] >= 0).all(), "probabilities are not negative"),
        (np.allclose(row["behaviour"].sum(axis=-1), 1, atol=1e-4), "probabilities sum to 1"),
    ]
    return [
        ((age <= spec.stack - 1).all(), "age is at most S - 1"),
        ((np.diff(age, axis=1) <= 1).all(), "age grows by at most 1 per row"),
        (first > 0 or (age[:, 0] == 0).all(), "the first row begins an episode"),
        (np.isin(row["discount"], (0, 1)).all(), "discounts are 0 or 1"),
        ((row["reward"][~row["mask"]] == 0).all(), "masked rows have reward 0"),
        ((row["discount"][~row["mask"]] == 1).all(), "masked rows have discount 1"),
        (np.isfinite(row["behaviour"]).all() and np.isfinite(row["action"]).all(), "actions and policy are finite"),
        *([] if spec.continuous else discrete),
    ]
