"""Actors on a Ray cluster, each in a process of its own, while this process learns.

A process between the two is connected to the cluster, see `RayProcess`: the loss of the cluster is an error here. An
actor that dies or hangs is replaced; its environments start anew, which the replay sees as a truncation, and the rows
of the others are kept.
"""

import numpy as np

from acer_tf import envs
from acer_tf.agents.agent import Agent
from acer_tf.runs.signals import StopRequest
from acer_tf.settings import Settings
from acer_tf.training.actor import Request, Stopped
from acer_tf.training.build import actor_bytes
from acer_tf.training.ray_process import RayProcess
from acer_tf.types import EnvironmentSpec, Unroll


def start_driver(address: str, settings: Settings, spec: EnvironmentSpec) -> RayProcess:
    """A process that is connected to the cluster at `address`, which has room for the actors; see `Driver`."""
    return RayProcess("acer_tf.training.ray_driver:Driver", address, settings.actors, actor_bytes(settings, spec))


class RayActors:
    """`settings.actors` actors on the nodes of the cluster that `driver` is connected to.

    They act by the policy of `agent`, in a run of `steps` steps so far. An actor that gives no unroll in `timeout`
    seconds is replaced; a request to `stop` ends waiting. For `factory` see `envs.make`.
    """

    def __init__(
        self,
        driver: RayProcess,
        settings: Settings,
        agent: Agent,
        steps: int,
        *,
        timeout: float,
        stop: StopRequest,
        factory: envs.EnvFactory | None = None,
    ) -> None:
        from ray import cloudpickle

        self._driver, self._agent, self._stop = driver, agent, stop
        self.notes = driver.notes
        driver.call("start", settings, agent.network.spec, cloudpickle.dumps(factory), steps, timeout)

    def begin(self, request: Request) -> None:
        self._driver.send("unroll", [np.asarray(weight) for weight in self._agent.acting_weights()], request)

    def take(self) -> Unroll:
        """Raises what `Actors` lists, Stopped, or ClusterLost if no cluster answers or an actor cannot be replaced."""
        unroll: Unroll = self._driver.receive(self._check)
        return unroll

    def close(self) -> None:
        self._driver.close()  # this ends the actors

    def _check(self) -> None:
        if self._stop.signal_number is not None:
            raise Stopped
