"""Published learning curves that this package ships; source and protocol stand in each data file's first lines."""

from __future__ import annotations

import csv
from importlib import resources
from typing import NamedTuple

import numpy as np

_CODE_VERSION = "7bfbcf1"  # the newer of the two that OpenAI published


class PublishedCurve(NamedTuple):
    """Training return against agent steps (not frames)."""

    label: str
    steps: np.ndarray  # [P] float64
    mean: np.ndarray  # [P] float64
    low: np.ndarray  # [P] float64, the published band
    high: np.ndarray  # [P] float64


def baselines_acer_curve(env: str) -> PublishedCurve | None:
    """OpenAI baselines' ACER on `env` ("atari/Pong"), to 10 M steps, mean of 6 runs; None where they ran none."""
    rows = [
        row
        for row in _read("openai_baselines_acer_curves.csv")
        if f"atari/{row['game']}" == env and row["version"] == _CODE_VERSION
    ]
    if not rows:
        return None
    columns = (np.array([float(row[name]) for row in rows]) for name in ("steps", "mean", "low", "high"))
    return PublishedCurve("OpenAI baselines' ACER, published (6 runs)", *columns)


def _read(name: str) -> list[dict[str, str]]:
    text = (resources.files("acer_tf.reproduction") / "data" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
