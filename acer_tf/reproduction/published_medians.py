"""Published median human-normalised scores over the 57 Atari games during training; 1 is human.

Frames are the emulator's, 4 per agent step. The data files give sources and protocols.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from acer_tf.reproduction.data_files import between, grouped, numbers, read_table


class MedianByFrames(NamedTuple):
    """A curve of the median over games against emulator frames (not agent steps)."""

    frames: np.ndarray  # [P] float64
    median: np.ndarray  # [P] float64
    low: np.ndarray | None = None  # [P] float64, the published band, if there is one
    high: np.ndarray | None = None  # [P] float64

    def at(self, frames: float) -> float:
        """The median between the two points around `frames`; NaN outside, but for the last 1 % (see `between`)."""
        return between(frames, self.frames, self.median)


class MedianByHours(NamedTuple):
    """A curve of the median over games against hours of wall-clock time."""

    hours: np.ndarray  # [P] float64
    median: np.ndarray  # [P] float64

    def at(self, hours: float) -> float:
        """The median between the two points around `hours`; NaN outside, but for the last 1 % (see `between`)."""
        return between(hours, self.hours, self.median)


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
    found = _figure1("acer_paper_figure1_frames.csv", "frames")
    return MappingProxyType({method: MedianByFrames(*columns) for method, columns in found.items()})


@functools.cache
def figure1_by_hours() -> Mapping[Figure1Method, MedianByHours]:
    """Figure 1, right: the same against wall-clock time on the paper's machine, 16 threads and no GPU.

    >>> method = acer_tf.Figure1Method("ACER", replay_ratio=4, trust_region=True)
    >>> round(acer_tf.figure1_by_hours()[method].at(100), 2)
    1.41
    """
    found = _figure1("acer_paper_figure1_hours.csv", "hours")
    return MappingProxyType({method: MedianByHours(*columns) for method, columns in found.items()})


@functools.cache
def dqn_zoo_medians() -> Mapping[str, MedianByFrames]:
    """DeepMind's DQN Zoo by agent ("Prioritized DQN"), with the range of 5 seeds.

    No-op starts, evaluated apart from training, without a cumulative maximum: unlike Figure 1.

    >>> round(float(acer_tf.dqn_zoo_medians()["DQN"].median[-1]), 2)
    0.43
    """
    found = grouped(read_table("dqn_zoo_median_curves.csv"), "agent")
    return MappingProxyType({a: MedianByFrames(*numbers(rows, MedianByFrames._fields)) for (a,), rows in found.items()})


def _figure1(file: str, axis: str) -> dict[Figure1Method, list[np.ndarray]]:
    found = {}
    for (agent, ratio, trust_region), rows in grouped(
        read_table(file), "agent", "replay_ratio", "trust_region"
    ).items():
        of_acer = (int(ratio), trust_region == "yes") if ratio else (None, None)
        found[Figure1Method(agent, *of_acer)] = numbers(rows, (axis, "median"))
    return found
