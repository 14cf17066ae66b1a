"""The metadata.json of policies: what it must hold, and its reader. Nothing here imports TensorFlow."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acer_tf.errors import PolicyError
from acer_tf.files import POLICY_METADATA, missing_parts, read_json
from acer_tf.types import EnvironmentSpec

FORMAT = 2  # the metadata's format; another is not read
_TEXT = (str, type(None))
# Metadata that the exporter is given, and the types of the values.
GIVEN: dict[str, Any] = dict.fromkeys(("atari_preset", "agent", "preset", "commit"), _TEXT)
GIVEN |= {"env": str, "steps": int, "versions": dict}
_KINDS = GIVEN | {"frames": int, "atari_preset_values": (dict, type(None)), "state_size": int}
_OF_SPEC = tuple(field.name for field in dataclasses.fields(EnvironmentSpec))


def recorded_spec(metadata: Mapping[str, Any]) -> EnvironmentSpec:
    """The environment's observations and actions."""
    return EnvironmentSpec.of({name: metadata[name] for name in _OF_SPEC})


def read_metadata(directory: Path) -> dict[str, Any]:
    """The metadata of the policy in `directory`; raises PolicyError if there is none that can be read."""
    try:
        return _read(directory)
    except OSError as error:
        raise PolicyError(f"{directory} is not a policy: it cannot be read: {error.strerror}") from error


def _of_run(folder: Path) -> str:
    """What to do if it is the folder of a run."""
    if not (folder / "run.json").is_file():
        return ""
    return f"; {folder} holds a run: acer_tf export --run_dir={folder} makes a policy of its newest checkpoint"


def _read(directory: Path) -> dict[str, Any]:
    if not directory.is_dir():
        what = "a file, not the folder of a SavedModel" if directory.exists() else "it does not exist"
        raise PolicyError(f"{directory} is not a policy: {what}{_of_run(directory.parent)}")
    if missing := missing_parts(directory):
        inside = [path.parent for path in sorted(directory.glob(f"*/{POLICY_METADATA}"))]
        hint = f"; did you mean {' or '.join(map(str, inside))}?" if inside else _of_run(directory)
        raise PolicyError(f"{directory} is not a policy: it has no {', no '.join(missing)}{hint}")
    path = directory / POLICY_METADATA
    try:
        metadata = read_json(path)
    except (OSError, ValueError) as error:
        raise PolicyError(f"{path} cannot be read: {error}") from error
    if not isinstance(metadata, dict) or "format" not in metadata:
        raise PolicyError(f"{path} is not the metadata of a policy: it has no format")
    if metadata["format"] != FORMAT:
        raise PolicyError(f"{path} is of format {metadata['format']!r}; this version of acer_tf reads format {FORMAT}")
    if missing := [name for name in (*_KINDS, *_OF_SPEC) if name not in metadata]:
        raise PolicyError(f"{path} lacks {', '.join(missing)}")
    if wrong := [name for name, kinds in _KINDS.items() if not isinstance(metadata[name], kinds)]:
        raise PolicyError(f"{path} has {wrong[0]}={metadata[wrong[0]]!r:.40}, which is of another type")
    return metadata
