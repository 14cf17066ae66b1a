"""rlax's functions under the kit's names, in float32.

python ../../acer_tf/conformance/check.py rlax_functions float32

rlax has discounts, 0 after a termination. At a time limit inside a window a trace of 0 bootstraps from the value there.
"""

import jax.numpy as jnp
import numpy as np
import rlax


def array(value):
    return jnp.asarray(np.asarray(value), jnp.float32)


def off_policy(reward, terminated, truncated, q, value, next_value, gamma, trace):
    trace = np.where(truncated[:-1], 0.0, trace[1:])
    columns = (q[1:], next_value, reward, gamma * (1.0 - terminated), trace)
    return rlax.general_off_policy_returns_from_q_and_v(*map(array, columns))


def retrace(rho, **window):
    return off_policy(**window, trace=np.minimum(1.0, rho))


def q_opc(**window):
    return off_policy(**window, trace=np.ones(len(window["reward"])))


def multi_step_return(reward, terminated, truncated, next_value, gamma):
    columns = (reward, gamma * (1.0 - terminated), next_value, 1.0 - truncated)
    return rlax.lambda_returns(*map(array, columns))


def importance_weights(probabilities, behaviour):
    unmasked((probabilities > 0) | (behaviour > 0))
    with np.errstate(divide="ignore"):
        pi, mu = (array([np.log(each)] * len(each)) for each in (probabilities, behaviour))
    return rlax.categorical_importance_sampling_ratios(pi, mu, jnp.arange(len(probabilities)))


def entropy(probabilities):
    with np.errstate(divide="ignore"):
        return rlax.softmax().entropy(array(np.log(probabilities)))


def kl(average, probabilities):
    with np.errstate(divide="ignore"):
        return rlax.softmax().kl(array(np.log(average)), array(np.log(probabilities)))


def epsilon_greedy(q, legal, epsilon):
    unmasked(legal)
    return rlax.epsilon_greedy(epsilon).probs(array(q))


def dqn_error(q, reward, terminated, next_q, legal, gamma):
    unmasked(legal)
    return rlax.q_learning(array([q]), 0, array(reward), array(gamma * (1.0 - terminated)), array(next_q))


def double_dqn_error(q, reward, terminated, next_q, next_online_q, legal, gamma):
    unmasked(legal)
    row = (array([q]), 0, array(reward), array(gamma * (1.0 - terminated)), array(next_q), array(next_online_q))
    return rlax.double_q_learning(*row)


def unmasked(legal):
    if not legal.all():
        raise NotImplementedError  # rlax has no action masks
