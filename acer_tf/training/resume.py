"""What a run continues from: a checkpoint and the record that belongs to it, or step 0."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from acer_tf.replay import TrajectoryReplay
from acer_tf.training.checkpoint import Checkpoints, DamagedError, Snapshot, set_aside
from acer_tf.training.lock import RunFolderError
from acer_tf.training.progress import require_progress

# The part of a damaged replay that can be read, perhaps none; a new progress.csv, in place of one that is not that of
# the checkpoint; step 0, if no checkpoint has weights that can be read. What is replaced is kept under another name.
REPAIRS = ("replay", "progress", "restart")


def resume(
    folder: Path, checkpoints: Checkpoints, replay: TrajectoryReplay, repair: Collection[str]
) -> tuple[Snapshot | None, list[str]]:
    """Restores what the run in `folder` continues from.

    Args:
        folder: of the run.
        checkpoints: of the run.
        replay: filled from the checkpoint.
        repair: what may be repaired, names of `REPAIRS`; what is whole is left alone.

    Returns:
        The snapshot, None for step 0; and what was lost or repaired, for the run's record.

    Raises:
        CheckpointError: no checkpoint can be read; says how to go on.
        RunFolderError: progress.csv is not that of the checkpoint, or there are rows but no checkpoint.
    """
    curve = folder / "progress.csv"
    snapshot: Snapshot | None = None
    problem: Exception | None = None
    try:
        snapshot = checkpoints.restore(replay, salvage="replay" in repair)
    except DamagedError as error:
        problem = error
    if snapshot is None:
        # Every run writes a checkpoint before its first row.
        if problem is None and curve.exists() and curve.stat().st_size:
            policy = f", or use the policy in {folder / 'policy'}" if (folder / "policy").exists() else ""
            problem = RunFolderError(
                f"--run_dir={folder} has rows of progress, but no checkpoint: put {folder / 'checkpoints'} back, give "
                f"--repair=restart to begin again at step 0, choose another folder{policy}"
            )
        if problem is None:
            return None, []
        if "restart" not in repair:
            raise problem
        kept = [set_aside(path).name for path in (curve, folder / "checkpoints") if path.exists()]
        return None, [f"begun again at step 0; what there was is kept as {' and '.join(kept)}"]
    notes = []
    if snapshot.lost:
        notes.append(snapshot.lost)
    try:
        require_progress(folder, snapshot.state)
    except RunFolderError as error:
        if "progress" not in repair:
            raise
        notes.append(f"progress.csv begins here, because {error.__cause__}")
        if curve.exists():
            notes.append(f"the earlier rows are kept as {set_aside(curve).name}")
        snapshot.state["position"] = 0
    return snapshot, notes
