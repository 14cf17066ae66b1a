"""The command of a figure or table: from flags to cells, then a plan or a sweep, then tables, drawings and page."""

import contextlib
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from absl import flags

from acer_tf.commands import cli, sweep_flags
from acer_tf.envs.families import split_id
from acer_tf.errors import EvidenceError, SettingsError
from acer_tf.files import remove_empty
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.collecting import collect, has_begun, has_rows, joined
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.evidence import Evidence, changing, own_evidence, require_folder
from acer_tf.reproduction.figure import RESULTS, Figure, cells_of, figures, make_cells
from acer_tf.reproduction.report.output import markdown, write_report
from acer_tf.reproduction.report.page import require_page, results_of, write_page
from acer_tf.reproduction.scores import GAME_SETS, atari_games
from acer_tf.settings import Settings, setting_types

_DECIDED = ("env", "agent", "preset", "seed", "total_steps")  # by the experiment's methods and other flags


def define(figure: Figure) -> flags.FlagValues:
    """The flags of an experiment's command."""
    values = cli.new_flags()
    flag = cli.definers(values)
    tasks = _tasks_flag(figure)
    sets = f" and sets ({', '.join(GAME_SETS)})" if figure.family == "atari" else ""
    flag.list(tasks, [], f"only these: names{sets}; all of them without it")
    flag.list("agents", [], f"only these of {', '.join(figure.methods)}")
    if not figure.searches:
        flag.integer("seeds", figure.seeds, "runs of each agent and task", 1, 1000)
    flag.integer("total_steps", None, "agent steps of every run, instead of those of a whole run", 1)
    flag.multi_string("setting", [], "NAME=VALUE: a setting, of those in run.json, of every run; may be repeated")
    flag.bool("skip_recorded", False, "run only the cells that have no finished record in --output")
    flag.bool("plan", False, "print the time, disk and memory that the cells would take, and run nothing")
    flag.bool("report_only", False, "make tables, figures and page again from --output and --sweep_dir")
    flag.path("output", f"{RESULTS}/{figure.name}", "folder of the evidence; the page, index.html, lies beside it")
    figure.flags(values)
    sweep_flags.define(values, figure.family)
    return values


@cli.command
def run(argv: list[str]) -> int:
    """The command of the figure that argv[0] names."""
    figure = figures()[argv[0]]
    values = define(figure)
    steps = sum(cell.total_steps for cell in figure.whole.values())
    cost = f"The whole: {len(figure.whole):,} runs, {steps:,} agent steps; --plan says what that takes on this machine."
    cli.parse(values, argv, "\n\n".join([figure.doc, *figure.text, cost]) + "\n")
    sweep_flags.require(values)
    _require_plan(values)
    output, sweep_dir = Path(values.output), Path(values.sweep_dir)
    asked = figure.keep(_cells(values, figure), values)
    known = own_evidence(output, figure.name)
    cells = _not_recorded(asked, known, output) if values.skip_recorded else asked
    if values.plan:
        return _plan(values, cells)
    _require_same_methods(known, figure, output)
    if values.report_only:
        asked = [cell for cell in asked if has_begun(cell, sweep_dir, output)]
        if not any(has_rows(cell, sweep_dir, output) for cell in (*(known.cells if known else ()), *asked)):
            raise EvidenceError(
                f"--report_only: neither --output={output} nor --sweep_dir={sweep_dir} has rows of these runs that can "
                "be read: leave the flag out to make them, or name the folders that have them"
            )
    joined(known.cells if known else (), asked, output)  # raises before anything runs
    require_page(results_of(output))
    made = require_folder(output)
    nothing_to_run = values.report_only or not cells
    try:
        code, given_up = (0, {}) if nothing_to_run else sweep_flags.run(values, figure.family, cells)
    finally:
        remove_empty(made)
    given = [text for text in argv if text.lstrip("-").partition("=")[0] != "report_only"]
    command = known.command if known and nothing_to_run else shlex.join(["python", "-m", "acer_tf", *given])
    with contextlib.nullcontext() if values.report_only else cli.begun():
        require_folder(output)
        with changing(output):
            # Read again: another call may have written meanwhile.
            known = own_evidence(output, figure.name)
            found, damages = collect(joined(known.cells if known else (), asked, output), sweep_dir, output, given_up)
            print("".join(f"{line}\n" for line in damages), end="", file=sys.stderr)
            _report(figure, found, output, known, command)
    return code


def _report(figure: Figure, found: list[Cell], output: Path, known: Evidence | None, command: str) -> None:
    """Adds the cells found to the evidence in `output`, which was `known` before; writes its page, shows its tables."""
    methods, envs = list(figure.methods), [*figure.envs, *(cell.env for cell in found)]
    found.sort(key=lambda cell: (methods.index(cell.method), cell.draw or 0, envs.index(cell.env), cell.seed))
    commands = "\n".join(dict.fromkeys([*(known.command.splitlines() if known else ()), *command.splitlines()]))
    labels = {key: method.label for key, method in figure.methods.items()}
    evidence = Evidence(figure.name, figure.title, figure.text, commands, tuple(found), labels)
    assert figure.report is not None
    report = figure.report(RecordedRuns(figure.methods, found, output))
    write_report(evidence, report, output)
    page = write_page(results_of(output))
    for table in report.tables.values():
        print(f"\n{markdown(table)}\n\n{table.caption}")
    finished = sum(cell.state == "finished" for cell in found)
    print(f"\n{finished} of {len(found)} cells are finished; tables and figures in {output}; page: {page}")


def _require_same_methods(known: Evidence | None, figure: Figure, output: Path) -> None:
    """Refuses evidence of methods or draws that the figure does not have."""
    cells = known.cells if known else ()
    if others := [cell for cell in cells if not cells_of(figure.methods, [cell])]:
        methods = ", ".join(figure.methods)
        raise EvidenceError(f"--output={output} has a run of '{others[0].label}', not of {methods}: move it away")


def _cells(values: flags.FlagValues, figure: Figure) -> list[Cell]:
    for name in (_tasks_flag(figure), "agents"):
        if values[name].present and not values[name].value:
            raise SettingsError(f"--{name}=: names none; leave the flag out for all of them")
    if unknown := [name for name in values.agents if name not in figure.methods]:
        raise SettingsError(f"--agents={unknown[0]}: must be one of {', '.join(figure.methods)}")
    methods = {name: figure.methods[name] for name in values.agents or figure.methods}
    over = cli.named_once("setting", map(_setting, values.setting))
    envs = _envs(values[_tasks_flag(figure)].value or [], figure)
    cells = make_cells(methods, envs, values.seeds if "seeds" in values else 1, total_steps=values.total_steps, **over)
    if not cells:
        raise SettingsError("no cells: none of --agents is run in any of these tasks")
    if over:
        _require_own_settings(figure, make_cells(methods, envs, 1), over)
    return cells


def _require_own_settings(figure: Figure, cells: list[Cell], over: Mapping[str, Any]) -> None:
    """Refuses settings that tell a method from another of the same agent, in the method itself or in the other."""
    telling: dict[str, set[str]] = {}
    for method in figure.methods.values():
        for settings in method.variants().values():
            telling.setdefault(settings.get("agent", Settings.agent), set()).update(settings)
    for cell in cells:
        own = cell.train_settings
        for name in telling[own.agent] & over.keys():
            if (value := getattr(own, name)) != over[name]:
                raise SettingsError(f"--setting={name}={over[name]}: {cell.method} is defined by {name} {value}")


def _not_recorded(cells: list[Cell], known: Evidence | None, output: Path) -> list[Cell]:
    finished = {cell.name for cell in (known.cells if known else ()) if cell.state == "finished"}
    recorded = {name for name in finished if (output / "runs" / name / "run.json").exists()}
    left = [cell for cell in cells if cell.name not in recorded]
    print(f"{len(cells) - len(left)} of {len(cells)} cells have a finished record in {output}: {len(left)} left to run")
    return left


def _envs(names: list[str], figure: Figure) -> tuple[str, ...]:
    if not names:
        return figure.envs
    if figure.family == "atari":
        try:
            return tuple(f"atari/{game}" for game in atari_games(names))
        except ValueError as error:
            raise SettingsError(f"--games: {error}") from error
    short = {split_id(env)[1].rpartition(":")[2]: env for env in figure.envs}  # as tables and legends have them
    known = {env: env for env in figure.envs} | {split_id(env)[1]: env for env in figure.envs} | short
    if unknown := [name for name in names if name not in known]:
        raise SettingsError(f"--{_tasks_flag(figure)}={unknown[0]}: must be one of {', '.join(short)}")
    return tuple(dict.fromkeys(known[name] for name in names))


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    types = setting_types()
    if name in _DECIDED:
        raise SettingsError(f"--setting={text}: the experiment decides {', '.join(_DECIDED)}")
    if not equals or name not in types:
        raise SettingsError(f"--setting={text}: must be NAME=VALUE, where NAME is a setting, as a run.json lists them")
    kind = types[name]
    try:
        return name, cli.value_of(kind, value)
    except ValueError as error:
        raise SettingsError(f"--setting={text}: the value must be of type {kind.__name__}") from error


def _require_plan(values: flags.FlagValues) -> None:
    """Raises SettingsError for flags that a plan does not take into account."""
    if not values.plan:
        return
    if values.report_only:
        raise SettingsError("--plan with --report_only: one plans runs, the other shows those that there are; give one")
    if values.launcher != "local":
        raise SettingsError(f"--plan with --launcher={values.launcher}: plans are of this machine alone")
    for name in ("gpus_per_cell", "gpu_memory_gb"):
        if values[name].value:
            raise SettingsError(f"--{name}={values[name].value:g} with --plan: cells are timed without; leave it out")


def _plan(values: flags.FlagValues, cells: list[Cell]) -> int:
    if not cells:
        return 0
    sweep_flags.require_gpu(values, cells)
    from acer_tf.reproduction.plan import plan  # imports TensorFlow, for which errors in flags should not wait

    options: dict[str, Any] = {name: values[name].value for name in ("threads", "checkpoint_minutes")}
    print("\n".join(plan(cells, Path(values.sweep_dir), processes=values.processes or 1, **options)))
    return 0


def _tasks_flag(figure: Figure) -> str:
    return "games" if figure.family in ("atari", "minatar") else "tasks"
