"""PFRL's functions under the kit's names: each calls PFRL's own code, in float32 as PFRL's agents do.

python ../../acer_tf/conformance/check.py pfrl_functions float32

PFRL's recursions are of one episode; a window is cut into its episodes, as `ACER._observe_train` ends a window at each.
"""

from unittest import mock

import numpy as np
import torch
from pfrl.action_value import DiscreteActionValue, SingleActionValue
from pfrl.agents import DQN, DoubleDQN, acer
from pfrl.collections.prioritized import SumTreeQueue
from pfrl.replay_buffer import batch_experiences
from pfrl.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer
from pfrl.replay_buffers.prioritized import PriorityWeightError
from torch.distributions import Categorical, Independent, Normal


def tensor(value, requires_grad=False):
    return torch.tensor(np.asarray(value), dtype=torch.float32, requires_grad=requires_grad)


def episodes(terminated, truncated):
    """Slices of the episodes, and whether each bootstraps (`statevar` is None after `done`)."""
    begin = 0
    for t in range(len(terminated)):
        if terminated[t] or truncated[t] or t + 1 == len(terminated):
            yield slice(begin, t + 1), not terminated[t]
            begin = t + 1


class Recorder(acer.ACER):
    """ACER, which keeps the advantages that `compute_loss` gives to the policy's loss, the last row's first."""

    def __init__(self, gamma, use_Q_opc=False):
        self.gamma, self.use_Q_opc, self.advantages = gamma, use_Q_opc, []
        self.pi_loss_coef, self.Q_loss_coef, self.normalize_loss_by_steps = 1.0, 1.0, False

    def compute_one_step_pi_loss(self, advantage, **_):
        self.advantages.append(advantage)
        return torch.zeros(1)


def two_actions(rho):
    """Policies of which ρ(action 0) is `rho`."""
    behaviour = min(0.25, 0.25 / rho) if rho else 0.25
    pairs = [[p, 1 - p] for p in (rho * behaviour, behaviour)]
    return [Categorical(probs=tensor([pair])) for pair in pairs], np.int64(0)


def far_gaussians(log_rho, dimension):
    """Policies with log ρ of an action of zeros."""
    means = np.zeros((2, 1, dimension))
    means[int(log_rho > 0), 0, 0] = np.sqrt(2 * abs(log_rho))
    return [gaussian(mean, 1.0) for mean in means], np.zeros(dimension, np.float32)


def gaussian(mean, std):
    mean = tensor(mean, requires_grad=True)
    return Independent(Normal(mean, torch.full_like(mean, std, requires_grad=True)), 1)


def off_policy(reward, terminated, truncated, q, value, next_value, gamma, policies, use_Q_opc=False):
    returns = np.zeros(len(reward))
    for rows, bootstraps in episodes(terminated, truncated):
        agent, count = Recorder(gamma, use_Q_opc), rows.stop - rows.start
        pairs, actions = zip(*policies[rows], strict=True)
        pi, mu = zip(*pairs, strict=True)
        leaves = [tensor([x], True) for x in q[rows]]
        if isinstance(pi[0], Categorical):
            values = [DiscreteActionValue(torch.stack([leaf, leaf], 1)) for leaf in leaves]
        else:
            values = [SingleActionValue(lambda action, leaf=leaf: leaf) for leaf in leaves]
        R = float(next_value[rows][-1]) if bootstraps else 0
        v = [tensor([x], True) for x in value[rows]]
        agent.compute_loss(0, count, R, actions, reward[rows].tolist(), v, values, pi, mu, [None] * count)
        returns[rows] = agent.advantages[::-1] + value[rows]
    return returns


def retrace(rho, **window):
    return off_policy(**window, policies=[two_actions(x) for x in rho])


def retrace_continuous(log_rho, dimension, **window):
    return off_policy(**window, policies=[far_gaussians(x, dimension) for x in log_rho])


def q_opc(**window):
    return off_policy(**window, policies=[two_actions(1.0)] * len(window["reward"]), use_Q_opc=True)


def multi_step_return(reward, terminated, truncated, next_value, gamma):
    """The n-step targets of DQN, from the n-step experiences that the replay buffer makes."""
    buffer = ReplayBuffer(capacity=100, num_steps=len(reward))
    for t in range(len(reward)):
        state, following = np.array([t], np.float32), np.array([next_value[t]], np.float32)
        buffer.append(state, 0, reward[t], next_state=following, is_state_terminal=bool(terminated[t]))
        if terminated[t] or truncated[t] or t + 1 == len(reward):
            buffer.stop_current_episode()
    batch = batch_experiences(list(buffer.memory), torch.device("cpu"), lambda x: x, gamma)
    agent = mock.Mock(recurrent=False, target_model=lambda state: DiscreteActionValue(state))
    return DQN._compute_target_values(agent, batch)[torch.argsort(batch["state"][:, 0])]


def of_logits(probabilities):
    """A policy as PFRL's `SoftmaxCategoricalHead` makes it, from logits."""
    with np.errstate(divide="ignore"):
        return Categorical(logits=tensor([np.log(probabilities)], True))


def policies(probabilities, behaviour):
    if ((probabilities == 0) & (behaviour == 0)).any():
        raise NotImplementedError  # PFRL has no action masks
    return of_logits(probabilities), of_logits(behaviour)


def in_probabilities(loss, pi, probabilities):
    """The ascent direction in the probabilities, of a gradient in their logarithms."""
    gradient = -torch.autograd.grad(loss, pi._param)[0][0]
    return gradient.numpy() / np.where(probabilities > 0, probabilities, 1)


def importance_weights(probabilities, behaviour):
    return acer.compute_full_importance(*policies(probabilities, behaviour))[0]


def state_value(probabilities, q):
    pi, values = of_logits(probabilities), DiscreteActionValue(tensor([q]))
    return acer.ACERDiscreteActionHead(lambda _: pi, lambda _: values)(None)[2][0].detach()


def truncated_gradient(probabilities, behaviour, action, advantage, c):
    pi, mu = policies(probabilities, behaviour)
    equal = DiscreteActionValue(torch.zeros(1, len(probabilities)))  # Q = V: no bias correction
    loss = acer.compute_policy_gradient_loss(torch.tensor([action]), advantage, pi, mu, equal, 0.0, c)
    return in_probabilities(loss, pi, probabilities)


def bias_correction(probabilities, behaviour, q, value, c):
    pi, mu = policies(probabilities, behaviour)
    loss = acer.compute_policy_gradient_full_correction(pi, mu, DiscreteActionValue(tensor([q])), value, c)
    return in_probabilities(loss, pi, probabilities)


def gaussian_importance_weight(action, mean, behaviour_mean, std):
    return acer.compute_importance(gaussian([mean], std), gaussian([behaviour_mean], std), tensor([action]))


def gaussian_truncated_gradient(action, mean, behaviour_mean, std, advantage, c):
    pi, mu = gaussian([mean], std), gaussian([behaviour_mean], std)
    equal = SingleActionValue(lambda _: torch.zeros(1))
    loss = acer.compute_policy_gradient_loss(tensor([action]), advantage, pi, mu, equal, 0.0, c)
    return -torch.autograd.grad(loss, pi.base_dist.loc)[0][0]


def gaussian_bias_correction(action, mean, behaviour_mean, std, q, value, c):
    pi, mu = gaussian([mean], std), gaussian([behaviour_mean], std)
    pi.sample = lambda: tensor([action])
    values = SingleActionValue(lambda _: tensor([q]))
    loss = acer.compute_policy_gradient_sample_correction(pi, mu, values, value, c)
    return -torch.autograd.grad(loss, pi.base_dist.loc)[0][0] if loss.requires_grad else np.zeros(len(mean))


def dueling_q(value, advantage, sampled_advantages):
    answers = [tensor([x]) for x in (*sampled_advantages, advantage)]
    head = acer.ACERContinuousActionHead(mock.Mock(), lambda _: tensor([value]), None, len(sampled_advantages))
    head.adv = lambda _: answers.pop(0)
    return head(None)[1].evaluate_actions(None)[0]


def value_target(rho, q_ret, q, value):
    agent, (policies, action) = Recorder(0.0), far_gaussians(np.log(rho) if rho else -1e4, 1)
    v, leaf = tensor([value], True), tensor([q], True)
    values = [SingleActionValue(lambda _: leaf)]
    loss = agent.compute_loss(0, 1, 0, [action], [q_ret], [v], values, policies[:1], policies[1:], [None])
    return (v - torch.autograd.grad(loss, v)[0])[0].detach()


def trust_region(g, k, delta):
    """By Gaussians whose KL divergence has the gradient k in the mean, and none in the standard deviation."""
    std = 0.5 / np.maximum(np.abs(k), 1e-3)
    mean, average_std = k * std**2, std * np.sqrt(1 - (k * std) ** 2)
    policy = Normal(tensor([mean], True), tensor([std], True))
    loss = -(policy.loc * tensor(g)).sum() + 0 * policy.scale.sum()
    average = Normal(tensor([0 * mean]), tensor([average_std]))
    # `kl_divergence` has an entry for each component, of which their own networks' distributions take the sum.
    policy, average = Independent(policy, 1), Independent(average, 1)
    constrained, _ = acer.compute_loss_with_kl_constraint(policy, average, loss, delta)
    return -torch.autograd.grad(constrained, policy.base_dist.loc)[0][0]


class Halves(torch.nn.Module):
    """Q of the online network, or of the target network, from an observation that has both."""

    def __init__(self, half):
        super().__init__()
        self.half = half

    def forward(self, x):
        return DiscreteActionValue(x.chunk(2, dim=1)[self.half])


def dqn_error(next_q, **step):
    return td_error(DQN, next_q=next_q, next_online_q=next_q, **step)


def double_dqn_error(**step):
    return td_error(DoubleDQN, **step)


def td_error(kind, q, reward, terminated, next_q, next_online_q, legal, gamma):
    if not legal.all():
        raise NotImplementedError
    following = np.concatenate([next_online_q, next_q])[None].astype(np.float32)
    experience = dict(state=following[0], action=0, reward=reward, next_state=following[0], next_action=None)
    batch = batch_experiences(
        [[experience | {"is_state_terminal": terminated}]], torch.device("cpu"), lambda x: x, gamma
    )
    agent = mock.Mock(recurrent=False, model=Halves(0), target_model=Halves(1))
    return kind._compute_target_values(agent, batch)[0] - q


def proportional_draws(capacity, indices, priorities, alpha, uniforms):
    """The search in PFRL's tree. Its own draws have no strata, and are without replacement, on purpose."""
    tree = SumTreeQueue()
    errors = PriorityWeightError(alpha, 0.0, None, 0.0, True, None, None)
    for _ in range(capacity):
        tree.append(0.0)
    for index, priority in zip(indices, errors.priority_from_errors(priorities), strict=True):
        tree[index] = priority
    items, probabilities = [], []
    for j, u in enumerate(uniforms):
        with mock.patch("numpy.random.uniform", lambda low, high, j=j, u=u: high * (j + u) / len(uniforms)):
            (item,), (priority,) = tree.prioritized_sample(1, remove=False)
        items.append(item)
        probabilities.append(priority / tree.sum())
    return {"items": items, "probabilities": probabilities}


def replay_weights(probabilities, size, beta):
    errors = PriorityWeightError(0.0, beta, None, 0.0, "batch", None, None)
    return errors.weights_from_probabilities(probabilities, None)


def replay_weights_of_memory(probabilities, least_probability, size, beta):
    errors = PriorityWeightError(0.0, beta, None, 0.0, "memory", None, None)
    return errors.weights_from_probabilities(probabilities, least_probability)


def ring_probabilities(capacity, alpha, epsilon, events, items, errors):
    buffer = PrioritizedReplayBuffer(capacity, alpha, eps=epsilon, error_max=None)
    appended = 0
    for event, item, error in zip(events, items, errors, strict=True):
        if event == "append":
            buffer.append(item, 0, 0.0)
            appended += 1
        else:  # as after a draw of this item
            buffer.memory.sampled_indices = [item - max(0, appended - capacity)]
            buffer.memory.flag_wait_priority = True
            buffer.update_errors([error])
    tree = buffer.memory.priority_sums
    total = tree.sum()
    return [tree._write(i, 0.0) / total for i in range(len(buffer.memory))]  # a write returns what was there
