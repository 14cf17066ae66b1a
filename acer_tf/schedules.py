"""How values change over a run."""

from typing import Any


def progress(steps: int, total_steps: int) -> float:
    """The share in [0, 1] of a run of `total_steps` steps that is done after `steps`."""
    return min(max(steps, 0) / max(total_steps, 1), 1.0)


def linear(first: float, final: float, share: Any) -> Any:
    """The value after a share in [0, 1], a number or tensor: from `first` to `final`, as β is (PER, §3.4)."""
    return (1.0 - share) * first + share * final
