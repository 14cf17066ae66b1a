"""Trajectory replay: the latest rows of N environments, and windows of T consecutive rows drawn from them.

Source: "Sample Efficient Actor-Critic with Experience Replay" (Wang et al., 2017), Algorithms 1 and 2: every
environment keeps a memory of its own, and an off-policy call draws one trajectory of k rows from it. The paper does not
say how trajectories are cut: here a window may start at any row, or, with `segments_only`, only where a collected
segment started, as in OpenAI baselines (acer/buffer.py). For a recurrent network windows start there in any case,
because its state is stored there, and go on behind the segment's end: W rows of burn-in, then T rows (Kapturowski et
al. 2019).

Every row has an absolute number, counted from 0 and never reused; row n lies in slot n mod (capacity + 1) of the ring.
Windows are ranges of absolute numbers among the stored ones, so none can straddle the write head. The newest row is
*pending*: its observation is known, its action is not yet; it serves windows as their bootstrap observation. Of each
observation only the newest frame is stored: the older frames are the rows before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from acer_tf.replay.chunks import Chunk, ReplayCorrupt, chunks_from, read_chunk, write_chunk
from acer_tf.replay.rows import SHOWN, blank, fields, invariants, row_bytes, rows_held
from acer_tf.replay.segments import Segments
from acer_tf.replay.storage import prefetch, zeros
from acer_tf.types import Draw, EnvironmentSpec, Memory, TimeStep, Trajectory

Envs = slice | np.ndarray  # which environments: by range or by number
ALL = slice(None)
CHUNK_BYTES = 128 * 2**20  # rows are copied before they are written: this bounds the copy


class TrajectoryReplay:
    """A ring of the last `capacity` rows of each of N environments that move in lockstep.

    The actor calls `start` once, then `append` once per step, and `begin_segment` before each unroll. After `restore`,
    whose environments start anew, it calls `seam` instead of `start`.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        num_envs: int,
        capacity: int,
        unroll_length: int,
        seed: int,
        *,
        segments_only: bool = False,
        state_size: int = 0,
        burn_in: int = 0,
        file: Path | None = None,
    ) -> None:
        """Allocates the ring; the system commits its memory only as rows fill it.

        Args:
            spec: what the environments show, and how many actions they take.
            num_envs: N.
            capacity: acted rows kept per environment.
            unroll_length: T, the rows of every window.
            seed: of the generator that draws the windows; nothing else uses it.
            segments_only: draw only windows that are the first T rows of a collected segment.
            state_size: U, the length of a recurrent network's state; 0 for others, whose windows have no memory.
            burn_in: W, the rows before x_0 of windows that are drawn, where U > 0.
            file: a new file to hold the rows, for a ring larger than memory; None for memory. See `storage.zeros`.

        Raises:
            ValueError: N or T below 1, a negative W, or a capacity with which some environment might have no valid
                window.
            OSError: the file exists, cannot be made, or does not fit on its disk.
        """
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, got {num_envs}")
        if unroll_length < 1:
            raise ValueError(f"unroll_length must be at least 1, got {unroll_length}")
        if burn_in < 0:
            raise ValueError(f"burn_in must be at least 0, got {burn_in}")
        least = self.least_capacity(spec, unroll_length, state_size, burn_in)
        if capacity < least:
            sizes = "unroll_length + stack - 1" if not state_size else "2 unroll_length + burn_in + stack - 1"
            raise ValueError(f"capacity must be at least {sizes} = {least} rows, got {capacity}")
        self._spec = spec
        self._num_envs = num_envs
        self._capacity = capacity
        self._slots = capacity + 1  # one for the pending row
        self._unroll_length = unroll_length
        self._segments_only = segments_only
        self._state_size, self._burn_in = state_size, burn_in if state_size else 0
        self._file = file
        self._generator = np.random.Generator(np.random.PCG64(seed))
        self._ring, self._segments = self._allocate()
        self._rows = 0
        self._started = False
        self._chunks: list[Chunk] = []

    @staticmethod
    def required_bytes(
        spec: EnvironmentSpec, num_envs: int, capacity: int, *, unroll_length: int = 1, state_size: int = 0
    ) -> int:
        """Bytes that a full ring of these sizes occupies; the last two only matter where there is a state."""
        states = 4 * num_envs * state_size * _segments_in(capacity, unroll_length)
        return num_envs * (capacity + 1) * row_bytes(spec) + states

    @staticmethod
    def least_capacity(spec: EnvironmentSpec, unroll_length: int, state_size: int = 0, burn_in: int = 0) -> int:
        """The least capacity with which every environment has a valid window once the ring is full."""
        # Segments start T rows apart, or T + 1 where a resumed run's masked row lies between them.
        return unroll_length + spec.stack - 1 + (unroll_length + burn_in if state_size else 0)

    @property
    def num_envs(self) -> int:
        return self._num_envs

    @property
    def state_size(self) -> int:
        """U, of the recurrent network whose states are stored; 0 for other networks."""
        return self._state_size

    @property
    def rows(self) -> int:
        """Acted rows appended so far per environment, masked ones included."""
        return self._rows

    @property
    def stored(self) -> int:
        """Acted rows held now per environment."""
        return min(self._rows, self._capacity)

    @property
    def draws_together(self) -> bool:
        """Whether `batches` gives those of several updates at once: all of them must have windows of one length."""
        return not self._state_size

    @property
    def can_sample(self) -> bool:
        """Whether every environment has a valid window."""
        starts, low = self._valid_starts()
        return bool((low < len(starts)).all())

    def start(self, observation: np.ndarray, age: np.ndarray) -> None:
        """Makes x_0 the pending row.

        Args:
            observation: [N, *observation_shape] the first observation of every environment's first game, as shown.
            age: [N] uint8 zeros.

        Raises:
            RuntimeError: a row is pending already (after `restore`, call `seam`).
            ValueError: a shape or dtype that is not the specification's, or an age above 0.
        """
        if self._started:
            raise RuntimeError("the replay has a pending row already: call seam() where environments start anew")
        self._write(self._rows, self._shown(observation, age, oldest=np.zeros_like(age)))
        self._started = True

    def append(self, action: np.ndarray, behaviour: np.ndarray, step: TimeStep) -> None:
        """Completes the pending row t; x_{t+1} becomes pending.

        Args:
            action: [N] integers or [N, d] floats, a_t.
            behaviour: [N, A or d] floats, the statistics of μ(·|x_t).
            step: the environments' answer to a_t.

        Raises:
            RuntimeError: no row is pending.
            ValueError: a shape or dtype that is not the specification's, or an age that grew by more than 1, whose
                stack could not be rebuilt. The replay is as before.
        """
        self._require_pending()
        outcome = self._checked(
            action=action, behaviour=behaviour, reward=step.reward, discount=step.discount, mask=step.mask
        )
        age = self._ring["age"][:, self._rows % self._slots]
        shown = self._shown(step.observation, step.age, oldest=np.minimum(age + 1, self._spec.stack - 1))
        self._complete(outcome, shown)

    def begin_segment(self, state: np.ndarray | None = None) -> None:
        """Marks the pending row as the start of a collected segment.

        Args:
            state: [N, U] float32: the behaviour's recurrent network before it reads that row, cleared where the row
                begins an episode. May be left out where U is 0.

        Raises:
            RuntimeError: no row is pending.
            ValueError: the state has another shape.
        """
        self._require_pending()
        state = np.zeros((self._num_envs, 0), np.float32) if state is None else state
        if state.shape != (self._num_envs, self._state_size):
            raise ValueError(f"state must have shape {(self._num_envs, self._state_size)}, got {state.shape}")
        self._segments.begin(self._rows, self._rows - self.stored, state)

    def seam(self, observation: np.ndarray, age: np.ndarray) -> None:
        """Joins environments that started anew onto the stored rows, as after an ordinary truncation.

        The pending row becomes a masked one (discount 1, reward 0), and `observation` becomes pending. Where the row
        before ended its game, this is the masked row that would have followed anyway.

        Args:
            observation: [N, *observation_shape] what the environments' reset shows.
            age: [N] uint8 zeros.

        Raises:
            RuntimeError: no row is pending.
            ValueError: as `start`.
        """
        self._require_pending()
        shown = self._shown(observation, age, oldest=np.zeros_like(age))
        # An interrupted actor may have marked this row, but it never chose the segment's first action.
        self._segments.forget(self._rows)
        behaviour = 0 if self._spec.continuous else 1 / self._spec.num_actions
        masked = {"action": 0, "reward": 0, "discount": 1, "mask": False, "behaviour": behaviour}
        self._complete(masked, shown)

    def latest(self, envs: Envs = ALL) -> Trajectory:
        """The last T rows of environments `envs`, in fresh arrays: an on-policy batch, B = as many as these are.

        Raises:
            RuntimeError: fewer than T rows are stored, or a recurrent network's state is not, because the last segment
                is no unroll.
        """
        which = np.arange(self._num_envs)[envs]
        return self._windows(np.full(which.shape, self._latest_start()), which)

    def sample(self, envs: Envs = ALL) -> Trajectory:
        """One window of each of `envs` in fresh arrays: uniform over the environment's valid starts.

        A start is valid if its W + T rows and its bootstrap observation are stored, and so are the S-1 frames before it
        or its episode's first one; with U > 0, if a state is, too. Planes older than `age` hold other frames, or zeros:
        the reader blanks them.

        Raises:
            RuntimeError: some environment has no valid window yet (see `can_sample`).
        """
        which = np.arange(self._num_envs)[envs]
        return self._windows(self._drawn_starts(which), which, self._burn_in)

    def batches(self, latest: np.ndarray, envs: np.ndarray, progress: float = 0.0) -> Draw:
        """What M updates learn from: `latest` or `sample` of row i of `envs`, one after another, in fresh arrays.

        Args:
            latest: [M] bool, which of the two.
            envs: [M, B] numbers of environments.
            progress: the share of the run that is done; changes nothing here.

        Returns:
            Trajectories [M, B, T, ...]. M is 1 where not `draws_together`.

        Raises:
            RuntimeError: as `latest` and `sample`.
        """
        starts = np.empty(envs.shape, np.int64)
        if latest.any():
            starts[latest] = self._latest_start()
        if not latest.all():
            starts[~latest] = self._drawn_starts(envs[~latest])
        windows = self._windows(starts.ravel(), envs.ravel(), 0 if latest.all() else self._burn_in)
        return Draw(windows.reshaped(*envs.shape))

    def blank(self, envs: Envs = ALL) -> Trajectory:
        """Zeros in the shapes of what `sample` gives."""
        rows = self._unroll_length
        count = len(np.arange(self._num_envs)[envs])
        return blank(self._spec, count, rows, self._burn_in, self._state_size)

    def refresh(self, draw: Draw, errors: np.ndarray) -> None:
        """Takes notice of the errors [B] that an update found in what was drawn; changes nothing here."""

    def save(self, folder: Path) -> dict[str, np.ndarray]:
        """Writes the rows that `folder` lacks as chunk files, and returns the rest of the state as small arrays.

        States saved earlier stay whole, and share the files of the rows that they have in common with this one. Stored
        rows whose file is gone are written again.

        Raises:
            OSError: the disk is full, or not writable.
        """
        folder.mkdir(parents=True, exist_ok=True)
        end = self._rows - self.stored
        chunks = chunks_from(end, self._chunks, folder)
        if chunks:
            end = chunks[-1].last
        rows_per_chunk = max(1, CHUNK_BYTES // (self._num_envs * row_bytes(self._spec)))
        while self._started and (end < self._rows or not chunks):
            last = min(end + rows_per_chunk, self._rows)
            arrays = {name: self._gather(name, rows_held(name, end, last)) for name in self._ring}
            chunks.append(write_chunk(folder, end, last, arrays))
            end = last
        self._chunks = chunks
        return {
            "layout": _encode(self._layout()),
            "rows": np.asarray(self._rows, np.int64),
            **self._segments.save(),
            "chunks": np.asarray(chunks, np.int64).reshape(-1, 3),
            "generator": _encode(self._generator.bit_generator.state),
        }

    def restore(self, folder: Path, state: Mapping[str, np.ndarray]) -> None:
        """Brings back what `save` returned and wrote. If it raises, the replay is as before.

        The pending row is back too: environments that start anew are joined on by `seam`.

        Raises:
            ValueError: the state is of a replay of other sizes.
            ReplayCorrupt: a chunk file is missing, damaged, or not the one that was saved.
        """
        there, here = _decode(state["layout"]), self._layout()
        differing = [key for key in {**here, **there} if there.get(key) != here.get(key)]
        if differing:
            raise ValueError(
                "the saved replay has other sizes: "
                + "; ".join(f"{key} is {there.get(key)} there, {here.get(key)} here" for key in differing)
            )
        rows = int(state["rows"])
        chunks = [Chunk(*numbers) for numbers in state["chunks"].tolist()]
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = _decode(state["generator"])
        ring, segments = self._allocate()
        segments.restore(state)
        end = max(0, rows - self._capacity)
        for chunk in chunks:
            if chunk.first > end:
                break
            for name, values in read_chunk(folder, chunk).items():
                # Rows that were no longer stored give way to later ones, as they did when these were appended.
                ring[name][:, rows_held(name, chunk.first, chunk.last) % self._slots] = values
            end = chunk.last
        if end != rows:
            raise ReplayCorrupt(f"the saved replay's chunk files end at row {end}, its state at row {rows}")
        self._ring, self._segments, self._rows, self._started = ring, segments, rows, bool(chunks)
        self._chunks, self._generator = chunks, generator

    @staticmethod
    def chunk_files(state: Mapping[str, np.ndarray]) -> list[str]:
        """Names of the chunk files that a state returned by `save` refers to, oldest rows first.

        Whatever else lies in the folder belongs to no state and may be deleted.
        """
        return [Chunk(*numbers).name for numbers in state["chunks"].tolist()]

    def check_valid(self) -> None:
        """Checks every invariant of what is stored; for tests, and for whoever feeds the replay from a new source.

        Raises:
            AssertionError: naming the invariant that does not hold.
        """
        first = self._rows - self.stored
        age = self._gather("age", np.arange(first, self._rows + 1)).astype(int)
        row = {name: self._gather(name, np.arange(first, self._rows)) for name in self._ring if name not in SHOWN}
        segments, chunks = self._segments.starts, self._chunks
        for holds, invariant in (
            (self._started or self._rows == 0, "rows are appended only after start()"),
            *invariants(self._spec, first, age, row),
            ((np.diff(segments) > 0).all() and (segments <= self._rows).all(), "segments start in order"),
            (all(a.last == b.first for a, b in zip(chunks, chunks[1:], strict=False)), "chunks leave no gap"),
            (not chunks or chunks[-1].last <= self._rows, "chunks hold no later rows"),
        ):
            if not holds:
                raise AssertionError(f"replay invariant broken: {invariant}")

    def _allocate(self) -> tuple[dict[str, np.ndarray], Segments]:
        lead = (self._num_envs, self._slots)
        arrays = {name: ((*lead, *shape), dtype) for name, (shape, dtype) in fields(self._spec).items()}
        shape = (_segments_in(self._capacity, self._unroll_length), self._num_envs, self._state_size)
        if not self._state_size:
            return zeros(arrays, self._file), Segments(np.zeros(shape, np.float32))
        ring = zeros({**arrays, "state": (shape, np.dtype(np.float32))}, self._file)
        return ring, Segments(ring.pop("state"))

    def _require_pending(self) -> None:
        if not self._started:
            raise RuntimeError("the replay has no pending row: call start() first")

    def _checked(self, **values: np.ndarray) -> dict[str, np.ndarray]:
        stored = fields(self._spec)
        for name, value in values.items():
            shape, dtype = stored[name]
            if value.shape != (self._num_envs, *shape):
                raise ValueError(f"{name} must have shape {(self._num_envs, *shape)}, got {value.shape}")
            if not np.can_cast(value.dtype, dtype, "same_kind"):
                raise ValueError(f"{name} must have dtype {dtype}, got {value.dtype}")
        return values

    def _shown(self, observation: np.ndarray, age: np.ndarray, oldest: np.ndarray) -> dict[str, np.ndarray]:
        shape = (self._num_envs, *self._spec.observation_shape)
        if observation.shape != shape:
            raise ValueError(f"observation must have shape {shape}, got {observation.shape}")
        shown = self._checked(observation=observation[:, -1] if self._spec.stack > 1 else observation, age=age)
        if (age > oldest).any():
            raise ValueError(f"age must be at most {oldest.tolist()} in this row, got {age.tolist()}")
        return shown

    def _write(self, row: int, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self._ring[name][:, row % self._slots] = value

    def _complete(self, outcome: Mapping[str, Any], shown: Mapping[str, Any]) -> None:
        self._write(self._rows, outcome)
        self._write(self._rows + 1, shown)
        self._rows += 1

    def _gather(self, name: str, rows: np.ndarray, envs: Envs = ALL) -> np.ndarray:
        """A copy [B, K, ...] of one field of `envs` (numbers [B]) in absolute rows [K], or in each one's own [B, K]."""
        values: np.ndarray = self._ring[name][np.arange(self._num_envs)[envs, None], rows % self._slots]
        return values

    def _valid_starts(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows [K] at which windows start, in order, and per environment [N] the index of its first valid one."""
        first, last = self._rows - self.stored, self._rows - self._burn_in - self._unroll_length
        if self._state_size:
            starts = self._segments.starts[self._segments.starts <= last]
        elif self._segments_only:
            lengths = np.diff(self._segments.starts, append=self._rows)
            starts = self._segments.starts[lengths >= self._unroll_length]
        else:
            starts = np.arange(first, last + 1)
        # As age grows by at most 1 per row, a valid start has only valid ones after it: to count the invalid rows is to
        # find the first valid one, at most S - 1 rows in.
        oldest = np.arange(self._spec.stack - 1)
        whole = first + (self._gather("age", first + oldest) > oldest).sum(axis=1)
        return starts, np.searchsorted(starts, whole)

    def _latest_start(self) -> int:
        if self.stored < self._unroll_length:
            raise RuntimeError(f"latest() needs {self._unroll_length} rows per environment, {self.stored} are stored")
        start = self._rows - self._unroll_length
        if self._state_size and (not len(self._segments.starts) or self._segments.starts[-1] != start):
            raise RuntimeError(f"latest() needs a state at row {start}; the last is at {self._segments.starts[-1:]}")
        return start

    def _drawn_starts(self, envs: np.ndarray) -> np.ndarray:
        """A valid start, drawn uniformly, for each of `envs`, in their order."""
        starts, low = self._valid_starts()
        if not (low < len(starts)).all():
            whole = "of one collected segment " if self._segments_only else ""
            raise RuntimeError(
                f"sample() needs {self._burn_in + self._unroll_length} rows {whole}per environment, {self.stored} rows "
                "are stored"
            )
        return np.asarray(starts[self._generator.integers(low[envs], len(starts))])

    def _windows(self, starts: np.ndarray, which: np.ndarray, burn_in: int = 0) -> Trajectory:
        """The windows that start at the given rows [B] with the burn-in, one for each of environments `which` [B]."""
        seen = starts[:, None] + np.arange(burn_in + self._unroll_length)
        rows = seen[:, burn_in:]
        frames = starts[:, None] + np.arange(1 - self._spec.stack, burn_in + self._unroll_length + 1)
        if self._file is not None:
            prefetch(self._ring["observation"], which, frames[:, 0] % self._slots, frames.shape[1])
        observation = self._gather("observation", frames, which)
        # The slot of a row that is not stored may hold anything; a restored replay would not hold the same.
        observation[frames < self._rows - self.stored] = 0
        return Trajectory(
            observation=observation,
            age=self._gather("age", frames[:, self._spec.stack - 1 :], which),
            **{name: self._gather(name, rows, which) for name in self._ring if name not in SHOWN},
            memory=self._memory(starts, which, self._gather("mask", seen, which)) if self._state_size else None,
        )

    def _memory(self, starts: np.ndarray, which: np.ndarray, mask: np.ndarray) -> Memory:
        """Of windows [B] of environments [B] whose acted rows, burn-in included, have this mask."""
        carry = np.concatenate([np.ones((len(mask), 1), bool), mask], axis=1)
        return Memory(self._segments.states(starts, which), carry)

    def _layout(self) -> dict[str, Any]:
        return {
            "num_envs": self._num_envs,
            "capacity": self._capacity,
            # Where it is 0 it is left out, as by earlier versions.
            **({"state_size": self._state_size, "unroll_length": self._unroll_length} if self._state_size else {}),
            **{name: [list(shape), str(dtype)] for name, (shape, dtype) in fields(self._spec).items()},
        }


def _segments_in(capacity: int, unroll_length: int) -> int:
    """Segments that may start among so many rows, the pending one among them, where each is an unroll."""
    return capacity // unroll_length + 1


def _encode(value: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _decode(array: np.ndarray) -> Any:
    return json.loads(bytes(array))
