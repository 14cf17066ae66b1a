"""Connects this process to a Ray cluster."""

import os
import socket
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from acer_tf.errors import ClusterLost, SettingsError, first_line
from acer_tf.resources import in_bytes

_ANSWER_SECONDS = 10.0
_RIGHT_ADDRESS = "give local, auto, or host:port of a cluster"


def connect(address: str, actors: int = 0, memory: int = 0) -> ModuleType:
    """The module `ray`, connected to a cluster with room for `actors`, at one core and `memory` bytes each.

    `address` is "local" to start a cluster that only this machine can reach, "auto" for the cluster that this machine
    belongs to, or host:port. Ray ends the process when its cluster is gone: see `RayProcess`.

    Raises:
        SettingsError: Ray is not installed, there is no such cluster, or it has no room for the actors.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    local = address == "local"
    if local:
        # Otherwise Ray's servers listen on all interfaces. Ray reads this when it is imported, in every process.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    try:
        import ray
    except ImportError as error:
        raise SettingsError(f"--ray_address={address}: needs Ray: pip install 'acer_tf[ray]'") from error
    if address not in ("local", "auto"):
        try:
            _call(address)
        except (OSError, ValueError, OverflowError) as error:
            raise SettingsError(f"--ray_address={address}: {error}; {_RIGHT_ADDRESS}") from error
    try:
        more: dict[str, Any] = {"include_dashboard": False, "num_cpus": actors or None} if local else {}
        ray.init(address=address, log_to_driver=False, **more)
    except Exception as error:  # a node that does not start in time is a bare one
        raise SettingsError(f"--ray_address={address}: {first_line(error)}; {_RIGHT_ADDRESS}") from error
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if actors and room_for(nodes, memory) < actors:
        raise SettingsError(
            f"--actors={actors}: each takes 1 core and {in_bytes(memory)} of memory, and the cluster has room for "
            f"{room_for(nodes, memory)}; its nodes have: {'; '.join(map(in_words, nodes))}"
        )
    return ray


def room_for(nodes: Iterable[Mapping[str, float]], memory: int) -> int:
    """The number of actors, at one core and `memory` bytes each, that fit on nodes with these resources of Ray's."""
    return sum(int(min(node.get("CPU", 0), node.get("memory", 0) / memory)) for node in nodes)


def in_words(resources: Mapping[str, float]) -> str:
    """Resources of Ray's as text: "4 cores, 0.5 GPUs, 3.0 GB", without GPUs if there are none."""
    gpus = f"{resources['GPU']:g} GPUs, " if resources.get("GPU") else ""
    return f"{resources.get('CPU', 0):.0f} cores, {gpus}{resources.get('memory', 0) / 1e9:.1f} GB"


def require_cluster(address: str) -> None:
    """Raises ClusterLost unless a cluster still answers."""
    try:
        _call(address)
    except OSError as error:
        raise ClusterLost(f"the Ray cluster is gone: {address} does not answer ({error})") from error


def _call(address: str) -> None:
    """Raises unless something listens at host:port; Ray itself would retry for many minutes."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        raise ValueError("names no host and port")
    socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
