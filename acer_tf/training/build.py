"""From settings to objects: the one place that turns names and numbers into networks, agents and replay."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import psutil

from acer_tf.agents.acer import Acer
from acer_tf.agents.optimizer import rmsprop
from acer_tf.networks import Network, default_architecture
from acer_tf.replay import TrajectoryReplay
from acer_tf.training.settings import Settings, SettingsError
from acer_tf.types import EnvironmentSpec

# The process without its replay: TensorFlow, networks, environments and the batches in flight.
PROCESS_BYTES = 1_500_000_000


def resolve(settings: Settings, spec: EnvironmentSpec) -> Settings:
    """`settings` with every "auto" decided for this environment and machine, so that the run records what it did."""
    network = default_architecture(spec) if settings.network == "auto" else settings.network
    precision = settings.precision
    if precision == "auto":
        # Matrix products in bfloat16 pay only where they are large and the processor has them in hardware.
        precision = "bfloat16" if network == "nature" and _has_fast_bfloat16() else "float32"
    return dataclasses.replace(settings, network=network, precision=precision)


def make_network(settings: Settings, spec: EnvironmentSpec, *, precision: str | None = None) -> Network:
    """The network of resolved `settings`, freshly initialized.

    Raises:
        SettingsError: it cannot read this environment's observations.
    """
    try:
        return Network(
            spec,
            architecture=settings.network,
            initialization=settings.initialization,
            precision=precision or settings.precision,
            seed=derive_seed(settings, "weights"),
        )
    except ValueError as error:
        raise SettingsError(f"--network={settings.network}: {error}") from error


def make_agent(settings: Settings, spec: EnvironmentSpec) -> Acer:
    """The agent of resolved `settings`, with its average network and optimizer."""
    network = make_network(settings, spec)
    optimizer = rmsprop(
        network.model,
        learning_rate=settings.learning_rate,
        decay=settings.rmsprop_decay,
        epsilon=settings.rmsprop_epsilon,
        initial_accumulator=settings.rmsprop_initial_accumulator,
    )
    return Acer(network, make_network(settings, spec), optimizer, settings.hyperparameters)


def make_replay(settings: Settings, spec: EnvironmentSpec) -> TrajectoryReplay:
    """The replay of `settings`; without replayed updates it holds just the rows of one unroll.

    Raises:
        SettingsError: it cannot fit into the machine's memory.
    """
    capacity = replay_rows(settings, spec)
    require_memory(TrajectoryReplay.required_bytes(spec, settings.num_envs, capacity), settings, _available_memory())
    return TrajectoryReplay(
        spec,
        settings.num_envs,
        capacity,
        settings.unroll_length,
        derive_seed(settings, "replay"),
        segments_only=settings.replay_segments_only,
    )


def replay_rows(settings: Settings, spec: EnvironmentSpec) -> int:
    """Rows per environment that the replay keeps."""
    least = settings.unroll_length + spec.stack - 1
    return max(settings.replay_capacity, least) if settings.replay_ratio > 0 else least


def require_memory(needed: int, settings: Settings, available: int) -> None:
    """Refuses a replay of `needed` bytes where `available` bytes of memory do not hold it beside the process.

    Raises:
        SettingsError: says what is needed and what would fit.
    """
    if needed + PROCESS_BYTES <= available:
        return
    fits = max(0, available - PROCESS_BYTES) * settings.replay_capacity // needed
    raise SettingsError(
        f"--replay_capacity={settings.replay_capacity}: {settings.num_envs} environments need {needed / 1e9:.1f} GB of "
        f"replay and about {PROCESS_BYTES / 1e9:.1f} GB besides, but {available / 1e9:.1f} GB are available; at most "
        f"--replay_capacity={fits} fits"
    )


def derive_seed(settings: Settings, purpose: str, steps: int = 0) -> int:
    """An independent seed per purpose, and per number of steps done, all from --seed."""
    words = [settings.seed, steps, *purpose.encode()]
    return int(np.random.SeedSequence(words).generate_state(1)[0]) >> 1  # fits an int32


def _available_memory() -> int:
    available = psutil.virtual_memory().available
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and (text := limit.read_text().strip()) != "max":
        available = min(available, int(text) - int(used.read_text()))
    return available


def _has_fast_bfloat16() -> bool:
    info = Path("/proc/cpuinfo")
    return info.exists() and any(flag in info.read_text().split() for flag in ("amx_bf16", "avx512_bf16"))
