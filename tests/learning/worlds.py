"""Tiny worlds whose values are known exactly: tables, their Bellman equations, and their environments."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium
import numpy as np


@dataclasses.dataclass(frozen=True)
class World:
    """A tabular decision process of S states and A actions, shown one-hot.

    Attributes:
        transitions: [S, A, S+1] probabilities of the next state; the last one stands for the end of the episode.
        rewards: [S, A] expected rewards.
        starts: [S] probabilities of the first state.
        end_shows: the state whose observation a terminated episode ends with. It must not matter, so the worlds here
            show their most valuable state: bootstrapping after the end gives values that are far off.
        noise: added to every reward with a random sign.
    """

    transitions: np.ndarray
    rewards: np.ndarray
    starts: np.ndarray
    end_shows: int = 0
    noise: float = 0.0

    @property
    def states(self) -> int:
        return len(self.starts)

    @property
    def actions(self) -> int:
        return self.rewards.shape[1]

    @property
    def observations(self) -> np.ndarray:
        """[S, S] float32: what each state looks like."""
        return np.eye(self.states, dtype=np.float32)

    def optimal_q(self, gamma: float) -> np.ndarray:
        """[S, A] Q*, by value iteration."""
        q = np.zeros(self.rewards.shape)
        for _ in range(10_000):
            q, before = self.rewards + gamma * self.transitions[..., :-1] @ q.max(axis=1), q
            if np.abs(q - before).max() < 1e-12:
                return q
        raise AssertionError("value iteration did not converge")

    def policy_q(self, policy: np.ndarray, gamma: float) -> np.ndarray:
        """[S, A] Q of the policy with probabilities [S, A]: V = r_π + γ P_π V, solved as the linear system it is."""
        rewards = (policy * self.rewards).sum(axis=1)
        transitions = np.einsum("sa,sat->st", policy, self.transitions[..., :-1])
        values = np.linalg.solve(np.eye(self.states) - gamma * transitions, rewards)
        return self.rewards + gamma * self.transitions[..., :-1] @ values


class TabularEnvironment(gymnasium.Env[np.ndarray, np.int64]):
    """The environment of a world; does not render in any mode."""

    def __init__(self, world: World, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._world = world
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (world.states,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(world.actions)
        self._observations = world.observations
        self._starts = world.starts.cumsum()
        self._transitions = world.transitions.cumsum(axis=-1)
        self._state = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._state = self._draw(self._starts)
        return self._observations[self._state], {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict]:
        world = self._world
        reward = world.rewards[self._state, action]
        if world.noise:
            reward += self.np_random.choice((-world.noise, world.noise))
        self._state = self._draw(self._transitions[self._state, action])
        ended = self._state == world.states
        return self._observations[world.end_shows if ended else self._state], float(reward), ended, False, {}

    def _draw(self, cumulative: np.ndarray) -> int:
        return int((self.np_random.random() < cumulative).argmax())


def bandit() -> World:
    """Four contexts, three actions, one noisy step. In each context the best action is 0.6 above the second."""
    rewards = np.array([[1.0, 0.4, -0.5], [-1.0, 0.2, -0.4], [0.0, 0.3, 0.9], [-0.2, -0.8, -1.2]])
    transitions = np.zeros([4, 3, 5])
    transitions[..., -1] = 1.0
    return World(transitions, rewards, np.full(4, 0.25), end_shows=0, noise=0.2)


def chain() -> World:
    """Six states in a row. Action 1 moves on (one time in five it slips and stays), with reward 2 after the last state.

    Action 0 ends the episode with 0.1. A random walk from the start gets about as much; the best return is six steps
    away.
    """
    states, slip = 6, 0.2
    transitions = np.zeros([states, 2, states + 1])
    transitions[:, 0, -1] = 1.0
    for s in range(states):
        transitions[s, 1, s] = slip
        transitions[s, 1, s + 1] = 1 - slip
    rewards = np.full([states, 2], 0.1)
    rewards[:, 1] = 0.0
    rewards[-1, 1] = 2.0 * (1 - slip)
    return World(transitions, rewards, np.eye(states)[0], end_shows=states - 1)


def rooms(hours: int, *, ends: bool) -> World:
    """Episodes start in one of two rooms, each with a clock of `hours`; one room pays 1 per step, the other 0.

    State (room, hour) is number room · hours + hour. Both actions only advance the clock. After the last hour the day
    ends (`ends`), or starts again in the same room.
    """
    states = 2 * hours
    transitions = np.zeros([states, 2, states + 1])
    starts = np.zeros(states)
    for room in range(2):
        starts[room * hours] = 0.5
        for hour in range(hours):
            last = hour == hours - 1
            following = states if last and ends else room * hours + (hour + 1) % hours
            transitions[room * hours + hour, :, following] = 1.0
    rewards = np.zeros([states, 2])
    rewards[:hours] = 1.0
    return World(transitions, rewards, starts, end_shows=0)


@dataclasses.dataclass(frozen=True)
class LinearQuadratic:
    """s' = A s + B a, cost q s² + r a² per step, for ever: the optimal action is −K s, and V(s) = −P s² − a constant.

    Attributes:
        a, b: dynamics, of scalar state and action.
        q, r: costs.
        std: σ of the acting policy. It costs the constant, and leaves P and K as they are.
        gamma: γ.
    """

    a: float = 0.9
    b: float = 0.6
    q: float = 1.0
    r: float = 0.5
    std: float = 0.2
    gamma: float = 0.9

    def riccati(self) -> tuple[float, float, float]:
        """(K, P, constant) by iterating the Bellman equation."""
        p = 0.0
        for _ in range(10_000):
            k = self.gamma * p * self.a * self.b / (self.r + self.gamma * p * self.b**2)
            p, before = self.q + self.r * k**2 + self.gamma * p * (self.a - self.b * k) ** 2, p
            if abs(p - before) < 1e-13:
                break
        noise = (self.r + self.gamma * p * self.b**2) * self.std**2
        return k, p, noise / (1 - self.gamma)


class LinearQuadraticEnvironment(gymnasium.Env[np.ndarray, np.ndarray]):
    """Starts uniformly in [-1, 1]; never terminates."""

    def __init__(self, task: LinearQuadratic, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._task = task
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        # A wide space: the policy's unit is 3 of the action's, so that hardly an action is cut.
        self.action_space = gymnasium.spaces.Box(-3.0, 3.0, (1,), np.float32)
        self._state = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._state = self.np_random.uniform(-1.0, 1.0)
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        task, u = self._task, float(action[0])
        reward = -(task.q * self._state**2 + task.r * u**2)
        self._state = task.a * self._state + task.b * u
        return self._observation(), reward, False, False, {}

    def _observation(self) -> np.ndarray:
        return np.array([self._state], np.float32)


class EndlessEnvironment(gymnasium.Env[np.ndarray, np.ndarray]):
    """Pays 1 in every step, without end: V = 1 / (1 − γ) everywhere."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return self.np_random.random(2, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        return self.np_random.random(2, np.float32), 1.0, False, False, {}


class CueEnvironment(gymnasium.Env[np.ndarray, np.int64]):
    """Shows one of two cues in the first step, then asks in each of ten steps which it was: 1 for a right answer.

    An observation is [first cue, second cue, asked]. Without memory the mean return is 5; remembering for n steps gives
    5 + n / 2.
    """

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    length = 10

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._cue, self._hour = 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._cue, self._hour = int(self.np_random.integers(2)), 0
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict]:
        right = self._hour > 0 and action == self._cue
        self._hour += 1
        return self._observation(), float(right), self._hour > self.length, False, {}

    def _observation(self) -> np.ndarray:
        cue = np.eye(2)[self._cue] if self._hour == 0 else np.zeros(2)
        return np.array([*cue, self._hour > 0], np.float32)


class AimEnvironment(gymnasium.Env[np.ndarray, np.ndarray]):
    """Shows -0.6 or 0.6 in the first step, then asks for it in each of ten steps: reward −(answer − what was shown)².

    An observation is [what is shown, asked]. Without memory 0 is the best answer, and the mean return -3.6; with it, 0.
    """

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    length, distance = 10, 0.6

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._shown, self._hour = 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._shown, self._hour = self.distance * self.np_random.choice([-1, 1]), 0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        reward = -((action[0] - self._shown) ** 2) if self._hour > 0 else 0.0
        self._hour += 1
        return self._observation(), float(reward), self._hour > self.length, False, {}

    def _observation(self) -> np.ndarray:
        return np.array([self._shown, 0] if self._hour == 0 else [0, 1], np.float32)


class HiddenVelocities(gymnasium.ObservationWrapper[np.ndarray, np.int64, np.ndarray]):
    """CartPole that shows positions and no velocities."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(gymnasium.make("CartPole-v1", render_mode=render_mode).unwrapped)
        space = self.env.observation_space
        self.observation_space = gymnasium.spaces.Box(space.low[::2], space.high[::2], (2,), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation[::2]
