"""The data that flows through the package: every field's shape, dtype and time index.

    environments ── TimeStep ──► actor ── Unroll ──► replay ── Batch of Trajectory ──► update

Notation: N environments, M updates of B trajectories each, T rows, S stacked frames, A discrete actions or d components
of a continuous one. Recurrent networks have a state of U numbers (other networks: U = 0) and W rows of burn-in before
x_0. Row t holds what was known when a_t was chosen, and what the environment returned for a_t. Axes come in this order:
updates, environments or trajectories, rows, then those of one row.

An observation is an array, or a dictionary of arrays by name, its leaves: `map_leaves` applies a function to the one or
to each of the others. Shapes of observations below are those of each leaf; only single arrays are stacked (S > 1).

Reset convention (NEXT_STEP): after a_t ends an episode, x_{t+1} is the true final observation. Row t+1 is a *masked*
row: the environment ignores its action and returns x_{t+2}, the first observation of the next episode. Some vector
environments pause all of their copies in such a row: elsewhere its x_{t+2} is x_{t+1}, and the episode goes on.

Action masks belong to observations: `legal` says which actions x_t allows, and is None where the environment gives no
masks. Every row has at least one. At the final observation of a truncated episode, from which V is bootstrapped, it is
what the environment gave there, or all actions if that is nothing or none of them; where an episode terminated, and
nothing is read, it is all actions.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

PerLeaf = Any  # a value for an observation's array, or a dictionary of them by the names of its leaves


def map_leaves(function: Callable[..., Any], *observations: PerLeaf) -> PerLeaf:
    """What `function` makes of each leaf of observations with the same leaves, or of the arrays that they are."""
    first = observations[0]
    if isinstance(first, dict):
        return {name: function(*(each[name] for each in observations)) for name in first}
    return function(*observations)


def leaves_of(observation: PerLeaf) -> list[Any]:
    """The observation's leaves in alphabetical order, or the array that it is."""
    return [observation[name] for name in sorted(observation)] if isinstance(observation, dict) else [observation]


def tuples_of(value: Any) -> Any:
    """Nested lists as nested tuples."""
    return tuple(map(tuples_of, value)) if isinstance(value, list) else value


def input_name(leaf: str) -> str:
    """The input of exported policies that takes the leaf."""
    return "observation_" + re.sub(r"[^0-9a-z]", "_", leaf.lower())  # TensorFlow's are in lower case


def by_field(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` with those that are dictionaries replaced by their entries, named "VALUE/ENTRY"."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= {f"{name}/{leaf}": entry for leaf, entry in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def of_fields(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `by_field`."""
    values: dict[str, Any] = {}
    for field, value in flat.items():
        name, leaf, entry = field.partition("/")
        if leaf:
            values.setdefault(name, {})[entry] = value
        else:
            values[name] = value
    return values


def in_dtype(name: str, values: np.ndarray, dtype: str) -> np.ndarray:
    """`values` in `dtype`; ValueError if they have a dtype of another kind, or are not integers or finite there."""
    whole = dtype != "float32"
    if values.dtype.kind not in ("biu" if whole else "biuf"):
        raise ValueError(f"expected {dtype} {name}, got {values.dtype}")
    with np.errstate(over="ignore"):
        cast = values.astype(dtype, copy=False)
    if whole and (lost := cast != values).any():
        raise ValueError(f"expected {dtype} {name}, got {values.dtype} {values[lost][0]}")
    if not (finite := np.isfinite(cast)).all():
        raise ValueError(f"expected finite {dtype} {name}, got {values[~finite][0]}")
    return cast


@dataclasses.dataclass(frozen=True)
class EnvironmentSpec:
    """What an agent must know about an environment to act in it.

    Attributes:
        observation_shape: the shape of one observation; with frame stacking [S, height, width], oldest frame first. If
            observations are dictionaries, these three are too, with the names of the leaves in alphabetical order.
        observation_dtype: NumPy name: "uint8", "bool" or "float32".
        stack: S, the number of stacked frames; 1 without stacking.
        num_actions: A, the number of discrete actions; 0 if actions are continuous.
        frames_per_step: emulator frames in one agent step (4 for Atari, else 1).
        action_low: lower bound of each component of a continuous action, in the environment's units; else ().
        action_high: the upper bounds. Policies act in [-1, 1]^d; environments clip, then scale to these bounds.
        action_start: the environment's number of the first discrete action. Agents count from 0, exported policies
            answer with the environment's own actions.
        action_sizes: if the environment's discrete action is an array, the number of values of each of its entries,
            nested as the array's axes; an entry counts from that of `action_start`. Agents choose among the A = Π sizes
            combinations, which are numbered with the last entry first.
        observation_scale: what networks divide observations by, from the bounds of the environment's space: the largest
            number of uint8 observations, and the upper bound of images of other numbers from 0 (not bool), at least 1;
            None if observations are read as they are.
        action_masks: whether every observation comes with a mask of the actions that are valid there.
    """

    observation_shape: PerLeaf  # tuple[int, ...]
    observation_dtype: PerLeaf  # str
    stack: int
    num_actions: int
    frames_per_step: int = 1
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()
    action_start: Any = 0
    observation_scale: PerLeaf = None  # float | None
    action_sizes: tuple[Any, ...] = ()
    action_masks: bool = False

    def __post_init__(self) -> None:
        if (self.num_actions > 0) == self.continuous or len(self.action_high) != self.action_size:
            raise ValueError(
                "num_actions must be above 0, or action_low and action_high given with equal lengths: got "
                f"{self.num_actions}, {self.action_low} and {self.action_high}"
            )

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "EnvironmentSpec":
        """The spec that `dataclasses.asdict` made `document` from, also after JSON, which has lists for tuples."""
        return cls(**{name: map_leaves(tuples_of, value) for name, value in document.items()})

    def differences(self, here: "EnvironmentSpec") -> list[str]:
        """A line "name: VALUE there, VALUE here" for each attribute that has another value in `here`."""
        new = vars(here)
        return [f"{name}: {old} there, {new[name]} here" for name, old in vars(self).items() if old != new[name]]

    @property
    def action_size(self) -> int:
        """d, the length of a continuous action; 0 if actions are discrete."""
        return len(self.action_low)

    @property
    def continuous(self) -> bool:
        """Whether actions are vectors in [-1, 1]^d, not numbers in [0, A)."""
        return self.action_size > 0

    @property
    def action_shape(self) -> tuple[int, ...]:
        """() or (d,)."""
        return (self.action_size,) if self.continuous else ()

    @property
    def action_dtype(self) -> str:
        """NumPy name: "int32" or "float32"."""
        return "float32" if self.continuous else "int32"

    @property
    def statistics_size(self) -> int:
        """Length of the policy's statistics φ: A probabilities, or d components of a mean."""
        return self.action_size if self.continuous else self.num_actions

    @property
    def masked_statistic(self) -> float:
        """Each number of φ in a masked row, where nothing acted: uniform probabilities, or a mean of 0."""
        return 0.0 if self.continuous else 1 / self.num_actions

    @property
    def frame_shape(self) -> PerLeaf:
        """Shape of the newest frame of an observation, which is what replay stores per step."""
        return self.observation_shape[1:] if self.stack > 1 else self.observation_shape

    @property
    def observation_size(self) -> int:
        """The numbers in an observation."""
        return sum(map(math.prod, leaves_of(self.observation_shape)))

    @property
    def observation_bytes(self) -> int:
        """The bytes of an observation."""
        shapes, dtypes = leaves_of(self.observation_shape), leaves_of(self.observation_dtype)
        return sum(math.prod(s) * np.dtype(d).itemsize for s, d in zip(shapes, dtypes, strict=True))

    def of_leaf(self, name: str) -> "EnvironmentSpec":
        """The spec of an environment whose observation is one of the leaves."""
        about = ("observation_shape", "observation_dtype", "observation_scale")
        return dataclasses.replace(self, **{each: getattr(self, each)[name] for each in about})

    def newest_frame(self, observation: PerLeaf) -> PerLeaf:
        """The newest frames [N, *frame_shape] of observations [N, *observation_shape]."""
        return observation[:, -1] if self.stack > 1 else observation

    def native_action(self, number: np.ndarray) -> np.ndarray:
        """[N, ...] int64: the environment's own discrete actions, of the agent's [N] int64."""
        if not self.action_sizes:
            return number + self.action_start
        sizes = np.array(self.action_sizes)
        entries = np.stack(np.unravel_index(number, sizes.ravel()), axis=-1)
        return entries.reshape(*number.shape, *sizes.shape) + np.array(self.action_start, np.int64)

    def agent_action(self, native: np.ndarray) -> np.ndarray:
        """The agent's actions, [N] int32 or [N, d] float32, of the environment's own [N, ...].

        Vectors are scaled from the bounds to [-1, 1], and may be beyond. ValueError for a number that is no action.
        """
        if self.continuous:
            low, high = (np.asarray(bound, np.float64) for bound in (self.action_low, self.action_high))
            half, middle = high / 2 - low / 2, high / 2 + low / 2  # of the bounds' halves, whose sums are finite
            return np.divide(native - middle, half, out=np.zeros(native.shape), where=half > 0).astype(np.float32)
        sizes = np.array(self.action_sizes or (self.num_actions,))
        entries = (native - np.array(self.action_start)).reshape(len(native), -1)
        if (wrong := ((entries < 0) | (entries >= sizes.ravel())).any(axis=1)).any():
            raise ValueError(f"{native[wrong][0]} is no action of the environment")
        return np.ravel_multi_index(tuple(entries.T), tuple(sizes.ravel())).astype(np.int32)


class TimeStep(NamedTuple):
    """What N environments return for one action each: the rest of row t, and x_{t+1}.

    As `reset()` returns it, all fields but `observation` and `age` have the values of a masked row.
    """

    observation: PerLeaf  # [N, *observation_shape] x_{t+1}, stacked
    age: np.ndarray  # [N] uint8: rows since the first observation of x_{t+1}'s episode, at most S - 1
    reward: np.ndarray  # [N] float32 raw r_t; 0 on masked rows
    # [N] float32: 0 where a_t ended the return (terminated, or life lost by preset), and, until replay has it, in the
    # masked row that follows an episode which was given up with its actor; else 1
    discount: np.ndarray
    mask: np.ndarray  # [N] bool: False where the environment ignored a_t
    last: np.ndarray  # [N] bool: x_{t+1} is the final observation of an episode (not of a life): row t+1 will be masked
    legal: np.ndarray | None = None  # [N, A] bool: the actions that are valid at x_{t+1}


Row = tuple[np.ndarray, np.ndarray, TimeStep]  # actions, the policy's statistics φ, what was returned


class Unroll(NamedTuple):
    """k consecutive rows of N environments, as actors collect them; row 0 follows the previous unroll's last row."""

    observation: PerLeaf  # [N, k + 1, *frame_shape]: the newest frames of x_0 to x_k
    age: np.ndarray  # [N, k + 1] uint8, as in `TimeStep`
    action: np.ndarray  # [N, k] int32 or [N, k, d] float32
    reward: np.ndarray  # [N, k] float32
    discount: np.ndarray  # [N, k] float32
    mask: np.ndarray  # [N, k] bool
    behaviour: np.ndarray  # [N, k, A or d] float32: the statistics φ of μ(·|x_t)
    last: np.ndarray  # [N, k] bool
    state: np.ndarray  # [N, U] float32: the recurrent state before row 0, zeros where an episode begins
    next_state: np.ndarray  # [N, U] float32: the recurrent state after row k - 1
    legal: np.ndarray | None = None  # [N, k + 1, A] bool: the actions that are valid at x_0 to x_k

    @classmethod
    def of_rows(
        cls, spec: EnvironmentSpec, first: TimeStep, rows: Sequence[Row], state: np.ndarray, next_state: np.ndarray
    ) -> "Unroll":
        """The unroll of the rows, and of what environments of `spec` returned before row 0."""

        def by_environment(*arrays: Any) -> np.ndarray:
            return np.stack(arrays, axis=1)

        actions, statistics, answers = zip(*rows, strict=True)
        shown = (first, *answers)
        returned = ("reward", "discount", "mask", "last")
        return cls(
            observation=map_leaves(by_environment, *(spec.newest_frame(step.observation) for step in shown)),
            age=by_environment(*(step.age for step in shown)),
            action=by_environment(*actions),
            behaviour=by_environment(*statistics),
            **{name: by_environment(*(getattr(step, name) for step in answers)) for name in returned},
            state=state,
            next_state=next_state,
            legal=by_environment(*(step.legal for step in shown)) if spec.action_masks else None,
        )

    @classmethod
    def joined(cls, unrolls: Sequence["Unroll"]) -> "Unroll":
        """The unrolls of several actors as one, their environments in this order."""
        if len(unrolls) == 1:
            return unrolls[0]

        def joined(*parts: Any) -> Any:
            return None if parts[0] is None else np.concatenate(parts)

        return cls(*(map_leaves(joined, *each) for each in zip(*unrolls, strict=True)))


class RecurrentContext(NamedTuple):
    """The recurrent state before R rows, and where it is reset.

    A row's observation is read with the state left by the previous row, or with zeros at the start of an episode. A
    masked row still belongs to the old episode, since its V bootstraps a truncation; the new one starts in the row
    after it.
    """

    state: Any  # [B, U] float32: left by the behaviour's network before the first row, zeros where an episode begins
    carry: Any  # [B, R] bool: False where a row starts from zeros; True in row 0, otherwise the previous row's mask


class Trajectory(NamedTuple):
    """B windows of T consecutive rows, each of one environment, with the bootstrap observation x_T.

    NumPy arrays in replay, tensors of the same shapes inside a compiled update. For recurrent networks, W rows of
    burn-in precede x_0; W is 0 in rows that were just collected, and for other networks.
    """

    observation: Any  # [B, S-1+W+T+1, *frame_shape]: single frames, beginning with the S-1 before the first row
    age: Any  # [B, W+T+1] uint8: rows since the episode's first observation, at most S - 1
    action: Any  # [B, T] int32, or [B, T, d] float32 as the policy drew it: the environment clips, the learner does not
    reward: Any  # [B, T] float32, raw
    discount: Any  # [B, T] float32, 0 or 1; γ is applied in the equations
    mask: Any  # [B, T] bool
    behaviour: Any  # [B, T, A or d] float32: the statistics φ of μ(·|x_t): a probability vector, or a Gaussian's mean
    memory: RecurrentContext | None = None  # R = W+T+1, all rows; None if the network is not recurrent
    legal: Any = None  # [B, T+1, A] bool: the actions that are valid at x_0 to x_T


class Batch(NamedTuple):
    """The data of M consecutive updates."""

    trajectory: Trajectory  # each array has one more axis, the first: [M, B, ...]
    weight: np.ndarray  # [M, B] float32: factors of the trajectories' gradients
    items: np.ndarray | None = None  # [M, B] int64: numbers of the items of a prioritized replay; None without one
