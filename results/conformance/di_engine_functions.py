"""DI-engine's functions under the kit's names: each calls DI-engine's own code, in float32 as its policies do.

python ../../acer_tf/conformance/check.py di_engine_functions float32

DI-engine masks actions by subtracting 1e8 from their logits, and knows `done` alone, without time limits.
"""

from collections import deque
from types import SimpleNamespace

import numpy as np
import torch
from ding.data.buffer import DequeBuffer
from ding.data.buffer.middleware import PriorityExperienceReplay
from ding.model.wrapper.model_wrappers import ArgmaxSampleWrapper
from ding.rl_utils import (
    acer_policy_error,
    acer_trust_region_update,
    compute_importance_weights,
    compute_q_retraces,
    get_nstep_return_data,
    nstep_return,
    nstep_return_data,
    q_1step_td_data,
    q_1step_td_error,
)


def tensor(value):
    return torch.tensor(np.asarray(value), dtype=torch.float32)


def logits(probabilities):
    return tensor(np.log(np.maximum(probabilities, 1e-300)) - 1e8 * (probabilities == 0))


def retrace(reward, terminated, truncated, q, value, next_value, gamma, rho):
    if (truncated & ~terminated).any():
        raise NotImplementedError
    column = tensor(reward)[:, None]
    values = tensor([*value, next_value[-1]])[:, None, None]
    taken, ratio = tensor([*q, 0.0])[:, None, None], tensor(rho)[:, None, None]  # one action
    actions = torch.zeros_like(column, dtype=torch.int64)
    weights = tensor(1.0 - terminated)[:, None]
    return compute_q_retraces(taken, values, column, actions, weights, ratio, gamma)[:-1, 0, 0]


def multi_step_return(reward, terminated, truncated, next_value, gamma):
    """n-step returns as DQN has them, of a buffer of T transitions and with n = T."""
    count = len(reward)
    if terminated[:-1].any() or (truncated & ~terminated).any() or count == 1:
        raise NotImplementedError  # a buffer is of one episode, and has its n-step fields for n > 1 alone
    rows = [dict(obs=t, next_obs=t + 1, reward=tensor([reward[t]]), done=float(terminated[t])) for t in range(count)]
    returns = []
    for row in get_nstep_return_data(deque(rows), count, gamma=gamma):
        assert row["next_obs"] == count
        data = nstep_return_data(row["reward"][:, None], tensor(next_value[-1:]), tensor([row["done"]]))
        returns.append(nstep_return(data, gamma, count, row["value_gamma"]))
    return torch.cat(returns)


def importance_weights(probabilities, behaviour):
    pi, mu = (logits(each).repeat(len(probabilities), 1) for each in (probabilities, behaviour))
    return compute_importance_weights(pi, mu, torch.arange(len(probabilities)))


def gaussian_importance_weight(action, mean, behaviour_mean, std):
    pi, mu = (dict(mu=tensor([m]), sigma=torch.full((1, len(m)), std)) for m in (mean, behaviour_mean))
    return compute_importance_weights(pi, mu, tensor([action]), "continuous")[0]


def policy_gradient(part, probabilities, behaviour, q, q_ret, value, action, c):
    """The ascent direction in the probabilities of one of the two losses, from its gradient in their logarithms."""
    target = torch.log_softmax(logits(probabilities), -1).requires_grad_()
    ratio = torch.exp(target.detach() - torch.log_softmax(logits(behaviour), -1))  # as `ACERPolicy._forward_learn`
    row = [tensor(each)[None, None] for each in (q, [q_ret], [value])]
    actions = torch.tensor([[action]])
    losses = acer_policy_error(*row, target[None, None], actions, ratio[None, None], c)
    gradient = torch.autograd.grad(losses[part].sum(), target)[0]
    return gradient.numpy() / np.where(probabilities > 0, probabilities, 1)


def truncated_gradient(probabilities, behaviour, action, advantage, c):
    nothing = np.zeros(len(probabilities))
    return policy_gradient(0, probabilities, behaviour, nothing, advantage, 0.0, action, c)


def bias_correction(probabilities, behaviour, q, value, c):
    return policy_gradient(1, probabilities, behaviour, q, 0.0, value, 0, c)


def trust_region(g, k, delta):
    """The update takes a descent direction, and k = −φ_a in the logarithms of probabilities."""
    if (k > 0).any():
        raise NotImplementedError
    with np.errstate(divide="ignore"):
        average = tensor(np.log(-k))
    return -acer_trust_region_update([tensor(-g)[None, None]], average[None, None], average[None, None], delta)[0][0, 0]


def double_dqn_error(q, reward, terminated, next_q, next_online_q, legal, gamma):
    answer = dict(logit=tensor([next_online_q]), action_mask=tensor([legal]))
    chosen = ArgmaxSampleWrapper(SimpleNamespace(forward=lambda: answer)).forward()["action"]
    row = (tensor([[q]]), tensor([next_q]), torch.tensor([0]), chosen, tensor([reward]), tensor([terminated]))
    return q_1step_td_error(q_1step_td_data(*row, None), gamma, criterion=lambda q, target: target - q)


def memory_of(priorities, alpha, beta):
    """The middleware over a buffer that is only asked for its size."""
    size = len(priorities)
    memory = PriorityExperienceReplay(SimpleNamespace(size=size, count=lambda: size), True, alpha, beta)
    for place, priority in enumerate(priorities):
        memory._update_tree(priority, place)
        memory.buffer_idx[place] = place
    return memory


def proportional_draws(capacity, indices, priorities, alpha, uniforms):
    memory = memory_of([0.0] * capacity, 1.0, 0.0)
    memory.priority_power_factor = alpha
    for place, priority in zip(indices, priorities, strict=True):
        memory._update_tree(priority, place)
    tree, k = memory.sum_tree, len(uniforms)
    mass = (np.arange(k) + uniforms) / k * tree.reduce()  # as in `PriorityExperienceReplay.sample`
    items = [tree.find_prefixsum_idx(m) for m in mass]
    return {"items": items, "probabilities": [tree[i] / tree.reduce() for i in items]}


def replay_weights_of_memory(probabilities, least_probability, size, beta):
    others = size - len(probabilities) - (least_probability not in probabilities)
    whole = [*probabilities, *[least_probability] * (least_probability not in probabilities)]
    whole += [(1 - sum(whole)) / max(1, others)] * others
    memory = memory_of(whole, 1.0, beta)
    memory.delta_anneal = 0.0
    found = {}

    def chain(indices):
        drawn = [SimpleNamespace(meta={"priority_idx": i}, data={}) for i in indices]
        found.update({i: each for i, each in zip(indices, drawn, strict=True)})
        return drawn

    memory.sample(chain, 256)
    return [found[i].meta["priority_IS"] for i in range(len(probabilities))]


def ring_probabilities(capacity, alpha, epsilon, events, items, errors):
    buffer = DequeBuffer(capacity)
    memory = PriorityExperienceReplay(buffer, True, alpha)
    buffer.use(memory)
    stored = {}
    for event, item, error in zip(events, items, errors, strict=True):
        if event == "append":
            stored[item] = buffer.push({"item": item})
        else:
            priority = error + epsilon - 1e-5  # `update` adds 1e-5
            buffer.update(stored[item].index, None, stored[item].meta | {"priority": priority})
    rows = [row.meta["priority_idx"] for row in buffer.storage]
    return [memory.sum_tree[i] / memory.sum_tree.reduce() for i in rows]
