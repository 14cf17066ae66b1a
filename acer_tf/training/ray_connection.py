"""Connects this process to a Ray cluster."""

import os
import signal
import socket
import threading
from types import ModuleType
from typing import Any

from acer_tf.errors import ClusterLost, SettingsError, first_line

_ANSWER_SECONDS = 10.0
_RIGHT_ADDRESS = "give local, auto, or host:port of a cluster"


def connect(address: str, actors: int = 0) -> ModuleType:
    """The module `ray`, connected to a cluster with room for `actors`, at one core each.

    `address` is "local" to start a cluster that only this machine can reach, "auto" for the cluster that this machine
    belongs to, or host:port.

    Raises:
        SettingsError: Ray is not installed, there is no such cluster, or it has fewer cores than `actors`.
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
    main, handler = threading.current_thread() is threading.main_thread(), signal.getsignal(signal.SIGTERM)
    try:
        more: dict[str, Any] = {"include_dashboard": False, "num_cpus": actors or None} if local else {}
        ray.init(address=address, log_to_driver=False, **more)
    except (ray.exceptions.RayError, ValueError, RuntimeError, OSError) as error:
        raise SettingsError(f"--ray_address={address}: {first_line(error)}; {_RIGHT_ADDRESS}") from error
    finally:
        if main:
            signal.signal(signal.SIGTERM, handler)  # Ray's handler would exit with status 15 instead of 143
    cores = int(ray.cluster_resources().get("CPU", 0))
    if cores < actors:
        ray.shutdown()
        raise SettingsError(f"--actors={actors}: the cluster has {cores} cores, and each actor takes one")
    return ray


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
