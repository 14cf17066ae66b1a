"""The paper's formulas in float64 NumPy, written from sums and definitions, independently of the code under test."""

from __future__ import annotations

import numpy as np

from acer_tf.types import Trajectory


def off_policy_return(reward, discount, mask, q, value, bootstrap_value, trace, *, gamma, lambda_=1.0):
    """The sum that defines Retrace, one row at a time, in O(T²) (Munos et al. 2016, Eq. 3; ours, §3.1).

    Q(x_t, a_t) + Σ_{j ≥ t} γ^{j−t} (Π_{t < i ≤ j} λ c_i) [r_j + γ d_j V(x_{j+1}) − Q(x_j, a_j)]. The sum ends with the
    return: where d_j = 0, before a masked row, and with the window. A masked row itself has V(x_t).
    """
    batch, rows = np.shape(reward)
    values = np.concatenate([value, np.reshape(bootstrap_value, [batch, 1])], axis=1).astype(np.float64)
    returns = np.array(value, np.float64)
    for b in range(batch):
        for t in range(rows):
            if not mask[b][t]:
                continue
            returns[b, t] = q[b][t]
            factor = 1.0
            for j in range(t, rows):
                if j > t:
                    factor *= gamma * discount[b][j - 1] * lambda_ * trace[b][j]
                upcoming = gamma * discount[b][j] * values[b, j + 1] if discount[b][j] else 0.0
                returns[b, t] += factor * (reward[b][j] + upcoming - q[b][j])
                if discount[b][j] == 0 or (j + 1 < rows and not mask[b][j + 1]):
                    break
    return returns


def gaussian_log_density(action, mean, std):
    """Σ_j log N(a_j; mean_j, σ²) over the last axis."""
    d = np.shape(action)[-1]
    return -0.5 * np.sum(((action - mean) / std) ** 2, axis=-1) - d * np.log(std * np.sqrt(2 * np.pi))


def importance_sampled_return(reward, discount, mask, value, bootstrap_value, rho, *, gamma):
    """Σ_{j ≥ t} γ^{j−t} (Π_{t < i ≤ j} ρ_i) r_j, and at the end of the window or before a masked row V (appendix E.4).

    V(x_T) has no factor ρ, since no action was taken there.
    """
    batch, rows = np.shape(reward)
    values = np.concatenate([value, np.reshape(bootstrap_value, [batch, 1])], axis=1).astype(np.float64)
    returns = np.array(value, np.float64)
    for b in range(batch):
        for t in range(rows):
            if not mask[b][t]:
                continue
            returns[b, t], factor = 0.0, 1.0
            for j in range(t, rows):
                if j > t:
                    factor *= gamma * rho[b][j]
                returns[b, t] += factor * reward[b][j]
                if discount[b][j] == 0:
                    break
                if j + 1 == rows or not mask[b][j + 1]:
                    returns[b, t] += factor * gamma * values[b, j + 1]
                    break
    return returns


def trajectory_weight(rho, discount, mask, c):
    """min{c, Π_{i ≥ t} ρ_i} up to the end of the return, of the rows before a masked one, or of the window."""
    batch, rows = np.shape(rho)
    weights = np.ones([batch, rows])
    for b in range(batch):
        for t in range(rows):
            for j in range(t, rows):
                if not mask[b][j]:
                    break
                weights[b, t] *= rho[b][j]
                if discount[b][j] == 0:
                    break
    return np.minimum(weights, c)


def projection(g, k, delta):
    """argmin ½‖g − z‖² subject to kᵀz ≤ δ, for one state: the multiplier of its Lagrangian by bisection."""
    if np.dot(k, g) <= delta:
        return g
    low, high = 0.0, 1.0
    while np.dot(k, g - high * k) > delta:
        high *= 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.dot(k, g - middle * k) > delta else (low, middle)
    return g - high * k


def softmax(logits):
    exponentials = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    return exponentials / np.sum(exponentials, axis=-1, keepdims=True)


def softmax_jacobian(probabilities):
    """[A, A]: ∂φ_a / ∂logit_b = φ_a (1[a = b] − φ_b)."""
    return np.diag(probabilities) - np.outer(probabilities, probabilities)


def finite_differences(function, x, step=1e-6):
    """∇ of a scalar function at the vector x, by central differences."""
    gradient = np.empty_like(x)
    for i in range(x.size):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        gradient[i] = (function(up) - function(down)) / (2 * step)
    return gradient


def random_boundaries(rng, batch, rows):
    """(discount, mask) [batch, rows] with every kind of boundary: game over, life lost, time limit, none."""
    discount, mask = np.ones([batch, rows], np.float32), np.ones([batch, rows], bool)
    for b in range(batch):
        t = 0
        while t < rows:
            event = rng.choice(["game over", "life lost", "time limit", ""], p=[0.15, 0.1, 0.15, 0.6])
            if event in ("game over", "life lost"):
                discount[b, t] = 0.0
            if event in ("game over", "time limit") and t + 1 < rows:
                mask[b, t + 1] = False
                t += 1
            t += 1
    return discount, mask


def random_continuous_trajectory(rng, batch, rows, action_size, observation_size):
    """As `random_trajectory`, with actions drawn from a Gaussian far from that of any network."""
    discount, mask = random_boundaries(rng, batch, rows)
    behaviour = 0.3 * rng.normal(size=[batch, rows, action_size]).astype(np.float32)
    noise = 0.3 * rng.normal(size=[batch, rows, action_size]).astype(np.float32)
    return Trajectory(
        observation=rng.normal(size=[batch, rows + 1, observation_size]).astype(np.float32),
        age=np.zeros([batch, rows + 1], np.uint8),
        action=behaviour + noise,
        reward=rng.normal(scale=2.0, size=[batch, rows]).astype(np.float32),
        discount=discount,
        mask=mask,
        behaviour=behaviour,
    )


def random_trajectory(rng, batch, rows, num_actions, observation_size):
    """Rows of flat observations with every kind of boundary, under a behaviour policy far from uniform."""
    discount, mask = random_boundaries(rng, batch, rows)
    behaviour = softmax(1.5 * rng.normal(size=[batch, rows, num_actions])).astype(np.float32)
    return Trajectory(
        observation=rng.normal(size=[batch, rows + 1, observation_size]).astype(np.float32),
        age=np.zeros([batch, rows + 1], np.uint8),
        action=rng.integers(num_actions, size=[batch, rows], dtype=np.int32),
        reward=rng.normal(scale=2.0, size=[batch, rows]).astype(np.float32),
        discount=discount,
        mask=mask,
        behaviour=behaviour,
    )
