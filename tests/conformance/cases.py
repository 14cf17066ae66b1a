"""The inputs of vectors.json: small cases by hand, most of them of what public implementations get wrong.

Numbers drawn at random have three digits, from generators that are the same in every version of Python.
"""

import random
from collections.abc import Iterator
from typing import Any

Case = dict[str, Any]
TINY, HUGE = 1e-12, 1e12


def case(name: str, *, scale: float | None = None, ties: Any = None, **inputs: Any) -> Case:
    """A case of a function.

    Args:
        name: what is special about it.
        scale: what errors are relative to, with |expected|; 1 by default.
        ties: [[i, j], ...]: entries of the output that may come in any order.
        inputs: the function's arguments.
    """
    about = {"scale": scale, "ties": ties}
    return {"name": name, **{key: value for key, value in about.items() if value is not None}, "inputs": inputs}


def of_acer() -> dict[str, list[Case]]:
    """The cases of ACER's functions, by name."""
    return _returns() | _discrete() | _masked() | _continuous() | _trust_region()


def numbers(seed: str, count: int, low: float = -2.0, high: float = 2.0) -> list[float]:
    """Numbers of three digits between the bounds."""
    generator = random.Random(seed)
    return [round(generator.uniform(low, high), 3) for _ in range(count)]


def _policy(seed: str, count: int = 4) -> list[float]:
    """Probabilities in thousandths that sum to 1 as written."""
    parts = random.Random(seed).sample(range(1, 1000), count - 1)
    return [(b - a) / 1000 for a, b in zip([0, *sorted(parts)], [*sorted(parts), 1000], strict=True)]


# How episodes end: "." goes on, "T" terminated, "X" truncated (time limit), "B" both.
ENDS = {
    "no end inside the window": ".....",
    "a termination inside the window": "..T..",
    "a time limit inside the window bootstraps from its own last observation": "..X..",
    "terminated and truncated at once: nothing follows a termination": "..B..",
    "the last row terminates: nothing follows": "....T",
    "the last row is cut by a time limit": "....X",
    "episodes of one row": "TXTX.",
    "one row": ".",
}


def _window(ends: str, seed: str = "") -> dict[str, Any]:
    """Rows of episodes; after a termination next_value is a number that must not count."""
    count = len(ends)
    value, after = numbers(f"value {seed}{ends}", count), numbers(f"after {seed}{ends}", count)
    over = [end != "." or t + 1 == count for t, end in enumerate(ends)]
    return {
        "reward": numbers(f"reward {seed}{ends}", count),
        "terminated": [end in "TB" for end in ends],
        "truncated": [end in "XB" for end in ends],
        "q": numbers(f"q {seed}{ends}", count),
        "value": value,
        "next_value": [100.0 if end in "TB" else after[t] if over[t] else value[t + 1] for t, end in enumerate(ends)],
        "gamma": 0.99,
    }


def _without(window: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in window.items() if name not in names}


def _windows() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Names, windows and options of cases that all returns have in common."""
    for name, ends in ENDS.items():
        yield name, _window(ends), {}
    for seed in ("a", "b"):
        yield f"a longer window ({seed})", _window("...T..X...B.", seed), {}
    yield "the value after a termination is NaN, and is not read", _poisoned(), {}
    yield "γ = 0", _window("..X..") | {"gamma": 0.0}, {}
    yield "γ = 1", _window("..X..") | {"gamma": 1.0}, {}
    yield "rewards of ±1e12", _window("..X..") | {"reward": [HUGE, -HUGE, 1.0, HUGE, -HUGE]}, {"scale": HUGE}


def _poisoned() -> dict[str, Any]:
    window = _window("..T.T")
    return window | {"next_value": [v if v < 100 else "NaN" for v in window["next_value"]]}


def _returns() -> dict[str, list[Case]]:
    cases: dict[str, list[Case]] = {}
    named = ("retrace", "retrace_continuous", "q_opc", "multi_step_return", "importance_sampled_return")
    cases = {name: [] for name in (*named, "trajectory_weight")}

    def add(name: str, window: dict[str, Any], rho: list[float], log_rho: list[float], **options: Any) -> None:
        bare = _without(window, "q", "value")
        cases["retrace"].append(case(name, **options, **window, rho=rho))
        cases["importance_sampled_return"].append(case(name, **options, **bare, rho=rho))
        cases["retrace_continuous"].append(case(name, **options, **window, log_rho=log_rho, dimension=3))

    for name, window, options in _windows():
        count = len(window["reward"])
        add(name, window, numbers(name, count, 0.1, 2.5), numbers(name, count, -3, 3), **options)
        cases["q_opc"].append(case(name, **options, **window))
        cases["multi_step_return"].append(case(name, **options, **_without(window, "q", "value")))
    plain = _window(".....", "rho")
    add("every ρ is exactly 1: on-policy", plain, [1.0] * 5, [0.0] * 5)
    add("a ρ of 0 cuts the trace", plain, [0.5, 1.0, 0.0, 2.0, 0.5], [-0.5, 0.0, -2000.0, 2.0, -0.5])
    big = [HUGE, 3.0, HUGE, 0.5, 2.0]
    cases["retrace"].append(case("ρ of 1e12 counts as 1", **plain, rho=big))
    logs = [-60.0, 700.0, -120.0, -1.5, 710.0]
    rooted = case("ρ under- and overflows float32, its root does not", **plain, log_rho=logs, dimension=30)
    cases["retrace_continuous"].append(rooted)
    logs = [-400.0, 1.0, -800.0, -900.0, 1000.0]
    rooted = case("ρ under- and overflows float64, its root does not", **plain, log_rho=logs, dimension=600)
    cases["retrace_continuous"].append(rooted)
    for name, ends in ENDS.items():
        window = _without(_window(ends), "reward", "q", "value", "next_value", "gamma")
        count = len(ends)
        cases["trajectory_weight"].append(case(name, **window, log_rho=numbers(name, count, -1, 1), c=5.0))
    window = _without(_window("....."), "reward", "q", "value", "next_value", "gamma")
    for name, logs in {
        "a product above c": [1.0, 1.0, 1.0, 0.5, 0.25],
        "products that overflow": [500.0, 500.0, 500.0, -2000.0, 500.0],
        "all logs are 0: on-policy": [0.0] * 5,
    }.items():
        cases["trajectory_weight"].append(case(name, **window, log_rho=logs, c=5.0))
    return cases


def _discrete() -> dict[str, list[Case]]:
    f, mu, q = _policy("f"), _policy("mu"), numbers("q", 4)
    value = round(sum(a * b for a, b in zip(f, q, strict=True)), 3)
    both = {"probabilities": f, "behaviour": mu}
    # ρ = 2, 2, 0.5, 0.5 and so on, exactly.
    exact = {"probabilities": [0.5, 0.25, 0.125, 0.125], "behaviour": [0.25, 0.125, 0.5, 0.125]}
    masked = {"probabilities": [0.0, 0.75, 0.0, 0.25], "behaviour": [0.0, 0.125, 0.0, 0.875]}
    single = {"probabilities": [0.0, 0.0, 1.0, 0.0], "behaviour": [0.0, 0.0, 1.0, 0.0]}
    never = {"probabilities": [0.5, 0.0, 0.25, 0.25], "behaviour": [0.25, 0.25, 0.25, 0.25]}
    drifted = {"probabilities": [0.998, 0.002], "behaviour": [1e-6, 0.999999]}
    rows = {
        "an ordinary policy": both,
        "ρ exactly at the bound": exact,
        "actions that neither policy takes (masked): no 0/0": masked,
        "one valid action": single,
        "an action that the policy never takes": never,
        "ρ of 1e6": drifted,
    }
    truncated, correction = [], []
    for name, policies in rows.items():
        count = len(policies["probabilities"])
        acted = max(range(count), key=lambda a: policies["probabilities"][a])
        for c in (2.0, 10.0) if name != "ρ of 1e6" else (10.0,):
            about = f"{name}, c = {c:g}"
            truncated.append(case(about, **policies, action=acted, advantage=-1.5, c=c))
            correction.append(case(about, **policies, q=q[:count], value=value, c=c))
    correction.append(
        case(
            "a behaviour probability that underflowed to 0: ρ is infinite, its term Q − V",
            probabilities=[0.5, 0.5],
            behaviour=[0.0, 1.0],
            q=[1.5, -0.5],
            value=0.5,
            c=10.0,
        )
    )
    correction.append(case("c below 1 corrects on-policy rows", **exact, q=q, value=value, c=0.5))
    average = _policy("average")
    pairs = {
        "two policies": (average, f),
        "the same policy": (f, f),
        "masked actions have probability 0 in both": (masked["behaviour"], masked["probabilities"]),
        "one valid action": (single["behaviour"], single["probabilities"]),
        "the average never takes an action": (never["probabilities"], never["behaviour"]),
        "an action of 1e-6": ([0.5, 0.5], [1e-6, 0.999999]),
    }
    policies = {name: pair["probabilities"] for name, pair in rows.items()} | {"uniform": [0.25] * 4}
    kls = [case(name, average=a, probabilities=p) for name, (a, p) in pairs.items()]
    entropies = [case(name, probabilities=p) for name, p in policies.items()]
    return {
        "importance_weights": [case(name, **policies) for name, policies in rows.items()],
        "state_value": [case(name, probabilities=p, q=q[: len(p)]) for name, p in policies.items()],
        "truncated_gradient": truncated,
        "bias_correction": correction,
        "entropy": entropies,
        "entropy_gradient": [
            case(name, probabilities=p, legal=[a > 0 for a in p]) for name, p in policies.items() if "never" not in name
        ],
        "kl": kls,
        "kl_gradient": [dict(each) for each in kls],
    }


def _masked() -> dict[str, list[Case]]:
    everything, some, one = [True] * 4, [True, False, True, False], [False, False, False, True]
    logits = numbers("logits", 4, -3, 3)
    softmax = [case(name, logits=logits, legal=legal) for name, legal in MASKS.items()]
    softmax += [
        case("logits of 1000: no overflow", logits=[1000.0, 999.0, 998.0, -1000.0], legal=everything),
        case("the largest logit is masked", logits=[0.5, 900.0, -0.5, 900.0], legal=some),
        case("the only valid logit is 2000 below the others", logits=[0.0, 0.0, 0.0, -2000.0], legal=one),
        case("valid logits underflow beside a masked one", logits=[-900.0, 900.0, -901.0, 900.0], legal=some),
    ]
    q = numbers("greedy", 4)
    greedy = [case(name, q=q, legal=legal, epsilon=0.1) for name, legal in MASKS.items()]
    greedy += [
        case("the best action is masked, all others are negative", q=[-3.0, 5.0, -2.0, 0.0], legal=some, epsilon=0.1),
        case("ε = 1: uniform over the valid actions", q=q, legal=some, epsilon=1.0),
        case("ε = 0", q=q, legal=everything, epsilon=0.0),
    ]
    return {"masked_softmax": softmax, "epsilon_greedy": greedy}


MASKS = {
    "every action is valid": [True] * 4,
    "two valid actions": [True, False, True, False],
    "one valid action": [False, False, False, True],
}


def _continuous() -> dict[str, list[Case]]:
    d, std = 3, 0.3
    action, mean, other = (numbers(name, d, -0.6, 0.6) for name in ("action", "mean", "behaviour"))
    places = {
        "an ordinary policy": dict(action=action, mean=mean, behaviour_mean=other),
        "the same policy: ρ = 1": dict(action=action, mean=mean, behaviour_mean=mean),
        "one component": dict(action=[0.25], mean=[0.5], behaviour_mean=[-0.5]),
        "an action far from the policy": dict(action=[1.5, -1.5], mean=[0.0, 0.0], behaviour_mean=[0.5, -0.5]),
    }
    far = dict(action=[3.0, 3.0, -3.0], mean=[2.5, 3.5, -3.0], behaviour_mean=[-3.0, -3.0, 3.0])
    back = dict(action=[3.0, 3.0, -3.0], mean=[-3.0, -3.0, 3.0], behaviour_mean=[2.5, 3.5, -3.0])
    extreme = {"ρ of e^600: above every bound": far, "ρ of e^−600: no effect": back}
    still = {"nothing between mean and action": dict(action=mean, mean=mean, behaviour_mean=other)}
    all_places = places | extreme | still
    dueling = [
        case("five samples", value=0.5, advantage=-1.25, sampled_advantages=numbers("samples", 5)),
        case("one sample", value=0.5, advantage=-1.25, sampled_advantages=[0.75]),
        case("the action is the only sample: Q is V", value=0.5, advantage=-1.25, sampled_advantages=[-1.25]),
        case("advantages of 1e12", value=0.5, advantage=HUGE, sampled_advantages=[HUGE, HUGE, 1.0], scale=HUGE),
    ]
    targets = {"ρ below 1": 0.25, "ρ exactly 1": 1.0, "ρ above 1": 3.0, "ρ = 0: V stays": 0.0, "ρ of 1e12": HUGE}
    means = {
        "two policies": (other, mean),
        "the same policy: k = 0": (mean, mean),
        "far policies": ([30.0, -30.0], [-30.0, 30.0]),
        "near policies": ([0.5, 0.25], [0.5 + 2**-20, 0.25]),
    }
    kls = [case(name, average_mean=a, mean=m, std=std) for name, (a, m) in means.items()]
    return {
        "gaussian_importance_weight": [case(name, **place, std=std) for name, place in places.items()],
        "gaussian_truncated_gradient": [
            case(f"{name}, c = {c:g}", **place, std=std, advantage=1.5, c=c)
            for name, place in all_places.items()
            for c in (1.0, 5.0)
        ],
        "gaussian_bias_correction": [
            case(f"{name}, c = {c:g}", **place, std=std, q=-0.5, value=1.25, c=c)
            for name, place in all_places.items()
            for c in (1.0, 5.0)
        ],
        "gaussian_kl": kls,
        "gaussian_kl_gradient": [dict(each) for each in kls],
        "dueling_q": dueling,
        "value_target": [case(name, rho=rho, q_ret=1.75, q=-0.5, value=0.25) for name, rho in targets.items()],
    }


def _trust_region() -> dict[str, list[Case]]:
    # A categorical's k = −φ_a / φ has no positive component.
    g, k = numbers("g", 4), [-abs(x) for x in numbers("k", 4)]
    exact = [-1.0, -0.5, -2.0, -0.25]
    rows = {
        "the constraint binds": ([-4.0, 0.5, -3.0, 2.0], exact, 1.0),
        "it does not bind": ([4.0, 0.5, 3.0, 2.0], exact, 1.0),
        "numbers at random": (g, k, 0.05),
        "k = 0: g as it is": ([-4.0, 0.5, -3.0, 2.0], [0.0] * 4, 1.0),
        "g = 0": ([0.0] * 4, exact, 1.0),
        "k·g exactly δ": ([-1.0, 0.0, 0.0, 0.0], exact, 1.0),
        "k·g just below δ": ([-1.0 + 2**-20, 0.0, 0.0, 0.0], exact, 1.0),
        "k·g just above δ": ([-1.0 - 2**-20, 0.0, 0.0, 0.0], exact, 1.0),
        "k·g = −δ does not bind": ([1.0, 0.0, 0.0, 0.0], exact, 1.0),
        "g along k": ([-10.0, -5.0, -20.0, -2.5], exact, 1.0),
        "k of 1e-8 and g of 1e10": ([-1e10, 2e10, -3e10, 1e10], [-1e-8, -2e-8, -3e-8, -1e-8], 1.0),
        "δ of 1e-12": ([-4.0, 0.5, -3.0, 2.0], exact, TINY),
        "components of k of both signs, as of a Gaussian": (numbers("gauss g", 3), numbers("gauss k", 3, -9, 9), 0.5),
    }
    scales = {"k of 1e-8 and g of 1e10": 1e10}
    return {
        "trust_region": [
            case(name, scale=scales.get(name), g=g, k=k, delta=delta) for name, (g, k, delta) in rows.items()
        ]
    }
