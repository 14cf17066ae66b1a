import itertools

import numpy as np
import pytest

from acer_tf.errors import EvidenceError
from acer_tf.reproduction.cliffwalk import (
    REPLAYS,
    QLearner,
    Result,
    full_memory,
    read_results,
    run,
    true_values,
    write_results,
)


def step(states, state, action):
    """The domain of §3.1: the reward and the next state, None if the episode ends."""
    if action != state % 2:
        return 0.0, None
    return (1.0, None) if state == states - 1 else (0.0, state + 1)


@pytest.mark.parametrize("states", [2, 3, 7, 16])
def test_true_values_are_those_of_dynamic_programming(states):
    values = np.zeros((states, 2))
    for _ in range(states):
        for state, action in itertools.product(range(states), range(2)):
            reward, following = step(states, state, action)
            values[state, action] = reward + (0 if following is None else (1 - 1 / states) * values[following].max())
    np.testing.assert_allclose(true_values(states), values.ravel(), rtol=1e-13)


@pytest.mark.parametrize("states", [2, 3, 4, 9])
def test_the_memory_is_that_of_all_action_sequences(states):
    executed = []
    for actions in itertools.product(range(2), repeat=states):
        state = 0
        for action in actions:
            executed.append(2 * state + action)
            _, state = step(states, state, action)
            if state is None:
                break
    memory = full_memory(states, np.random.default_rng(0))
    assert len(memory) == 2 ** (states + 1) - 2
    assert sorted(memory.tolist()) == sorted(executed)


def test_the_memory_of_two_states_by_hand():
    # Sequences 00, 01, 10, 11, where 0 is right in state 0, and 1 in state 1.
    assert sorted(full_memory(2, np.random.default_rng(0)).tolist()) == [0, 0, 1, 1, 2, 3]


def test_the_memory_s_order_is_random():
    memories = [full_memory(6, np.random.default_rng(seed)).tolist() for seed in (0, 0, 1)]
    assert memories[0] == memories[1] != memories[2]


@pytest.mark.parametrize("representation", ["tabular", "linear"])
def test_updates_are_q_learning_s(representation):
    states, generator = 5, np.random.default_rng(0)
    learner = QLearner(states, representation, generator)
    # φ(s, a): 1-hot pair, and a constant 1 for each action.
    features = np.eye(2 * states)
    if representation == "linear":
        features = np.hstack([features, np.tile(np.eye(2), (states, 1))])
    theta = np.linalg.lstsq(features, learner.values(), rcond=None)[0]  # any solution, since only Q is compared
    for pair in generator.integers(2 * states, size=200).tolist():
        values = (features @ theta).reshape(-1, 2)
        reward, following = step(states, pair // 2, pair % 2)
        target = reward + (0 if following is None else (1 - 1 / states) * values[following].max())
        error = target - values.ravel()[pair]
        assert learner.error(pair) == pytest.approx(error, abs=1e-12)
        errors = np.array([learner.error(each) for each in range(2 * states)])
        foreseen = learner.losses_after(errors)[pair]
        assert learner.update(pair) == pytest.approx(error, abs=1e-12)
        theta += 0.25 * error * features[pair]
        np.testing.assert_allclose(learner.values(), features @ theta, atol=1e-12)
        assert learner.loss() == pytest.approx(np.mean((features @ theta - true_values(states)) ** 2))
        assert foreseen == pytest.approx(learner.loss())


def test_initial_weights_are_normal_with_standard_deviation_a_tenth():
    values = [QLearner(100, "tabular", np.random.default_rng(seed)).values() for seed in range(20)]
    assert np.std(values) == pytest.approx(0.1, rel=0.05) and abs(np.mean(values)) < 0.01
    linear = [QLearner(100, "linear", np.random.default_rng(seed)).values() for seed in range(200)]
    assert np.std(linear) == pytest.approx(0.02**0.5, rel=0.1)


def test_greedy_replay_takes_what_has_not_been_replayed_then_the_largest_error():
    memory, errors = np.array([0, 1, 2, 3, 4]), [0.1, -0.5, 0.3, 0.0, -0.2]
    replay = REPLAYS["greedy"](memory, None, None)
    pair, first = next(replay), []
    for _ in range(5):
        first.append(pair)
        pair = replay.send(errors[pair])
    assert sorted(first) == [0, 1, 2, 3, 4]
    assert pair == 1
    assert replay.send(0.25) == 2
    assert replay.send(0.0) == 1


@pytest.mark.parametrize("representation", ["tabular", "linear"])
def test_replay_is_ordered_as_in_the_paper(representation):
    results = {
        replay: [run(representation, replay, 8, number, seed=0, limit=100_000) for number in range(3)]
        for replay in REPLAYS
    }
    assert all(result.converged for runs in results.values() for result in runs)
    updates = {replay: np.median([result.updates for result in runs]) for replay, runs in results.items()}
    for prioritized in ("greedy", "rank-based", "proportional"):
        assert 2 * updates["oracle"] < updates[prioritized] < updates["uniform"] / 2
    assert updates["oracle"] < 2**9 - 2 < updates["greedy"]  # the oracle need not see every transition
    assert updates["greedy, current errors"] < 2 * updates["oracle"]


def test_the_oracle_needs_as_many_updates_as_a_search_by_trial():
    start = np.random.default_rng([0, 5, 0, 0])
    learner = QLearner(5, "tabular", start)
    values, updates = learner.values(), 0
    while np.mean((values - true_values(5)) ** 2) >= 1e-3:
        tried = []
        for pair in range(10):
            reward, following = step(5, pair // 2, pair % 2)
            target = reward + (0 if following is None else 0.8 * values[2 * following : 2 * following + 2].max())
            after = values.copy()
            after[pair] += 0.25 * (target - values[pair])
            tried.append(after)
        values = min(tried, key=lambda after: np.sum((after - true_values(5)) ** 2))
        updates += 1
    assert run("tabular", "oracle", 5, 0, seed=0, limit=1000).updates == updates


def test_runs_are_reproducible_and_differ_by_number_and_seed():
    first, again, second, other = (
        run("linear", "proportional", 6, number, seed=seed, limit=10_000)
        for number, seed in ((0, 0), (0, 0), (1, 0), (0, 1))
    )
    assert first == again
    assert len({first.updates, second.updates, other.updates}) == 3


def test_a_run_that_does_not_converge_is_marked():
    assert run("tabular", "uniform", 11, 0, seed=0, limit=7) == Result("tabular", "uniform", 11, 0, 7, False)


def test_results_are_read_as_they_were_written(tmp_path):
    results = [Result("tabular", "greedy, current errors", 3, 0, 17, True), Result("linear", "oracle", 2, 1, 5, False)]
    write_results(results, tmp_path / "table.csv")
    assert read_results(tmp_path / "table.csv") == results


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is missing: nothing has been run there"),
        ("a,b\n1,2\n", "holds no results"),
        ("representation,replay,states,run,updates,converged\na,b,c,d,e,f\n", "holds no results"),
    ],
)
def test_a_file_without_results_is_named(tmp_path, content, message):
    if content is not None:
        (tmp_path / "table.csv").write_text(content)
    with pytest.raises(EvidenceError, match=rf"table\.csv {message}"):
        read_results(tmp_path / "table.csv")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("cubic", "uniform", 3), "representation must be one of"),
        (("linear", "best", 3), "replay must be one of"),
        (("linear", "uniform", 1), "states must be at least 2, got 1"),
    ],
)
def test_bad_arguments_are_named(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        run(*arguments, 0, seed=0, limit=10)
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        run("linear", "uniform", 3, 0, seed=0, limit=0)
