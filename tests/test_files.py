import pytest

from acer_tf.files import write_whole


def test_a_file_that_cannot_be_written_leaves_nothing_and_the_earlier_one_as_it_was(tmp_path, monkeypatch):
    write_whole(tmp_path / "file", "earlier")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "file", "later")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "earlier")]
