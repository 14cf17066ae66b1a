"""Published median human-normalised scores over the 57 Atari games during training; 1 is human.

Frames are the emulator's, 4 per agent step. The data files give sources and protocols.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from acer_tf.reproduction.data_files import between, numbers, read_table


class MedianByFrames(NamedTuple):
    """Median over games against emulator frames (not agent steps)."""

    frames: np.ndarray  # [P] float64
    median: np.ndarray  # [P] float64
    low: np.ndarray | None = None  # [P] float64, the published band, if there is one
    high: np.ndarray | None = None  # [P] float64

    def at(self, frames: float) -> float:
        """The median between the two points around `frames`; NaN outside, but for the last 1 % (see `between`)."""
        return between(frames, self.frames, self.median)


class MedianByHours(NamedTuple):
    """Median over games against hours of wall-clock time."""

    hours: np.ndarray  # [P] float64
    median: np.ndarray  # [P] float64

    def at(self, hours: float) -> float:
        """The median between the two points around `hours`; NaN outside, but for the last 1 % (see `between`)."""
        return between(hours, self.hours, self.median)


class Figure1Method(NamedTuple):
    """What a curve of the ACER paper's Figure 1 shows."""

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
    found = _figure1("acer_paper_figure1_frames.csv")
    return MappingProxyType({m: MedianByFrames(numbers(r, "frames"), numbers(r, "median")) for m, r in found.items()})


@functools.cache
def figure1_by_hours() -> Mapping[Figure1Method, MedianByHours]:
    """Figure 1, right: the same against wall-clock time on the paper's machine, 16 threads and no GPU.

    >>> method = acer_tf.Figure1Method("ACER", replay_ratio=4, trust_region=True)
    >>> round(acer_tf.figure1_by_hours()[method].at(100), 2)
    1.41
    """
    found = _figure1("acer_paper_figure1_hours.csv")
    return MappingProxyType({m: MedianByHours(numbers(r, "hours"), numbers(r, "median")) for m, r in found.items()})


@functools.cache
def dqn_zoo_medians() -> Mapping[str, MedianByFrames]:
    """DeepMind's DQN Zoo by agent ("Prioritized DQN"), with the range of 5 seeds.

    No-op starts, evaluated apart from training, without a cumulative maximum: unlike Figure 1.

    >>> round(float(acer_tf.dqn_zoo_medians()["DQN"].median[-1]), 2)
    0.43
    """
    rows_by_agent: dict[str, list[dict[str, str]]] = {}
    for row in read_table("dqn_zoo_median_curves.csv"):
        rows_by_agent.setdefault(row["agent"], []).append(row)
    fields = MedianByFrames._fields
    return MappingProxyType(
        {agent: MedianByFrames(*(numbers(rows, name) for name in fields)) for agent, rows in rows_by_agent.items()}
    )


def _figure1(file: str) -> dict[Figure1Method, list[dict[str, str]]]:
    found: dict[Figure1Method, list[dict[str, str]]] = {}
    for row in read_table(file):
        ratio, trust_region = row["replay_ratio"], row["trust_region"]
        of_acer = (int(ratio), trust_region == "yes") if ratio else (None, None)
        found.setdefault(Figure1Method(row["agent"], *of_acer), []).append(row)
    return found
