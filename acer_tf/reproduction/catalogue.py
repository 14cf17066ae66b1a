"""The experiments: every figure and table of the papers that runs cells, and what it is made of."""

from __future__ import annotations

import dataclasses
import functools

from absl import flags

from acer_tf.reproduction import draws, grids
from acer_tf.reproduction.experiment import RESULTS, Experiment
from acer_tf.reproduction.game_sets import GAME_SETS
from acer_tf.reproduction.published import published_ablations
from acer_tf.reproduction.report import atari, control, minatar

_MINATAR_SETTINGS = {
    "baselines": "preset baselines with learning rate 0.003 and replay from 1,000 steps per environment",
    "paper": "preset paper as it is",
}


def _minatar_text(preset: str) -> tuple[str, str]:
    return (
        "The design of the ACER paper's Figure 1 on the five MinAtar games: ACER with replay ratios 0, 1, 4 and 8, "
        "with and without trust region, beside Double DQN with uniform and with proportional prioritized replay. The "
        "paper asked whether more replay learns more per step, and whether the trust region helps more at high ratios.",
        "Nothing of this was published: scores are normalised by random play (0) and by ACER with replay 4 and trust "
        f"region at a million steps (1), with {_MINATAR_SETTINGS['baselines']}. "
        f"Here ACER has {_MINATAR_SETTINGS[preset]}; DQN's replay, exploration and target period are shortened to "
        "about a tenth.",
    )


def _define_preset(values: flags.FlagValues) -> None:
    flags.DEFINE_enum("preset", "baselines", list(_MINATAR_SETTINGS), "the settings of ACER", flag_values=values)


def _with_preset(experiment: Experiment, values: flags.FlagValues) -> Experiment:
    preset = values.preset
    if preset == "baselines":
        return experiment
    if not values["output"].present:
        values["output"].value = f"{RESULTS}/figure1_minatar_{preset}"
    title, methods = f"{experiment.title}, preset {preset}", grids.figure1_minatar(preset)
    return dataclasses.replace(experiment, title=title, text=_minatar_text(preset), methods=methods)


_EXPERIMENTS = (
    Experiment(
        name="figure1_atari57",
        title="Figure 1 of ACER: replay ratios on Atari",
        summary="Figure 1 of the ACER paper: median human-normalised score over Atari games, against frames and hours.",
        examples=("--plan", "--games=atari5 --agents=replay4_trust,replay0 --total_steps=2_000_000"),
        text=(
            "Reproduces Figure 1 of Wang et al. 2017: ACER with replay ratios 0, 1, 4 and 8, with and without trust "
            "region, DQN, and prioritized Double DQN, on 57 Atari games. A game's score is the mean return of "
            "training over the last 1M frames; the curve is the cumulative maximum of its median over games. Four "
            "frames are one agent step.",
            grids.ATARI_DEVIATIONS,
            "Which of the prioritized agents the paper shows is not said: ours is the proportional one.",
        ),
        envs=grids.ATARI57,
        methods=grids.figure1_atari(),
        seeds=1,
        report=atari.figure1,
    ),
    Experiment(
        name="table_atari57",
        title="Atari 57, by game",
        summary="The cells of Figure 1 by game: final scores beside those published of DQN, prioritized replay, A3C "
        "and Rainbow.",
        examples=("--games=atari5 --agents=replay4_trust --total_steps=10_000_000", "--report_only"),
        text=(
            "Final scores of the same runs as Figure 1's, by game, beside published ones. No ACER scores by game were "
            "published for 57 games. Ours are training scores of the last 1M frames; the published ones are "
            "evaluations, each by the protocol that its column names, most of them after 200M frames and of the best "
            "agent seen in training.",
            grids.ATARI_DEVIATIONS,
        ),
        envs=grids.ATARI57,
        methods=grids.figure1_atari(),
        seeds=1,
        report=atari.table57,
    ),
    Experiment(
        name="table_atari49",
        title="ACER and A3C on 49 Atari games",
        summary="ACER and A3C after 40M frames beside ACER, A2C and PPO of the PPO paper: the only table of 49 games.",
        examples=(
            "--games=Pong,Breakout --total_steps=20_000 --seeds=2 --setting=replay_start=200",
            "--games=openai7 --agents=acer",
        ),
        text=(
            "Beside Table 6 of Schulman et al. 2017 (PPO), whose ACER is OpenAI baselines': 49 games, 40M frames (10M "
            "agent steps), mean of the last 100 training games, 3 seeds. Preset baselines has the settings of that "
            "code.",
            "Deviations: the published runs used NoFrameskip environments with up to 30 no-ops and ended a return at "
            "a lost life; ours are the emulator's vector environments with the same preprocessing. Our A3C is ACER at "
            "replay ratio 0 without trust region, on 16 environments in lockstep; it is compared with the PPO "
            "paper's A2C.",
        ),
        envs=tuple(f"atari/{game}" for game in GAME_SETS["atari49"]),
        methods=grids.table_atari49(),
        seeds=3,
        report=atari.table49,
    ),
    Experiment(
        name="table1_prioritized",
        title="Table 1 of prioritized experience replay",
        summary="Table 1 of the prioritized-replay paper: median and mean human-normalised scores of DQN's family.",
        examples=("--games=atari5 --agents=ddqn_tuned,ddqn_proportional --total_steps=5_000_000",),
        text=(
            "Reproduces Table 1 of Schaul et al. 2016: DQN with uniform and rank-based replay, Double DQN with "
            "uniform, rank-based and proportional replay, 200M frames. The published columns are recomputed from the "
            "paper's scores by game, over the games of ours and over all of the paper's (49 for DQN, else 57).",
            "Deviations: ours are training scores of the last 1M frames under the exploring policy, normalised by "
            "no-op references; the paper evaluates the best agent of each run from human starts, which are not public.",
        ),
        envs=grids.ATARI57,
        methods=grids.table1_prioritized(),
        seeds=1,
        report=atari.table1,
    ),
    Experiment(
        name="figure1_minatar",
        title="Figure 1's design on MinAtar",
        summary="Figure 1's design on MinAtar: replay ratios with and without trust region, at a scale that one "
        "machine finishes.",
        examples=(
            "--processes=2",
            "--games=breakout --agents=replay0_trust,replay4_trust --seeds=1",
            "--preset=paper --processes=2",
        ),
        text=_minatar_text("baselines"),
        envs=grids.MINATAR,
        methods=grids.figure1_minatar(),
        seeds=3,
        report=functools.partial(
            minatar.report,
            # With trust region against without; without, against the ratio below.
            against={
                **{f"replay{ratio}_trust": f"replay{ratio}" for ratio in (0, 1, 4, 8)},
                "replay1": "replay0",
                "replay4": "replay1",
                "replay8": "replay4",
                "prioritized": "ddqn",
            },
        ),
        flags=_define_preset,
        chosen=_with_preset,
    ),
    Experiment(
        name="table_minatar_priorities",
        title="Prioritized replay on MinAtar",
        summary="Prioritized replay on MinAtar: Double DQN and ACER, each with uniform, proportional and rank-based "
        "replay.",
        examples=("--processes=2", "--report_only"),
        text=(
            "Double DQN with uniform, proportional and rank-based replay (Schaul et al. 2016: a quarter of the "
            "learning rate with priorities), and ACER with the same for its trajectories, which is this package's "
            "extension; five games, a million steps, three seeds.",
            "Nothing of this was published: scores are normalised by random play and by ACER with replay 4 and trust "
            "region. DQN's replay start, memory, exploration and target period are Atari's, shortened for runs of a "
            "million steps.",
        ),
        envs=grids.MINATAR,
        methods=grids.minatar_priorities(),
        seeds=3,
        report=functools.partial(
            minatar.report,
            against={
                "ddqn_proportional": "ddqn",
                "ddqn_rank": "ddqn",
                "acer_proportional": "acer",
                "acer_rank": "acer",
            },
        ),
    ),
    Experiment(
        name="figure3_continuous",
        title="Figure 3 of ACER: continuous control",
        summary="Figure 3 of the ACER paper: ACER, Trust-TIS, TIS, Trust-A3C and A3C on six control tasks.\n\n"
        "By the paper's protocol (the last two examples) it shows the best five of thirty draws of learning rate and "
        "δ:\nfirst all draws are run, then those five for longer.",
        examples=(
            "--plan",
            "--processes=2 --output=runs/figure3",
            "--tasks=walker2d --seeds=1 --total_steps=3_000_000 --skip_recorded \\\n    --setting=log_interval=30_000",
            "--tasks=reacher3 --draws=30 --best=5 --total_steps=1_000_000",
            "--tasks=reacher3 --draws=30 --best=5 --best_of=my_results/figure3_draws \\\n"
            "    --total_steps=3_000_000 --output=my_results/figure3_best",
        ),
        text=(
            "Reproduces Figure 3 of Wang et al. 2017: five methods on six MuJoCo tasks with episodes of 500 steps; "
            "A3C's variants get twice the steps, as there.",
            grids.CONTROL_DEVIATIONS,
            grids.CONTROL_SETTING,
        ),
        envs=grids.CONTROL,
        methods=grids.figure3_continuous(),
        seeds=3,
        report=control.figure3,
        flags=draws.define,
        chosen=draws.chosen,
    ),
    Experiment(
        name="table_control",
        title="Continuous control, as numbers",
        summary="The cells of Figure 3 as numbers: returns by task and method beside the paper's.",
        examples=("--tasks=reacher3 --total_steps=2_000_000", "--report_only"),
        text=(
            "Final returns of the same runs as Figure 3's beside the published curves at equal steps and at their "
            "end, and the order of the methods in both.",
            grids.CONTROL_DEVIATIONS,
            grids.CONTROL_SETTING,
        ),
        envs=grids.CONTROL,
        methods=grids.figure3_continuous(),
        seeds=3,
        report=control.table,
    ),
    Experiment(
        name="figure4_ablation",
        title="Figure 4 of ACER: ablations",
        summary="Figure 4 of the ACER paper: continuous ACER without one of its parts, on fish, walker2d and humanoid.",
        examples=("--tasks=walker2d --total_steps=3_000_000 --seeds=1",),
        text=(
            "Reproduces Figure 4 of Wang et al. 2017: ACER without the trust region, without stochastic dueling "
            "networks (a separate network for Q), without Retrace and Q_opc (both replaced by importance-sampled "
            "returns), and without truncation and bias correction (c infinite).",
            grids.CONTROL_DEVIATIONS,
            grids.CONTROL_SETTING,
        ),
        envs=grids.ABLATION_TASKS,
        methods=grids.figure4_ablation(),
        seeds=3,
        report=control.figure4,
        published=published_ablations,
    ),
    Experiment(
        name="figure5_sensitivity",
        title="Figures 5 and 6 of ACER: learning rate and δ",
        summary="Figures 5 and 6 of the ACER paper: how much learning rate and δ matter to continuous ACER.",
        examples=("--tasks=cheetah --agents=draw0,draw1,draw2,draw3 --total_steps=1_000_000",),
        text=(
            "Reproduces Figures 5 and 6 of Wang et al. 2017: a random search over learning rate (log-uniform in 1e-4 "
            "to 10^-3.3) and δ (uniform in 0.1 to 2). The settings are those that the paper drew, as far as its "
            "figures show them, so that each of our points has its counterpart.",
            grids.CONTROL_DEVIATIONS,
        ),
        envs=grids.CONTROL,
        methods=grids.figure5_sensitivity(),
        seeds=1,
        report=control.figure5,
    ),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _EXPERIMENTS}
