"""The command of a figure or table: from flags to cells, then a plan or a sweep, then tables, figures and page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags

from acer_tf.commands import cli, sweep_flags
from acer_tf.envs.families import split_id
from acer_tf.errors import EvidenceError, SettingsError, SweepError
from acer_tf.files import remove_empty
from acer_tf.reproduction.catalogue import EXPERIMENTS
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.evidence import (
    Evidence,
    changing,
    collect,
    has_begun,
    joined,
    own_evidence,
    require_folder,
)
from acer_tf.reproduction.experiment import RESULTS, Experiment
from acer_tf.reproduction.game_sets import GAME_SETS, atari_games
from acer_tf.reproduction.methods import make_cells, names_by_label, variants
from acer_tf.reproduction.outcome import Outcome
from acer_tf.reproduction.report.output import write_report
from acer_tf.reproduction.report.page import require_page, write_page
from acer_tf.reproduction.report.tables import markdown
from acer_tf.settings import setting_types

_DECIDED = ("env", "agent", "preset", "seed", "total_steps")  # by the experiment's methods and other flags


def define(experiment: Experiment) -> flags.FlagValues:
    """The flags of an experiment's command."""
    values = cli.new_flags()
    flag = cli.definers(values)
    tasks = _tasks_flag(experiment)
    sets = f" and sets ({', '.join(GAME_SETS)})" if experiment.family == "atari" else ""
    flag.list(tasks, [], f"only these: names{sets}; all of them without it")
    flag.list("agents", [], f"only these of {', '.join(experiment.methods)}")
    flag.integer("seeds", experiment.seeds, "runs of each agent and task", 1, 1000)
    flag.integer("total_steps", None, "agent steps of every run, instead of the whole", 1)
    flag.multi_string("setting", [], "NAME=VALUE: a flag of acer_tf train, for every run; may be repeated")
    flag.bool("skip_recorded", False, "run only cells of which --output has no finished record")
    flag.bool("plan", False, "say what it would take, and run nothing")
    flag.bool("report_only", False, "make tables, figures and page again from --output and --sweep_dir")
    flag.path("output", f"{RESULTS}/{experiment.name}", "folder of the evidence; the page, index.html, lies beside it")
    experiment.flags(values)
    sweep_flags.define(values, experiment.family)
    return values


def main(argv: list[str]) -> int:
    """The command of the experiment that argv[0] names."""
    experiment = EXPERIMENTS[argv[0]]
    values = define(experiment)
    cli.parse(values, argv, _help(experiment))
    try:
        experiment = experiment.chosen(experiment, values)
        output, sweep_dir = Path(values.output), Path(values.sweep_dir)
        cells = experiment.keep(_cells(values, experiment))
        known = own_evidence(output, experiment.name)
        asked = cells
        if values.skip_recorded:
            cells = _not_recorded(cells, known, output)
        if values.plan:
            return _plan(values, cells)
        _require_labels(known, experiment, output)
        if values.report_only:
            asked = [cell for cell in asked if has_begun(cell, sweep_dir, output)]
            if not (known or asked):
                raise EvidenceError(
                    f"--report_only: neither --output={output} nor --sweep_dir={sweep_dir} has a record of these runs: "
                    "leave the flag out to make them"
                )
        joined(known.cells if known else (), asked, output)
        require_page(output.parent)
        made = require_folder(output)
    except (SettingsError, EvidenceError, SweepError) as error:
        return cli.fail(2, error)
    nothing_to_run = values.report_only or not cells
    try:
        code, given_up = (0, {}) if nothing_to_run else sweep_flags.run(values, experiment.family, cells)
        if code == 2:
            return code
    finally:
        remove_empty(made)
    try:
        require_folder(output)
        command = known.command if known and values.report_only else _command(experiment, argv)
        with changing(output):
            _report(experiment, asked, sweep_dir, output, given_up, command)
    except (EvidenceError, OSError) as error:
        return cli.fail(1, error)
    return code


def _report(
    experiment: Experiment,
    asked: Sequence[Cell],
    sweep_dir: Path,
    output: Path,
    given_up: Mapping[str, str],
    command: str,
) -> None:
    """Adds the `asked` cells of a call to the evidence in `output`, writes it and its page, and shows the tables."""
    # Read again: another call may have written meanwhile.
    known = own_evidence(output, experiment.name)
    found, damages = collect(joined(known.cells if known else (), asked, output), sweep_dir, output, given_up)
    for line in damages:
        print(line, file=sys.stderr)
    labels, envs = list(names_by_label(experiment.methods)), [*experiment.envs, *(cell.env for cell in found)]
    cells = tuple(sorted(found, key=lambda cell: (labels.index(cell.method), envs.index(cell.env), cell.seed)))
    commands = dict.fromkeys([*(known.command.splitlines() if known else ()), *command.splitlines()])
    evidence = Evidence(experiment.name, experiment.title, experiment.text, "\n".join(commands), cells)
    made = experiment.report(Outcome(experiment.methods, cells, output))
    write_report(evidence, made, output)
    page = write_page(output.parent)
    for table in made.tables.values():
        print(f"\n{markdown(table)}\n\n{table.caption}")
    finished = sum(cell.state == "finished" for cell in cells)
    print(f"\n{finished} of {len(cells)} cells are finished; tables and figures in {output}; page: {page}")


def _require_labels(known: Evidence | None, experiment: Experiment, output: Path) -> None:
    """Refuses evidence of methods that the experiment does not have, or has with another preset."""
    methods = {method.label: method for method in variants(experiment.methods).values()}
    for cell in known.cells if known else ():
        if cell.method not in methods:
            raise EvidenceError(
                f"--output={output} has cells of '{cell.method}', not one of {', '.join(methods)}: move it away"
            )
        preset = methods[cell.method].settings.get("preset")
        if preset not in (None, there := cell.settings["preset"]):
            raise EvidenceError(
                f"--output={output} has '{cell.method}' by preset {there}, not {preset}: choose another folder, or "
                "give the command with which it was made"
            )


def _cells(values: flags.FlagValues, experiment: Experiment) -> list[Cell]:
    for name in (_tasks_flag(experiment), "agents"):
        if values[name].present and not values[name].value:
            raise SettingsError(f"--{name}=: names none; leave the flag out for all of them")
    if unknown := [name for name in values.agents if name not in experiment.methods]:
        raise SettingsError(f"--agents={unknown[0]}: must be one of {', '.join(experiment.methods)}")
    methods = {name: experiment.methods[name] for name in values.agents or experiment.methods}
    over = dict(_setting(text) for text in values.setting)
    for method in variants(methods).values():
        if own := [name for name in over if name in method.settings and method.settings[name] != over[name]]:
            raise SettingsError(
                f"--setting={own[0]}={over[own[0]]}: '{method.label}' is defined by {own[0]} {method.settings[own[0]]}"
            )
    envs = _envs(values[_tasks_flag(experiment)].value or [], experiment)
    cells = make_cells(methods, envs, values.seeds, total_steps=values.total_steps, over=over)
    if not cells:
        raise SettingsError("no cells: none of --agents is run in any of these tasks")
    return cells


def _not_recorded(cells: list[Cell], known: Evidence | None, output: Path) -> list[Cell]:
    finished = {cell.name for cell in (known.cells if known else ()) if cell.state == "finished"}
    recorded = {name for name in finished if (output / "runs" / name / "run.json").exists()}
    left = [cell for cell in cells if cell.name not in recorded]
    print(f"{len(cells) - len(left)} of {len(cells)} cells have a finished record in {output}: {len(left)} left to run")
    return left


def _envs(names: list[str], experiment: Experiment) -> tuple[str, ...]:
    if not names:
        return experiment.envs
    if experiment.family == "atari":
        try:
            return tuple(f"atari/{game}" for game in atari_games(names))
        except ValueError as error:
            raise SettingsError(f"--games: {error}") from error
    prefix = f"{experiment.family}/"
    wanted = [prefix + name.removeprefix(prefix) for name in names]
    if unknown := [env for env in wanted if env not in experiment.envs]:
        known = ", ".join(split_id(env)[1] for env in experiment.envs)
        raise SettingsError(f"--{_tasks_flag(experiment)}={split_id(unknown[0])[1]}: must be one of {known}")
    return tuple(dict.fromkeys(wanted))


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    types = setting_types()
    if name in _DECIDED:
        raise SettingsError(f"--setting={text}: the experiment decides {', '.join(_DECIDED)}")
    if not equals or name not in types:
        raise SettingsError(f"--setting={text}: must be NAME=VALUE, with a name that acer_tf train --help lists")
    kind = types[name]
    try:
        return name, {"true": True, "false": False}[value.lower()] if kind is bool else kind(value)
    except (ValueError, KeyError) as error:
        raise SettingsError(f"--setting={text}: the value must be of type {kind.__name__}") from error


def _plan(values: flags.FlagValues, cells: list[Cell]) -> int:
    if not cells:
        return 0
    if values.launcher != "local":
        raise SettingsError(f"--plan with --launcher={values.launcher}: plans are of this machine alone")
    sweep_flags.require(values)
    from acer_tf.reproduction.plan import plan  # imports TensorFlow, for which errors in flags should not wait

    options = {"threads": values.threads, "checkpoint_minutes": values.checkpoint_minutes}
    print("\n".join(plan(cells, Path(values.sweep_dir), processes=values.processes or 1, **options)))
    return 0


def _help(experiment: Experiment) -> str:
    whole = make_cells(experiment.methods, experiment.envs, experiment.seeds)
    steps = sum(cell.total_steps for cell in whole)
    cost = f"The whole: {len(whole):,} runs, {steps:,} agent steps; --plan says what that takes on this machine."
    return "\n\n".join([experiment.usage(), *experiment.text, cost]) + "\n"


def _command(experiment: Experiment, argv: list[str]) -> str:
    """The one that made the cells."""
    given = [text for text in argv[1:] if text.lstrip("-").partition("=")[0] != "report_only"]
    return shlex.join(["python", "-m", "acer_tf", experiment.name, *given])


def _tasks_flag(experiment: Experiment) -> str:
    return "tasks" if experiment.family == "control" else "games"
