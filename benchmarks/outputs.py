"""Where measurements are written."""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from acer_tf.errors import EvidenceError
from acer_tf.files import read_json
from acer_tf.reproduction.evidence import require_folder


def require_new(path: Path) -> None:
    """Makes the folder of a file of measurements.

    Raises:
        EvidenceError: the folder is not writable, or the file exists.
    """
    require_folder(path.parent)
    if path.exists():
        raise EvidenceError(f"{path} exists: move it away, or give another --output")


def require_no_loss(path: Path, measured_in: Callable[[Any], Iterable[str]], names: Collection[str]) -> None:
    """Refuses a file with measurements of others than `names`, which this call would lose.

    Raises:
        EvidenceError: names them, or the file if `measured_in` cannot tell what is measured in its document.
    """
    if not path.exists():
        return
    try:
        known = set(measured_in(read_json(path)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvidenceError(f"{path} has no measurements ({error!r}): move it, or give another --output") from error
    if lost := sorted(known - set(names)):
        raise EvidenceError(
            f"{path} has measurements of {', '.join(lost)} too: give another --output, or measure these again"
        )
