"""The recurrent form of `Network`: torso, LSTM, heads. A3C-LSTM (Mnih et al. 2016) is the reference."""

from __future__ import annotations

import keras
import tensorflow as tf

from acer_tf.distributions import Categorical
from acer_tf.networks import Layers, Network, joined
from acer_tf.types import Memory

UNITS = 256


class RecurrentNetwork(Network):
    """A `Network` that reads each observation in the light of those before it in the episode.

    The torso reads all rows at once, the LSTM row by row, the heads all rows at once again:

        planes [B, R, *plane]  ──►  features [B, R, F]  ── LSTM from `Memory` ──►  h [B, R, 256]  ──►  probabilities, Q

    Acting is `observe`, one row, which takes the state [N, U] and gives the next. Arguments are those of `Network`;
    its architectures are the recurrent ones.
    """

    state_size = 2 * UNITS

    def distribution(  # type: ignore[override]  # a state goes in and out
        self, observation: tf.Tensor, state: tf.Tensor
    ) -> tuple[Categorical, tf.Tensor]:
        """f(·|φ(x)) of observations [N, *observation_shape] as the environment shows them, and the next state [N, U].

        Args:
            observation: as the environment shows it.
            state: [N, U] after the observation before; zeros where this is an episode's first.
        """
        probabilities, _, state = self.observe(observation, state)
        return Categorical(probabilities), state

    def observe(  # type: ignore[override]
        self, observation: tf.Tensor, state: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(probabilities [N, A], Q [N, A], the next state [N, U]); arguments as `distribution`'s."""
        goes_on = tf.ones([tf.shape(observation)[0], 1], tf.bool)
        probabilities, q, state = self.model((self._shown(observation), state, goes_on))
        return probabilities, q, state

    def burn_in(self, planes: tf.Tensor, memory: Memory | None, rows: int) -> tuple[tf.Tensor, Memory]:
        """What `__call__` takes to answer the last `rows` rows, the state moved up to them by this network.

        Args:
            planes: [B, W+rows, *plane].
            memory: of all W+rows rows.
            rows: those behind the burn-in.
        """
        assert memory is not None
        state, before = memory.state, memory.carry.shape[1] - rows
        if before:
            _, state = self._hidden(planes[:, :before], Memory(state, memory.carry[:, :before]))
        return planes[:, before:], Memory(state, memory.carry[:, before:])

    def __call__(  # type: ignore[override]
        self, planes: tf.Tensor, memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """(probabilities [B, R, A], Q [B, R, A]) of planes [B, R, *plane] and what was before them; float32."""
        hidden, _ = self._hidden(planes, memory)
        shape = [tf.shape(hidden)[0], hidden.shape[1], self.spec.num_actions]
        probabilities, q = self._top(joined(hidden))
        return tf.reshape(probabilities, shape), tf.reshape(q, shape)

    def _hidden(self, planes: tf.Tensor, memory: Memory) -> tuple[tf.Tensor, tf.Tensor]:
        """(h [B, R, 256], the state [B, U] after the last row)."""
        rows, size = memory.carry.shape[1], self._bottom.output.shape[-1]
        features = tf.reshape(self._bottom(joined(planes)), [-1, rows, size])
        return self._lstm(features, memory.state, memory.carry)

    def _assemble(self, layers: Layers, planes: keras.KerasTensor, features: keras.KerasTensor) -> keras.Model:
        self._bottom = keras.Model(planes, features, name="torso")
        self._lstm = layers.lstm(UNITS, features)
        hidden = keras.Input((UNITS,), name="hidden")
        self._top = keras.Model(hidden, self._heads(layers, hidden), name="heads")
        # One row of it all, which acts, and names every variable once.
        state, carry = keras.Input((self.state_size,), name="state"), keras.Input((1,), dtype="bool", name="carry")
        h, next_state = self._lstm(self._bottom(planes)[:, None], state, carry)
        name = self.architecture.replace(":", ".")  # which scopes take
        return keras.Model((planes, state, carry), (*self._top(h[:, 0]), next_state), name=name)
