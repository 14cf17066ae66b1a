"""The methods of each figure and table, as flags of `acer_tf train`, and how they deviate from the papers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from acer_tf.envs.families import ATARI_GAMES, MINATAR_GAMES
from acer_tf.reproduction.methods import Method
from acer_tf.reproduction.published import published_search
from acer_tf.reproduction.published_medians import Figure1Method
from acer_tf.settings.presets import PRESETS

FRAMES_PER_STEP = 4
ATARI57 = tuple(f"atari/{game}" for game in ATARI_GAMES)
MINATAR = tuple(f"minatar/{game}" for game in MINATAR_GAMES)

# The methods of Figure 1 by name, and the frames at which the curves of ACER end, by replay ratio.
FIGURE1 = {
    f"replay{ratio}{'_trust' if trust_region else ''}": Figure1Method("ACER", ratio, trust_region)
    for ratio in (0, 1, 4, 8)
    for trust_region in (True, False)
} | {"dqn": Figure1Method("DQN"), "prioritized": Figure1Method("Prioritized Double DQN")}
DRAWS, BEST_DRAWS = 30, 5  # of each method in the paper's Figure 3: those run, and those shown
_FIGURE1_FRAMES = {0: 900_000_000, 1: 600_000_000, 4: 270_000_000, 8: 160_000_000}
_DQN_STEPS = 200_000_000 // FRAMES_PER_STEP
_BASELINES_STEPS = 40_000_000 // FRAMES_PER_STEP

# The steps at which the curves of Figure 3 end: those of methods with replay, and those of A3C's variants.
_REPLAY_STEPS = {
    "control/walker2d": 124_000_000,
    "control/fish": 79_000_000,
    "control/cartpole_swingup": 29_000_000,
    "control/humanoid": 79_000_000,
    "control/reacher3": 9_000_000,
    "control/cheetah": 79_000_000,
}
_ON_POLICY_STEPS = {env: 2 * steps + 1_000_000 for env, steps in _REPLAY_STEPS.items()}
CONTROL = tuple(_REPLAY_STEPS)
ABLATION_TASKS = ("control/fish", "control/walker2d", "control/humanoid")  # of Figure 4

ATARI_DEVIATIONS = (
    "Deviations: the paper does not state its learning rate, RMSProp's ε, start states or seeds; preset paper takes "
    "A3C's. Instead of 16 asynchronous threads there are 16 environments in lockstep, groups of which take turns, four "
    "to an update that moves the weights as far as four threads' would; the gradient's norm is bounded by 40, and the "
    "entropy weight is A3C's 0.01 (paper: 0.001). Start states have up to 30 no-ops; human-normalised scores use the "
    "no-op references."
)
CONTROL_DEVIATIONS = (
    "Deviations: the paper's task models, network sizes, optimiser and number of threads are not published; tasks are "
    "built on this package's own models after its appendix E, observations are normalised by their running mean and "
    "variance, and 16 environments take the threads' turns."
)
CONTROL_SETTING = (
    "One setting of learning rate and δ (1.4e-4, 0.42) stands for the paper's best five of thirty; "
    "figure5_sensitivity runs those that it drew."
)

MINATAR_STEPS = 1_000_000
# The values of preset minatar over baselines', under whose name the first runs were recorded; paper unchanged.
_MINATAR_ACER: dict[str, dict[str, Any]] = {
    "baselines": {"preset": "baselines", **PRESETS["minatar"]},
    "paper": {"preset": "paper"},
}
_MINATAR_DQN = {
    "agent": "dqn",
    "num_envs": 16,
    "replay_start": 320,
    "replay_capacity": 6_250,
    "exploration_steps": 100_000,
    "target_period": 4_000,
}


def _figure1(base: Mapping[str, Any], steps: Mapping[int, int]) -> dict[str, Method]:
    """ACER's methods of Figure 1 over the settings `base`, with `steps` by replay ratio."""
    found = {}
    for name, shown in FIGURE1.items():
        if shown.replay_ratio is not None:
            delta = 1.0 if shown.trust_region else math.inf
            settings = {**base, "replay_ratio": float(shown.replay_ratio), "trust_region_delta": delta}
            found[name] = Method(shown.label, settings, steps[shown.replay_ratio])
    return found


def figure1_atari() -> dict[str, Method]:
    """Figure 1: replay ratios with and without trust region, DQN, and prioritized Double DQN (the proportional one)."""
    return {
        **_figure1({"preset": "paper"}, {r: frames // FRAMES_PER_STEP for r, frames in _FIGURE1_FRAMES.items()}),
        "dqn": Method("DQN", {"agent": "dqn", "preset": "dqn"}, _DQN_STEPS),
        "prioritized": Method("Prioritized Double DQN", {"agent": "dqn", "preset": "ddqn_proportional"}, _DQN_STEPS),
    }


def figure1_minatar(preset: str = "baselines") -> dict[str, Method]:
    """Figure 1's design on MinAtar, with ACER's settings of "baselines" or of "paper"."""
    dqn = minatar_priorities()
    return {
        **_figure1(_MINATAR_ACER[preset], dict.fromkeys(_FIGURE1_FRAMES, MINATAR_STEPS)),
        "ddqn": dqn["ddqn"],
        "prioritized": dqn["ddqn_proportional"],
    }


def minatar_priorities() -> dict[str, Method]:
    """Double DQN and ACER, each with uniform, proportional and rank-based replay."""
    acer = _figure1(_MINATAR_ACER["baselines"], dict.fromkeys(_FIGURE1_FRAMES, MINATAR_STEPS))["replay4_trust"]
    exponents_of_rank = ("priority_exponent", "priority_exponent_final", "importance_exponent")
    rank = {name: PRESETS["ddqn_rank"][name] for name in exponents_of_rank}
    found = {"ddqn": Method("Double DQN", {**_MINATAR_DQN, "preset": "ddqn_tuned"}, MINATAR_STEPS)}
    for kind in ("proportional", "rank"):
        settings = {**_MINATAR_DQN, "preset": f"ddqn_{kind}"}
        found[f"ddqn_{kind}"] = Method(f"Prioritized Double DQN ({kind})", settings, MINATAR_STEPS)
    found["acer"] = acer
    for kind, exponents in {"proportional": {}, "rank": rank}.items():
        prioritized = {**acer.settings, "replay_priority": kind, **exponents}
        found[f"acer_{kind}"] = Method(f"ACER, prioritized trajectories ({kind})", prioritized, MINATAR_STEPS)
    return found


def table_atari49() -> dict[str, Method]:
    """ACER and A3C with OpenAI baselines' settings, 40M frames; A3C is compared with the published A2C."""
    return {
        "acer": Method("ACER", {"agent": "acer", "preset": "baselines"}, _BASELINES_STEPS, "ACER"),
        "a3c": Method("A3C", {"agent": "a3c", "preset": "baselines"}, _BASELINES_STEPS, "A2C"),
    }


def table1_prioritized() -> dict[str, Method]:
    """The five agents of the prioritized-replay paper's Table 1, named as there."""
    agents = {
        "dqn": "DQN",
        "dqn_rank": "Prioritized DQN (rank)",
        "ddqn_tuned": "Double DQN",
        "ddqn_rank": "Prioritized Double DQN (rank)",
        "ddqn_proportional": "Prioritized Double DQN (proportional)",
    }
    return {name: Method(agent, {"agent": "dqn", "preset": name}, _DQN_STEPS, agent) for name, agent in agents.items()}


def figure3_continuous() -> dict[str, Method]:
    """Figure 3's five methods; A3C's are trained for twice the steps."""
    methods = {
        "acer_continuous": ("ACER", _REPLAY_STEPS),
        "trust_tis": ("Trust-TIS", _REPLAY_STEPS),
        "tis": ("TIS", _REPLAY_STEPS),
        "trust_a3c": ("Trust-A3C", _ON_POLICY_STEPS),
        "a3c": ("A3C", _ON_POLICY_STEPS),
    }
    return {
        agent: Method(label, {"agent": agent, "preset": "paper_continuous"}, steps, label)
        for agent, (label, steps) in methods.items()
    }


def figure3_draws(count: int) -> dict[str, Method]:
    """Figure 3's five methods, each with `count` draws of the learning rate and, with trust region, of δ (appendix E).

    All methods have the same draws, and a larger `count` adds draws to those of a smaller one.
    """
    generator = np.random.default_rng(0)
    drawn = [
        (float(f"{10 ** generator.uniform(-4, -3.3):.3e}"), round(generator.uniform(0.1, 2), 3)) for _ in range(count)
    ]
    found = {}
    for name, method in figure3_continuous().items():
        bounded = name in ("acer_continuous", "trust_tis", "trust_a3c")
        draws = [
            {"learning_rate": rate, "seed": seed, **({"trust_region_delta": delta} if bounded else {})}
            for seed, (rate, delta) in enumerate(drawn)
        ]
        found[name] = dataclasses.replace(method, draws=tuple(draws))
    return found


def figure4_ablation() -> dict[str, Method]:
    """Figure 4: continuous ACER, whole and without one of its parts."""
    whole = figure3_continuous()["acer_continuous"]
    without: dict[str, tuple[str, dict[str, Any]]] = {
        "no_trust_region": ("no trust region", {"trust_region_delta": math.inf}),
        "no_sdn": ("no SDN", {"dueling": False}),
        "no_retrace": ("no Retrace and no Q_opc", {"retrace": False}),
        "no_truncation": ("no truncation and bias correction", {"importance_truncation": math.inf}),
    }
    found = {"acer_continuous": whole}
    for name, (label, change) in without.items():
        found[name] = Method(label, {**whole.settings, **change}, whole.total_steps, label)
    return found


def figure5_sensitivity() -> dict[str, Method]:
    """Figures 5 and 6: continuous ACER at the learning rates and δ that the paper drew, each in the tasks shown."""
    whole = figure3_continuous()["acer_continuous"]
    tasks: dict[tuple[float, float], dict[str, int]] = {}
    for env in CONTROL:
        for point in published_search(env):
            tasks.setdefault((point.learning_rate, point.delta), {})[env] = _REPLAY_STEPS[env]
    found = {}
    for number, ((rate, delta), steps) in enumerate(tasks.items()):
        settings = {**whole.settings, "learning_rate": rate, "trust_region_delta": delta}
        found[f"draw{number}"] = Method(f"learning rate {rate:.3e}, δ {delta:.4f}", settings, steps)
    return found
