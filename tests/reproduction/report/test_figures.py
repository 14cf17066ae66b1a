import re

import numpy as np
import pytest

from acer_tf.reproduction.curves import RunCurve
from acer_tf.reproduction.published import PublishedCurve, published_curves
from acer_tf.reproduction.report.output import dots, learning_curves, panels, save


def curve(steps, value, env, seed=0):
    columns = (np.array([x], float) for x in (steps, steps / 100, 9, value, value))
    return RunCurve(env, seed, int(steps), *columns)


def lines_of(axes):
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


MARK = "end of the published axis"
PUBLISHED = [f"OpenAI baselines' ACER, published (6 runs, code {version})" for version in ("7bfbcf1", "ea68f3b")]


@pytest.mark.parametrize(("steps", "scale"), [(4e4, "log"), (1e6, "log"), (4e6, "linear"), (2e7, "linear")])
def test_the_published_curve_lies_behind_a_game_that_has_one(steps, scale):
    env = "atari/Pong"
    figure = learning_curves({env: {"ours": [curve(steps, -20, env)]}}, published_curves, titles={env: "Pong"})
    axes = figure.axes[0]
    assert axes.get_title() == "Pong"
    lines = lines_of(axes)
    assert list(lines) == [*PUBLISHED, "ours", MARK]
    # All of them are shown, whose end is marked; steps are logarithmic where ours end far before.
    end = max(lines[label].get_xdata()[-1] for label in PUBLISHED)
    assert axes.get_xscale() == scale
    assert axes.get_xlim()[1] > max(end, steps)
    assert lines[MARK].get_xdata() == [end] * 2


def test_a_label_that_begins_with_an_underscore_is_in_the_legend():
    figure = learning_curves({"CartPole-v1": {"_mine": [curve(1e5, 20, "CartPole-v1")]}}, lambda env: ())
    assert [text.get_text() for legend in figure.legends for text in legend.texts] == [" _mine"]


def test_the_band_of_a_published_curve_is_its_own():
    axes = learning_curves({"atari/Pong": {"ours": [curve(1e7, -20, "atari/Pong")]}}, published_curves).axes[0]
    for published, band in zip(published_curves("atari/Pong"), axes.collections, strict=True):
        vertices = band.get_paths()[0].vertices[:, 1]
        assert (vertices.min(), vertices.max()) == (published.low.min(), published.high.max())
        for bound in (published.low, published.high):
            assert np.isin(np.round(bound, 6), np.round(vertices, 6)).all()


def test_a_published_curve_has_the_colour_of_its_method():
    env = "control/fish"
    groups = {"TIS": [curve(1e6, 20, env)], "ACER": [curve(1e6, 30, env)]}
    lines = lines_of(learning_curves({env: groups}, published_curves).axes[0])
    colours = {label: line.get_color() for label, line in lines.items()}
    assert colours["TIS, paper"] == colours["TIS"] != colours["ACER"] == colours["ACER, paper"]
    labels = [f"{method}{whose}" for method in ("TIS", "ACER") for whose in ("", ", paper")]
    labels += [f"{method}, paper" for method in ("Trust-TIS", "Trust-A3C", "A3C")]
    assert len({colours[label] for label in labels}) == 5


def test_a_published_label_has_one_colour_in_all_panels():
    line = np.array([0.0, 10.0])
    others = {"a": ("PPO",), "b": ("PPO", "DQN"), "c": ("DQN",)}

    def published(env):
        return [PublishedCurve(label, label, line, line, line, line) for label in others[env]]

    figure = learning_curves({env: {"ours": [curve(10, 1, env)]} for env in others}, published)
    seen = {(label, line.get_color()) for axes in figure.axes for label, line in lines_of(axes).items()}
    assert len({colour for label, colour in seen if label != MARK}) == 3 == len(seen) - 1


@pytest.mark.parametrize(("runs", "thin"), [(1, 1), (3, 3), (4, 0)])
def test_many_runs_are_drawn_by_their_mean_and_band_alone(runs, thin):
    env = "control/fish"
    groups = {"ACER": [curve(1e6, value, env, seed=value) for value in range(runs)]}
    (axes,) = learning_curves({env: groups}, lambda env: []).axes
    assert len(axes.lines) - len(lines_of(axes)) == thin and len(axes.collections) == (runs > 1)


def test_a_label_has_one_colour_in_all_panels_and_a_shared_legend_names_it_once():
    envs = ("minatar/breakout", "minatar/freeway")
    by_env = {
        envs[0]: {"a": [curve(10, 1, envs[0])], "b": [curve(10, 2, envs[0], s) for s in (0, 1)]},
        envs[1]: {"b": [curve(10, 3, envs[1], s) for s in (0, 1)], "a": [curve(10, 3, envs[1], s) for s in (0, 1)]},
    }
    figure = learning_curves(by_env, lambda env: [])
    first, second = figure.axes
    assert lines_of(first)["b (2 seeds)"].get_color() == lines_of(second)["b (2 seeds)"].get_color()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a (1 to 2 seeds)", "b (2 seeds)"]
    assert first.get_legend() is None


def test_the_legend_of_one_panel_lies_below_its_curves():
    figure = learning_curves({"a": {"ours": [curve(10, 1, "a")]}}, lambda env: [])
    figure.draw_without_rendering()
    ((axes,), (legend,)) = figure.axes, figure.legends
    assert legend.get_window_extent().y1 <= axes.get_window_extent().y0
    assert axes.get_legend() is None


def test_a_legend_of_long_labels_is_not_wider_than_the_figure():
    labels = [f"setting {n}, with a label of some fifty characters" for n in range(6)]
    figure = learning_curves({"a": {label: [curve(10, n, "a")] for n, label in enumerate(labels)}}, lambda env: ())
    figure.draw_without_rendering()
    (legend,) = figure.legends
    place = legend.get_window_extent()
    assert [text.get_text() for text in legend.get_texts()] == labels
    assert 0 <= place.x0 < place.x1 <= figure.bbox.width


def test_curves_against_hours():
    env = "minatar/breakout"
    columns = (np.array(x, float) for x in ([10, 20], [1800, 5400], [1, 2], [1, 3], [1, 3]))
    (axes,) = learning_curves({env: {"a": [RunCurve(env, 0, 20, *columns)]}}, lambda env: (), axis="seconds").axes
    line = lines_of(axes)["a"]
    assert line.get_xdata()[-1] == 1.5 and axes.get_xlabel() == "hours"
    assert np.interp(1.0, line.get_xdata()[100:], line.get_ydata()[100:]) == pytest.approx(2.0)


def test_a_task_without_runs_shows_what_was_published():
    (axes,) = learning_curves({"atari/Pong": {}}, published_curves).axes
    assert list(lines_of(axes)) == [*PUBLISHED, MARK]


def test_the_same_figure_is_the_same_file(tmp_path):
    for folder in ("a", "b"):
        figure, (axes,) = panels(1)
        axes.plot([1, 2], label="x")
        axes.legend()
        save(figure, tmp_path / folder, "figure")
    for name in ("figure.png", "figure.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_paths_of_an_svg_have_two_decimals_and_its_text_stays(tmp_path):
    figure, (axes,) = panels(1)
    axes.plot([0.123456, 2], [1, 1 / 3])
    axes.set_title("0.123456")
    save(figure, tmp_path, "figure")
    drawn = (tmp_path / "figure.svg").read_text()
    assert ">0.123456<" in drawn
    numbers = [n for path in re.findall(r' d="([^"]*)"', drawn) for n in re.findall(r"\.(\d+)", path)]
    assert max(map(len, numbers)) == 2


def test_the_mean_and_its_standard_error_reach_over_what_both_seeds_have():
    env = "minatar/breakout"

    def run(seed, value, steps):
        columns = (np.array(steps, float), np.array(steps, float), np.arange(len(steps)) * 9.0)
        returns = np.array([np.nan] + [value] * (len(steps) - 1))
        return RunCurve(env, seed, steps[-1], *columns, returns, returns)

    runs = [run(0, 1.0, [10, 20, 30]), run(1, 3.0, [10, 20, 30, 40])]
    (axes,) = learning_curves({env: {"a": runs}}, lambda env: []).axes
    line = lines_of(axes)["a (2 seeds)"]
    known = ~np.isnan(line.get_ydata())
    assert set(line.get_ydata()[known]) == {2.0}
    assert 20 <= line.get_xdata()[known].min() < 21 and line.get_xdata()[known].max() == 30
    x, y = np.concatenate([path.vertices for path in axes.collections[0].get_paths()]).T
    assert (x.max(), y.min(), y.max()) == (30.0, 1.0, 3.0)  # 2 ± √2 / √2


def test_each_dot_lies_in_the_row_of_its_game():
    scores = {"Pong": 0.5, "Alien": 2.0}
    (axes,) = dots(["Alien", "Breakout", "Pong"], {"a": scores}, {"b": scores}).axes
    assert len(axes.collections) == 2
    for points in axes.collections:
        assert {tuple(p) for p in points.get_offsets().tolist()} == {(2.0, 0.0), (0.5, 2.0)}
