"""The weights that a new run begins with, from another run or an exported policy: `--initialize_from`.

Weights are matched by the paths and shapes of the network's own. Nothing here imports TensorFlow before weights are
read.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acer_tf.errors import AcerError, SettingsError
from acer_tf.networks.torsos import HEADS, SCHEDULED
from acer_tf.policies.metadata import read_metadata, recorded_spec
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.runs.records import read_record
from acer_tf.settings import Settings
from acer_tf.settings.effect import missing_for
from acer_tf.settings.record import DEFAULTS
from acer_tf.types import EnvironmentSpec

_TORSO = "torso"
_OBSERVATIONS = ("observation_shape", "observation_dtype", "observation_scale")
_ACTIONS = ("num_actions", "action_low", "action_high", "action_start", "action_sizes")
_DENSE = ("dense_units", "dense_activation", "dense_normalization", "normalize_observations")
_OF_TORSO = ("network", "lstm_units", *_DENSE, "shared_torso")
_SHOWN = 4  # differences of torsos in one message


class Source(NamedTuple):
    """A run with a checkpoint, or an exported policy."""

    spec: EnvironmentSpec
    env: str
    settings: Mapping[str, Any]  # {} if a policy does not say
    policy: Path | None  # its folder; None for a run
    checkpoints: Path

    @classmethod
    def at(cls, path: Path) -> "Source":
        """The run's newest checkpoint at `path`, or the policy that a run has left there, or the policy there."""
        policy, checkpoints = path, path / "checkpoints"
        if (path / "run.json").exists():
            record = read_record(path)
            if record.environment is None:
                raise ValueError("it is not a run of acer_tf")
            if Checkpoints(checkpoints).saved():
                return cls(record.environment, record.settings["env"], DEFAULTS | record.settings, None, checkpoints)
            policy = path / "policy"
        metadata = read_metadata(policy)
        known = metadata.get("settings")
        return cls(recorded_spec(metadata), metadata["env"], DEFAULTS | known if known else {}, policy, checkpoints)

    def read(self) -> tuple[dict[str, np.ndarray], int]:
        """The network's weights by their paths, and the steps that it was trained for."""
        if self.policy is None:
            snapshot = Checkpoints(self.checkpoints).restore(None)
            if snapshot is None or not (steps := snapshot.state["actor"]["steps"]):
                raise ValueError("it has only the checkpoint of step 0")
            named = {name.partition("/")[::2]: array for name, array in snapshot.arrays.items()}
            return {path: array for (group, path), array in named.items() if group == "online"}, int(steps)
        from acer_tf.policies.policy import load_policy

        policy = load_policy(self.policy)
        steps = policy.metadata["steps"]
        weights = {v.name.removesuffix(":0"): v.numpy() for v in policy.signature.variables}
        # A policy holds what acting reads. That is the moments of observations, but not of how many, about its steps.
        if "normalization/mean" in weights:
            weights["normalization/count"] = np.array(steps, np.float32)
        return weights, steps


class Initial(NamedTuple):
    """What a run begins with."""

    weights: dict[str, np.ndarray]  # by the paths of the network's
    record: dict[str, Any]  # for run.json


def require_source(settings: Settings, spec: EnvironmentSpec) -> None:
    """Raises SettingsError unless `settings.initialize_from` is a run or a policy for the spaces of `spec`."""
    source = _source(settings)
    for what, names in (("observations", _OBSERVATIONS), ("actions", _ACTIONS)):
        lines = [line for line in source.spec.differences(spec) if line.partition(":")[0] in names]
        if lines and not (what == "actions" and settings.reset_heads == "all"):
            hint = "; --reset_heads=all keeps its torso alone" if what == "actions" else ""
            raise SettingsError(
                f"--initialize_from={settings.initialize_from}: it was trained in {source.env} with other {what} than "
                f"{settings.env} has: {'; '.join(lines)}{hint}"
            )


def initial_weights(settings: Settings, network: Any) -> Initial:
    """What resolved `settings` give a new `network`, a `PolicyNetwork`, of their run.

    Raises:
        SettingsError: the source cannot be read, its torso differs, or a head does not fit that is not to be drawn.
    """
    flag = f"--initialize_from={settings.initialize_from}"
    source = _source(settings)
    try:
        weights, steps = source.read()
    except (AcerError, OSError, ValueError) as error:
        raise SettingsError(f"{flag}: {error}") from error
    there, here = _by_place(weights), _by_place(weight.path for weight in network.weights)
    heads = [head for head in HEADS if head in map(_part, here.values())]
    named = settings.reset_heads
    drawn = heads if named == "all" else named.split(",") if named else []
    if unknown := [head for head in drawn if head not in heads]:
        raise SettingsError(f"--reset_heads={named}: this network has no head {unknown[0]}, but {', '.join(heads)}")
    shapes = {weight.path: tuple(weight.shape) for weight in network.weights}
    taken: dict[str, np.ndarray] = {}
    lines: dict[str, list[str]] = {}
    for place in dict.fromkeys((*here, *there)):
        old, new = there.get(place), here.get(place)
        part, one = _part(new or old or ""), shapes.get(new) if new else None
        if part in drawn or part == SCHEDULED or (part != _TORSO and new is None):
            continue
        if new and old and weights[old].shape == one:
            taken[new] = weights[old]
        else:
            shape = weights[old].shape if old else "absent"
            lines.setdefault(part, []).append(f"{new or old} is {shape} there, {'absent' if one is None else one} here")
    other = {n: v for n, v in source.settings.items() if n in _OF_TORSO and v != getattr(settings, n)}
    if "dense_activation" in other and not missing_for("dense_activation", settings, network.spec):
        activations = other["dense_activation"], settings.dense_activation  # which no shape shows
        lines.setdefault(_TORSO, []).append("dense_activation is {} there, {} here".format(*activations))
    if torso := lines.pop(_TORSO, None):
        more = f"; and {len(torso) - _SHOWN} more" if len(torso) > _SHOWN else ""
        given = f"; it had {' '.join(f'--{name}={value}' for name, value in other.items())}" if other else ""
        raise SettingsError(f"{flag}: its torso differs from this run's: {'; '.join(torso[:_SHOWN])}{more}{given}")
    if lines:
        raise SettingsError(
            f"{flag}: not all of its heads fit: {'; '.join(line for head in lines.values() for line in head)}; "
            f"--reset_heads={','.join(dict.fromkeys((*drawn, *lines)))} draws those of this run anew"
        )
    return Initial(taken, {"path": settings.initialize_from, "env": source.env, "steps": steps, "drawn": drawn})


def _source(settings: Settings) -> Source:
    assert settings.initialize_from is not None
    try:
        return Source.at(Path(settings.initialize_from))
    except (AcerError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise SettingsError(f"--initialize_from={settings.initialize_from}: {error}") from error


def _part(path: str) -> str:
    """The head that a weight belongs to, or else the torso."""
    layer = path.partition("/")[0]
    return next((head for head, layers in HEADS.items() if layer in layers), layer if layer == SCHEDULED else _TORSO)


def _by_place(paths: Iterable[str]) -> dict[tuple[str, int], str]:
    """Paths by what is the same in every process: they themselves without the numbers that Keras gives layers without
    a name, which it counts through the whole process, and the place among those that are alike then.
    """
    places: dict[tuple[str, int], str] = {}
    alike: dict[str, int] = {}
    for path in sorted(paths, key=lambda path: [int(n) for n in re.findall(r"_(\d+)(?=/)", path)]):
        name = re.sub(r"_\d+(?=/)", "", path)
        places[name, alike.setdefault(name, 0)] = path
        alike[name] += 1
    return places
