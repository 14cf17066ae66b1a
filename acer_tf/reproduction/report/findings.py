"""What records say of each claim of the papers: a function per claim, which reads the content of its records alone."""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from acer_tf.reproduction.aggregation import (
    ATARI_WINDOW_STEPS,
    cumulative_maximum,
    equally_long,
    final_return,
    final_score,
    reached,
)
from acer_tf.reproduction.cliffwalk import REPRESENTATIONS
from acer_tf.reproduction.curves import RunCurve
from acer_tf.reproduction.grids import BEST_DRAWS, FIGURE1, FRAMES_PER_STEP, figure3_continuous
from acer_tf.reproduction.methods import label_of_search
from acer_tf.reproduction.outcome import Outcome
from acer_tf.reproduction.published import PublishedCurve, published_ablations, published_curves
from acer_tf.reproduction.published_medians import figure1_by_frames
from acer_tf.reproduction.published_scores import published_scores
from acer_tf.reproduction.report import atari, control, minatar
from acer_tf.reproduction.report.tables import number
from acer_tf.reproduction.statistics import Estimate, interquartile_mean, mean_and_error

_TRUST, _WITHOUT = (tuple(f"replay{ratio}{end}" for ratio in (0, 1, 4, 8)) for end in ("_trust", ""))
_CLOSE = 0.1  # medians of human-normalised scores that count as the same
_FEWEST_GAMES = 5  # of which a median says something of 57
_PERMUTATIONS = 10_000
_BEGUN = 0.1  # of a published curve's whole rise: a run that learns nothing may lie on what comes before
CLIFFWALK_REPLAYS = ("uniform", "rank-based", "proportional", "oracle")  # those that claims are about
CliffwalkUpdates = dict[tuple[str, int, str], list[int]]  # by representation, states and replay


class Finding(NamedTuple):
    """What records say of a claim."""

    holds: bool | None  # None: they do not decide it
    ours: str = ""
    theirs: str = ""


def more_replay(outcome: Outcome) -> Finding:
    names = [name for name in _TRUST if outcome.by_env(name)]
    games = [env for env in outcome.envs if all(outcome.runs(name, env) for name in names)]
    if len(names) < 2 or not games:
        return Finding(None)
    medians = [atari.medians({env: outcome.runs(name, env) for env in games}, "steps") for name in names]
    steps = min(float(median.points[-1]) for median in medians)
    ours = [float(np.interp(steps, median.points, cumulative_maximum(median.values))) for median in medians]
    theirs = [_published(name, FRAMES_PER_STEP * steps) for name in names]
    where = f"{medians[0].games}, {FRAMES_PER_STEP * steps / 1e6:.0f}M frames, ratios {_ratios(names)}"
    known = len(games) >= _FEWEST_GAMES and np.isfinite(ours).all()
    holds = bool((np.diff(ours) > 0).all()) if known else None
    return Finding(holds, f"{_list(ours)} ({where})", _list(theirs))


def more_replay_minatar(outcome: Outcome) -> Finding:
    finals = {name: scores for name in _TRUST if (scores := minatar.finals(outcome, name)).size}
    gains = [minatar.improvement(outcome, more, less) for less, more in itertools.pairwise(finals)]
    ours = _list([interquartile_mean(scores).value for scores in finals.values()])
    theirs = _list([_published(name, 100e6) for name in finals])
    ratios = f"(interquartile means, ratios {_ratios(finals)})"
    return Finding(_all_above_half(gains), f"{ours} {ratios}", f"{theirs} on Atari at 100M frames")


def trust_minatar(outcome: Outcome) -> Finding:
    found = {pair: minatar.improvement(outcome, *pair) for pair in zip(_TRUST, _WITHOUT, strict=True)}
    gains = {pair: gain for pair, gain in found.items() if gain is not None}
    if len(gains) < 2:
        return Finding(None)
    first, *_, last = gains.values()
    theirs = [_published(with_it, 150e6) / _published(without, 150e6) for with_it, without in gains]
    # At one ratio the pair may have come further than at another, and later the trust region may help more or less.
    alike = minatar.alike(minatar.compared_steps(outcome, name) for pair in gains for name in pair)
    apart = alike and (last.low > first.high or last.high < first.low)
    return Finding(
        last.low > first.high if apart else None,
        f"a run with it beats one without with probability {', '.join(map(str, gains.values()))}",
        f"medians with it are {_list(theirs)} of those without, Atari at 150M frames",
    )


def acer_leads(outcome: Outcome) -> Finding:
    ours, theirs = [], []
    for env in outcome.envs:
        scores = _compared(outcome, env, list(figure3_continuous()))  # ACER's is the first
        if scores and scores[0] != max(scores[1:]):
            ours.append(scores[0] > max(scores[1:]))
            published = _at_end(published_curves(env))
            theirs.append(max(published, key=published.__getitem__) == "ACER")
    decided = len(set(ours)) == 1
    return Finding(
        ours[0] if decided else None,
        f"first on {sum(ours)} of {len(ours)} tasks",
        f"first on {sum(theirs)} of these at its end",
    )


def trust_control(outcome: Outcome) -> Finding:
    ours, theirs = [], []
    for env, name in itertools.product(outcome.envs, ("tis", "a3c")):
        published = _at_end(published_curves(env))
        if (scores := _compared(outcome, env, [f"trust_{name}", name])) and scores[0] != scores[1]:
            ours.append(scores[0] > scores[1])
            theirs.append(published[f"Trust-{name.upper()}"] > published[name.upper()])
    count = f"better in {sum(ours)} of {len(ours)} pairs of method and task"
    return Finding(_most(ours), count, f"in {sum(theirs)} of these at its end")


def order_of_draws(outcome: Outcome) -> Finding:
    """By the mean of each method's best draws.

    It holds if all are in the paper's order, and does not if a pair is in the other order by two standard errors.
    """
    methods = figure3_continuous()
    gaps, ours, theirs = [], [], []
    for env in outcome.envs:
        curves = {curve.method: curve for curve in published_curves(env)}
        draws_of = collections.defaultdict(list)
        for name, draw in outcome.methods.items():
            draws_of[label_of_search(draw.label)].append(name)
        ranked = [control.ranked_draws(outcome, draws_of[m.label], env)[:BEST_DRAWS] for m in methods.values()]
        runs = [[run for _, run, _ in draws] for draws in ranked]
        steps = min(reached(draws) if draws else 0.0 for draws in runs)
        published = [curves[method.published].at(steps) for method in methods.values()]
        means = [mean_and_error([final_return(run.until(steps)) for run in draws]) for draws in runs]
        known = sorted(zip(published, means, methods.values(), strict=True), key=lambda each: -each[0])
        gaps += [(a[0] - b[0]) / np.hypot(a[1], b[1]) for (_, a, _), (_, b, _) in itertools.combinations(known, 2)]
        if not np.isfinite([*gaps, *published]).all():
            return Finding(None)
        shown = ", ".join(f"{method.label} {number(mean, 0)}" for _, (mean, _), method in known)
        ours.append(f"{env.rpartition('/')[2]} at {steps / 1e6:.1f}M steps: {shown}")
        theirs.append(_list([score for score, *_ in known]))
    holds = True if min(gaps) > 0 else False if min(gaps) < -2 else None
    ours.append(f"{sum(gap > 0 for gap in gaps)} of {len(gaps)} pairs in the paper's order")
    return Finding(holds, "; ".join(ours), "; ".join(theirs))


def every_part(outcome: Outcome) -> Finding:
    ours, theirs, higher = [], [], []
    for env, (name, method) in itertools.product(outcome.envs, outcome.methods.items()):
        published = _at_end(published_ablations(env))
        if (scores := _compared(outcome, env, [name, "acer_continuous"])) and scores[0] != scores[1]:
            ours.append(scores[0] < scores[1])
            theirs.append(published[method.published] < published["ACER"])
            if not ours[-1]:
                higher.append(f"{method.label} on {env.rpartition('/')[2]}")
    without = f"{sum(ours)} of {len(ours)} are lower" + (f"; higher: {', '.join(higher)}" if higher else "")
    return Finding(_most(ours), without, f"{sum(theirs)} of these at its end")


def settings_matter(outcome: Outcome) -> Finding:
    ranks = []
    for env in outcome.envs:
        known = [(point.score, name) for point, name in control.searched(outcome, env) if outcome.runs(name, env)]
        if scores := _compared(outcome, env, [name for _, name in known]):
            # Within the task: the scales of tasks differ.
            of_task = rankdata([scores, [score for score, _ in known]], axis=1)
            ranks.append(of_task - of_task.mean(axis=1, keepdims=True))
    ours, theirs = np.concatenate(ranks, axis=1) if ranks else np.zeros((2, 0))
    if not (ours.any() and theirs.any()):
        return Finding(None)
    correlation = ours @ theirs / np.sqrt((ours @ ours) * (theirs @ theirs))
    # By permutations within the tasks: few settings agree by chance, and ranks of one task are not independent.
    random = np.random.default_rng(0)
    chance = sum(random.permuted(np.tile(of_task[0], (_PERMUTATIONS, 1)), axis=1) @ of_task[1] for of_task in ranks)
    by_chance = np.mean(np.abs(chance) >= abs(ours @ theirs) - 1e-9)
    holds = None if by_chance > 0.05 else bool(correlation > 0)
    return Finding(holds, f"rank correlation with the paper's returns, within tasks, {correlation:+.2f}", "")


def published_curve(run: RunCurve) -> Finding:
    (curve, *_) = published_curves(run.env)
    run = run.until(curve.steps[-1])
    steps = min(run.steps[-1], curve.steps[-1])
    ours, theirs = float(run.mean_return[-1]), curve.at(steps)
    low = float(np.interp(steps, curve.steps, curve.low))
    risen, ours_risen = ((score - curve.mean[0]) / (curve.mean[-1] - curve.mean[0]) for score in (theirs, ours))
    holds = ours >= low if max(risen, ours_risen) >= _BEGUN and np.isfinite(ours) else None
    theirs_text = f"{number(theirs, 1)} at the same step (its band begins at {number(low, 1)}"
    return Finding(holds, number(ours, 1), f"{theirs_text}), {risen:.0%} of its rise".replace("%", " %"))


def table6(outcome: Outcome) -> Finding:
    published = published_scores("ACER", "training")
    envs = [env for env in outcome.by_env("acer") if env.removeprefix("atari/") in published.scores]
    if not envs:
        return Finding(None)
    # The mean of the last 100 games after 40M frames, as there.
    runs = {env: equally_long([run.until(atari.TABLE6_STEPS) for run in outcome.runs("acer", env)]) for env in envs}
    scores = {env: float(np.mean([run.mean_return[-1] for run in seeds])) for env, seeds in runs.items()}
    known = {env: score for env, score in scores.items() if np.isfinite(score)}  # no episode has ended in the others
    if not known:
        return Finding(None)
    ours = float(np.median([atari.normalize(env, score) for env, score in known.items()]))
    theirs = published.median(env.removeprefix("atari/") for env in known)
    whole = len(known) == len(published.scores) and min(map(reached, runs.values())) >= 0.99 * atari.TABLE6_STEPS
    holds = abs(ours - theirs) < _CLOSE if whole else None
    return Finding(holds, f"median {ours:.2f} over {atari.games_of(len(known))}", f"{theirs:.2f} over the same")


def table1(outcome: Outcome) -> Finding:
    names = [name for name in ("ddqn_tuned", "ddqn_rank", "ddqn_proportional") if outcome.by_env(name)]
    games = [env for env in outcome.envs if all(outcome.runs(name, env) for name in names)]
    if "ddqn_tuned" not in names or len(names) < 2 or not games:
        return Finding(None)
    window = functools.partial(final_score, window=ATARI_WINDOW_STEPS)
    scores = [_compared(outcome, env, names, window) or [np.nan] * len(names) for env in games]
    normalized = [[atari.normalize(env, score) for score in row] for env, row in zip(games, scores, strict=True)]
    uniform, *prioritized = ours = np.median(normalized, axis=0).tolist()
    labels = ", ".join(outcome.methods[name].label for name in names)
    theirs = [published_scores(outcome.methods[name].published, "human starts").median() for name in names]
    known = len(games) >= _FEWEST_GAMES and np.isfinite(ours).all()
    holds = _most([score > uniform for score in prioritized]) if known else None
    return Finding(holds, f"{_list(ours)} over {atari.games_of(len(games))} ({labels})", f"{_list(theirs)} over 57")


def priorities(outcome: Outcome) -> Finding:
    kinds = ("rank", "proportional")
    gains = [minatar.improvement(outcome, f"ddqn_{kind}", "ddqn") for kind in kinds]
    known = ", ".join(f"{gain} ({kind})" for kind, gain in zip(kinds, gains, strict=True) if gain is not None)
    agents = ("Double DQN", *(f"Prioritized Double DQN ({kind})" for kind in kinds))
    theirs = [published_scores(agent, "human starts").median() for agent in agents]
    return Finding(
        _all_above_half(gains),
        f"a prioritized run beats a uniform one with probability {known}",
        f"medians {_list(theirs)} on Atari: uniform, {', '.join(kinds)}",
    )


def oracle(updates: CliffwalkUpdates) -> Finding:
    sizes = sorted({size for kind, size, _ in updates if kind == "tabular"})
    if len(sizes) < 2:
        return Finding(None)
    gains = [
        np.median(updates["tabular", size, "uniform"]) / np.median(updates["tabular", size, "oracle"]) for size in sizes
    ]
    growth = 2 ** np.polyfit(sizes, np.log2(gains), 1)[0]
    ours = f"{gains[-1]:,.0f} times fewer at {sizes[-1]} states; {growth:.2f} times as many with each state"
    return Finding(bool(growth > 1), ours, "no numbers; the same by its figure")


def order(updates: CliffwalkUpdates) -> Finding:
    largest = max(size for _, size, _ in updates)
    found = {
        kind: [float(np.median(updates[kind, largest, name])) for name in CLIFFWALK_REPLAYS] for kind in REPRESENTATIONS
    }
    gaps = [
        gap
        for uniform, *prioritized, fewest in found.values()
        for gap in (uniform - max(prioritized), min(prioritized) - fewest)
    ]
    # Equal where runs were cut off at the limit of updates: that decides nothing.
    holds = True if min(gaps) > 0 else False if min(gaps) < 0 else None
    shown = "; ".join(f"{kind} {' > '.join(f'{value:,.0f}' for value in values)}" for kind, values in found.items())
    return Finding(holds, f"{shown} ({', '.join(CLIFFWALK_REPLAYS)})", "no numbers; the same by its figure")


def _published(name: str, frames: float) -> float:
    """The median of a method of Figure 1."""
    return figure1_by_frames()[FIGURE1[name]].at(frames)


def _ratios(names: Iterable[str]) -> str:
    return ", ".join(str(FIGURE1[name].replay_ratio) for name in names)


def _all_above_half(gains: Sequence[Estimate | None]) -> bool | None:
    known = [gain for gain in gains if gain is not None]
    if any(gain.high < 0.5 for gain in known):
        return False
    return True if known and len(known) == len(gains) and all(gain.low > 0.5 for gain in known) else None


def _most(found: Sequence[bool]) -> bool | None:
    return None if sum(found) * 2 == len(found) else sum(found) * 2 > len(found)


def _compared(
    outcome: Outcome, env: str, names: Sequence[str], score: Callable[[RunCurve], float] = final_return
) -> list[float]:
    """Of each method in a task, the mean over seeds where the shortest run of all ends; [] if one has no score yet."""
    runs = [outcome.runs(name, env) for name in names]
    if not all(runs):
        return []
    steps = min(map(reached, runs), default=0.0)
    scores = [float(np.mean([score(run.until(steps)) for run in seeds])) for seeds in runs]
    return scores if np.isfinite(scores).all() else []


def _at_end(curves: Iterable[PublishedCurve]) -> dict[str, float]:
    return {curve.method: float(curve.mean[-1]) for curve in curves}


def _list(values: Sequence[float]) -> str:
    return ", ".join(number(value) or "–" for value in values)
