"""A campaign of faults: attempts to make a run, a sweep or a policy lose something, or fail without a clear message.

python -m tests.torture --seed=0 --minutes=60 --output=results/reliability

--minutes scales the number of attempts: 60 is the whole, an hour on two idle cores. --only=kill:17 repeats an attempt,
whose random numbers depend on the seed and its name alone. Exit status 1 if an attempt was judged wrong. Linux only;
attempts with a full disk are skipped where none can be mounted.
"""

import argparse
import collections
import functools
import json
import math
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pandas

from acer_tf.reproduction.report.output import Table, markdown
from acer_tf.runs.provenance import provenance
from tests.torture import (
    answers,
    clusters,
    common,
    damage,
    evaluated,
    faulty,
    flags,
    kills,
    masks,
    searches,
    signals,
    spaces,
    strangers,
    together,
    vectors,
    workers,
)

# What is attempted, and how often in the whole campaign.
KINDS = {
    "kill": (kills.kill, 70),
    "kill_sweep": (kills.kill_sweep, 4),
    "signals": (signals.train, 70),
    "signals_played": (signals.evaluate, 15),
    "signals_exported": (signals.export, 15),
    "ray": (clusters.kill, 16),
    "damage": (damage.damage, 80),
    "disk": (kills.fill_disk, 10),
    "flags": (flags.fuzz, 350),
    "spaces": (spaces.spaces, 90),
    "policies": (strangers.policy, 80),
    "observations": (strangers.observation, 100),
    "together": (together.together, 25),
    "sweeps": (together.sweeps, 3),
    "environments": (faulty.faulty, 60),
    "endless": (faulty.endless, 10),
    "workers": (workers.workers, 16),
    "evaluated": (evaluated.evaluated, 30),
    "searches": (searches.search, 14),
    "masks": (masks.masks, 40),
    "vectors": (vectors.vectors, 40),
    "answers": (answers.answers, 10),
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser("tests.torture", None, __doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--output", type=Path, help="folder for seed-N.md, the table, and seed-N.csv, every attempt")
    parser.add_argument("--only", action="append", default=[], help=f"KIND:NUMBER of {', '.join(KINDS)}; repeatable")
    given = parser.parse_args(argv)
    asked = [(kind, int(number or 0)) for kind, _, number in (text.partition(":") for text in given.only)]
    if unknown := {kind for kind, _ in asked} - set(KINDS):
        parser.error(f"--only={unknown.pop()}: must be of {', '.join(KINDS)}")
    for kind, (_, count) in {} if asked else KINDS.items():
        asked += [(kind, number) for number in range(math.ceil(count * given.minutes / 60))]
    random.Random(given.seed).shuffle(asked)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True) as scratch:
        attempts = _attempt_all(asked, given.seed, Path(scratch))
    counts = _table(attempts)
    rows = [[str(cell) for cell in row] for row in counts.itertuples()]
    print(f"\n{(table := markdown(Table('', ['attempts', *counts], rows)))}")
    if given.output:
        _write(given.output, given.seed, table, attempts, time.monotonic() - began)
    return int(any(attempt.wrong for attempt in attempts.values()))


def _attempt_all(asked: list[tuple[str, int]], seed: int, scratch: Path) -> dict[str, common.Attempt]:
    """By name, one per core at a time, each in a process of its own."""
    ended, working, waiting = {}, {}, collections.deque(asked)
    while waiting or working:
        while waiting and len(working) < len(os.sched_getaffinity(0)):
            kind, number = waiting.popleft()
            folder = scratch / f"{kind}-{number}"
            folder.mkdir()
            action = functools.partial(_attempt, kind, f"{seed} {kind} {number}", folder)
            working[f"{kind}:{number}"] = folder, common.Fork(action, folder / "campaign"), time.monotonic()
        time.sleep(0.05)
        for name in [name for name, (_, fork, _) in working.items() if not fork.process.is_alive()]:
            folder, process, began = working.pop(name)
            failed = name, "", f"the campaign itself failed: {process.end().err[-300:]}"
            answer = folder / "attempt.json"
            each = common.Attempt(*(json.loads(answer.read_text()) if answer.exists() else failed))
            ended[name] = each = each._replace(seconds=round(time.monotonic() - began, 1))
            shutil.rmtree(folder, ignore_errors=True)
            verdict = f"WRONG: {each.wrong}" if each.wrong else f"skipped: {each.skipped}" if each.skipped else "right"
            print(f"[{len(ended)}/{len(asked)}] {name} {each.what!r:.150} {verdict}", flush=True)
    return ended


def _attempt(kind: str, seed: str, folder: Path) -> None:
    try:
        text = json.dumps(KINDS[kind][0](random.Random(seed), folder))
        (folder / "attempt.json").write_text(text.replace(f"{folder}/", ""))
    finally:  # if the attempt itself failed, Python would wait for those that never end
        for process in multiprocessing.active_children():
            process.kill()


def _table(attempts: dict[str, common.Attempt]) -> pandas.DataFrame:
    every = pandas.DataFrame(attempts.values())
    wrong = every.wrong != ""
    skipped = (every.skipped != "") & ~wrong
    columns = {"tried": ~skipped, "right": ~skipped & ~wrong, "wrong": wrong, "skipped": skipped}
    counts = pandas.DataFrame({"attempts": every.kind, **columns}).groupby("attempts").sum()
    counts = pandas.concat([counts, counts.sum().to_frame("all").T])
    means = every.groupby("kind").seconds.mean().to_dict() | {"all": every.seconds.mean()}
    return counts.assign(**{"mean seconds": [f"{means[kind]:.1f}" for kind in counts.index]})


def _write(output: Path, seed: int, table: str, attempts: dict[str, common.Attempt], seconds: float) -> None:
    made = provenance()
    machine = f"{made['machine']['processor']}, {made['machine']['cores']} cores"
    head = f"Seed {seed}, commit {made['commit']}, {machine}, {seconds / 60:.0f} minutes, ended {made['started']}."
    wrong = [f"- `{name}` {each.kind}: {each.what}: {each.wrong}" for name, each in attempts.items() if each.wrong]
    output.mkdir(parents=True, exist_ok=True)
    (output / f"seed-{seed}.md").write_text("\n".join([head, "", table, "", *sorted(wrong)]).strip() + "\n")
    pandas.DataFrame(attempts.values(), attempts).sort_index().to_csv(output / f"seed-{seed}.csv")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
