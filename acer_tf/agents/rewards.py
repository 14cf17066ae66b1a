"""Normalization of rewards by the spread of returns, for the learner alone: baselines' VecNormalize, unclipped."""

import keras
import numpy as np
import tensorflow as tf

from acer_tf.types import Unroll


class RewardNormalization:
    """The running standard deviation of the discounted return Σ γ^i r_{t−i} since each episode's first row.

    Attributes:
        statistics: [3] float32, for checkpoints: the number of returns seen, their mean and their variance.
    """

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._return: np.ndarray | None = None  # [N] float64, of the rows so far; a resumed run begins new episodes
        self.statistics = keras.Variable([0.0, 0.0, 1.0], trainable=False, dtype="float32", name="statistics")

    def update(self, unroll: Unroll) -> None:
        """Adds the returns at the unmasked rows of an unroll, by the moments of a union (Chan et al. 1979)."""
        running = np.zeros(len(unroll.reward)) if self._return is None else self._return
        seen = []
        columns = unroll.reward.T, unroll.discount.T, unroll.mask.T, unroll.last.T
        for reward, discount, mask, last in zip(*columns, strict=True):
            running = np.where(mask, self._gamma * running + reward, running * discount)
            seen.append(running[mask])
            running = np.where(last, 0.0, running)
        self._return, new = running, np.concatenate(seen)
        if not len(new):
            return
        count, mean, variance = np.asarray(self.statistics.value, np.float64)
        share, offset = len(new) / (count + len(new)), new.mean() - mean
        variance += share * (new.var() - variance) + share * (1 - share) * offset**2
        with np.errstate(over="ignore"):
            statistics = np.array([count + len(new), mean + share * offset, variance], np.float32)
        if np.isfinite(statistics).all():  # else one reward would make all later ones 0
            self.statistics.assign(statistics)

    def standard_deviation(self) -> tf.Tensor:
        """The scalar that rewards are divided by: 1 before the first row, and while all returns are equal."""
        _, mean, variance = tf.unstack(self.statistics)
        return tf.where(variance > 1e-8 * mean**2, tf.sqrt(variance + 1e-8), 1.0)
