"""Published learning curves, medians over Atari games, and the ACER paper's control figures.

The data files' first lines give sources and protocols. Scores by game: scores.py.
"""

import functools
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

# The tasks of the ACER paper's appendix E as this package calls them.
_PAPER_TASKS = {"cartpole_swingup": "Cartpole"} | {
    task: task.capitalize() for task in ("reacher3", "cheetah", "fish", "walker2d", "humanoid")
}
# Curves of gymnasium's MuJoCo tasks: method, source, file, version of the task there, and the name of the method there.
_MUJOCO = (
    ("PPO", "PPO, Spinning Up (v3)", "spinningup_mujoco_curves.csv", "-v3", "ppo"),
    ("PPO", "PPO, OpenAI baselines (v2)", "openai_baselines_mujoco_curves.csv", "", "ppo2"),
    ("TRPO", "TRPO, OpenAI baselines (v2)", "openai_baselines_mujoco_curves.csv", "", "trpo_mpi"),
    ("TD3", "TD3, Spinning Up (v3)", "spinningup_mujoco_curves.csv", "-v3", "td3"),
    ("TD3", "TD3, its authors (v1)", "td3_authors_mujoco_curves.csv", "-v1", "TD3"),
)


def read_table(name: str, **wanted: str) -> pd.DataFrame:
    """The rows of data/`name` that have the `wanted` cells, by column; "#" lines state protocol and source."""
    with (resources.files("acer_tf.reproduction") / "data" / name).open(encoding="utf-8") as file:
        table = pd.read_csv(file, comment="#", float_precision="round_trip")
    for column, cell in wanted.items():
        table = table[table[column] == cell]
    return table


def _between(x: float, points: np.ndarray, values: np.ndarray) -> float:
    """Interpolates linearly at `x`; NaN outside `points`, but the last value up to 1 % after them, where runs end."""
    if points[-1] < x <= 1.01 * points[-1]:
        return float(values[-1])
    return float(np.interp(x, points, values, left=np.nan, right=np.nan))


class PublishedCurve(NamedTuple):
    """A published curve: return against agent steps (not frames)."""

    method: str
    label: str  # the method and its source
    steps: np.ndarray  # [P] float64
    mean: np.ndarray  # [P] float64
    low: np.ndarray  # [P] float64, the published band, or mean ± the published standard deviation
    high: np.ndarray  # [P] float64

    def at(self, steps: float) -> float:
        """The mean between the two points around `steps`; the last one up to 1 % later, else NaN outside."""
        return _between(steps, self.steps, self.mean)


class SearchPoint(NamedTuple):
    """One setting of the paper's random search, and its result."""

    learning_rate: float
    delta: float  # δ of the trust region
    score: float  # reward per episode of 500 steps at the end of training


def published_curves(env: str) -> list[PublishedCurve]:
    """The published curves of `env` that ACER can be compared with, if there are any.

    >>> [round(curve.at(4e6), 1) for curve in acer_tf.published_curves("atari/Pong")]
    [12.7, 14.6]

    Args:
        env: "atari/<Game>": OpenAI baselines' ACER, by the newer and by the older version of its code.
            "control/<task>": the five methods of the paper's Figure 3, whose task models differ from this package's.
            "<Name>-v<N>", gymnasium's MuJoCo tasks: PPO, TRPO and TD3 on older versions of the same task.
    """
    family, _, task = env.partition("/")
    if family == "atari":
        table = read_table("openai_baselines_acer_curves.csv", game=task)
        versions = table.groupby("version", sort=False)
        found = [
            ("ACER", f"OpenAI baselines' ACER, published (6 runs, code {version})", rows) for version, rows in versions
        ]
    elif family == "control":
        table = read_table("acer_paper_figure3.csv", task=_PAPER_TASKS.get(task, ""))
        methods = ("ACER", "Trust-TIS", "TIS", "Trust-A3C", "A3C")
        found = [(name, f"{name}, paper", table[table.method == name]) for name in methods]
    else:
        name = env.rpartition("-v")[0]
        found = [(m, label, read_table(file, env=name + v, algorithm=a)) for m, label, file, v, a in _MUJOCO]
    return [_curve(*each) for each in found if len(each[-1])]


def published_ablations(env: str) -> list[PublishedCurve]:
    """Figure 4: continuous ACER ("ACER"), and without one of its parts ("no trust region", "no SDN", and so on).

    >>> [round(float(curve.mean[-1]), 1) for curve in acer_tf.published_ablations("control/walker2d")]
    [23.5, 6.0, 21.7, 9.9, 23.7]

    Raises:
        ValueError: `env` is not "control/fish", "control/walker2d" or "control/humanoid".
    """
    by_method = _of_task("acer_paper_figure4.csv", "Figure 4", env).groupby("method", sort=False)
    return [_curve(method, f"{method}, paper", rows) for method, rows in by_method]


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
    return list(map(SearchPoint._make, rows[[*SearchPoint._fields]].to_numpy().tolist()))


def _of_task(file: str, figure: str, env: str) -> pd.DataFrame:
    table = read_table(file)
    shown = {f"control/{ours}": paper for ours, paper in _PAPER_TASKS.items() if (table.task == paper).any()}
    if env not in shown:
        raise ValueError(f"{figure} of the paper: {', '.join(shown)}; not {env!r}")
    return table[table.task == shown[env]]


def _curve(method: str, label: str, rows: pd.DataFrame) -> PublishedCurve:
    if "std" in rows:
        rows = rows.assign(low=rows["mean"] - rows["std"], high=rows["mean"] + rows["std"])
    return PublishedCurve(method, label, *_columns(rows, "steps", "mean", "low", "high"))


def _columns(rows: pd.DataFrame, *names: str) -> list[np.ndarray]:
    return [rows[name].to_numpy(float) for name in names]


class MedianByFrames(NamedTuple):
    """The median human-normalised score over the 57 games (1 is human) against emulator frames, 4 per agent step."""

    frames: np.ndarray  # [P] float64
    median: np.ndarray  # [P] float64
    low: np.ndarray | None = None  # [P] float64, the published band, if there is one
    high: np.ndarray | None = None  # [P] float64

    def at(self, frames: float) -> float:
        """The median between the two points around `frames`; the last one up to 1 % later, else NaN outside."""
        return _between(frames, self.frames, self.median)


class MedianByHours(NamedTuple):
    """The same against hours of wall-clock time."""

    hours: np.ndarray  # [P] float64
    median: np.ndarray  # [P] float64

    def at(self, hours: float) -> float:
        """The median between the two points around `hours`; the last one up to 1 % later, else NaN outside."""
        return _between(hours, self.hours, self.median)


class Figure1Method(NamedTuple):
    """The method that a curve of the ACER paper's Figure 1 shows."""

    agent: str  # "ACER", "DQN" or "Prioritized Double DQN"
    replay_ratio: int | None = None  # of ACER: 0, 1, 4 or 8; 0 without trust region is the paper's A3C
    trust_region: bool | None = None  # of ACER

    @property
    def label(self) -> str:
        """For legends: "ACER, replay 4, no trust region"."""
        if self.replay_ratio is None:
            return self.agent
        return f"{self.agent}, replay {self.replay_ratio}{'' if self.trust_region else ', no trust region'}"


@functools.cache
def figure1_by_frames() -> Mapping[Figure1Method, MedianByFrames]:
    """Figure 1, left, of the ACER paper: the cumulative maximum of the median of training scores.

    >>> method = acer_tf.Figure1Method("ACER", replay_ratio=4, trust_region=True)
    >>> round(acer_tf.figure1_by_frames()[method].at(100e6), 2)
    1.09
    """
    return _figure1("acer_paper_figure1_frames.csv", "frames", MedianByFrames)


@functools.cache
def figure1_by_hours() -> Mapping[Figure1Method, MedianByHours]:
    """Figure 1, right: the same against wall-clock time on the paper's machine, 16 threads and no GPU.

    >>> method = acer_tf.Figure1Method("ACER", replay_ratio=4, trust_region=True)
    >>> round(acer_tf.figure1_by_hours()[method].at(100), 2)
    1.41
    """
    return _figure1("acer_paper_figure1_hours.csv", "hours", MedianByHours)


@functools.cache
def dqn_zoo_medians() -> Mapping[str, MedianByFrames]:
    """DeepMind's DQN Zoo by agent ("Prioritized DQN"), with the range of 5 seeds.

    No-op starts, evaluated apart from training, without a cumulative maximum: unlike Figure 1.

    >>> round(float(acer_tf.dqn_zoo_medians()["DQN"].median[-1]), 2)
    0.43
    """
    by_agent = read_table("dqn_zoo_median_curves.csv").groupby("agent", sort=False)
    return MappingProxyType({a: MedianByFrames(*_columns(rows, *MedianByFrames._fields)) for a, rows in by_agent})


def _figure1(file: str, axis: str, kind: Any) -> Any:
    found = {}
    groups = read_table(file).groupby(["agent", "replay_ratio", "trust_region"], sort=False, dropna=False)
    for (agent, ratio, trust_region), rows in groups:
        of_acer = () if pd.isna(ratio) else (int(ratio), trust_region == "yes")
        found[Figure1Method(agent, *of_acer)] = kind(*_columns(rows, axis, "median"))
    return MappingProxyType(found)
