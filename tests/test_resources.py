import os

import pytest

from acer_tf import resources


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


def test_a_sandbox_that_does_not_tell_its_page_cache_has_what_its_limit_leaves(tmp_path):
    """As gVisor: a limit and the use, but no memory.stat."""
    for name, text in (("limit_in_bytes", "3000000"), ("usage_in_bytes", "1000000")):
        (tmp_path / f"memory.{name}").write_text(text)
    assert resources.available_memory(tmp_path) == 2_000_000


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "6400000 100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
    ],
)
def test_the_cores_of_a_container_are_those_of_its_quota(files, cores, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    (tmp_path / "own").write_text("4:cpu,cpuacct:/\n0::/\n")
    for name, text in files.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(text)
    assert resources.available_cores(tmp_path / "root", tmp_path / "own") == cores
