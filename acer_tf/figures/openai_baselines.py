"""OpenAI baselines' ACER on seven Atari games: our learning curves by two presets beside its published ones.

python -m acer_tf openai_baselines --games=Pong --agents=baselines --seeds=1 --total_steps=4_000_000
python -m acer_tf openai_baselines --plan
"""

import functools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.curves import RecordedRuns, RunCurve, last_return, read_run
from acer_tf.reproduction.evidence import read_evidence
from acer_tf.reproduction.figure import OWN_AIM, Claim, Figure, Finding, Judged, Method
from acer_tf.reproduction.published import PublishedCurve, published_curves
from acer_tf.reproduction.report.output import Drawing, Report, Table, learning_curves, mean_with_error, number, span
from acer_tf.reproduction.scores import GAME_SETS
from acer_tf.reproduction.statistics import Comparison, Estimate, mean_gap
from acer_tf.reproduction.verdicts import altered
from acer_tf.settings import make_settings

_STEPS = 10_000_000
_POINTS = 400  # at which curves are compared


def report(recorded: RecordedRuns) -> Report:
    """A row per game and preset, and the learning curves, both beside the published ones."""
    rows = []
    for env in recorded.envs:
        curves = published_curves(env)
        for key, method in recorded.methods.items():
            steps, *ours = recorded.result(key, env, last_return, _STEPS)
            row = [env.removeprefix("atari/"), method.label, recorded.finished(key, env), number(steps, 0)]
            known = [] if np.isnan(steps) else curves
            theirs = [number(curve.at(steps)) for curve in known]
            risen = [f"{100 * _risen(curve, curve.at(steps)):.0f} %" for curve in known]
            ends = [number(float(curve.mean[-1])) for curve in curves]
            rows.append([*row, mean_with_error(*ours), *map(", ".join, (theirs, risen, ends))])
    head = "game; method; cells finished; steps; return; published at equal steps; its rise until then; at its end"
    caption = (
        "Mean of the last 100 training games where the shortest seed ends, mean over seeds ± standard error; the "
        "published curves there, of the newer and of the older version of the code, the share of the whole rise that "
        "each has made, and their ends after 10M steps."
    )
    figure = learning_curves(recorded.by_label(), published_curves)
    drawn = "Means over seeds with standard errors; dashed, with bands: OpenAI baselines' ACER, means of six runs."
    return Report({"table": Table(caption, head.split("; "), rows)}, {"figure": Drawing(drawn, figure)})


def _risen(curve: PublishedCurve, score: float) -> float:
    """How much of the whole rise of a published curve a score is."""
    return float((score - curve.mean[0]) / (curve.mean[-1] - curve.mean[0]))


def read_seeds(figure: Figure, folder: Path, preset: str, game: str) -> Judged | None:
    """The longest run of each seed of ACER with a preset in a game, in a folder of their own and in the figure's.

    Runs under way are left out where others are finished.
    """
    wanted = {"agent": "acer", "preset": preset, "env": f"atari/{game}"}
    found: dict[int, tuple[Cell, Path]] = {}
    for place in (folder, folder.parent / figure.name):
        evidence = read_evidence(place)
        for cell in evidence.cells if evidence else ():
            better = cell.seed not in found or _order(cell) > _order(found[cell.seed][0])
            if cell.steps and better and wanted.items() <= cell.settings.items():
                found[cell.seed] = cell, place
    if not found:
        return None
    found = {seed: of for seed, of in found.items() if of[0].state != "interrupted"} or found
    longest = [cell for cell, _ in found.values()]
    runs = [read_run(place / "runs" / cell.name) for cell, place in found.values()]
    steps = span([run.steps[-1] / 1e6 for run in runs], ".1f")
    length = f"{len(runs)}/{figure.seeds} seeds, {steps}M of {_STEPS / 1e6:.0f}M steps"
    usual = {cell.place[:3]: Cell.asked(cell.method, make_settings(wanted)) for cell in longest}
    hours = sum(float(run.seconds[-1]) for run in runs) / 3600
    places = Counter(place.name for _, place in found.values())
    return Judged(runs, "; ".join([length, *altered(longest, usual)]), hours, max(places, key=places.__getitem__))


def _order(cell: Cell) -> tuple[bool, int]:
    """Of the runs of a seed the longest counts, of those that have ended if there are some."""
    return cell.state != "interrupted", cell.steps


def published_curve(runs: Sequence[RunCurve]) -> Finding:
    """Whether runs lie above each published curve, over the whole range in which there is something to compare.

    That begins where the published mean has made a third of its rise, and ends where it or the shortest run does; runs
    that end before it begins are left out. The published band, whose meaning is not stated, widens the interval.
    """
    gains, ours, theirs, ranges = [], [], [], []
    for curve in published_curves(runs[0].env):
        third = curve.mean[0] + (curve.mean[-1] - curve.mean[0]) / 3
        begins = float(curve.steps[np.argmax(curve.mean >= third)])
        reaching = [run for run in runs if run.steps[-1] > begins and not np.isnan(run.mean_return).all()]
        if not reaching:
            gains.append(Comparison(needs=f"runs to more than {begins / 1e6:.1f}M steps"))
            continue
        ends = min(curve.steps[-1], *(run.steps[-1] for run in reaching))
        means = [_means(run, curve, begins, ends) for run in reaching]
        mine, mean, low, high = (np.array(column)[:, None] for column in zip(*means, strict=True))
        gap = mean_gap(mine - mean)
        value, least, greatest = gap.estimate
        wide = Estimate(value, least - float(np.mean(high - mean)), greatest + float(np.mean(mean - low)))
        hidden = least * greatest > 0 and wide.low * wide.high < 0
        needs = "published runs with a narrower band" if hidden else gap.needs
        gains.append(gap._replace(estimate=wide, needs=needs, needed=np.inf if hidden else gap.needed))
        ours.append(number(float(mine.mean()), 1))
        ranges.append(f"{begins / 1e6:.2f}–{ends / 1e6:.2f}M")
        shown = [number(float(values.mean()), 1) for values in (mean, low, high)]
        theirs.append("{} [{}, {}]".format(*shown))
    where, band = (f" (means over steps {', '.join(ranges)})", " (both versions, bands)") if ours else ("", "")
    return Finding(gains, ", ".join(ours) + where, ", ".join(theirs) + band)


def _means(run: RunCurve, curve: PublishedCurve, begins: float, ends: float) -> tuple[float, ...]:
    """Means over a range of steps of our return and of the published mean and band."""
    known = ~np.isnan(run.mean_return)
    points = np.linspace(begins, ends, _POINTS)
    ours = np.interp(points, run.steps[known], run.mean_return[known])
    columns = [ours, *(np.interp(points, curve.steps, values) for values in (curve.mean, curve.low, curve.high))]
    return tuple(float(column.mean()) for column in columns)


# Folders of runs of one game, by preset, beside the figure's own.
_FOLDERS = {
    "baselines": {"Pong": "atari_pong", "Breakout": "atari_breakout"},
    "paper": {"Pong": "pong_preset_paper"}
    | {game: f"atari_{game.lower()}_paper" for game in ("Breakout", "Qbert", "Seaquest", "BeamRider")},
}
FIGURE = Figure(
    __name__,
    order=40,
    source="OpenAI baselines",
    title="The learning curves of OpenAI baselines' ACER",
    text=(
        "Beside the curves that OpenAI baselines published of its ACER: seven games, 40M frames (10M agent steps), "
        "six runs. Preset baselines has the settings of that code; preset paper those of the paper.",
        "Deviations: the published runs used NoFrameskip environments with up to 30 no-ops and ended a return at a "
        "lost life; ours are the emulator's vector environments with the same preprocessing.",
    ),
    envs=tuple(f"atari/{game}" for game in GAME_SETS["openai7"]),
    methods={
        preset: Method(f"ACER, preset {preset}", {"agent": "acer", "preset": preset}, _STEPS, "ACER")
        for preset in _FOLDERS
    },
    seeds=6,
    report=report,
    kind=OWN_AIM,
    claims=tuple(
        Claim(
            "faster than both published curves",
            published_curve,
            functools.partial(read_seeds, preset=preset, game=game),
            f"OpenAI baselines, {game}{', preset paper' if preset == 'paper' else ''}",
            folder,
            "openai_baselines",
        )
        for preset, folders in _FOLDERS.items()
        for game, folder in folders.items()
    ),
)
