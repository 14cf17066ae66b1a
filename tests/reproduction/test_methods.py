"""Which runs a figure or table is made of."""

from acer_tf.reproduction.figure import Method, figures, make_cells


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
