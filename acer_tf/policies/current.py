"""The policy of a network that is still being trained, with the interface of an exported one."""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from acer_tf.networks.policy_network import PolicyNetwork
from acer_tf.policies.export import export_policy, policy_document, serving
from acer_tf.policies.policy import Policy
from acer_tf.types import EnvironmentSpec


class CurrentPolicy(Policy):
    """The policy of `network` at each call, as its export would answer; nothing is made before the first call.

    Args:
        network: it may change between calls, but not without its run's steps.
        steps: returns the steps so far.
        describe: returns the metadata for `export_policy`.
    """

    def __init__(
        self, network: PolicyNetwork, steps: Callable[[], int], describe: Callable[[], Mapping[str, Any]]
    ) -> None:
        self.network, self.describe, self._steps = network, describe, steps
        self._copied = -1  # the steps at which the weights were copied

    def export(self, directory: str | Path) -> None:
        """Writes the policy to `directory`, for `load_policy`; raises as `export_policy`."""
        export_policy(self.network, Path(directory), self.describe())

    @property
    def metadata(self) -> Mapping[str, Any]:  # type: ignore[override]
        document: Mapping[str, Any] = json.loads(policy_document(self.network, self.describe()))
        return document

    @property
    def spec(self) -> EnvironmentSpec:  # type: ignore[override]
        return self.network.spec

    @property
    def state_size(self) -> int:  # type: ignore[override]
        return self.network.state_size

    @property
    def signature(self) -> Any:
        copy, function = self._served
        if self._copied != (steps := self._steps()):
            copy.set_weights(self.network.get_weights())
            if exploration := getattr(copy, "exploration", None):
                exploration.epsilon.assign(copy.evaluation_epsilon)
            self._copied = steps
        return function

    @functools.cached_property
    def _served(self) -> tuple[Any, Any]:
        copy = self.network.in_float32()
        act, inputs = serving(copy)

        def named(**given: tf.Tensor) -> dict[str, tf.Tensor]:
            return act(*(given[tensor.name] for tensor in inputs))

        function = tf.function(named, autograph=False).get_concrete_function(**{t.name: t for t in inputs})
        return copy, function
