"""Threads and devices; TensorFlow's answers about GPUs are replaced where several are needed."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from acer_tf import make_settings
from acer_tf.errors import SettingsError
from acer_tf.resources import available_cores
from acer_tf.training import run
from acer_tf.training.acting_threads import ActingThreads
from acer_tf.training.device import CPU, Device, find_device, gpu_count, use_device, use_threads
from acer_tf.training.train import train
from tests.torture import common
from tests.training.scripted import small_settings, timeless

H200 = Device("gpu:0", "NVIDIA H200", (9, 0))
CORES = available_cores()
THREADING = tf.config.threading
T4 = Device("gpu:1", "Tesla T4", (7, 5))


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs; the list of what TensorFlow was told about them."""
    details = {"first": H200, "second": T4}
    told = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: list(details))
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: list(details))
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda gpu: None)
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda gpu: {"device_name": details[gpu].model, "compute_capability": details[gpu].compute_capability},
    )
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda devices, kind: told.append(("visible", *devices)))
    monkeypatch.setattr(
        tf.config.experimental, "set_memory_growth", lambda gpu, grow: told.append(("growth", gpu, grow))
    )
    monkeypatch.setattr(
        tf.config,
        "set_logical_device_configuration",
        lambda gpu, parts: told.append(("limit", gpu, *(round(part.memory_limit) for part in parts))),
    )
    monkeypatch.setattr(
        tf.config.experimental, "enable_tensor_float_32_execution", lambda enabled: told.append(("tf32", enabled))
    )
    return told


@pytest.fixture
def drivers(tmp_path):
    """What stands for /dev."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidia0").touch()
    return tmp_path / "dev"


def test_the_first_gpu_is_used_unless_another_device_is_named(gpus, drivers):
    assert [find_device(name, drivers) for name in ("auto", "gpu:0", "gpu:1", "cpu")] == [H200, H200, T4, CPU]
    assert (str(H200), str(CPU)) == ("gpu:0 (NVIDIA H200)", "cpu")
    with pytest.raises(SettingsError, match=r"^--device=gpu:2"):
        find_device("gpu:2", drivers)


@pytest.mark.parametrize(("visible", "device"), [([], CPU), (["second"], T4)])
def test_a_gpu_that_a_script_has_hidden_is_not_chosen(visible, device, gpus, drivers, monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: visible)
    assert find_device("auto", drivers) == device
    assert find_device("gpu:0", drivers) == H200


def test_a_bound_that_a_script_or_an_earlier_run_has_set_stays(gpus, monkeypatch):
    """TensorFlow refuses another: ValueError for growth."""
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda gpu: ["a bound"])
    for memory_gb in (0.0, 8.0):
        use_device(H200, memory_gb=memory_gb)
    assert {what for what, *_ in gpus} == {"visible", "tf32"}


@pytest.mark.parametrize("name", ["", "gpu", "GPU:0", "gpu:-1", "gpu:1e3", "cuda:0", "cpu:0"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(SettingsError, match="^--device="):
        find_device(name)


def test_a_gpu_that_tensorflow_cannot_use_is_said(drivers, monkeypatch, capsys):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    assert find_device("auto", drivers) == CPU
    assert "tensorflow[and-cuda]" in capsys.readouterr().err
    assert find_device("auto", drivers / "none") == CPU
    assert capsys.readouterr().err == ""


def test_one_gpu_is_visible_and_its_memory_grows_or_is_bounded(gpus):
    use_device(T4)
    assert gpus == [("visible", "second"), ("tf32", False), ("growth", "second", True)]
    gpus.clear()
    use_device(H200, tf32=True, memory_gb=2**20 / 1e6)
    assert gpus == [("visible", "first"), ("tf32", True), ("limit", "first", 1000)]
    gpus.clear()
    use_device(CPU)
    assert gpus == [("visible",)]


def test_a_gpu_is_divided_for_acting_on_a_second_logical_device(gpus, monkeypatch):
    limits = [5e9 / 2**20, 2e9 / 2**20]
    assert use_device(H200, memory_gb=4.0, acting="cpu") == "/CPU:0"
    assert use_device(CPU, acting="cpu") is None
    assert use_device(H200) is None
    gpus.clear()
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda gpu: gpus[2][2:] if gpus[2:] else None)
    assert use_device(H200, memory_gb=7.0, acting="second") == "/GPU:1"
    assert gpus == [("visible", "first"), ("tf32", False), ("limit", "first", *map(round, limits))]


def test_where_tensorflow_has_started_the_devices_stay_and_nothing_acts_elsewhere(gpus, monkeypatch, capsys):
    def too_late(devices, kind):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "set_visible_devices", too_late)
    kept = "TensorFlow has already started: it keeps its devices and what it takes of their memory\n"
    assert use_device(H200) is None
    assert capsys.readouterr().err == kept
    assert use_device(H200, memory_gb=7.0, acting="second") is None
    one = "--acting_device=second: TensorFlow keeps its one device; actors compute where updates do\n"
    assert capsys.readouterr().err == kept + one
    assert gpus == []


@pytest.mark.process
def test_no_gpu_is_asked_for_where_there_is_no_driver(tmp_path):
    program = (
        "import pathlib, sys; from acer_tf.training.device import find_device;"
        f"print(find_device('auto', pathlib.Path({str(tmp_path)!r})), 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "cpu False\n"


@pytest.mark.training
def test_a_run_records_its_device_and_refuses_what_it_lacks(tmp_path):
    settings = make_settings(env="CartPole-v1", total_steps=400, replay_start=100, log_interval=200)
    with pytest.raises(SettingsError, match=f"^--device=gpu:7: .*{gpu_count()} GPUs"):
        train(settings, tmp_path / "run", device="gpu:7", quiet=True)
    with pytest.raises(SettingsError, match="^--precision=tf32"):
        train(make_settings(env="CartPole-v1", precision="tf32"), tmp_path / "run", device="cpu", quiet=True)
    assert not (tmp_path / "run").exists()
    train(settings, tmp_path / "run", device="cpu", quiet=True)
    record = json.loads(Path(tmp_path / "run/run.json").read_text())
    assert record["device"] == {"name": "cpu", "model": "", "compute_capability": None, "acting": None}


def in_another_process(action, tmp_path, *arguments):
    """What `action` prints in a process in which TensorFlow has not computed yet."""
    done = common.Fork(functools.partial(action, *arguments), tmp_path / "log", server=True).end()
    assert done.status == 0, done.err
    return done


def limit_threads(threads, given, acting):
    print(use_threads(threads, small_settings(env="minatar/breakout", **given), acting=acting))
    print([get() for get in (THREADING.get_intra_op_parallelism_threads, THREADING.get_inter_op_parallelism_threads)])


def limit_threads_too_late():
    THREADING.set_intra_op_parallelism_threads(4)
    THREADING.set_inter_op_parallelism_threads(3)
    tf.constant(1.0) + 1.0
    for threads in (1, 0):
        print(use_threads(threads, small_settings(env="minatar/breakout", network="small")))


def act_on(acting_device, run_dir):
    class Seen(ActingThreads):
        def __init__(self, make, agent, acting, count, **options):
            act = acting._act

            def seen(*arguments):
                found = act(*arguments)
                places.update(each.device[-5:] for each in found)
                return found

            acting._act = seen
            super().__init__(make, agent, acting, count, **options)

    places = set()
    run.ActingThreads = Seen
    settings = small_settings(env="minatar/breakout", num_envs=4, total_steps=300, actors=2)
    train(settings, run_dir, threads=2, quiet=True, acting_device=acting_device)
    print(*places)


def act_in_turn_by_two_threads(run_dir):
    """As many threads share an operation as in `act_on`: another number adds in another order."""
    THREADING.set_intra_op_parallelism_threads(2)
    tf.constant(1.0) + 1.0
    settings = small_settings(env="minatar/breakout", num_envs=4, total_steps=300, actors=1)
    train(settings, run_dir, threads=1, quiet=True)


@pytest.fixture(scope="module")
def rows_in_turn(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("in_turn") / "run"
    in_another_process(act_in_turn_by_two_threads, run_dir.parent, run_dir)
    return timeless(run_dir)


@pytest.mark.process
@pytest.mark.parametrize(("acting_device", "place"), [("same", "CPU:0"), ("second", "CPU:1"), ("cpu", "CPU:0")])
def test_a_run_that_acts_elsewhere_leaves_the_same_rows(acting_device, place, tmp_path, rows_in_turn):
    done = in_another_process(act_on, tmp_path, acting_device, tmp_path / "run")
    assert done.out.splitlines() == [place]
    recorded = json.loads((tmp_path / "run/run.json").read_text())["device"]["acting"]
    assert recorded == (f"/{place}" if acting_device == "second" else None)
    assert timeless(tmp_path / "run") == rows_in_turn


def act_in_turn(run_dir):
    settings = small_settings(env="minatar/breakout", num_envs=4, total_steps=100, actors=1)
    train(settings, run_dir, threads=1, quiet=True, acting_device="second")
    print(len(tf.config.list_logical_devices("CPU")))


@pytest.mark.process
def test_a_run_that_acts_in_turn_acts_where_updates_compute_and_says_so(tmp_path):
    assert in_another_process(act_in_turn, tmp_path, tmp_path / "run").out == "1\n"
    assert json.loads((tmp_path / "run/run.json").read_text())["device"]["acting"] is None


def test_acting_elsewhere_is_refused_where_nothing_acts_beside(tmp_path, gpus, monkeypatch):
    for given in ({}, {"ray_address": "local"}):
        with pytest.raises(SettingsError, match="^--acting_device=second: has an effect only with --actors, in this"):
            train(small_settings(actors=2 if given else 0), tmp_path / "run", acting_device="second", **given)
    with pytest.raises(SettingsError, match="^--acting_device=third: must be of same, second, cpu"):
        train(small_settings(), tmp_path / "run", acting_device="third")
    monkeypatch.setattr("acer_tf.training.train.find_device", lambda name: H200)
    for bound in (0.0, 2.0):
        with pytest.raises(SettingsError, match="^--acting_device=second: give --gpu_memory_gb, of which 2 are"):
            train(small_settings(actors=1), tmp_path / "run", acting_device="second", gpu_memory_gb=bound)
    assert not (tmp_path / "run").exists()


@pytest.mark.process
@pytest.mark.parametrize(
    ("threads", "given", "acting", "expected"),
    [
        (0, {"network": "nature"}, 0, {"intra_op": CORES, "inter_op": min(2, CORES), "environments": CORES}),
        (3, {"network": "small"}, 0, {"intra_op": 2, "inter_op": 1, "environments": 3}),
        (3, {"network": "small", "replay_ratio": 0}, 0, {"intra_op": 1, "inter_op": 1, "environments": 3}),
        (3, {"network": "small", "lstm_units": 256}, 0, {"intra_op": 1, "inter_op": 1, "environments": 3}),
        (1, {"network": "nature"}, 2, {"intra_op": 1, "inter_op": 1, "environments": 1, "acting": 0}),
        (2, {"network": "small"}, 1, {"intra_op": 2, "inter_op": 2, "environments": 2}),
        (3, {"network": "small"}, 8, {"intra_op": 2, "inter_op": 4, "environments": 3, "acting": 3}),
    ],
)
def test_threads_suit_the_run_and_never_exceed_what_was_asked(threads, given, acting, expected, tmp_path):
    done = in_another_process(limit_threads, tmp_path, threads, given, acting)
    expected = {**expected, "acting": expected.get("acting", acting)}
    assert done.out.splitlines() == [str(expected), str([expected["intra_op"], expected["inter_op"]])]


@pytest.mark.process
def test_a_process_that_has_already_computed_reports_the_threads_in_use(tmp_path):
    done = in_another_process(limit_threads_too_late, tmp_path)
    used = {"intra_op": 4, "inter_op": 3}
    assert done.out.splitlines() == [str(used | {"environments": n, "acting": 0}) for n in (1, CORES)]
    assert done.err.count("threads apply only to environments") == 1
    assert "TensorFlow has already started: 1 threads apply only to environments\n" in done.err
