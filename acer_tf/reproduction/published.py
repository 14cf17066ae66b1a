"""Published learning curves and the paper's control figures; the data files' first lines give source and protocol.

Atari scores: published_scores.py. Their medians over games (Figure 1): published_medians.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from acer_tf.reproduction.data_files import between, numbers, read_table

_CODE_VERSION = "7bfbcf1"  # the newer of the two that OpenAI published
_MUJOCO_FILES = ("spinningup_mujoco_curves.csv", "openai_baselines_mujoco_curves.csv", "td3_authors_mujoco_curves.csv")
# The tasks of the ACER paper's appendix E as this package calls them.
_PAPER_TASKS = {
    "cartpole_swingup": "Cartpole",
    "reacher3": "Reacher3",
    "cheetah": "Cheetah",
    "fish": "Fish",
    "walker2d": "Walker2d",
    "humanoid": "Humanoid",
}


class PublishedCurve(NamedTuple):
    """Return against agent steps (not frames)."""

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
    if family == "atari":
        label = "OpenAI baselines' ACER, published (6 runs)"
        return _curves("openai_baselines_acer_curves.csv", "ACER", label, version=_CODE_VERSION, game=task)
    if family == "control":
        curves = (
            _curves("acer_paper_figure3.csv", method, f"{method}, paper", task=_PAPER_TASKS.get(task), method=method)
            for method in ("ACER", "Trust-TIS", "TIS", "Trust-A3C", "A3C")
        )
        return [curve for found in curves for curve in found]
    name, (spinning_up, baselines, authors) = env.rpartition("-v")[0], _MUJOCO_FILES
    return [
        *_curves(spinning_up, "PPO", "PPO, Spinning Up (v3)", env=f"{name}-v3", algorithm="ppo"),
        *_curves(baselines, "PPO", "PPO, OpenAI baselines (v2)", env=name, algorithm="ppo2"),
        *_curves(baselines, "TRPO", "TRPO, OpenAI baselines (v2)", env=name, algorithm="trpo_mpi"),
        *_curves(spinning_up, "TD3", "TD3, Spinning Up (v3)", env=f"{name}-v3", algorithm="td3"),
        *_curves(authors, "TD3", "TD3, its authors (v1)", env=f"{name}-v1", algorithm="TD3"),
    ]


def published_ablations(env: str) -> list[PublishedCurve]:
    """Figure 4: continuous ACER ("ACER"), and without one of its parts ("no trust region", "no SDN", and so on).

    >>> [round(float(curve.mean[-1]), 1) for curve in acer_tf.published_ablations("control/walker2d")]
    [23.5, 6.0, 21.7, 9.9, 23.7]

    Raises:
        ValueError: `env` is not "control/fish", "control/walker2d" or "control/humanoid".
    """
    file = "acer_paper_figure4.csv"
    rows = _rows_of_task(file, "Figure 4", env)
    task, methods = rows[0]["task"], dict.fromkeys(row["method"] for row in rows)
    return [curve for m in methods for curve in _curves(file, m, f"{m}, paper", task=task, method=m)]


def published_search(env: str) -> list[SearchPoint]:
    """Figures 5 and 6: the settings of the random search of continuous ACER that the figures show, 22 to 30 per task.

    >>> max(acer_tf.published_search("control/cheetah"), key=lambda point: point.score).delta
    0.4224

    Args:
        env: "control/cheetah" and so on, the six tasks of the paper.

    Raises:
        ValueError: Figures 5 and 6 do not show `env`.
    """
    rows = _rows_of_task("acer_paper_figures5_6.csv", "Figures 5 and 6", env)
    return [SearchPoint(*(float(row[name]) for name in SearchPoint._fields)) for row in rows]


def _rows_of_task(file: str, figure: str, env: str) -> list[dict[str, str]]:
    rows = read_table(file)
    shown = {f"control/{ours}": paper for ours, paper in _PAPER_TASKS.items() if any(r["task"] == paper for r in rows)}
    if env not in shown:
        raise ValueError(f"{figure} of the paper: {', '.join(shown)}; not {env!r}")
    return [row for row in rows if row["task"] == shown[env]]


def _curves(file: str, method: str, label: str, /, **wanted: str | None) -> list[PublishedCurve]:
    """The curve of the rows of a file that match `wanted`, if there are any."""
    rows = [row for row in read_table(file) if all(row[name] == value for name, value in wanted.items())]
    if not rows:
        return []
    steps, mean = numbers(rows, "steps"), numbers(rows, "mean")
    if "std" in rows[0]:
        low, high = mean - numbers(rows, "std"), mean + numbers(rows, "std")
    else:
        low, high = numbers(rows, "low"), numbers(rows, "high")
    return [PublishedCurve(method, label, steps, mean, low, high)]
