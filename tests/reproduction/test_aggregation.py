"""Compared with numbers computed by hand."""

import math

import numpy as np
import pytest

from acer_tf.reproduction.curves import (
    ATARI_WINDOW_STEPS,
    RunCurve,
    cumulative_maximum,
    final_return,
    final_score,
    reached,
    score_at,
    task_scores,
    training_score,
)

NAN = math.nan


def curve(steps, episodes, interval_return, env="minatar/breakout", seed=0):
    columns = (np.array(column, float) for column in (steps, [s / 10 for s in steps], episodes, steps, interval_return))
    return RunCurve(env, seed, int(steps[-1]), *columns)


# Episodes that ended, by interval: 2 of return 1, none, 1 of return 7, 3 of return 4.
RUN = curve([100, 200, 300, 400], [2, 2, 3, 6], [1, NAN, 7, 4])


def test_a_window_of_a_million_frames_is_a_quarter_of_a_million_steps():
    assert ATARI_WINDOW_STEPS * 4 == 1_000_000


@pytest.mark.parametrize(
    ("window", "scores"),
    [
        (100, [1, NAN, 7, 4]),
        (200, [1, 1, 7, (7 + 12) / 4]),
        (300, [1, 1, (2 + 7) / 3, (7 + 12) / 4]),
        (1000, [1, 1, (2 + 7) / 3, (2 + 7 + 12) / 6]),
        # Whole intervals: one that reaches into the window counts.
        (150, [1, 1, 7, (7 + 12) / 4]),
    ],
)
def test_the_training_score_is_the_mean_over_the_episodes_of_the_window(window, scores):
    assert training_score(RUN, window) == pytest.approx(scores, nan_ok=True)
    assert final_score(RUN, window) == pytest.approx(scores[-1])


def test_a_run_in_which_no_episode_ended_has_no_score():
    assert np.isnan(training_score(curve([100, 200], [0, 0], [NAN, NAN]), 100)).all()


def test_the_final_return_weighs_intervals_by_their_episodes():
    # The second half: 1 episode of 10 and 3 of 20; the row without episodes does not count.
    run = curve([100, 200, 300, 400], [5, 5, 6, 9], [99, NAN, 10, 20])
    assert final_return(run, share=0.5) == pytest.approx((10 + 3 * 20) / 4)


def test_the_final_return_of_no_episode_is_nan():
    assert math.isnan(final_return(curve([100, 200], [3, 3], [7, NAN]), share=0.5))


@pytest.mark.parametrize(
    ("values", "largest"),
    [
        ([1, 3, 2, 5, 4], [1, 3, 3, 5, 5]),
        ([NAN, 1, NAN, 2, 1], [NAN, 1, 1, 2, 2]),
        # It ends where its data do.
        ([2, 1, NAN, NAN], [2, 2, NAN, NAN]),
        ([NAN, NAN], [NAN, NAN]),
    ],
)
def test_the_cumulative_maximum(values, largest):
    assert cumulative_maximum(np.array(values, float)) == pytest.approx(largest, nan_ok=True)


def test_scores_are_read_between_rows_and_nowhere_else():
    run = curve([100, 200], [1, 2], [4, 8])
    points = np.array([50, 100, 150, 200, 250])
    assert score_at(run, points, 100) == pytest.approx([NAN, 4, 6, 8, NAN], nan_ok=True)
    assert score_at(run, points / 10, 100, "seconds") == pytest.approx([NAN, 4, 6, 8, NAN], nan_ok=True)


def test_a_tasks_score_is_the_mean_of_its_seeds_as_far_as_both_have_come():
    runs = {"a": [curve([100, 200], [1, 2], [4, 8]), curve([100], [1], [2])], "b": [curve([100, 200], [1, 2], [0, 10])]}
    assert (reached(runs["a"]), reached(runs["a"], "seconds")) == (100, 10)
    scores = task_scores(runs, np.array([100, 200]), 100, lambda task, score: score * (10 if task == "b" else 1))
    assert scores == pytest.approx(np.array([[3, NAN], [0, 100]]), nan_ok=True)
