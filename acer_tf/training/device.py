"""The device that a process computes on, its memory, and its number formats.

Not yet run on a GPU: docs/speed.md has the command that checks it.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

# A driver leaves one of these: NVIDIA's, AMD's, and that of Windows' Linux. Without one, TensorFlow, whose import takes
# seconds, need not be asked.
_DRIVERS = ("nvidia[0-9]*", "kfd", "dxg")


class DeviceError(ValueError):
    """There is no such device."""


@dataclasses.dataclass(frozen=True)
class Device:
    """Where a run computes.

    Attributes:
        name: "cpu", or "gpu:N" for the Nth that TensorFlow sees.
        model: of the GPU, "" for the CPU.
        compute_capability: of NVIDIA's GPUs: (9, 0) for an H200.
    """

    name: str
    model: str = ""
    compute_capability: tuple[int, int] | None = None

    @property
    def fast_bfloat16(self) -> bool:
        """Whether it multiplies bfloat16 faster than float32."""
        if self.name == "cpu":
            info = Path("/proc/cpuinfo")
            words = info.read_text().split() if info.exists() else []
            # Intel's AVX-512 has half as many units for bfloat16 as for float32: without AMX nothing is gained.
            return "amx_bf16" in words or ("avx512_bf16" in words and "AuthenticAMD" in words)
        return self.compute_capability is not None and self.compute_capability >= (8, 0)

    def __str__(self) -> str:
        return f"{self.name} ({self.model})" if self.model else self.name


CPU = Device("cpu")


def find_device(requested: str = "auto", drivers: Path = Path("/dev")) -> Device:
    """The device that `--device` names; "auto" is the first GPU, or else the CPU.

    Raises:
        DeviceError: it names none that TensorFlow can use.
    """
    if not re.fullmatch(r"auto|cpu|gpu:\d{1,3}", requested):
        raise DeviceError(f"--device={requested}: must be auto, cpu or gpu:N")
    if requested == "cpu":
        return CPU
    found = _gpus() if _has_driver(drivers) else []
    if requested == "auto":
        if _has_driver(drivers) and not found:
            print("TensorFlow cannot use this machine's GPU: pip install 'tensorflow[and-cuda]'", file=sys.stderr)
        return _described(0, found[0]) if found else CPU
    number = int(requested.removeprefix("gpu:"))
    if number >= len(found):
        known = ", ".join(["auto", "cpu", *(f"gpu:{n}" for n in range(len(found)))])
        raise DeviceError(f"--device={requested}: TensorFlow sees {len(found)} GPUs here; must be of {known}")
    return _described(number, found[number])


def gpu_count() -> int:
    """How many GPUs TensorFlow can use here."""
    return len(_gpus()) if _has_driver() else 0


def use_device(device: Device, *, tf32: bool = False, memory_gb: float = 0.0) -> None:
    """Lets TensorFlow see this device alone, and take GPU memory as it needs it; call it before anything is computed.

    Args:
        device: to compute on.
        tf32: whether a GPU may multiply float32 with the 10 bits of TF32.
        memory_gb: the most of the GPU's memory, for processes that share it; 0 for no bound.
    """
    import tensorflow as tf

    found = _gpus()
    chosen = [] if device == CPU else [found[int(device.name.removeprefix("gpu:"))]]
    try:
        if found != chosen:
            tf.config.set_visible_devices(chosen, "GPU")
        for gpu in chosen:
            tf.config.experimental.enable_tensor_float_32_execution(tf32)
            if memory_gb:
                limit = tf.config.LogicalDeviceConfiguration(memory_limit=memory_gb * 1e9 / 2**20)
                tf.config.set_logical_device_configuration(gpu, [limit])
            else:
                tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError:
        print(f"TensorFlow has already started: --device={device.name} has no effect", file=sys.stderr)


def _has_driver(drivers: Path = Path("/dev")) -> bool:
    return any(next(drivers.glob(pattern), None) for pattern in _DRIVERS)


def _gpus() -> list[Any]:
    import tensorflow as tf

    return tf.config.list_physical_devices("GPU")


def _described(number: int, gpu: Any) -> Device:
    import tensorflow as tf

    details = tf.config.experimental.get_device_details(gpu)
    capability = details.get("compute_capability")
    return Device(f"gpu:{number}", details.get("device_name", "GPU"), tuple(capability) if capability else None)
