"""Which method the table of gymnasium's tasks calls best."""

import pytest

from acer_tf.figures.table_gymnasium import best


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        ({"ACER": [1.0, 1.2], "PPO": [3.0, 3.2], "DQN": []}, ["PPO"]),
        ({"ACER": [1.0, 2.0], "PPO": [1.5, 2.5]}, ["PPO", "ACER"]),  # their standard errors meet
        ({"ACER": [1.0, 1.2], "PPO": [3.0]}, []),  # one run is no rival
        ({"ACER": [1.0, 1.2]}, []),
    ],
)
def test_the_best_is_one_of_several_methods_of_several_runs(scores, found):
    assert best(scores) == found
