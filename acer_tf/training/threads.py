"""How many threads TensorFlow and the environments use."""

from __future__ import annotations

import os
import sys

import tensorflow as tf

from acer_tf.torsos import torso_of


def use_threads(threads: int, network: str) -> dict[str, int]:
    """Sets TensorFlow's threads to suit the network; has no effect once TensorFlow has computed something.

    More threads speed up only large torsos: in small networks, waking a thread takes longer than its share of the work.
    Two operations at once suffice: the forward passes of the online and the average policy network.

    Args:
        threads: the most to use; 0 for one per core. With 1, runs of the same seed on a CPU are identical.
        network: the run's `--network`.

    Returns:
        The threads in use, for a record: TensorFlow's "intra_op" and "inter_op", and the environments' "emulators".
    """
    cores = threads or len(os.sched_getaffinity(0))
    intra_op, inter_op = (cores, min(2, cores)) if torso_of(network).large else (1, 1)
    try:
        tf.config.threading.set_intra_op_parallelism_threads(intra_op)
        tf.config.threading.set_inter_op_parallelism_threads(inter_op)
    except RuntimeError:
        intra_op = tf.config.threading.get_intra_op_parallelism_threads()
        inter_op = tf.config.threading.get_inter_op_parallelism_threads()
        if threads and (intra_op > threads or inter_op > threads or 0 in (intra_op, inter_op)):
            print(f"TensorFlow has already started: {threads} threads apply only to environments", file=sys.stderr)
    return {"intra_op": intra_op, "inter_op": inter_op, "emulators": cores}
