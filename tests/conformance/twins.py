"""The kit's functions, written anew from the papers: they make vectors.json from the cases beside them.

python -m tests.conformance.twins

They are sums and definitions in decimal arithmetic of 60 digits, rounded to float64 last, so that every machine makes
the same file. They share no code with the package. docs/conformance.md says what each function takes and returns.
"""

import decimal
import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal as D
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.conformance.cases import of_acer
from tests.conformance.replay_cases import of_replay

VECTORS = Path(__file__).parents[2] / "acer_tf" / "conformance" / "vectors.json"
ACER = "Wang et al. 2017 (arXiv:1611.01224), "
PER = "Schaul et al. 2016 (arXiv:1511.05952), "

# Of 1 + |expected|, or of a case's own scale in the place of 1.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}

Numbers = Sequence[D]
_SOURCES: dict[str, str] = {}
_TWINS: dict[str, Callable[[Any], Any]] = {}


def twin(source: str) -> Callable[[Callable[[Any], Any]], None]:
    """Makes a function of a case's inputs one of the kit's; `source` is where it is defined."""

    def add(function: Callable[[Any], Any]) -> None:
        _SOURCES[function.__name__], _TWINS[function.__name__] = source, function

    return add


# Returns. Row t ends its episode if it is terminated or truncated; V(x_{t+1}) is next_value[t] in any case.


def _rest(x: Any, t: int) -> Iterator[tuple[int, bool]]:
    """The rows from t to the end of the episode or of the window, and whether a value is read after each."""
    for j in range(t, len(x.terminated)):
        yield j, not x.terminated[j]
        if x.terminated[j] or x.truncated[j]:
            return


def _corrected(x: Any, trace: Numbers) -> list[D]:
    """Q(x_t, a_t) + Σ_j γ^{j−t} (Π_{t<i≤j} c_i) [r_j + γ V(x_{j+1}) − Q(x_j, a_j)]  (Munos et al. 2016, Eq. 3)."""
    returns = []
    for t, total in enumerate(x.q):
        factor = D(1)
        for j, goes_on in _rest(x, t):
            factor *= x.gamma * trace[j] if j > t else 1
            total += factor * (x.reward[j] + (x.gamma * x.next_value[j] if goes_on else 0) - x.q[j])
        returns.append(total)
    return returns


def _summed(x: Any, factors: Numbers) -> list[D]:
    """Σ_j γ^{j−t} (Π_{t<i≤j} factor_i) r_j, and V(x) after the last row of the sum, with the same factors and γ."""
    returns = []
    for t in range(len(x.reward)):
        total, factor = D(0), D(1)
        for j, goes_on in _rest(x, t):
            factor *= x.gamma * factors[j] if j > t else 1
            total, last = total + factor * x.reward[j], goes_on
        returns.append(total + (factor * x.gamma * x.next_value[j] if last else 0))
    return returns


@twin(ACER + "Eq. 5 and Algorithm 2")
def retrace(x: Any) -> Any:
    return _corrected(x, [min(D(1), rho) for rho in x.rho])


@twin(ACER + "Algorithm 3: c = min{1, ρ^{1/d}}")
def retrace_continuous(x: Any) -> Any:
    return _corrected(x, [min(D(1), (log / x.dimension).exp()) for log in x.log_rho])


@twin(ACER + "Eq. 21")
def q_opc(x: Any) -> Any:
    return _corrected(x, [D(1)] * len(x.q))


@twin(ACER + "appendix E.2, the return of A3C and TIS")
def multi_step_return(x: Any) -> Any:
    return _summed(x, [D(1)] * len(x.reward))


@twin(ACER + "appendix E.4")
def importance_sampled_return(x: Any) -> Any:
    return _summed(x, x.rho)


@twin(ACER + "appendix E.2, the weight of TIS")
def trajectory_weight(x: Any) -> Any:
    return [min(x.c, sum((x.log_rho[j] for j, _ in _rest(x, t)), D(0)).exp()) for t in range(len(x.log_rho))]


# Policies of discrete actions: φ are the probabilities themselves (§3.3), so that ∂f(b)/∂φ_a = 1[a = b].


def _ratios(x: Any) -> list[D]:
    """ρ(a) of every action; an action that the policy never takes has 0, one that only μ never takes has ∞."""
    pairs = zip(x.probabilities, x.behaviour, strict=True)
    return [D(0) if f == 0 else f / mu if mu else D("Infinity") for f, mu in pairs]


def _beyond(rho: D, c: D) -> D:
    """[1 − c/ρ]_+"""
    return D(0) if rho <= c else 1 - c / rho


@twin(ACER + "§3")
def importance_weights(x: Any) -> Any:
    return _ratios(x)


@twin(ACER + "§2: V = Σ_a f(a) Q(a)")
def state_value(x: Any) -> Any:
    return sum(f * q for f, q in zip(x.probabilities, x.q, strict=True) if f)


@twin(ACER + "Eq. 9, first term")
def truncated_gradient(x: Any) -> Any:
    gradient = [D(0)] * len(x.probabilities)
    gradient[x.action] = min(x.c, _ratios(x)[x.action]) * x.advantage / x.probabilities[x.action]
    return gradient


@twin(ACER + "Eq. 9, second term")
def bias_correction(x: Any) -> Any:
    return [_beyond(rho, x.c) * (q - x.value) for rho, q in zip(_ratios(x), x.q, strict=True)]


@twin("by definition, H = −Σ_a f(a) log f(a); ACER's bonus (§4) is without a formula")
def entropy(x: Any) -> Any:
    return -sum(f * f.ln() for f in x.probabilities if f)


@twin("the gradient of entropy in the probabilities of valid actions")
def entropy_gradient(x: Any) -> Any:
    return [-(f.ln() + 1) if legal else D(0) for f, legal in zip(x.probabilities, x.legal, strict=True)]


@twin(ACER + "§3.3: KL[f(·|φ_a) ‖ f(·|φ)]")
def kl(x: Any) -> Any:
    return sum(fa * (fa.ln() - f.ln()) for fa, f in zip(x.average, x.probabilities, strict=True) if fa)


@twin(ACER + "§3.3: k, the gradient of kl in the probabilities")
def kl_gradient(x: Any) -> Any:
    return [-fa / f if fa else D(0) for fa, f in zip(x.average, x.probabilities, strict=True)]


@twin("softmax over the valid actions (Huang and Ontañón 2022, arXiv:2006.14171)")
def masked_softmax(x: Any) -> Any:
    powers = [logit.exp() if legal else D(0) for logit, legal in zip(x.logits, x.legal, strict=True)]
    return [power / sum(powers) for power in powers]


@twin("Mnih et al. 2015, the policy of DQN, over the valid actions")
def epsilon_greedy(x: Any) -> Any:
    best = max((q, -a) for a, (q, legal) in enumerate(zip(x.q, x.legal, strict=True)) if legal)[1]
    return [x.epsilon * legal / sum(x.legal) + (1 - x.epsilon) * (a == -best) for a, legal in enumerate(x.legal)]


# Policies of continuous actions: a Gaussian with mean φ and a fixed σ in every component (§5).


def _log_ratio(x: Any) -> D:
    """log f(a) − log μ(a)"""
    each = zip(x.action, x.mean, x.behaviour_mean, strict=True)
    return sum(((a - b) ** 2 - (a - m) ** 2 for a, m, b in each), D(0)) / (2 * x.std**2)


def _score(x: Any) -> list[D]:
    """∇_φ log f(a)"""
    return [(a - m) / x.std**2 for a, m in zip(x.action, x.mean, strict=True)]


@twin(ACER + "§5: ρ = f(a|φ) / μ(a)")
def gaussian_importance_weight(x: Any) -> Any:
    return _log_ratio(x).exp()


@twin(ACER + "Eq. 9, first term, and Algorithm 3")
def gaussian_truncated_gradient(x: Any) -> Any:
    return [min(x.c, _log_ratio(x).exp()) * x.advantage * s for s in _score(x)]


@twin(ACER + "Eq. 9, second term, one sample of it as in Algorithm 3")
def gaussian_bias_correction(x: Any) -> Any:
    return [_beyond(_log_ratio(x).exp(), x.c) * (x.q - x.value) * s for s in _score(x)]


@twin(ACER + "§3.3, of two Gaussians with one σ")
def gaussian_kl(x: Any) -> Any:
    return sum((a - m) ** 2 for a, m in zip(x.average_mean, x.mean, strict=True)) / (2 * x.std**2)


@twin(ACER + "§3.3: k, the gradient of gaussian_kl in the mean")
def gaussian_kl_gradient(x: Any) -> Any:
    return [(m - a) / x.std**2 for a, m in zip(x.average_mean, x.mean, strict=True)]


@twin(ACER + "Eq. 13")
def dueling_q(x: Any) -> Any:
    return x.value + sum((x.advantage - sampled for sampled in x.sampled_advantages), D(0)) / len(x.sampled_advantages)


@twin(ACER + "Eq. 14 and appendix D")
def value_target(x: Any) -> Any:
    return x.value + min(D(1), x.rho) * (x.q_ret - x.q)


@twin(ACER + "Eq. 11 and 12")
def trust_region(x: Any) -> Any:
    dot, norm = sum(a * b for a, b in zip(x.g, x.k, strict=True)), sum(b * b for b in x.k)
    return [a - (dot - x.delta) / norm * b if dot > x.delta else a for a, b in zip(x.g, x.k, strict=True)]


# DQN and prioritized replay.


def _error(x: Any, choice: Numbers) -> D:
    if x.terminated:
        return x.reward - x.q
    best = max(q for q, legal in zip(choice, x.legal, strict=True) if legal)
    value = next(v for v, q, legal in zip(x.next_q, choice, x.legal, strict=True) if legal and q == best)
    return x.reward + x.gamma * value - x.q


@twin("Mnih et al. 2015; the greedy next action is a valid one")
def dqn_error(x: Any) -> Any:
    return _error(x, x.next_q)


@twin("van Hasselt et al. 2016 (arXiv:1509.06461); " + PER + "Algorithm 1, line 11")
def double_dqn_error(x: Any) -> Any:
    return _error(x, x.next_online_q)


def _shares(masses: Numbers) -> list[D]:
    return [mass / sum(masses) for mass in masses]


def _power(base: D, exponent: D) -> D:
    return base**exponent if base and exponent else D(base > 0 or exponent == 0)


def _draws(shares: Numbers, uniforms: Numbers) -> list[int]:
    """One item from each of k equal ranges of the probability mass (appendix B.2.1)."""
    below, k = list(accumulate(shares)), len(uniforms)
    positions = ((j + u) / k for j, u in enumerate(uniforms))
    return [next(i for i, upper in enumerate(below) if upper > p and shares[i]) for p in positions]


@twin(PER + "Eq. 1, §3.3 and appendix B.2.1: P(i) ∝ p_i^α, and a draw from each of k equal ranges of it")
def proportional_draws(x: Any) -> Any:
    stored = dict(zip(x.indices, x.priorities, strict=True))
    masses = [_power(stored[i], x.alpha) if i in stored else D(0) for i in range(x.capacity)]
    items = _draws(_shares(masses), x.uniforms)
    return {"items": items, "probabilities": [_shares(masses)[i] for i in items]}


def _of_ranks(x: Any) -> dict[int, D]:
    """P(i) ∝ (1 / rank(i))^α by item, in order of rank."""
    order = sorted(range(len(x.priorities)), key=lambda i: -x.priorities[i])
    return dict(zip(order, _shares([D(1 + r) ** -x.alpha for r in range(len(order))]), strict=True))


@twin(PER + "Eq. 1 and §3.3: P(i) ∝ (1 / rank(i))^α, rank 1 for the largest priority")
def rank_probabilities(x: Any) -> Any:
    return [share for _, share in sorted(_of_ranks(x).items())]


@twin(PER + "§3.3: a draw from each of k equal ranges of the mass, in order of rank")
def rank_draws(x: Any) -> Any:
    items, shares = zip(*_of_ranks(x).items(), strict=True)
    return [items[place] for place in _draws(shares, x.uniforms)]


@twin(PER + "§3.4: w = (N P)^−β, divided by the batch's largest")
def replay_weights(x: Any) -> Any:
    weights = [_power(x.size * p, -x.beta) for p in x.probabilities]
    return [w / max(weights) for w in weights]


@twin(PER + "§3.4: w = (N P)^−β, divided by the largest of the whole memory")
def replay_weights_of_memory(x: Any) -> Any:
    largest = _power(x.size * x.least_probability, -x.beta)
    return [_power(x.size * p, -x.beta) / largest for p in x.probabilities]


@twin(
    PER + "Algorithm 1, lines 6 and 12, in a ring, with ε (§3.3); new items get the largest priority so far, at first "
    "1, of all items that there were, as in DQN Zoo (Algorithm 1 leaves that open)"
)
def ring_probabilities(x: Any) -> Any:
    priorities: dict[int, D] = {}
    largest, added = D(1), 0
    for event, item, error in zip(x.events, x.items, x.errors, strict=True):
        if event == "append":
            priorities[item], added = largest, added + 1
            priorities.pop(item - x.capacity, None)
        else:
            priorities[item] = error + x.epsilon
            largest = max(largest, priorities[item])
    return _shares([_power(priorities[item], x.alpha) for item in range(max(0, added - x.capacity), added)])


@twin("gymnasium's AutoresetMode.NEXT_STEP and SAME_STEP; Pardo et al. 2018 (arXiv:1712.00378) for time limits")
def vector_rows(x: Any) -> Any:
    over = [a or b for a, b in zip(x.terminated, x.truncated, strict=True)]
    mask = [not (x.autoreset == "next_step" and t > 0 and over[t - 1]) for t in range(len(over))]
    following = [
        x.final_observation[t] if x.autoreset == "same_step" and over[t] else x.observation[t + 1]
        for t in range(len(over))
    ]
    goes_on = [real and not ended for real, ended in zip(mask, x.terminated, strict=True)]
    return {
        "mask": mask,
        "discount": [D(on) if real else None for on, real in zip(goes_on, mask, strict=True)],
        "next_observation": [o if on else None for o, on in zip(following, goes_on, strict=True)],
    }


def _exact(value: Any) -> Any:
    """Floats, and names of what JSON has no number for, as decimal numbers."""
    if isinstance(value, list):
        return [_exact(each) for each in value]
    return D(value) if isinstance(value, float) or value in ("NaN", "Infinity") else value


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(value) if isinstance(value, D) else value


def document() -> str:
    """The text of vectors.json."""
    lines, cases = [], of_acer() | of_replay()
    with decimal.localcontext(decimal.Context(prec=60)):
        for name, function in _TWINS.items():
            head = {"source": _SOURCES[name], "tolerance": TOLERANCE}
            lines.append(f'"{name}": {json.dumps(head, ensure_ascii=False)[:-1]}, "cases": [')
            made = []
            for case in cases[name]:
                inputs = SimpleNamespace(**{key: _exact(value) for key, value in case["inputs"].items()})
                whole = {**case, "output": _rounded(function(inputs))}
                made.append(json.dumps(whole, ensure_ascii=False, allow_nan=False))
            lines.append("  " + ",\n  ".join(made) + "\n]},")
    return "{\n" + "\n".join(lines).removesuffix(",") + "\n}\n"


if __name__ == "__main__":
    VECTORS.write_text(document(), encoding="utf-8")
