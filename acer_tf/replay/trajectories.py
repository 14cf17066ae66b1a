"""Trajectory replay: windows of T consecutive rows, drawn from the latest rows of N environments.

Source: "Sample Efficient Actor-Critic with Experience Replay" (Wang et al., 2017), Algorithms 1 and 2: every
environment has a separate memory, and an off-policy update draws one trajectory of k rows from it. The paper does not
say how trajectories are cut: here a window may start at any row, or, with `segments_only`, only at the start of a
collected segment, as in OpenAI baselines (acer/buffer.py). For a recurrent network windows always start there, because
its state is stored there; they have W rows of burn-in, then T rows (Kapturowski et al. 2019).

A window is a range of absolute numbers of stored rows, so it cannot straddle the write position of the ring. The
pending row may serve as its bootstrap observation.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from acer_tf.replay.chunks import decode, encode
from acer_tf.replay.ring import Ring, fields, is_shown, of_which
from acer_tf.replay.storage import prefetch
from acer_tf.types import Batch, EnvironmentSpec, RecurrentContext, Trajectory, of_fields


class TrajectoryReplay(Ring):
    """A `Ring` from which windows are drawn, uniformly over the starts that are valid."""

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
        """Allocates the ring; memory is committed only as rows fill it.

        Args:
            spec, num_envs: see `Ring`.
            capacity: the number of acted rows stored per environment.
            unroll_length: T, the rows of every window.
            seed: seeds the generator that draws the windows, and nothing else.
            segments_only: draw only the first T rows of collected segments.
            state_size: U, the length of the recurrent state; 0 for other networks, whose windows have no `memory`.
            burn_in: W, the rows before x_0 in drawn windows, if U > 0.
            file: a new file to hold the rows, for a ring larger than memory; None for memory. See `storage.zeros`.

        Raises:
            ValueError: a capacity below `least_capacity`.
            OSError: the file exists, cannot be made, or does not fit on its disk.
        """
        least = self.least_capacity(spec, unroll_length, state_size, burn_in)
        if capacity < least:
            windows = f"windows of {unroll_length} rows, frame stacks of {spec.stack} and burn_in {burn_in}"
            raise ValueError(f"capacity must be at least {least} rows, for {windows}; got {capacity}")
        segments = segments_only or state_size > 0
        super().__init__(spec, num_envs, capacity, unroll_length, state_size=state_size, segments=segments, file=file)
        self.draws_together = not state_size  # `batch` can draw for several updates, with windows of equal length
        self._segments_only = segments_only
        self._burn_in = burn_in if state_size else 0
        self.reseed(seed)

    @staticmethod
    def least_capacity(spec: EnvironmentSpec, unroll_length: int, state_size: int = 0, burn_in: int = 0) -> int:
        """The least capacity with which every environment of a full ring has a valid window after a whole unroll."""
        # Segments start T rows apart, or T + 1 with a resumed run's masked row between them.
        return unroll_length + spec.stack - 1 + (unroll_length + burn_in if state_size else 0)

    def reseed(self, seed: int) -> None:
        """Begins the generator that draws the windows anew."""
        self._generator = np.random.Generator(np.random.PCG64(seed))

    @property
    def can_sample(self) -> bool:
        """Whether every environment has a valid window."""
        starts, low = self._valid_starts()
        return bool((low < len(starts)).all())

    def batch(self, latest: np.ndarray, envs: np.ndarray, progress: float = 0.0) -> Batch:
        """The data of M consecutive updates, each of one window of B environments, in new arrays.

        A window is the environment's last T rows, or drawn uniformly over its valid starts. A start is valid if its
        W + T rows, the bootstrap observation, and the S-1 frames before it (or those since the episode's first) are
        stored; with U > 0, also a state. Frames older than `age` are arbitrary: the reader must blank them.

        Args:
            latest: [M] bool: True for the last T rows, which must be stored, and for a recurrent network be an unroll;
                False for a drawn window, which needs `can_sample`. M must be 1 unless `draws_together`.
            envs: [M, B] numbers of environments.
            progress: share of the run that is done, in [0, 1]; unused here.
        """
        starts = np.full(envs.shape, self.rows - self._unroll_length, np.int64)
        if not latest.all():
            valid, low = self._valid_starts()
            starts[~latest] = self.draw_starts(valid, low[envs[~latest]], self._generator)
        windows = self._windows(starts, envs, 0 if latest.all() else self._burn_in)
        return Batch(windows, np.ones(envs.shape, np.float32))

    def draw_starts(self, valid: np.ndarray, first: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """The rows at which drawn windows start: here uniform over the valid ones. A subclass may draw others.

        Args:
            valid: [K] rows at which windows may start, from the oldest to the newest.
            first: [...] the index in `valid` of the first that each drawn window may take, below K.
            generator: all draws are made with it, so that a run that resumes continues them.
        """
        return valid[generator.integers(first, len(valid))]

    def blank(self, updates: int, trajectories: int) -> Batch:
        """Zeros in the shapes of M = `updates` replayed updates of B = `trajectories`."""
        lead = (updates, trajectories)
        seen = self._burn_in + self._unroll_length + 1
        lengths = {"observation": self.spec.stack - 1 + seen, "age": seen, "legal": self._unroll_length + 1}
        arrays = of_fields(
            {
                name: np.zeros((*lead, lengths.get(of_which(name), self._unroll_length), *shape), dtype)
                for name, (shape, dtype) in fields(self.spec).items()
            }
        )
        if self.spec.action_masks:
            arrays["legal"] = self._unpacked(arrays["legal"])
        memory = RecurrentContext(np.zeros((*lead, self.state_size), np.float32), np.zeros((*lead, seen), bool))
        return Batch(Trajectory(**arrays, memory=memory if self.state_size else None), np.zeros(lead, np.float32))

    def update_priorities(self, batch: Batch, errors: np.ndarray) -> None:
        """Takes the errors [M, B] that the updates found in a batch; does nothing here."""

    def save(self, folder: Path) -> dict[str, np.ndarray]:
        return super().save(folder) | {"generator": encode(self._generator.bit_generator.state)}

    def restore(self, folder: Path, state: Mapping[str, np.ndarray], *, salvage: bool = False) -> None:
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = decode(state["generator"])
        super().restore(folder, state, salvage=salvage)
        self._generator = generator

    def _valid_starts(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows [K] at which windows may start, in order, and for each environment [N] the index of the first valid."""
        first, last = self.rows - self.stored, self.rows - self._burn_in - self._unroll_length
        if self.state_size:
            starts = self._segments.starts[self._segments.starts <= last]
        elif self._segments_only:
            lengths = np.diff(self._segments.starts, append=self.rows)
            starts = self._segments.starts[lengths >= self._unroll_length]
        else:
            starts = np.arange(first, last + 1)
        # Age grows by at most 1 per row, so every start after a valid one is valid, and only the first S - 1 rows can
        # be invalid: counting the invalid ones gives the first valid row.
        oldest = np.arange(self.spec.stack - 1)
        whole = first + (self._gather("age", first + oldest) > oldest).sum(axis=1)
        return starts, np.searchsorted(starts, whole)

    def _windows(self, starts: np.ndarray, which: np.ndarray, burn_in: int = 0) -> Trajectory:
        """The windows of environments `which` [...] whose burn-in starts at the rows `starts` [...]."""
        seen = starts[..., None] + np.arange(burn_in + self._unroll_length)
        rows = seen[..., burn_in:]
        frames = starts[..., None] + np.arange(1 - self.spec.stack, burn_in + self._unroll_length + 1)
        values = {name: self._gather(name, rows, which) for name in self._ring if not is_shown(name)}
        for name in (name for name in self._ring if of_which(name) == "observation"):
            if self._file is not None:
                first = frames[..., 0] % self._slots
                prefetch(self._ring[name], which.ravel(), first.ravel(), frames.shape[-1])
            values[name] = self._gather(name, frames, which)
            # The slots of rows that are not stored differ between a replay and its restored copy.
            values[name][frames < self.rows - self.stored] = 0
        memory = None
        if self.state_size:
            carry = np.concatenate([np.ones_like(seen[..., :1], bool), self._gather("mask", seen, which)], axis=-1)
            memory = RecurrentContext(self._segments.states(starts, which), carry)
        values["age"] = self._gather("age", frames[..., self.spec.stack - 1 :], which)
        if self.spec.action_masks:
            shown = frames[..., self.spec.stack - 1 + burn_in :]
            values["legal"] = self._unpacked(self._gather("legal", shown, which))
        return Trajectory(**of_fields(values), memory=memory)

    def _unpacked(self, bits: np.ndarray) -> np.ndarray:
        """Masks [..., A] bool of the bits [...] that are stored."""
        return np.unpackbits(bits, axis=-1, count=self.spec.num_actions).view(bool)
