import itertools
import math
import warnings

import numpy as np
import pytest

from acer_tf.reproduction.statistics import interquartile_mean


def test_the_middle_half_is_averaged_and_the_interval_is_that_of_the_bootstrap():
    scores = [1.0, 2.0, 3.0, 4.0, 100.0]
    estimate = interquartile_mean(scores)
    assert estimate.value == 3.0
    # All 5⁵ resamples at once, rather than 10,000 random ones.
    means = [np.mean(sorted(draw)[1:4]) for draw in itertools.product(scores, repeat=5)]
    assert estimate.low == pytest.approx(np.percentile(means, 2.5), abs=0.35)
    assert np.percentile(means, 97) <= estimate.high <= np.percentile(means, 98)


def test_it_is_the_same_every_time_and_quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert interquartile_mean([1, 5, 2]) == interquartile_mean([1, 5, 2])
    assert interquartile_mean([7.0]) == (7.0, 7.0, 7.0)


@pytest.mark.parametrize("scores", [[], [1.0, math.nan], [math.inf]])
def test_scores_that_are_none_are_refused(scores):
    with pytest.raises(ValueError, match="one finite score per run"):
        interquartile_mean(scores)
