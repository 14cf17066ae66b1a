"""Any gymnasium environment with observations of a fixed form, and discrete or bounded continuous actions."""

import functools
import importlib.util
import re
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.wrappers import TimeLimit

from acer_tf.envs import ATARI_GAMES, UNLIMITED, EnvFactory, unknown
from acer_tf.envs.checked import CheckedVector
from acer_tf.envs.masks import reader_of, seen
from acer_tf.envs.mujoco_rendering import View, require_gl, without_gl
from acer_tf.envs.spaces import spec_of
from acer_tf.envs.vector import VectorEnvironment, blamed
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
    threads: int = 1,  # no effect; the makers of all families are called with it
    render: bool,
    max_episode_steps: int,
    factory: EnvFactory | None = None,
    action_masks: bool = False,
    has_time_limit: bool = False,
    wrap: Callable[[gymnasium.Env], gymnasium.Env] = lambda env: env,
    view: Callable[[gymnasium.Env], View | None] = gymnasium_view,
) -> VectorEnvironment:
    """`num_envs` copies of a gymnasium environment, all stepped in this process; for errors see `acer_tf.envs.make`.

    Args:
        action_masks: whether masks that they give are used.
        has_time_limit: whether they have one, even if none of gymnasium's wrappers sets it.
        wrap: wraps each environment.
        view: what a picture shows of one environment; None where it renders itself.
    """
    made: list[Any] = []

    def make_one(render: bool = False) -> gymnasium.Env:
        with without_gl():
            env = wrap(_make_registered(env_id, render)) if factory is None else factory()
        if factory is not None:
            base = getattr(env, "unwrapped", env)
            if any(base is other for other in made):  # one that was checked and closed, or N that step each other
                raise InvalidEnvironment(f"{env_id}: its function must make a new environment at each call")
            made.append(base)
        return TimeLimit(env, max_episode_steps) if max_episode_steps < UNLIMITED else env

    make_first = functools.partial(make_one, render)  # the only one that is drawn
    trial = make_first()
    try:
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
        # Gymnasium's simulations declare so how often they step in a second.
        rate: Any = (trial.metadata or {}).get("render_fps")
    finally:
        with blamed(env_id, "in close()"):
            trial.close()
    vector = CheckedVector(env_id, [make_first, *[make_one] * (num_envs - 1)], mask_of)
    first: Any = vector.envs[0]
    return VectorEnvironment(
        env_id,
        vector,
        seeds,
        action_masks=mask_of is not None,
        steps_per_second=float(rate) if isinstance(rate, int | float) and 0 < rate < np.inf else None,
        has_time_limit=has_time_limit or _limited(first),
        picture=(lambda: view(first) or first.render()) if render else None,
    )


def _limited(env: gymnasium.Env) -> bool:
    return isinstance(env, TimeLimit) or (isinstance(env, gymnasium.Wrapper) and _limited(env.env))


def _make_registered(env_id: str, render: bool) -> gymnasium.Env:
    """`gymnasium.make` for ids that are registered as they are written: it would take the newest version for none."""
    game = re.sub(r"^ALE/|(NoFrameskip|Deterministic)?-v\d+$", "", env_id)
    if game != env_id and game in ATARI_GAMES:  # other projects' ids: "ALE/Pong-v5", "PongNoFrameskip-v4"
        raise InvalidEnvironment(f"{env_id} would be raw RGB frames, without preprocessing: use atari/{game}")
    module, _, name = env_id.rpartition(":")
    if module:
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            where = "in the current folder or among the installed packages"
            raise InvalidEnvironment(f"{env_id}: Python finds no module {module}, {where}")
        importlib.import_module(module)
    known = gymnasium.registry.get(name)
    if known is None:
        raise unknown(env_id)
    pictures: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}  # users' environments need not accept it
    try:
        if isinstance(known.entry_point, str):
            with without_gl():  # takes the warnings of mujoco, which the first of its environments imports
                load_env_creator(known.entry_point)
        return gymnasium.make(known if known.version is None else name, disable_env_checker=True, **pictures)
    except TypeError as error:
        if render and "render_mode" in str(error):
            raise InvalidEnvironment(f"{env_id} cannot be rendered: it takes no argument render_mode") from error
        raise
