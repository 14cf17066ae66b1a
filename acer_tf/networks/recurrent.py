"""The recurrent form of `Network`: torso, LSTM, heads, as in A3C-LSTM (Mnih et al. 2016)."""

from __future__ import annotations

import keras
import tensorflow as tf

from acer_tf.networks.discrete import Layers, Network, joined
from acer_tf.types import RecurrentContext

UNITS = 256


class RecurrentNetwork(Network):
    """A `Network` whose outputs also depend on the earlier observations of the episode.

    The torso reads all rows at once, then the LSTM row by row, then the heads all rows at once:

        planes [B, R, *plane]  ──►  features [B, R, F]  ── LSTM ──►  h [B, R, 256]  ──►  probabilities, Q

    Arguments are those of `Network`; its architectures are the recurrent ones.
    """

    state_size = 2 * UNITS

    def burn_in(
        self, planes: tf.Tensor, memory: RecurrentContext | None, rows: int
    ) -> tuple[tf.Tensor, RecurrentContext | None]:
        assert memory is not None
        state, before = memory.state, memory.carry.shape[1] - rows
        if before:
            _, state = self._hidden(planes[:, :before], RecurrentContext(state, memory.carry[:, :before]))
        return planes[:, before:], RecurrentContext(state, memory.carry[:, before:])

    def __call__(self, planes: tf.Tensor, memory: RecurrentContext | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        assert memory is not None
        hidden, _ = self._hidden(planes, memory)
        return self._by_row(hidden, self._top(joined(hidden)))

    def _step(self, planes: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        return self.model((planes, state, tf.ones([tf.shape(planes)[0], 1], tf.bool)))

    def _hidden(self, planes: tf.Tensor, memory: RecurrentContext) -> tuple[tf.Tensor, tf.Tensor]:
        """(h [B, R, 256], the state [B, U] after the last row)."""
        rows, size = memory.carry.shape[1], self._bottom.output.shape[-1]
        features = tf.reshape(self._bottom(joined(planes)), [-1, rows, size])
        return self._lstm(features, memory.state, memory.carry)

    def _assemble(self, layers: Layers, planes: keras.KerasTensor, features: keras.KerasTensor) -> keras.Model:
        self._bottom = keras.Model(planes, features, name="torso")
        self._lstm = layers.lstm(UNITS, features)
        hidden = keras.Input((UNITS,), name="hidden")
        self._top = keras.Model(hidden, self._heads(layers, hidden), name="heads")
        # The whole network on one row: it acts, and names every variable once.
        state, carry = keras.Input((self.state_size,), name="state"), keras.Input((1,), dtype="bool", name="carry")
        h, next_state = self._lstm(self._bottom(planes)[:, None], state, carry)
        return keras.Model((planes, state, carry), (*self._top(h[:, 0]), next_state), name=self._model_name)
