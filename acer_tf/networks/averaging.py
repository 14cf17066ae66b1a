"""The average policy network, kept by exponential moving average (paper, §3.3)."""

from __future__ import annotations

import keras


def update_average(average: keras.Model, online: keras.Model, decay: float) -> None:
    """θ_a ← α θ_a + (1 − α) θ, in place, for every trainable variable (§3.3 and Algorithm 2).

    Args:
        average: holds θ_a.
        online: holds θ, and has the same architecture.
        decay: α in [0, 1).
    """
    for theta_a, theta in zip(average.trainable_variables, online.trainable_variables, strict=True):
        theta_a.assign(decay * theta_a + (1.0 - decay) * theta)
