"""How many threads TensorFlow and the environments use."""

from __future__ import annotations

import os
import sys

import tensorflow as tf

from acer_tf.torsos import torso_of


def use_threads(threads: int, network: str) -> dict[str, int]:
    """Sets TensorFlow's threads to what suits the network; possible only before TensorFlow has computed anything.

    More threads pay only for the products of a large torso: on the small networks, waking them takes longer than their
    share of the work. Between operations two suffice: the average network's forward pass beside the online one's.

    Args:
        threads: at most so many at once; 0 for one per core. One makes runs of the same seed identical.
        network: the run's `--network`.

    Returns:
        What is in force, for a record: TensorFlow's "intra_op" and "inter_op", and the environments' "emulators".
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
            print(f"TensorFlow is in use already: {threads} threads hold for the environments alone", file=sys.stderr)
    return {"intra_op": intra_op, "inter_op": inter_op, "emulators": cores}
