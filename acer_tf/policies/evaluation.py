"""Evaluation: raw scores of whole episodes, under one protocol for every policy; and their videos."""

import contextlib
import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from acer_tf import envs, resources
from acer_tf.envs import UNLIMITED
from acer_tf.envs.families import ATARI_PRESETS, AtariPreset, family_of
from acer_tf.envs.vector import VectorEnvironment, closing
from acer_tf.errors import InvalidEnvironment, NonFinitePolicy, PolicyError, SettingsError
from acer_tf.policies.policy import Policy, load_policy
from acer_tf.policies.video import Video
from acer_tf.settings import whole_number
from acer_tf.settings.declaration import at_least, between

# The protocol of Mnih et al. (2015), under which the human and random scores of the 57 games were taken.
MAX_NO_OPS = 30
MAX_FRAMES = 108_000

RANGES = {
    "episodes": between(1, 1_000_000),
    "num_envs": between(1, 1000),
    "seed": at_least(0),
    "max_episode_steps": between(1, UNLIMITED),
}
_REPORT_SECONDS = 10.0
_ENDLESS_SECONDS = 60.0  # without the end of an episode


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
    """The episodes of one evaluation, ordered by environment, then by time."""

    env: str  # the environment's id
    greedy: bool  # this and the next two as in `evaluate`
    seed: int
    num_envs: int
    returns: tuple[float, ...]  # per episode, the sum of raw rewards
    steps: tuple[int, ...]  # per episode, its length in agent decisions
    frames: tuple[int, ...]  # per episode, in emulator frames: steps times frame skip, without Atari's random start
    max_episode_steps: int | None = None  # as in `evaluate`

    @property
    def episodes(self) -> int:
        return len(self.returns)

    @property
    def mean(self) -> float:
        """The mean of the raw returns."""
        return statistics.fmean(self.returns)

    @property
    def median(self) -> float:
        """The median of the raw returns."""
        return statistics.median(self.returns)

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean: sample standard deviation / √episodes. None for a single episode."""
        return statistics.stdev(self.returns) / self.episodes**0.5 if self.episodes > 1 else None


def evaluate(
    policy: Policy | str | Path,
    *,
    episodes: int = 30,
    greedy: bool = False,
    seed: int = 0,
    num_envs: int = 16,
    max_episode_steps: int | None = None,
    video: str | Path | None = None,
    report: Callable[[str], None] | None = None,
    env: str | envs.EnvFactory | None = None,
    env_workers: int = 1,
    threads: int = 0,
    check: Callable[[], None] = lambda: None,
) -> EvaluationResult:
    """Runs whole episodes in the environment that the policy's metadata names, and returns their raw scores.

    >>> result = acer_tf.evaluate(acer_tf.load_policy("runs/cartpole/policy"), episodes=10)
    >>> print(f"{result.mean:.1f} ± {result.standard_error:.1f}")

    Lost lives do not end an episode. Atari episodes start with up to 30 no-ops and are truncated at 108,000 frames;
    frame skip, stickiness, action set and preprocessing are those of training. Other environments keep their time
    limits; episodes of those that have none are cut with `max_episode_steps`.

    Every environment runs a fixed share of the episodes. Taking the first `episodes` that end would favour short ones,
    which are often the bad ones.

    Args:
        policy: from `load_policy`, or the folder of one.
        episodes: their number, from 1 to 1,000,000.
        greedy: take the most probable action instead of sampling.
        seed: the same arguments on the same machine give the same result. The environments' seeds differ from those
            that training derives from the same number.
        num_envs: environments in parallel, at most `episodes`.
        max_episode_steps: steps after which an episode is cut, unless a limit of the environment's cuts it before.
        video: an .mp4 file of the first episode of environment 0, written whole or not at all when that episode ends.
            The episodes are the same without it.
        report: receives a line of progress every 10 seconds.
        env: the environment to use instead of the one that the metadata names: its id, or a function that makes one.
        env_workers: processes that step the environments, at most; fewer if they do not divide `num_envs`, and this one
            alone for a `video`.
        threads: those that step the environments of atari/ and control/; 0 for as many as there are cores.
        check: called before each step; what it raises ends the evaluation.

    Raises:
        SettingsError: a number out of range, environments that do not fit into memory, or a video file that cannot be
            written.
        InvalidEnvironment: the policy's environment is not installed, or cannot be drawn for the video; or, without
            `env`, a function made it, or the metadata alone names a module of it ("module:Id-v0"), which could be
            anyone's code.
        EnvironmentFailure: the environment raised, or returned what it must not.
        PolicyError: the policy does not fit the installed environment, has unusable Atari preset values, or what it
            answers is not finite (NonFinitePolicy).
        OSError: the video could not be written (disk full).
    """
    episodes = whole_number("episodes", episodes, RANGES["episodes"])
    num_envs = whole_number("num_envs", num_envs, RANGES["num_envs"])
    seed = whole_number("seed", seed, RANGES["seed"])
    env_workers = whole_number("env_workers", env_workers, at_least(1))
    threads = whole_number("threads", threads, at_least(0))
    if max_episode_steps is not None:
        max_episode_steps = whole_number("max_episode_steps", max_episode_steps, RANGES["max_episode_steps"])
    if isinstance(policy, str | Path):
        policy = load_policy(policy)
    env_id = env if isinstance(env, str) else policy.metadata["env"]
    # "module:Id-v0" from a policy's metadata, which may be a stranger's; a colon may also be in an argument.
    if env is None and ":" in env_id.partition(",")[0]:
        raise InvalidEnvironment(
            f"the environment {env_id} may import a module that only a file names; if you trust its code, name "
            f"it: --env={env_id}"
        )
    if env is None and (made := policy.metadata.get("env_function")):  # `env_id` may be the id of another environment
        raise InvalidEnvironment(
            f"the policy was trained in an environment that the function {made} made: give that as env, or name one "
            "that is registered, such as --env=module:Name-v0"
        )
    if env_workers > 1:
        envs.require_workers(env_id, env_workers, env_workers, None if isinstance(env, str) else env)
    num_envs = min(episodes, num_envs)
    if (needed := num_envs * family_of(env_id).bytes_each) > (available := resources.available_memory()):
        raise SettingsError(
            f"--num_envs={num_envs}: so many of {env_id} take {resources.in_bytes(needed)} of memory at least, but "
            f"{resources.in_bytes(available)} are available"
        )
    workers = max(count for count in range(1, min(env_workers, num_envs) + 1) if num_envs % count == 0)
    options: dict[str, Any] = {"threads": threads or resources.available_cores(), "render": video is not None}
    options["action_masks"] = policy.spec.action_masks
    if max_episode_steps is not None:
        options["max_episode_steps"] = max_episode_steps
    if family_of(env_id).atari:
        options["atari_preset"] = _protocol(policy)
    with contextlib.ExitStack() as stack:
        recorder = stack.enter_context(Video(Path(video))) if video is not None else None
        # The third word sets it apart from training, which seeds its environments with (seed, steps, 0), or four words.
        options |= {"workers": workers, "factory": None if isinstance(env, str) else env}
        world = stack.enter_context(closing(envs.make(env_id, num_envs, (seed, 0, 1), **options)))
        num_envs = world.num_envs  # the caller's vector environment may have another number
        quota = [episodes // num_envs + (i < episodes % num_envs) for i in range(num_envs)]
        if world.spec != policy.spec:
            differ = "; ".join(policy.spec.differences(world.spec))
            raise PolicyError(f"the policy does not fit the installed {env_id}: {differ}")
        if recorder is not None:
            recorder.start(_video_fps(env_id, world))
        random = None if greedy else np.random.default_rng((seed, 0, 2))
        hint = ""
        if max_episode_steps is None and not world.has_time_limit:
            hint = f"no episode has ended for long, and {env_id} has no time limit: --max_episode_steps would set one"
            hint += " (in a training, --evaluate_max_episode_steps)"
        returns, steps = zip(*_play(policy, world, quota, random, recorder, report, hint, check), strict=True)
    frames = tuple(count * policy.spec.frames_per_step for count in steps)
    return EvaluationResult(env_id, greedy, seed, num_envs, returns, steps, frames, max_episode_steps)


def _play(
    policy: Policy,
    world: VectorEnvironment,
    quota: list[int],
    random: np.random.Generator | None,
    recorder: "Video | None",
    report: Callable[[str], None] | None,
    hint: str,
    check: Callable[[], None],
) -> Iterator[tuple[float, int]]:
    """Returns and lengths of the first `quota[i]` episodes of every environment i; greedy if `random` is None.

    The first report before which no episode that counts has ended, or none for `_ENDLESS_SECONDS`, is followed by the
    `hint`.
    """
    scored: list[list[tuple[float, int]]] = [[] for _ in quota]
    score, length, taken = np.zeros(len(quota)), np.zeros(len(quota), np.int64), 0
    began = reported = ended = time.monotonic()
    step, first_state = world.reset(), policy.initial_state(len(quota))
    if first_state.size and world.pauses:
        raise InvalidEnvironment("a recurrent policy needs a vector environment in NEXT_STEP mode, not SAME_STEP")
    state = first_state
    while any(len(done) < share for done, share in zip(scored, quota, strict=True)):
        check()
        recording = recorder if not scored[0] else None
        if recording is not None:
            recording.add(world.render())
        answer = policy.answer(step.observation, state, step.legal)
        step = world.step(_choose(answer, random))
        # As in training: the masked row was the last of the old episode.
        state = np.where(step.mask[:, None], answer.get("state", state), first_state)
        score += step.reward
        length += step.mask
        if recording is not None and step.last[0]:
            recording.add(world.render())
            recording.finish()
        for i in np.flatnonzero(step.last):
            if len(scored[i]) < quota[i]:
                scored[i].append((float(score[i]), int(length[i])))
                ended = time.monotonic()
            score[i], length[i] = 0.0, 0
        taken += int(step.mask.sum())
        if report is not None and (now := time.monotonic()) - reported >= _REPORT_SECONDS:
            reported, rate = now, taken / (now - began)
            report(f"{sum(map(len, scored))}/{sum(quota)} episodes, {taken:,} steps, {rate:,.0f} steps/s")
            if hint and (ended == began or now - ended >= _ENDLESS_SECONDS):
                report(hint)
                hint = ""
    return itertools.chain.from_iterable(scored)


def _protocol(policy: Policy) -> AtariPreset:
    """The preprocessing that the policy was trained with, under the evaluation's protocol; PolicyError if damaged."""
    usual = dataclasses.asdict(ATARI_PRESETS["acer2016"])
    values = policy.metadata["atari_preset_values"]
    if values is None and not family_of(policy.metadata["env"]).atari:
        values = usual  # the policy is refused for what it sees
    values = dict(values or {})
    values |= {"max_no_ops": MAX_NO_OPS, "max_frames": MAX_FRAMES, "life_loss_ends_return": False}
    wrong = values.keys() ^ usual.keys()
    for name in usual.keys() - wrong:
        # ALE waits forever for an observation without pixels.
        low, high = (1, MAX_FRAMES) if type(usual[name]) is int else (0, 1)
        if type(values[name]) is not type(usual[name]) or not low <= values[name] <= high:
            wrong.add(name)
    if wrong:
        raise PolicyError(
            f"the policy's atari_preset_values are not those of an Atari preset: {', '.join(sorted(wrong))}"
        )
    return AtariPreset(**values)


def _choose(answer: Mapping[str, np.ndarray], random: np.random.Generator | None) -> np.ndarray:
    """Actions [N] or [N, d] from the policy's answer: sampled, or the most probable if `random` is None."""
    name = "mean" if "mean" in answer else "probabilities"
    phi = answer[name]
    if not np.isfinite(phi).all():
        raise NonFinitePolicy(f"the policy's {name} is not finite")
    if name == "mean":
        noise = 0.0 if random is None else answer["std"] * random.standard_normal(phi.shape)
        return (phi + noise).astype(np.float32)
    if random is None:
        return phi.argmax(axis=1)
    below = phi.cumsum(axis=1, dtype=np.float64)
    drawn = random.random(len(below)) * below[:, -1]
    # The first action whose cumulative probability exceeds the draw: never one of probability 0.
    return (drawn[:, None] < below).argmax(axis=1)


def _video_fps(env_id: str, env: VectorEnvironment) -> float:
    """Pictures per second of a video: those of real time, if the environment simulates a clock."""
    return env.steps_per_second or family_of(env_id).pictures_per_second
