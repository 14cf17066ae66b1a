"""The rows of N environments in a ring: appending, saving and restoring them.

Every row has an absolute number, counted from 0 and never reused; row n is in slot n mod (capacity + 1) of the ring.
The newest row is *pending*: its observation is known, its action is not yet. Of each observation only the newest frame
is stored: the older frames are in the rows before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from acer_tf.errors import Mismatch
from acer_tf.replay.chunks import (
    Chunk,
    ReplayCorrupt,
    chunks_from,
    decode,
    encode,
    read_chunk,
    write_chunk,
)
from acer_tf.replay.storage import zeros
from acer_tf.types import EnvironmentSpec, TimeStep

SHOWN = ("observation", "age")  # the fields that the pending row has already
CHUNK_BYTES = 128 * 2**20  # rows are copied before they are written: this bounds the copy


class Segments:
    """The starts of the latest segments of N environments in lockstep, with a state [N, U] at each.

    States are stored per segment, not per row, because U is much larger than most observations.

    Args:
        ring: [K, N, U] float32 zeros, for the states of the newest K segments; with U = 0 the number of segments is not
            bounded.
    """

    def __init__(self, ring: np.ndarray) -> None:
        self.starts = np.zeros(0, np.int64)  # absolute rows, in order
        self._begun = 0  # segments ever begun; the state of the last is in slot (_begun - 1) mod K
        self._ring, self._most = ring, len(ring) if ring.shape[2] else 0

    def emptied(self) -> Segments:
        """Without any segment, in the same storage."""
        return Segments(self._ring)

    def begin(self, row: int, first: int, state: np.ndarray) -> None:
        """Marks the newest row as a start (again, with another state), and drops the starts before row `first`."""
        self.forget(row)
        self.starts = np.append(self.starts[self.starts >= first], row)
        self._begun += 1
        if self._most:
            self._ring[(self._begun - 1) % self._most] = state
            self.starts = self.starts[-self._most :]

    def forget(self, row: int) -> None:
        """Removes the mark of the newest row, if it has one."""
        if len(self.starts) and self.starts[-1] == row:
            self.starts = self.starts[:-1]
            self._begun -= 1

    def states(self, starts: np.ndarray, envs: np.ndarray) -> np.ndarray:
        """A copy [B, U] of the states of environments [B] at the given starts [B]."""
        back = len(self.starts) - np.searchsorted(self.starts, starts)
        return self._ring[(self._begun - back) % self._most, envs]

    def save(self) -> dict[str, np.ndarray]:
        slots = (self._begun - np.arange(len(self.starts), 0, -1)) % max(1, self._most)
        return {"segments": self.starts.copy(), **({"states": self._ring[slots]} if self._most else {})}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.starts = np.array(state["segments"], np.int64)
        self._begun = len(self.starts)
        if self._most:
            self._ring[: self._begun] = state["states"]


class Ring:
    """The last `capacity` rows of each of N environments that move in lockstep.

    The collector calls `start` once, then `append` once per step, and `begin_segment` before each unroll. After
    `restore`, when the environments have been reset, it calls `seam` instead of `start` if a row is pending.

    Attributes:
        spec: of the environments.
        num_envs: N.
        state_size: U, the length of the recurrent state; 0 if the network is not recurrent.
        rows: acted rows appended so far per environment, masked ones included.
        started: whether a row is pending.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        num_envs: int,
        capacity: int,
        unroll_length: int,
        *,
        state_size: int,
        file: Path | None,
    ) -> None:
        """Allocates the ring; arguments and errors are those of `TrajectoryReplay`."""
        for name, value in (("num_envs", num_envs), ("unroll_length", unroll_length)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.spec = spec
        self.num_envs = num_envs
        self._capacity = capacity
        self._slots = capacity + 1  # one for the pending row
        self._unroll_length = unroll_length
        self.state_size = state_size
        self._file = file
        self._ring, self._segments = self._allocate()
        self.rows = 0
        self._lost = 0  # rows before this one could not be restored
        self.started = False
        self._chunks: list[Chunk] = []

    @staticmethod
    def required_bytes(
        spec: EnvironmentSpec, num_envs: int, capacity: int, *, unroll_length: int = 1, state_size: int = 0
    ) -> int:
        """Bytes of a full ring of these sizes; `unroll_length` matters only with a recurrent state."""
        states = 4 * num_envs * state_size * _segments_in(capacity, unroll_length)
        return num_envs * (capacity + 1) * row_bytes(spec) + states

    @property
    def stored(self) -> int:
        """Acted rows stored now per environment."""
        return min(self.rows - self._lost, self._capacity)

    def start(self, observation: np.ndarray, age: np.ndarray) -> None:
        """Makes x_0 the pending row, from the first observations [N, *observation_shape] and ages [N] uint8, zeros.

        Raises:
            RuntimeError: a row is already pending (after `restore`, call `seam`).
            ValueError: a wrong shape or dtype, or an age above 0.
        """
        if self.started:
            raise RuntimeError("the replay has a pending row already: call seam() after a reset of the environments")
        self._write(self.rows, self._shown(observation, age, oldest=np.zeros_like(age)))
        self.started = True

    def append(self, action: np.ndarray, behaviour: np.ndarray, step: TimeStep) -> None:
        """Completes the pending row t; x_{t+1} becomes pending.

        Args:
            action: [N] integers or [N, d] floats, a_t.
            behaviour: [N, A or d] floats, the statistics of μ(·|x_t).
            step: the environments' answer to a_t.

        Raises:
            RuntimeError: no row is pending.
            ValueError: a wrong shape or dtype, or an age that grew by more than 1, whose frame stack could not be
                rebuilt. The replay is as before.
        """
        self._require_pending()
        outcome = self._checked(
            action=action, behaviour=behaviour, reward=step.reward, discount=step.discount, mask=step.mask
        )
        age = self._ring["age"][:, self.rows % self._slots]
        shown = self._shown(step.observation, step.age, oldest=np.minimum(age + 1, self.spec.stack - 1))
        self._complete(outcome, shown)

    def begin_segment(self, state: np.ndarray | None = None) -> None:
        """Marks the pending row as the start of a collected segment.

        If U > 0, `state` [N, U] float32 is the behaviour's recurrent state before that row, zeros where an episode
        begins.

        Raises:
            RuntimeError: no row is pending.
            ValueError: a wrong shape of the state.
        """
        self._require_pending()
        state = np.zeros((self.num_envs, 0), np.float32) if state is None else state
        if state.shape != (self.num_envs, self.state_size):
            raise ValueError(f"state must have shape {(self.num_envs, self.state_size)}, got {state.shape}")
        self._segments.begin(self.rows, self.rows - self.stored, state)

    def seam(self, observation: np.ndarray, age: np.ndarray) -> None:
        """Joins environments that have been reset to the stored rows, as after a truncation; arguments as in `start`.

        The pending row becomes a masked one (discount 1, reward 0), and `observation` becomes pending. If the previous
        row ended its episode, this is the masked row that would have followed anyway.

        Raises:
            RuntimeError: no row is pending.
            ValueError: as `start`.
        """
        self._require_pending()
        shown = self._shown(observation, age, oldest=np.zeros_like(age))
        # A checkpoint of an earlier version may have a segment that begins here, without a row of it.
        self._segments.forget(self.rows)
        masked = {"action": 0, "reward": 0, "discount": 1, "mask": False, "behaviour": self.spec.masked_statistic}
        self._complete(masked, shown)

    def save(self, folder: Path) -> dict[str, np.ndarray]:
        """Writes the rows that `folder` lacks as chunk files, and returns the rest of the state as small arrays.

        States saved earlier remain valid and share the files of common rows. Rows whose file is missing are written
        again.

        Raises:
            OSError: the disk is full or not writable.
        """
        folder.mkdir(parents=True, exist_ok=True)
        end = self.rows - self.stored
        chunks = chunks_from(end, self._chunks, folder)
        if chunks:
            end = chunks[-1].last
        rows_per_chunk = max(1, CHUNK_BYTES // (self.num_envs * row_bytes(self.spec)))
        while self.started and (end < self.rows or not chunks):
            last = min(end + rows_per_chunk, self.rows)
            arrays = {name: self._gather(name, rows_held(name, end, last)) for name in self._ring}
            chunks.append(write_chunk(folder, end, last, arrays))
            end = last
        self._chunks = chunks
        return {
            "layout": encode(self._layout()),
            "rows": np.asarray(self.rows, np.int64),
            **({"lost": np.asarray(self._lost, np.int64)} if self._lost else {}),
            **self._segments.save(),
            "chunks": np.asarray(chunks, np.int64).reshape(-1, 3),
        }

    def restore(self, folder: Path, state: Mapping[str, np.ndarray], *, salvage: bool = False) -> None:
        """Restores what `save` returned and wrote, the pending row included. If it raises, the replay is as before.

        With `salvage` it goes without the rows of a corrupt chunk, and those before it. If that leaves none, no row is
        pending: call `start`.

        Raises:
            Mismatch: the state is of a replay of other sizes.
            ReplayCorrupt: a chunk file is missing, damaged, or another than was saved.
        """
        self._require_layout(state)
        rows, lost = int(state["rows"]), int(state.get("lost", 0))
        chunks: list[Chunk] = []
        ring, segments = self._spare()
        segments.restore(state)
        end = max(lost, rows - self._capacity)
        for chunk in (Chunk(*numbers) for numbers in state["chunks"].tolist()):
            if chunk.first > end:
                break
            end = chunk.last
            try:
                arrays = read_chunk(folder, chunk)
            except ReplayCorrupt:
                if not salvage:
                    raise
                lost, chunks = chunk.last, []
                continue
            for name, values in arrays.items():
                # Later rows overwrite those that the saved replay no longer held.
                ring[name][:, rows_held(name, chunk.first, chunk.last) % self._slots] = values
            chunks.append(chunk)
        if end != rows:
            raise ReplayCorrupt(f"the saved replay's chunk files end at row {end}, its state at row {rows}")
        self._ring, self._segments, self.rows, self._lost = ring, segments, rows, lost
        self._chunks, self.started = chunks, bool(chunks)

    @staticmethod
    def chunk_files(state: Mapping[str, np.ndarray]) -> list[str]:
        """Names of the chunk files that a state from `save` needs, oldest rows first; others may be deleted."""
        return [Chunk(*numbers).name for numbers in state["chunks"].tolist()]

    def _allocate(self) -> tuple[dict[str, np.ndarray], Segments]:
        lead = (self.num_envs, self._slots)
        arrays = {name: ((*lead, *shape), dtype) for name, (shape, dtype) in fields(self.spec).items()}
        shape = (_segments_in(self._capacity, self._unroll_length), self.num_envs, self.state_size)
        if not self.state_size:
            return zeros(arrays, self._file), Segments(np.zeros(shape, np.float32))
        ring = zeros({**arrays, "state": (shape, np.dtype(np.float32))}, self._file)
        return ring, Segments(ring.pop("state"))

    def _spare(self) -> tuple[dict[str, np.ndarray], Segments]:
        """Storage to restore into: its own while nothing is stored, since memory or disk may not have room for two."""
        if self.rows or self.started:
            return self._allocate()
        return self._ring, self._segments.emptied()

    def _require_pending(self) -> None:
        if not self.started:
            raise RuntimeError("the replay has no pending row: call start() first")

    def _checked(self, **values: np.ndarray) -> dict[str, np.ndarray]:
        stored = fields(self.spec)
        for name, value in values.items():
            shape, dtype = stored[name]
            if value.shape != (self.num_envs, *shape):
                raise ValueError(f"{name} must have shape {(self.num_envs, *shape)}, got {value.shape}")
            if not np.can_cast(value.dtype, dtype, "same_kind"):
                raise ValueError(f"{name} must have dtype {dtype}, got {value.dtype}")
        return values

    def _shown(self, observation: np.ndarray, age: np.ndarray, oldest: np.ndarray) -> dict[str, np.ndarray]:
        shape = (self.num_envs, *self.spec.observation_shape)
        if observation.shape != shape:
            raise ValueError(f"observation must have shape {shape}, got {observation.shape}")
        shown = self._checked(observation=observation[:, -1] if self.spec.stack > 1 else observation, age=age)
        if (age > oldest).any():
            raise ValueError(f"age must be at most {oldest.tolist()} in this row, got {age.tolist()}")
        return shown

    def _write(self, row: int, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self._ring[name][:, row % self._slots] = value

    def _complete(self, outcome: Mapping[str, Any], shown: Mapping[str, Any]) -> None:
        self._write(self.rows, outcome)
        self._write(self.rows + 1, shown)
        self.rows += 1

    def _gather(self, name: str, rows: np.ndarray, envs: np.ndarray | None = None) -> np.ndarray:
        """A copy [B, K, ...] of one field of environments [B] or all, in absolute rows [K], or [B, K] for each."""
        which = np.arange(self.num_envs) if envs is None else envs
        values: np.ndarray = self._ring[name][which[:, None], rows % self._slots]
        return values

    def _require_layout(self, state: Mapping[str, np.ndarray]) -> None:
        """Raises Mismatch if what `save` returned is of a replay of other sizes."""
        there, here = decode(state["layout"]), self._layout()
        differing = [key for key in {**here, **there} if there.get(key) != here.get(key)]
        if differing:
            raise Mismatch(
                "the saved replay has other sizes: "
                + "; ".join(f"{key} is {there.get(key)} there, {here.get(key)} here" for key in differing)
            )

    def _layout(self) -> dict[str, Any]:
        return {
            "num_envs": self.num_envs,
            "capacity": self._capacity,
            # Omitted if 0, as in earlier versions.
            **({"state_size": self.state_size, "unroll_length": self._unroll_length} if self.state_size else {}),
            **{name: [list(shape), str(dtype)] for name, (shape, dtype) in fields(self.spec).items()},
        }


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


def _segments_in(capacity: int, unroll_length: int) -> int:
    return capacity // unroll_length + 1  # the most unrolls that can start among these rows and the pending one
