"""Published learning curves and the paper's control figures; the data files' first lines give source and protocol.

Atari scores: published_scores.py. Their medians over games (Figure 1): published_medians.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from acer_tf.reproduction.data_files import Rows, between, grouped, numbers, read_table

# The tasks of the ACER paper's appendix E as this package calls them.
_PAPER_TASKS = {
    "cartpole_swingup": "Cartpole",
    "reacher3": "Reacher3",
    "cheetah": "Cheetah",
    "fish": "Fish",
    "walker2d": "Walker2d",
    "humanoid": "Humanoid",
}
# Of gymnasium's MuJoCo tasks: method, source, file, version of the task there, and the name of the method there.
_MUJOCO = (
    ("PPO", "PPO, Spinning Up (v3)", "spinningup_mujoco_curves.csv", "-v3", "ppo"),
    ("PPO", "PPO, OpenAI baselines (v2)", "openai_baselines_mujoco_curves.csv", "", "ppo2"),
    ("TRPO", "TRPO, OpenAI baselines (v2)", "openai_baselines_mujoco_curves.csv", "", "trpo_mpi"),
    ("TD3", "TD3, Spinning Up (v3)", "spinningup_mujoco_curves.csv", "-v3", "td3"),
    ("TD3", "TD3, its authors (v1)", "td3_authors_mujoco_curves.csv", "-v1", "TD3"),
)


class PublishedCurve(NamedTuple):
    """A published curve: return against agent steps (not frames)."""

    method: str
    label: str  # the method and its source
    steps: np.ndarray  # [P] float64
    mean: np.ndarray  # [P] float64
    low: np.ndarray  # [P] float64, the published band, or mean ± the published standard deviation
    high: np.ndarray  # [P] float64

    def at(self, steps: float) -> float:
        """The mean between the two points around `steps`; NaN outside, but for the last 1 % (`data_files.between`)."""
        return between(steps, self.steps, self.mean)


class SearchPoint(NamedTuple):
    """One setting of the paper's random search, and its result."""

    learning_rate: float
    delta: float  # δ of the trust region
    score: float  # reward per episode of 500 steps at the end of training


def published_curves(env: str) -> list[PublishedCurve]:
    """The published curves of `env` that ACER can be compared with, if there are any.

    >>> (curve,) = acer_tf.published_curves("atari/Pong")
    >>> round(curve.at(10e6), 1)
    19.5

    Args:
        env: "atari/<Game>": OpenAI baselines' ACER. "control/<task>": the five methods of the paper's Figure 3, whose
            task models differ from this package's. "<Name>-v<N>", gymnasium's MuJoCo tasks: PPO, TRPO and TD3 on older
            versions of the same task.
    """
    family, _, task = env.partition("/")
    if family == "atari":  # the version of the code is the newer of the two that OpenAI published
        rows = read_table("openai_baselines_acer_curves.csv", version="7bfbcf1", game=task)
        return [_curve("ACER", "OpenAI baselines' ACER, published (6 runs)", rows)] if rows else []
    if family == "control":
        by_method = _by_method(read_table("acer_paper_figure3.csv", task=_PAPER_TASKS.get(task, "")))
        return [by_method[name] for name in ("ACER", "Trust-TIS", "TIS", "Trust-A3C", "A3C") if name in by_method]
    name = env.rpartition("-v")[0]
    found = ((m, label, read_table(file, env=name + v, algorithm=its_name)) for m, label, file, v, its_name in _MUJOCO)
    return [_curve(*each) for each in found if each[-1]]


def published_ablations(env: str) -> list[PublishedCurve]:
    """Figure 4: continuous ACER ("ACER"), and without one of its parts ("no trust region", "no SDN", and so on).

    >>> [round(float(curve.mean[-1]), 1) for curve in acer_tf.published_ablations("control/walker2d")]
    [23.5, 6.0, 21.7, 9.9, 23.7]

    Raises:
        ValueError: `env` is not "control/fish", "control/walker2d" or "control/humanoid".
    """
    return list(_by_method(_of_task("acer_paper_figure4.csv", "Figure 4", env)).values())


def published_search(env: str) -> list[SearchPoint]:
    """Figures 5 and 6: the settings of the random search of continuous ACER that the figures show, 22 to 30 per task.

    >>> max(acer_tf.published_search("control/cheetah"), key=lambda point: point.score).delta
    0.4224

    Args:
        env: "control/cheetah" and so on, the six tasks of the paper.

    Raises:
        ValueError: Figures 5 and 6 do not show `env`.
    """
    rows = _of_task("acer_paper_figures5_6.csv", "Figures 5 and 6", env)
    return [SearchPoint(*(float(row[name]) for name in SearchPoint._fields)) for row in rows]


def _of_task(file: str, figure: str, env: str) -> Rows:
    by_task = {task: rows for (task,), rows in grouped(read_table(file), "task").items()}
    shown = {f"control/{ours}": by_task[paper] for ours, paper in _PAPER_TASKS.items() if paper in by_task}
    if env not in shown:
        raise ValueError(f"{figure} of the paper: {', '.join(shown)}; not {env!r}")
    return shown[env]


def _by_method(rows: Rows) -> dict[str, PublishedCurve]:
    return {method: _curve(method, f"{method}, paper", of) for (method,), of in grouped(rows, "method").items()}


def _curve(method: str, label: str, rows: Rows) -> PublishedCurve:
    steps, mean = numbers(rows, ("steps", "mean"))
    if "std" in rows[0]:
        (std,) = numbers(rows, ("std",))
        return PublishedCurve(method, label, steps, mean, mean - std, mean + std)
    return PublishedCurve(method, label, steps, mean, *numbers(rows, ("low", "high")))
