"""The verdicts: what the papers claim, whether the records of a results folder show it, and of how much of it they are.

Each claim is decided by its records alone. "Reproduced" wants the whole of the paper's runs; "partly" says that the
claim holds in what was run; "undecided" that the runs do not decide it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import pearsonr, rankdata

from acer_tf.reproduction.aggregation import (
    ATARI_WINDOW_STEPS,
    cumulative_maximum,
    equally_long,
    final_return,
    final_score,
    reached,
)
from acer_tf.reproduction.catalogue import EXPERIMENTS
from acer_tf.reproduction.cliffwalk import REPRESENTATIONS, read_results
from acer_tf.reproduction.curves import RunCurve, read_run
from acer_tf.reproduction.evidence import EvidenceError, read_evidence
from acer_tf.reproduction.grids import FIGURE1, FRAMES_PER_STEP, figure3_continuous
from acer_tf.reproduction.methods import names_by_label
from acer_tf.reproduction.outcome import Outcome
from acer_tf.reproduction.published import PublishedCurve, published_ablations, published_curves
from acer_tf.reproduction.published_medians import figure1_by_frames
from acer_tf.reproduction.published_scores import published_scores
from acer_tf.reproduction.report import atari, control, minatar
from acer_tf.reproduction.report.tables import Table, number
from acer_tf.reproduction.scope import scope
from acer_tf.reproduction.statistics import Estimate, interquartile_mean

_TRUST = tuple(f"replay{ratio}_trust" for ratio in (0, 1, 4, 8))
_CLOSE = 0.1  # medians of human-normalised scores that count as the same
_FEWEST_GAMES = 5  # of which a median says something of 57
_BEGUN = 0.1  # of a published curve's whole rise: a run that learns nothing may lie on what comes before
_CLIFFWALK = ("uniform", "rank-based", "proportional", "oracle")  # the replays that claims are about
_Updates = dict[tuple[str, int, str], list[int]]  # of the Blind Cliffwalk, by representation, states and replay


class Finding(NamedTuple):
    """What records say of a claim."""

    holds: bool | None  # None: they do not decide it
    ours: str = ""
    theirs: str = ""


class Records(NamedTuple):
    """What was run of a claim."""

    content: Any  # for its judge
    share: str  # of the paper's runs
    whole: bool = False  # whether these are all


def _begun(folder: Path) -> tuple[str, Outcome] | None:
    """The experiment of a folder, and those of its runs that have begun; None without any."""
    if (evidence := read_evidence(folder)) is None:
        return None
    if evidence.name not in EXPERIMENTS:
        raise EvidenceError(f"{folder} holds the evidence of {evidence.name}, not of a figure or table: move it away")
    methods = EXPERIMENTS[evidence.name].methods
    # Of a search, whose runs have other labels, nothing is judged here.
    cells = [cell for cell in evidence.cells if cell.steps and cell.method in names_by_label(methods)]
    return (evidence.name, Outcome(methods, cells, folder)) if cells else None


def _of_paper(folder: Path) -> Records | None:
    """Runs of the paper's own design."""
    if not (begun := _begun(folder)):
        return None
    name, outcome = begun
    found = scope(name, outcome.cells)
    return Records(outcome, str(found), found is not None and found.is_whole)


def _on_minatar(folder: Path) -> Records | None:
    """Runs of the paper's design on other games."""
    if not (begun := _begun(folder)):
        return None
    _, outcome = begun
    seeds, steps = len({cell.seed for cell in outcome.cells}), max(cell.steps for cell in outcome.cells)
    games = f"{len(outcome.envs)} MinAtar games, {seeds} seeds, {steps / 1e6:.1f}M steps"
    return Records(outcome, f"none of it on Atari; {games}")


def _longest_run(folder: Path) -> Records | None:
    """The longest run, in an environment of which a curve was published."""
    evidence = read_evidence(folder)
    if evidence is None or not (cells := [cell for cell in evidence.cells if cell.steps]):
        return None
    run = read_run(folder / "runs" / max(cells, key=lambda cell: cell.steps).name)
    (curve, *_) = published_curves(run.env)
    return Records(run, f"one run, {run.steps[-1] / 1e6:.1f}M of {curve.steps[-1] / 1e6:.0f}M steps")


def _cliffwalk(folder: Path) -> Records | None:
    """The updates that each run took."""
    if not (folder / "results.csv").exists():
        return None
    groups: _Updates = {}
    for result in read_results(folder / "results.csv"):
        groups.setdefault((result.representation, result.states, result.replay), []).append(result.updates)
    kinds = list(itertools.product(REPRESENTATIONS, _CLIFFWALK))
    # An interrupted experiment has not all replays at its last size.
    sizes = {size for _, size, _ in groups if all((kind, size, replay) in groups for kind, replay in kinds)}
    groups = {key: updates for key, updates in groups.items() if key[1] in sizes}
    if not groups:
        return None
    runs = min(map(len, groups.values()))
    share = f"{min(sizes)} to {max(sizes)} states of 2 to 16, {runs} of 10 runs"
    return Records(groups, share, sizes >= set(range(2, 17)) and runs >= 10)


class Claim(NamedTuple):
    """One statement of a paper that records can support or contradict."""

    source: str  # paper, and figure or table
    text: str
    folder: str  # of its records, in the folder of results
    judge: Callable[[Any], Finding]  # given the content of its records
    read: Callable[[Path], Records | None] = _of_paper


def verdict(finding: Finding | None, whole: bool) -> str:
    """The word for a finding that is of all of the paper's runs, or of a part."""
    if finding is None:
        return "not run"
    if finding.holds is None:
        return "undecided"
    return ("reproduced" if whole else "partly") if finding.holds else "contradicted"


def verdicts(results: Path) -> Table:
    """The table of all claims. Raises EvidenceError, CurveError, ResultsError or OSError for a bad record."""
    rows = []
    for claim in CLAIMS:
        if records := claim.read(results / claim.folder):
            finding = claim.judge(records.content)
            shown = [verdict(finding, records.whole), records.share, finding.ours, finding.theirs, claim.folder]
        else:
            shown = [verdict(None, False), "none of it", "", "", ""]
        rows.append([claim.source, claim.text, *shown])
    head = ["source", "claim", "verdict", "what was run", "ours", "the paper's", "records"]
    return Table(
        "Reproduced: the claim holds over all of the paper's runs. Partly: it holds in what was run. Contradicted: it "
        "does not. Undecided: our runs do not decide it. Derived from the records by `python -m acer_tf verdicts`.",
        head,
        rows,
    )


def _more_replay(outcome: Outcome) -> Finding:
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


def _more_replay_minatar(outcome: Outcome) -> Finding:
    finals = {name: scores for name in _TRUST if (scores := minatar.finals(outcome, name)).size}
    gains = [minatar.improvement(outcome, more, less) for less, more in itertools.pairwise(finals)]
    ours = _list([interquartile_mean(scores).value for scores in finals.values()])
    theirs = _list([_published(name, 100e6) for name in finals])
    ratios = f"(interquartile means, ratios {_ratios(finals)})"
    return Finding(_all_above_half(gains), f"{ours} {ratios}", f"{theirs} on Atari at 100M frames")


def _trust_minatar(outcome: Outcome) -> Finding:
    pairs = [(name, name.removesuffix("_trust")) for name in _TRUST]
    found = {pair: minatar.improvement(outcome, *pair) for pair in pairs}
    gains = {pair: gain for pair, gain in found.items() if gain is not None}
    if len(gains) < 2:
        return Finding(None)
    first, *_, last = gains.values()
    theirs = [_published(with_it, 150e6) / _published(without, 150e6) for with_it, without in gains]
    apart = last.low > first.high or last.high < first.low
    return Finding(
        last.low > first.high if apart else None,
        f"a run with it beats one without with probability {', '.join(map(str, gains.values()))}",
        f"medians with it are {_list(theirs)} of those without, Atari at 150M frames",
    )


def _acer_leads(outcome: Outcome) -> Finding:
    ours, theirs = [], []
    for env in outcome.envs:
        scores = _compared(outcome, env, list(figure3_continuous()))  # ACER's is the first
        if scores and scores[0] != max(scores[1:]):
            ours.append(scores[0] > max(scores[1:]))
            published = _at_end(published_curves(env))
            theirs.append(max(published, key=published.__getitem__) == "ACER")
    decided = len(set(ours)) == 1
    return Finding(
        ours[0] if decided else None, f"first on {sum(ours)} of {len(ours)} tasks", f"at its end on {sum(theirs)}"
    )


def _trust_control(outcome: Outcome) -> Finding:
    ours, theirs = [], []
    for env, name in itertools.product(outcome.envs, ("tis", "a3c")):
        published = _at_end(published_curves(env))
        if (scores := _compared(outcome, env, [f"trust_{name}", name])) and scores[0] != scores[1]:
            ours.append(scores[0] > scores[1])
            theirs.append(published[f"Trust-{name.upper()}"] > published[name.upper()])
    count = f"better in {sum(ours)} of {len(ours)} pairs of method and task"
    return Finding(_most(ours), count, f"at its end in {sum(theirs)}")


def _every_part(outcome: Outcome) -> Finding:
    ours, theirs = [], []
    for env, (name, method) in itertools.product(outcome.envs, outcome.methods.items()):
        published = _at_end(published_ablations(env))
        if (scores := _compared(outcome, env, [name, "acer_continuous"])) and scores[0] != scores[1]:
            ours.append(scores[0] < scores[1])
            theirs.append(published[method.published] < published["ACER"])
    return Finding(_most(ours), f"{sum(ours)} of {len(ours)} are lower", f"at its end {sum(theirs)}")


def _settings_matter(outcome: Outcome) -> Finding:
    ranks = []
    for env in outcome.envs:
        known = [(point.score, name) for point, name in control.searched(outcome, env) if outcome.runs(name, env)]
        if scores := _compared(outcome, env, [name for _, name in known]):
            # Within the task: the scales of tasks differ.
            of_task = rankdata([scores, [score for score, _ in known]], axis=1)
            ranks.append(of_task - of_task.mean(axis=1, keepdims=True))
    ours, theirs = np.concatenate(ranks, axis=1) if ranks else np.zeros((2, 0))
    if len(ours) < 3 or not (ours.any() and theirs.any()):
        return Finding(None)
    found = pearsonr(ours, theirs)
    holds = None if found.pvalue > 0.05 else bool(found.statistic > 0)
    return Finding(holds, f"rank correlation with the paper's returns, within tasks, {found.statistic:+.2f}", "")


def _published_curve(run: RunCurve) -> Finding:
    (curve, *_) = published_curves(run.env)
    run = run.until(curve.steps[-1])
    steps = min(run.steps[-1], curve.steps[-1])
    ours, theirs = float(run.mean_return[-1]), curve.at(steps)
    low = float(np.interp(steps, curve.steps, curve.low))
    risen, ours_risen = ((score - curve.mean[0]) / (curve.mean[-1] - curve.mean[0]) for score in (theirs, ours))
    holds = ours >= low if max(risen, ours_risen) >= _BEGUN and np.isfinite(ours) else None
    theirs_text = f"{number(theirs, 1)} at the same step (its band begins at {number(low, 1)}"
    return Finding(holds, number(ours, 1), f"{theirs_text}), {risen:.0%} of its rise".replace("%", " %"))


def _table6(outcome: Outcome) -> Finding:
    published = published_scores("ACER", "training")
    envs = [env for env in outcome.by_env("acer") if env.removeprefix("atari/") in published.scores]
    if not envs:
        return Finding(None)
    # The mean of the last 100 games after 40M frames, as there.
    runs = {env: equally_long([run.until(atari.TABLE6_STEPS) for run in outcome.runs("acer", env)]) for env in envs}
    scores = {env: np.mean([run.mean_return[-1] for run in seeds]) for env, seeds in runs.items()}
    ours = float(np.median([atari.normalize(env, score) for env, score in scores.items()]))
    theirs = published.median(env.removeprefix("atari/") for env in envs)
    whole = len(envs) == len(published.scores) and min(map(reached, runs.values())) >= 0.99 * atari.TABLE6_STEPS
    holds = abs(ours - theirs) < _CLOSE if whole and np.isfinite(ours) else None
    return Finding(holds, f"median {ours:.2f} over {atari.games_of(len(envs))}", f"{theirs:.2f} over the same")


def _table1(outcome: Outcome) -> Finding:
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


def _priorities(outcome: Outcome) -> Finding:
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


def _oracle(updates: _Updates) -> Finding:
    sizes = sorted({size for kind, size, _ in updates if kind == "tabular"})
    if len(sizes) < 2:
        return Finding(None)
    gains = [
        np.median(updates["tabular", size, "uniform"]) / np.median(updates["tabular", size, "oracle"]) for size in sizes
    ]
    growth = 2 ** np.polyfit(sizes, np.log2(gains), 1)[0]
    ours = f"{gains[-1]:,.0f} times fewer at {sizes[-1]} states; {growth:.2f} times as many with each state"
    return Finding(bool(growth > 1), ours, "no numbers; the same by its figure")


def _order(updates: _Updates) -> Finding:
    largest = max(size for _, size, _ in updates)
    found = {kind: [float(np.median(updates[kind, largest, name])) for name in _CLIFFWALK] for kind in REPRESENTATIONS}
    holds = all((np.diff(values) < 0).all() for values in found.values())
    shown = "; ".join(f"{kind} {' > '.join(f'{value:,.0f}' for value in values)}" for kind, values in found.items())
    return Finding(bool(holds), f"{shown} ({', '.join(_CLIFFWALK)})", "no numbers; the same by its figure")


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
    return ", ".join(number(value) for value in values)


_SAME, _CURVE = "the same, other games", "ACER's learning curve"
_GAINS = "the trust region gains more the more is replayed"
_SETTINGS = "which settings of learning rate and δ are good"
_BY_PRESET_PAPER = {"Pong": "pong_preset_paper"} | {
    game: f"atari_{game.lower()}_paper" for game in ("Breakout", "Qbert", "Seaquest", "BeamRider")
}
CLAIMS = (
    Claim("ACER, Figure 1", "more replay learns more per frame", "figure1_atari57", _more_replay),
    Claim("ACER, Figure 1, on MinAtar", _SAME, "figure1_minatar", _more_replay_minatar, _on_minatar),
    Claim(
        "ACER, Figure 1, on MinAtar, preset paper", _SAME, "figure1_minatar_paper", _more_replay_minatar, _on_minatar
    ),
    Claim("ACER, Section 4, on MinAtar", _GAINS, "figure1_minatar", _trust_minatar, _on_minatar),
    Claim(
        "ACER, Section 4, on MinAtar, preset paper", "the same", "figure1_minatar_paper", _trust_minatar, _on_minatar
    ),
    Claim("ACER, Figure 3", "ACER leads five methods on six control tasks", "figure3_continuous", _acer_leads),
    Claim("ACER, Figure 3", "TIS and A3C are better with the trust region", "figure3_continuous", _trust_control),
    Claim("ACER, Figure 4", "without one of its parts ACER is worse", "figure4_ablation", _every_part),
    Claim("ACER, Figures 5 and 6", _SETTINGS, "figure5_sensitivity", _settings_matter),
    Claim("OpenAI baselines, Pong", _CURVE, "atari_pong", _published_curve, _longest_run),
    Claim("OpenAI baselines, Breakout", _CURVE, "atari_breakout", _published_curve, _longest_run),
    *(
        Claim(f"OpenAI baselines, {game}, preset paper", _CURVE, folder, _published_curve, _longest_run)
        for game, folder in _BY_PRESET_PAPER.items()
    ),
    Claim("PPO, Table 6", "ACER's scores on 49 games after 40M frames", "table_atari49", _table6),
    Claim("PER, Table 1", "priorities raise the median over 57 games", "table1_prioritized", _table1),
    Claim("PER, Table 1, on MinAtar", _SAME, "table_minatar_priorities", _priorities, _on_minatar),
    Claim("PER, Figure 1", "an oracle needs exponentially fewer updates", "cliffwalk", _oracle, _cliffwalk),
    Claim("PER, Figure 2", "priorities lie between uniform replay and the oracle", "cliffwalk", _order, _cliffwalk),
)
