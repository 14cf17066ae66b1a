"""Continuous ACER whose policy and critic have a bound of 10 each on the norm of their gradients.

PYTHONPATH=results/reacher3_bounds python -m acer_tf train --env=control/reacher3 --agent=apart:ClippedApart \
    --preset=paper_continuous --max_gradient_norm=inf
"""

import tensorflow as tf

from acer_tf.agents.acer_continuous import AcerContinuous

BOUND = 10.0


class ClippedApart(AcerContinuous):
    """The policy's variables are its torso and its mean's layer, those of the critic are all others."""

    def parameter_gradients(self, trajectory, weight=None):
        gradients, diagnostics, errors = super().parameter_gradients(trajectory, weight)
        of_policy = [_of_policy(variable.path) for variable in self.network.trainable_variables]
        norms = {}
        for name, wanted in (("policy", True), ("critic", False)):
            chosen = [g for g, is_policy in zip(gradients, of_policy, strict=True) if is_policy == wanted]
            norms[wanted] = diagnostics[f"{name}_gradient_norm"] = tf.linalg.global_norm(chosen)
        factors = {part: BOUND / tf.maximum(norm, BOUND) for part, norm in norms.items()}
        clipped = [factors[is_policy] * g for g, is_policy in zip(gradients, of_policy, strict=True)]
        return clipped, diagnostics, errors


def _of_policy(path):
    return any(part.startswith(("policy_torso", "mean")) for part in path.split("/"))
