"""The figure of the trust region on MinAtar: its settings, and what it says of runs whose answer is known."""

import pytest

from acer_tf.figures.figure_trust_region import FIGURE
from acer_tf.reproduction.figure import make_cells
from acer_tf.reproduction.verdicts import decide
from acer_tf.settings import make_settings
from tests.reproduction.report.synthetic import outcome, row_of

pytestmark = pytest.mark.usefixtures("few_resamples")
HELPS, GAINS_MORE = (claim.judge for claim in FIGURE.claims)


def recorded(folder, gain, seeds=5):
    """Runs of two games; with the trust region a run has `gain(preset, ratio)` of all runs without it below it."""

    def returns(cell):
        settings = cell.train_settings
        if not settings.trust_region:
            return [10.0 + cell.seed] * 10
        return [9.5 + seeds * gain(settings.preset, settings.replay_ratio)] * 10

    keys = [key for key in FIGURE.methods if "lag" not in key or key == "delta0.1_lag400"]
    cells = make_cells({key: FIGURE.methods[key] for key in keys}, FIGURE.envs[:2], seeds)
    return outcome(folder, FIGURE.methods, cells, returns)


@pytest.mark.parametrize("lag", [400, 6_400])
@pytest.mark.parametrize("delta", ["0.01", "0.1", "1"])
def test_the_average_lags_as_many_steps_as_the_method_says(delta, lag):
    settings = make_settings(
        {"env": "minatar/breakout", "total_steps": 1, **FIGURE.methods[f"delta{delta}_lag{lag}"].settings}
    )
    windows = settings.num_envs * settings.unroll_length
    updates = (settings.on_policy_updates + settings.replay_ratio) / windows  # per step
    assert 1 / (1 - settings.update_average_decay) / updates == pytest.approx(lag)
    assert settings.trust_region_delta == float(delta)


@pytest.mark.parametrize("preset", ["minatar", "paper"])
def test_with_and_without_differ_in_the_trust_region_alone(preset):
    prefix = "" if preset == "minatar" else "paper_"
    for ratio in (4, 8):
        with_it, without = (dict(FIGURE.methods[f"{prefix}replay{ratio}{end}"].settings) for end in ("_trust", ""))
        assert (with_it.pop("trust_region_delta"), without.pop("trust_region_delta")) == (1.0, float("inf"))
        assert with_it == without == {"preset": preset, "replay_ratio": float(ratio)}


def test_the_claims_are_of_both_ratios_and_both_presets(tmp_path):
    found = recorded(tmp_path, lambda preset, ratio: 0.4 if (preset, ratio) == ("paper", 4) else 0.8)
    finding = HELPS(found)
    assert [comparison.estimate.value for comparison in finding.comparisons] == pytest.approx([0.8, 0.8, 0.4, 0.8])
    assert finding.ours.startswith("0.80, 0.80, 0.40, 0.80 (")
    more = GAINS_MORE(found)
    assert [comparison.estimate.value for comparison in more.comparisons] == pytest.approx([0.0, 0.4])
    assert str(more.comparisons[1]).startswith("preset paper, ratio 8 less 4 0.40")
    assert more.theirs.startswith("order only: 1.30, 1.49 (")


def test_a_preset_without_runs_leaves_the_claims_undecided(tmp_path):
    keys = ("replay4_trust", "replay4", "replay8_trust", "replay8")
    cells = make_cells({key: FIGURE.methods[key] for key in keys}, FIGURE.envs[:2], 4)
    found = outcome(tmp_path, FIGURE.methods, cells, lambda cell: [1.0 + cell.method.endswith("_trust")] * 10)
    helps, more = HELPS(found), GAINS_MORE(found)
    assert [comparison.estimate.low for comparison in helps.comparisons[:2]] == [1.0, 1.0]
    assert decide(helps.comparisons)[0] == decide(more.comparisons)[0] == "undecided: needs runs of it"
    assert helps.ours.endswith("preset minatar, replay 4; preset minatar, replay 8)")
    assert more.ours.startswith("0.00 (") and more.ours.endswith("preset minatar)")


def test_the_figure_has_a_row_for_each_method_that_is_compared(tmp_path):
    report = FIGURE.report(recorded(tmp_path, lambda preset, ratio: 0.8))
    (axes,) = report.figures["figure"].figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "preset minatar, replay 4",
        "preset minatar, replay 8",
        "preset paper, replay 4",
        "preset paper, replay 8",
        "δ 0.1, lag 400",
    ]
    points = [line for line in axes.lines if line.get_marker() == "o"]
    assert [line.get_xdata()[0] for line in points] == pytest.approx([0.8] * 5)
    assert [line.get_ydata()[0] for line in points] == [*range(5)]
    for label, preset in (("preset paper, replay 8", "paper"), ("δ 0.1, lag 400", "minatar")):
        row = row_of(report.tables["table"], label)
        assert row["compared with"] == f"preset {preset}, replay 8, without trust region"
        assert row["probability of improvement [95 %]"].startswith("0.80")


@pytest.mark.parametrize(("gain", "fill"), [(1.2, "full"), (0.5, "none")])
def test_a_point_is_full_where_the_rule_shows_it(tmp_path, gain, fill):
    report = FIGURE.report(recorded(tmp_path, lambda preset, ratio: gain))
    (axes,) = report.figures["figure"].figure.axes
    assert {line.get_fillstyle() for line in axes.lines if line.get_marker() == "o"} == {fill}
