"""The device and the threads that a process computes with."""

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

from acer_tf.errors import SettingsError
from acer_tf.importing import has_driver
from acer_tf.networks.torsos import torso_of
from acer_tf.resources import available_cores
from acer_tf.settings import Settings

# TensorFlow is imported within functions: it takes seconds, and without a driver it need not be asked for GPUs.


@dataclasses.dataclass(frozen=True)
class Device:
    """The processor that a run computes on."""

    name: str  # "cpu", or "gpu:N" for the Nth GPU that TensorFlow sees
    model: str = ""  # the GPU's name; "" for the CPU
    compute_capability: tuple[int, int] | None = None  # of an NVIDIA GPU, such as (9, 0) for an H200; None for others

    @property
    def fast_bfloat16(self) -> bool:
        """Whether the device multiplies bfloat16 faster than float32."""
        if self.name == "cpu":
            info = Path("/proc/cpuinfo")
            words = info.read_text().split() if info.exists() else []
            # Intel's AVX-512 has half as many units for bfloat16 as for float32: without AMX nothing is gained.
            return "amx_bf16" in words or ("avx512_bf16" in words and "AuthenticAMD" in words)
        return self.compute_capability is not None and self.compute_capability >= (8, 0)

    def __str__(self) -> str:
        return f"{self.name} ({self.model})" if self.model else self.name


CPU = Device("cpu")
ACTING_DEVICES = ("same", "second", "cpu")  # where actors beside the updates compute: `train`'s `acting_device`
ACTING_GB = 2.0  # of a GPU, for acting on a logical device of its own


def find_device(requested: str = "auto", drivers: Path = Path("/dev")) -> Device:
    """The device that `--device` names; "auto" is the first GPU, or else the CPU.

    Raises SettingsError if TensorFlow cannot use it.
    """
    if not isinstance(requested, str) or not re.fullmatch(r"auto|cpu|gpu:\d{1,3}", requested):
        raise SettingsError(f"--device={requested}: must be auto, cpu or gpu:N")
    if requested == "cpu":
        return CPU
    found = _gpus() if has_driver(drivers) else []
    if requested == "auto" and not found:
        if has_driver(drivers):
            print("TensorFlow cannot use this machine's GPU: pip install 'tensorflow[and-cuda]'", file=sys.stderr)
        return CPU
    import tensorflow as tf

    if requested == "auto":
        visible = tf.config.get_visible_devices("GPU")  # a script may have hidden some, or all
        if not visible:
            return CPU
        number = found.index(visible[0])
    else:
        number = int(requested.removeprefix("gpu:"))
    if number >= len(found):
        known = ", ".join(["auto", "cpu", *(f"gpu:{n}" for n in range(len(found)))])
        raise SettingsError(f"--device={requested}: TensorFlow sees {len(found)} GPUs here; must be of {known}")
    details = tf.config.experimental.get_device_details(found[number])
    capability = details.get("compute_capability")
    return Device(f"gpu:{number}", details.get("device_name", "GPU"), tuple(capability) if capability else None)


def gpu_count() -> int:
    """How many GPUs TensorFlow can use here."""
    return len(_gpus()) if has_driver() else 0


def use_device(device: Device, *, tf32: bool = False, memory_gb: float = 0.0, acting: str = "same") -> str | None:
    """Lets TensorFlow see this device alone, and take GPU memory as it needs it; call it before anything is computed.

    Args:
        device: the device to compute on.
        tf32: whether a GPU may multiply float32 with the 10 bits of TF32.
        memory_gb: the most memory of the GPU to take, for processes that share it; 0 for no bound.
        acting: one of `ACTING_DEVICES`. A second logical device takes `ACTING_GB` of a GPU's `memory_gb`, which must be
            more, since TensorFlow bounds each of several.

    Returns:
        TensorFlow's name of the device to act on, if that is not where updates compute.
    """
    import tensorflow as tf

    found = _gpus()
    chosen = [] if device == CPU else [found[int(device.name.removeprefix("gpu:"))]]
    processor = (chosen or tf.config.list_physical_devices("CPU"))[0]
    bounds = [memory_gb - ACTING_GB, ACTING_GB] if acting == "second" else [memory_gb] if memory_gb and chosen else []
    try:
        if found != chosen:
            tf.config.set_visible_devices(chosen, "GPU")
        if chosen:
            tf.config.experimental.enable_tensor_float_32_execution(tf32)
        if tf.config.get_logical_device_configuration(processor):
            pass  # divided or bounded by the script that calls, or for an earlier run
        elif bounds:
            limits = [gb * 1e9 / 2**20 if chosen else None for gb in bounds]
            parts = [tf.config.LogicalDeviceConfiguration(memory_limit=limit) for limit in limits]
            tf.config.set_logical_device_configuration(processor, parts)
        elif chosen:
            tf.config.experimental.set_memory_growth(processor, True)
    except RuntimeError:
        print("TensorFlow has already started: it keeps its devices and what it takes of their memory", file=sys.stderr)
    if acting == "second":
        divided = len(tf.config.get_logical_device_configuration(processor) or ()) > 1
        if divided:
            return "/GPU:1" if chosen else "/CPU:1"
        print(
            "--acting_device=second: TensorFlow keeps its one device; actors compute where updates do", file=sys.stderr
        )
    return "/CPU:0" if acting == "cpu" and chosen else None


def use_threads(threads: int, settings: Settings, *, acting: int = 0) -> dict[str, int]:
    """Sets TensorFlow's threads to suit the run; has no effect once TensorFlow has computed something.

    Large torsos use all. Elsewhere two share the products of updates, where there are enough updates to outweigh what
    waking a second thread costs each time that actions are chosen: MinAtar and cheetah gain a quarter at a replay ratio
    of 4, MinAtar loses a tenth at 0, and DQN's small updates do neither. More than two were not measured there. Two
    operations at once suffice: the forward passes of the online and the average policy network.

    Args:
        threads: the most to use; 0 for `available_cores`. With 1, runs of the same seed on a CPU are identical.
        settings: the run's, resolved.
        acting: how many actors may act beside the updates; with one core none does.

    Returns:
        The threads in use, for a record: TensorFlow's "intra_op" and "inter_op", those of "environments", and those of
        "acting" alone.
    """
    import tensorflow as tf

    config = tf.config.threading
    cores = threads or available_cores()
    acting = min(acting, cores) if cores > 1 else 0
    large = torso_of(settings.network).large
    shared = settings.replay_ratio >= 1 and not settings.recurrent
    intra_op, inter_op = cores if large else min(cores, 2 if shared else 1), min(2, cores) if large else 1
    inter_op += acting
    try:
        config.set_intra_op_parallelism_threads(intra_op)
        config.set_inter_op_parallelism_threads(inter_op)
    except RuntimeError:
        intra_op, inter_op = config.get_intra_op_parallelism_threads(), config.get_inter_op_parallelism_threads()
        if threads and (intra_op > threads or inter_op > threads or 0 in (intra_op, inter_op)):
            print(f"TensorFlow has already started: {threads} threads apply only to environments", file=sys.stderr)
    return {"intra_op": intra_op, "inter_op": inter_op, "environments": cores, "acting": acting}


def _gpus() -> list[Any]:
    import tensorflow as tf

    return tf.config.list_physical_devices("GPU")
