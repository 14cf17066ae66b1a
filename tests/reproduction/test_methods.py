"""Which runs a figure or table is made of."""

import pytest

from acer_tf.commands.cli import value_of
from acer_tf.reproduction.cells import flags_of
from acer_tf.reproduction.figure import Method, figures, make_cells
from acer_tf.settings import make_settings, setting_types


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"learning_rate": 1e-5, "replay_poisson": False},
        {"replay_priority": "proportional", "priority_exponent": 0.45},
        {"replay_priority": "proportional", "priority_exponent": 0.45, "priority_exponent_final": 0.6},
        {"replay_priority": "proportional", "priority_exponent": 0.6, "priority_exponent_final": 0.45},
    ],
)
def test_the_flags_of_settings_give_these(given):
    settings = make_settings(env="minatar/breakout", **given)
    read = {}
    for flag in flags_of(settings):
        name, equals, text = flag.removeprefix("--").partition("=")
        name, value = (name, text) if equals else (name.removeprefix("no"), str(not name.startswith("no")))
        read[name] = value_of(setting_types()[name], value)
    assert make_settings(read) == settings


def test_the_first_seed_of_all_comes_first():
    methods = {name: Method(name, {"agent": name}, 1000) for name in ("acer", "a3c")}
    cells = make_cells(methods, ("CartPole-v1", "Acrobot-v1"), 2)
    assert [(cell.seed, cell.env, cell.method) for cell in cells] == [
        (seed, env, name) for seed in (0, 1) for env in ("CartPole-v1", "Acrobot-v1") for name in ("acer", "a3c")
    ]


def test_a_run_has_fifty_rows_or_one_per_twenty_thousand_steps():
    method = Method("ACER", {}, {"CartPole-v1": 500_000, "Acrobot-v1": 50_000_000})
    cells = make_cells({"acer": method}, ("CartPole-v1", "Acrobot-v1", "MountainCar-v0"), 1)
    assert [(cell.env, cell.train_settings.log_interval) for cell in cells] == [
        ("CartPole-v1", 10_000),
        ("Acrobot-v1", 20_000),
    ]


def test_presets_and_lengths_on_atari_are_the_papers():
    """In agent steps, of four frames: where Figure 1's curves end; 200 M frames of DQN, 40 M of baselines."""

    def of(name):
        return {key: (m.settings["preset"], m.steps("atari/Pong")) for key, m in figures()[name].methods.items()}

    ends = {0: 225_000_000, 1: 150_000_000, 4: 67_500_000, 8: 40_000_000}
    assert of("figure1_atari57") == {
        **{f"replay{ratio}{trust}": ("paper", steps) for ratio, steps in ends.items() for trust in ("", "_trust")},
        "dqn": ("dqn", 50_000_000),
        "prioritized": ("ddqn_proportional", 50_000_000),
    }
    assert of("table_atari49") == {"acer": ("baselines", 10_000_000), "a3c": ("baselines", 10_000_000)}
    agents = ("dqn", "dqn_rank", "ddqn_tuned", "ddqn_rank", "ddqn_proportional")
    assert of("table1_prioritized") == {name: (name, 50_000_000) for name in agents}
