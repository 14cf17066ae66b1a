"""Actors: each steps some of the environments with a policy, an unroll of k rows at a time."""

import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from acer_tf.envs.vector import VectorEnvironment
from acer_tf.errors import NonFiniteError
from acer_tf.types import Row, TimeStep, Unroll

# (observations [N, ...], int32 seed [2], recurrent states [N, U], valid actions [N, A] or None) to (actions [N] or
# [N, d], statistics of the behaviour policy [N, A] or [N, d], next recurrent states [N, U]). If several actors share
# the environments, also the number of the N's first one as `first`: see `Agent.act`.
Act = Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]


class Stopped(Exception):
    """The run was asked to stop while it waited for an unroll."""


class Request(NamedTuple):
    """The rows that the actors are to collect next."""

    rows: int  # k
    first_row: int  # the number of row 0 in the run, on which its sampled actions depend
    steps: int  # the run's steps so far, for messages
    scheduled: int  # the run's steps when the agent's schedule was set for this unroll; fewer if actors lag


class Actors(Protocol):
    """The actors of a run. `begin` and `take` are called in turn; either may raise what `take` lists."""

    notes: list[str]  # a line for each event that the run's record should tell; whoever records them clears the list

    def begin(self, request: Request) -> None:
        """Begins to collect an unroll of every environment, with the weights that the policy has now."""

    def take(self) -> Unroll:
        """The unroll that was begun last, once it is complete.

        Raises:
            NonFiniteError: the policy is not finite.
            EnvironmentFailure: an environment raised, or returned what it must not, see `VectorEnvironment.step`.
        """

    def close(self) -> None: ...


class Actor:
    """Steps N environments, not yet reset, in lockstep by the policy `act`, with a recurrent state of `state_size`.

    A row's sampled actions depend only on `seed` and the row's number. `truncates` are the recurrent states [N, U] that
    another actor left whose place this one takes: row 0 is then a masked row, so that the interruption of its episodes
    looks like a truncation.
    """

    def __init__(
        self, env: VectorEnvironment, act: Act, seed: int, state_size: int = 0, truncates: np.ndarray | None = None
    ) -> None:
        self._env, self._act, self._seed, self._truncates = env, act, seed, truncates
        self._state = np.zeros((env.num_envs, state_size), np.float32)
        self._now: TimeStep | None = None  # its observation is that of the next row

    def unroll(self, request: Request) -> Unroll:
        """The next `request.rows` rows; the first call resets the environments. Raises as `Actors.take`."""
        env, spec, steps = self._env, self._env.spec, request.steps
        before, rows = self._state, list[Row]()
        if self._now is None:
            self._now = env.reset()
            if self._truncates is not None:
                before = self._truncates
                action = np.zeros((env.num_envs, *spec.action_shape), spec.action_dtype)
                behaviour = np.full((env.num_envs, spec.statistics_size), spec.masked_statistic, np.float32)
                rows.append((action, behaviour, self._now._replace(discount=np.zeros(env.num_envs, np.float32))))
        first = self._now
        for row in range(len(rows), request.rows):
            now = self._now
            seed = np.array([self._seed, (request.first_row + row) % 2**31], np.int32)
            action, behaviour, state = self._act(now.observation, seed, self._state, now.legal)
            if not (finite := np.isfinite(behaviour)).all():
                raise NonFiniteError(f"policy is {behaviour[~finite][0]}, at step {steps:,}")
            self._now = step = env.step(action)
            rows.append((action, behaviour, step))
            steps += int(step.mask.sum())
            # The row after a masked row is the first of a new episode. A lost life does not end the episode.
            self._state = state if step.mask.all() else np.where(step.mask[:, None], state, np.float32(0))
        return Unroll.of_rows(spec, first, rows, before, self._state)

    def close(self) -> None:
        self._env.close()


class LocalActors:
    """Actors in this process, which collect in turn as soon as they are asked to."""

    def __init__(self, actors: Sequence[Actor]) -> None:
        self._actors = actors
        self._begun: list[Unroll] = []
        self._failure: Exception | None = None
        self.notes: list[str] = []

    def begin(self, request: Request) -> None:
        try:
            self._begun = [actor.unroll(request) for actor in self._actors]
        except Exception as error:  # with a lag, the unroll before is yet to be learned from
            self._failure = error

    def take(self) -> Unroll:
        if self._failure is not None:
            raise self._failure
        return Unroll.joined(self._begun)

    def close(self) -> None:
        with contextlib.ExitStack() as each:  # the others too, if one fails
            for actor in self._actors:
                each.callback(actor.close)
