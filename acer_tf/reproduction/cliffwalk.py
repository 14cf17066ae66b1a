"""The Blind Cliffwalk: how many Q-learning updates replay needs, by the order in which it replays.

Source: "Prioritized Experience Replay" (Schaul et al., 2016), §3.1 to §3.3, Figures 1 and 2, Appendix B.1. In each of n
states in a row, one of two actions is right: it leads to the next state, and from the last state to the end with reward
1. The other action ends the episode with reward 0. The replay memory holds the transitions of all 2^n action sequences,
each run until it ends: 2^(n+1) − 2, one of them rewarded. Q-learning with step size 1/4 and γ = 1 − 1/n replays one
transition per update, until the mean squared error of Q over all states and actions is below 10^-3.

A state-action pair is numbered 2 · state + action. The right action is 0 in even states and 1 in odd ones, so that a
bias per action cannot learn which one is right (Appendix B.1).

Where the paper is ambiguous:

- θ ~ N(0, 0.1): 0.1 is taken as the standard deviation.
- Linear features, "1-hot, concatenated with a constant bias feature", are taken with a weight vector, and so a bias,
  per action; with a single bias, alternating the right action would have no purpose.
- The oracle picks the transition whose update leaves the smallest global loss, taken to be the error that convergence
  is measured by. In the linear case there are weights at which no update reduces it; a literal oracle then repeats an
  update without effect for ever (in most runs from n = 8 on). If no update reduces the loss by a thousandth, the oracle
  takes the transition of the largest |δ|. In the tabular case this changes nothing.
- The stochastic variants take α from Double DQN on Atari (Table 3: 0.7 rank-based, 0.6 proportional), no importance
  weights, which the paper introduces later (§3.4), and p = |δ| as in Algorithm 1.
- The transitions are shuffled; their order only matters for ties.

Priorities are those of the paper: |δ| as of a transition's last replay, the maximum before the first. The rewarded
transition therefore waits among 2^(n+1) − 2 that have not been replayed, and the updates of greedy and stochastic
replay grow with that number, though from a lower start than those of uniform replay; the oracle's do not.
"""

import functools
import heapq
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from acer_tf.errors import EvidenceError
from acer_tf.files import write_whole
from acer_tf.replay.priorities import Priorities, RankHeap, SumTree

SIZES = range(2, 17)  # numbers of states n, and the runs of each, of Figures 1 and 2
RUNS = 10
STEP_SIZE = 0.25
CONVERGED = 1e-3
REPRESENTATIONS = ("tabular", "linear")
_LEAST_REDUCTION = 1e-3  # the relative reduction of the loss for which the oracle prefers an update


class Result(NamedTuple):
    """One run."""

    representation: str
    replay: str
    states: int
    run: int
    updates: int  # until convergence, or until the limit
    converged: bool


def transitions(states: Any) -> Any:
    """The number of those in the memory: of all 2^n action sequences."""
    return 2 ** (states + 1) - 2


def true_values(states: int) -> np.ndarray:
    """[2n] float64 Q*(s, a) by pair: γ^(n−1−s) for the right action, 0 for the other."""
    values = np.zeros((states, 2))
    state = np.arange(states)
    values[state, state % 2] = (1 - 1 / states) ** (states - 1.0 - state)
    return values.ravel()


def full_memory(states: int, generator: np.random.Generator) -> np.ndarray:
    """[2^(n+1) − 2] int64 pairs of all transitions of all action sequences, shuffled.

    State s is reached by 2^(n−s) of the 2^n sequences, and half of these take each action there.
    """
    return generator.permutation(np.repeat(np.arange(2 * states), 2 ** (states - 1 - np.arange(2 * states) // 2)))


class QLearner:
    """Q-learning on the Blind Cliffwalk, with a weight per pair and, if linear, a bias per action.

    In plain Python numbers: an update is a few operations, and uniform replay needs millions.
    """

    def __init__(self, states: int, representation: str, generator: np.random.Generator) -> None:
        """θ ~ N(0, 0.1). Raises ValueError for fewer than 2 states, or an unknown representation."""
        if states < 2:
            raise ValueError(f"states must be at least 2, got {states}")
        if representation not in REPRESENTATIONS:
            raise ValueError(f"representation must be one of {REPRESENTATIONS}, got {representation!r}")
        self.states = states
        self.linear = representation == "linear"
        self._discount = 1 - 1 / states
        self._weights = generator.normal(0.0, 0.1, 2 * states).tolist()
        self._biases = generator.normal(0.0, 0.1, 2).tolist() if self.linear else [0.0, 0.0]
        self._truth = true_values(states)

    def values(self) -> np.ndarray:
        """[2n] Q by pair."""
        return (np.array(self._weights).reshape(-1, 2) + self._biases).ravel()

    def loss(self) -> float:
        """Mean squared error of Q."""
        return float(np.mean((self.values() - self._truth) ** 2))

    def error(self, pair: int) -> float:
        """δ = r + γ max_a Q(s', a) − Q(s, a) of the transition that the pair leads to."""
        weights, (first, second) = self._weights, self._biases
        state, action = pair >> 1, pair & 1
        target = 0.0
        if action == state & 1:
            following = pair - action + 2
            if following == len(weights):
                target = 1.0
            else:
                target = self._discount * max(weights[following] + first, weights[following + 1] + second)
        return target - weights[pair] - (second if action else first)

    def update(self, pair: int) -> float:
        """One Q-learning step, θ ← θ + η δ φ(s, a); returns δ."""
        error = self.error(pair)
        self._weights[pair] += STEP_SIZE * error
        if self.linear:
            self._biases[pair & 1] += STEP_SIZE * error
        return error

    def losses_after(self, errors: np.ndarray) -> np.ndarray:
        """[2n] `loss` after an update of each pair alone, with δ in `errors` [2n]."""
        pairs = np.arange(2 * self.states)
        shared = np.eye(2 * self.states)  # φ(i) · φ(j)
        if self.linear:
            shared += pairs % 2 == pairs[:, None] % 2
        after = self.values() + STEP_SIZE * errors[:, None] * shared
        return np.asarray(np.mean((after - self._truth) ** 2, axis=1))


# Chooses the transition of each update: yields its pair, and is sent the δ of its update.
Replay = Generator[int, float, None]


def _uniform(memory: np.ndarray, learner: QLearner, generator: np.random.Generator) -> Replay:
    while True:
        for pair in memory[generator.integers(len(memory), size=4096)].tolist():  # noqa: UP028, a list is sent nothing
            yield pair


def _greedy(memory: np.ndarray, learner: QLearner, generator: np.random.Generator) -> Replay:
    """The transition of the largest |δ| as of its last replay; those not replayed yet come first (§3.2)."""
    queue = [(-np.inf, index) for index in range(len(memory))]  # sorted, hence a heap
    pairs = memory.tolist()
    while True:
        error = yield pairs[queue[0][1]]
        heapq.heapreplace(queue, (-abs(error), queue[0][1]))


def _stochastic(
    structure: type[Priorities], alpha: float, memory: np.ndarray, learner: QLearner, generator: np.random.Generator
) -> Replay:
    """Draws by a priority structure: |δ| as of the last replay, 1 for a transition not replayed yet (Algorithm 1)."""
    priorities = structure(len(memory), alpha=alpha)
    priorities.set(np.arange(len(memory)), np.ones(len(memory)))
    while True:
        indices, _ = priorities.sample(1, generator)
        error = yield int(memory[indices[0]])
        priorities.set(indices, np.array([abs(error)]))


def _greedy_current(memory: np.ndarray, learner: QLearner, generator: np.random.Generator) -> Replay:
    """The largest |δ| under the current weights: not in the paper; it need not replay each copy of a transition."""
    while True:
        yield max(range(2 * learner.states), key=lambda pair: abs(learner.error(pair)))


def _oracle(memory: np.ndarray, learner: QLearner, generator: np.random.Generator) -> Replay:
    """The transition whose update leaves the smallest loss (§3.1); if none helps, that of the largest |δ|."""
    while True:
        errors = np.array([learner.error(pair) for pair in range(2 * learner.states)])
        losses = learner.losses_after(errors)
        best = int(losses.argmin())
        helps = losses[best] < (1 - _LEAST_REDUCTION) * learner.loss()
        yield best if helps else int(np.abs(errors).argmax())


REPLAYS: dict[str, Callable[[np.ndarray, QLearner, np.random.Generator], Replay]] = {
    "uniform": _uniform,
    "rank-based": functools.partial(_stochastic, RankHeap, 0.7),
    "proportional": functools.partial(_stochastic, SumTree, 0.6),
    "greedy": _greedy,
    "greedy, current errors": _greedy_current,
    "oracle": _oracle,
}
_INDEPENDENT_OF_MEMORY = ("greedy, current errors", "oracle")


def run(representation: str, replay: str, states: int, number: int, *, seed: int, limit: int) -> Result:
    """Replays until convergence, or for `limit` updates.

    Runs of the same seed and number have the same memory and initial weights in every replay.

    Convergence is checked after every update, or, if the memory is so large that this would take most of the time,
    every thousandth of the memory's size.

    Raises:
        ValueError: an unknown representation or replay, fewer than 2 states, or a limit below 1.
    """
    if replay not in REPLAYS:
        raise ValueError(f"replay must be one of {list(REPLAYS)}, got {replay!r}")
    if limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    start, draws = (np.random.default_rng([seed, states, number, use]) for use in (0, 1))
    learner = QLearner(states, representation, start)
    memory = full_memory(states, start)
    chooser = REPLAYS[replay](memory, learner, draws)
    pair = next(chooser)
    interval = 1 if replay in _INDEPENDENT_OF_MEMORY else max(1, len(memory) // 1000)
    updates = 0
    while not (converged := learner.loss() < CONVERGED) and updates < limit:
        for _ in range(min(interval, limit - updates)):
            pair = chooser.send(learner.update(pair))
        updates = min(updates + interval, limit)
    return Result(representation, replay, states, number, updates, converged)


def write_results(results: Sequence[Result], path: Path) -> None:
    """Writes a CSV with a row per run, atomically."""
    table = pd.DataFrame(results, columns=Result._fields).astype({"converged": int})
    table["transitions"] = transitions(table.states)
    write_whole(path, table.to_csv(index=False, lineterminator="\n"))


def read_results(path: Path) -> list[Result]:
    """What `write_results` wrote; raises EvidenceError if the file does not exist, or holds something else."""
    try:
        table = pd.read_csv(path).astype(dict.fromkeys(Result._fields[2:], int)).astype({"converged": bool})
        return [Result(*row) for row in table[list(Result._fields)].itertuples(index=False)]
    except FileNotFoundError as error:
        raise EvidenceError(f"{path} is missing: nothing has been run there") from error
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise EvidenceError(f"{path} holds no results: {type(error).__name__} {error}") from error
