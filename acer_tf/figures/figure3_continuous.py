r"""Figure 3 of the ACER paper: ACER, Trust-TIS, TIS, Trust-A3C and A3C on six control tasks.

By the paper's protocol (the last two examples) it shows the best five of thirty draws of learning rate and δ:
first all draws are run, then those five for longer.

python -m acer_tf figure3_continuous --plan
python -m acer_tf figure3_continuous --processes=2 --output=runs/figure3
python -m acer_tf figure3_continuous --tasks=walker2d --seeds=1 --total_steps=3_000_000 --skip_recorded \
    --setting=log_interval=30_000
python -m acer_tf figure3_continuous --tasks=reacher3 --draws=30 --best=5 --total_steps=1_000_000
python -m acer_tf figure3_continuous --tasks=reacher3 --draws=30 --best=5 --best_of=my_results/figure3_draws \
    --total_steps=3_000_000 --output=my_results/figure3_best
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl.flags import FlagValues

from acer_tf.commands import cli
from acer_tf.errors import SettingsError
from acer_tf.reproduction import control
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.curves import RecordedRuns, RunCurve, final_return, reached
from acer_tf.reproduction.evidence import own_evidence
from acer_tf.reproduction.figure import RESULTS, Claim, Figure, Finding, Judged, Method, cells_of
from acer_tf.reproduction.published import published_curves
from acer_tf.reproduction.report.output import Drawing, Report, Table, learning_curves, mean_with_error, number, span
from acer_tf.reproduction.statistics import Comparison, compare, wins
from acer_tf.reproduction.verdicts import own_design

DRAWS, BEST_DRAWS = 30, 5  # per method in the paper: draws run, and draws shown
METHODS = {
    agent: Method(label, {"agent": agent, "preset": "paper_continuous"}, steps, label)
    for agent, label, steps in (
        ("acer_continuous", "ACER", control.REPLAY_STEPS),
        ("trust_tis", "Trust-TIS", control.REPLAY_STEPS),
        ("tis", "TIS", control.REPLAY_STEPS),
        ("trust_a3c", "Trust-A3C", control.ON_POLICY_STEPS),
        ("a3c", "A3C", control.ON_POLICY_STEPS),
    )
}
_WITH_TRUST_REGION = ("acer_continuous", "trust_tis", "trust_a3c")


def searches(count: int) -> dict[str, Method]:
    """The methods, each with `count` draws of the learning rate and, with trust region, of δ (appendix E).

    All methods have the same draws, and a larger `count` adds draws to those of a smaller one.
    """
    generator = np.random.default_rng(0)
    drawn = [
        (float(f"{10 ** generator.uniform(-4, -3.3):.3e}"), round(generator.uniform(0.1, 2), 3)) for _ in range(count)
    ]
    found = {}
    for key, method in METHODS.items():
        deltas = [{"trust_region_delta": delta} if key in _WITH_TRUST_REGION else {} for _, delta in drawn]
        draws = [{"learning_rate": rate, "seed": seed} | deltas[seed] for seed, (rate, _) in enumerate(drawn)]
        found[key] = dataclasses.replace(method, draws=tuple(draws))
    return found


def define_flags(values: FlagValues) -> None:
    """Adds --draws, --best and --best_of."""
    flag = cli.definers(values)
    draws = "draws of learning rate and δ per method from the paper's ranges; 0 for the preset's"
    flag.integer("draws", 0, draws, 0, 1000)
    flag.integer("best", BEST_DRAWS, "with --draws: how many of them are shown", 1)
    flag.string("best_of", None, "with --draws: run only the --best of the finished draws in this folder")


def chosen(figure: Figure, values: FlagValues) -> Figure:
    """The figure itself without --draws; with it, the figure by the paper's protocol.

    Raises SettingsError for flags that do not fit together; its `keep` does for --best_of without all draws finished.
    """
    if not values.draws:
        for name in ("best", "best_of"):
            if values[name].present:
                raise SettingsError(f"--{name}={values[name].value}: it goes with --draws, which was 0 or not given")
        return figure
    if values.best > values.draws:
        raise SettingsError(f"--best={values.best}: must be at most --draws={values.draws}")
    if values["seeds"].present:
        raise SettingsError(f"--seeds={values.seeds}: not with --draws, each of which has its own seed")
    values["seeds"].value = 1
    if not values["output"].present:
        values["output"].value = f"{RESULTS}/{_SEARCH}"
    methods = searches(values.draws)
    title = f"Figure 3 of ACER by its protocol: the best {values.best} of {values.draws} draws"
    text = (
        f"Figure 3 of Wang et al. 2017 by its protocol: of {values.draws} draws per method (learning rate log-uniform "
        f"in 1e-4 to 10^-3.3, δ uniform in 0.1 to 2) the {values.best} best; the paper shows the best five of thirty."
    )
    report = functools.partial(draws_report, methods=methods, best=values.best)
    what: Any = {"title": title, "text": (text, control.DEVIATIONS), "options": {"draws": values.draws}}
    found = dataclasses.replace(figure, **what, methods=methods, seeds=1, report=report)
    if values.best_of is None:
        return found
    return dataclasses.replace(found, keep=functools.partial(_best_cells, found, Path(values.best_of), values.best))


def _best_cells(figure: Figure, folder: Path, best: int, cells: list[Cell]) -> list[Cell]:
    """The cells whose draws are the best of the evidence in `folder`."""
    known = own_evidence(folder, figure.name, "best_of")
    if known is None:
        raise SettingsError(f"--best_of={folder}: holds no evidence (no experiment.json)")
    finished = [cell for cell in cells_of(figure.methods, known.cells) if cell.state == "finished"]
    recorded = RecordedRuns(figure.methods, finished, folder)
    kept = set()
    for key, env in dict.fromkeys((cell.method, cell.env) for cell in cells):
        method = figure.methods[key]
        ranked = [draw for draw, *_ in ranked_draws(recorded, key, env)]
        if len(ranked) < len(method.draws):
            raise SettingsError(
                f"--best_of={folder}: {len(ranked)} of {len(method.draws)} draws of {method.label} in {env} are "
                "finished there; finish the others first"
            )
        kept |= {(key, draw, env) for draw in ranked[:best]}
    return [cell for cell in cells if (cell.method, cell.draw, cell.env) in kept]


def ranked_draws(recorded: RecordedRuns, key: str, env: str) -> list[tuple[int | None, RunCurve, float]]:
    """The draws of a method that have begun in `env`, best first, with the return at the steps that all have done."""
    runs = recorded.runs(key, env)
    steps = reached(runs) if runs else 0.0
    scored = [(draw, run, final_return(run.until(steps))) for draw, run in recorded.drawn(key, env)]
    return sorted(scored, key=lambda each: -np.nan_to_num(each[2], nan=-np.inf))


def draws_report(recorded: RecordedRuns, methods: Mapping[str, Method], best: int) -> Report:
    """The figure by the paper's protocol: the `best` draws of each of `methods`."""
    rows, all_rows = [], []
    chosen: dict[str, dict[str, list[RunCurve]]] = {env: {} for env in recorded.envs}
    for env in recorded.envs:
        curves = control.by_method(published_curves(env))
        for key, method in methods.items():
            if not (found := ranked_draws(recorded, key, env)):
                continue
            _, runs, scores = zip(*found, strict=True)
            steps, curve = reached(runs), curves[method.published]
            chosen[env][method.label] = list(runs[:best])
            spread = float(np.std(scores[:best], ddof=1)) if len(scores[:best]) > 1 else np.nan
            cells = [cell for cell in recorded.cells if (cell.method, cell.env) == (key, env)]
            finished = sum(cell.state == "finished" for cell in cells)
            row = [env, method.label, f"{finished} of {len(method.draws)}", number(steps, 0)]
            row += [mean_with_error(float(np.mean(scores[:best])), spread), number(float(np.mean(scores)))]
            rows.append([*row, number(curve.at(steps)), control.end_of(curve)])
            for draw, _, score in found:
                settings = method.variants()[draw]
                delta, rate = settings.get("trust_region_delta"), f"{settings['learning_rate']:.3e}"
                name = f"{method.label}, draw {draw}"
                all_rows.append([env, name, rate, number(delta, 3), number(steps, 0), number(score)])
    head = f"task, method, draws finished, steps, best {best}, all, paper at equal steps, paper at its end"
    caption = (
        f"Return: {control.OURS}, at the steps that all draws have done. Best {best}: mean ± standard deviation of the "
        f"{best} draws with the highest return, as in the paper; all: mean of those begun. {control.CAVEAT}"
    )
    drawn = (
        f"Lines: ours, the mean of the {best} best draws and its standard error; dashed: the paper's, mean and "
        f"standard deviation of its five best of thirty. {control.CAVEAT}"
    )
    every = "Every draw, best first: its learning rate, δ, and return as above."
    all_draws = Table(every, ["task", "draw", "learning rate", "δ", "steps", "return"], all_rows)
    figure = learning_curves(chosen, published_curves, labels=control.published_labels(methods), unit="draws")
    tables = {"table": Table(caption, head.split(", "), rows), "draws": all_draws}
    return Report(tables, {"figure": Drawing(drawn, figure)})


def better_in(pairs: Sequence[tuple[str, str]], recorded: RecordedRuns) -> Finding:
    """Whether the first method of each pair is better than the second, in the tasks that all of them have begun."""
    keys = list(dict.fromkeys(key for pair in pairs for key in pair))
    envs = recorded.shared(keys)
    if not envs:
        return Finding(())
    ours, theirs = 0, 0
    for env, (better, worse) in itertools.product(envs, pairs):
        scores, published = recorded.compared(env, [better, worse]), control.returns_at_end(published_curves(env))
        ours += bool(scores) and scores[0] > scores[1]
        theirs += published[METHODS[better].published] > published[METHODS[worse].published]
    count = len(envs) * len(pairs)
    lengths = f"{_millions(control.REPLAY_STEPS, envs)} steps (A3C's {_millions(control.ON_POLICY_STEPS, envs)})"
    return Finding(
        [recorded.improvement(*pair, envs=envs) for pair in pairs],
        f"{ours} of {count} pairs of means ({', '.join(env.rpartition('/')[2] for env in envs)}, equal steps)",
        f"{theirs} of {count} at {lengths}",
        f"compared: {len(envs)} tasks" if len(envs) < len(recorded.envs) else "",
    )


def _millions(lengths: Mapping[str, int], envs: Sequence[str]) -> str:
    """The range of the lengths of some tasks: "9–124M"."""
    return f"{span([lengths[env] / 1e6 for env in envs], '.0f')}M"


@functools.cache
def _searched() -> Figure:
    """The figure by the paper's protocol; kept, since its 900 cells take a second to make."""
    return dataclasses.replace(FIGURE, methods=searches(DRAWS), seeds=1)


def read_draws(figure: Figure, folder: Path) -> Judged | None:
    """The draws of each method, by the paper's protocol."""
    return own_design(figure, folder, _searched())


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
        of = [[np.array(scores[key])[:, None] for key in pair] for pair in pairs or itertools.pairwise(order)]
        gains += [compare(wins, *pair, unit="draws") for pair in of]
        best = ", ".join(f"{METHODS[key].label} {np.mean(scores[key][-BEST_DRAWS:]):.0f}" for key in order)
        ours.append(f"{best} (best {BEST_DRAWS}, {env.rpartition('/')[2]}, {steps / 1e6:.1f}M steps)")
        theirs.append(f"{', '.join(number(published[key], 0) for key in order)} (best 5, equal steps)")
    return Finding(gains, "; ".join(ours), "; ".join(theirs))


_PROTOCOL, _SEARCH = "ACER, Figure 3, its protocol", "figure3_draws"  # and the folder of its draws
_BETTER = "TIS and A3C are better with the trust region"
_HELPS = (("trust_tis", "tis"), ("trust_a3c", "a3c"))
_LEADS = tuple(("acer_continuous", key) for key in METHODS if key != "acer_continuous")
FIGURE = Figure(
    __name__,
    order=30,
    source="ACER, Figure 3",
    title="Figure 3 of ACER: continuous control",
    text=(
        "Reproduces Figure 3 of Wang et al. 2017: five methods on six MuJoCo tasks with episodes of 500 steps; "
        "A3C's variants get twice the steps, as there.",
        control.DEVIATIONS,
        control.ONE_SETTING,
    ),
    envs=control.TASKS,
    methods=METHODS,
    seeds=3,
    report=control.curves_report,
    flags=define_flags,
    chosen=chosen,
    claims=(
        Claim("ACER leads five methods on six tasks", functools.partial(better_in, _LEADS), own_design),
        Claim(_BETTER, functools.partial(better_in, _HELPS), own_design),
        Claim("the order of the five", functools.partial(over_draws, ()), read_draws, _PROTOCOL, _SEARCH),
        Claim(_BETTER, functools.partial(over_draws, _HELPS), read_draws, _PROTOCOL, _SEARCH),
    ),
)
