"""Floating-point operations of an environment step, counted from the network's own shapes, and the limit they set.

Only the products with weights are counted (a multiplication and an addition each): the matrix unit's work.
"""

from __future__ import annotations

import math

import keras


def layer_operations(model: keras.Model) -> list[int]:
    """Operations per row of each layer that has a kernel, in the order of the layers."""
    counts = []
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            counts += layer_operations(layer)
        elif hasattr(layer, "kernel"):
            positions = math.prod(layer.output.shape[1:-1])  # of a convolution; a dense layer has one
            counts.append(2 * positions * math.prod(layer.kernel.shape))
    return counts


def update_operations(model: keras.Model, unroll_length: int) -> float:
    """Operations per row of one ACER update: online and average forward passes, and the backward pass.

    The bootstrap observation needs the online forward pass alone, and nothing needs the gradient of the frames.
    """
    layers = layer_operations(model)
    forward = sum(layers)
    backward = 2 * forward - layers[0]
    return forward * (unroll_length + 1) / unroll_length + forward + backward


def step_operations(model: keras.Model, unroll_length: int, replay_ratio: float) -> float:
    """Operations per environment step of the whole loop: acting once, and 1 + `replay_ratio` updates' share."""
    return sum(layer_operations(model)) + (1 + replay_ratio) * update_operations(model, unroll_length)


def roofline(operations: float, operations_per_second: float, environment_steps_per_second: float) -> float:
    """Steps per second that no loop exceeds which multiplies at the measured peak and then steps the environments.

    Args:
        operations: per environment step.
        operations_per_second: of the machine's matrix product, in the network's precision.
        environment_steps_per_second: of the environments alone.
    """
    return 1.0 / (operations / operations_per_second + 1.0 / environment_steps_per_second)
