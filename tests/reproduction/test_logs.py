"""Logs of other libraries, as they write them."""

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from acer_tf.errors import CurveError
from acer_tf.reproduction.curves import read_run
from acer_tf.reproduction.logs import Reading, is_log, protocol_of, write_record

MONITOR = '#{"t_start": %d.0, "env_id": "CartPole-v1"}\nr,l,t\n'
SB3 = """time/fps,rollout/ep_rew_mean,time/total_timesteps,time/time_elapsed,eval/mean_reward
100,,32,1,
100,21.5,2048,3,
,,4096,,30.0
90,40.25,4096,8,
"""


def read(path, folder, reading=None, env=""):
    assert is_log(path)
    write_record(path, reading or Reading(), 3, env, folder / "record")
    return read_run(folder / "record"), protocol_of(folder / "record")


def test_monitor_files_are_one_run_whose_episodes_come_by_their_time(tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    (log / "0.monitor.csv").write_text(MONITOR % 1000 + "10.0,10,1.0\n30.0,30,4.0\n")
    # The last rows were being written, one of them in its last number.
    (log / "1.monitor.csv").write_text(MONITOR % 1001 + "20.0,20,1.5\n40.0,")
    (log / "2.monitor.csv").write_text(MONITOR % 1001 + "50.0,50,2")
    run, protocol = read(log, tmp_path)
    assert (run.env, run.seed, run.total_steps) == ("CartPole-v1", 3, 60)
    assert run.steps.tolist() == [10, 30, 60] and run.seconds.tolist() == [1.0, 2.5, 4.0]
    assert run.interval_return.tolist() == [10, 20, 30] and run.mean_return.tolist() == [10, 15, 20]
    assert "Monitor" in protocol and "100 training episodes" in protocol


def test_a_monitor_file_of_a_continued_training_goes_on_where_the_first_ended(tmp_path):
    """Stable-Baselines3 appends without a new head, and its time begins at 0 again."""
    log = tmp_path / "log"
    log.mkdir()
    rows = "1.0,10,10\n2.0,10,20\n3.0,10,30\n100.0,10,5\n101.0,10,15\n200.0,10,2\n"
    (log / "0.monitor.csv").write_text(MONITOR % 1000 + rows)
    (log / "1.monitor.csv").write_text(MONITOR % 1000)  # no episode of it has ended
    (log / "2.monitor.csv").touch()
    run, _ = read(log, tmp_path)
    assert run.interval_return.tolist() == [1, 2, 3, 100, 101, 200] and run.seconds.tolist() == [10, 20, 30, 35, 45, 47]


def test_seconds_count_from_the_first_environment_also_while_none_of_its_episodes_has_ended(tmp_path):
    """So that the rows of a later look at the log begin with those of an earlier one."""
    log = tmp_path / "log"
    log.mkdir()
    (log / "0.monitor.csv").write_text(MONITOR % 1000)
    (log / "1.monitor.csv").write_text(MONITOR % 1001 + "20.0,20,1.5\n")
    (tmp_path / "early").mkdir()
    early, _ = read(log, tmp_path / "early")
    (log / "0.monitor.csv").write_text(MONITOR % 1000 + "10.0,10,9.0\n")
    late, _ = read(log, tmp_path)
    assert early.seconds.tolist() == [2.5] and late.seconds.tolist() == [2.5, 9.0]


def test_what_is_named_is_read_where_a_folder_has_several_logs(tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    (log / "monitor.csv").write_text(MONITOR % 0 + "1.0,10,1\n")
    (log / "progress.csv").write_text(SB3)
    run, _ = read(log, tmp_path, Reading(tag="eval/mean_reward", env="CartPole-v1"))
    assert run.mean_return.tolist() == [30.0]
    write_record(log, Reading(), 0, "", tmp_path / "other")
    assert read_run(tmp_path / "other").mean_return.tolist() == [1.0]


def test_the_mean_of_episodes_is_over_the_last_hundred(tmp_path):
    (tmp_path / "a.csv").write_text(MONITOR % 0 + "".join(f"{n},1,{n}\n" for n in range(150)))
    run, _ = read(tmp_path / "a.csv", tmp_path)
    assert run.mean_return[-1] == np.mean(range(50, 150)) and run.episodes[-1] == 150


@pytest.mark.parametrize(
    ("tag", "steps", "returns"),
    [("", [2048, 4096], [21.5, 40.25]), ("eval/mean_reward", [4096], [30.0])],
)
def test_progress_of_stable_baselines3(tmp_path, tag, steps, returns):
    (tmp_path / "progress.csv").write_text(SB3)
    run, protocol = read(tmp_path / "progress.csv", tmp_path, Reading(tag=tag), "CartPole-v1")
    assert run.steps.tolist() == steps and run.mean_return.tolist() == returns
    (tmp_path / "progress.csv").write_text(SB3 + "90,4")
    assert read(tmp_path / "progress.csv", tmp_path / "cut", Reading(tag=tag), "CartPole-v1")[0].steps.tolist() == steps
    assert (tag or "rollout/ep_rew_mean") in protocol
    assert ("evaluation" if tag else "100 training episodes") in protocol


def events(folder, tag, points):
    writer = EventFileWriter(str(folder))
    for step, value in points:
        summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, simple_value=value)])
        writer.add_event(event_pb2.Event(wall_time=10.0 + step, step=step, summary=summary))
    writer.close()
    return folder


def test_episodes_in_events_are_averaged_and_those_of_one_step_are_one_row(tmp_path):
    log = events(tmp_path / "log", "charts/episodic_return", [(5, 1.0), (9, 2.0), (9, 6.0)])
    run, protocol = read(log, tmp_path, Reading(env="CartPole-v1"))
    assert run.steps.tolist() == [5, 9] and run.mean_return.tolist() == [1.0, 3.0]
    assert run.interval_return.tolist() == [1.0, 4.0] and run.episodes.tolist() == [1, 3]
    assert run.seconds.tolist() == [0.0, 4.0] and protocol.startswith("TensorBoard, charts/episodic_return")


def test_a_tag_of_any_name_and_the_events_of_tensorflow(tmp_path):
    with tf.summary.create_file_writer(str(tmp_path / "log")).as_default():
        tf.summary.scalar("my/return", 7.5, step=100)
    run, protocol = read(tmp_path / "log", tmp_path, Reading(env="CartPole-v1", tag="my/return"))
    assert run.mean_return.tolist() == [7.5] and protocol == "TensorBoard, my/return"


def test_any_csv_by_two_columns(tmp_path):
    (tmp_path / "mine.csv").write_text("frame,score,other\n0,nan,x\n10,1.5,y\n20,2.5,z")
    reading = Reading(env="CartPole-v1", columns=("frame", "score"))
    run, protocol = read(tmp_path / "mine.csv", tmp_path, reading)
    assert run.steps.tolist() == [10, 20] and run.mean_return.tolist() == [1.5, 2.5]
    assert np.isnan(run.seconds).all() and protocol == "CSV, score"


@pytest.mark.parametrize(
    ("name", "content", "reading", "wanted"),
    [
        ("empty.csv", "", Reading(env="x"), "no tag that is known"),
        ("unknown.csv", "a,b\n1,2\n", Reading(env="x"), "--columns"),
        ("unknown.csv", "a,b\n1,2\n", Reading(env="x", columns=("a", "c")), "no column c"),
        ("text.csv", "a,b\n1,two\n", Reading(env="x", columns=("a", "b")), "row 2"),
        ("back.csv", "a,b\n5,1\n3,1\n", Reading(env="x", columns=("a", "b")), "decrease"),
        ("infinite.csv", "a,b\n5,inf\n", Reading(env="x", columns=("a", "b")), "infinite"),
        ("nothing.csv", "a,b\n5,\n", Reading(env="x", columns=("a", "b")), "no returns"),
        ("progress.csv", SB3, Reading(env="x", tag="rollout/none"), "--tag=rollout/none"),
        ("progress.csv", SB3, Reading(), "--env"),
        ("monitor.csv", "#{no json\nr,l,t\n1,1,1\n", Reading(), "monitor.csv"),
        ("monitor.csv", "#[]\nr,l,t\n1,1,1\n", Reading(), "monitor.csv"),
        ("monitor.csv", MONITOR % 0, Reading(), "no episodes"),
        ("fractions.csv", "a,b\n0.5,1\n", Reading(env="x", columns=("a", "b")), "not whole numbers: 0.5"),
        ("monitor.csv", MONITOR % 0 + "\udcff,1,1\n", Reading(), "monitor.csv"),
        ("events.out.tfevents.1", "rubbish", Reading(env="x"), "nothing"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, name, content, reading, wanted):
    (tmp_path / name).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(CurveError, match=wanted) as raised:
        write_record(tmp_path / name, reading, 0, "", tmp_path / "record")
    assert name in str(raised.value) and not (tmp_path / "record").exists()
