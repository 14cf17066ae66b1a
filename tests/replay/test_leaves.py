"""A replay of observations with leaves holds in each what a replay of that leaf alone would."""

from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest

from acer_tf.replay import PrioritizedReplay, TrajectoryReplay
from acer_tf.types import EnvironmentSpec, Unroll
from tests.replay.twin import latest, sample

SHAPES = {"goal/at": (2,), "image": (3, 4, 1)}
DTYPES = {"goal/at": "float32", "image": "uint8"}
SPEC = EnvironmentSpec(SHAPES, DTYPES, 1, 3, observation_scale=dict.fromkeys(SHAPES))
N, K = 2, 5


def unrolls(count: int) -> list[Unroll]:
    rng = np.random.default_rng(0)
    made, rows = [], count * K + 1
    observation = {name: rng.integers(0, 200, (N, rows, *SHAPES[name])).astype(DTYPES[name]) for name in SHAPES}
    for first in range(0, count * K, K):
        seen = {name: leaf[:, first : first + K + 1] for name, leaf in observation.items()}
        given: dict[str, Any] = {
            "action": rng.integers(0, 3, (N, K)).astype(np.int32),
            "behaviour": rng.dirichlet([1, 1, 1], (N, K)).astype(np.float32),
            "reward": rng.normal(size=(N, K)).astype(np.float32),
            "discount": np.ones((N, K), np.float32),
            "mask": np.ones((N, K), bool),
            "last": np.zeros((N, K), bool),
        }
        states = np.zeros((N, 0), np.float32)
        age = np.zeros((N, K + 1), np.uint8)
        made.append(Unroll(observation=seen, age=age, state=states, next_state=states, **given))
    return made


def of_leaf(unroll: Unroll, name: str) -> Unroll:
    return unroll._replace(observation=unroll.observation[name])


def fill(replay: TrajectoryReplay, collected: list[Unroll]) -> TrajectoryReplay:
    first = collected[0]
    if not replay.started:
        replay.reset(optree.tree_map(lambda leaf: leaf[:, 0], first.observation), first.age[:, 0])
    for unroll in collected:
        replay.append(unroll)
    return replay


def make(kind: str, spec: EnvironmentSpec, file: Path | None = None) -> TrajectoryReplay:
    if kind == "uniform":
        return TrajectoryReplay(spec, N, 23, K, seed=1, file=file)
    exponents = {"priority_exponent": (0.5, 0.5), "importance_exponent": (0.5, 0.5)}
    return PrioritizedReplay(spec, N, 23, K, seed=1, batch_size=4, priority="rank", file=file, **exponents)


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("kind", ["uniform", "prioritized"])
def test_each_leaf_is_stored_drawn_saved_and_restored_as_if_it_were_alone(
    kind: str, in_file: bool, tmp_path: Path
) -> None:
    collected = unrolls(9)
    replay = fill(make(kind, SPEC, tmp_path / "ring" if in_file else None), collected[:8])
    assert TrajectoryReplay.required_bytes(SPEC, N, 23) == sum(array.nbytes for array in replay._ring.values())
    state = replay.save(tmp_path / "saved")
    for name in SHAPES:
        restored = make(kind, SPEC)
        restored.restore(tmp_path / "saved", state)
        alone = fill(make(kind, SPEC.of_leaf(name)), [of_leaf(unroll, name) for unroll in collected[:8]])
        for _ in range(3):
            found, wanted = sample(restored), sample(alone)
            assert found.observation[name].dtype == DTYPES[name]
            np.testing.assert_array_equal(found.observation[name], wanted.observation)
            np.testing.assert_array_equal(found.action, wanted.action)
        fill(restored, collected[8:])
        np.testing.assert_array_equal(latest(restored).observation[name], collected[8].observation[name])


def test_a_blank_batch_has_the_shapes_of_a_drawn_one() -> None:
    replay = fill(make("uniform", SPEC), unrolls(3))
    drawn = replay.batch(np.array([False, False]), np.array([[0, 1], [1, 0]]))
    shapes = [optree.tree_map(lambda array: (array.shape, array.dtype), batch) for batch in (drawn, replay.blank(2, 2))]
    assert shapes[0] == shapes[1]
