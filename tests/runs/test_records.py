import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from acer_tf.errors import RecordError
from acer_tf.files import write_json
from acer_tf.runs.records import FORMAT, begin_record, read_progress, read_record, run_document
from acer_tf.settings import Settings

SETTINGS = {field.name for field in dataclasses.fields(Settings)}
SPEC = '"environment": {"observation_shape": [4], "observation_dtype": "float32", "stack": 1, "num_actions": 2}'
RESULTS = Path(__file__).parents[2] / "results"


def test_what_is_written_is_read_again(tmp_path):
    begin_record(tmp_path, {"gamma": 0.9, "delta": math.inf, "x": None}, {"threads": {"environments": 2}})
    record = read_record(tmp_path)
    assert record.settings == {"gamma": 0.9, "delta": "inf", "x": None}
    assert not record.finished
    assert record.document["threads"] == {"environments": 2}
    assert {"host", "cores"} <= set(record.document["machine"])
    assert record.commit == record.document["commit"]
    write_json(tmp_path / "run.json", record.document | {"finished": True})
    assert read_record(tmp_path).finished


def test_a_record_of_another_version_is_refused_in_one_line(tmp_path):
    write_json(tmp_path / "run.json", {"format": FORMAT + 1, "settings": {"env": "CartPole-v1"}})
    with pytest.raises(RecordError, match=f"{FORMAT + 1}.*{FORMAT}"):
        read_record(tmp_path)


def test_every_record_that_we_ship_is_read():
    folders = [path.parent for path in RESULTS.rglob("run.json")]
    assert len(folders) > 700
    for folder in folders:
        record = read_record(folder)
        # A setting that was added later has its default there.
        assert record.settings.keys() <= SETTINGS or record.environment is None, folder
        assert not (folder / "progress.csv").exists() or read_progress(folder)["steps"].size, folder


def test_an_invalid_record_is_named(tmp_path):
    with pytest.raises(RecordError, match=rf"^{tmp_path}/run.json is missing$"):
        read_record(tmp_path)
    parts = ('"environment": 1', f'{SPEC}, "history": 3', f'{SPEC}, "history": [3]', SPEC)
    for text in (
        "[" * 100_000,
        "",
        "[]",
        "3",
        "{}",
        '{"format": 1, "settings": 3}',
        *(f'{{"format": 1, "settings": {{}}, {p}}}' for p in parts),
    ):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(RecordError, match=rf"^{tmp_path}/run.json "):
            read_record(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("modules", None, "its modules cannot be None"),
        ("history", {}, "its history cannot be {}"),
        ("commit", 3, "its commit cannot be 3"),
        ("machine", "mine", "its machine cannot be 'mine'"),
        ("history", [{"commit": "abc"}], "it has no 'changes'"),
        *((name, ..., f"it has no '{name}'") for name in ("modules", "history", "commit", "device", "settings")),
    ],
)
def test_what_an_edited_record_lacks_or_has_wrong_is_named(name, value, said, tmp_path):
    details = {**json.loads(f"{{{SPEC}}}"), "modules": {}, "history": [], "threads": {}, "device": None}
    document = run_document({"env": "CartPole-v1"}, details)
    write_json(tmp_path / "run.json", document)
    assert read_record(tmp_path).environment.num_actions == 2
    document[name] = value
    write_json(tmp_path / "run.json", {key: found for key, found in document.items() if found is not ...})
    with pytest.raises(RecordError) as refused:
        read_record(tmp_path)
    assert str(refused.value) == f"{tmp_path}/run.json cannot be read as a run's record ({said})"


def test_a_curve_is_read_by_column_without_the_row_that_is_being_written(tmp_path):
    assert read_progress(tmp_path) == {}
    path = tmp_path / "progress.csv"
    for begun in ("", "steps,mean"):
        path.write_text(begun)
        assert read_progress(tmp_path) == {}
    path.write_text("steps,mean_return\n10,\n20,1.5\n30,2.")
    columns = read_progress(tmp_path)
    assert list(columns) == ["steps", "mean_return"]
    np.testing.assert_array_equal(columns["steps"], [10, 20])
    np.testing.assert_array_equal(columns["mean_return"], [math.nan, 1.5])
    np.testing.assert_array_equal(read_progress(tmp_path, len("steps,mean_return\n10,\n"))["steps"], [10])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("time\n10\n", "has no column named steps"),
        ("steps,a\n10,1\nten,2\n", "line 3: could not convert"),
        ("steps,a\n10\n", "line 2: "),
        ("steps,a\n10,1,2\n", "line 2: "),
        ("steps\n10\n10\n", "line 3: its steps do not increase"),
        ("steps\n0\n", "line 2: its steps do not increase"),
        ("steps\n\n", "line 2: "),
        ("\0\0\n", "has no column named steps"),
    ],
)
def test_an_invalid_curve_is_named(tmp_path, content, complaint):
    (tmp_path / "progress.csv").write_text(content)
    with pytest.raises(RecordError, match=rf"progress.csv .*{complaint}"):
        read_progress(tmp_path)


def test_a_curve_that_lost_bytes_is_named(tmp_path):
    (tmp_path / "progress.csv").write_text("steps\n10\n20")
    with pytest.raises(RecordError, match="11 bytes.* 12 "):
        read_progress(tmp_path, 12)
    with pytest.raises(RecordError, match="its last line is incomplete"):
        read_progress(tmp_path, 11)


def test_settings_and_details_come_with_their_provenance():
    document = json.loads(json.dumps(run_document({"gamma": 0.9}, {"more": 1})))
    assert (document["settings"], document["more"]) == ({"gamma": 0.9}, 1)
    assert {"command", "commit", "changes", "started", "versions", "packages_sha256", "machine"} < set(document)


def test_a_document_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})

    def full(descriptor):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}
    write_json(path, {"a": 3})
    assert json.loads(path.read_text()) == {"a": 3}
