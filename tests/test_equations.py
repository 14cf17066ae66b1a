"""The paper's equations, compared with published numbers, exact enumeration and float64 sums."""

import numpy as np
import pytest
import tensorflow as tf

from acer_tf import equations
from tests import oracles

# Retrace(0.9) on two sequences, from rlax's tests (value_learning_test.py). Row t has its own discount factor.
RLAX_Q = np.array(
    [[[1.2, 2.2], [-1.2, 0.2], [2.2, -1.2], [-2.25, -6.0]], [[4.2, 2.2], [1.2, 1.2], [-1.2, -2.2], [1.5, 1.0]]]
)
RLAX_ACTION = np.array([[0, 1, 0, 0], [1, 0, 0, 1]])
RLAX_REWARD = np.array([[-1.3, -1.3, 2.3], [1.3, 5.3, -3.3]])
RLAX_DISCOUNT = np.array([[0.0, 0.89, 0.85], [0.88, 1.0, 0.83]])
RLAX_PI = np.array([[[0.5, 0.5], [0.2, 0.8], [0.6, 0.4], [0.9, 0.1]], [[0.1, 0.9], [1.0, 0.0], [0.3, 0.7], [0.7, 0.3]]])
RLAX_MU = np.array([[0.5, 0.1, 0.9, 0.3], [0.4, 0.6, 1.0, 0.9]])
RLAX_PREDICTION = np.array([[1.1, 1.1, 3.1], [3.1, 9.5, -2.1]])  # Q(x_t, a_t) of the trained network
RLAX_LOSS = np.array([[2.8800001, 3.8934109, 4.5942383], [0.31121615, 20.253206, 0.0031601219]])

# The same with V and ρ given instead of a policy (RetraceContinuousTest), plain and with λ = 0 from row 2 on.
RLAX_CONTINUOUS_VALUE = np.array([[-0.08, 0.84, -2.625], [1.2, -1.9, 1.35]])
RLAX_CONTINUOUS_LOG_RHO = np.array([[-0.4054651, 1.0986122], [-1.2039728, -1.0986123]])  # as its test gives them
RLAX_CONTINUOUS_LOSS = np.array([[2.88, 5.643226, 4.594238], [0.04236919, 20.44066, 0.003160141]])
RLAX_CONTINUOUS_TERMINAL_LOSS = np.array([[2.88, 1.365213, 4.594238], [0.02448239, 18.605, 0.003160141]])


def constant(x, dtype=tf.float64):
    return tf.constant(x, dtype)


def random_inputs(seed, batch=6, rows=9):
    """Arguments of off_policy_return, NumPy float64: every kind of boundary, ρ on both sides of 1."""
    rng = np.random.default_rng(seed)
    discount, mask = oracles.random_boundaries(rng, batch, rows)
    return {
        "reward": rng.normal(size=[batch, rows]),
        "discount": discount.astype(np.float64),
        "mask": mask,
        "q": rng.normal(size=[batch, rows]),
        "value": rng.normal(size=[batch, rows]),
        "bootstrap_value": rng.normal(size=[batch]),
        "trace": np.exp(rng.normal(size=[batch, rows])),
    }


def off_policy_return(inputs, **settings):
    tensors = {name: constant(x, tf.bool if name == "mask" else tf.float64) for name, x in inputs.items()}
    return equations.off_policy_return(**tensors, **settings).numpy()


def test_retrace_reproduces_the_numbers_of_rlax():
    q_taken = np.take_along_axis(RLAX_Q, RLAX_ACTION[..., None], axis=-1)[..., 0]
    pi_taken = np.take_along_axis(RLAX_PI, RLAX_ACTION[..., None], axis=-1)[..., 0]
    value = equations.state_value(constant(RLAX_Q), constant(RLAX_PI))
    rho = equations.importance_weight(constant(pi_taken), constant(RLAX_MU))
    assert rho.numpy().min() < 0.5
    assert rho.numpy().max() > 5
    target = equations.off_policy_return(
        constant(RLAX_REWARD),
        constant(RLAX_DISCOUNT),
        tf.ones([2, 3], tf.bool),
        constant(q_taken[:, :-1]),
        value[:, :-1],
        value[:, -1],
        equations.retrace_coefficient(rho)[:, :-1],
        gamma=1.0,
        lambda_=0.9,
    )
    np.testing.assert_allclose(0.5 * (target - RLAX_PREDICTION) ** 2, RLAX_LOSS, rtol=1e-5)


@pytest.mark.parametrize(("last_lambda", "loss"), [(0.9, RLAX_CONTINUOUS_LOSS), (0.0, RLAX_CONTINUOUS_TERMINAL_LOSS)])
def test_retrace_reproduces_the_numbers_of_rlax_with_given_values_and_ratios(last_lambda, loss):
    rho = equations.retrace_coefficient(tf.exp(constant(RLAX_CONTINUOUS_LOG_RHO)))
    trace = tf.concat([tf.ones([2, 1], tf.float64), rho[:, :1] * 0.9, rho[:, 1:] * last_lambda], axis=1)
    target = equations.off_policy_return(
        constant(RLAX_REWARD),
        constant(RLAX_DISCOUNT),
        tf.ones([2, 3], tf.bool),
        constant([[1.2, 0.2, 2.2], [2.2, 1.2, -1.2]]),
        constant(np.concatenate([np.zeros([2, 1]), RLAX_CONTINUOUS_VALUE[:, :-1]], axis=1)),
        constant(RLAX_CONTINUOUS_VALUE[:, -1]),
        trace,
        gamma=1.0,
    )
    np.testing.assert_allclose(0.5 * (target - RLAX_PREDICTION) ** 2, loss, rtol=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lambda_", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("truncated", [True, False], ids=["retrace", "untruncated"])
def test_off_policy_return_equals_its_sum(seed, lambda_, truncated):
    inputs = random_inputs(seed)
    assert inputs["trace"].min() < 0.5
    assert inputs["trace"].max() > 2
    if truncated:
        inputs["trace"] = equations.retrace_coefficient(constant(inputs["trace"])).numpy()
        assert inputs["trace"].max() == 1.0
    expected = oracles.off_policy_return(**inputs, gamma=0.9, lambda_=lambda_)
    np.testing.assert_allclose(off_policy_return(inputs, gamma=0.9, lambda_=lambda_), expected, rtol=1e-10)


def test_q_opc_equals_its_sum_and_differs_from_retrace():
    inputs = random_inputs(0)
    opc = off_policy_return(inputs | {"trace": np.ones_like(inputs["trace"])}, gamma=0.9)
    expected = oracles.off_policy_return(**inputs | {"trace": np.ones_like(inputs["trace"])}, gamma=0.9)
    np.testing.assert_allclose(opc, expected, rtol=1e-10)
    retrace = off_policy_return(inputs | {"trace": np.minimum(inputs["trace"], 1)}, gamma=0.9)
    assert np.abs(opc - retrace).max() > 0.1


def test_on_policy_with_v_equal_to_q_is_the_discounted_return_to_the_bootstrap():
    rng = np.random.default_rng(0)
    reward, q = rng.normal(size=[2, 5]), rng.normal(size=[2, 5])
    bootstrap = rng.normal(size=[2])
    inputs = {
        "reward": reward,
        "discount": np.ones([2, 5]),
        "mask": np.ones([2, 5], bool),
        "q": q,
        "value": q,
        "bootstrap_value": bootstrap,
        "trace": np.ones([2, 5]),
    }
    expected = [
        [sum(0.9 ** (j - t) * reward[b, j] for j in range(t, 5)) + 0.9 ** (5 - t) * bootstrap[b] for t in range(5)]
        for b in range(2)
    ]
    np.testing.assert_allclose(off_policy_return(inputs, gamma=0.9), expected, rtol=1e-12)


def test_lambda_0_is_one_step_of_expected_sarsa():
    inputs = random_inputs(3)
    values = np.concatenate([inputs["value"], inputs["bootstrap_value"][:, None]], axis=1)
    one_step = inputs["reward"] + 0.9 * inputs["discount"] * values[:, 1:]
    expected = np.where(inputs["mask"], one_step, inputs["value"])
    np.testing.assert_allclose(off_policy_return(inputs, gamma=0.9, lambda_=0.0), expected, rtol=1e-12)


def test_a_truncation_bootstraps_the_value_of_the_masked_row_and_a_termination_nothing():
    inputs = {
        "reward": [[1.0, 99.0, 2.0], [1.0, 99.0, 2.0], [1.0, 3.0, 2.0]],
        "discount": [[1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 1.0, 0.0]],
        "mask": [[True, False, True], [True, False, True], [True, True, True]],
        "q": [[5.0, 99.0, 6.0]] * 2 + [[5.0, 4.0, 6.0]],
        "value": [[7.0, 8.0, 9.0]] * 3,
        "bootstrap_value": [10.0, 20.0, 30.0],
        "trace": [[0.5, 99.0, 0.25]] * 2 + [[0.5, 0.125, 0.25]],
    }
    expected = [
        [1 + 0.5 * 8, 8, 2 + 0.5 * 10],
        [1, 8, 2 + 0.5 * 20],
        [1, 3 + 0.5 * (9 + 0.25 * (2 - 6)), 2],
    ]
    np.testing.assert_allclose(off_policy_return(inputs, gamma=0.5), expected, rtol=1e-12)


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("seed", range(3))
def test_what_must_not_be_read_may_hold_anything(seed, poison):
    inputs = random_inputs(seed)
    clean = off_policy_return(inputs, gamma=0.9)
    poisoned = {name: x.copy() for name, x in inputs.items()}
    masked = ~inputs["mask"]
    assert masked.any()
    for name in ("reward", "discount", "q", "trace"):
        poisoned[name][masked] = poison
    # After the end of a return nothing enters U: neither V nor the trace nor Q of the next row.
    following = np.zeros_like(masked)
    following[:, 1:] = (inputs["discount"][:, :-1] == 0) & inputs["mask"][:, :-1]
    assert (following & ~masked).any()
    assert (following & masked).any()
    for name in ("value", "trace", "q"):
        poisoned[name][following] = poison
    ended = (inputs["discount"][:, -1] == 0) & inputs["mask"][:, -1]
    poisoned["bootstrap_value"][ended] = poison
    result = off_policy_return(poisoned, gamma=0.9)
    np.testing.assert_array_equal(result[inputs["mask"]], clean[inputs["mask"]])


def test_a_discount_of_0_at_the_end_hides_the_bootstrap():
    inputs = random_inputs(0, batch=2)
    inputs["mask"][:, -1], inputs["discount"][:, -1] = True, 0.0
    inputs["bootstrap_value"][:] = np.nan
    np.testing.assert_array_equal(off_policy_return(inputs, gamma=0.9)[:, -1], inputs["reward"][:, -1])


@pytest.mark.parametrize("name", ["value", "q", "trace", "reward"])
def test_nan_in_what_is_read_reaches_the_return(name):
    inputs = random_inputs(0, batch=2)
    inputs["mask"][:], inputs["discount"][:] = True, 1.0
    inputs[name][:, 1] = np.nan
    assert np.isnan(off_policy_return(inputs, gamma=0.9)[:, 0]).all()


@pytest.mark.parametrize("name", ["reward", "discount", "mask", "q", "value", "trace"])
@pytest.mark.parametrize("change", ["another T", "another rank"])
def test_off_policy_return_refuses_another_shape(name, change):
    inputs = random_inputs(0)
    inputs[name] = inputs[name][:, :-1] if change == "another T" else inputs[name][..., None]
    with pytest.raises(ValueError, match="shapes must be equal"):
        off_policy_return(inputs, gamma=0.9)


@pytest.mark.parametrize(
    ("shape", "message"),
    [([6, 1], r"bootstrap_value must be \[B\]"), ([], "bootstrap_value"), ([1], "bootstrap_value"), ([9], "equal")],
)
def test_off_policy_return_refuses_a_bootstrap_of_another_shape(shape, message):
    with pytest.raises(ValueError, match=message):
        off_policy_return(random_inputs(0) | {"bootstrap_value": np.zeros(shape)}, gamma=0.9)


def test_off_policy_return_refuses_time_major_vectors_and_an_unknown_length():
    inputs = {name: x[0] for name, x in random_inputs(0).items()}
    with pytest.raises(ValueError, match=r"reward must be \[B, T\]"):
        off_policy_return(inputs, gamma=0.9)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32)])
    def unknown_length(x):
        return equations.off_policy_return(x, x, x > 0, x, x, x[:, 0], x, gamma=0.9)

    with pytest.raises(ValueError, match="static T"):
        unknown_length(tf.ones([2, 3]))


def test_off_policy_return_compiles_for_an_unknown_batch_size():
    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def unknown_batch(x):
        return equations.off_policy_return(x, x, x > 0, x, x, x[:, 0], x, gamma=0.9)

    x = np.full([2, 3], 0.5)
    expected = oracles.off_policy_return(x, x, x > 0, x, x, x[:, 0], x, gamma=0.9)
    np.testing.assert_allclose(unknown_batch(tf.constant(x, tf.float32)), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: equations.state_value(a, b),
        lambda a, b: equations.importance_weight(a, b),
        lambda a, b: equations.importance_weight_of_logs(a, b),
        lambda a, b: equations.retrace_coefficient_of_logs(a, b, dimension=2),
        lambda a, b: equations.bias_correction(a, b, c=1.0),
        lambda a, b: equations.trust_region_projection(a, b, delta=1.0),
        lambda a, b: equations.truncated_policy_gradient(a[..., 0], tf.ones([2, 4, 3]), b[..., 0], c=1.0),
        lambda a, b: equations.truncated_policy_gradient(a[..., 0], b, a[..., 0], c=1.0),
    ],
    ids=[
        "state_value",
        "importance_weight",
        "weight_of_logs",
        "trace_of_logs",
        "bias_correction",
        "projection",
        "advantage",
        "score",
    ],
)
@pytest.mark.parametrize("shape", [[2, 1, 3], [4, 3], [2, 4, 4, 3]])
def test_pairs_of_different_shape_are_refused_where_broadcasting_would_hide_them(call, shape):
    with pytest.raises(ValueError, match="shapes must be equal"):
        call(tf.ones([2, 4, 3]), tf.ones(shape))


@pytest.mark.parametrize("name", ["reward", "discount", "next_values", "next_choice"])
def test_a_q_learning_error_refuses_shapes_that_would_make_a_matrix_of_it(name):
    shapes = {"q": [4], "reward": [4], "discount": [4], "next_values": [4, 3], "next_choice": [4, 3]}
    inputs = {n: tf.ones([4, 1] if n == name else shape) for n, shape in shapes.items()}
    with pytest.raises(ValueError, match="shapes must be equal"):
        equations.q_learning_error(**inputs, gamma=0.9)


def test_a_q_learning_error_refuses_windows_whose_choices_it_would_mix():
    row, values = tf.ones([2, 1]), tf.ones([2, 1, 3])
    with pytest.raises(ValueError, match=r"q must be \[B\], not \(2, 1\)"):
        equations.q_learning_error(row, row, row, values, values, gamma=0.9)


# ---- policy gradient


@pytest.fixture(name="state")
def one_state():
    """A 3-action state: π, μ, Q. ρ is 0.1, 12 and 0.78: on both sides of every finite c above 0."""
    return np.array([0.05, 0.6, 0.35]), np.array([0.5, 0.05, 0.45]), np.array([2.0, -1.0, 0.5])


def expected_policy_gradient(pi, mu, advantage, c):
    """E_{a~μ}[truncated term] + correction, by enumeration of the three actions."""
    rho = equations.importance_weight(constant(pi), constant(mu))
    total = equations.bias_correction(rho, constant(advantage), c=c).numpy()
    for a in range(3):
        score = np.eye(3)[a] / pi[a]
        term = equations.truncated_policy_gradient(rho[a], constant(score), constant(advantage[a]), c=c)
        total = total + mu[a] * term.numpy()
    return total


@pytest.mark.parametrize("c", [0.0, 0.5, 1.0, 2.0, 10.0, np.inf])
def test_truncated_term_and_correction_are_together_the_exact_policy_gradient(state, c):
    pi, mu, q = state
    advantage = q - pi @ q
    gradient = expected_policy_gradient(pi, mu, advantage, c)
    np.testing.assert_allclose(gradient, advantage, rtol=1e-12)  # Σ_a ∇_φ φ_a A(a)
    logits = np.log(pi)
    exact = oracles.finite_differences(lambda x: oracles.softmax(x) @ q, logits)
    np.testing.assert_allclose(oracles.softmax_jacobian(pi) @ gradient, exact, rtol=1e-6, atol=1e-9)


def test_c_0_leaves_the_correction_alone(state):
    pi, mu, q = state
    rho, advantage = constant(pi / mu), constant(q - pi @ q)
    truncated = equations.truncated_policy_gradient(rho, constant(np.ones([3, 3])), advantage, c=0.0)
    np.testing.assert_array_equal(truncated, np.zeros([3, 3]))
    np.testing.assert_array_equal(equations.bias_correction(rho, advantage, c=0.0), advantage)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_c_infinite_leaves_plain_importance_sampling_even_where_policies_underflow(dtype):
    pi, mu = tf.constant([0.0, 1.0, 0.0], dtype), tf.constant([1.0, 0.0, 0.0], dtype)
    rho = equations.importance_weight(pi, mu)
    np.testing.assert_array_equal(rho[::2], [0.0, 0.0])
    assert 1e20 < rho[1] < np.inf
    np.testing.assert_array_equal(equations.bias_correction(rho, tf.constant([1.0, -2.0, 3.0], dtype), c=np.inf), 0.0)
    truncated = equations.truncated_policy_gradient(
        tf.constant([50.0], dtype), tf.constant([[0.0, 2.0, 0.0]], dtype), tf.constant([3.0], dtype), c=np.inf
    )
    np.testing.assert_array_equal(truncated, [[0.0, 300.0, 0.0]])


@pytest.mark.parametrize("c", [0.0, 0.5, 10.0])
def test_finite_c_stays_finite_where_policies_underflow(c):
    rho = equations.importance_weight(tf.constant([0.0, 1.0, 0.0]), tf.constant([1.0, 0.0, 0.0]))
    correction = equations.bias_correction(rho, tf.constant([1.0, 1.0, 1.0]), c=c).numpy()
    np.testing.assert_allclose(correction, [float(c == 0), 1.0, float(c == 0)], rtol=1e-6)


@pytest.mark.parametrize("c", [1.0, 10.0, np.inf])
def test_on_policy_with_c_at_least_1_is_plain_actor_critic(state, c):
    pi, _, q = state
    rho = equations.importance_weight(constant(pi), constant(pi))
    np.testing.assert_array_equal(equations.bias_correction(rho, constant(q), c=c), np.zeros(3))
    score = np.diag(1 / pi)
    term = equations.truncated_policy_gradient(rho, constant(score), constant(q), c=c)
    np.testing.assert_allclose(term, score * q[:, None], rtol=1e-12)


@pytest.mark.parametrize("c", [0.5, 2.0, 10.0])
def test_no_sample_weighs_more_than_c_and_no_correction_more_than_1(c):
    rho = tf.constant(np.geomspace(1e-3, 1e6, 50))
    ones = tf.ones_like(rho)
    truncated = equations.truncated_policy_gradient(rho, ones[:, None], ones, c=c).numpy()[:, 0]
    correction = equations.bias_correction(rho, ones, c=c).numpy()
    assert truncated.max() == c
    assert correction.min() == 0.0
    assert 0.99 < correction.max() <= 1.0
    np.testing.assert_allclose(truncated + rho * correction, rho, rtol=1e-9)


# ---- trust region


@pytest.mark.parametrize("seed", range(8))
def test_projection_is_the_closest_point_of_the_half_space(seed):
    rng = np.random.default_rng(seed)
    g, k = rng.normal(size=3), rng.normal(size=3)
    k *= np.sign(k @ g)
    delta = float(k @ g) * (0.3 if seed % 2 else 1.5)  # binding, not binding
    z = equations.trust_region_projection(constant(g), constant(k), delta=delta).numpy()
    assert k @ z <= delta + 1e-12
    distance = np.linalg.norm(g - z)
    for scale in (1e-3, 1e-2, 0.1, 1.0):
        others = z + scale * rng.normal(size=[20_000, 3])
        feasible = others[others @ k <= delta]
        assert len(feasible) > 1000
        assert np.linalg.norm(g - feasible, axis=1).min() >= distance - 1e-9


def test_binding_projection_lies_on_the_boundary_and_the_other_is_g_itself():
    rng = np.random.default_rng(0)
    g, k = rng.normal(size=[1000, 3]), rng.normal(size=[1000, 3])
    z = equations.trust_region_projection(constant(g), constant(k), delta=0.5).numpy()
    before, after = np.sum(k * g, axis=1), np.sum(k * z, axis=1)
    binding = before > 0.5
    assert 0.1 < binding.mean() < 0.9
    np.testing.assert_allclose(after[binding], 0.5, rtol=1e-12)
    np.testing.assert_array_equal(z[~binding], g[~binding])
    np.testing.assert_allclose(z, [oracles.projection(*pair, 0.5) for pair in zip(g, k, strict=True)], atol=1e-12)


def test_infinite_delta_and_zero_k_leave_g():
    g = tf.constant([[1e6, -2.0, 3.0]])
    np.testing.assert_array_equal(equations.trust_region_projection(g, g, delta=np.inf), g)
    np.testing.assert_array_equal(equations.trust_region_projection(g, tf.zeros_like(g), delta=1e-6), g)


def test_projection_is_per_state():
    rng = np.random.default_rng(0)
    g, k = constant(rng.normal(size=[4, 5, 3])), constant(rng.normal(size=[4, 5, 3]))
    z = equations.trust_region_projection(g, k, delta=0.1)
    doubled = equations.trust_region_projection(tf.tile(g, [2, 1, 1]), tf.tile(k, [2, 1, 1]), delta=0.1)
    np.testing.assert_array_equal(doubled, tf.tile(z, [2, 1, 1]))
    np.testing.assert_array_equal(equations.trust_region_projection(g[1, 2], k[1, 2], delta=0.1), z[1, 2])
