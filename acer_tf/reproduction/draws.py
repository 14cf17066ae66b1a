"""Figure 3 by the paper's protocol: flags for draws of the settings, and for longer runs of the best of them."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

from absl import flags

from acer_tf.errors import SettingsError
from acer_tf.reproduction import grids
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.evidence import own_evidence
from acer_tf.reproduction.experiment import RESULTS, Experiment
from acer_tf.reproduction.methods import names_by_label, variants
from acer_tf.reproduction.outcome import Outcome
from acer_tf.reproduction.report import control


def define(values: flags.FlagValues) -> None:
    """Adds --draws, --best and --best_of."""
    flags.DEFINE_integer(
        "draws", 0, "draws of learning rate and δ per method from the paper's ranges; 0 for the preset's",
        lower_bound=0, upper_bound=1000, flag_values=values,
    )  # fmt: skip
    flags.DEFINE_integer(
        "best", grids.BEST_DRAWS, "with --draws: how many of them are shown", lower_bound=1, flag_values=values
    )
    flags.DEFINE_string(
        "best_of", None, "with --draws: run only the --best of the finished draws in this folder", flag_values=values
    )


def chosen(experiment: Experiment, values: flags.FlagValues) -> Experiment:
    """`experiment` itself without --draws; with it, Figure 3 by its protocol.

    Raises SettingsError for flags that do not fit together; its `keep` does for --best_of without all draws finished.
    """
    if not values.draws:
        for name in ("best", "best_of"):
            if values[name].present:
                raise SettingsError(f"--{name}={values[name].value}: it goes with --draws, which was 0 or not given")
        return experiment
    if values.best > values.draws:
        raise SettingsError(f"--best={values.best}: must be at most --draws={values.draws}")
    if values["seeds"].present:
        raise SettingsError(f"--seeds={values.seeds}: not with --draws, each of which has its own seed")
    values["seeds"].value = 1
    if not values["output"].present:
        values["output"].value = f"{RESULTS}/figure3_draws"
    methods = grids.figure3_draws(values.draws)
    text = (
        f"Figure 3 of Wang et al. 2017 by its protocol: of {values.draws} draws per method (learning rate log-uniform "
        f"in 1e-4 to 10^-3.3, δ uniform in 0.1 to 2) the {values.best} best; the paper shows the best five of thirty.",
        grids.CONTROL_DEVIATIONS,
    )
    found = dataclasses.replace(
        experiment,
        title=f"Figure 3 of ACER by its protocol: the best {values.best} of {values.draws} draws",
        text=text,
        methods=methods,
        seeds=1,
        report=functools.partial(control.draws, methods=methods, best=values.best),
    )
    if values.best_of is not None:
        keep = functools.partial(_best_cells, found, Path(values.best_of), values.best)
        found = dataclasses.replace(found, keep=keep)
    return found


def _best_cells(experiment: Experiment, folder: Path, best: int, cells: list[Cell]) -> list[Cell]:
    """Those of `cells` whose draws are the best of the evidence in `folder`."""
    known = own_evidence(folder, experiment.name, "best_of")
    if known is None:
        raise SettingsError(f"--best_of={folder}: holds no evidence (no experiment.json)")
    names = names_by_label(experiment.methods)
    finished = [cell for cell in known.cells if cell.state == "finished" and cell.method in names]
    outcome = Outcome(experiment.methods, finished, folder)
    asked = {(names[cell.method], cell.env) for cell in cells}
    kept = set()
    for env in {env for _, env in asked}:
        for name, method in experiment.methods.items():
            draws = variants({name: method})
            if not any((draw, env) in asked for draw in draws):
                continue
            ranked = control.ranked_draws(outcome, draws, env)
            if len(ranked) < len(draws):
                raise SettingsError(
                    f"--best_of={folder}: {len(ranked)} of {len(draws)} draws of {method.label} in {env} are finished "
                    "there; finish the others first"
                )
            kept |= {(draw, env) for draw, *_ in ranked[:best]}
    return [cell for cell in cells if (names[cell.method], cell.env) in kept]
