"""`train` calls `on_row` with the rows of progress.csv, for any logger."""

import csv
import errno
import io
import json
import signal
import weakref

import pytest

from acer_tf.errors import Interrupted, SettingsError
from acer_tf.runs.checkpoint import Checkpoints
from acer_tf.training import active_run, run
from acer_tf.training.train import train
from tests.training.scripted import check_progress, rows_of, small_settings, use_light_agents


class Stop(Exception):
    pass


def written(row):
    """The row as written in progress.csv."""
    file = io.StringIO()
    csv.writer(file).writerow(["" if value is None else value for value in row.values()])
    return dict(zip(row, next(csv.reader([file.getvalue()])), strict=True))


@pytest.mark.training
def test_it_receives_each_row_right_after_it_is_written(tmp_path):
    """With the real agent, whose diagnostics are Python numbers too."""
    rows, on_disk = [], []

    def on_row(row, policy):
        rows.append(row)
        on_disk.append(rows_of(tmp_path / "run")[-1])

    train(small_settings(), str(tmp_path / "run"), quiet=True, on_row=on_row)
    assert [written(row) for row in rows] == on_disk == rows_of(tmp_path / "run")
    assert {type(value) for row in rows for value in row.values()} <= {int, float, type(None)}
    fractions = [value for row in rows for value in row.values() if isinstance(value, float)]
    assert fractions == [float(f"{value:.7g}") for value in fractions]  # seven digits, also in the file
    train(small_settings(), tmp_path / "run", quiet=True, on_row=lambda row, policy: rows.append(row))
    assert len(rows) == len(on_disk)  # a finished run has no more


def test_what_it_raises_stops_the_run_and_no_step_is_lost(tmp_path, monkeypatch):
    use_light_agents(monkeypatch)
    steps = []

    def stop_at_the_third(row, policy):
        steps.append(row["steps"])
        if len(steps) == 3:
            raise Stop

    with pytest.raises(Stop):
        train(small_settings(), tmp_path / "run", quiet=True, on_row=stop_at_the_third)
    train(small_settings(), tmp_path / "run", quiet=True, on_row=stop_at_the_third)
    assert steps == [int(row["steps"]) for row in rows_of(tmp_path / "run")]
    check_progress(tmp_path / "run", small_settings())


def test_a_second_ctrl_c_in_it_leaves_no_checkpoint_and_no_policy(tmp_path, monkeypatch):
    use_light_agents(monkeypatch)

    def impatient(row, policy):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as stopped:
        train(small_settings(), tmp_path / "run", quiet=True, on_row=impatient, checkpoint_minutes=1000)
    assert stopped.type is KeyboardInterrupt  # and not Interrupted
    assert Checkpoints(tmp_path / "run/checkpoints").saved() == {f"{0:012}"}  # with which it begins
    assert not (tmp_path / "run/policy").exists() and len(rows_of(tmp_path / "run")) == 1


def test_an_error_of_the_system_in_it_after_a_signal_stops_the_run_with_a_checkpoint_and_its_policy(
    tmp_path, monkeypatch
):
    """Ctrl-C may also end what it writes to."""
    use_light_agents(monkeypatch)

    def write(row, policy):
        signal.raise_signal(signal.SIGINT)
        raise OSError(errno.EPIPE, "Broken pipe")

    with pytest.raises(Interrupted) as stopped:
        train(small_settings(), tmp_path / "run", quiet=True, on_row=write, checkpoint_minutes=1000)
    assert stopped.value.signal_number == signal.SIGINT
    (row,) = rows_of(tmp_path / "run")
    assert f"{int(row['steps']):012}" in Checkpoints(tmp_path / "run/checkpoints").saved()
    assert json.loads((tmp_path / "run/policy/metadata.json").read_text())["steps"] == int(row["steps"])


def test_the_row_is_its_own_and_the_policy_does_not_keep_the_replay(tmp_path, monkeypatch):
    use_light_agents(monkeypatch)
    kept, make, memory = [], run.make_replay, []

    def made(*arguments, **options):
        replay = make(*arguments, **options)
        memory.append(weakref.ref(replay._ring["reward"]))
        return replay

    def keep(row, policy):
        row.pop("steps")
        kept.append(policy)

    monkeypatch.setattr(run, "make_replay", made)
    train(small_settings(), tmp_path / "run", on_row=keep)
    assert kept and memory[0]() is None
    check_progress(tmp_path / "run", small_settings())


@pytest.mark.parametrize(("stopping", "expected"), [(False, BrokenPipeError), (True, Interrupted)])
def test_no_step_is_lost_if_its_line_cannot_be_printed(tmp_path, monkeypatch, stopping, expected):
    """In `... | head`, and after Ctrl-C in `... | tee log`, which also ends tee."""
    use_light_agents(monkeypatch)

    def unread(row, *rest):
        if stopping:
            signal.raise_signal(signal.SIGINT)
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    steps = []
    with monkeypatch.context() as patch, pytest.raises(expected):
        patch.setattr(active_run, "progress_line", unread)
        train(small_settings(), tmp_path / "run", on_row=lambda row, policy: steps.append(row["steps"]))
    assert steps == [int(row["steps"]) for row in rows_of(tmp_path / "run")] and len(steps) == 1
    train(small_settings(), tmp_path / "run", quiet=True, on_row=lambda row, policy: steps.append(row["steps"]))
    assert steps == [int(row["steps"]) for row in rows_of(tmp_path / "run")]
    check_progress(tmp_path / "run", small_settings())


def test_rows_after_the_last_checkpoint_are_given_again(tmp_path, monkeypatch):
    def fail_late(update):
        if update == 60:
            raise Stop
        return {"value": float(update)}

    steps = []
    with monkeypatch.context() as patch, pytest.raises(Stop):
        use_light_agents(patch, fail_late)
        train(small_settings(), tmp_path / "run", quiet=True, on_row=lambda row, policy: steps.append(row["steps"]))
    use_light_agents(monkeypatch)
    lost = len(steps)
    train(small_settings(), tmp_path / "run", quiet=True, on_row=lambda row, policy: steps.append(row["steps"]))
    assert lost > 0
    assert steps[lost : 2 * lost] == steps[:lost]
    assert steps[lost:] == [int(row["steps"]) for row in rows_of(tmp_path / "run")]


@pytest.mark.parametrize(("function", "said"), [(lambda row: None, "too many positional"), (5, "not a callable")])
def test_what_cannot_be_called_with_a_row_and_a_policy_is_refused_at_once(function, said, tmp_path):
    with pytest.raises(SettingsError, match=rf"^on_row: must be a function of \(row, policy\): .*{said}"):
        train(small_settings(), tmp_path / "run", quiet=True, on_row=function)
    assert not (tmp_path / "run").exists()
