"""What figures on Atari share: games, human-normalised scores, their medians, tables by game, and replay ratios."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from acer_tf.envs.families import ATARI_GAMES
from acer_tf.reproduction import curves
from acer_tf.reproduction.curves import ATARI_WINDOW_STEPS, Axis, RecordedRuns, RunCurve
from acer_tf.reproduction.figure import Finding, Method
from acer_tf.reproduction.published import Figure1Method, figure1_by_frames
from acer_tf.reproduction.report.output import mean_with_error, number, numbers
from acer_tf.reproduction.scores import INTERVAL, atari5_median, atari_references, human_normalized, of_atari5

FRAMES_PER_STEP = 4
ATARI57 = tuple(f"atari/{game}" for game in ATARI_GAMES)
DQN_STEPS = 200_000_000 // FRAMES_PER_STEP
TRAINING = "training score: mean of the games that ended in the last 1M frames, by the policy that explores"
DEVIATIONS = (
    "Deviations: the paper does not state its learning rate, RMSProp's ε, start states or seeds; preset paper takes "
    "A3C's. Instead of 16 asynchronous threads there are 16 environments in lockstep, groups of which take turns, four "
    "to an update that moves the weights as far as four threads' would; the gradient's norm is bounded by 40, and the "
    "entropy weight is A3C's 0.01 (paper: 0.001). Start states have up to 30 no-ops; human-normalised scores use the "
    "no-op references."
)
RATIOS = (0, 1, 4, 8)
WITH_TRUST, WITHOUT = (tuple(f"replay{ratio}{end}" for ratio in RATIOS) for end in ("_trust", ""))
# The published curve of each method, by the method's key.
SHOWN = {
    f"replay{ratio}{'_trust' if trust_region else ''}": Figure1Method("ACER", ratio, trust_region)
    for ratio in RATIOS
    for trust_region in (True, False)
} | {"dqn": Figure1Method("DQN"), "prioritized": Figure1Method("Prioritized Double DQN")}
_POINTS = 200


def training_score_at_end(run: RunCurve) -> float:
    """`curves.final_score` over the last 1M frames."""
    return curves.final_score(run, ATARI_WINDOW_STEPS)


class Medians(NamedTuple):
    """The median over 57 games, estimated if the games are Atari-5's; else over the games there are."""

    points: np.ndarray  # [G] steps or seconds, up to the end of the shortest run
    values: np.ndarray  # [G]
    games: str  # "3 games", or "57 games estimated from 5"
    of_57: bool  # whether it is the paper's quantity
    interval: tuple[float, float]  # that of an estimate, as multiples of it; else NaN


def medians(runs: Mapping[str, list[RunCurve]], axis: Axis) -> Medians:
    """The median over the games of `runs`, which are by environment, against steps or seconds."""
    points = np.linspace(0.0, min(curves.reached(seeds, axis) for seeds in runs.values()), _POINTS)
    scores = curves.task_scores(runs, points, ATARI_WINDOW_STEPS, normalize, axis)
    if of_atari5(runs):
        return Medians(points, atari5_median(list(runs), scores), "57 games estimated from 5", True, INTERVAL)
    # NaN where a game has no score: the median of the others would be another quantity.
    values, whole = np.median(scores, axis=0), len(runs) == len(ATARI57)
    return Medians(points, values, games_of(len(runs)), whole, (np.nan, np.nan))


def normalize(env: str, score: float) -> float:
    """The human-normalised training score: 0 is random play, 1 is human; `env` as in "atari/Pong"."""
    return human_normalized(env, score, protocol="training")


def final_scores(recorded: RecordedRuns, method: str) -> dict[str, tuple[float, float]]:
    """Mean over seeds and standard error of the final training score, by game; games without a score are absent."""
    found = {}
    for env in recorded.by_env(method):
        _, mean, error = recorded.result(method, env, training_score_at_end)
        if np.isfinite(mean):
            found[env.removeprefix("atari/")] = mean, error
    return found


def normalized(scores: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Means and standard errors as fractions of human."""
    found = {}
    for game, (mean, error) in scores.items():
        random, human = atari_references("training")[game]
        found[game] = normalize(game, mean), error / abs(human - random)
    return found


def means(scores: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """The means without their errors."""
    return {game: mean for game, (mean, _) in scores.items()}


def games_in(recorded: RecordedRuns) -> list[str]:
    """The games of a figure's cells, in the order of the alphabet."""
    return sorted(env.removeprefix("atari/") for env in recorded.envs)


def games_of(count: int) -> str:
    """The count in words: "3 games"."""
    return f"{count} game{'s' * (count != 1)}"


def median_of(scores: Mapping[str, float]) -> str:
    """The median over games and their count, as text; empty without any."""
    return f"{number(float(np.median(list(scores.values()))))} ({games_of(len(scores))})" if scores else ""


def frames_done(recorded: RecordedRuns, method: str) -> str:
    """Where the shortest run of a method ends, in millions of frames."""
    runs = [run for seeds in recorded.by_env(method).values() for run in seeds]
    return number(FRAMES_PER_STEP * curves.reached(runs) / 1e6, 1) if runs else ""


def rows_by_game(
    recorded: RecordedRuns,
    ours: Iterable[Mapping[str, tuple[float, float]]],
    published: Iterable[Mapping[str, float]],
) -> list[list[str]]:
    """A row per game: our means with standard errors, then the published scores."""
    rows = [[game] for game in games_in(recorded)]
    for row in rows:
        row += [mean_with_error(*scores.get(row[0], (np.nan, np.nan))) for scores in ours]
        row += [number(scores.get(row[0])) for scores in published]
    return rows


def replay_ratio_methods(base: Mapping[str, Any], steps: Mapping[int, int]) -> dict[str, Method]:
    """ACER with each replay ratio, over the settings `base`; `steps` are agent steps by ratio."""
    found = {}
    for key, shown in SHOWN.items():
        if shown.replay_ratio is not None:
            delta = 1.0 if shown.trust_region else math.inf
            settings = {**base, "replay_ratio": float(shown.replay_ratio), "trust_region_delta": delta}
            found[key] = Method(shown.label, settings, steps[shown.replay_ratio])
    return found


def published_median(key: str, frames: float) -> float:
    """The paper's median over 57 games at a number of emulator frames; NaN where its curve does not reach."""
    return figure1_by_frames()[SHOWN[key]].at(frames)


def published_gain(with_it: str, without: str) -> float:
    """The paper's median over 57 games with a trust region, divided by that without, at 150M frames."""
    return published_median(with_it, 150e6) / published_median(without, 150e6)


def ratios_of(keys: Iterable[str]) -> str:
    """The replay ratios of methods, as text."""
    return ", ".join(str(SHOWN[key].replay_ratio) for key in keys)


def style_of(method: Figure1Method) -> dict[str, Any]:
    """How its curve is drawn: one colour per replay ratio, dotted without a trust region."""
    if method.replay_ratio is None:
        return {"color": "black" if method.agent == "DQN" else "0.5", "linestyle": "-"}
    return {"color": f"C{RATIOS.index(method.replay_ratio)}", "linestyle": "-" if method.trust_region else ":"}


def trust_region_gains(recorded: RecordedRuns, score: Callable[[RunCurve], float]) -> Finding:
    """Whether the trust region is a larger improvement at each replay ratio than at the one below it."""
    pairs = [pair for pair in zip(WITH_TRUST, WITHOUT, strict=True) if recorded.scores(pair, score)]
    if len(pairs) < 2:
        return Finding(())
    gains = [
        recorded.larger_gain(more, less, f"ratio {ratios_of([more[0]])} less {ratios_of([less[0]])}", score)
        for less, more in itertools.pairwise(pairs)
    ]
    each = numbers([recorded.improvement(*pair, score).estimate.value for pair in pairs])
    theirs = [published_gain(with_it, without) for with_it, without in pairs]
    return Finding(
        gains,
        f"{each} (a run with it beats one without, ratios {ratios_of(key for key, _ in pairs)})",
        f"{numbers(theirs)} (median with it by that without, Atari, 150M frames)",
    )
