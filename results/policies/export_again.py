"""Exports policies of this folder again: their weights and metadata, in the graph of today's export.

    python results/policies/export_again.py breakout reacher3 walker2d halfcheetah

Their runs' checkpoints are not kept. A network of a policy's settings takes the variables of its SavedModel by name.
"""

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from acer_tf.networks.building import PolicyNetwork
from acer_tf.policies.export import export_policy
from acer_tf.policies.policy import Policy, load_policy
from acer_tf.settings.record import settings_from
from acer_tf.training.build import make_agent

HERE = Path(__file__).parent


def network_of(policy: Policy, folder: Path) -> PolicyNetwork:
    network = make_agent(settings_from(policy.metadata["settings"]), policy.spec).network
    stored = {variable.name.partition(":")[0]: variable for variable in tf.saved_model.load(str(folder)).weights}
    for variable in network.variables:
        # Of a critic of continuous actions nothing is exported.
        if (value := stored.pop("/".join(variable.path.split("/")[-2:]), None)) is not None:
            variable.assign(value)
    assert not stored, f"{folder}: the network has no {', '.join(stored)}"
    return network


def answers(policy: Policy) -> dict[str, np.ndarray]:
    """To random observations, without what is sampled."""
    spec, rng = policy.spec, np.random.default_rng(0)
    random = rng.normal(scale=3.0, size=(1000, *spec.observation_shape))
    if spec.observation_dtype != "float32":
        random = rng.integers(2 if spec.observation_dtype == "bool" else 256, size=random.shape)
    answer = policy.answer(random.astype(spec.observation_dtype), policy.initial_state(len(random)))
    return {name: value for name, value in answer.items() if name != "action"}


def export_again(folder: Path) -> None:
    policy = load_policy(folder)
    before = answers(policy)
    export_policy(network_of(policy, folder), folder, policy.metadata)
    after = answers(load_policy(folder))
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(value, after[name], f"{folder}: {name}")


for name in sys.argv[1:]:
    export_again(HERE / name)
    print(f"{name}: the same answers")
