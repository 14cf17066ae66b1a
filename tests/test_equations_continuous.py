"""The continuous equations, compared with float64 sums, with the discrete ones, and with their derivation."""

import numpy as np
import pytest
import tensorflow as tf

from acer_tf import equations
from tests import oracles


def constant(x, dtype=tf.float64):
    return tf.constant(x, dtype)


def inputs_of(seed, batch=7, rows=10):
    rng = np.random.default_rng(seed)
    discount, mask = oracles.random_boundaries(rng, batch, rows)
    reward, value = rng.normal(size=[2, batch, rows])
    return {
        "reward": reward,
        "discount": discount.astype(np.float64),
        "mask": mask,
        "value": value,
        "bootstrap_value": rng.normal(size=[batch]),
    }, np.exp(rng.normal(size=[batch, rows]))


def tensors(inputs):
    return {name: constant(x, tf.bool if x.dtype == bool else tf.float64) for name, x in inputs.items()}


def test_an_importance_sampled_return_refuses_another_shape():
    inputs, rho = inputs_of(0)
    inputs["value"] = inputs["value"][:, :-1]
    with pytest.raises(ValueError, match="shapes must be equal"):
        equations.importance_sampled_return(**tensors(inputs), rho=constant(rho), gamma=0.9)


@pytest.mark.parametrize("seed", range(4))
def test_importance_sampled_returns_are_the_sum(seed):
    inputs, rho = inputs_of(seed)
    ours = equations.importance_sampled_return(**tensors(inputs), rho=constant(rho), gamma=0.9)
    np.testing.assert_allclose(ours, oracles.importance_sampled_return(**inputs, rho=rho, gamma=0.9), rtol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_multi_step_returns_are_importance_sampled_ones_with_ratios_of_1(seed):
    inputs, rho = inputs_of(seed)
    ours = equations.multi_step_return(**tensors(inputs), gamma=0.9)
    expected = oracles.importance_sampled_return(**inputs, rho=np.ones_like(rho), gamma=0.9)
    np.testing.assert_allclose(ours, expected, rtol=1e-10)
    # The same as Retrace on-policy with Q = V.
    retrace = equations.off_policy_return(
        **tensors(inputs), q=constant(inputs["value"]), trace=tf.ones_like(constant(rho)), gamma=0.9
    )
    np.testing.assert_allclose(ours, retrace, rtol=1e-10)


@pytest.mark.parametrize("c", [5.0, 1.0, np.inf])
@pytest.mark.parametrize("seed", range(3))
def test_trajectory_weights_are_products(seed, c):
    inputs, rho = inputs_of(seed)
    discount, mask = inputs["discount"], inputs["mask"]
    poisoned = np.where(mask, np.log(rho), np.nan)
    ours = equations.trajectory_weight(constant(poisoned), constant(discount), constant(mask, tf.bool), c=c).numpy()
    np.testing.assert_allclose(ours, oracles.trajectory_weight(rho, discount, mask, c), rtol=1e-10)


def test_a_product_too_large_for_float32_is_truncated_and_one_too_small_is_zero():
    log_rho = constant([[500.0, 500.0], [-500.0, -500.0], [500.0, -500.0]], tf.float32)
    ones = tf.ones([3, 2])
    weights = equations.trajectory_weight(log_rho, ones, ones > 0, c=5.0).numpy()
    np.testing.assert_array_equal(weights, [[5, 5], [0, 0], [1, 0]])


def test_importance_weights_of_logs_are_those_of_densities_and_never_infinite():
    log_f, log_mu = np.random.default_rng(0).normal(size=[2, 50])
    expected = equations.importance_weight(constant(np.exp(log_f)), constant(np.exp(log_mu)))
    np.testing.assert_allclose(equations.importance_weight_of_logs(constant(log_f), constant(log_mu)), expected)
    huge = equations.importance_weight_of_logs(constant([0.0], tf.float32), constant([-1e6], tf.float32)).numpy()
    assert np.isfinite(huge) and huge > 1e30


@pytest.mark.parametrize("dimension", [1, 2, 6, 21])
def test_the_trace_is_the_root_truncated_at_1(dimension):
    rho = np.array([1e-300, 1e-12, 0.3, 1.0, 1.7, 1e30])
    logs = constant(np.log(rho) - 2), constant(np.full_like(rho, -2.0))
    trace = equations.retrace_coefficient_of_logs(*logs, dimension=dimension).numpy()
    np.testing.assert_allclose(trace, np.minimum(1, rho ** (1 / dimension)))
    if dimension == 1:
        np.testing.assert_allclose(trace, equations.retrace_coefficient(constant(rho)))


def test_the_trace_of_many_dimensions_does_not_underflow_with_the_weight():
    logs = constant([-120.0], tf.float32), constant([-20.0], tf.float32)
    assert equations.importance_weight_of_logs(*logs).numpy() < 1e-37
    trace = equations.retrace_coefficient_of_logs(*logs, dimension=21).numpy()
    np.testing.assert_allclose(trace, np.exp(-100 / 21), rtol=1e-6)


def test_the_dueling_estimate_by_hand():
    q = equations.dueling_q(constant([1.0, -2.0]), constant([0.5, 4.0]), constant([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]]))
    np.testing.assert_allclose(q, [1.0 + 0.5 - 3.0, -2.0 + 4.0 - 1.0])


def test_the_value_target_replaces_q_in_the_first_term_of_the_expansion_of_v():
    """Appendix D: V(x) = E_{a~μ}[min{1, ρ} Q(x, a)] + E_{a~f}[[1 − 1/ρ]_+ Q(x, a)], exactly for three actions.

    V_target has Q_ret in the first expectation, and the model's Q in the second.
    """
    rng = np.random.default_rng(2)
    f, mu = oracles.softmax(rng.normal(size=[2, 3]))
    q, q_ret = rng.normal(size=[2, 3])
    rho, value = f / mu, np.sum(f * q)
    target = equations.target_value(constant(rho), constant(q_ret), constant(q), constant(np.full(3, value))).numpy()
    expected = np.sum(mu * np.minimum(1, rho) * q_ret) + np.sum(f * np.maximum(0, 1 - 1 / rho) * q)
    assert np.sum(mu * target) == pytest.approx(expected)
    assert np.sum(mu * np.minimum(1, rho) * q) + np.sum(f * np.maximum(0, 1 - 1 / rho) * q) == pytest.approx(value)


def test_one_sample_of_the_correction_is_right_on_average():
    """Its mean over a' ~ f is the exact sum of the discrete equation, in the coordinates of φ."""
    rng = np.random.default_rng(3)
    f, mu = oracles.softmax(rng.normal(size=[2, 4]))
    q = rng.normal(size=4)
    advantage, rho = q - np.sum(f * q), f / mu
    score = np.diag(1 / f)  # ∇_φ log f(a'|φ) of a categorical, one row per a'
    samples = equations.sampled_bias_correction(constant(rho), constant(score), constant(advantage), c=0.8).numpy()
    exact = equations.bias_correction(constant(rho), constant(advantage), c=0.8).numpy()
    assert exact.any()
    np.testing.assert_allclose(f @ samples, exact)


def test_the_projection_is_over_all_components_of_the_action():
    g, k = np.array([3.0, -1.0, 2.0]), np.array([1.0, 2.0, 0.5])
    z = equations.trust_region_projection(constant([g]), constant([k]), delta=0.7).numpy()[0]
    np.testing.assert_allclose(z, oracles.projection(g, k, 0.7), atol=1e-9)
    assert np.dot(k, z) == pytest.approx(0.7)
    apart = [
        equations.trust_region_projection(constant([[a]]), constant([[b]]), delta=0.7).numpy()[0, 0]
        for a, b in zip(g, k, strict=True)
    ]
    assert not np.allclose(z, apart), "projecting each component alone gives another result"


@pytest.mark.parametrize("function", ["dueling_q", "target_value", "sampled_bias_correction", "trajectory_weight"])
def test_shapes_that_do_not_fit_are_refused(function):
    two, three = tf.zeros([2, 2]), tf.zeros([2, 3])
    arguments = {
        "dueling_q": (two, three, tf.zeros([2, 2, 5])),
        "target_value": (two, two, three, two),
        "sampled_bias_correction": (two, tf.zeros([2, 3, 4]), two),
        "trajectory_weight": (two, three, tf.ones([2, 2], tf.bool)),
    }[function]
    options = {"c": 1.0} if function in ("sampled_bias_correction", "trajectory_weight") else {}
    with pytest.raises(ValueError, match="shapes must be equal"):
        getattr(equations, function)(*arguments, **options)
