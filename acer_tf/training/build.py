"""From settings to objects: the one place that turns names and numbers into networks, agents and replay."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from acer_tf import envs
from acer_tf.agents.acer import Acer, AcerHyperparameters
from acer_tf.agents.acer_continuous import AcerContinuous, AcerContinuousHyperparameters
from acer_tf.agents.actor_critic import ActorCritic, ActorCriticHyperparameters
from acer_tf.agents.agent import Agent, Hyperparameters
from acer_tf.agents.dqn import Dqn, DqnHyperparameters
from acer_tf.agents.optimizer import rmsprop
from acer_tf.layers import RunningNormalization
from acer_tf.networks import ContinuousNetwork, Critic, Network, default_architecture, torso_of
from acer_tf.recurrent import RecurrentNetwork
from acer_tf.replay import PrioritizedReplay, TrajectoryReplay
from acer_tf.settings import CONTINUOUS_AGENTS, DISCRETE_AGENTS, Settings, SettingsError, make_settings
from acer_tf.training.actor import Actor
from acer_tf.training.loop import Loop
from acer_tf.types import EnvironmentSpec

# The process without its replay: TensorFlow, networks, environments and the batches in flight.
PROCESS_BYTES = 1_500_000_000


def resolve(settings: Settings, spec: EnvironmentSpec) -> Settings:
    """`settings` with every "auto" decided for this environment and machine, so that the run records what it did.

    Raises:
        SettingsError: a setting that was given would have no effect: the run would not be what it is called.
    """
    network = default_architecture(spec) if settings.network == "auto" else settings.network
    precision = settings.precision
    if precision == "auto":
        # It pays where large convolutions take the time and the processor has their products in hardware; it costs no
        # learning (results/precision).
        precision = "bfloat16" if torso_of(network) == "nature" and _has_fast_bfloat16() else "float32"
    settings = dataclasses.replace(settings, network=network, precision=precision)
    usual = make_settings({"env": settings.env, "agent": settings.agent, "preset": settings.preset})
    for name in sorted(_without_effect(settings, spec)):
        if getattr(settings, name) != getattr(usual, name):
            raise SettingsError(
                f"--{name}={getattr(settings, name)}: has no effect with --agent={settings.agent} in {settings.env}, "
                f"--network={network}, --replay_priority={settings.replay_priority} and "
                f"--trust_region_delta={settings.trust_region_delta}; leave it at {getattr(usual, name)}"
            )
    return settings


def _without_effect(settings: Settings, spec: EnvironmentSpec) -> set[str]:
    """The settings that nothing in this run reads."""
    rule = _update_rule(settings, spec)[1]
    names = {f.name for kind in _HYPERPARAMETERS for f in dataclasses.fields(kind)}
    names -= {f.name for f in dataclasses.fields(rule)}
    names &= {f.name for f in dataclasses.fields(Settings)}
    prioritized = settings.replay_priority != "uniform"
    for unread, where in (
        ({"atari_preset"}, not settings.env.startswith("atari/")),
        ({"policy_std", "normalize_observations"}, not spec.continuous),
        ({"shared_bias", "evaluation_epsilon"}, settings.agent != "dqn"),
        ({"burn_in"}, not settings.recurrent),
        ({"average_decay", "entropy_in_trust_region"}, math.isinf(settings.trust_region_delta)),
        ({"importance_truncation"}, rule is ActorCriticHyperparameters and not settings.trajectory_weights),
        ({"replay_segments_only"}, prioritized or settings.agent == "dqn"),
        ({"replay_batch"}, not prioritized and settings.agent != "dqn"),
        (_PRIORITIES, not prioritized),
    ):
        if where:
            names |= unread
    return names


def make_network(
    settings: Settings, spec: EnvironmentSpec, normalization: RunningNormalization | None = None
) -> Network | ContinuousNetwork:
    """The network of resolved `settings`, freshly initialized.

    Args:
        settings: resolved.
        spec: of the environment.
        normalization: of observations, where another network has it already.

    Raises:
        InvalidEnvironment: the agent cannot act in it.
        SettingsError: the network cannot read its observations.
    """
    if settings.agent not in (CONTINUOUS_AGENTS if spec.continuous else DISCRETE_AGENTS):
        envs.require_actions(spec, settings.env, continuous=settings.agent in CONTINUOUS_AGENTS)
    common: dict[str, Any] = {
        "initialization": settings.initialization,
        "precision": settings.precision,
        "seed": derive_seed(settings, "weights"),
    }
    try:
        if not spec.continuous:
            if settings.agent == "dqn":
                common["policy"], common["shared_bias"] = "epsilon_greedy", settings.shared_bias
                common["evaluation_epsilon"] = settings.evaluation_epsilon
            kind = RecurrentNetwork if settings.recurrent else Network
            return kind(spec, architecture=settings.network, **common)  # type: ignore[arg-type]  # Settings checked it
        if settings.network != "mlp":
            raise ValueError("continuous actions are chosen by network 'mlp'")
        return ContinuousNetwork(
            spec,
            critic=_critic(settings),
            policy_std=settings.policy_std,
            normalize=settings.normalize_observations,
            normalization=normalization,
            **common,
        )
    except ValueError as error:
        raise SettingsError(f"--network={settings.network}: {error}") from error


def make_agent(settings: Settings, spec: EnvironmentSpec) -> Agent:
    """The agent of resolved `settings`, with its average network and optimizer."""
    network = make_network(settings, spec)
    average = make_network(settings, spec, network.normalization)
    optimizer = rmsprop(
        network.model,
        learning_rate=settings.learning_rate * settings.threads_per_update,
        decay=settings.rmsprop_decay**settings.threads_per_update,
        epsilon=settings.rmsprop_epsilon,
        initial_accumulator=settings.rmsprop_initial_accumulator,
        centered=settings.rmsprop_centered,
    )
    kind, hyperparameters = _update_rule(settings, spec)
    return kind(network, average, optimizer, settings.hyperparameters(hyperparameters))


_HYPERPARAMETERS: tuple[type[Hyperparameters], ...] = (
    AcerHyperparameters,
    AcerContinuousHyperparameters,
    ActorCriticHyperparameters,
    DqnHyperparameters,
)
_PRIORITIES = {
    "priority_exponent",
    "priority_exponent_final",
    "priority_epsilon",
    "importance_exponent",
    "importance_exponent_final",
    "weights_by_batch",
}


def _update_rule(settings: Settings, spec: EnvironmentSpec) -> tuple[type[Agent], type[Hyperparameters]]:
    if settings.agent == "dqn":
        return Dqn, DqnHyperparameters
    if not spec.continuous:
        return Acer, AcerHyperparameters
    if settings.agent == "acer_continuous":
        return AcerContinuous, AcerContinuousHyperparameters
    return ActorCritic, ActorCriticHyperparameters


def _critic(settings: Settings) -> Critic:
    if settings.agent != "acer_continuous":
        return "none"
    return "dueling" if settings.dueling else "separate"


def make_replay(settings: Settings, spec: EnvironmentSpec, file: Path | None = None) -> TrajectoryReplay:
    """The replay of `settings`; without replayed updates it holds as few rows as it can.

    Args:
        settings: resolved.
        spec: of the environment.
        file: a new file to hold it, where it is larger than memory; None for memory.

    Raises:
        SettingsError: it cannot fit into the machine's memory, or the file cannot be made.
    """
    if file is None:
        require_memory(settings, spec, available_memory())
    sizes = spec, settings.num_envs, replay_rows(settings, spec), settings.window_length
    seed = derive_seed(settings, "replay")
    try:
        if settings.replay_priority == "uniform" and settings.agent != "dqn":
            return TrajectoryReplay(
                *sizes,
                seed,
                segments_only=settings.replay_segments_only,
                state_size=_state_size(settings),
                burn_in=_burn_in(settings),
                file=file,
            )
        uniform = settings.replay_priority == "uniform"
        return PrioritizedReplay(
            *sizes,
            seed,
            batch_size=settings.replay_batch or settings.trajectories_per_update or settings.num_envs,
            priority="rank" if settings.replay_priority == "rank" else "proportional",
            # With α = 0 the draws are uniform and their weights 1, whatever β is.
            priority_exponent=(0, 0) if uniform else (settings.priority_exponent, settings.priority_exponent_final),
            importance_exponent=(settings.importance_exponent, settings.importance_exponent_final),
            priority_epsilon=settings.priority_epsilon,
            normalize_by_batch=settings.weights_by_batch,
            file=file,
        )
    except OSError as error:
        needed = replay_bytes(settings, spec, replay_rows(settings, spec))
        raise SettingsError(
            f"--replay_file={file}: {error.strerror}; must name a new file where {needed / 1e9:.1f} GB are free"
        ) from error


def make_loop(settings: Settings, actor: Actor, agent: Agent, replay: TrajectoryReplay, **other: Any) -> Loop:
    """The loop of `settings` around the three; `other` arguments of `Loop` take the place of those of the settings."""
    arguments: dict[str, Any] = {
        "unroll_length": settings.unroll_length,
        "trajectories_per_update": settings.trajectories_per_update,
        "on_policy_updates": settings.on_policy_updates,
        "replay_ratio": settings.replay_ratio,
        "poisson": settings.replay_poisson,
        "total_steps": settings.total_steps,
        "replay_start": settings.replay_start,
        "seed": derive_seed(settings, "poisson"),
    }
    return Loop(actor, agent, replay, **arguments | other)


def replay_rows(settings: Settings, spec: EnvironmentSpec) -> int:
    """Rows per environment that the replay keeps."""
    least = _least_rows(settings, spec)
    return max(settings.replay_capacity, least) if settings.replay_ratio > 0 else least


def replay_bytes(settings: Settings, spec: EnvironmentSpec, capacity: int) -> int:
    """Bytes of a replay of so many rows per environment."""
    return TrajectoryReplay.required_bytes(
        spec,
        settings.num_envs,
        capacity,
        unroll_length=settings.window_length,
        state_size=_state_size(settings),
    )


def require_memory(settings: Settings, spec: EnvironmentSpec, available: int) -> None:
    """Refuses a run whose replay does not fit into `available` bytes of memory beside the process.

    Raises:
        SettingsError: says what is needed and what would fit.
    """
    needed = replay_bytes(settings, spec, replay_rows(settings, spec))
    if needed + PROCESS_BYTES <= available:
        return
    length, least = settings.window_length, replay_bytes(settings, spec, 0)
    fits = (available - PROCESS_BYTES - least) * length // (replay_bytes(settings, spec, length) - least)
    raise SettingsError(
        f"--replay_capacity={settings.replay_capacity}: {settings.num_envs} environments need {needed / 1e9:.1f} GB of "
        f"replay and about {PROCESS_BYTES / 1e9:.1f} GB besides, but {available / 1e9:.1f} GB are available; "
        + (f"at most --replay_capacity={fits} fits" if fits >= _least_rows(settings, spec) else "no capacity fits")
        + ", or keep it on disk with --replay_file"
    )


def available_memory(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that this process, and those that it starts, may still take."""
    available = psutil.virtual_memory().available
    limit = cgroup / "memory.max"
    if limit.exists() and (text := limit.read_text().strip()) != "max":
        # The cache of files counts as used there, though it gives way: a run's own checkpoints fill it.
        cache = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())["inactive_file"]
        available = min(available, int(text) - int((cgroup / "memory.current").read_text()) + int(cache))
    return available


def derive_seed(settings: Settings, purpose: str) -> int:
    """An independent seed per purpose, all from --seed."""
    words = [settings.seed, *purpose.encode()]
    return int(np.random.SeedSequence(words).generate_state(1)[0]) >> 1  # fits an int32


def _least_rows(settings: Settings, spec: EnvironmentSpec) -> int:
    return TrajectoryReplay.least_capacity(spec, settings.window_length, _state_size(settings), _burn_in(settings))


def _state_size(settings: Settings) -> int:
    return RecurrentNetwork.state_size if settings.recurrent else 0


def _burn_in(settings: Settings) -> int:
    """Rows before each replayed window; without replay nothing need be stored for them."""
    return settings.burn_in if settings.replay_ratio > 0 else 0


def _has_fast_bfloat16() -> bool:
    info = Path("/proc/cpuinfo")
    return info.exists() and any(flag in info.read_text().split() for flag in ("amx_bf16", "avx512_bf16"))
