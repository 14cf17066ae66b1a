"""ACER and our DQN beside Stable-Baselines3's PPO and DQN on MinAtar, each with the rate that it chose on other games.

python results/peers/choose_rates.py choose --sb3=runs/peers/sb3/bin/python
python results/peers/choose_rates.py test --sb3=runs/peers/sb3/bin/python
python results/peers/choose_rates.py show

`choose` runs every method with every learning rate on two games. `test` runs each with the one that was best there, on
the other three games and with other seeds. `show` prints both tables, and gives `acer_tf curves` the tests. Runs lie in
runs/minatar_rates; the same command continues them.

All that replay have a memory of 100,000 steps, and both DQNs begin to learn after 10,000 and explore for 100,000. What
else there is are our presets' settings for MinAtar and RL Zoo's for Atari.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from acer_tf.errors import AcerError, CurveError
from acer_tf.reproduction.curves import final_return, read_run
from acer_tf.reproduction.minatar import normalize
from acer_tf.reproduction.statistics import interquartile_mean, mean_and_error

RUNS = Path("runs/minatar_rates")
SB3 = (str(Path(__file__).with_name("sb3_learn.py")),)
OURS = ("-m", "acer_tf", "train")
DQN = ("--set=learning_starts=10_000", "--set=exploration_fraction=0.2")
METHODS = {
    "acer": ("ACER, replay 4", (*OURS, "--agent=acer", "--replay_capacity=6_250")),
    "dqn": ("our DQN", (*OURS, "--agent=dqn")),
    "sb3_ppo": ("Stable-Baselines3's PPO", (*SB3, "--algorithm=ppo")),
    "sb3_dqn": ("Stable-Baselines3's DQN", (*SB3, "--algorithm=dqn", *DQN)),
}
RATES = ("1e-4", "3e-4", "1e-3", "3e-3")
SEED = 100  # of the choice; the tests have those from 0 on
CHOOSING, TESTING = ("asterix", "breakout"), ("freeway", "seaquest", "space_invaders")
STEPS = 500_000


class Run(NamedTuple):
    method: str
    rate: str
    game: str
    seed: int

    @property
    def folder(self) -> Path:
        return RUNS / f"{self.method}-{self.rate}-{self.game}-{self.seed}"

    def score(self) -> float:
        """The mean return of the last 10 % of the steps; raises CurveError unless they are all done."""
        run = read_run(self.folder)
        if run.steps[-1] < STEPS:
            raise CurveError(f"{self.folder} has {run.steps[-1]:,.0f} of {STEPS:,} steps")
        return final_return(run, 0.1)

    def learn(self, sb3: str) -> str:
        """Runs it, or the rest of it, on one thread; returns what went wrong."""
        program = METHODS[self.method][1]
        rate = f"--set=learning_rate={self.rate}" if program[0] == SB3[0] else f"--learning_rate={self.rate}"
        flags = [f"--env=minatar/{self.game}", f"--seed={self.seed}", f"--total_steps={STEPS}", "--threads=1"]
        python = sb3 if program[0] == SB3[0] else sys.executable
        command = [python, *program, *flags, rate, "--log_interval=10000", f"--run_dir={self.folder}"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        return "" if done.returncode == 0 else f"{self.folder}: {(done.stderr.strip() or 'ended').splitlines()[-1]}"


def choices() -> list[Run]:
    return [Run(*key, SEED) for key in itertools.product(METHODS, RATES, CHOOSING)]


def chosen() -> dict[str, str]:
    """Of each method the rate with the highest mean of the normalized scores of the games of choice."""
    best = {}
    for method in METHODS:
        scores = {rate: np.mean(normalized(Run(method, rate, game, SEED) for game in CHOOSING)) for rate in RATES}
        best[method] = max(scores, key=scores.__getitem__)
    return best


def tests(seeds: int) -> list[Run]:
    best = chosen()
    cells = itertools.product(range(seeds), TESTING)
    return [Run(method, rate, game, seed) for seed, game in cells for method, rate in best.items()]


def normalized(runs: Iterable[Run]) -> list[float]:
    return [normalize(f"minatar/{run.game}", run.score()) for run in runs]


def learn(runs: list[Run], sb3: str, processes: int) -> int:
    """Returns the exit status. After Ctrl-C the runs that are under way save a checkpoint, and no other begins."""
    with ThreadPoolExecutor(processes) as pool:
        try:
            for count, wrong in enumerate(pool.map(lambda run: run.learn(sb3), runs), start=1):
                print(f"{count}/{len(runs)}  {wrong or runs[count - 1].folder.name}", flush=True)
                if wrong:
                    return 1
            return 0
        finally:
            pool.shutdown(cancel_futures=True)


def show(seeds: int) -> int:
    print("| method | " + " | ".join(RATES) + " |\n|---|" + "---|" * len(RATES))
    for method, (label, _) in METHODS.items():
        rows = [normalized(Run(method, rate, game, SEED) for game in CHOOSING) for rate in RATES]
        print(f"| {label} | " + " | ".join(", ".join(f"{score:.2f}" for score in row) for row in rows) + " |")
    print(f"\n| method | rate | {' | '.join(TESTING)} | interquartile mean, normalized |\n|---|---|" + "---|" * 4)
    command = [sys.executable, "-m", "acer_tf", "curves", "--hours", "--page=results"]
    command.append("--output=results/peers/minatar_rates")
    for method, rate in chosen().items():
        runs = [[Run(method, rate, game, seed) for seed in range(seeds)] for game in TESTING]
        shown = [mean_and_error([run.score() for run in row]) for row in runs]
        middle = interquartile_mean([normalized(row) for row in zip(*runs, strict=True)])
        label = METHODS[method][0]
        columns = [label, rate, *(f"{mean:.1f} ± {error:.1f}" for mean, error in shown), str(middle)]
        print(f"| {' | '.join(columns)} |")
        folders = [str(run.folder) for row in runs for run in row]
        command.append(f"--runs={label}={','.join(folders)}")
    return subprocess.run(command).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["choose", "test", "show"])
    parser.add_argument("--sb3", help="the Python that has Stable-Baselines3: see results/peers/README.md")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    trains = args.stage != "show"
    if trains and not (args.sb3 and Path(args.sb3).exists()):
        parser.error(f"--sb3={args.sb3}: must be the Python that has Stable-Baselines3")
    try:
        if not trains:
            return show(args.seeds)
        return learn(choices() if args.stage == "choose" else tests(args.seeds), args.sb3, args.processes)
    except AcerError as error:
        parser.error(f"{error}: run what comes before {args.stage} to its end")


if __name__ == "__main__":
    sys.exit(main())
