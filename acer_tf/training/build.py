"""Builds the network, agent, replay, actors and loop of a run from its settings."""

import collections
import functools
import inspect
import math
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np

from acer_tf import envs, resources
from acer_tf.agents.agent import Agent
from acer_tf.agents.dqn import Dqn
from acer_tf.errors import SettingsError
from acer_tf.networks.continuous import ContinuousNetwork
from acer_tf.networks.discrete import Network
from acer_tf.networks.layers import RunningNormalization
from acer_tf.networks.policy_network import PolicyNetwork
from acer_tf.networks.torsos import Dense
from acer_tf.references import imported
from acer_tf.replay import PrioritizedReplay, TrajectoryReplay
from acer_tf.replay.prioritized import Priority
from acer_tf.settings import Settings
from acer_tf.settings.effect import require_actions
from acer_tf.settings.rules import RULES
from acer_tf.training.actor import Act, Actor, LocalActors
from acer_tf.types import EnvironmentSpec

_USUAL_ENVS = 16  # those that PROCESS_BYTES counts
_UNITS = 512  # of a network's layers, about


def agent_class(settings: Settings, spec: EnvironmentSpec) -> type[Agent]:
    """The class that `--agent` names.

    Raises:
        InvalidEnvironment: the agent does not support the environment's kind of actions.
        SettingsError: a user's class cannot be imported, is not an `Agent`, or is a `Dqn`.
    """
    require_actions(settings, spec)
    try:
        found = imported(settings.rule.continuous if spec.continuous else settings.rule.discrete)
    except ValueError as error:
        raise SettingsError(f"--agent={settings.agent}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise SettingsError(f"--agent={settings.agent}: must be a subclass of acer_tf.agents.agent.Agent")
    if settings.agent not in RULES and issubclass(found, Dqn):
        raise SettingsError(
            f"--agent={settings.agent}: must not be a subclass of Dqn, as only --agent=dqn gets single transitions"
        )
    return found


def make_network(
    settings: Settings, spec: EnvironmentSpec, normalization: RunningNormalization | None = None
) -> PolicyNetwork:
    """The network of resolved `settings`, newly initialized; it may share another's `normalization` of observations.

    Raises:
        InvalidEnvironment: the agent does not support the environment's kind of actions.
        SettingsError: the network does not accept the observations, a user's class cannot be imported, or its
            `network_options` do not fit.
    """
    chosen = agent_class(settings, spec).network_options(settings)
    options: dict[str, Any] = {"architecture": settings.network, "initialization": settings.initialization}
    options |= {"precision": settings.precision, "lstm_units": settings.lstm_units}
    options |= {"seed": derive_seed(settings, "weights"), "normalization": normalization, **chosen}
    kind: Any = ContinuousNetwork if spec.continuous else Network
    h = settings
    if spec.continuous:
        options |= {"shared_torso": h.shared_torso, "policy_std": h.policy_std}
    options |= {"dense": Dense(h.dense_sizes, h.dense_activation, h.dense_normalization, h.normalize_observations)}
    try:
        inspect.signature(kind).bind(spec, **options)
    except TypeError as error:
        raise SettingsError(
            f"--agent={settings.agent}: its network_options, {chosen}, do not fit {kind.__name__}, the network of "
            f"{'continuous' if spec.continuous else 'discrete'} actions: {error}"
        ) from error
    try:
        network: PolicyNetwork = kind(spec, **options)
    except ValueError as error:
        given = f" (with network_options of --agent={settings.agent}, {chosen})" if chosen else ""
        raise SettingsError(f"--network={settings.network}{given}: {error}") from error
    counts = collections.Counter(weight.path for weight in network.weights)
    if twice := [path.partition("/")[0] for path, count in counts.items() if count > 1]:
        raise SettingsError(
            f"--network={settings.network}: two layers are named {twice[0]}, so checkpoints would mix them"
        )
    return network


def make_agent(settings: Settings, spec: EnvironmentSpec) -> Agent:
    """A new agent of resolved `settings`, with its average policy network and optimizer."""
    network = make_network(settings, spec)
    average = make_network(settings, spec, network.normalization)
    return agent_class(settings, spec)(network, average, make_optimizer(settings, spec), settings)


def make_optimizer(settings: Settings, spec: EnvironmentSpec) -> keras.optimizers.Optimizer:
    """The agent's optimizer; SettingsError if it cannot be made."""
    try:
        return agent_class(settings, spec).make_optimizer(settings)
    except ValueError as error:
        raise SettingsError(f"--optimizer={settings.optimizer}: {error}") from error


def make_replay(
    settings: Settings, spec: EnvironmentSpec, file: Path | None = None, *, on_ray: bool = False
) -> TrajectoryReplay:
    """An empty replay of resolved `settings`, in memory or a new `file`; the smallest possible if nothing is replayed.

    Raises:
        SettingsError: it or the environments, unless actors have them `on_ray`, do not fit into memory, or the file
            cannot be made.
    """
    require_memory(settings, spec, resources.available_memory(), in_file=file is not None, on_ray=on_ray)
    h, rows = settings, replay_rows(settings, spec)
    sizes = spec, h.num_envs, rows, h.window_length, derive_seed(h, "replay")
    try:
        if (kind := _replay_class(h, spec)) is not PrioritizedReplay:
            return kind(*sizes, segments_only=h.replay_segments_only, file=file, **_recurrent_sizes(h, spec))
        return PrioritizedReplay(
            *sizes,
            batch_size=h.windows_per_update,
            priority=cast(Priority, h.replay_priority),
            priority_exponent=(h.priority_exponent, h.priority_exponent_final),
            importance_exponent=(h.importance_exponent, h.importance_exponent_final),
            priority_epsilon=h.priority_epsilon,
            normalize_by_batch=h.weights_by_batch,
            file=file,
        )
    except OSError as error:
        if file is None:
            raise
        needed = resources.in_bytes(replay_bytes(settings, spec, rows))
        raise SettingsError(
            f"--replay_file={file}: {error.strerror}; must name a new file where {needed} are free"
        ) from error


def make_actor(
    settings: Settings,
    act: Act,
    steps: int,
    group: int = 0,
    *,
    threads: int = 1,
    workers: int = 1,
    factory: envs.EnvFactory | None = None,
    truncates: np.ndarray | None = None,
) -> Actor:
    """The actor of one group, counted from 0, of the environments of resolved `settings`.

    The environments' seeds depend on `steps`, those of the run so far, and are none of `evaluate`'s. For others see
    `Actor` and `envs.make`, which raises InvalidEnvironment or EnvironmentFailure.

    Raises:
        SettingsError: the caller's vector environment does not suit the settings.
    """
    num_envs = settings.num_envs // settings.acting_groups
    first = group * num_envs
    options: dict[str, Any] = {"atari_preset": settings.atari_preset, "action_masks": settings.action_masks}
    options |= {"threads": threads, "workers": workers, "factory": factory}
    env = envs.make(settings.env, num_envs, (settings.seed, steps, 0), first=first, **options)
    if env.num_envs != num_envs or (env.pauses and settings.recurrent):
        env.close()
        if env.num_envs == num_envs:
            raise SettingsError(
                f"--lstm_units={settings.lstm_units}: the vector environment must reset in NEXT_STEP mode, since in "
                "SAME_STEP mode an episode's end would reset the recurrent state of all copies"
            )
        raise SettingsError(
            f"--num_envs={settings.num_envs}: must be {env.num_envs * settings.acting_groups}, for the vector "
            f"environment of {settings.env} has {env.num_envs}; or give its function a parameter num_envs"
        )
    state_size = _recurrent_sizes(settings, env.spec)["state_size"]
    if settings.acting_groups > 1:
        act = functools.partial(act, first=np.int32(first))
    return Actor(env, act, derive_seed(settings, "actions"), state_size, truncates)


def make_actors(settings: Settings, act: Act, steps: int, **options: Any) -> list[Actor]:
    """The actors of all environments, in this process; arguments as in `make_actor`."""
    actors: list[Actor] = []
    try:
        for group in range(settings.acting_groups):
            actors.append(make_actor(settings, act, steps, group, **options))
    except BaseException:
        LocalActors(actors).close()
        raise
    return actors


def replay_rows(settings: Settings, spec: EnvironmentSpec) -> int:
    """Rows per environment that the replay keeps."""
    least = _least_rows(settings, spec)
    return max(settings.replay_capacity, least) if settings.replay_ratio > 0 else least


def replay_bytes(settings: Settings, spec: EnvironmentSpec, capacity: int) -> int:
    """Bytes of a replay of `capacity` rows per environment."""
    sizes = {"unroll_length": settings.window_length, "state_size": _recurrent_sizes(settings, spec)["state_size"]}
    return _replay_class(settings, spec).required_bytes(spec, settings.num_envs, capacity, **sizes)


def actor_bytes(settings: Settings, spec: EnvironmentSpec) -> int:
    """Bytes of memory that the process of one actor on Ray takes, as a rule at most."""
    environments = settings.num_envs // settings.acting_groups
    unrolls = 3 * environments * (settings.unroll_length + 1) * spec.observation_bytes
    each = max(resources.ENVIRONMENT_BYTES, settings.family.bytes_each)
    return resources.ACTOR_BYTES + environments * each + unrolls


def process_bytes(settings: Settings, spec: EnvironmentSpec, *, on_ray: bool = False) -> int:
    """Bytes that a run takes besides its replay, about: for 16 environments what is usual, and for each more its own.

    Environments of `settings.actors` do not count if they are `on_ray`, as they may be on other machines.
    """
    windows = max(settings.windows_per_update, settings.trajectories_per_update or settings.num_envs)
    row = 8 * (spec.observation_size + _UNITS)  # float32, with gradients
    others = 0 if on_ray else max(0, settings.num_envs - _USUAL_ENVS)
    others += settings.evaluation_envs
    batch = max(0, windows - _USUAL_ENVS) * settings.window_length * row
    return resources.PROCESS_BYTES + others * settings.family.bytes_each + batch


def require_memory(
    settings: Settings, spec: EnvironmentSpec, available: int, *, in_file: bool = False, on_ray: bool = False
) -> None:
    """Raises SettingsError unless the run fits into `available` bytes of memory.

    With its replay unless `in_file`, and its environments unless actors have them `on_ray`.
    """
    process, num_envs = process_bytes(settings, spec, on_ray=on_ray), settings.num_envs
    least = 0 if in_file else replay_bytes(settings, spec, _least_rows(settings, spec))
    usual = resources.PROCESS_BYTES + least * _USUAL_ENVS // num_envs
    if num_envs > _USUAL_ENVS and process + least > max(available, usual):
        each = -(-(process + least - usual) // (num_envs - _USUAL_ENVS))
        fits = _USUAL_ENVS + (available - usual) // each
        fits -= fits % math.lcm(settings.trajectories_per_update or 1, settings.actors or 1)  # which must divide it
        raise SettingsError(
            f"--num_envs={num_envs}: they need about {resources.in_bytes(process + least)} of memory without a replay, "
            f"but {resources.in_bytes(available)} are available; "
            + (f"at most --num_envs={fits} fits" if fits > _USUAL_ENVS else f"give --num_envs={_USUAL_ENVS} or fewer")
        )
    needed = replay_bytes(settings, spec, replay_rows(settings, spec))
    if in_file or needed + process <= available:
        return
    length, none = settings.window_length, replay_bytes(settings, spec, 0)
    fits = (available - process - none) * length // (replay_bytes(settings, spec, length) - none)
    raise SettingsError(
        f"--replay_capacity={settings.replay_capacity}: {num_envs} environments need "
        f"{resources.in_bytes(needed)} of replay and about {resources.in_bytes(process)} besides, but "
        f"{resources.in_bytes(available)} are available; "
        + (f"at most --replay_capacity={fits} fits" if fits >= _least_rows(settings, spec) else "no capacity fits")
        + ", or keep it on disk with --replay_file"
    )


def derive_seed(settings: Settings, purpose: str) -> int:
    """An independent seed per purpose, all from --seed."""
    words = [settings.seed, *purpose.encode()]
    return int(np.random.SeedSequence(words).generate_state(1)[0]) >> 1  # fits an int32


def _least_rows(settings: Settings, spec: EnvironmentSpec) -> int:
    replay = _replay_class(settings, spec)
    return replay.least_capacity(spec, settings.window_length, **_recurrent_sizes(settings, spec))


def _replay_class(settings: Settings, spec: EnvironmentSpec) -> type[TrajectoryReplay]:
    uniform = settings.replay_priority == "uniform" and not settings.rule.transitions
    return agent_class(settings, spec).replay_class if uniform else PrioritizedReplay


def _recurrent_sizes(settings: Settings, spec: EnvironmentSpec) -> dict[str, Any]:
    """U, and the rows of burn-in before each replayed window: 0 without replay."""
    lstms = 2 if spec.continuous and not settings.shared_torso else 1
    return {
        "state_size": 2 * settings.lstm_units * lstms,
        "burn_in": settings.burn_in if settings.replay_ratio > 0 else 0,
    }
