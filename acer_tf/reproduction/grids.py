"""The methods of each figure and table, as flags of `acer_tf train`, and how they deviate from the papers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from acer_tf.envs.families import ATARI_GAMES, MINATAR_GAMES
from acer_tf.reproduction.methods import Method
from acer_tf.reproduction.published import published_search
from acer_tf.reproduction.published_medians import Figure1Method

FRAMES_PER_STEP = 4
ATARI57 = tuple(f"atari/{game}" for game in ATARI_GAMES)
MINATAR = tuple(f"minatar/{game}" for game in MINATAR_GAMES)
CONTROL = tuple(
    f"control/{task}" for task in ("walker2d", "fish", "cartpole_swingup", "humanoid", "reacher3", "cheetah")
)

# Where the curves of Figure 1 end, in frames, by replay ratio; and those of DQN and prioritized Double DQN.
_FIGURE1_FRAMES = {0: 900_000_000, 1: 600_000_000, 4: 270_000_000, 8: 160_000_000}
_DQN_STEPS = 200_000_000 // FRAMES_PER_STEP
_BASELINES_STEPS = 40_000_000 // FRAMES_PER_STEP

# Where the curves of Figure 3 end, in steps: of methods that replay, and of A3C's.
_FIGURE3_STEPS = MappingProxyType(
    {
        "control/walker2d": (124_000_000, 249_000_000),
        "control/fish": (79_000_000, 159_000_000),
        "control/cartpole_swingup": (29_000_000, 59_000_000),
        "control/humanoid": (79_000_000, 159_000_000),
        "control/reacher3": (9_000_000, 19_000_000),
        "control/cheetah": (79_000_000, 159_000_000),
    }
)
_REPLAY_STEPS = {env: steps for env, (steps, _) in _FIGURE3_STEPS.items()}
_ON_POLICY_STEPS = {env: steps for env, (_, steps) in _FIGURE3_STEPS.items()}
ABLATION_TASKS = ("control/fish", "control/walker2d", "control/humanoid")  # of Figure 4

ATARI_DEVIATIONS = (
    "Deviations: the paper does not state its learning rate, RMSProp's ε, start states or seeds; preset paper takes "
    "A3C's. Instead of 16 asynchronous threads there are 16 environments in lockstep, groups of which take turns, four "
    "to an update that moves the weights as far as four threads' would; the gradient's norm is bounded by 40. Start "
    "states have up to 30 no-ops; human-normalised scores use the no-op references."
)
CONTROL_DEVIATIONS = (
    "Deviations: the paper's task models, network sizes, optimiser and number of threads are not published; tasks are "
    "built on this package's own models after its appendix E, and 16 environments take the threads' turns."
)
CONTROL_SETTING = (
    "One setting of learning rate and δ (1.4e-4, 0.42) stands for the paper's best five of thirty; "
    "figure5_sensitivity runs those that it drew."
)

MINATAR_STEPS = 1_000_000
# Of preset baselines, step sizes and memories at the scale of games that are learned in a million steps; the paper's as
# they are.
_MINATAR_ACER: dict[str, dict[str, Any]] = {
    "baselines": {"preset": "baselines", "learning_rate": 0.003, "replay_start": 1_000},
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
    return {
        f"replay{ratio}{'_trust' if trust_region else ''}": Method(
            Figure1Method("ACER", ratio, trust_region).label,
            {**base, "replay_ratio": float(ratio), "trust_region_delta": 1.0 if trust_region else math.inf},
            steps[ratio],
        )
        for ratio in steps
        for trust_region in (True, False)
    }


def figure1_atari() -> dict[str, Method]:
    """Figure 1: replay ratios with and without trust region, DQN, and prioritized Double DQN (the proportional one)."""
    return {
        **_figure1({"preset": "paper"}, {r: frames // FRAMES_PER_STEP for r, frames in _FIGURE1_FRAMES.items()}),
        "dqn": Method("DQN", {"agent": "dqn", "preset": "dqn"}, _DQN_STEPS),
        "prioritized": Method("Prioritized Double DQN", {"agent": "dqn", "preset": "ddqn_proportional"}, _DQN_STEPS),
    }


def figure1_minatar(preset: str = "baselines") -> dict[str, Method]:
    """The same design on MinAtar, ACER with the settings of "baselines" or of "paper"."""
    dqn = minatar_priorities()
    return {
        **_figure1(_MINATAR_ACER[preset], dict.fromkeys(_FIGURE1_FRAMES, MINATAR_STEPS)),
        "ddqn": dqn["ddqn"],
        "prioritized": dqn["ddqn_proportional"],
    }


def minatar_priorities() -> dict[str, Method]:
    """Double DQN and ACER, each with uniform, proportional and rank-based replay."""
    acer = _figure1(_MINATAR_ACER["baselines"], {4: MINATAR_STEPS})["replay4_trust"]
    rank = {"priority_exponent": 0.7, "priority_exponent_final": 0.7, "importance_exponent": 0.5}
    dqn = {
        "ddqn": ("Double DQN", "ddqn_tuned"),
        "ddqn_proportional": ("Prioritized Double DQN (proportional)", "ddqn_proportional"),
        "ddqn_rank": ("Prioritized Double DQN (rank)", "ddqn_rank"),
    }
    return {
        **{
            name: Method(label, {**_MINATAR_DQN, "preset": preset}, MINATAR_STEPS)
            for name, (label, preset) in dqn.items()
        },
        "acer": acer,
        "acer_proportional": Method(
            "ACER, prioritized trajectories (proportional)",
            {**acer.settings, "replay_priority": "proportional"},
            MINATAR_STEPS,
        ),
        "acer_rank": Method(
            "ACER, prioritized trajectories (rank)", {**acer.settings, "replay_priority": "rank", **rank}, MINATAR_STEPS
        ),
    }


def table_atari49() -> dict[str, Method]:
    """ACER and A3C with OpenAI baselines' settings, 40M frames."""
    return {
        "acer": Method("ACER", {"agent": "acer", "preset": "baselines"}, _BASELINES_STEPS),
        "a3c": Method("A3C", {"agent": "a3c", "preset": "baselines"}, _BASELINES_STEPS),
    }


def table1_prioritized() -> dict[str, Method]:
    """The five agents of the prioritized-replay paper's Table 1, called as there."""
    agents = {
        "dqn": "DQN",
        "dqn_rank": "Prioritized DQN (rank)",
        "ddqn_tuned": "Double DQN",
        "ddqn_rank": "Prioritized Double DQN (rank)",
        "ddqn_proportional": "Prioritized Double DQN (proportional)",
    }
    return {preset: Method(label, {"agent": "dqn", "preset": preset}, _DQN_STEPS) for preset, label in agents.items()}


def figure3_continuous() -> dict[str, Method]:
    """Figure 3's five methods; A3C's are trained for twice the steps."""
    labels = {
        "acer_continuous": "ACER",
        "trust_tis": "Trust-TIS",
        "tis": "TIS",
        "trust_a3c": "Trust-A3C",
        "a3c": "A3C",
    }
    return {
        agent: Method(
            label,
            {"agent": agent, "preset": "paper_continuous"},
            _ON_POLICY_STEPS if agent in ("a3c", "trust_a3c") else _REPLAY_STEPS,
        )
        for agent, label in labels.items()
    }


def figure3_draws(count: int) -> dict[str, Method]:
    """Figure 3's five methods by the paper's protocol: `count` draws of the learning rate and, if there is one, of δ.

    The ranges are those of appendix E: the learning rate log-uniform in 10^-4 to 10^-3.3, δ uniform in 0.1 to 2. All
    methods have the same draws, and fewer draws are the first of more.
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
    return {
        "acer_continuous": whole,
        **{
            name: Method(label, {**whole.settings, **change}, whole.total_steps)
            for name, (label, change) in without.items()
        },
    }


def figure5_sensitivity() -> dict[str, Method]:
    """Figures 5 and 6: continuous ACER at the learning rates and δ that the paper drew, each in the tasks shown."""
    whole = figure3_continuous()["acer_continuous"]
    tasks: dict[tuple[float, float], dict[str, int]] = {}
    for env in CONTROL:
        for point in published_search(env):
            tasks.setdefault((point.learning_rate, point.delta), {})[env] = _REPLAY_STEPS[env]
    return {
        f"draw{number}": Method(
            search_label(*point), {**whole.settings, "learning_rate": point[0], "trust_region_delta": point[1]}, steps
        )
        for number, (point, steps) in enumerate(tasks.items())
    }


def search_label(learning_rate: float, delta: float) -> str:
    return f"learning rate {learning_rate:.3e}, δ {delta:.4f}"
