"""Searches hyper-parameters of one agent in one environment, with Optuna, and evaluates the best on other seeds.

python -m acer_tf tune --env=CartPole-v1 --total_steps=50_000 --trials=50 --processes=2 --tune_dir=runs/tune_cartpole

A trial is a run with a folder of its own, and its value the mean return of the last tenth of its steps. One is stopped
where its best interim return so far is below the median of those that the complete trials had at that step. The first
has the settings that are given, where they lie in the ranges searched. The same command continues a search, with more
--trials longer, and helps others that run with the same --tune_dir, also on other machines that share it. What is not
given is searched, within ranges that --search replaces.
"""

import collections
import dataclasses
import math
import shlex
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from matplotlib.figure import Figure
from optuna.importance import PedAnovaImportanceEvaluator
from optuna.trial import FrozenTrial, TrialState

from acer_tf import envs
from acer_tf.commands import cli, setting_flags, sweep_flags
from acer_tf.errors import EvidenceError, FolderInUse, SettingsError
from acer_tf.files import remove_empty
from acer_tf.reproduction.cells import Cell, flags_of
from acer_tf.reproduction.collecting import collect
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.evidence import Evidence, changing, file_name, own_evidence, require_folder
from acer_tf.reproduction.figure import RESULTS, Method
from acer_tf.reproduction.published import published_curves
from acer_tf.reproduction.report.output import (
    Drawing,
    Report,
    Table,
    learning_curves,
    markdown,
    mean_with_error,
    number,
    write_report,
)
from acer_tf.reproduction.report.page import require_page, results_of, write_page
from acer_tf.reproduction.sweep import CellFolder, LocalLauncher, run_sweep
from acer_tf.reproduction.sweep.attempt import PROGRAM
from acer_tf.reproduction.sweep.launcher import needs_of
from acer_tf.reproduction.trials import RunOptions, search, value_of, values_of
from acer_tf.reproduction.tuning import REASON, Tuning, end_of, largest, search_space
from acer_tf.runs.signals import StopRequest
from acer_tf.settings import Settings, make_settings, setting_types
from acer_tf.settings.declaration import Search, declarations
from acer_tf.settings.settings import meant
from acer_tf.training.resolve import resolve

_TABLES, _FIGURES = ("table", "trials"), ("figure", "importance")  # of the report
_FOR_IMPORTANCE = 20  # complete trials, without which it is not drawn
_NOT_SEARCHED = ("env", "agent", "preset", "seed", "total_steps", "log_interval", "stop_at_return", "initialize_from")
_ROWS = 50  # of progress.csv in a run, if --log_interval is not given
FLAGS = cli.new_flags()
flag = cli.definers(FLAGS, "Search")
flag.path("tune_dir", None, "folder of the search; the same command continues it")
flag.path("output", None, f"folder of the evidence; by default {RESULTS}/tune_ENVIRONMENT")
flag.integer("trials", 50, "runs with other settings, those of other processes included", 1, 100_000)
flag.integer("processes", 1, "trials that run at the same time", 1, cli.MOST_THREADS)
flag.integer("threads", 0, "threads of each; 0: an even share of the machine's cores", 0, cli.MOST_THREADS)
_what = "; may be repeated, and then only these are searched; by default "
_default = ", ".join(name for name, declared in declarations(Settings).items() if declared.search)
flag.multi_string("search", [], f"NAME, NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=VALUE,VALUE,...{_what}{_default}")
flag.integer("evaluation_seeds", 5, "seeds on which the best settings and the given ones are run at last", 1, 1000)
flag.float("stall_minutes", 30.0, "minutes without progress after which a run is stopped and counts as failed", 0.01)
flag.float("checkpoint_minutes", 10.0, "minutes between a run's checkpoints", lower_bound=0.0)
setting_flags.define(FLAGS, total_steps="", log_interval=f"total_steps / {_ROWS}")


@cli.command
def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__, required=("env", "total_steps", "tune_dir"))
    sweep_flags.require_times(FLAGS)
    given = setting_flags.given(FLAGS)
    given.setdefault("log_interval", max(1, given["total_steps"] // _ROWS))
    settings, tune_dir = make_settings(given), Path(FLAGS.tune_dir)
    asked = cli.named_once("search", map(_search, FLAGS.search))
    output = Path(FLAGS.output or f"{RESULTS}/tune_{file_name(settings.env)}")
    known = own_evidence(output, "tune", tables=_TABLES, figures=_FIGURES)
    require_page(results_of(output))
    remove_empty(require_folder(output))
    spec = envs.spec(settings.env, atari_preset=settings.atari_preset, action_masks=settings.action_masks)
    space = search_space(resolve(settings, spec), spec, given, asked)
    cell, launcher = Cell.asked("tune", settings), LocalLauncher(FLAGS.processes, FLAGS.threads)
    searched = {"settings": cell.name, "search": {name: str(tuple(tried)) for name, tried in space.items()}}
    _require_own(known, searched, output)
    ends = (settings, largest(settings, spec, space))
    needs = needs_of([CellFolder(tune_dir, Cell.asked("tune", each)) for each in ends])
    launcher.check([max(each.memory for each in needs)] * FLAGS.processes)
    tuning = Tuning(tune_dir, settings, spec, space, FLAGS.trials)
    options = RunOptions(PROGRAM, Path.cwd(), FLAGS.stall_minutes, FLAGS.checkpoint_minutes)
    print(f"searching {', '.join(space)} in {tune_dir}", flush=True)
    with cli.begun():
        with StopRequest("asking the trials for a checkpoint, then stopping") as stop:
            try:
                search(tuning, launcher, options, stop, lambda line: print(line, flush=True))
            finally:
                launcher.close()
        if stop.signal_number is not None:
            print("stopped; the same command continues the search")
            return 128 + stop.signal_number
        if elsewhere := tuning.running():
            print(f"{elsewhere} trials run in other processes, the last of which evaluates the best")
            return 0
        if (best := tuning.best()) is None:
            return cli.fail(1, "no trial has reached its end: give more --trials")
        return _evaluate(tuning, best, output, searched, shlex.join(["python", "-m", "acer_tf", "tune", *argv[1:]]))


def _evaluate(tuning: Tuning, best: FrozenTrial, output: Path, searched: Mapping[str, Any], command: str) -> int:
    """Runs the best settings and the given ones on seeds of their own, and writes the evidence of what was searched."""
    given, key = tuning.settings, f"trial {best.number}"
    found = tuning.settings_of(best)
    print(f"best of {_counts(tuning)}, {key}: {best.value:,.2f}  ({values_of(best.params)})")
    print(_training(found))
    methods = {key: Method(f"best: {key}", {}, given.total_steps)}
    if found != given:
        methods["given"] = Method(f"given: preset {given.preset}", {}, given.total_steps)
    seeds = range(given.seed + 1, given.seed + 1 + FLAGS.evaluation_seeds)
    cells = [
        Cell.asked(method, dataclasses.replace(found if method == key else given, seed=seed))
        for seed in seeds
        for method in methods
    ]
    sweep_dir = tuning.folder / "evaluation"
    times: dict[str, Any] = {name: FLAGS[name].value for name in ("stall_minutes", "checkpoint_minutes")}
    launcher = LocalLauncher(FLAGS.processes, FLAGS.threads)
    try:
        end = run_sweep("tune", cells, sweep_dir, launcher, program=PROGRAM, cwd=Path.cwd(), **times)
    except FolderInUse as error:
        print(f"another process evaluates the best: {error}")
        return 0
    require_folder(output)
    with changing(output):
        _require_own(own_evidence(output, "tune"), searched, output)  # again: another search may have ended meanwhile
        cells, damages = collect(cells, sweep_dir, output, end.given_up)
        print("".join(f"{line}\n" for line in damages), end="", file=sys.stderr)
        _report(tuning, best, methods, cells, output, searched, command)
    return end.exit_code


def _training(settings: Settings) -> str:
    """The command of a run with these settings."""
    flags = flags_of(dataclasses.replace(settings, seed=0))
    return shlex.join(["python", "-m", "acer_tf", "train", *flags, f"--run_dir=runs/best_{file_name(settings.env)}"])


def _require_own(known: Evidence | None, searched: Mapping[str, Any], output: Path) -> None:
    """Raises EvidenceError if `output` holds the evidence of another search."""
    if known is not None and known.options != searched:
        raise EvidenceError(f"--output={output} holds the evidence of another search: choose another")


def _report(
    tuning: Tuning,
    best: FrozenTrial,
    methods: Mapping[str, Method],
    cells: Sequence[Cell],
    output: Path,
    searched: Mapping[str, Any],
    command: str,
) -> None:
    """Writes the evidence of a search, and shows its table."""
    given, runs = tuning.settings, RecordedRuns(methods, cells, output)
    seeds = sorted({cell.seed for cell in cells})
    text = (
        f"Optuna's search of {', '.join(tuning.space)}: {_counts(tuning)}. The best beside what was given, on seeds "
        f"{seeds[0]} to {seeds[-1]}, which the search did not see (its runs had seed {given.seed}).",
        _training(tuning.settings_of(best)),
    )
    labels = {name: method.label for name, method in methods.items()}
    evidence = Evidence("tune", f"Tuned {given.agent} on {given.env}", text, command, tuple(cells), labels, searched)
    caption = "Means over seeds with standard errors, up to three runs thin."
    figures = {"figure": Drawing(caption, learning_curves(runs.by_label(), published_curves))}
    if (drawn := _importance(tuning.study, tuning.space)) is not None:
        count = len(tuning.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
        note = f"Optuna's importance of each setting (PED-ANOVA) in the {count} trials that reached their end. "
        note += "Of so few, one more or less may change the order."
        figures["importance"] = Drawing(note, drawn)
    tables = {"table": _comparison(runs, given, best), "trials": _trials(tuning)}
    write_report(evidence, Report(tables, figures), output)
    print(f"\n{markdown(tables['table'])}\n\ntables and figures in {output}; page: {write_page(results_of(output))}")


def _counts(tuning: Tuning) -> str:
    """How the trials have ended."""
    ends = collections.Counter(map(end_of, tuning.ranked()))
    steps = f"{ends['complete']} of them to {tuning.settings.total_steps:,} steps"
    return f"{ends.total()} trials, {steps}, {ends['pruned']} stopped early, {ends['failed']} failed"


def _comparison(runs: RecordedRuns, given: Settings, best: FrozenTrial) -> Table:
    rows = []
    for key, method in runs.methods.items():
        _, mean, error = runs.result(key, given.env, value_of)
        each = ", ".join(number(value_of(run)) for run in runs.runs(key, given.env))
        rows.append([method.label, runs.finished(key), mean_with_error(mean, error), each])
    head = ["setting", "seeds", "return, last 10 % of training", "each seed"]
    return Table(f"Mean raw return of training episodes, over seeds; in the search {best.value:,.2f}.", head, rows)


def _trials(tuning: Tuning) -> Table:
    head = ["trial", "state", "return, last 10 % of training", *tuning.space, "reason"]
    rows = [
        [
            str(trial.number),
            end_of(trial),
            number(trial.value) if trial.state == TrialState.COMPLETE else "",
            *(str(trial.params[name]) for name in tuning.space),
            trial.user_attrs.get(REASON, "") if end_of(trial) == "failed" else "",
        ]
        for trial in tuning.ranked()
    ]
    return Table("All trials, the best first; pruned and failed ones have no value.", head, rows)


def _importance(study: optuna.Study, space: Iterable[str]) -> Figure | None:
    """Optuna's plot; None where it has too few trials, or too little to compare."""
    complete = {tuple(t.params.values()): t.value for t in study.trials if t.state == TrialState.COMPLETE}
    if len(complete) < _FOR_IMPORTANCE or len({*complete.values()}) < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        axes = optuna.visualization.matplotlib.plot_param_importances(
            study, evaluator=PedAnovaImportanceEvaluator(), params=list(space), target_name="return"
        )
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.set_layout_engine("constrained")
    return figure


def _search(text: str) -> tuple[str, Search]:
    """The setting that a --search names, and what is tried."""
    name, equals, tried = text.partition("=")
    types = setting_types()
    if name not in types:
        hint = meant(name) or "; docs/presets.md lists all"
        raise SettingsError(f"--search={text}: there is no setting {name!r}{hint}")
    if name in _NOT_SEARCHED or name.startswith("evaluat"):
        raise SettingsError(f"--search={text}: must begin with a setting that decides how a run learns")
    if not equals:
        if (declared := declarations(Settings)[name].search) is None:
            raise SettingsError(f"--search={text}: it has no usual range; give {name}=LOW:HIGH or {name}=VALUE,VALUE")
        return name, declared
    kind = types[name]
    try:
        if kind in (int, float) and ":" in tried:
            low, high, *log = tried.split(":")
            ends = cli.value_of(kind, low), cli.value_of(kind, high)
            if log not in ([], ["log"]) or not -math.inf < ends[0] < ends[1] < math.inf or (log and ends[0] <= 0):
                raise ValueError("LOW must be below HIGH, both finite, and above 0 with :log")
            return name, Search(*ends, log=bool(log))
        separator = ";" if ";" in tried else ","
        values = tuple(dict.fromkeys(cli.value_of(kind, value) for value in tried.split(separator)))
        if len(values) < 2:
            raise ValueError(f"'{values[0]}' is one value; give two or more, separated by ; if they have commas")
        return name, Search(values=values)
    except ValueError as error:
        forms = f"{name}=LOW:HIGH, {name}=LOW:HIGH:log or {name}=VALUE,VALUE"
        raise SettingsError(f"--search={text}: {error}; give {forms}") from error
