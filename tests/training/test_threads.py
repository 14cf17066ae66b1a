import os
import subprocess
import sys

import pytest

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("threads", "architecture", "expected"),
    [
        (0, "nature", {"intra_op": CORES, "inter_op": min(2, CORES), "emulators": CORES}),
        (3, "small", {"intra_op": 1, "inter_op": 1, "emulators": 3}),
        (1, "nature", {"intra_op": 1, "inter_op": 1, "emulators": 1}),
    ],
)
def test_threads_suit_the_network_and_never_exceed_what_was_asked(threads, architecture, expected):
    program = (
        "import tensorflow as tf; from acer_tf.training.threads import use_threads;"
        f"print(use_threads({threads}, {architecture!r}));"
        "print([tf.config.threading.get_intra_op_parallelism_threads(),"
        " tf.config.threading.get_inter_op_parallelism_threads()])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(expected), str([expected["intra_op"], expected["inter_op"]])]


def test_a_process_that_has_already_computed_reports_the_threads_in_use():
    """In a process of its own, since another test may have limited the threads of this one."""
    program = (
        "import sys; import tensorflow as tf; from acer_tf.training.threads import use_threads;"
        "tf.config.threading.set_intra_op_parallelism_threads(4);"
        "tf.config.threading.set_inter_op_parallelism_threads(3);"
        "tf.constant(1.0) + 1.0;"
        "print(use_threads(1, 'small')); print(file=sys.stderr);"
        "print(use_threads(0, 'small')['emulators'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str({"intra_op": 4, "inter_op": 3, "emulators": 1}), str(CORES)]
    assert done.stderr.count("threads apply only to environments") == 1
    assert "TensorFlow has already started: 1 threads apply only to environments\n" in done.stderr
