"""The paper in code: Wang et al., "Sample Efficient Actor-Critic with Experience Replay", ICLR 2017 (arXiv:1611.01224).

The last function is for DQN: Schaul et al., "Prioritized Experience Replay", ICLR 2016 (arXiv:1511.05952).

Pure functions on tensors, independent of networks, environments and optimizers. Every result is per state: the learner
reduces over the batch last, since dividing a gradient by the batch size before the trust-region projection would change
the meaning of δ. Policy gradients are ascent directions in φ's coordinates. All functions raise ValueError
where shapes do not match, since broadcasting would hide a mistake. Tensors are float32 or float64, masks bool.

Symbols, with B trajectories of T rows, A discrete actions or d components of a continuous one:

    φ       statistics of the policy f(·|φ(x)): a categorical's probability vector itself (§3.3), a Gaussian's mean (§5)
    φ_a     statistics of the average policy
    μ       behaviour policy that chose the stored actions
    ρ       importance weight f(a|φ(x)) / μ(a|x)
    Q, V    critic: Q(x, a), and V(x) = Σ_a f(a|φ(x)) Q(x, a);  Q̃: the stochastic dueling network's estimate (Eq. 13)
    Q_ret   Retrace target (Eq. 5);  Q_opc: the same with a trace of 1 (Eq. 21)
    c, δ, γ truncation of ρ, radius of the trust region, discount factor

Masked rows (`mask` False: the environment ignored the action) are never read, except that V(x) passes through them.
Nothing after a discount of 0 is read. Selection is by `tf.where`, so a NaN in values that are not read does not spread.
"""

import tensorflow as tf

_TINY = 1e-30  # the smallest divisor, against x / 0
_LARGEST_LOG = 80.0  # e^89 overflows float32, and truncation makes all ρ above c equal


def state_value(q: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:
    """[...] V(x) = Σ_a f(a|φ(x)) Q(x, a), from Q(x, ·) and f(·|φ(x)) [..., A]  (§2, Algorithm 2)."""
    _require_same_shape(q=q, probabilities=probabilities)
    return tf.reduce_sum(probabilities * q, axis=-1)


def importance_weight(density: tf.Tensor, behaviour_density: tf.Tensor) -> tf.Tensor:
    """[...] ρ = f(a|φ(x)) / μ(a|x) ≥ 0  (§3), from both [...]; a μ that underflowed to 0 gives a large but finite ρ."""
    _require_same_shape(density=density, behaviour_density=behaviour_density)
    return density / tf.maximum(behaviour_density, _TINY)


def importance_weight_of_logs(log_density: tf.Tensor, behaviour_log_density: tf.Tensor) -> tf.Tensor:
    """[...] ρ = f(a|φ(x)) / μ(a|x), at most e^80, from log densities [...] (§5), where densities would underflow."""
    _require_same_shape(log_density=log_density, behaviour_log_density=behaviour_log_density)
    return tf.exp(tf.minimum(log_density - behaviour_log_density, _LARGEST_LOG))


def retrace_coefficient(rho: tf.Tensor) -> tf.Tensor:
    """[...] ρ̄ = min{1, ρ}, Retrace's trace for discrete actions (Eq. 5); Algorithm 2 truncates at 1, whatever c is."""
    return tf.minimum(rho, 1.0)


def retrace_coefficient_of_logs(
    log_density: tf.Tensor, behaviour_log_density: tf.Tensor, *, dimension: int
) -> tf.Tensor:
    """[...] c = min{1, ρ^{1/d}}, Retrace's trace for actions of d components (Algorithm 3), from log densities [...].

    The root is taken of logs: ρ itself underflows where c need not be small.
    """
    _require_same_shape(log_density=log_density, behaviour_log_density=behaviour_log_density)
    return tf.exp(tf.minimum((log_density - behaviour_log_density) / dimension, 0.0))


def off_policy_return(
    reward: tf.Tensor,
    discount: tf.Tensor,
    mask: tf.Tensor,
    q: tf.Tensor,
    value: tf.Tensor,
    bootstrap_value: tf.Tensor,
    trace: tf.Tensor,
    *,
    gamma: float,
    lambda_: float = 1.0,
) -> tf.Tensor:
    """[B, T] G_t: Retrace and Q_opc, one recursion with different traces (Eq. 5 and 21; Algorithms 2 and 3).

        G_t = r_t + γ d_t U_{t+1}
        U_t = V(x_t) + λ c_t [G_t − Q(x_t, a_t)]   on an unmasked row
        U_t = V(x_t)                               on a masked row, where also G_t = V(x_t)
        U_T = V(x_T)

    With c_t = min{1, ρ_t} G is Q_ret, with c_t = 1 it is Q_opc. U_{t+1} is not read where d_t = 0.

    Args:
        reward: [B, T] r_t.
        discount: [B, T] d_t, 0 where a_t ended the return, else 1. γ is not part of it.
        mask: [B, T] bool, False on masked rows, where only `value` is read.
        q: [B, T] Q(x_t, a_t).
        value: [B, T] V(x_t).
        bootstrap_value: [B] V(x_T).
        trace: [B, T] c_t.
        gamma: γ.
        lambda_: λ, a factor on every trace; 1 in the paper (footnote 1).

    Raises:
        ValueError: also if T is not known when tracing.
    """
    _require_same_shape(reward=reward, discount=discount, mask=mask, q=q, value=value, trace=trace)
    if reward.shape.rank != 2 or reward.shape[1] is None:
        raise ValueError(f"reward must be [B, T] with a static T, not {reward.shape}")
    if bootstrap_value.shape.rank != 1:
        raise ValueError(f"bootstrap_value must be [B], not {bootstrap_value.shape}")
    _require_same_shape(**{"bootstrap_value": bootstrap_value, "reward[:, 0]": reward[:, 0]})

    def row(upcoming: tuple[tf.Tensor, tf.Tensor], t: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, tf.Tensor]:
        (r, d, m, q_t, v, c), (_, u) = t, upcoming
        g = tf.where(m, r + gamma * tf.where(d > 0, d * u, tf.zeros_like(u)), v)
        return g, tf.where(m, v + lambda_ * c * (g - q_t), v)

    rows = tuple(map(tf.transpose, (reward, discount, mask, q, value, trace)))
    returns, _ = tf.scan(row, rows, (bootstrap_value, bootstrap_value), reverse=True)
    return tf.transpose(returns)


def multi_step_return(
    reward: tf.Tensor,
    discount: tf.Tensor,
    mask: tf.Tensor,
    value: tf.Tensor,
    bootstrap_value: tf.Tensor,
    *,
    gamma: float,
) -> tf.Tensor:
    """R_t = Σ_{i<k−t} γ^i r_{t+i} + γ^{k−t} V(x_k), the return of A3C and TIS (appendix E.2).

    This is `off_policy_return` without its correction, with the same arguments, result and errors.
    """
    return off_policy_return(reward, discount, mask, value, value, bootstrap_value, tf.ones_like(value), gamma=gamma)


def importance_sampled_return(
    reward: tf.Tensor,
    discount: tf.Tensor,
    mask: tf.Tensor,
    value: tf.Tensor,
    bootstrap_value: tf.Tensor,
    rho: tf.Tensor,
    *,
    gamma: float,
) -> tf.Tensor:
    """R_t = r_t + γ ρ_{t+1} R_{t+1} (appendix E.4, where γ is not printed; Degris et al. 2012), R_k = V(x_k).

    The ablation of Retrace and Q_opc: `off_policy_return` with the trace ρ, and with Q and V of 0 inside a trajectory.
    Arguments, result and errors are the same.
    """
    _require_same_shape(value=value, mask=mask)
    nothing = tf.zeros_like(value)
    return off_policy_return(
        reward, discount, mask, nothing, tf.where(mask, nothing, value), bootstrap_value, rho, gamma=gamma
    )


def trajectory_weight(log_rho: tf.Tensor, discount: tf.Tensor, mask: tf.Tensor, *, c: float) -> tf.Tensor:
    """[B, T] w_t = min{c, Π_{i≥t} ρ_i}, the weight of TIS, over the rows that R_t sums (appendix E.2, with c = 5).

    The product ends with the trajectory, with the return (a discount of 0), and before a masked row, whose weight is
    min{c, 1}. `log_rho` is [B, T] log ρ_t; the others and the errors are as in `off_policy_return`.
    """
    _require_same_shape(log_rho=log_rho, discount=discount, mask=mask)
    if log_rho.shape.rank != 2 or log_rho.shape[1] is None:
        raise ValueError(f"log_rho must be [B, T] with a static T, not {log_rho.shape}")

    def row(upcoming: tf.Tensor, t: tuple[tf.Tensor, ...]) -> tf.Tensor:
        (log_rho_t, d, m), none = t, tf.zeros_like(upcoming)
        return tf.where(m, log_rho_t + tf.where(d > 0, upcoming, none), none)

    rows = tuple(map(tf.transpose, (log_rho, discount, mask)))
    logs = tf.transpose(tf.scan(row, rows, tf.zeros_like(log_rho[:, 0]), reverse=True))
    return tf.minimum(tf.exp(tf.minimum(logs, _LARGEST_LOG)), c)


def dueling_q(value: tf.Tensor, advantage: tf.Tensor, sampled_advantages: tf.Tensor) -> tf.Tensor:
    """[...] Q̃(x, a) = V(x) + A(x, a) − (1/n) Σ_i A(x, u_i), u_i ~ f(·|φ(x)): the stochastic dueling network (Eq. 13).

    V(x) and A(x, a) are [...], A(x, u_i) is [..., n].
    """
    _require_same_shape(
        **{"value": value, "advantage": advantage, "sampled_advantages[..., 0]": sampled_advantages[..., 0]}
    )
    return value + advantage - tf.reduce_mean(sampled_advantages, axis=-1)


def target_value(rho: tf.Tensor, q_ret: tf.Tensor, q: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """[...] V_target = min{1, ρ} (Q_ret − Q̃(x, a)) + V(x), all [...] and a the taken action  (Eq. 14, appendix D)."""
    _require_same_shape(rho=rho, q_ret=q_ret, q=q, value=value)
    return tf.minimum(rho, 1.0) * (q_ret - q) + value


def truncated_policy_gradient(rho: tf.Tensor, score: tf.Tensor, advantage: tf.Tensor, *, c: float) -> tf.Tensor:
    """min{c, ρ} ∇_φ log f(a|φ) (Q_ret − V) [..., D]: the first term of Eq. 9.

    The score is [..., D], ρ and the advantage Q_ret − V (continuous actions: Q_opc − V) are [...], all of the taken
    action. c = `inf` gives plain importance sampling.
    """
    _require_same_shape(**{"rho": rho, "advantage": advantage, "score[..., 0]": score[..., 0]})
    return (tf.minimum(rho, c) * advantage)[..., None] * score


def bias_correction(rho: tf.Tensor, advantage: tf.Tensor, *, c: float) -> tf.Tensor:
    """Σ_a [1 − c/ρ(a)]_+ f(a|φ) ∇_φ log f(a|φ) (Q(a) − V) [..., A]: the second term of Eq. 9, for a categorical.

    With φ the probability vector, f(a|φ) ∇_φ log f(a|φ) = ∇_φ φ_a = e_a, so the sum is a vector with components
    [1 − c/ρ(a)]_+ (Q(a) − V). (Algorithm 2 prints Q(x, a_i); Eq. 9 has Q(x, a).) ρ and Q(x, a) − V(x) are those of
    every action, [..., A]. c = `inf` makes the term vanish.
    """
    _require_same_shape(rho=rho, advantage=advantage)
    return tf.maximum(0.0, 1.0 - c / tf.maximum(rho, _TINY)) * advantage


def sampled_bias_correction(rho: tf.Tensor, score: tf.Tensor, advantage: tf.Tensor, *, c: float) -> tf.Tensor:
    """[1 − c/ρ(a')]_+ (Q̃(x, a') − V) ∇_φ log f(a'|φ) [..., D], a' ~ f(·|φ(x)): a sample of that term (Algorithm 3).

    Shapes are those of `truncated_policy_gradient`; everything is of a'.
    """
    _require_same_shape(**{"rho": rho, "advantage": advantage, "score[..., 0]": score[..., 0]})
    return bias_correction(rho, advantage, c=c)[..., None] * score


def trust_region_projection(g: tf.Tensor, k: tf.Tensor, *, delta: float) -> tf.Tensor:
    """z* = g − max{0, (kᵀg − δ) / ‖k‖²} k: [..., D], the closest z to g with kᵀz ≤ δ, per state (Eq. 11 and 12).

    g [..., D] is the policy gradient, k [..., D] = ∇_φ KL[f(·|φ_a) ‖ f(·|φ)], and δ > 0; `inf` leaves g as it is.
    """
    _require_same_shape(g=g, k=k)
    excess = tf.maximum(0.0, tf.reduce_sum(k * g, axis=-1, keepdims=True) - delta)
    # k = 0 only if both policies' statistics are identical; the excess is then 0.
    return g - tf.math.divide_no_nan(excess, tf.reduce_sum(k * k, axis=-1, keepdims=True)) * k


def q_learning_error(
    q: tf.Tensor,
    reward: tf.Tensor,
    discount: tf.Tensor,
    next_values: tf.Tensor,
    next_choice: tf.Tensor,
    *,
    gamma: float,
) -> tf.Tensor:
    """[B] δ = r + γ Q_target(x', argmax_a choice(x', a)) − Q(x, a)  (Schaul et al. 2016, Algorithm 1, line 11).

    DQN chooses by Q_target itself (Mnih et al. 2015), Double DQN by Q (van Hasselt et al. 2016).

    Args:
        q: [B] Q(x, a).
        reward: [B].
        discount: [B] 0 where a ended the return, else 1.
        next_values: [B, A] Q_target(x', ·).
        next_choice: [B, A] the values by which the next action is chosen (the first among equals).
    """
    _require_same_shape(q=q, reward=reward, discount=discount, **{"next_values[..., 0]": next_values[..., 0]})
    _require_same_shape(next_values=next_values, next_choice=next_choice)
    if q.shape.rank != 1:
        raise ValueError(f"q must be [B], not {q.shape}")
    chosen = tf.gather(next_values, tf.argmax(next_choice, axis=-1), batch_dims=1)
    # The values after an episode's end may be NaN, which a product would keep.
    return reward + tf.where(discount > 0, gamma * discount * chosen, tf.zeros_like(chosen)) - q


def _require_same_shape(**tensors: tf.Tensor) -> None:
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    first = next(iter(shapes.values()))
    if any(shape.rank != first.rank or not shape.is_compatible_with(first) for shape in shapes.values()):
        raise ValueError("shapes must be equal: " + ", ".join(f"{name} {shape}" for name, shape in shapes.items()))
