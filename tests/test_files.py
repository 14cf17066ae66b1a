import errno
import os

import pytest

from acer_tf.files import is_taken, named, sync, write_whole


def test_a_file_that_cannot_be_written_leaves_nothing_and_the_earlier_one_as_it_was(tmp_path, monkeypatch):
    write_whole(tmp_path / "file", "earlier")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "file", "later")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "earlier")]


def test_an_error_of_a_full_disk_names_the_file(tmp_path):
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    with pytest.raises(OSError) as error, named(full), full.open("wb") as file:
        file.write(b"1")
    assert str(error.value) == f"[Errno 28] No space left on device: '{full}'"


def test_metadata_that_is_nested_too_deeply_is_not_a_policys(tmp_path):
    (tmp_path / "metadata.json").write_text("[" * 100_000)
    assert is_taken(tmp_path)


@pytest.mark.parametrize(
    ("number", "tolerated"), [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EIO, False), (errno.ENOSPC, False)]
)
def test_a_file_system_that_cannot_sync_folders_is_no_error_but_one_that_fails_is(
    number, tolerated, tmp_path, monkeypatch
):
    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    (tmp_path / "file").touch()
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match=os.strerror(number)):
        sync(tmp_path / "file")
    if tolerated:
        sync(tmp_path)
    else:
        with pytest.raises(OSError, match=os.strerror(number)):
            sync(tmp_path)
