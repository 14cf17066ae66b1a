"""Actors: each steps some of the environments with a policy, an unroll of k rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from acer_tf.envs.vector import VectorEnvironment
from acer_tf.errors import NonFiniteError
from acer_tf.types import TimeStep

# (observations [N, ...], int32 seed [2], recurrent states [N, U]) to (actions [N] or [N, d], statistics of the
# behaviour policy [N, A] or [N, d], next recurrent states [N, U]).
Act = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


class Unroll(NamedTuple):
    """k consecutive rows of N environments, in the terms of `acer_tf.types`; row 0 follows those of the last unroll."""

    frame: np.ndarray  # [k + 1, N, *frame_shape]: the newest frames of x_0 to x_k
    age: np.ndarray  # [k + 1, N] uint8
    action: np.ndarray  # [k, N] int32 or [k, N, d] float32
    behaviour: np.ndarray  # [k, N, A or d] float32
    reward: np.ndarray  # [k, N] float32
    discount: np.ndarray  # [k, N] float32
    mask: np.ndarray  # [k, N] bool
    last: np.ndarray  # [k, N] bool
    state: np.ndarray  # [2, N, U] float32: the recurrent states before row 0 and after row k - 1

    @classmethod
    def joined(cls, unrolls: Sequence[Unroll]) -> Unroll:
        """The unrolls of several actors as one, their environments in this order."""
        if len(unrolls) == 1:
            return unrolls[0]
        return cls(*(np.concatenate(arrays, axis=1) for arrays in zip(*unrolls, strict=True)))


class Request(NamedTuple):
    """What the actors are to collect next."""

    rows: int  # k
    first_row: int  # the number of row 0 in the run, on which its sampled actions depend
    steps: int  # of the run so far, for messages
    scheduled: int  # of the run when the agent's schedule was set for this unroll, fewer if actors lag


class Actors(Protocol):
    """The actors of a run. `begin` and `take` are called in turn; either may raise what `take` lists."""

    notes: list[str]  # what happened that the run's record should have, in a line each; whoever records it clears them

    def begin(self, request: Request) -> None:
        """Begins to collect an unroll of every environment, with the weights that the policy has now."""

    def take(self) -> Unroll:
        """The unroll that was begun last, once it is complete.

        Raises:
            NonFiniteError: an observation, a reward or the policy is not finite.
            EnvironmentFailure: an environment raised, or returned what its spaces do not promise.
        """

    def close(self) -> None: ...


class Actor:
    """Steps N environments in lockstep.

    Args:
        env: not yet reset.
        act: the policy, called with what all N environments show.
        seed: of the sampled actions; a row's sample depends only on this and the row's number.
        state_size: U.
        truncates: the recurrent states [N, U] that another actor left. Row 0 is then a masked one, so that the
            interruption of its episodes looks like a truncation.
    """

    def __init__(
        self, env: VectorEnvironment, act: Act, seed: int, state_size: int = 0, truncates: np.ndarray | None = None
    ) -> None:
        self._env, self._act, self._seed, self._truncates = env, act, seed, truncates
        self._state = np.zeros((env.num_envs, state_size), np.float32)
        self._now: TimeStep | None = None  # its observation is that of the next row

    def unroll(self, request: Request) -> Unroll:
        """The next `request.rows` rows; the first call resets the environments. Raises as `Actors.take`."""
        spec, steps = self._env.spec, request.steps
        before, rows = self._state, list[tuple[np.ndarray, np.ndarray, TimeStep]]()
        if self._now is None:
            self._now = self._env.reset()
            _require_finite("observation", self._now.observation, steps)
            if self._truncates is not None:
                before = self._truncates
                action = np.zeros((self._env.num_envs, *spec.action_shape), spec.action_dtype)
                behaviour = np.full((self._env.num_envs, spec.statistics_size), spec.masked_statistic, np.float32)
                rows.append((action, behaviour, self._now))
        first = self._now
        for row in range(len(rows), request.rows):
            now = self._now
            seed = np.array([self._seed, request.first_row + row], np.int32)
            action, behaviour, state = self._act(now.observation, seed, self._state)
            _require_finite("policy", behaviour, steps)
            self._now = step = self._env.step(action)
            _require_finite("reward", step.reward, steps)
            rows.append((action, behaviour, step))
            steps += int(step.mask.sum())
            _require_finite("observation", step.observation, steps)
            # The row after a masked row is the first of a new episode. A lost life does not end the episode.
            self._state = state if step.mask.all() else np.where(step.mask[:, None], state, np.float32(0))
        actions, behaviours, answers = zip(*rows, strict=True)
        shown = (first, *answers)
        return Unroll(
            frame=np.stack([step.observation[:, -1] if spec.stack > 1 else step.observation for step in shown]),
            age=np.stack([step.age for step in shown]),
            action=np.stack(actions),
            behaviour=np.stack(behaviours),
            **{name: np.stack([getattr(step, name) for step in answers]) for name in Unroll._fields[4:8]},
            state=np.stack([before, self._state]),
        )

    def close(self) -> None:
        self._env.close()


class LocalActors:
    """Actors in this process, which collect in turn as soon as they are asked to."""

    def __init__(self, actors: Sequence[Actor]) -> None:
        self._actors = actors
        self._begun: list[Unroll] = []
        self.notes: list[str] = []

    def begin(self, request: Request) -> None:
        self._begun = [actor.unroll(request) for actor in self._actors]

    def take(self) -> Unroll:
        return Unroll.joined(self._begun)

    def close(self) -> None:
        for actor in self._actors:
            actor.close()


def _require_finite(name: str, values: np.ndarray, steps: int) -> None:
    if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
        raise NonFiniteError(f"{name} is {values[~finite][0]}, at step {steps:,}")
