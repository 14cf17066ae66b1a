import dataclasses
import errno
import json
import os
import threading
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from acer_tf.errors import EvidenceError
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.collecting import collect, copy_records, describe, joined, known_now
from acer_tf.reproduction.evidence import (
    Evidence,
    changing,
    own_evidence,
    read_evidence,
    require_folder,
    write_evidence,
)
from acer_tf.reproduction.report.output import Drawing, Report, Table, save, write_report, write_table
from acer_tf.reproduction.sweep.folder import CellFolder
from tests.training.scripted import leave_policy, small_settings, tree

SETTINGS = {"env": "CartPole-v1", "seed": 3, "total_steps": 200, "network": "mlp", "learning_rate": 0.001}
CELL = Cell("cell-3", "ACER", SETTINGS, None, "interrupted", 100, 7.5, -1.5, "0" * 40 + "+changes", "Ctrl-C", "policy")
EVIDENCE = Evidence(
    "tiny",
    "A title",
    ("One.", "Two."),
    "python -m tiny",
    (CELL,),
    {"a": "A"},
    {"b": 3},
    {"table": "T"},
    {"figure": "F"},
)


def write_run(folder, *, settings=SETTINGS, rows=("100,1.5,4,2.0,2.0", "200,3.0,8,,"), **document):
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"format": 1, "settings": settings, "commit": "abc", **document}))
    lines = ["steps,seconds,episodes,mean_return,interval_return", *rows]
    (folder / "progress.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_evidence_is_read_as_it_was_written(tmp_path):
    write_evidence(tmp_path / "new" / "tiny", EVIDENCE)
    assert read_evidence(tmp_path / "new" / "tiny") == EVIDENCE
    assert read_evidence(tmp_path) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: document | {"format": 2},
        lambda document: {name: value for name, value in document.items() if name != "cells"},
        lambda document: document | {"surprise": 1},
        lambda document: document | {"cells": [document["cells"][0] | {"state": "well"}]},
        lambda document: document | {"cells": [document["cells"][0] | {"settings": {"env": "CartPole-v1"}}]},
        lambda document: [document],
        *(
            (lambda document, name=name, value=value: document | {name: value})
            for name, value in (
                *(("title", 5), ("text", [1]), ("tables", ["table"]), ("figures", {"figure": None}), ("command", None)),
                *(("tables", {"../../secret": ""}), ("figures", {"/secret": ""}), ("figures", {"a\0b": ""})),
                ("tables", {"x" * 400: ""}),
            )
        ),
        *(
            (lambda document, name=name, value=value: document | {"cells": [document["cells"][0] | {name: value}]})
            for name, value in (
                *(("name", name) for name in ("../../secret", "/secret", "..", "", "a\0b", "x" * 400, "\ud800", 5)),
                *(("steps", value) for value in ("100", -1, 10**4000, 1.5, True, None)),
                *(("seconds", value) for value in ("7", 10**400)),
                *(("mean_return", "high"), ("commit", 5), ("reason", None), ("policy", ["p"]), ("method", {})),
                *(("state", []), ("settings", 5), ("settings", SETTINGS | {"seed": float("inf")})),
                ("settings", SETTINGS | {"total_steps": 10**4000}),
            )
        ),
    ],
)
def test_unreadable_evidence_is_refused_by_its_name(tmp_path, damage):
    write_evidence(tmp_path, EVIDENCE)
    path = tmp_path / "experiment.json"
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    with pytest.raises(EvidenceError, match=str(path)):
        read_evidence(tmp_path)


def test_a_return_may_be_a_whole_number_below_0(tmp_path):
    write_evidence(tmp_path, EVIDENCE)
    path = tmp_path / "experiment.json"
    path.write_text(path.read_text().replace("-1.5", "-21"))
    assert read_evidence(tmp_path).cells[0].mean_return == -21


@pytest.mark.parametrize("content", [b'{"format": 1, ', b"[" * 100_000, b'{"format": 1, "title": "\xff"}', b"\0"])
def test_torn_evidence_is_refused_by_its_name(tmp_path, content):
    (tmp_path / "experiment.json").write_bytes(content)
    with pytest.raises(EvidenceError, match=str(tmp_path / "experiment.json")):
        read_evidence(tmp_path)


def with_settings(method="ACER", **given):
    return dataclasses.replace(CELL, name=f"{method} {given}", method=method, settings=SETTINGS | given)


@pytest.mark.parametrize(
    "asked",
    [
        with_settings(seed=4),
        with_settings(seed=4, network="auto"),
        with_settings("A3C", learning_rate=0.1),
        with_settings(env="Acrobot-v1", learning_rate=0.1),
        with_settings(seed=4, priority_epsilon=0.5),  # without effect on uniform draws
    ],
)
def test_another_seed_method_or_environment_may_be_added_to_a_run(tmp_path, asked):
    assert joined([CELL], [asked], tmp_path) == [asked, CELL]


def test_other_settings_of_one_curve_are_refused(tmp_path):
    with pytest.raises(EvidenceError, match="'ACER' in CartPole-v1.*learning_rate: 0.001 there, 0.1 here") as refused:
        joined([CELL], [with_settings(seed=4, learning_rate=0.1)], tmp_path)
    assert str(tmp_path) in str(refused.value)


def test_a_known_cell_replaces_a_requested_one(tmp_path):
    asked = dataclasses.replace(CELL, state="not begun", steps=0)
    assert joined([CELL], [asked], tmp_path) == [CELL]
    # A requested cell is replaced by the same run under other settings.
    other = dataclasses.replace(with_settings(learning_rate=0.1), name="other")
    assert joined([asked], [other], tmp_path) == [other]
    with pytest.raises(EvidenceError, match="cell-3"):
        joined([CELL], [dataclasses.replace(asked, name="other")], tmp_path)


def test_a_cell_that_failed_before_its_first_row_stays_known(tmp_path):
    failed = dataclasses.replace(CELL, state="failed", steps=0, reason="loss is nan")
    asked = dataclasses.replace(CELL, state="not begun", steps=0)
    assert joined([failed], [asked], tmp_path) == [failed]


def test_who_changes_evidence_waits_for_others_and_says_so(tmp_path, capsys):
    entered = threading.Event()

    def other():
        with changing(tmp_path):
            entered.set()

    thread = threading.Thread(target=other)
    with changing(tmp_path):
        thread.start()
        assert not entered.wait(0.2)
    assert entered.wait(60)
    thread.join()
    assert capsys.readouterr().err == f"waiting for another process that writes to {tmp_path}\n"


def test_the_evidence_of_another_experiment_is_refused(tmp_path):
    write_evidence(tmp_path, EVIDENCE)
    assert own_evidence(tmp_path, "tiny") == EVIDENCE
    with pytest.raises(EvidenceError, match=f"--output={tmp_path} .*tiny"):
        own_evidence(tmp_path, "large")


@pytest.mark.parametrize("name", ["games.csv", "games.md", "hours.png", "hours.svg"])
def test_a_file_that_a_report_would_replace_is_left_alone(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(EvidenceError, match=f"^--best_of={tmp_path} has a {name} but no experiment.json"):
        own_evidence(tmp_path, "tiny", "best_of", tables=("table", "games"), figures=("figure", "hours"))
    report = Report({"games": Table("", ["a"], [["1"]])}, {"hours": Drawing("", Figure())})
    with pytest.raises(EvidenceError, match=f"^--output={tmp_path} has a {name} but no experiment.json"):
        write_report(EVIDENCE, report, tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


def test_a_full_disk_is_no_bad_input_and_leaves_nothing(tmp_path, monkeypatch):
    def full(**_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(EvidenceError, match="is not writable .No space left on device.") as failure:
        require_folder(tmp_path / "a" / "b")
    assert failure.value.status == 1 and not [*tmp_path.iterdir()]


def test_a_folder_that_is_not_writable_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(EvidenceError, match=f"--output={folder} "):
            require_folder(folder)
    require_folder(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_run_is_described_by_its_records(tmp_path):
    (tmp_path / "policy").mkdir()
    run = write_run(tmp_path / "run", finished=True)
    cell = describe(run, "name", "ACER", policy=tmp_path / "policy")
    # The mean return is the last one recorded.
    assert cell == Cell(
        "name", "ACER", SETTINGS, None, "finished", 200, 3.0, 2.0, "abc", policy=str(tmp_path / "policy")
    )
    assert (cell.env, cell.seed, cell.total_steps, cell.place) == (
        "CartPole-v1",
        3,
        200,
        ("ACER", None, "CartPole-v1", 3),
    )


@pytest.mark.parametrize("name", ["run.json", "progress.csv"])
def test_a_record_that_cannot_be_read_at_present_is_left_alone(tmp_path, monkeypatch, name):
    run = write_run(tmp_path / "run")
    before, read = tree(run), Path.open

    def refuse(path, *arguments, **options):
        if path.name == name:
            raise OSError(errno.EMFILE, "Too many open files")
        return read(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        with pytest.raises(EvidenceError, match=f"{name}.*Too many open files") as refused:
            describe(run, "name", "ACER")
    assert str(run / name) in str(refused.value)
    assert tree(run) == before


def test_a_run_without_a_row_has_begun(tmp_path):
    cell = describe(write_run(tmp_path / "run", rows=()), "name", "ACER", policy=tmp_path / "nowhere")
    assert (cell.state, cell.steps, cell.mean_return, cell.policy) == ("interrupted", 0, None, None)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"settings": 3}'])
def test_a_damaged_record_is_named_and_left_alone(tmp_path, text):
    run = write_run(tmp_path / "run")
    (run / "run.json").write_text(text)
    before = tree(run)
    with pytest.raises(EvidenceError, match="run.json .*move it away"):
        describe(run, "name", "ACER")
    assert tree(run) == before


@pytest.mark.parametrize(
    ("settings", "rows", "document"),
    [
        ({}, (), {}),
        (SETTINGS, (), {"commit": 5}),
        (SETTINGS, ("inf,1,4,2,2",), {}),
        (SETTINGS | {"seed": []}, (), {}),
        (SETTINGS | {"env": []}, (), {}),
    ],
)
def test_a_record_of_wrong_values_is_named(tmp_path, settings, rows, document):
    run = write_run(tmp_path / "run", settings=settings, rows=rows, **document)
    with pytest.raises(EvidenceError, match=str(run)):
        describe(run, "name", "ACER")


@pytest.fixture
def sweep(tmp_path):
    """Four cells, of which the first has finished and the second is under way."""
    cells = [Cell.asked("ACER", small_settings(seed=seed)) for seed in range(4)]
    folders = [CellFolder(tmp_path / "sweep", cell) for cell in cells]
    for folder, finished in zip(folders[:2], (True, False), strict=True):
        write_run(folder.run_dir, settings=folder.cell.settings, finished=finished)
    leave_policy(folders[0].run_dir / "policy")
    return cells, folders, tmp_path / "sweep"


def test_cells_of_a_sweep_are_collected(sweep, tmp_path):
    cells, folders, sweep_dir = sweep
    found, damages = collect(cells, sweep_dir, tmp_path / "out", {cells[2].name: "out of memory"})
    assert damages == []
    assert [cell.state for cell in found] == ["finished", "interrupted", "failed", "not begun"]
    assert [cell.seed for cell in found] == [0, 1, 2, 3]
    assert [cell.steps for cell in found] == [200, 200, 0, 0]
    assert found[0].policy == str(folders[0].run_dir / "policy") and found[2].reason == "out of memory"
    kept = tmp_path / "out" / "runs" / cells[1].name
    for name in ("run.json", "progress.csv"):
        assert (kept / name).read_bytes() == (folders[1].run_dir / name).read_bytes()
    assert not (tmp_path / "out" / "runs" / cells[3].name).exists()


def test_a_run_that_continued_after_it_was_given_up_is_not_a_failure(sweep, tmp_path):
    cells, folders, sweep_dir = sweep
    first, _ = collect(cells, sweep_dir, tmp_path / "out", {cells[1].name: "out of memory"})
    assert first[1].state == "failed"
    assert collect(first, sweep_dir, tmp_path / "out", {})[0][1] == first[1]
    curve = folders[1].run_dir / "progress.csv"
    curve.write_text(curve.read_text() + "300,4.0,9,3.0,3.0\n")
    (_, resumed, *_), _ = collect(first, sweep_dir, tmp_path / "out", {})
    assert (resumed.state, resumed.reason) == ("interrupted", "")


def test_what_was_collected_stays_if_the_sweep_is_gone_or_started_again(sweep, tmp_path):
    cells, folders, sweep_dir = sweep
    output = tmp_path / "out"
    first, _ = collect(cells, sweep_dir, output, {cells[2].name: "out of memory"})
    again, _ = collect(first, tmp_path / "nowhere", output, {})
    assert again == first
    # A run of the same settings with fewer steps does not replace it.
    curve = folders[0].run_dir / "progress.csv"
    kept = curve.read_text()
    curve.write_text("".join(kept.splitlines(keepends=True)[:2]))
    record = folders[0].run_dir / "run.json"
    record.write_text(record.read_text().replace('"finished": true', '"finished": false'))
    again, _ = collect(first, sweep_dir, output, {})
    assert again[0] == first[0]
    assert (output / "runs" / cells[0].name / "progress.csv").read_text() == kept


def test_a_run_that_was_given_up_stays_so_if_the_sweep_is_gone(sweep, tmp_path):
    cells, _, sweep_dir = sweep
    first, _ = collect(cells, sweep_dir, tmp_path / "out", {cells[1].name: "learning diverged"})
    (again, *_), _ = collect(first[1:2], tmp_path / "nowhere", tmp_path / "out", {})
    assert (again.state, again.steps, again.reason) == ("failed", 200, "learning diverged")


def test_a_finished_run_replaces_a_record_however_far_they_overshot(sweep, tmp_path):
    cells, folders, sweep_dir = sweep
    first, _ = collect(cells, sweep_dir, tmp_path / "out", {})
    curve = folders[0].run_dir / "progress.csv"
    curve.write_text(curve.read_text().replace("200,3.0", "190,2.0"))
    again, _ = collect(first, sweep_dir, tmp_path / "out", {})
    assert (again[0].state, again[0].steps, again[0].seconds) == ("finished", 190, 2.0)


def test_a_record_of_a_machine_that_decided_otherwise_is_not_damage(sweep, tmp_path):
    cells, folders, sweep_dir = sweep
    record = folders[0].run_dir / "run.json"
    record.write_text(record.read_text().replace('"precision": "auto"', '"precision": "float32"'))
    known = [dataclasses.replace(c, settings={**c.settings, "precision": "bfloat16"}) for c in cells]
    found, damages = collect(known, sweep_dir, tmp_path / "out", {})
    assert damages == []
    assert (found[0].state, found[0].settings["precision"]) == ("finished", "float32")


@pytest.mark.parametrize("name", ["run.json", "progress.csv"])
def test_a_damaged_run_of_a_sweep_is_shown_as_not_begun_and_nothing_there_changes(sweep, tmp_path, name):
    cells, folders, sweep_dir = sweep
    (folders[0].run_dir / name).write_text("{")
    before = tree(sweep_dir)
    found, (line,) = collect(cells, sweep_dir, tmp_path / "out", {})
    assert str(folders[0].run_dir / name) in line
    assert found[0].state == "not begun" and found[0].reason and line.startswith(found[0].reason)
    assert tree(sweep_dir) == before
    assert folders[0].set_aside_damaged().startswith(found[0].reason)  # as the next sweep does


def test_another_users_cell_leaves_the_others(sweep, tmp_path, monkeypatch):
    cells, folders, sweep_dir = sweep
    before, _ = collect(cells, sweep_dir, tmp_path / "out", {})
    usual = CellFolder.damage

    def refused(self):
        if self.cell == cells[0]:
            raise PermissionError(errno.EACCES, "Permission denied", "attempts.json")
        return usual(self)

    monkeypatch.setattr(CellFolder, "damage", refused)
    assert collect(before, sweep_dir, tmp_path / "out", {}) == (before, [])
    found, damages = collect(cells, sweep_dir, tmp_path / "out", {})
    assert (found[1:], damages) == (before[1:], [])
    assert (found[0].state, found[0].reason) == ("failed", "Permission denied")


def test_a_damaged_curve_in_the_evidence_is_named_before_anything_is_copied(sweep, tmp_path):
    cells, folders, sweep_dir = sweep
    first, _ = collect(cells, sweep_dir, tmp_path / "out", {})
    curve = tmp_path / "out" / "runs" / cells[1].name / "progress.csv"
    curve.write_text(curve.read_text() + "many,more\n")
    swept = folders[0].run_dir / "progress.csv"
    further = swept.read_text() + "300,4.0,9,3.0,3.0\n"
    swept.write_text(further)
    before = tree(tmp_path)
    with pytest.raises(EvidenceError, match="progress.csv .*move it away"):
        collect(first, sweep_dir, tmp_path / "out", {})
    assert tree(tmp_path) == before
    swept.write_text(further[: further.rindex("300")])
    curve.unlink()  # it is then copied again from the sweep
    assert collect(first, sweep_dir, tmp_path / "out", {})[0] == first


ASKED = Cell("cell", "acer", SETTINGS)
HALF = dataclasses.replace(ASKED, state="interrupted", steps=100)
DONE = dataclasses.replace(ASKED, state="finished", steps=200)
FAILED = dataclasses.replace(HALF, state="failed", reason="loss is nan")


@pytest.mark.parametrize(
    ("before", "recorded", "swept", "given_up", "expected"),
    [
        (ASKED, None, None, None, ("not begun", 0, "")),
        (ASKED, None, None, "no memory", ("failed", 0, "no memory")),
        (HALF, None, None, None, ("not begun", 0, "")),  # its records are gone
        (ASKED, None, HALF, None, ("interrupted", 100, "")),
        (ASKED, None, HALF, "no memory", ("failed", 100, "no memory")),
        (HALF, HALF, DONE, None, ("finished", 200, "")),
        (DONE, DONE, HALF, None, ("finished", 200, "")),  # begun again elsewhere
        (FAILED, HALF, None, None, ("failed", 100, "loss is nan")),
        (FAILED, HALF, dataclasses.replace(HALF, steps=150), None, ("interrupted", 150, "")),  # it continued
        (FAILED, HALF, DONE, None, ("finished", 200, "")),
    ],
)
def test_what_is_known_of_a_cell_follows_from_its_records(before, recorded, swept, given_up, expected):
    cell = known_now(before, recorded, swept, given_up)
    assert (cell.state, cell.steps, cell.reason) == expected


def test_records_are_not_copied_through_a_link(tmp_path):
    run, kept, elsewhere = tmp_path / "run", tmp_path / "kept", tmp_path / "elsewhere"
    run.mkdir()
    (run / "progress.csv").write_text("new")
    kept.mkdir()
    elsewhere.write_text("mine")
    (kept / "progress.csv").symlink_to(elsewhere)
    copy_records(run, kept)
    assert (elsewhere.read_text(), (kept / "progress.csv").read_text()) == ("mine", "new")
    (tmp_path / "link").symlink_to(run)
    with pytest.raises(EvidenceError, match="link"):
        copy_records(kept, tmp_path / "link")


def test_what_is_written_is_whole_or_as_before(tmp_path, monkeypatch):
    """Records, tables and figures, when the disk is full."""
    run, kept = write_run(tmp_path / "run"), tmp_path / "kept"
    table, figure = Table("", ["a"], [["1"]]), Figure()
    writers = (
        lambda: copy_records(run, kept),
        lambda: write_table(table, kept, "table"),
        lambda: save(figure, kept, "figure"),
    )
    for write in writers:
        write()
    before = tree(kept)
    assert {"run.json", "progress.csv", "table.csv", "table.md", "figure.png", "figure.svg"} <= before.keys()
    (run / "run.json").write_text("another")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for write in writers:
        with pytest.raises(OSError, match="No space left"):
            write()
    assert tree(kept) == before


def test_the_mean_return_of_a_cell_is_its_last(tmp_path):
    run = write_run(tmp_path / "run", rows=("50,1,2,9.0,9.0", "100,1.5,4,2.0,2.0", "200,3.0,8,,"))
    assert describe(run, "name", "ACER").mean_return == 2.0
