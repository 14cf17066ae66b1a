"""The ablations on MinAtar: each takes one part, and the claims compare it with the whole."""

import pytest

from acer_tf.figures.figure4_minatar import FIGURE
from acer_tf.figures.figure_trust_region import FIGURE as TRUST_REGION
from acer_tf.reproduction.figure import make_cells
from acer_tf.settings import make_settings
from tests.reproduction.report.synthetic import outcome

pytestmark = pytest.mark.usefixtures("few_resamples")
WORSE, TRUNCATION = (claim.judge for claim in FIGURE.claims)


def settings_of(method):
    return make_settings({"env": "minatar/breakout", "total_steps": 1, **method.settings})


@pytest.mark.parametrize("part", [key for key in FIGURE.methods if key != "acer"])
def test_one_setting_is_another(part):
    whole, without = (settings_of(FIGURE.methods[key]) for key in ("acer", part))
    assert sum(getattr(whole, name) != getattr(without, name) for name in vars(whole)) == 1


def test_runs_of_figure_trust_region_are_runs_of_this_one():
    theirs = (TRUST_REGION.methods[key] for key in ("replay8_trust", "replay8"))
    for ours, method in zip((FIGURE.methods["acer"], FIGURE.methods["no_trust_region"]), theirs, strict=True):
        assert settings_of(ours) == settings_of(method) and ours.total_steps == method.total_steps


def test_the_claims_compare_the_whole_with_each_part(tmp_path):
    cells = make_cells(FIGURE.methods, FIGURE.envs[:2], 4)

    def returns(cell):  # without the trust region always less; without Retrace less by two seeds' difference
        settings = cell.train_settings
        below = 2 * (not settings.retrace) + 10 * (not settings.trust_region)
        return [20.0 + cell.seed - below] * 10

    recorded = outcome(tmp_path, FIGURE.methods, cells, returns)
    worse, truncation = WORSE(recorded), TRUNCATION(recorded)
    assert [comparison.estimate.value for comparison in worse.comparisons] == pytest.approx([1.0, 14 / 16])
    assert worse.ours.startswith("1.00, 0.88 (a run of ACER beats one with: no trust region; importance-sampled")
    assert [comparison.estimate.value for comparison in truncation.comparisons] == pytest.approx([0.5])
