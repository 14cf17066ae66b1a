"""Actors apart from learning: the same rows in one process and on Ray, and what happens when an actor is lost."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from ray.cluster_utils import Cluster

from acer_tf import envs
from acer_tf.errors import EnvironmentFailure, Interrupted, SettingsError
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.settings import make_settings
from acer_tf.training.build import make_replay
from acer_tf.training.train import train
from tests.gymnasium_ids import TAXI
from tests.training.scripted import check_progress, rows_of, small_settings, timeless
from tests.training.test_runs_of_spaces import parted_cart_pole

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("light_policies")]
ROOT = Path(__file__).parents[2]
SMALL = {
    "num_envs": 4,
    "unroll_length": 5,
    "replay_start": 10,
    "replay_capacity": 100,
    "replay_ratio": 2.0,
    "log_interval": 100,
    "total_steps": 300,
}
TASKS: dict[str, tuple[dict, Callable | None]] = {
    "MinAtar by priority": ({"env": "minatar/breakout", "agent": "dqn", "preset": "ddqn_proportional"}, None),
    "stacked frames": ({"env": "atari/Pong", "replay_ratio": 1.0}, None),
    "continuous actions": ({"env": "control/reacher3", "agent": "acer_continuous", "total_steps": 600}, None),
    "recurrent with action masks": (
        {"env": TAXI, "preset": "classic", "network": "mlp", "lstm_units": 256, "burn_in": 5},
        None,
    ),
    "several arrays": ({"env": "Parted", "preset": "classic"}, parted_cart_pole),
}


# The same rows in this process and on Ray


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of this machine whose first node takes no actor."""
    handler = signal.getsignal(signal.SIGTERM)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    cluster.add_node(num_cpus=4)
    yield cluster
    cluster.shutdown()
    signal.signal(signal.SIGTERM, handler)  # every node puts its own there


def both(
    values: dict, folder: Path, address: str, actors: int, interrupt: int = 0, **given
) -> list[list[dict[str, str]]]:
    """progress.csv, times aside, of a run whose actors are in one process, and of the same on Ray."""
    found = []
    for where in (None, address):
        run_dir = folder / ("there" if where else "here")
        settings = make_settings(values, actors=actors)
        if interrupt:

            def stop(row, policy):
                if row["steps"] >= interrupt:
                    raise InterruptedError

            with pytest.raises(InterruptedError):
                train(settings, run_dir, threads=1, ray_address=where, quiet=True, on_row=stop, **given)
            before = rows_of(run_dir)
        train(settings, run_dir, threads=1, ray_address=where, quiet=True, **given)
        assert not interrupt or rows_of(run_dir)[: len(before)] == before, "it began anew"
        check_progress(run_dir, settings)
        found.append(timeless(run_dir))
    return found


@pytest.mark.parametrize("task", TASKS)
def test_actors_on_ray_collect_what_they_would_in_one_process(task: str, tmp_path: Path, cluster: Cluster):
    values, env = TASKS[task]
    interrupt = 200 if "recurrent" in task else 0  # the most of state
    actors = 2 if "recurrent" in task or "priority" in task else 1  # what is in rows does not matter for joining them
    here, there = both({**SMALL, **values}, tmp_path, cluster.address, actors, interrupt, env=env)
    assert here == there
    assert int(here[-1]["replay_updates"]) > 5


# Faults


def remote_actors() -> list[psutil.Process]:
    """The processes of the actors that Ray runs for this process, ready to act."""
    children = psutil.Process().children(recursive=True)
    return [process for process in children if " ".join(process.cmdline()).startswith("ray::_Remote")]


def history(run_dir: Path) -> list[str]:
    document = json.loads((run_dir / "run.json").read_text())
    return [note for entry in document.get("history", []) for note in entry["notes"]]


def test_an_actor_that_hangs_is_replaced(tmp_path: Path, cluster: Cluster):
    settings = small_settings(actors=2, total_steps=600)
    hung: list[psutil.Process] = []

    def row(*_):
        if not hung:
            hung.append(remote_actors()[0])
            hung[0].send_signal(signal.SIGSTOP)

    train(settings, tmp_path / "run", ray_address=cluster.address, actor_timeout=15.0, quiet=True, on_row=row)
    check_progress(tmp_path / "run", settings)
    (note,) = history(tmp_path / "run")
    assert note.endswith(" gave no unroll for 15 s: another takes its place, with new episodes")
    assert not hung[0].is_running() or hung[0].status() == psutil.STATUS_ZOMBIE


def test_a_run_that_waits_for_an_actor_can_be_stopped(tmp_path: Path, cluster: Cluster):
    settings = small_settings(actors=1, total_steps=600)

    def row(*_):
        remote_actors()[0].send_signal(signal.SIGSTOP)
        threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGTERM)).start()

    with pytest.raises(Interrupted):
        train(settings, tmp_path / "run", ray_address=cluster.address, quiet=True, on_row=row)
    assert history(tmp_path / "run") == []
    before = rows_of(tmp_path / "run")
    train(settings, tmp_path / "run", quiet=True)  # without Ray, whose rows are the same
    assert rows_of(tmp_path / "run")[: len(before)] == before
    check_progress(tmp_path / "run", settings)


class Endless(CartPoleEnv):
    """Its episodes never end by themselves."""

    def step(self, action):
        observation, reward, _, _, info = super().step(action)
        return observation, reward, False, False, info


def test_a_node_dies_and_its_environments_are_truncated_once(tmp_path: Path, cluster: Cluster):
    """Four environments, two of them on the node that dies."""
    settings = small_settings(num_envs=4, actors=2, total_steps=1500, replay_capacity=2000)
    other = cluster.add_node(num_cpus=4)
    rows = []

    def row(values, policy):
        rows.append(values["steps"])
        if len(rows) == 1:
            cluster.remove_node(other, allow_graceful=False)
        elif history(tmp_path / "run"):
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(settings, tmp_path / "run", ray_address=cluster.address, quiet=True, on_row=row, env=Endless)
    notes = history(tmp_path / "run")
    (lost,) = {int(note.split()[1]) for note in notes}  # Ray may first try again on the node that died
    replay = make_replay(settings, envs.spec("CartPole-v1"))
    Checkpoints(tmp_path / "run" / "checkpoints").restore(replay)
    discount, mask = (replay._gather(name, np.arange(replay.rows)) for name in ("discount", "mask"))
    assert (~mask).sum(axis=1).tolist() == [int(env // 2 == lost) for env in range(4)]
    assert (discount[:, :-1][~mask[:, 1:]] == 1).all()
    before = rows_of(tmp_path / "run")
    train(settings, tmp_path / "run", quiet=True, env=Endless)
    assert rows_of(tmp_path / "run")[: len(before)] == before
    check_progress(tmp_path / "run", settings)
    assert history(tmp_path / "run") == notes


TRAINS = """
import pathlib, sys
from acer_tf.commands.train import run
from tests.training.scripted import small_settings

settings = small_settings(actors=1, total_steps=1_000_000, log_interval=100)
run_dir, address = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.exit(run(settings, run_dir, ray_address=address, quiet=True, on_row=lambda row, _: print(row["steps"], flush=True)))
"""


def program_of(process: psutil.Process) -> str:
    """Its program, or how it calls itself; "" if it has ended."""
    return " ".join(process.as_dict(["cmdline"])["cmdline"] or ()).partition(" ")[0]


@pytest.mark.parametrize(
    ("local", "lost"),
    [(True, "ray::DashboardAgent"), (False, "raylet"), (False, "gcs_server")],
)
def test_whatever_part_of_a_cluster_is_killed_the_run_ends_after_a_checkpoint(local: bool, lost: str, tmp_path: Path):
    """Ray ends the processes that are connected to a raylet that dies."""
    others = set(psutil.Process().children(recursive=True))
    head = None if local else Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    command = [sys.executable, "-c", TRAINS, str(tmp_path / "run"), head.address if head else "local"]
    learner = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert any(int(steps) > 300 for steps in learner.stdout)
        below = psutil.Process(learner.pid).children(recursive=True)
        cluster = set(psutil.Process().children(recursive=True)) - others - (set(below) if head else set())
        (victim,) = [process for process in cluster if program_of(process).endswith(lost)]
        victim.kill()
        _, err = learner.communicate(timeout=100)
        assert learner.returncode == 1
        line = err.strip().splitlines()[-1]
        assert line.startswith("error: stopped: the Ray cluster is gone: ")
        assert line.endswith("; the same command continues from the last checkpoint")
        assert Checkpoints(tmp_path / "run" / "checkpoints").restore(None).state["actor"]["steps"] > 300
        assert not psutil.wait_procs(below, timeout=1)[1]
    finally:
        learner.kill()
        if head:
            head.shutdown()


class Fails(CartPoleEnv):
    """Raises in its third step."""

    count = 0

    def step(self, action):
        self.count += 1
        if self.count == 3:
            raise ValueError("no more steps")
        return super().step(action)


class RefusesAll(CartPoleEnv):
    """Raises where an actor is, not where the run checks the environment."""

    def __init__(self):
        super().__init__()
        if remote():
            raise ValueError("no licence on this node")


def remote() -> bool:
    return os.path.basename(sys.argv[0]) == "default_worker.py"


def test_an_actor_that_cannot_begin_says_why(tmp_path: Path, cluster: Cluster):
    with pytest.raises(EnvironmentFailure, match=r"no licence on this node"):
        train(small_settings(actors=1), tmp_path / "run", ray_address=cluster.address, quiet=True, env=RefusesAll)
    assert history(tmp_path / "run") == []


def test_an_error_in_an_actor_ends_the_run_as_it_would_here(tmp_path: Path, cluster: Cluster):
    settings = small_settings(actors=1)
    with pytest.raises(EnvironmentFailure, match=r"^CartPole-v1 failed .*: ValueError: no more steps$") as error:
        train(settings, tmp_path / "run", ray_address=cluster.address, quiet=True, env=Fails)
    assert "no more steps" in str(error.value.__cause__)


def test_ray_without_actors_or_without_a_cluster_is_refused_before_anything_is_written(tmp_path: Path):
    run_dir = tmp_path / "run"
    with pytest.raises(SettingsError, match="^--ray_address=local: .*--actors=0"):
        train(small_settings(), run_dir, ray_address="local")
    with pytest.raises(SettingsError, match="^--actors=3: .*--num_envs=2"):
        small_settings(actors=3)
    with pytest.raises(SettingsError, match="^--ray_address=127.0.0.1:1"):
        train(small_settings(actors=2), run_dir, ray_address="127.0.0.1:1")
    assert not run_dir.exists()
