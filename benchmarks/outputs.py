"""Where measurements are written."""

from pathlib import Path

from acer_tf.errors import EvidenceError
from acer_tf.reproduction.evidence import require_folder


def require_new(path: Path) -> None:
    """Makes the folder of a file of measurements.

    Raises:
        EvidenceError: the folder is not writable, or the file exists.
    """
    require_folder(path.parent)
    if path.exists():
        raise EvidenceError(f"{path} exists: move it away, or give another --output")
