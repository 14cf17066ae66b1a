"""Figure 3 of the ACER paper: ACER, Trust-TIS, TIS, Trust-A3C and A3C on six control tasks.

python -m acer_tf figure3_continuous --plan
python -m acer_tf figure3_continuous --processes=2 --output=runs/figure3
python -m acer_tf figure3_continuous --tasks=walker2d --seeds=1 --total_steps=3_000_000 --skip_recorded \
    --setting=log_interval=30_000

By the paper's protocol, the best five of thirty draws of learning rate and δ; first all, then those five for longer:

python -m acer_tf figure3_continuous --tasks=reacher3 --draws=30 --best=5 --total_steps=1_000_000
python -m acer_tf figure3_continuous --tasks=reacher3 --draws=30 --best=5 --best_of=results/figure3_draws \
    --total_steps=3_000_000 --output=results/figure3_best
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

from absl import flags

from acer_tf.commands import pipeline
from acer_tf.reproduction import grids
from acer_tf.reproduction.evidence import own_evidence
from acer_tf.reproduction.experiment import Experiment
from acer_tf.reproduction.outcome import Outcome
from acer_tf.reproduction.report import control
from acer_tf.reproduction.sweep import Cell
from acer_tf.settings import SettingsError

EXPERIMENT = Experiment(
    name="figure3_continuous",
    title="Figure 3 of ACER: continuous control",
    sweep="control",
    text=(
        "Reproduces Figure 3 of Wang et al. 2017: five methods on six MuJoCo tasks with games of 500 steps; A3C's "
        "variants get twice the steps, as there.",
        grids.CONTROL_DEVIATIONS,
        grids.CONTROL_SETTING,
    ),
    envs=grids.CONTROL,
    methods=grids.figure3_continuous(),
    seeds=3,
    report=control.figure3,
)
FLAGS = pipeline.define(EXPERIMENT)
flags.DEFINE_integer(
    "draws", 0, "draws of learning rate and δ per method from the paper's ranges; 0 for the preset's", lower_bound=0,
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_integer("best", 5, "with --draws: how many of them are shown", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_string(
    "best_of", None, "with --draws: run only the --best of the finished draws in this folder", flag_values=FLAGS
)


def main(argv: list[str]) -> int:
    return pipeline.main(FLAGS, argv, __doc__, EXPERIMENT, _chosen)


def _chosen(values: flags.FlagValues) -> tuple[Experiment, pipeline.Keep]:
    if not values.draws:
        if values.best_of is not None:
            raise SettingsError(f"--best_of={values.best_of}: it goes with --draws, which was 0 or not given")
        return EXPERIMENT, list
    if values.best > values.draws:
        raise SettingsError(f"--best={values.best}: must be at most --draws={values.draws}")
    if values["seeds"].present:
        raise SettingsError(f"--seeds={values.seeds}: not with --draws, each of which has a seed of its own")
    values["seeds"].value = 1
    if not values["output"].present:
        values["output"].value = "results/figure3_draws"
    methods = grids.figure3_draws(values.draws)
    text = (
        f"Figure 3 of Wang et al. 2017 by its protocol: of {values.draws} draws per method (learning rate log-uniform "
        f"in 1e-4 to 10^-3.3, δ uniform in 0.1 to 2) the {values.best} best; the paper shows the best five of thirty.",
        grids.CONTROL_DEVIATIONS,
    )
    report = functools.partial(control.draws, methods=list(methods.values()), best=values.best)
    title = f"Figure 3 of ACER by its protocol: the best {values.best} of {values.draws} draws"
    experiment = dataclasses.replace(EXPERIMENT, title=title, text=text, methods=methods, seeds=1, report=report)
    if values.best_of is None:
        return experiment, list
    return experiment, functools.partial(_best_cells, experiment, Path(values.best_of), values.best)


def _best_cells(experiment: Experiment, folder: Path, best: int, cells: list[Cell]) -> list[Cell]:
    """Those of `cells` whose draws are the best of the evidence in `folder`."""
    known = own_evidence(folder, experiment.name)
    if known is None:
        raise SettingsError(f"--best_of={folder}: holds no evidence (no experiment.json)")
    outcome = Outcome([cell for cell in known.cells if cell.state == "finished"], folder)
    kept = set()
    for env in {cell.settings.env for cell in cells}:
        for method in experiment.methods.values():
            draws = {variant.label for variant in method.variants()}
            if not any(cell.method in draws for cell in cells):
                continue
            found = control.ranked_draws(outcome, method, env)
            if len(found) < len(draws):
                raise SettingsError(
                    f"--best_of={folder}: {len(found)} of {len(draws)} draws of {method.label} in {env} are finished "
                    "there; finish the others first"
                )
            kept |= {(draw.label, env) for draw, _ in found[:best]}
    return [cell for cell in cells if (cell.method, cell.settings.env) in kept]
