import pytest

from acer_tf.training import resources


def test_a_container_has_the_memory_of_its_limit_and_the_page_cache_counts_as_free(tmp_path):
    free = resources.available_memory(tmp_path)
    assert free > 0
    for name, text in (("max", "3000000\n"), ("current", "1000000\n"), ("stat", "anon 5\ninactive_file 400000\n")):
        (tmp_path / f"memory.{name}").write_text(text)
    assert resources.available_memory(tmp_path) == 2_400_000
    (tmp_path / "memory.max").write_text("max\n")
    assert resources.available_memory(tmp_path) == pytest.approx(free, rel=0.5)


@pytest.mark.parametrize(
    ("line", "folder", "names"),
    [
        ("0::/slurm/job_7/step", "slurm/job_7", ("max", "current", "inactive_file")),
        (
            "4:cpu,memory:/slurm/job_7/step",
            "memory/slurm/job_7",
            ("limit_in_bytes", "usage_in_bytes", "total_inactive_file"),
        ),
    ],
)
def test_the_limit_of_a_job_around_the_process_counts(tmp_path, line, folder, names):
    (tmp_path / "own").write_text(f"3:cpuset:/elsewhere\n{line}\n")
    group = tmp_path / "root" / folder
    (group / "step").mkdir(parents=True)
    most, used, cache = names
    (group / f"memory.{most}").write_text("3000000\n")
    (group / f"memory.{used}").write_text("1000000\n")
    (group / "memory.stat").write_text(f"anon 5\n{cache} 400000\n")
    assert resources.available_memory(tmp_path / "root", tmp_path / "own") == 2_400_000
