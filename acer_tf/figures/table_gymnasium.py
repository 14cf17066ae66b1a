"""What the usual presets reach on gymnasium's tasks and on two of other spaces, beside Stable-Baselines3's PPO and DQN.

Box2D's two tasks need `pip install "gymnasium[box2d]"`.

python -m acer_tf table_gymnasium --processes=2
python -m acer_tf table_gymnasium --tasks=CartPole-v1,FrozenLake-v1 --seeds=1
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from acer_tf.envs import puzzles
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.figure import Figure, Method
from acer_tf.reproduction.published import PublishedCurve, read_table
from acer_tf.reproduction.report.output import Drawing, Report, Table, learning_curves, mean_with_error, number
from acer_tf.reproduction.statistics import mean_and_error
from acer_tf.runs.records import read_progress

_PARCELS, _COURIER = "acer_tf.envs.puzzles:Parcels-v0", "acer_tf.envs.puzzles:Courier-v0"
_DISCRETE = {
    "CartPole-v1": 100_000,
    "Acrobot-v1": 100_000,
    "MountainCar-v0": 300_000,
    "LunarLander-v3": 500_000,
    "FrozenLake-v1": 100_000,
    "Taxi-v4": 200_000,
    "Blackjack-v1": 200_000,
    _PARCELS: 100_000,
    _COURIER: 100_000,
}
# About as many as RL Zoo's DQN; a step takes it several times as long as ACER.
_DQN = {env: min(steps, 100_000) for env, steps in _DISCRETE.items()} | {"MountainCar-v0": 120_000}
_CONTINUOUS = {"Pendulum-v1": 200_000, "BipedalWalker-v3": 1_000_000}
# What we ask for: about where gymnasium calls a task solved, what a publication reports, or the optimum.
_GOALS = {
    "CartPole-v1": 475.0,
    "Acrobot-v1": -90.0,
    "MountainCar-v0": -131.0,
    "LunarLander-v3": 200.0,
    "FrozenLake-v1": 0.7,
    "Taxi-v4": 7.0,
    "Blackjack-v1": -0.06,
    _PARCELS: round(puzzles.optimum(1), 2),
    _COURIER: round(puzzles.optimum(np.inf), 2),
    "Pendulum-v1": -200.0,
    "BipedalWalker-v3": 250.0,
}
# The usual preset of the task's family and the agent, and nothing else; one evaluation, at the end.
_EVALUATED = {"evaluate_every": 1_000_000, "evaluate_episodes": 100, "evaluate_greedy": True}
_PEERS = {"ppo": "PPO, SB3", "dqn": "DQN, SB3"}


def peers(env: str) -> list[PublishedCurve]:
    """Stable-Baselines3's training curves: means over seeds, and their range."""
    table = read_table("sb3_gymnasium_curves.csv", env=env)
    found = []
    for key, label in _PEERS.items():
        rows = table[table.algorithm == key]
        if len(rows):
            # At steps that all seeds have: no return is known before an episode has ended.
            runs = rows.pivot(index="steps", columns="seed", values="return").dropna()
            columns = (runs.index, runs.mean(axis=1), runs.min(axis=1), runs.max(axis=1))
            found.append(PublishedCurve(key, label, *(column.to_numpy(float) for column in columns)))
    return found


def report(recorded: RecordedRuns) -> Report:
    """A row per task: each method's evaluation and its steps, and which is best."""
    others = read_table("sb3_gymnasium.csv")
    rows = []
    for env in recorded.envs:
        scores, row = {}, [_short(env), number(_GOALS[env])]
        for key, method in recorded.methods.items():
            if env in method.total_steps:  # type: ignore[operator]
                done = [cell.total_steps for cell in _finished(recorded, key, env)]
                scores[method.label] = _evaluations(recorded, key, env), min(done, default=0)
        for key, label in _PEERS.items():
            of = others[(others.env == env) & (others.algorithm == key)]
            if len(of):
                scores[label] = of.evaluation.tolist(), of.steps.max()
        for label in _labels(recorded):
            found, steps = scores.get(label, ((), None))
            row += [mean_with_error(*mean_and_error(found)), number(steps, 0)] if found else ["", ""]
        rows.append([*row, ", ".join(best({label: found for label, (found, _) in scores.items()}))])
    columns = [column for label in _labels(recorded) for column in (label, "steps")]
    caption = (
        "Return: mean of 100 episodes after training, each action the most probable one (or of the largest Q); mean "
        "over seeds ± standard error. ACER and Double DQN: the usual preset of the task's family and nothing else. "
        "SB3: Stable-Baselines3 2.9.2 with RL Zoo's settings for the task, or its defaults where there are none; its "
        "seeds are evaluated in the same episodes, so that their error lacks that of the episodes. Best, of those with "
        "several runs: the highest mean, and those at most two standard errors of the difference below it."
    )
    drawn = "Training returns, means over seeds with standard errors; dashed: Stable-Baselines3, with their range."
    figure = learning_curves(recorded.by_label(), peers, titles={env: _short(env) for env in recorded.envs})
    head = ["task", "goal", *columns, "best"]
    return Report({"table": Table(caption, head, rows)}, {"figure": Drawing(drawn, figure)})


def _labels(recorded: RecordedRuns) -> list[str]:
    return list(dict.fromkeys([*(method.label for method in recorded.methods.values()), *_PEERS.values()]))


def _finished(recorded: RecordedRuns, method: str, env: str) -> list[Cell]:
    return [cell for cell in recorded.cells if (cell.method, cell.env, cell.state) == (method, env, "finished")]


def _evaluations(recorded: RecordedRuns, method: str, env: str) -> list[float]:
    """The last evaluation of each finished run."""
    folders = [recorded.folder / "runs" / cell.name for cell in _finished(recorded, method, env)]
    columns = [read_progress(folder).get("evaluation_return") for folder in folders]
    return [float(column[-1]) for column in columns if column is not None and np.isfinite(column[-1])]


def best(scores: Mapping[str, Sequence[float]]) -> list[str]:
    """The method of the highest mean, and those at most two standard errors of the difference below it, best first.

    None without two methods of several runs each; others do not count.
    """
    means = {label: mean_and_error(found) for label, found in scores.items() if len(found) > 1}
    if len(means) < 2:
        return []
    order = sorted(means, key=lambda label: -means[label][0])
    top, error = means[order[0]]
    return [label for label in order if top - means[label][0] <= 2.0 * math.hypot(error, means[label][1])]


def _short(env: str) -> str:
    return env.rpartition(":")[2]


FIGURE = Figure(
    __name__,
    order=81,
    source="Usual presets",
    title="Gymnasium's tasks with the usual presets",
    text=(
        "Nothing of this was published. Each task is trained with the preset that a user gets without a flag: classic "
        "for discrete actions, classic_continuous for others, and classic_dqn for Double DQN. They are the same for "
        "all tasks, while RL Zoo's settings for Stable-Baselines3's PPO and DQN are tuned for each task.",
        "Two tasks are this package's, for spaces that gymnasium's do not have: Parcels shows an image and a vector, "
        "and Courier takes arrays of integers as actions; their goals are the optima. Taxi has its action masks.",
    ),
    envs=(*_DISCRETE, *_CONTINUOUS),
    methods={
        "acer": Method("ACER", {"agent": "acer", **_EVALUATED}, _DISCRETE),
        "acer_continuous": Method("ACER", {"agent": "acer_continuous", **_EVALUATED}, _CONTINUOUS),
        "dqn": Method("Double DQN", {"agent": "dqn", **_EVALUATED}, _DQN),
    },
    seeds=3,
    report=report,
    published=peers,
)
