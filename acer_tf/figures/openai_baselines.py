"""OpenAI baselines' ACER on seven Atari games: our learning curves by two presets beside its published ones.

python -m acer_tf openai_baselines --games=Pong --agents=baselines --seeds=1 --total_steps=4_000_000
python -m acer_tf openai_baselines --plan
"""

import functools
from pathlib import Path

import numpy as np

from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.curves import RecordedRuns, RunCurve, last_return, read_run
from acer_tf.reproduction.evidence import read_evidence
from acer_tf.reproduction.figure import Claim, Figure, Finding, Judged, Method
from acer_tf.reproduction.published import PublishedCurve, published_curves
from acer_tf.reproduction.report.output import Drawing, Report, Table, learning_curves, mean_with_error, number
from acer_tf.reproduction.scores import GAME_SETS
from acer_tf.reproduction.verdicts import altered
from acer_tf.settings import make_settings

_STEPS = 10_000_000
_BEGUN = 0.1  # share of a published curve's whole rise: a run that learns nothing may lie on what comes before


def report(recorded: RecordedRuns) -> Report:
    """A row per game and preset, and the learning curves, both beside the published ones."""
    rows = []
    for env in recorded.envs:
        curve = next(iter(published_curves(env)), None)
        for key, method in recorded.methods.items():
            steps, *ours = recorded.result(key, env, last_return, _STEPS)
            row = [env.removeprefix("atari/"), method.label, recorded.finished(key, env), number(steps, 0)]
            theirs = ["", "", ""]
            if curve is not None:
                risen = "" if np.isnan(steps) else f"{100 * _risen(curve, curve.at(steps)):.0f} %"
                theirs = [number(curve.at(steps)), risen, number(float(curve.mean[-1]))]
            rows.append([*row, mean_with_error(*ours), *theirs])
    head = "game; method; cells finished; steps; return; published at equal steps; its rise until then; at its end"
    caption = (
        "Mean of the last 100 training games where the shortest seed ends, mean over seeds ± standard error; the "
        "published curve there, the share of its whole rise that it has made, and its end after 10M steps."
    )
    figure = learning_curves(recorded.by_label(), published_curves)
    drawn = "Means over seeds with standard errors; dashed, with its band: OpenAI baselines' ACER, mean of six runs."
    return Report({"table": Table(caption, head.split("; "), rows)}, {"figure": Drawing(drawn, figure)})


def _risen(curve: PublishedCurve, score: float) -> float:
    """How much of the whole rise of a published curve a score is."""
    return float((score - curve.mean[0]) / (curve.mean[-1] - curve.mean[0]))


def read_longest_run(figure: Figure, folder: Path, preset: str) -> Judged | None:
    """The longest run of ACER with a preset in a folder, in an environment of which a curve was published."""
    evidence, wanted = read_evidence(folder), {"agent": "acer", "preset": preset}
    ours = [cell for cell in (evidence.cells if evidence else ()) if wanted.items() <= cell.settings.items()]
    cells = [cell for cell in ours if cell.steps and published_curves(cell.env)]
    if not cells:
        return None
    longest = max(cells, key=lambda cell: cell.steps)
    run = read_run(folder / "runs" / longest.name)
    (curve, *_) = published_curves(run.env)
    which = f"the longest of {len(cells)} runs" if len(cells) > 1 else "one run"
    length = f"{which}, {run.steps[-1] / 1e6:.1f}M of {curve.steps[-1] / 1e6:.0f}M steps"
    usual = Cell.asked(longest.method, make_settings(env=longest.env, seed=longest.seed, **wanted))
    return Judged(run, "; ".join([length, *altered([longest], {longest.place: usual})]))


def published_curve(run: RunCurve) -> Finding:
    """Whether a run ends within the band of the published curve or above it, once that has begun to rise."""
    (curve, *_) = published_curves(run.env)
    run = run.until(curve.steps[-1])
    steps = min(run.steps[-1], curve.steps[-1])
    ours, theirs = float(run.mean_return[-1]), curve.at(steps)
    low = float(np.interp(steps, curve.steps, curve.low))
    risen = _risen(curve, theirs)
    holds = ours >= low if max(risen, _risen(curve, ours)) >= _BEGUN and np.isfinite(ours) else None
    band = f"(its band begins at {number(low, 1)})"
    theirs_text = f"{number(theirs, 1)} at the same step {band}, {100 * risen:.0f} % of its rise"
    return Finding(holds, number(ours, 1), theirs_text)


# Folders of runs of one game, by preset.
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
    claims=tuple(
        Claim(
            "ACER learns at least as fast as the published curve",
            published_curve,
            functools.partial(read_longest_run, preset=preset),
            f"OpenAI baselines, {game}{', preset paper' if preset == 'paper' else ''}",
            folder,
        )
        for preset, folders in _FOLDERS.items()
        for game, folder in folders.items()
    ),
)
