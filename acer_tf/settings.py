"""What a run is: one frozen dataclass, the presets, and the check of every value before anything starts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from acer_tf.envs import ATARI_PRESETS, env_family

Kind = TypeVar("Kind")


class SettingsError(ValueError):
    """A setting that cannot be used: the message names it, its value, and what would be right."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that decides what a run computes. A run folder belongs to one such value.

    The names are those of the flags of `acer_tf train`. Steps are agent decisions, counted over all environments
    unless said otherwise.
    """

    env: str
    agent: str = "acer"
    preset: str = "baselines"
    seed: int = 0
    total_steps: int = 10_000_000
    log_interval: int = 10_000

    atari_preset: str = "acer2016"
    num_envs: int = 16
    unroll_length: int = 20
    trajectories_per_update: int = 0

    on_policy_updates: bool = True
    replay_ratio: float = 4.0
    replay_poisson: bool = True
    replay_start: int = 10_000
    replay_capacity: int = 50_000
    replay_segments_only: bool = False
    burn_in: int = 10

    replay_priority: str = "uniform"
    replay_batch: int = 0
    priority_exponent: float = 0.6
    priority_exponent_final: float = 0.6
    priority_epsilon: float = 1e-6
    importance_exponent: float = 0.4
    importance_exponent_final: float = 1.0
    weights_by_batch: bool = True

    network: str = "auto"
    precision: str = "auto"
    initialization: str = "orthogonal"

    learning_rate: float = 7e-4
    rmsprop_decay: float = 0.99
    rmsprop_epsilon: float = 1e-5
    rmsprop_centered: bool = False
    rmsprop_initial_accumulator: float = 1.0
    max_gradient_norm: float = 10.0

    gamma: float = 0.99
    retrace_lambda: float = 1.0
    importance_truncation: float = 10.0
    trust_region_delta: float = 1.0
    average_decay: float = 0.99
    entropy_weight: float = 0.01
    entropy_in_trust_region: bool = True
    critic_weight: float = 0.5
    reduction: str = "mean"
    reward_clip: float | None = None

    policy_std: float = 0.3
    advantage_samples: int = 5
    normalize_observations: bool = True
    dueling: bool = True
    retrace: bool = True

    double_q: bool = True
    shared_bias: bool = True
    error_clip: float = 1.0
    target_period: int = 30_000
    exploration_final: float = 0.01
    exploration_steps: int = 1_000_000
    evaluation_epsilon: float = 0.01

    def __post_init__(self) -> None:
        for name, kind in setting_types().items():
            value = getattr(self, name)
            if value is None and getattr(Settings, name, "") is None:
                continue
            if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
                object.__setattr__(self, name, float(value))
            elif type(value) is not kind:
                raise SettingsError(f"--{name}={value!r}: must be of type {kind.__name__}")
        for name, (holds, wanted) in _CHECKS.items():
            value = getattr(self, name)
            # A comparison with NaN is False, so NaN is refused everywhere.
            if not holds(value):
                raise SettingsError(f"--{name}={value}: must be {wanted}")
        for name, value in AGENTS[self.agent].items():
            if getattr(self, name) != value:
                raise SettingsError(
                    f"--{name}={getattr(self, name)}: --agent={self.agent} is defined by {name} {value}; "
                    "use another agent, such as acer, acer_continuous, tis or trust_tis"
                )
        if self.agent.startswith("trust_") and math.isinf(self.trust_region_delta):
            raise SettingsError(
                f"--trust_region_delta=inf: --agent={self.agent} is defined by its trust region; without it, it is "
                f"--agent={self.agent.removeprefix('trust_')}"
            )
        if self.trajectories_per_update and self.num_envs % self.trajectories_per_update:
            raise SettingsError(
                f"--trajectories_per_update={self.trajectories_per_update}: must divide --num_envs={self.num_envs}; 0 "
                "takes all at once"
            )
        if (self.agent == "dqn") != (self.preset in DQN_PRESETS):
            fitting = DQN_PRESETS if self.agent == "dqn" else [name for name in PRESETS if name not in DQN_PRESETS]
            raise SettingsError(f"--preset={self.preset}: --agent={self.agent} takes one of {', '.join(fitting)}")
        if not self.replay_poisson and self.replay_ratio % 1:
            raise SettingsError(
                f"--replay_ratio={self.replay_ratio}: must be a whole number with --noreplay_poisson, which makes that "
                "many updates each time"
            )
        if not self.on_policy_updates and self.replay_ratio == 0:
            raise SettingsError("--noon_policy_updates with --replay_ratio=0.0: nothing would be learned")
        if self.replay_capacity < self.unroll_length:
            raise SettingsError(
                f"--replay_capacity={self.replay_capacity}: must be at least --unroll_length={self.unroll_length}"
            )
        if self.replay_ratio > 0 and self.replay_start > self.replay_capacity:
            raise SettingsError(
                f"--replay_start={self.replay_start}: replay would never start; must be at most "
                f"--replay_capacity={self.replay_capacity} (both in steps per environment)"
            )
        if self.reduction == "threads" and self.replay_batch not in (0, self.threads_per_update):
            raise SettingsError(
                f"--replay_batch={self.replay_batch}: must be 0 or {self.threads_per_update} with --reduction=threads, "
                "where every update stands for as many threads'"
            )
        if self.recurrent:
            self._check_recurrent()

    def hyperparameters(self, kind: type[Kind]) -> Kind:
        """The part that an update rule reads: an instance of its dataclass `kind`."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
        decay = self.average_decay**self.threads_per_update
        effective = {"reward_clip": self.effective_reward_clip, "average_decay": decay}
        return kind(**values | effective)

    @property
    def threads_per_update(self) -> int:
        """How many of the paper's threads, whose updates come one after another, one update stands for.

        To first order in the step, B of their updates move θ by B times the learning rate along the mean of their
        gradients, and leave α^B of what was in θ_a, and decay^B of what was in RMSProp's accumulator.
        """
        return (self.trajectories_per_update or self.num_envs) if self.reduction == "threads" else 1

    @property
    def recurrent(self) -> bool:
        """Whether the network carries a state from one observation to the next."""
        return self.network.endswith("_lstm")

    @property
    def window_length(self) -> int:
        """Rows per trajectory in replay: single transitions for DQN."""
        return 1 if self.agent == "dqn" else self.unroll_length

    @property
    def exploration_start(self) -> int:
        """Steps before ε begins to fall: where learning begins (Mnih et al. 2015)."""
        return self.replay_start * self.num_envs

    @property
    def noise_seed(self) -> int:
        """`seed` as TensorFlow's generators take it: of the actions that an update draws."""
        return self.seed % 2**31

    @property
    def trajectory_weights(self) -> bool:
        """Whether rows weigh by the importance of their trajectory: what makes TIS of A3C."""
        return self.agent in ("tis", "trust_tis")

    @property
    def effective_reward_clip(self) -> float:
        """`reward_clip`, or where it is not given ±1 on Atari (Mnih et al. 2015) and none elsewhere."""
        if self.reward_clip is not None:
            return self.reward_clip
        return 1.0 if self.env.startswith("atari/") else math.inf

    def _check_recurrent(self) -> None:
        network = f"--network={self.network}"
        if self.agent not in RECURRENT_AGENTS:
            raise SettingsError(f"{network}: --agent must be one of {', '.join(RECURRENT_AGENTS)}, got {self.agent}")
        if self.replay_priority != "uniform":
            raise SettingsError(
                f"--replay_priority={self.replay_priority}: must be uniform with {network}, whose state is stored "
                "where collected segments start, not where prioritized trajectories do"
            )
        if self.replay_segments_only:
            raise SettingsError(
                f"--replay_segments_only: not with {network}, whose windows start where collected segments do in any "
                "case, and go on behind their ends by --burn_in rows"
            )
        least = 2 * self.unroll_length + self.burn_in
        if self.replay_ratio > 0 and self.replay_capacity < least:
            raise SettingsError(
                f"--replay_capacity={self.replay_capacity}: must be at least {least} with {network}, twice "
                f"--unroll_length={self.unroll_length} and --burn_in={self.burn_in}"
            )


# Mnih et al. 2015 and, of its authors, google-deepmind/dqn_zoo: RMSProp's ε is theirs for the mean over a batch of 32.
_DQN: dict[str, Any] = {
    "num_envs": 1,
    "unroll_length": 4,
    "trajectories_per_update": 1,
    "on_policy_updates": False,
    "replay_ratio": 1.0,
    "replay_poisson": False,
    "replay_start": 50_000,
    "replay_capacity": 1_000_000,
    "replay_batch": 32,
    "initialization": "fan_in",
    "learning_rate": 2.5e-4,
    "rmsprop_decay": 0.95,
    "rmsprop_epsilon": 0.01 / 32**2,
    "rmsprop_centered": True,
    "rmsprop_initial_accumulator": 0.0,
    "max_gradient_norm": math.inf,
    "entropy_weight": 0.0,
    "critic_weight": 1.0,
    "trust_region_delta": math.inf,
}
# Schaul et al. 2016, Tables 2 and 3: a quarter of the learning rate.
_QUARTER = {"learning_rate": 2.5e-4 / 4, "rmsprop_epsilon": 0.01 / 32**2 / 4**2}
_ORIGINAL = {
    "double_q": False,
    "shared_bias": False,
    "target_period": 10_000,
    "exploration_final": 0.1,
    "evaluation_epsilon": 0.05,
}

# Each is complete for what it names: a value not listed is the dataclass default, shared by all presets.
PRESETS: dict[str, dict[str, Any]] = {
    # OpenAI baselines' ACER, the public implementation to match.
    "baselines": {},
    # The paper's §4, and where it is silent A3C as its authors described it (RMSProp ε 0.1 presumes summed gradients).
    # Four threads share an update: it costs less, and moves θ as theirs do. The clip is the usual one of others' A3C.
    "paper": {
        "trajectories_per_update": 4,
        "entropy_weight": 0.001,
        "rmsprop_epsilon": 0.1,
        "rmsprop_initial_accumulator": 0.0,
        "max_gradient_norm": 40.0,
        "critic_weight": 1.0,
        "initialization": "fan_in",
        "reduction": "threads",
        "replay_start": 0,
    },
    # The paper's §6 and appendix E; learning rate and δ are among the good ones of its Figures 5 and 6.
    "paper_continuous": {
        "unroll_length": 50,
        "trajectories_per_update": 1,
        "on_policy_updates": False,
        "replay_start": 0,
        "replay_capacity": 5_000,
        "learning_rate": 1.4e-4,
        "importance_truncation": 5.0,
        "trust_region_delta": 0.42,
        "average_decay": 0.995,
        "entropy_weight": 0.0,
        "critic_weight": 1.0,
    },
    "dqn": {**_DQN, **_ORIGINAL},
    "dqn_rank": {
        **_DQN,
        **_ORIGINAL,
        **_QUARTER,
        "replay_priority": "rank",
        "priority_exponent": 0.5,
        "priority_exponent_final": 0.0,
        "importance_exponent": 0.0,
        "importance_exponent_final": 0.0,
    },
    "ddqn_tuned": _DQN,
    "ddqn_rank": {
        **_DQN,
        **_QUARTER,
        "replay_priority": "rank",
        "priority_exponent": 0.7,
        "priority_exponent_final": 0.7,
        "importance_exponent": 0.5,
    },
    "ddqn_proportional": {**_DQN, **_QUARTER, "replay_priority": "proportional"},
}
DQN_PRESETS = ("dqn", "dqn_rank", "ddqn_tuned", "ddqn_rank", "ddqn_proportional")

# The paper calls replay ratio 0 A3C (§4): the same update, without the trust region or with it. With continuous actions
# it is A3C's own (appendix E.2), and TIS is its off-policy form.
AGENTS: dict[str, dict[str, Any]] = {
    "acer": {},
    "acer_continuous": {},
    "a3c": {"on_policy_updates": True, "replay_ratio": 0.0, "trust_region_delta": math.inf},
    "trust_a3c": {"on_policy_updates": True, "replay_ratio": 0.0},
    "tis": {"trust_region_delta": math.inf},
    "trust_tis": {},
    "dqn": {"on_policy_updates": False, "trust_region_delta": math.inf},
}
DISCRETE_AGENTS = ("acer", "a3c", "trust_a3c", "dqn")
RECURRENT_AGENTS = ("acer", "a3c", "trust_a3c")  # with discrete actions
CONTINUOUS_AGENTS = ("acer_continuous", "a3c", "trust_a3c", "tis", "trust_tis")


def make_settings(given: Mapping[str, Any]) -> Settings:
    """Settings from the preset, then the agent, then what was given by name, the later over the earlier.

    Raises:
        SettingsError: an unknown name, preset or agent, or a value out of range.
    """
    defaults = {f.name: f.default for f in dataclasses.fields(Settings)}
    if unknown := set(given) - set(defaults):
        raise SettingsError(f"unknown settings {sorted(unknown)}; known: {sorted(defaults)}")
    if "env" not in given:
        raise SettingsError("--env is required, such as --env=atari/Pong, --env=minatar/breakout or --env=CartPole-v1")
    layers = []
    for name, table in (("preset", PRESETS), ("agent", AGENTS)):
        chosen = given.get(name, defaults[name])
        if chosen not in table:
            raise SettingsError(f"--{name}={chosen}: must be one of {', '.join(table)}")
        layers.append(table[chosen])
    return Settings(**{**layers[0], **layers[1], **given})


def jsonable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` for strict JSON: infinities as the strings that flags take."""
    return {name: str(v) if isinstance(v, float) and not math.isfinite(v) else v for name, v in settings.items()}


def settings_document(settings: Settings) -> dict[str, Any]:
    """`settings` as records hold them."""
    return jsonable(dataclasses.asdict(settings))


def settings_from(document: Mapping[str, Any]) -> Settings:
    """The inverse of `settings_document`, also of a record older than some of the settings (see `completed`).

    Raises:
        SettingsError: not settings of this version.
    """
    return make_settings({k: float(v) if v in ("inf", "-inf", "nan") else v for k, v in completed(document).items()})


def completed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A record's settings, with the defaults of those that there were none of yet when it was made.

    So a new setting must have the default that leaves everything as it was, and a default never changes (a preset can):
    runs made before go on, and count.
    """
    return jsonable(_DEFAULTS) | dict(document)


def changed(settings: Settings) -> dict[str, Any]:
    """The part of `settings_document` that differs from the defaults: it stays the same where settings are added."""
    defaults = completed({})
    return {name: v for name, v in settings_document(settings).items() if defaults.get(name) != v}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """A line for each setting whose value differs between two records: "name: old value, new value"."""
    old, new, missing = completed(old), completed(new), object()
    return [
        f"{name}: {old.get(name, '(absent)')} there, {new.get(name, '(absent)')} here"
        for name in sorted({*old, *new})
        if old.get(name, missing) != new.get(name, missing)
    ]


def setting_types() -> dict[str, type]:
    """The Python type of each setting, for the flags: int, float, bool or str (an optional float counts as float)."""
    hints = get_type_hints(Settings)
    return {f.name: float if hints[f.name] == float | None else hints[f.name] for f in dataclasses.fields(Settings)}


def _at_least(low: float) -> tuple[Any, str]:
    return (lambda x: low <= x < math.inf), f"at least {low} and finite"


def _one_of(*choices: str) -> tuple[Any, str]:
    return (lambda x: x in choices), "one of " + ", ".join(choices)


_DEFAULTS = {f.name: f.default for f in dataclasses.fields(Settings) if f.default is not dataclasses.MISSING}

_POSITIVE = ((lambda x: 0 < x < math.inf), "above 0 and finite")
_POSITIVE_OR_INFINITE = ((lambda x: x > 0), "above 0 (inf turns it off)")
_UNIT_INTERVAL = ((lambda x: 0 <= x <= 1), "in [0, 1]")
_BELOW_ONE = ((lambda x: 0 <= x < 1), "in [0, 1)")

_CHECKS: dict[str, tuple[Any, str]] = {
    "agent": ((lambda x: x in AGENTS), "one of " + ", ".join(AGENTS)),
    "preset": ((lambda x: x in PRESETS), "one of " + ", ".join(PRESETS)),
    "seed": _at_least(0),
    "total_steps": _at_least(1),
    "log_interval": _at_least(1),
    "atari_preset": _one_of(*ATARI_PRESETS),
    "num_envs": _at_least(1),
    "unroll_length": _at_least(1),
    "trajectories_per_update": _at_least(0),
    "replay_ratio": _at_least(0),
    "replay_start": _at_least(0),
    "replay_capacity": _at_least(1),
    "burn_in": _at_least(0),
    "replay_priority": _one_of("uniform", "proportional", "rank"),
    "replay_batch": _at_least(0),
    "priority_exponent": _UNIT_INTERVAL,
    "priority_exponent_final": _UNIT_INTERVAL,
    "priority_epsilon": _at_least(0),
    "importance_exponent": _UNIT_INTERVAL,
    "importance_exponent_final": _UNIT_INTERVAL,
    "network": _one_of("auto", "nature", "small", "mlp", "nature_lstm", "small_lstm", "mlp_lstm"),
    "precision": _one_of("auto", "float32", "bfloat16"),
    "initialization": _one_of("orthogonal", "fan_in"),
    "learning_rate": _POSITIVE,
    "rmsprop_decay": _BELOW_ONE,
    "rmsprop_epsilon": _POSITIVE,
    "rmsprop_initial_accumulator": _at_least(0),
    "max_gradient_norm": _POSITIVE_OR_INFINITE,
    "gamma": _UNIT_INTERVAL,
    "retrace_lambda": _UNIT_INTERVAL,
    "importance_truncation": ((lambda x: x >= 0), "at least 0 (inf turns truncation off)"),
    "trust_region_delta": _POSITIVE_OR_INFINITE,
    "average_decay": _BELOW_ONE,
    "entropy_weight": _at_least(0),
    "critic_weight": _at_least(0),
    "reduction": _one_of("mean", "sum", "threads"),
    "reward_clip": ((lambda x: x is None or x > 0), "above 0 (inf turns clipping off)"),
    "policy_std": _POSITIVE,
    "advantage_samples": _at_least(1),
    "error_clip": _POSITIVE_OR_INFINITE,
    "target_period": _at_least(1),
    "exploration_final": _UNIT_INTERVAL,
    "exploration_steps": _at_least(0),
    "evaluation_epsilon": _UNIT_INTERVAL,
}


def speed_key(settings: Settings) -> tuple[Any, ...]:
    """What decides how fast resolved `settings` run, and how large their checkpoints are: runs of equal keys are alike.

    One Atari game stands for all.
    """
    family = env_family(settings.env)
    return (
        family if family == "atari" else settings.env,
        # The others have one update rule, with or without two parts: the average network and the trajectory weights.
        settings.agent if settings.agent in ("dqn", "acer_continuous") else None,
        math.isfinite(settings.trust_region_delta),
        settings.replay_ratio > 0 and settings.replay_start * settings.num_envs < settings.total_steps,
        *(getattr(settings, name) for name in _DECIDES_SPEED),
    )


_DECIDES_SPEED = (
    "atari_preset", "trajectory_weights", "network", "precision", "num_envs", "unroll_length",
    "trajectories_per_update", "on_policy_updates", "replay_ratio", "replay_poisson", "replay_priority", "replay_batch",
    "burn_in", "rmsprop_centered", "advantage_samples", "normalize_observations", "dueling", "retrace", "double_q",
)  # fmt: skip
