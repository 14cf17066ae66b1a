"""Any gymnasium environment with a Box of observations, and discrete or bounded continuous actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled
from gymnasium.spaces import Box
from gymnasium.vector import SyncVectorEnv

from acer_tf.envs.families import InvalidEnvironment, unknown
from acer_tf.envs.headless import Screen, require_gl, without_gl
from acer_tf.envs.vector import VectorEnvironment, check_action_space


class View(NamedTuple):
    """What `headless.Screen` renders of a MuJoCo environment."""

    data: Any  # an MjData
    camera: str | int | dict[str, Any]
    height: int = 240
    width: int = 320


def gymnasium_view(env: gymnasium.Env) -> View | None:
    """The view of a gymnasium MuJoCo environment: through its tracking camera, or else its default camera.

    None for other environments, which render themselves.
    """
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


def make_gym(
    env_id: str,
    num_envs: int,
    seeds: list[int],
    *,
    threads: int = 1,
    render: bool,
    factory: Callable[[], gymnasium.Env] | None = None,
    max_episode_steps: int | None = None,
    wrap: Callable[[gymnasium.Env], gymnasium.Env] | None = None,
    steps_per_second: Callable[[gymnasium.Env], float] | None = None,
    view: Callable[[gymnasium.Env], View | None] = gymnasium_view,
) -> VectorEnvironment:
    """`num_envs` copies of a gymnasium environment, all stepped in this process; see `acer_tf.envs.make`.

    Args:
        env_id: an id of gymnasium's registry, or "package:id".
        threads: not used.
        factory: makes one environment; `env_id` is then only its name.
        max_episode_steps: a time limit in steps; None keeps the registered one.
        wrap: wraps each environment.
        steps_per_second: reads `VectorEnvironment.steps_per_second` from one environment.
        view: the current view of one environment; None if it renders itself.

    Raises:
        InvalidEnvironment: unknown id, package not installed, unsupported spaces, or rendering that does not work.
    """

    def make_one() -> gymnasium.Env:
        if factory is not None:
            return factory()
        # Users' environments need not accept a render_mode.
        mode = {"render_mode": "rgb_array"} if render else {}
        env = gymnasium.make(env_id, max_episode_steps=max_episode_steps, disable_env_checker=True, **mode)
        return env if wrap is None else wrap(env)

    rate = _check(env_id, make_one, view if render else None, steps_per_second, registered=factory is None)
    return VectorEnvironment(_Vector([make_one] * num_envs, view), seeds, steps_per_second=rate)


class _Vector(SyncVectorEnv):
    """Renders MuJoCo environments through one shared `Screen`: they may not make OpenGL contexts in this process."""

    def __init__(
        self, make_each: list[Callable[[], gymnasium.Env]], view: Callable[[gymnasium.Env], View | None]
    ) -> None:
        super().__init__(make_each)
        self._view = view
        self._screen: Screen | None = None

    def render(self) -> tuple[Any, ...]:
        views = [view for view in map(self._view, self.envs) if view is not None]
        if not views:
            return super().render()
        if self._screen is None:
            data, camera, height, width = views[0]
            self._screen = Screen(data.model, camera, height=height, width=width)
        return tuple(self._screen.draw(view.data) for view in views)

    def close_extras(self, **kwargs: Any) -> None:
        super().close_extras(**kwargs)
        if self._screen is not None:
            self._screen.close()


def _check(
    env_id: str,
    make_one: Callable[[], gymnasium.Env],
    view: Callable[[gymnasium.Env], View | None] | None,
    steps_per_second: Callable[[gymnasium.Env], float] | None,
    *,
    registered: bool,
) -> float | None:
    """Makes, checks and closes one environment; returns its steps per second if `steps_per_second` is given.

    Args:
        view: as in `make_gym`; None to skip the check of rendering.
        registered: whether `env_id` is an id of gymnasium's registry.
    """
    try:
        with without_gl():  # the first of gymnasium's MuJoCo environments imports mujoco
            env = make_one()
    except (ImportError, DependencyNotInstalled) as error:
        raise InvalidEnvironment(f"{env_id} needs a package that is not installed: {error}") from error
    except gymnasium.error.Error as error:
        raise unknown(env_id) from error
    try:
        # gymnasium resolves an id without a version ("Pong") to the newest one; a run must record what it ran.
        if registered and (env.spec is None or env.spec.id != env_id.rpartition(":")[2]):
            raise unknown(env_id)
        check_action_space(env_id, env.action_space)
        if not isinstance(env.observation_space, Box):
            raise InvalidEnvironment(
                f"{env_id} has the observation space {env.observation_space}; only a Box is supported"
            )
        if view is not None:
            _check_render(env_id, env, view)
        return None if steps_per_second is None else steps_per_second(env)
    finally:
        env.close()


def _check_render(env_id: str, env: gymnasium.Env, view: Callable[[gymnasium.Env], View | None]) -> None:
    if view(env) is not None:
        require_gl(env_id)
        return
    try:
        env.reset()
        picture = env.render()
    except (ImportError, DependencyNotInstalled) as error:
        raise InvalidEnvironment(f"rendering {env_id} needs a package that is not installed: {error}") from error
    if np.ndim(picture) != 3:  # type: ignore[arg-type]
        raise InvalidEnvironment(f"{env_id} cannot be rendered as rgb_array")
