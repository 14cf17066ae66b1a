r"""Figure 3 of the ACER paper by its protocol: the best five of thirty draws of learning rate and δ.

First all draws are run, then (--best_of) the best of each method for longer.

python -m acer_tf figure3_draws --tasks=reacher3 --total_steps=1_000_000
python -m acer_tf figure3_draws --tasks=reacher3 --total_steps=3_000_000 --best_of=my_results/figure3_draws \
    --output=my_results/figure3_best
"""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from absl.flags import FlagValues

from acer_tf.commands import cli
from acer_tf.errors import SettingsError
from acer_tf.figures import figure3_continuous
from acer_tf.reproduction import control
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.curves import RecordedRuns, RunCurve, final_return, reached
from acer_tf.reproduction.evidence import own_evidence
from acer_tf.reproduction.figure import Claim, Figure, Finding, Method, cells_of
from acer_tf.reproduction.published import published_curves
from acer_tf.reproduction.report.output import Drawing, Report, Table, learning_curves, mean_with_error, number
from acer_tf.reproduction.statistics import Comparison, probability_of_improvement
from acer_tf.reproduction.verdicts import own_design

DRAWS, BEST_DRAWS = 30, 5  # per method in the paper: draws run, and draws shown
_WITH_TRUST_REGION = ("acer_continuous", "trust_tis", "trust_a3c")


def searches(count: int) -> dict[str, Method]:
    """The methods of Figure 3, each with `count` draws of the learning rate and, with trust region, of δ (appendix E).

    All methods have the same draws, and a larger `count` adds draws to those of a smaller one.
    """
    generator = np.random.default_rng(0)
    drawn = [
        (float(f"{10 ** generator.uniform(-4, -3.3):.3e}"), round(generator.uniform(0.1, 2), 3)) for _ in range(count)
    ]
    found = {}
    for key, method in figure3_continuous.METHODS.items():
        deltas = [{"trust_region_delta": delta} if key in _WITH_TRUST_REGION else {} for _, delta in drawn]
        draws = [{"learning_rate": rate, "seed": seed} | deltas[seed] for seed, (rate, _) in enumerate(drawn)]
        found[key] = dataclasses.replace(method, draws=tuple(draws))
    return found


METHODS = searches(DRAWS)


def define_flags(values: FlagValues) -> None:
    """Adds --draws, --best and --best_of."""
    flag = cli.definers(values)
    flag.integer("draws", DRAWS, "only the first draws of each method", 1, DRAWS)
    flag.path("best_of", None, "run only the --best of the finished draws in this folder")
    flag.integer("best", BEST_DRAWS, "with --best_of: how many of each method", 1, DRAWS)


def keep(cells: list[Cell], values: FlagValues) -> list[Cell]:
    """The cells of the first --draws; with --best_of those that are best in that folder.

    Raises SettingsError for flags that do not fit together, or if draws are not finished there.
    """
    cells = [cell for cell in cells if cell.draw is not None and cell.draw < values.draws]
    if values.best_of is None:
        if values["best"].present:
            raise SettingsError(f"--best={values.best}: it goes with --best_of, which was not given")
        return cells
    if values.best > values.draws:
        raise SettingsError(f"--best={values.best}: must be at most --draws={values.draws}")
    folder = Path(values.best_of)
    known = own_evidence(folder, FIGURE.name, "best_of")
    if known is None:
        raise SettingsError(f"--best_of={folder}: holds no evidence (no experiment.json)")
    finished = [cell for cell in cells_of(METHODS, known.cells) if cell.state == "finished"]
    recorded = RecordedRuns(METHODS, finished, folder)
    best = set()
    for key, env in dict.fromkeys((cell.method, cell.env) for cell in cells):
        ranked = [draw for draw, *_ in ranked_draws(recorded, key, env) if draw is not None and draw < values.draws]
        if len(ranked) < values.draws:
            raise SettingsError(
                f"--best_of={folder}: {len(ranked)} of {values.draws} draws of {METHODS[key].label} in {env} are "
                "finished there; finish the others first"
            )
        best |= {(key, draw, env) for draw in ranked[: values.best]}
    return [cell for cell in cells if (cell.method, cell.draw, cell.env) in best]


def ranked_draws(recorded: RecordedRuns, key: str, env: str) -> list[tuple[int | None, RunCurve, float]]:
    """The draws of a method that have begun in `env`, best first, with the return at the steps that all have done."""
    runs = recorded.runs(key, env)
    steps = reached(runs) if runs else 0.0
    scored = [(draw, run, final_return(run.until(steps))) for draw, run in recorded.drawn(key, env)]
    return sorted(scored, key=lambda each: -np.nan_to_num(each[2], nan=-np.inf))


def report(recorded: RecordedRuns) -> Report:
    """The best draws of each method beside the paper's, and a list of all draws."""
    rows, all_rows = [], []
    best: dict[str, dict[str, list[RunCurve]]] = {env: {} for env in recorded.envs}
    for env in recorded.envs:
        curves = control.by_method(published_curves(env))
        for key, method in recorded.methods.items():
            if not (found := ranked_draws(recorded, key, env)):
                continue
            _, runs, scores = zip(*found, strict=True)
            steps, curve = reached(runs), curves[method.published]
            best[env][method.label] = list(runs[:BEST_DRAWS])
            spread = float(np.std(scores[:BEST_DRAWS], ddof=1)) if len(scores) > 1 else np.nan
            cells = [cell for cell in recorded.cells if (cell.method, cell.env) == (key, env)]
            finished = sum(cell.state == "finished" for cell in cells)
            row = [env, method.label, f"{finished} of {len(method.draws)}", number(steps, 0)]
            row += [mean_with_error(float(np.mean(scores[:BEST_DRAWS])), spread), number(float(np.mean(scores)))]
            rows.append([*row, number(curve.at(steps)), control.end_of(curve)])
            for draw, _, score in found:
                settings = method.variants()[draw]
                delta, rate = settings.get("trust_region_delta"), f"{settings['learning_rate']:.3e}"
                name = f"{method.label}, draw {draw}"
                all_rows.append([env, name, rate, number(delta, 3), number(steps, 0), number(score)])
    head = f"task, method, draws finished, steps, best {BEST_DRAWS}, all, paper at equal steps, paper at its end"
    caption = (
        f"Return: {control.OURS}, at the steps that all draws have done. Best {BEST_DRAWS}: mean ± standard deviation "
        f"of at most {BEST_DRAWS} draws with the highest return, as in the paper; all: mean of those begun. "
        f"{control.CAVEAT}"
    )
    drawn = (
        f"Lines: ours, the mean of the best {BEST_DRAWS} draws and its standard error; dashed: the paper's, mean and "
        f"standard deviation of its five best of thirty. {control.CAVEAT}"
    )
    every = "Every draw, best first: its learning rate, δ, and return as above."
    all_draws = Table(every, ["task", "draw", "learning rate", "δ", "steps", "return"], all_rows)
    labels = control.published_labels(recorded.methods)
    figure = learning_curves(best, published_curves, labels=labels, unit="draws")
    return Report(
        {"table": Table(caption, head.split(", "), rows), "draws": all_draws}, {"figure": Drawing(drawn, figure)}
    )


def over_draws(pairs: Sequence[tuple[str, str]], recorded: RecordedRuns) -> Finding:
    """Whether a draw of the first method of each pair beats one of the second; the best draws are shown.

    Not the best ones alone: chance would choose those of the two methods anew in each order of the draws, so a test of
    them as runs is no test. Without `pairs`, of each method and the one below it in the paper's order.
    """
    gains, ours, theirs = [], [], []
    for env in recorded.envs:
        curves = control.by_method(published_curves(env))
        runs = {key: recorded.runs(key, env) for key in METHODS}
        if not all(runs.values()):
            gains.append(Comparison())
            continue
        steps = min(map(reached, runs.values()))
        published = {key: curves[METHODS[key].published].at(steps) for key in METHODS}
        order = sorted(published, key=published.__getitem__, reverse=True)
        scores = {key: sorted(final_return(run.until(steps)) for run in runs[key]) for key in order}
        if not np.isfinite([*published.values(), *itertools.chain(*scores.values())]).all():
            gains.append(Comparison())
            continue
        of = {key: np.array(found)[:, None] for key, found in scores.items()}
        for better, worse in pairs or itertools.pairwise(order):
            gains.append(probability_of_improvement(of[better], of[worse], unit="draws"))
        best = ", ".join(f"{METHODS[key].label} {np.mean(scores[key][-BEST_DRAWS:]):.0f}" for key in order)
        ours.append(f"{best} (best {BEST_DRAWS}, {env.rpartition('/')[2]}, {steps / 1e6:.1f}M steps)")
        theirs.append(f"{', '.join(number(published[key], 0) for key in order)} (best 5, equal steps)")
    return Finding(gains, "; ".join(ours), "; ".join(theirs))


FIGURE = Figure(
    __name__,
    order=31,
    source="ACER, Figure 3, its protocol",
    title="Figure 3 of ACER by its protocol: the best five of thirty draws",
    text=(
        "Figure 3 of Wang et al. 2017 by its protocol: of thirty draws per method (learning rate log-uniform in 1e-4 "
        "to 10^-3.3, δ uniform in 0.1 to 2) the five best.",
        control.DEVIATIONS,
    ),
    envs=control.TASKS,
    methods=METHODS,
    report=report,
    flags=define_flags,
    keep=keep,
    claims=(
        Claim("the order of the five", functools.partial(over_draws, ()), own_design),
        Claim(figure3_continuous.BETTER, functools.partial(over_draws, figure3_continuous.HELPS), own_design),
    ),
)
