import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest

from acer_tf import resources
from acer_tf.errors import InvalidEnvironment, SettingsError
from acer_tf.networks.torsos import Torso
from acer_tf.replay import RankHeap, SumTree, TrajectoryReplay
from acer_tf.settings import make_settings
from acer_tf.settings.effect import require_effect
from acer_tf.settings.presets import fitting_presets
from acer_tf.settings.rules import RULES
from acer_tf.training import build
from acer_tf.training.device import CPU, Device
from acer_tf.training.resolve import resolve
from acer_tf.training.train import train
from acer_tf.types import EnvironmentSpec

PONG = EnvironmentSpec((4, 84, 84), "uint8", stack=4, num_actions=6, frames_per_step=4, observation_scale=255.0)
BREAKOUT = EnvironmentSpec((10, 10, 4), "bool", stack=1, num_actions=3)
CARTPOLE = EnvironmentSpec((4,), "float32", stack=1, num_actions=2)
PENDULUM = EnvironmentSpec((3,), "float32", stack=1, num_actions=0, action_low=(-2.0,), action_high=(2.0,))


NAMED_POLICY, NAMED_Q = (
    Torso(lambda layers, x, name=name: layers.hidden(4, "relu", name, layers.flat(x)), lambda spec: True)
    for name in ("policy", "q")
)


def settings_of(env="CartPole-v1", **given):
    return make_settings({"env": env, **given})


@pytest.mark.parametrize(
    ("device", "precision"),
    [
        (Device("gpu:0", "NVIDIA H200", (9, 0)), "bfloat16"),
        (Device("gpu:1", "NVIDIA A100", (8, 0)), "bfloat16"),
        (Device("gpu:0", "Tesla T4", (7, 5)), "float32"),
        (Device("gpu:0", "no NVIDIA"), "float32"),
    ],
)
def test_precision_is_that_of_the_gpu_that_computes_whatever_the_processor_has(device, precision, monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda self: "flags : amx_bf16")
    assert CPU.fast_bfloat16
    assert resolve(settings_of(), PONG, None, device).precision == precision
    assert resolve(settings_of(), BREAKOUT, None, device).precision == "float32"


@pytest.mark.parametrize(
    ("cpuinfo", "fast"),
    [
        ("vendor_id : GenuineIntel\nflags : avx512f avx512_bf16 amx_bf16", True),
        ("vendor_id : AuthenticAMD\nflags : avx512f avx512_bf16", True),
        ("vendor_id : GenuineIntel\nflags : avx512f avx512_bf16", False),
        ("vendor_id : AuthenticAMD\nflags : avx2", False),
    ],
)
def test_a_processor_computes_in_bfloat16_where_that_is_faster(cpuinfo, fast, monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda self: cpuinfo)
    assert CPU.fast_bfloat16 == fast


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(("spec", "network"), [(PONG, "nature"), (BREAKOUT, "small"), (CARTPOLE, "mlp")])
def test_auto_is_resolved_by_the_observations_and_the_processor(spec, network, fast, monkeypatch):
    monkeypatch.setattr(Device, "fast_bfloat16", fast)
    resolved = resolve(settings_of(), spec)
    precision = "bfloat16" if fast and network == "nature" else "float32"
    assert resolved == dataclasses.replace(settings_of(), network=network, precision=precision)


def test_auto_rounds_no_numbers_that_are_not_normalised(monkeypatch):
    monkeypatch.setattr(Device, "fast_bfloat16", True)
    shapes = {"image": (84, 84), "goal": (2,)}
    for dtype, normalized, wanted in (
        ("float32", False, "float32"),
        ("float32", True, "bfloat16"),
        ("uint8", False, "bfloat16"),
    ):
        dtypes, scales = {"image": "uint8", "goal": dtype}, {"image": 255.0, "goal": None}
        spec = EnvironmentSpec(shapes, dtypes, stack=1, num_actions=2, observation_scale=scales)
        assert resolve(settings_of(normalize_observations=normalized), spec).precision == wanted


def test_channels_first_are_refused_by_the_flag_but_a_run_that_has_begun_continues():
    spec = EnvironmentSpec((3, 64, 64), "uint8", stack=1, num_actions=2, observation_scale=255.0)
    with pytest.raises(SettingsError, match=r"^--network=auto: .*\(3, 64, 64\)"):
        resolve(settings_of(), spec)
    assert resolve(settings_of(), spec, {"network": "small", "precision": "float32"}).network == "small"


def test_given_values_are_kept(monkeypatch):
    monkeypatch.setattr(Device, "fast_bfloat16", True)
    given = settings_of(network="mlp", precision="bfloat16")
    assert resolve(given, BREAKOUT) == given
    assert resolve(settings_of(network="nature", precision="float32"), PONG).precision == "float32"


@pytest.mark.parametrize(
    ("spec", "given"),
    [
        (CARTPOLE, {"atari_preset": "machado2018"}),
        (CARTPOLE, {"retrace": False, "retrace_lambda": 0.5}),
        (CARTPOLE, {"importance_truncation": math.inf, "bias_correction": False}),
        (CARTPOLE, {"agent": "dqn", "preset": "dqn", "retrace": False}),
        (PENDULUM, {"agent": "tis", "preset": "paper_continuous", "bias_correction": False}),
        (CARTPOLE, {"dueling": False}),
        (CARTPOLE, {"policy_std": 0.5}),
        (CARTPOLE, {"target_period": 5}),
        (CARTPOLE, {"evaluation_epsilon": 0.5}),
        (CARTPOLE, {"burn_in": 3}),
        (CARTPOLE, {"priority_exponent": 0.5}),
        (CARTPOLE, {"replay_batch": 4}),
        (CARTPOLE, {"replay_ratio": 0.0, "replay_priority": "rank"}),
        (CARTPOLE, {"replay_ratio": 0.0, "importance_exponent": 0.5}),
        (CARTPOLE, {"replay_ratio": 0.0, "replay_poisson": False}),
        (CARTPOLE, {"replay_ratio": 0.0, "replay_segments_only": True}),
        (CARTPOLE, {"replay_ratio": 0.0, "network": "mlp", "lstm_units": 256, "burn_in": 3}),
        (CARTPOLE, {"network": "mlp", "lstm_units": 256, "replay_segments_only": True}),
        (CARTPOLE, {"entropy_weight": 0.0, "entropy_in_trust_region": False}),
        (CARTPOLE, {"replay_priority": "rank", "replay_segments_only": True}),
        (CARTPOLE, {"replay_priority": "rank", "priority_epsilon": 0.1}),
        (CARTPOLE, {"agent": "dqn", "preset": "dqn_rank", "weights_by_batch": False}),
        (PONG, {"dense_units": "32"}),
        (PONG, {"preset": "baselines", "normalize_observations": True}),
        (CARTPOLE, {"trust_region_delta": math.inf, "average_decay": 0.5}),
        (CARTPOLE, {"agent": "a3c", "entropy_in_trust_region": False}),
        (CARTPOLE, {"agent": "dqn", "preset": "dqn", "retrace_lambda": 0.5}),
        (CARTPOLE, {"agent": "dqn", "preset": "dqn", "replay_segments_only": True}),
        (PENDULUM, {"agent": "acer_continuous", "preset": "paper_continuous", "entropy_weight": 0.1}),
        (PENDULUM, {"agent": "trust_a3c", "preset": "paper_continuous", "importance_truncation": 1.0}),
        (PENDULUM, {"agent": "trust_tis", "preset": "paper_continuous", "dueling": False}),
        (PENDULUM, {"agent": "acer_continuous", "dueling": False, "advantage_samples": 3}),
    ],
)
def test_a_setting_that_nothing_would_read_is_refused(spec, given):
    name, value = list(given.items())[-1]
    with pytest.raises(SettingsError, match=rf"^--{name}={value}: has no effect with --agent=.*: it needs "):
        require_effect(resolve(settings_of(**given), spec), spec)


OWN = Torso(lambda layers, x: layers.dense(layers.normalized(x)), reads=lambda spec: True)


@pytest.mark.parametrize("normalized", [False, True])
def test_a_torso_of_ones_own_has_the_dense_layers_and_the_normalization_that_are_given(normalized):
    given = {"network": f"{__name__}:OWN", "dense_units": "32,16", "normalize_observations": normalized}
    settings = resolve(settings_of(**given), CARTPOLE)
    require_effect(settings, CARTPOLE)
    network = build.make_network(settings, CARTPOLE)
    shapes = {weight.path: tuple(weight.shape) for weight in network.weights}
    assert (shapes["dense1/kernel"], shapes["dense2/kernel"]) == ((4, 32), (32, 16))
    assert (network.normalization is not None) == normalized


def test_continuous_torsos_have_the_layers_activation_and_normalization_that_are_given():
    given = {"dense_units": "32,16", "dense_activation": "gelu", "dense_normalization": True}
    usual, other = (
        build.make_network(
            resolve(settings_of(agent="acer_continuous", preset="paper_continuous", **more), PENDULUM), PENDULUM
        )
        for more in ({}, given)
    )
    assert usual.get_config()["dense"] == ((256, 256), "tanh", False, True)
    assert other.get_config()["dense"] == ((32, 16), "gelu", True, True)
    shapes = {weight.path: tuple(weight.shape) for weight in other.weights}
    assert shapes["policy_torso/dense2/kernel"] == shapes["dense2/kernel"] == (32, 16)
    paths = [{weight.path for weight in network.weights} for network in (usual, other)]
    assert {path.rpartition("/")[0] for path in paths[1] - paths[0]} >= {
        "normalization1",
        "policy_torso/normalization2",
    }


@pytest.mark.parametrize(
    ("env", "given", "needed"),
    [
        ("CartPole-v1", {"target_period": 5}, "--agent=dqn;"),
        ("Pendulum-v1", {"agent": "tis", "retrace": False}, "--agent=acer_continuous;"),
        ("Pendulum-v1", {"agent": "acer_continuous", "retrace_lambda": 0.5}, "other actions than continuous ones;"),
    ],
)
def test_the_agents_that_would_read_it_are_named_before_anything_begins(tmp_path, capsys, env, given, needed):
    with pytest.raises(SettingsError, match=needed):
        train(make_settings(env=env, **given), tmp_path / "run")
    assert capsys.readouterr().out == "" and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("spec", "given"),
    [
        (
            PENDULUM,
            {
                "agent": "acer_tf.agents.acer_continuous:AcerContinuous",
                "preset": "classic_continuous",
                "importance_truncation": 1.0,
            },
        ),
        (CARTPOLE, {"replay_segments_only": True, "average_decay": 0.5, "entropy_in_trust_region": False}),
        (CARTPOLE, {"network": "mlp", "lstm_units": 256, "burn_in": 3}),
        (CARTPOLE, {"retrace": False, "bias_correction": False}),
        (CARTPOLE, {"replay_priority": "rank", "priority_exponent": 0.5, "replay_batch": 4}),
        (CARTPOLE, {"agent": "dqn", "preset": "ddqn_rank", "target_period": 5, "priority_exponent": 0.5}),
        (PENDULUM, {"agent": "acer_continuous", "preset": "paper_continuous", "retrace": False, "dueling": False}),
        (PENDULUM, {"agent": "tis", "preset": "paper_continuous", "importance_truncation": 1.0, "policy_std": 0.1}),
    ],
)
def test_a_setting_that_is_read_is_not_refused(spec, given):
    resolved = resolve(settings_of(**given), spec)
    require_effect(resolved, spec)
    assert {name: getattr(resolved, name) for name in given} == given


@pytest.mark.parametrize(
    ("spec", "agent", "preset"),
    [
        (spec, agent, preset)
        for spec in (CARTPOLE, PENDULUM)
        for agent, rule in RULES.items()
        for preset in fitting_presets(agent)
        if rule.accepts(continuous=spec.continuous)
    ],
)
def test_no_preset_is_refused_for_what_it_sets_itself(spec, agent, preset):
    require_effect(settings_of(agent=agent, preset=preset), spec)


@pytest.mark.parametrize(
    ("spec", "agent", "said"),
    [
        (PENDULUM, "acer", ["a continuous action space ([-1, 1]^1)", "--agent=acer_continuous, a3c,", "trust_tis"]),
        (CARTPOLE, "acer_continuous", ["a discrete action space (2 actions)", "--agent=acer, a3c, trust_a3c, dqn"]),
    ],
)
def test_actions_of_the_other_kind_name_the_agents(spec, agent, said):
    with pytest.raises(InvalidEnvironment) as error:
        build.make_network(settings_of(agent=agent, preset=fitting_presets(agent)[0], network="mlp"), spec)
    assert all(words in str(error.value) for words in ["CartPole-v1", *said])


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("no_such_module:VTrace", "cannot be imported: ModuleNotFoundError: No module"),
        ("acer_tf.types:Nothing", "cannot be imported: AttributeError: module"),
        ("broken:VTrace", "cannot be imported: SyntaxError: "),
        ("exiting:VTrace", "cannot be imported: SystemExit: "),
        ("acer_tf.types:Trajectory", "must be a subclass of acer_tf.agents.agent.Agent"),
        ("acer_tf.agents.dqn:Dqn", "must not be a subclass of Dqn"),
    ],
)
def test_a_users_rule_that_is_not_an_agent_is_refused(agent, said, tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text("def")
    (tmp_path / "exiting.py").write_text("raise SystemExit")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingsError, match=f"^--agent={agent}: .*{said}"):
        build.make_network(settings_of(agent=agent, preset="classic", network="mlp"), CARTPOLE)


@pytest.mark.parametrize(
    ("agent", "spec", "said"),
    [
        (
            "acer_tf.agents.acer:Acer",
            PENDULUM,
            "ContinuousNetwork, the network of continuous .*critic",
        ),
        (
            "acer_tf.agents.acer_continuous:AcerContinuous",
            CARTPOLE,
            "Network, the network of discrete .*critic",
        ),
    ],
)
def test_a_rule_for_actions_of_the_other_kind_is_refused(agent, spec, said):
    env, preset = ("Pendulum-v1", "classic_continuous") if spec.continuous else ("CartPole-v1", "classic")
    with pytest.raises(SettingsError, match=f"^--agent={agent}: its network_options, .*, do not fit {said}"):
        build.make_network(settings_of(env=env, agent=agent, preset=preset, network="mlp"), spec)


@pytest.mark.parametrize("network", ["no_such_module:WIDE", "acer_tf.types:Trajectory"])
def test_a_users_torso_that_is_not_one_is_refused(network):
    with pytest.raises(SettingsError, match=f"^--network={network}"):
        resolve(settings_of(network=network), CARTPOLE)


@pytest.mark.parametrize("named", ["POLICY", "Q"])
def test_a_torso_with_a_layer_that_is_named_as_a_head_is_refused(named):
    settings = settings_of(network=f"tests.training.test_build:NAMED_{named}", precision="float32")
    with pytest.raises(SettingsError, match=f"^--network=.*: two layers are named {named.lower()}, so checkpoints"):
        build.make_network(settings, CARTPOLE)


def test_a_network_that_cannot_read_the_observations_is_refused_by_its_flag():
    with pytest.raises(SettingsError, match="^--network=nature"):
        build.make_network(settings_of(network="nature", precision="float32"), CARTPOLE)


def test_the_agent_is_made_of_the_settings():
    settings = settings_of(
        preset="baselines",
        network="mlp",
        precision="float32",
        learning_rate=0.01,
        rmsprop_decay=0.9,
        rmsprop_epsilon=0.2,
        rmsprop_initial_accumulator=0.5,
        gamma=0.9,
    )
    agent = build.make_agent(settings, CARTPOLE)
    optimizer = agent.optimizer
    assert (float(optimizer.learning_rate), optimizer.rho, optimizer.epsilon) == (pytest.approx(0.01), 0.9, 0.2)
    slots = [v for v in optimizer.variables if v.path.endswith("_velocity")]
    assert len(slots) == len(agent.network.trainable_variables)
    assert all((np.asarray(slot) == 0.5).all() for slot in slots)
    assert agent.settings == settings
    weights, average = agent.network.get_weights(), agent.average.get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(weights, average, strict=True))
    again = build.make_network(settings, CARTPOLE).get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(weights, again, strict=True))
    other = build.make_network(dataclasses.replace(settings, seed=1), CARTPOLE).get_weights()
    assert not any(np.array_equal(a, b) for a, b in zip(weights, other, strict=True) if a.any())


@pytest.mark.parametrize("initialization", ["orthogonal", "fan_in"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_network_is_made_of_the_settings(initialization, precision):
    wanted = {"initialization": initialization, "precision": precision, "lstm_units": 7}
    continuous = {"agent": "acer_continuous", "preset": "paper_continuous", "policy_std": 0.2, "shared_torso": True}
    for spec, given in ((CARTPOLE, {}), (PENDULUM, continuous)):
        config = build.make_network(settings_of(network="mlp", **wanted, **given), spec).get_config()
        more = {name: value for name, value in given.items() if name in ("policy_std", "shared_torso")}
        assert {name: config[name] for name in (*wanted, *more)} == wanted | more


def test_every_purpose_and_every_seed_draws_its_own_numbers():
    purposes = ("weights", "replay", "replay 600", "actions", "poisson", "evaluation")
    seeds = {build.derive_seed(settings_of(seed=s), purpose) for s in range(250) for purpose in purposes}
    assert len(seeds) == 250 * len(purposes)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_the_replay_has_the_capacity_of_the_settings_and_at_least_one_window():
    assert build.replay_rows(settings_of(replay_capacity=20_000), PONG) == 20_000
    tight = settings_of("atari/Pong", preset="baselines", replay_capacity=20, replay_start=0, num_envs=1)
    assert build.replay_rows(tight, PONG) == 23  # 20 rows, and the 3 frames before the first
    build.make_replay(tight, PONG)
    prioritized = dataclasses.replace(tight, replay_priority="rank")
    assert build.replay_rows(prioritized, PONG) == 42  # any 39 rows have a whole item of 20
    build.make_replay(prioritized, PONG)


def test_without_replayed_updates_the_replay_holds_one_unroll():
    for spec, rows in ((PONG, 23), (CARTPOLE, 20)):
        assert build.replay_rows(settings_of(agent="a3c"), spec) == rows
        assert build.make_replay(settings_of(agent="a3c", num_envs=1), spec).stored == 0


@pytest.mark.parametrize("gigabytes", [1.6, 2.0, 4.0, 7.0])
@pytest.mark.parametrize(("env", "spec"), [("atari/Pong", PONG), ("CartPole-v1", CARTPOLE)])
def test_a_replay_that_does_not_fit_is_refused_with_the_largest_that_does(env, spec, gigabytes):
    settings = settings_of(env, replay_capacity=50_000_000, replay_start=0, num_envs=16)
    available = int(gigabytes * 1e9)
    with pytest.raises(SettingsError, match=r"^--replay_capacity=50000000") as refused:
        build.require_memory(settings, spec, available)
    message = str(refused.value)
    needed = 16 * 50_000_001 * TrajectoryReplay.required_bytes(spec, 1, 0)
    assert f"need {needed / 1e9:,.1f} GB" in message
    assert f"{gigabytes:.1f} GB are available" in message
    fits = int(re.search(r"at most --replay_capacity=(\d+) fits", message)[1])
    build.require_memory(dataclasses.replace(settings, replay_capacity=fits), spec, available)
    with pytest.raises(SettingsError, match=f"at most --replay_capacity={fits} fits"):
        build.require_memory(dataclasses.replace(settings, replay_capacity=fits + 1), spec, available)


@pytest.mark.parametrize("given", [{}, {"agent": "a3c"}])
def test_no_capacity_is_suggested_where_none_fits(given):
    with pytest.raises(SettingsError, match="no capacity fits.*--replay_file"):
        build.require_memory(settings_of(**given), CARTPOLE, int(1.4e9))


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize(("env", "spec"), [("atari/Pong", PONG), ("CartPole-v1", CARTPOLE)])
def test_environments_that_do_not_fit_are_refused_with_how_many_do(env, spec, in_file):
    settings, available = settings_of(env, agent="a3c", num_envs=10**5), int(2.5e9)
    with pytest.raises(SettingsError, match=r"^--num_envs=100000: .* 2.5 GB are available") as refused:
        build.require_memory(settings, spec, available, in_file=in_file)
    fits = int(re.search(r"at most --num_envs=(\d+) fits", str(refused.value))[1])
    assert fits > 16
    build.require_memory(dataclasses.replace(settings, num_envs=fits), spec, available, in_file=in_file)
    with pytest.raises(SettingsError, match="^--num_envs"):
        build.require_memory(dataclasses.replace(settings, num_envs=fits + 100), spec, available, in_file=in_file)


def test_environments_on_other_machines_do_not_count():
    settings = settings_of("atari/Pong", agent="a3c", num_envs=1000, trajectories_per_update=4)
    acting = dataclasses.replace(settings, actors=10)
    there = build.process_bytes(acting, PONG, on_ray=True)
    assert there == resources.PROCESS_BYTES
    assert build.process_bytes(settings, PONG) == build.process_bytes(acting, PONG) >= there + 1e9
    with pytest.raises(SettingsError, match=r"^--num_envs=1000: "):
        build.require_memory(acting, PONG, there + 10**9)
    build.require_memory(acting, PONG, there + 10**9, on_ray=True)


def test_environments_whose_rows_and_copies_are_elsewhere_are_not_blamed():
    settings = settings_of("CartPole-v1", num_envs=32, trajectories_per_update=1)
    acting = dataclasses.replace(settings, actors=4)
    build.require_memory(acting, CARTPOLE, resources.PROCESS_BYTES - 10**8, in_file=True, on_ray=True)


def test_a_large_batch_and_the_priorities_of_items_count():
    rank = {"agent": "dqn", "preset": "ddqn_rank", "num_envs": 4, "replay_capacity": 20_000, "replay_start": 0}
    small, large = (settings_of("CartPole-v1", **rank, replay_batch=batch) for batch in (32, 100_000))
    rows = 2 * 4 * CARTPOLE.observation_size * (100_000 - 32)
    assert build.process_bytes(large, CARTPOLE) > build.process_bytes(small, CARTPOLE) + rows
    replay = build.make_replay(small, CARTPOLE)
    priorities = sum(array.nbytes for array in vars(replay._priorities).values() if isinstance(array, np.ndarray))
    held = sum(array.nbytes for array in replay._ring.values())
    needed = build.replay_bytes(small, CARTPOLE, 20_000)
    assert held + priorities == pytest.approx(needed, rel=0.3) and held < needed - 20 * 80_000


def test_the_replay_that_is_made_is_the_one_whose_memory_was_counted(monkeypatch):
    settings = settings_of(replay_capacity=1000, replay_start=0, num_envs=4)
    replay = build.make_replay(settings, CARTPOLE)
    held = sum(array.nbytes for array in replay._ring.values())
    assert held == TrajectoryReplay.required_bytes(CARTPOLE, 4, 1000)
    monkeypatch.setattr(resources, "available_memory", lambda: resources.PROCESS_BYTES + held)
    build.make_replay(settings, CARTPOLE)
    monkeypatch.setattr(resources, "available_memory", lambda: resources.PROCESS_BYTES + held - 1)
    with pytest.raises(SettingsError, match="--replay_capacity=1000"):
        build.make_replay(settings, CARTPOLE)


def test_an_infinite_setting_reaches_the_agent():
    settings = settings_of(agent="a3c", network="mlp", precision="float32")
    assert math.isinf(build.make_agent(settings, CARTPOLE).settings.trust_region_delta)


def test_a_replay_larger_than_memory_lives_in_a_new_file(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "available_memory", lambda: 10**6)
    settings = settings_of(num_envs=1, replay_capacity=100, replay_start=0)
    with pytest.raises(SettingsError, match="--replay_file"):
        build.make_replay(settings, CARTPOLE)
    assert build.make_replay(settings, CARTPOLE, tmp_path / "replay").stored == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "capacity", "reason"),
    [
        ("taken", 100, "File exists; must name a new file where 3.8 kB are free"),
        ("no/folder", 100, "No such file or directory"),
        ("replay", 10**15, "must name a new file where [0-9.,]+ GB are free"),
    ],
)
def test_a_file_that_cannot_hold_the_replay_is_refused_by_its_flag(tmp_path, name, capacity, reason):
    (tmp_path / "taken").write_text("someone's")
    settings = settings_of(num_envs=1, replay_capacity=capacity, replay_start=0)
    with pytest.raises(SettingsError, match=rf"^--replay_file={tmp_path}/{name}: .*{reason}"):
        build.make_replay(settings, CARTPOLE, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert (tmp_path / "taken").read_text() == "someone's"


@pytest.mark.parametrize(("kind", "structure"), [("rank", RankHeap), ("proportional", SumTree)])
def test_the_prioritized_replay_is_made_of_the_settings(kind, structure):
    exponents = {"priority_exponent": 0.7, "priority_exponent_final": 0.2, "importance_exponent": 0.4}
    others = {"importance_exponent_final": 0.9, "priority_epsilon": 0.25, "weights_by_batch": False}
    settings = settings_of(
        replay_priority=kind, replay_batch=6, trajectories_per_update=4, replay_capacity=1000, **exponents, **others
    )
    replay = build.make_replay(settings, CARTPOLE)
    assert type(replay._priorities) is structure
    assert (replay._batch_size, replay._epsilon, replay._by_batch) == (6, 0.25, False)
    assert (replay._alpha, replay._beta) == ((0.7, 0.2), (0.4, 0.9))


@pytest.mark.parametrize("centered", [False, True])
def test_the_optimizer_is_centred_as_the_settings_say(centered):
    settings = settings_of(agent="dqn", preset="dqn", network="mlp", precision="float32", rmsprop_centered=centered)
    assert build.make_agent(settings, CARTPOLE).optimizer.centered == centered


def test_both_networks_of_an_agent_read_observations_by_the_same_statistics():
    given = {"agent": "acer_continuous", "preset": "paper_continuous", "network": "mlp", "precision": "float32"}
    agent = build.make_agent(settings_of("Pendulum-v1", **given), PENDULUM)
    assert agent.network.normalization is agent.average.normalization is not None


def test_environments_and_actions_have_the_seeds_of_their_numbers_in_the_run_whoever_steps_them():
    def acts(observation, seed, state, legal, first=0):
        return seed[0], first + np.arange(len(observation)), observation

    found = []
    for actors in (1, 2, 4):
        settings = settings_of(num_envs=4, actors=actors)
        made = [build.make_actor(settings, acts, 100, group) for group in range(actors)]
        observations = [actor._env.reset().observation for actor in made]
        pairs = zip(made, observations, strict=True)
        answers = [actor._act(x, np.array([actor._seed, 0]), None, None) for actor, x in pairs]
        found.append([np.concatenate(observations), {a[0] for a in answers}, np.concatenate([a[1] for a in answers])])
        for actor in made:
            actor.close()
    for observations, seeds, numbers in found:
        np.testing.assert_array_equal(observations, found[0][0])
        assert seeds == found[0][1] and len(seeds) == 1
        assert numbers.tolist() == [0, 1, 2, 3]
    assert len({build.derive_seed(settings, each) for each in ("actions", "poisson", "replay", "weights")} | seeds) == 4


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam", "keras.optimizers:Adafactor"])
def test_an_agent_takes_back_the_whole_state_of_its_optimizer(optimizer):
    """Adafactor gives its variables of several weights one path."""
    settings = resolve(settings_of(preset="classic", optimizer=optimizer), CARTPOLE)
    agent, again = (build.make_agent(settings, CARTPOLE) for _ in range(2))
    rng = np.random.default_rng(0)
    for variable in agent.optimizer.variables:
        variable.assign(rng.integers(1, 9, variable.shape))
    again.restore({name: array.copy() for name, array in agent.arrays().items()})
    for ours, theirs in zip(again.optimizer.variables, agent.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
