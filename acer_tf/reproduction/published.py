"""Published learning curves that this package ships; source and protocol stand in each data file's first lines."""

from __future__ import annotations

import csv
from importlib import resources
from typing import NamedTuple

import numpy as np

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
    label: str  # the method, who published it, and of what
    steps: np.ndarray  # [P] float64
    mean: np.ndarray  # [P] float64
    low: np.ndarray  # [P] float64, the published band, or mean ± the published standard deviation
    high: np.ndarray  # [P] float64

    def at(self, steps: float) -> float:
        """The mean between the two points around `steps`; NaN outside."""
        return float(np.interp(steps, self.steps, self.mean, left=np.nan, right=np.nan))


def published_curves(env: str) -> list[PublishedCurve]:
    """What was published of `env`, as far as it bears on ACER; empty where nothing was.

    Args:
        env: "atari/<Game>": OpenAI baselines' ACER. "control/<task>": the five methods of the paper's Figure 3, whose
            task models differ from this package's. "<Name>-v<N>", one of gymnasium's MuJoCo tasks: PPO, TRPO and TD3 on
            older versions of the same name.
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


def _curves(file: str, method: str, label: str, /, **wanted: str | None) -> list[PublishedCurve]:
    """The curve of those rows of a file that hold `wanted`, or none."""
    rows = [row for row in _read(file) if all(row[name] == value for name, value in wanted.items())]
    if not rows:
        return []
    steps, mean = _column(rows, "steps"), _column(rows, "mean")
    if "std" in rows[0]:
        low, high = mean - _column(rows, "std"), mean + _column(rows, "std")
    else:
        low, high = _column(rows, "low"), _column(rows, "high")
    return [PublishedCurve(method, label, steps, mean, low, high)]


def _column(rows: list[dict[str, str]], name: str) -> np.ndarray:
    return np.array([float(row[name]) for row in rows])


def _read(name: str) -> list[dict[str, str]]:
    text = (resources.files("acer_tf.reproduction") / "data" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
