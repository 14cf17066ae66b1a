"""The rows of N environments in a ring: appending, saving and restoring them.

Every row has an absolute number, counted from 0 and never reused; row n is in slot n mod (capacity + 1) of the ring.
The newest row is *pending*: its observation is known, its action is not yet. Only the newest frame of each observation
is stored: the older frames are in the rows before it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from acer_tf.errors import Mismatch
from acer_tf.replay.chunks import Chunk, ReplayCorrupt, chunks_from, decode, encode, read_chunk, write_chunk
from acer_tf.replay.storage import zeros
from acer_tf.types import EnvironmentSpec, PerLeaf, Unroll, by_field, map_leaves

SHOWN = ("observation", "age", "legal")  # the fields that the pending row has already
CHUNK_BYTES = 128 * 2**20  # rows are copied before they are written: this bounds the copy


class Segments:
    """The first rows of the latest unrolls of N environments in lockstep, with a recurrent state [N, U] at each.

    States are stored per unroll, not per row, because U is much larger than most observations: in `ring` [K, N, U], for
    the newest K segments. With U = 0 the number of segments is not bounded.
    """

    def __init__(self, ring: np.ndarray) -> None:
        self.starts = np.zeros(0, np.int64)  # absolute rows, in order
        self._begun = 0  # segments ever begun; the state of the last is in slot (_begun - 1) mod K
        self._ring, self._most = ring, len(ring) if ring.shape[2] else 0

    def begin(self, row: int, first: int, state: np.ndarray) -> None:
        """Adds the start `row` with its state [N, U], and drops the starts before row `first`."""
        self.starts = np.append(self.starts[self.starts >= first], row)
        self._begun += 1
        if self._most:
            self._ring[(self._begun - 1) % self._most] = state
            self.starts = self.starts[-self._most :]

    def states(self, starts: np.ndarray, envs: np.ndarray) -> np.ndarray:
        """A copy [..., U] of the states at the given starts [...] of the given environments [...]."""
        back = len(self.starts) - np.searchsorted(self.starts, starts)
        return self._ring[(self._begun - back) % self._most, envs]

    def state(self) -> dict[str, np.ndarray]:
        slots = (self._begun - np.arange(len(self.starts), 0, -1)) % max(1, self._most)
        return {"segments": self.starts.copy(), "states": self._ring[slots]}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.starts = np.array(state["segments"], np.int64)
        self._begun = len(self.starts)
        if self._most:
            self._ring[: self._begun] = state["states"]


class Ring:
    """The last `capacity` rows of each of N environments that move in lockstep.

    The collector calls `reset` when the environments have been reset, then `append` with each unroll. `rows` counts the
    acted rows appended so far per environment, masked ones included; `started` says whether a row is pending.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        num_envs: int,
        capacity: int,
        unroll_length: int,
        *,
        state_size: int,
        segments: bool,
        file: Path | None,
    ) -> None:
        """Allocates the ring; see `TrajectoryReplay`. With `segments` the starts of unrolls are kept."""
        self.spec, self.num_envs, self.state_size = spec, num_envs, state_size
        self._capacity, self._unroll_length, self._file = capacity, unroll_length, file
        self._slots = capacity + 1  # one for the pending row
        self._keeps_segments = segments
        arrays = {name: ((num_envs, self._slots, *shape), dtype) for name, (shape, dtype) in fields(spec).items()}
        states = (_segments_in(capacity, unroll_length), num_envs, state_size)
        self._ring = zeros({**arrays, "state": (states, np.dtype(np.float32))}, file)
        self._segments = Segments(self._ring.pop("state"))
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

    def close(self) -> None:
        """Gives the memory or the file of the ring back, which nothing may use then."""
        self._ring, self._segments = {}, Segments(np.zeros((0, self.num_envs, self.state_size), np.float32))

    @property
    def stored(self) -> int:
        """Acted rows stored now per environment."""
        return min(self.rows - self._lost, self._capacity)

    def reset(self, observation: PerLeaf, age: np.ndarray, legal: np.ndarray | None = None) -> None:
        """Makes the first observations of environments that were reset the pending row.

        If a row is pending already, as after `restore`, it becomes a masked row (discount 1, reward 0), so that the
        interruption looks like a truncation. Where the row before it ended an episode, this is the masked row that
        would have followed anyway. Takes the newest frames [N, *frame_shape], ages [N] uint8, zeros, and where there
        are masks the valid actions [N, A] bool.
        """
        if self.started:
            masked = {"action": 0, "reward": 0, "discount": 1, "mask": False, "behaviour": self.spec.masked_statistic}
            for name, value in masked.items():
                self._ring[name][:, self.rows % self._slots] = value
            self.rows += 1
        first = {"observation": observation, "age": age}
        first |= {"legal": legal} if self.spec.action_masks else {}
        self._write({name: value[:, None] for name, value in by_field(first).items()}, self.rows)
        self.started = True

    def append(self, unroll: Unroll) -> None:
        """Completes the pending row and the k - 1 rows after it; x_k becomes pending.

        The first observation of the unroll is not read, since it is pending already. (It is another one where an actor
        took the place of a lost one: row 0 is then masked.)

        Raises:
            RuntimeError: no row is pending.
        """
        if not self.started:
            raise RuntimeError("the replay has no pending row: call reset() first")
        if self._keeps_segments:
            self._segments.begin(self.rows, self.rows - self.stored, unroll.state)
        values = by_field(unroll._asdict())
        self._write({name: values[name] for name in self._ring if not is_shown(name)}, self.rows)
        self._write({name: values[name][:, 1:] for name in self._ring if is_shown(name)}, self.rows + 1)
        self.rows += unroll.reward.shape[1]

    def save(self, folder: Path) -> dict[str, np.ndarray]:
        """Writes the rows that `folder` lacks as chunk files, and returns the rest of the state as small arrays.

        States saved earlier remain valid and share the files of common rows. Rows whose file is missing are written
        again.

        Raises:
            OSError: the disk is full or not writable.
        """
        folder.mkdir(parents=True, exist_ok=True)
        chunks = chunks_from(self.rows - self.stored, self._chunks, folder)
        end = chunks[-1].last if chunks else self.rows - self.stored
        rows_per_chunk = max(1, CHUNK_BYTES // (self.num_envs * row_bytes(self.spec)))
        while self.started and (end < self.rows or not chunks):
            last = min(end + rows_per_chunk, self.rows)
            arrays = {name: self._gather(name, rows_held(name, end, last)) for name in self._ring}
            chunks.append(write_chunk(folder, end, last, arrays))
            end = last
        self._chunks = chunks
        counters = {"rows": np.asarray(self.rows, np.int64), "lost": np.asarray(self._lost, np.int64)}
        files = {"chunks": np.asarray(chunks, np.int64).reshape(-1, 3)}
        return {"layout": encode(self._layout()), **counters, **self._segments.state(), **files}

    def restore(self, folder: Path, state: Mapping[str, np.ndarray], *, salvage: bool = False) -> None:
        """Restores what `save` returned and wrote, the pending row included, into a replay without rows.

        With `salvage` it goes without the rows of a corrupt chunk, and those before it. If that leaves none, no row is
        pending. If it raises, the replay is still without rows: disk or memory may have no room for two.

        Raises:
            RuntimeError: the replay holds rows.
            Mismatch: the state is of a replay of other sizes.
            ReplayCorrupt: a chunk file is missing, damaged, or another than was saved.
        """
        if self.started:
            raise RuntimeError("only a replay without rows can be restored")
        there, here = decode(state["layout"]), self._layout()
        if there != here:
            differing = [key for key in here | there if there.get(key) != here.get(key)]
            sizes = "; ".join(f"{key} is {there.get(key)} there, {here.get(key)} here" for key in differing)
            raise Mismatch(f"the saved replay has other sizes: {sizes}")
        rows, lost = int(state["rows"]), int(state["lost"])
        chunks: list[Chunk] = []
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
                self._ring[name][:, rows_held(name, chunk.first, chunk.last) % self._slots] = values
            chunks.append(chunk)
        if end != rows:
            raise ReplayCorrupt(f"the saved replay's chunk files end at row {end}, its state at row {rows}")
        self._segments.restore(state)
        self.rows, self._lost, self._chunks, self.started = rows, lost, chunks, bool(chunks)

    @staticmethod
    def chunk_files(state: Mapping[str, np.ndarray]) -> list[str]:
        """Names of the chunk files that a state from `save` needs, oldest rows first; others may be deleted."""
        return [Chunk(*numbers).name for numbers in state["chunks"].tolist()]

    def _write(self, values: Mapping[str, np.ndarray], first: int) -> None:
        """Writes rows [N, K, ...] of some fields from row `first` on."""
        for name, value in values.items():
            if name == "legal":
                value = np.packbits(value, axis=-1)
            self._ring[name][:, np.arange(first, first + value.shape[1]) % self._slots] = value

    def _gather(self, name: str, rows: np.ndarray, envs: np.ndarray | None = None) -> np.ndarray:
        """A copy [..., K, ...] of one field in absolute rows [..., K] of `envs` [...]; None: rows [K] of all [N]."""
        which = np.arange(self.num_envs) if envs is None else envs
        values: np.ndarray = self._ring[name][which[..., None], rows % self._slots]
        return values

    def _layout(self) -> dict[str, Any]:
        return {
            "num_envs": self.num_envs,
            "capacity": self._capacity,
            "state_size": self.state_size,
            "unroll_length": self._unroll_length,
            **{name: [list(shape), str(dtype)] for name, (shape, dtype) in fields(self.spec).items()},
        }


def fields(spec: EnvironmentSpec) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and dtype per environment and row, under the names that `by_field` gives those of `Trajectory`.

    Masks of actions are kept as bits.
    """
    observation = map_leaves(lambda shape, dtype: (shape, np.dtype(dtype)), spec.frame_shape, spec.observation_dtype)
    return {
        **by_field({"observation": observation}),
        "age": ((), np.dtype(np.uint8)),
        "action": (spec.action_shape, np.dtype(spec.action_dtype)),
        "reward": ((), np.dtype(np.float32)),
        "discount": ((), np.dtype(np.float32)),
        "mask": ((), np.dtype(np.bool_)),
        "behaviour": ((spec.statistics_size,), np.dtype(np.float32)),
        **({"legal": ((-(-spec.num_actions // 8),), np.dtype(np.uint8))} if spec.action_masks else {}),
    }


def row_bytes(spec: EnvironmentSpec) -> int:
    """Size of one environment's row in bytes."""
    return sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in fields(spec).values())


def rows_held(name: str, first: int, last: int) -> np.ndarray:
    """The rows of a field in the chunk [first, last): those of `SHOWN` also have the bootstrap row `last`."""
    return np.arange(first, last + is_shown(name))


def is_shown(field: str) -> bool:
    """Whether the pending row has the field already."""
    return of_which(field) in SHOWN


def of_which(field: str) -> str:
    """The name in `Trajectory` of a field, or of what it is a leaf of."""
    return field.partition("/")[0]


def _segments_in(capacity: int, unroll_length: int) -> int:
    return capacity // unroll_length + 1  # the most unrolls that can start among these rows and the pending one
