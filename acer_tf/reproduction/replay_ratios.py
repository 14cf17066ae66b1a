"""The design of the ACER paper's Figure 1, on any games: replay ratios with and without trust region."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from acer_tf.reproduction.figure import Method
from acer_tf.reproduction.published import Figure1Method, figure1_by_frames

RATIOS = (0, 1, 4, 8)
WITH_TRUST, WITHOUT = (tuple(f"replay{ratio}{end}" for ratio in RATIOS) for end in ("_trust", ""))
# The published curve of each method, by the method's key.
SHOWN = {
    f"replay{ratio}{'_trust' if trust_region else ''}": Figure1Method("ACER", ratio, trust_region)
    for ratio in RATIOS
    for trust_region in (True, False)
} | {"dqn": Figure1Method("DQN"), "prioritized": Figure1Method("Prioritized Double DQN")}


def replay_ratio_methods(base: Mapping[str, Any], steps: Mapping[int, int]) -> dict[str, Method]:
    """ACER with each replay ratio, over the settings `base`; `steps` are agent steps by ratio."""
    found = {}
    for key, shown in SHOWN.items():
        if shown.replay_ratio is not None:
            delta = 1.0 if shown.trust_region else math.inf
            settings = {**base, "replay_ratio": float(shown.replay_ratio), "trust_region_delta": delta}
            found[key] = Method(shown.label, settings, steps[shown.replay_ratio])
    return found


def published_median(key: str, frames: float) -> float:
    """The paper's median over 57 games at a number of emulator frames; NaN where its curve does not reach."""
    return figure1_by_frames()[SHOWN[key]].at(frames)


def ratios_of(keys: Iterable[str]) -> str:
    """The replay ratios of methods, as text."""
    return ", ".join(str(SHOWN[key].replay_ratio) for key in keys)
