"""Any gymnasium environment with observations of a fixed form, and discrete or bounded continuous actions."""

import contextlib
import dataclasses
import functools
import importlib.util
import re
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import TimeLimit

from acer_tf.envs import UNLIMITED, EnvFactory
from acer_tf.envs.checked import CheckedVector
from acer_tf.envs.families import ATARI_GAMES, unknown
from acer_tf.envs.masks import Reader, reader_of, seen
from acer_tf.envs.mujoco_rendering import View, require_gl, without_gl
from acer_tf.envs.own_vectors import OwnVector, made_by
from acer_tf.envs.spaces import spec_of
from acer_tf.envs.vector import VectorEnvironment, blamed, closing
from acer_tf.errors import InvalidEnvironment


def gymnasium_view(env: gymnasium.Env) -> View | None:
    """The view of a MuJoCo environment through its tracking camera, or else its default one; None for others."""
    renderer = getattr(env.unwrapped, "mujoco_renderer", None)
    if renderer is None:
        return None
    model, data = renderer.model, renderer.data
    camera: str | dict[str, Any] = "track"
    if camera not in [model.camera(i).name for i in range(model.ncam)]:
        # As gymnasium's renderer does.
        free = {"lookat": np.median(data.geom_xpos, axis=0), "distance": model.stat.extent}
        free |= renderer.default_cam_config or {}
        camera = {name: np.asarray(value).tolist() for name, value in free.items()}
    return View(data, camera, renderer.height, renderer.width)


def make_gymnasium(
    env_id: str,
    num_envs: int,
    seeds: list[int],
    *,
    render: bool,
    max_episode_steps: int,
    factory: EnvFactory | None = None,
    action_masks: bool = False,
    workers: int = 1,
    has_time_limit: bool = False,
    wrap: Callable[[gymnasium.Env], gymnasium.Env] = lambda env: env,
    view: Callable[[gymnasium.Env], View | None] = gymnasium_view,
) -> VectorEnvironment:
    """`num_envs` copies of a gymnasium environment; for its id and errors see `acer_tf.envs.make`.

    Args:
        action_masks: whether masks that they give are used.
        workers: 1 to step all in this process, in turn; more for so many processes, each with its share of them.
        has_time_limit: whether they have one, even if none of gymnasium's wrappers sets it.
        wrap: wraps each environment.
        view: what a picture shows of one environment; None where it renders itself.
    """
    registered, arguments = (env_id, {}) if factory is not None else split_arguments(env_id)
    if factory is not None:
        made = made_by(env_id, factory, num_envs, seeds[0])
        if isinstance(made, VectorEnv):
            return _of_vector(env_id, made, seeds, render, max_episode_steps, workers, action_masks)
        factory = _Fresh(env_id, factory, made)

    def make_one(render: bool = False) -> gymnasium.Env:
        with without_gl():
            env = wrap(_make_registered(registered, arguments, render)) if factory is None else factory()
        return TimeLimit(env, max_episode_steps) if max_episode_steps < UNLIMITED else env

    make_first = functools.partial(make_one, render)  # the only one that is drawn
    trial = make_first()
    if not isinstance(trial, gymnasium.Env):
        found = f"the class {trial.__name__}" if isinstance(trial, type) else f"a {type(trial).__name__}"
        raise InvalidEnvironment(f"{env_id}: its function must return a gymnasium.Env, not {found}")
    with closing(trial, env_id):
        spaces = getattr(trial, "observation_space", None), getattr(trial, "action_space", None)
        spec_of(env_id, *spaces)
        mask_of = None
        if action_masks:
            with blamed(env_id, "in reset()", trial=True):
                mask_of = reader_of(trial)
            masked = mask_of is not None
            spec_of(env_id, seen(spaces[0], masked), spaces[1], action_masks=masked)
        if render:
            with blamed(env_id, "when it was rendered", trial=True):
                if trial.render_mode != "rgb_array":
                    mode = trial.render_mode
                    raise InvalidEnvironment(
                        f"{env_id} cannot be rendered: its render_mode is {mode!r}, and must be 'rgb_array'"
                    )
                trial.reset()
                if view(trial) is not None:
                    require_gl(env_id)
                elif np.ndim(trial.render()) != 3:  # type: ignore[arg-type]
                    raise InvalidEnvironment(f"{env_id} cannot be rendered as rgb_array")
        if not isinstance(trial.metadata, dict):
            raise InvalidEnvironment(f"{env_id}: its metadata must be a dict, not {trial.metadata!r:.100}")
        # Gymnasium's simulations declare so how often they step in a second.
        rate: Any = trial.metadata.get("render_fps")
        limited = _limited(trial)
    if workers > 1 and not render:
        from acer_tf.envs.workers import WorkersVector

        # An id with a module needs none: each process imports the module, which registers the environment.
        known = gymnasium.registry.get(registered) if factory is None and ":" not in registered else None
        share = _Share(env_id, make_one, num_envs // workers, mask_of, known)
        vector: Any = WorkersVector(env_id, share, *spaces, workers, num_envs // workers)
    else:
        vector = CheckedVector(env_id, [make_first, *[make_one] * (num_envs - 1)], mask_of)
        first: Any = vector.envs[0]
    return VectorEnvironment(
        env_id,
        vector,
        seeds,
        action_masks=mask_of is not None,
        steps_per_second=float(rate) if isinstance(rate, int | float) and 0 < rate < np.inf else None,
        has_time_limit=has_time_limit or limited,
        picture=(lambda: view(first) or first.render()) if render else None,
    )


class _Fresh:
    """The caller's function, whose environments must all be new ones; `made` are what it has made, not yet returned."""

    def __init__(self, env_id: str, factory: Callable[..., Any], *made: Any) -> None:
        self._id, self._factory, self._next = env_id, factory, [*made]
        self._bases: list[Any] = []

    def __call__(self) -> gymnasium.Env:
        env: Any = self._next.pop() if self._next else self._factory()
        base = getattr(env, "unwrapped", env)
        if any(base is other for other in self._bases):  # one that was checked and closed, or N that step each other
            raise InvalidEnvironment(f"{self._id}: its function must make a new environment at each call")
        self._bases.append(base)
        return env

    def __reduce__(self) -> Any:  # for another process
        return _Fresh, (self._id, self._factory)


@dataclasses.dataclass(frozen=True)
class _Share:
    """Makes the copies of one process; `known` is the registration of their id, which may be the caller's."""

    env_id: str
    make_one: Callable[[], gymnasium.Env]
    copies: int
    mask_of: Reader | None
    known: Any

    def __call__(self) -> CheckedVector:
        if self.known is not None:
            gymnasium.registry.setdefault(self.known.id, self.known)
        return CheckedVector(self.env_id, [self.make_one] * self.copies, self.mask_of)


def _of_vector(
    env_id: str,
    vector: VectorEnv,
    seeds: list[int],
    render: bool,
    max_episode_steps: int,
    workers: int,
    action_masks: bool,
) -> VectorEnvironment:
    """The copies of a vector environment that the caller's function made."""
    try:
        for given, what in (
            (render, "cannot be rendered here"),
            (
                max_episode_steps < UNLIMITED,
                f"has the limits that it was made with, and takes no limit of {max_episode_steps} steps to an episode",
            ),
            (workers > 1, "has the processes that it was made with: leave --env_workers"),
        ):
            if given:
                raise InvalidEnvironment(f"{env_id}: a vector environment {what}")
        if len(seeds) != vector.num_envs:
            seeds = [int(word >> 1) for word in np.random.SeedSequence(seeds).generate_state(vector.num_envs)]
        own = OwnVector(env_id, vector)
        if action_masks:
            with blamed(env_id, "in reset()", trial=True):
                own.find_masks()
        return VectorEnvironment(env_id, own, seeds, action_masks=own.mask_of is not None)
    except BaseException as error:
        vector.close()
        if isinstance(error, InvalidEnvironment) and "gymnasium.wrappers." in str(error):  # which take no vectors
            raise InvalidEnvironment(f"{error}, around each environment before they are joined") from None
        raise


def _limited(env: gymnasium.Env) -> bool:
    return isinstance(env, TimeLimit) or (isinstance(env, gymnasium.Wrapper) and _limited(env.env))


def split_arguments(env_id: str) -> tuple[str, dict[str, Any]]:
    """The registered id and the arguments after it: {"is_slippery": False} in "FrozenLake-v1,is_slippery=false".

    A value is a number, true, false or none, in any case, or else text.

    Raises:
        InvalidEnvironment: for what is not NAME=VALUE, a name that is given twice, or one that is set here.
    """
    registered, *pairs = env_id.split(",")
    arguments: dict[str, Any] = {}
    for name, equals, text in (pair.partition("=") for pair in pairs):
        why = ""
        if not (equals and name.isidentifier()):
            why = f"'{name}{equals}{text}' must be NAME=VALUE: an id, then arguments, joined by commas"
        elif name in arguments:
            why = f"{name} is given twice"
        elif name in ("id", "render_mode", "disable_env_checker"):
            why = f"{name} is no argument to give: it is set here"
        if why:
            raise InvalidEnvironment(f"{env_id}: {why}")
        arguments[name] = _value_of(text)
    return registered, arguments


def _value_of(text: str) -> Any:
    if text.lower() in (words := {"true": True, "false": False, "none": None, "null": None}):
        return words[text.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _is_there(module: str) -> bool:
    """Whether Python finds a module; raises what its package raises, which is imported for it."""
    if module in sys.modules:
        return True
    parent = module.rpartition(".")[0]
    if module.startswith(".") or (parent and not _is_there(parent)):
        return False
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:
        if error.name != module:  # something that the package imports
            raise
        return False  # what should be its package is a module


def _make_registered(env_id: str, arguments: dict[str, Any], render: bool) -> gymnasium.Env:
    """`gymnasium.make` for ids that are registered as they are written: it would take the newest version for none."""
    game = re.sub(r"^ALE/|(NoFrameskip|Deterministic)?-v\d+$", "", env_id)
    if game != env_id and game in ATARI_GAMES:  # other projects' ids: "ALE/Pong-v5", "PongNoFrameskip-v4"
        raise InvalidEnvironment(f"{env_id} would be raw RGB frames, without preprocessing: use atari/{game}")
    module, _, name = env_id.rpartition(":")
    if module:
        if not _is_there(module):
            where = "in the current folder or among the installed packages"
            hint = ": its name has no .py" if module.endswith(".py") else ""
            raise InvalidEnvironment(f"{env_id}: Python finds no module {module}, {where}{hint}")
        importlib.import_module(module)
    known = gymnasium.registry.get(name)
    if known is None:
        raise unknown(env_id)
    pictures: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}  # users' environments need not accept it
    try:
        if isinstance(known.entry_point, str):
            with without_gl():  # takes the warnings of mujoco, which the first of its environments imports
                load_env_creator(known.entry_point)
        options = {"disable_env_checker": True, **pictures, **arguments}
        return gymnasium.make(known if known.version is None else name, **options)
    except TypeError as error:
        for argument in arguments:
            if f"unexpected keyword argument '{argument}'" in str(error):
                raise InvalidEnvironment(f"{env_id} takes no argument {argument}") from error
        if render and "render_mode" in str(error):
            raise InvalidEnvironment(f"{env_id} cannot be rendered: it takes no argument render_mode") from error
        raise
