"""The settings of a run: one frozen dataclass, an entry for each setting."""

import dataclasses
import difflib
import functools
import math
import numbers
import os
import re
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

import numpy as np

from acer_tf.envs import UNLIMITED
from acer_tf.envs.families import ATARI_PRESETS, Family, family_of
from acer_tf.errors import SettingsError
from acer_tf.networks.torsos import HEADS, TORSOS
from acer_tf.references import is_reference
from acer_tf.settings import declaration as d
from acer_tf.settings.checks import CHECKS
from acer_tf.settings.declaration import declarations, setting
from acer_tf.settings.presets import PRESETS, fitting_presets, usual_preset
from acer_tf.settings.rules import OPTIMIZERS, RULES, Rule, rule_of, rules_for

_ACER, _CONTINUOUS, _DQN = ("Acer",), ("AcerContinuous",), ("Dqn",)
_OFF_POLICY = (*_ACER, *_CONTINUOUS)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that decides what a run computes.

    The names are those of the flags of `acer_tf train`. Steps are agent decisions, summed over all environments unless
    stated otherwise. A default never changes, so that records which lack a setting keep their meaning.
    Make it by `make_settings`, which takes the values of a preset: here `preset` is a name in records, and changes
    nothing. `dataclasses.replace` changes single settings.
    """

    # fmt: off
    env: str = setting(
        dataclasses.MISSING, d.ANY, "environment: atari/<Game>, minatar/<game>, control/<task>, "
        "dm_control/<domain>-<task>-v0, or a gymnasium id such as CartPole-v1 or module:Name-v0, with arguments "
        "as in FrozenLake-v1,is_slippery=false", section="Run")
    agent: str = setting(
        "acer", d.Range(lambda x: x in RULES or is_reference(x), "one of " + ", ".join(RULES) + ", or module:Class"),
        f"discrete actions: {', '.join(rules_for(continuous=False))} (a3c and trust_a3c: the same update at replay "
        f"ratio 0, without and with trust region); continuous ones: {', '.join(rules_for(continuous=True))}; or "
        "module:Class of your own")
    preset: str = setting(
        "baselines", d.Range(lambda x: x in PRESETS, f"one of {', '.join(PRESETS)}"),
        f"named set of values, which other flags override: {', '.join(PRESETS)}; auto: the "
        "usual one for the agent and the environment")
    seed: int = setting(0, d.at_least(0), "seed of everything random in the run")
    total_steps: int = setting(
        10_000_000, d.between(1, 10**12), "agent decisions over all environments (an Atari step is 4 frames)")
    log_interval: int = setting(
        10_000, d.at_least(1), "steps between rows of progress.csv")

    evaluate_every: int = setting(
        0, d.at_least(0), "steps between evaluations of whole episodes, each made where the next row of progress.csv "
        "is written; best_policy/ keeps the policy with the highest mean return; 0: none",
        section="Evaluation while training")
    evaluate_episodes: int = setting(30, d.between(1, 1_000_000), "episodes of one evaluation", d.EVALUATED)
    evaluate_greedy: bool = setting(
        False, d.TRUTH, "evaluate by the most probable actions instead of sampled ones", d.EVALUATED)
    evaluate_max_episode_steps: int = setting(
        0, d.between(0, UNLIMITED), "steps after which an episode of an evaluation is cut; 0: only the environment's "
        "own limits", d.EVALUATED)
    stop_at_return: float | None = setting(
        None, d.Range(lambda x: x is None or abs(x) <= 1e30, "finite (-1e30 to 1e30)"),
        "end the run after an evaluation of at least this mean return", d.EVALUATED)

    atari_preset: str = setting(
        "acer2016", d.one_of(*ATARI_PRESETS), "preprocessing of games: acer2016 or machado2018", d.ATARI,
        section="Environments and actors")
    action_masks: bool = setting(
        True, d.TRUTH, "whether the masks of valid actions that an environment gives are used; without masks it has no "
        "effect")
    num_envs: int = setting(16, d.between(1, 100_000), "environments that step together")
    actors: int = setting(
        0, d.between(0, 100_000), "number of actors, a divisor of num_envs; they share the environments evenly and act "
        "with the weights from before the last iteration's updates, while these updates run; 0: acting waits for the "
        "updates, and has the newest weights")
    unroll_length: int = setting(
        20, d.at_least(1), "k: the steps that each environment makes in one iteration, and the rows of a replayed "
        "window (with DQN a window has 1 row)", search=d.values(5, 10, 20, 50))
    trajectories_per_update: int = setting(
        0, d.at_least(0), "trajectories of k steps per update; a divisor of num_envs, or 0 for all environments")

    on_policy_updates: bool = setting(
        True, d.TRUTH, "whether there is an update on the steps just collected, besides storing them in the replay",
        section="Replay")
    replay_ratio: float = setting(
        4.0, d.between(0, 1000), "mean number of replayed updates that follow an unroll, for each group of "
        "environments that share an update", search=d.values(1.0, 2.0, 4.0, 8.0))
    replay_poisson: bool = setting(
        True, d.TRUTH, "whether the number of replayed updates is drawn (Poisson) or always equals the replay ratio",
        d.REPLAY)
    replay_start: int = setting(10_000, d.at_least(0), "rows per environment (a step or a reset) before replay begins")
    replay_capacity: int = setting(50_000, d.at_least(1), "rows per environment (a step or a reset) that replay keeps")
    replay_segments_only: bool = setting(
        False, d.TRUTH, "replay only whole collected segments, as in OpenAI baselines (recurrent networks read from "
        "their begin on)",
        d.REPLAY, d.WINDOWS, d.FEED_FORWARD)
    burn_in: int = setting(
        10, d.at_least(0), "rows before each replayed window that update the stored recurrent state and give no loss",
        d.REPLAY, d.RECURRENT)

    replay_priority: str = setting(
        "uniform", d.one_of("uniform", "proportional", "rank"), "how replayed trajectories are drawn: uniformly, in "
        "proportion to their priority, or by its rank", d.REPLAY, section="Prioritized replay")
    replay_batch: int = setting(
        0, d.between(0, 100_000), "trajectories (DQN: transitions) per draw by priority; 0: as many as share an update",
        d.BATCHES)
    priority_exponent: float = setting(
        0.6, d.UNIT_INTERVAL, "α at the run's start: the probability of a draw is proportional to priority^α",
        d.REPLAY, d.PRIORITIES)
    priority_exponent_final: float = setting(
        0.6, d.UNIT_INTERVAL, "α at the run's end; it changes linearly; by default, unless the preset has another, it "
        "does not change", d.REPLAY, d.PRIORITIES)
    priority_epsilon: float = setting(
        1e-6, d.NOT_NEGATIVE, "ε: a priority is |error| + ε", d.REPLAY, d.PRIORITIES, d.PROPORTIONAL)
    importance_exponent: float = setting(
        0.4, d.UNIT_INTERVAL, "β at the run's start: a draw has weight (stored · probability)^-β", d.REPLAY,
        d.PRIORITIES)
    importance_exponent_final: float = setting(
        1.0, d.UNIT_INTERVAL, "β at the run's end; it changes linearly", d.REPLAY, d.PRIORITIES)
    weights_by_batch: bool = setting(
        True, d.TRUTH, "divide the weights of draws by the largest in the batch, else by the largest in the replay",
        d.REPLAY, d.PRIORITIES, d.WEIGHTED)

    network: str = setting(
        "auto", d.Range(
            lambda x: x == "auto" or x in TORSOS or is_reference(x),
            f"one of auto, {', '.join(TORSOS)}, or module:NAME",
        ),
        f"torso: {', '.join(TORSOS)}, module:NAME of your own, or auto, which depends on the observations",
        section="Network")
    lstm_units: int = setting(
        0, d.between(0, 4096), "units of an LSTM after the torso, such as 256, not for DQN; 0 for none")
    dense_units: str = setting(
        "64,64", d.Range(
            lambda x: len(sizes := x.split(",")) <= 16 and all(n.isdecimal() and 0 < int(n) <= 16_384 for n in sizes),
            "the units of up to 16 layers, at most 16,384 each, such as 128,128",
        ),
        "units of the torso's dense layers, first to last, joined by commas", d.DENSE)
    dense_activation: str = setting(
        "tanh", d.one_of("tanh", "relu", "gelu", "silu", "elu"), "activation of the layers of "
        "--dense_units: tanh, relu, gelu, silu or elu", d.DENSE)
    dense_normalization: bool = setting(
        False, d.TRUTH, "layer normalization before each activation of these layers", d.DENSE)
    normalize_observations: bool = setting(
        False, d.TRUTH, "normalise what these layers read, but for images, by its running mean and variance", d.DENSE)
    precision: str = setting(
        "auto", d.one_of("auto", "float32", "bfloat16", "tf32"), "precision of the torso (continuous actions: and of "
        "the critic's layers): float32, bfloat16, or auto, which depends on the device; or tf32, for all products on "
        "a GPU (10 bits)")
    initialization: str = setting(
        "orthogonal", d.one_of("orthogonal", "fan_in"), "how weights are initialized: orthogonal or fan_in")

    initialize_from: str | None = setting(
        None, d.Range(lambda x: x != "", "the folder of a run or of an exported policy"),
        "folder of a run (its newest checkpoint) or of an exported policy, with whose weights a new run begins; spaces "
        "and torso must be those of this run; by default weights are drawn", section="Weights to begin with")
    reset_heads: str | None = setting(
        None, d.Range(
            lambda x: x is None or x == "all" or set(x.split(",")) <= HEADS.keys(),
            f"all, or some of {', '.join(HEADS)}, joined by commas",
        ),
        "heads of the network that --initialize_from does not give, but that are drawn: some of policy and q (discrete "
        "actions) or mean, value and critic (continuous ones), joined by commas; or all, to keep the torso alone, also "
        "for other actions", d.INITIALIZED)

    optimizer: str = setting(
        "rmsprop", d.Range(
            lambda x: x in OPTIMIZERS or is_reference(x), f"one of {', '.join(OPTIMIZERS)}, or module:NAME"),
        "rmsprop; adam (of Keras, with its own decays); or module:NAME of a class or function of your own, which is "
        "called with the learning rate and gives a Keras optimizer", section="Optimizer")
    learning_rate: float = setting(
        7e-4, d.POSITIVE, "the optimizer's step size at the run's start", search=d.log_uniform(1e-5, 1e-2))
    learning_rate_final: float | None = setting(
        None, d.OPTIONAL_NOT_NEGATIVE, "step size at --total_steps; it changes linearly; by default it does not change")
    rmsprop_decay: float = setting(0.99, d.BELOW_ONE, "decay of RMSProp's mean square", d.RMSPROP)
    rmsprop_epsilon: float = setting(1e-5, d.POSITIVE, "ε inside RMSProp's root", d.RMSPROP)
    rmsprop_centered: bool = setting(
        False, d.TRUTH, "subtract the square of the gradient's running mean under RMSProp's root", d.RMSPROP)
    rmsprop_initial_accumulator: float = setting(
        1.0, d.NOT_NEGATIVE, "initial value of RMSProp's mean square", d.RMSPROP)
    max_gradient_norm: float = setting(
        10.0, d.POSITIVE_OR_INFINITE, "clip of the gradient's global norm; inf for none",
        search=d.log_uniform(0.3, 50.0))

    gamma: float = setting(
        0.99, d.UNIT_INTERVAL, "discount factor", search=d.values(0.9, 0.95, 0.98, 0.99, 0.995, 0.999),
        section="Learning")
    retrace: bool = setting(
        True, d.TRUTH, "Retrace, and Q_opc with continuous actions, else importance-sampled returns (ablation)",
        classes=_OFF_POLICY)
    retrace_lambda: float = setting(
        1.0, d.UNIT_INTERVAL, "λ of Retrace, a factor on every trace", d.RETRACE, classes=_ACER)
    importance_truncation: float = setting(
        10.0, d.Range(lambda x: x >= 0, "at least 0 (inf turns truncation off)"),
        "c, the bound at which importance weights are truncated; inf for no truncation", d.IMPORTANCE,
        classes=(*_OFF_POLICY, "ActorCritic"))
    bias_correction: bool = setting(
        True, d.TRUTH, "the second term of Eq. 9, which corrects the bias of truncation, else without it (ablation)",
        d.TRUNCATED, classes=_OFF_POLICY)
    trust_region_delta: float = setting(
        1.0, d.POSITIVE_OR_INFINITE, "δ, the radius of the trust region in each state; inf for no trust region",
        search=d.log_uniform(0.01, 10.0))
    average_decay: float = setting(0.99, d.BELOW_ONE, "α, the decay of the average policy network", d.TRUST_REGION)
    entropy_weight: float = setting(0.01, d.NOT_NEGATIVE, "β of the entropy bonus at the run's start", classes=_ACER,
        search=d.log_uniform(1e-5, 0.1))
    entropy_weight_final: float | None = setting(
        None, d.OPTIONAL_NOT_NEGATIVE, "β at --total_steps; it changes linearly; by default it does not change",
        classes=_ACER)
    entropy_in_trust_region: bool = setting(
        True, d.TRUTH, "whether the entropy's gradient is projected with the rest", d.TRUST_REGION, d.ENTROPY,
        classes=_ACER)
    critic_weight: float = setting(
        0.5, d.NOT_NEGATIVE, "factor of the critic loss ½ (Q_ret − Q)²", search=d.log_uniform(0.1, 2.0))
    reduction: str = setting(
        "mean", d.one_of("mean", "sum", "threads"), "how the gradients of rows are joined: mean over all rows; "
        "sum over rows and mean over trajectories; or threads: as sum, but with the learning rate and the decays that "
        "one update per trajectory would amount to")
    reward_scale: float = setting(
        1.0, d.POSITIVE, "factor of the rewards in learning, before they are clipped; reported returns stay raw",
        search=d.log_uniform(0.01, 1.0))
    normalize_rewards: bool = setting(
        False, d.TRUTH, "divide the rewards in learning by the running standard deviation of the discounted return, "
        "before they are clipped; reported returns stay raw")
    reward_clip: float | None = setting(
        None, d.Range(lambda x: x is None or d.POSITIVE_OR_INFINITE.holds(x), d.POSITIVE_OR_INFINITE.wanted),
        "bound of the rewards in learning, which are clipped to ± this value; by default 1 on Atari and inf elsewhere")

    policy_std: float = setting(
        0.3, d.between(1e-6, 1e6), "fixed σ of the policy, for actions in [-1, 1]", d.REAL_ACTIONS,
        search=d.log_uniform(0.1, 0.6), section="Continuous actions")
    shared_torso: bool = setting(
        True, d.TRUTH, "policy and critic share a torso, else the policy has its own", d.REAL_ACTIONS)
    advantage_samples: int = setting(
        5, d.between(1, 10_000), "n of the stochastic dueling network", d.DUELING, classes=_CONTINUOUS)
    dueling: bool = setting(
        True, d.TRUTH, "stochastic dueling network, else separate V and Q (ablation)", classes=_CONTINUOUS)

    double_q: bool = setting(
        True, d.TRUTH, "the online network chooses the next action that the target network values", classes=_DQN,
        section="DQN")
    shared_bias: bool = setting(True, d.TRUTH, "one bias for all actions in the top layer", classes=_DQN)
    error_clip: float = setting(
        1.0, d.POSITIVE_OR_INFINITE, "clip of the error in the critic's gradient; inf for none", classes=_DQN)
    target_period: int = setting(
        30_000, d.at_least(1), "steps between copies of the online network to the target network", classes=_DQN,
        search=d.values(300, 1_000, 3_000, 10_000, 30_000))
    exploration_final: float = setting(
        0.01, d.UNIT_INTERVAL, "final ε of the ε-greedy policy, which falls linearly from 1", classes=_DQN,
        search=d.values(0.01, 0.05, 0.1))
    exploration_steps: int = setting(
        1_000_000, d.at_least(0), "steps over which ε falls, after the first --replay_start times --num_envs",
        classes=_DQN)
    evaluation_epsilon: float = setting(0.01, d.UNIT_INTERVAL, "ε of the exported policy", classes=_DQN)
    # fmt: on

    def __post_init__(self) -> None:
        for name, kind in setting_types().items():
            _require(name, value := _plain(getattr(self, name), kind))
            object.__setattr__(self, name, float(value) if kind is float and value is not None else value)
        for name, value in self.rule.fixed.items():
            if getattr(self, name) != value:
                others = [other for other, rule in RULES.items() if rule.without_trust_region == self.agent]
                if name != "trust_region_delta" or not others:
                    others = ["acer", "acer_continuous", "tis or trust_tis"]
                raise SettingsError(
                    f"--{name}={getattr(self, name)}: --agent={self.agent} is defined by {name} {value}; "
                    f"use another agent, such as {', '.join(others)}"
                )
        for holds, message in CHECKS:
            if not holds(self):
                raise SettingsError(message.format(s=self, presets=", ".join(fitting_presets(self.agent))))

    @property
    def rule(self) -> Rule:
        return rule_of(self.agent)

    @property
    def family(self) -> Family:
        return family_of(self.env)

    @property
    def dense_sizes(self) -> tuple[int, ...]:
        """The numbers in `dense_units`."""
        return tuple(map(int, self.dense_units.split(",")))

    @property
    def references(self) -> tuple[str, ...]:
        """The settings that may name code of the user's, as "module:Name"."""
        return self.agent, self.network, self.env, self.optimizer

    @property
    def acting_groups(self) -> int:
        """How many actors share the environments."""
        return max(1, self.actors)

    @property
    def evaluation_envs(self) -> int:
        """Environments of an evaluation while training: at most 16, as in the command `evaluate`."""
        return min(16, self.evaluate_episodes) if self.evaluate_every else 0

    @property
    def evaluation_protocol(self) -> tuple[Any, ...]:
        """What two evaluations while training must share for their returns to compare, besides environment and seed."""
        return self.evaluate_episodes, self.evaluate_greedy, self.evaluate_max_episode_steps

    def ended_by(self, mean_return: float, protocol: tuple[Any, ...]) -> bool:
        """Whether an evaluation by some `evaluation_protocol` ends the run."""
        wanted = self.stop_at_return
        return wanted is not None and protocol == self.evaluation_protocol and mean_return >= wanted

    @property
    def trust_region(self) -> bool:
        """Whether updates are projected and an average policy network is kept."""
        return math.isfinite(self.trust_region_delta)

    @property
    def threads_per_update(self) -> int:
        """How many of the paper's threads, which update one after another, one update stands for.

        To first order in the step, B of their updates move θ by B times the learning rate along the mean of their
        gradients. They multiply the old part of θ_a by α^B, and the old part of RMSProp's accumulator by decay^B.
        """
        return (self.trajectories_per_update or self.num_envs) if self.reduction == "threads" else 1

    @property
    def update_learning_rate(self) -> float:
        """The optimizer's step size in one update at the run's start: see `threads_per_update`."""
        return self.learning_rate * self.threads_per_update

    @property
    def update_learning_rate_final(self) -> float | None:
        """The same at the run's end; None if it does not change."""
        return None if self.learning_rate_final is None else self.learning_rate_final * self.threads_per_update

    @property
    def update_rmsprop_decay(self) -> float:
        """Decay of RMSProp's mean square in one update: see `threads_per_update`."""
        return self.rmsprop_decay**self.threads_per_update

    @property
    def update_average_decay(self) -> float:
        """α of the average policy network in one update: see `threads_per_update`."""
        return self.average_decay**self.threads_per_update

    @property
    def recurrent(self) -> bool:
        return self.lstm_units > 0

    @property
    def architecture(self) -> str:
        """The network in words."""
        return self.network + f" with an LSTM of {self.lstm_units} units" * self.recurrent

    @property
    def window_length(self) -> int:
        """Rows per trajectory in replay: 1 for DQN's transitions."""
        return 1 if self.rule.transitions else self.unroll_length

    @property
    def windows_per_update(self) -> int:
        """Trajectories in an update from replay."""
        return self.replay_batch or self.trajectories_per_update or self.num_envs

    @property
    def exploration_start(self) -> int:
        """Steps before ε begins to fall: when learning begins (Mnih et al. 2015), unless replay begins with a log."""
        return self.replay_start * self.num_envs

    @property
    def effective_reward_clip(self) -> float:
        """`reward_clip` if given, else the usual one of the environment's family."""
        return self.family.reward_clip if self.reward_clip is None else self.reward_clip


def make_settings(given: Mapping[str, Any] | str | None = None, /, **values: Any) -> Settings:
    """Settings from the preset, overridden by those that define the agent, overridden by the given values.

    >>> settings = acer_tf.make_settings(env="atari/Pong", preset="paper", seed=3)
    >>> settings.max_gradient_norm, settings.seed
    (40.0, 3)

    Args:
        given: values by name, or the environment alone. The default of "preset" is "auto": the usual one for the
            environment and the agent.
        values: more of them, as keywords, which override `given`.

    Raises:
        SettingsError: an unknown name, preset or agent, or a value out of range.
        InvalidEnvironment: "auto" depends on the environment's actions, and there is no such environment.
        EnvironmentFailure: likewise, and it raised when it was made.
    """
    if isinstance(given, Settings):
        raise SettingsError("make_settings takes values by name, got a Settings: dataclasses.replace changes one")
    env = values.get("env", "") if isinstance(given, Mapping | str | None) else given
    if not isinstance(env, str) and (env is given or callable(env) or hasattr(env, "reset")):
        raise SettingsError(
            f"make_settings takes an environment's name, or values by name, got a {type(env).__name__}: "
            "an environment of yours goes to train, as env=, and settings name it as you like"
        )
    given = {**({"env": given} if isinstance(given, str) else given or {}), **values}
    if unknown := sorted(set(given) - set(setting_types())):
        more = "; docs/presets.md lists all, and other flags are arguments of train"
        raise SettingsError(f"there is no setting {unknown[0]!r}{meant(unknown[0]) or more}")
    if "env" not in given:
        raise SettingsError("--env is required, such as --env=atari/Pong, --env=minatar/breakout or --env=CartPole-v1")
    agent, preset = given.get("agent", Settings.agent), given.get("preset", "auto")
    _require("agent", agent)
    if preset == "auto":
        preset = usual_preset(str(given["env"]), agent)
    _require("preset", preset)
    chosen = {**PRESETS[preset], **rule_of(agent).fixed, **given, "preset": preset}
    if "priority_exponent" in chosen:  # whose default is not None as those of other final values, for records have it
        chosen.setdefault("priority_exponent_final", chosen["priority_exponent"])
    try:
        return Settings(**chosen)
    except SettingsError as error:
        named = re.match(r"--(\w+)=", str(error))
        if named is None or named[1] not in PRESETS[preset].keys() - given.keys():
            raise
        raise SettingsError(f"{error}; {named[1]} is that of --preset={preset}") from None


# Names that other projects give to our settings.
OTHER_NAMES = dict(algo="agent", batch_size="replay_batch", buffer_size="replay_capacity", env_id="env")
OTHER_NAMES |= dict(lr="learning_rate", n_envs="num_envs", n_steps="unroll_length", num_steps="unroll_length")
OTHER_NAMES |= dict(total_timesteps="total_steps", deterministic="greedy", n_eval_episodes="episodes")


def meant(unknown: str) -> str:
    """A hint at what a name that is no setting's stands for; "" without any."""
    if OTHER_NAMES.get(unknown) in setting_types():
        return f": use {OTHER_NAMES[unknown]}"
    near = difflib.get_close_matches(unknown, setting_types(), cutoff=0.7)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _plain(value: Any, kind: type) -> Any:
    """Whole numbers of any type as int, also 1e5, where one is asked for, NumPy's other numbers as Python's, paths."""
    if kind is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    if (kind is bool and isinstance(value, np.bool_)) or (
        kind is float and isinstance(value, np.floating | np.integer)
    ):
        return kind(value)
    if kind is not int or isinstance(value, bool | np.bool_):
        return value
    whole = isinstance(value, numbers.Integral) or (isinstance(value, numbers.Real) and float(value).is_integer())
    return int(value) if whole else value


def whole_number(name: str, value: Any, wanted: d.Range) -> int:
    """`value` as an int, also 1e5. SettingsError, which names the flag, if it is no whole number or out of range."""
    value = _plain(value, int)
    if type(value) is not int:
        raise SettingsError(f"--{name}={value!r}: must be a whole number")
    if not wanted.holds(value):
        raise SettingsError(f"--{name}={value}: must be {wanted.wanted}")
    return value


def _require(name: str, value: Any) -> None:
    """Raises SettingsError unless `value` has the type of the setting `name` and is in its range.

    Any real number but a bool is a float, NumPy's float64 too; None is allowed where it is the default.
    """
    kind, wanted = setting_types()[name], declarations(Settings)[name].range
    optional = value is None and getattr(Settings, name, "") is None
    real = kind is float and isinstance(value, int | float) and not isinstance(value, bool)
    if not (optional or real or type(value) is kind):
        raise SettingsError(f"--{name}={value!r}: must be of type {kind.__name__}")
    if not wanted.holds(value):
        raise SettingsError(f"--{name}={value}: must be {wanted.wanted}")


@functools.cache
def setting_types() -> dict[str, type]:
    """The type of each setting's flag: int, float, bool or str, also where the setting may be None."""
    hints = get_type_hints(Settings)
    return {f.name: (*get_args(hints[f.name]), hints[f.name])[0] for f in dataclasses.fields(Settings)}
