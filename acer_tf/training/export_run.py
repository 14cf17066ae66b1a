"""The network of a run's newest checkpoint, also while the run goes on: to Keras, or exported as a policy."""

from pathlib import Path
from typing import Any

import keras

from acer_tf.errors import RunFolderError
from acer_tf.files import missing_parts
from acer_tf.networks.policy_network import PolicyNetwork
from acer_tf.policies.export import exporting
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.runs.folder import record_in
from acer_tf.runs.provenance import package_versions
from acer_tf.settings import Settings
from acer_tf.settings.record import settings_document, settings_from
from acer_tf.training.build import make_agent


def load_network(source: str | Path) -> PolicyNetwork:
    """A Keras model to save, clone and build on, with the weights and the precision of training.

    >>> network = acer_tf.load_network("runs/pong")
    >>> network.save("pong.keras")
    >>> network = acer_tf.load_network("pong.keras")

    Args:
        source: the folder of a run, for the network of its newest undamaged checkpoint; or a .keras file that such a
            network was saved to, which `keras.models.load_model` reads only where this package's networks are imported.

    Raises:
        RunFolderError, SettingsError, InvalidEnvironment, CheckpointError, Mismatch: as `export_run`.
        ValueError: as `keras.models.load_model`.
    """
    source = Path(source)
    return keras.models.load_model(source) if source.suffix == ".keras" else _newest(source)[0]


def export_run(run_dir: Path, directory: Path) -> int:
    """Exports the policy of the newest undamaged checkpoint in `run_dir`, also during training; returns its steps.

    The environment need not be installed.

    Raises:
        RunFolderError: `run_dir` holds no run, one of another version, or no checkpoint yet.
        SettingsError, InvalidEnvironment: this version or machine cannot make the run's agent.
        CheckpointError: all checkpoints are damaged, or cannot be read at present.
        Mismatch: another version wrote the newest checkpoint.
        PolicyFolderError, OSError: as `exporting`.
    """
    with exporting(directory) as export:
        network, metadata = _newest(run_dir)
        export(network, metadata)
    return metadata["steps"]


def policy_metadata(
    settings: Settings, steps: int, commit: str | None, env_function: str | None = None
) -> dict[str, Any]:
    """The metadata for the export of a policy trained for `steps` steps with resolved `settings`, at last by `commit`.

    `env_function` names the caller's function that made the environment, if one did. The versions are those that export
    it.
    """
    return {
        "env": settings.env,
        "env_function": env_function,
        "atari_preset": settings.atari_preset if settings.family.atari else None,
        "agent": settings.agent,
        "preset": settings.preset,
        "steps": steps,
        "settings": settings_document(settings),
        "commit": commit,
        "versions": package_versions(),
    }


def _newest(run_dir: Path) -> tuple[PolicyNetwork, dict[str, Any]]:
    """The network of the newest undamaged checkpoint, and the metadata of its policy."""
    record = record_in(run_dir)
    if record is None or record.environment is None:
        policy = "; it is a policy, which load_policy reads, and with which --initialize_from begins a run"
        found = policy if not missing_parts(run_dir) else ""
        raise RunFolderError(f"--run_dir={run_dir} holds no run (no run.json){found}")
    settings = settings_from(record.settings)
    snapshot = Checkpoints(run_dir / "checkpoints").restore(None)
    if snapshot is None or not (steps := snapshot.state["actor"]["steps"]):
        found = "has no checkpoint yet" if snapshot is None else "has only the checkpoint of step 0"
        raise RunFolderError(f"{run_dir} {found}")
    agent = make_agent(settings, record.environment)
    agent.restore(snapshot.arrays)
    return agent.network, policy_metadata(settings, steps, record.maker["commit"], record.document.get("env_function"))
