"""Any gymnasium environment with a Box of observations, and discrete or bounded continuous actions."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.error import DependencyNotInstalled, DeprecatedEnv, UnregisteredEnv
from gymnasium.spaces import Box, Space
from gymnasium.vector import SyncVectorEnv

from acer_tf.envs.families import refuse_raw_atari, unknown
from acer_tf.envs.headless import Screen, require_gl, without_gl
from acer_tf.envs.vector import VectorEnvironment, check_action_space
from acer_tf.errors import EnvironmentFailure, InvalidEnvironment


class View(NamedTuple):
    """What `headless.Screen` renders of a MuJoCo environment."""

    data: Any  # an MjData
    camera: str | int | dict[str, Any]
    height: int = 240
    width: int = 320


Look = Callable[[gymnasium.Env], View | None]  # the current view of an environment; None if it renders itself


def gymnasium_view(env: gymnasium.Env) -> View | None:
    """The view of a gymnasium MuJoCo environment: through its tracking camera, or else its default camera."""
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


def _render_fps(env: gymnasium.Env) -> float | None:
    """What the environment declares: gymnasium's simulations say how often they step in a second."""
    rate = (env.metadata or {}).get("render_fps")
    return float(rate) if isinstance(rate, int | float) and 0 < rate < np.inf else None


def make_gym(
    env_id: str,
    num_envs: int,
    seeds: list[int],
    *,
    threads: int = 1,  # no effect; the makers of all families are called with it
    render: bool,
    factory: Callable[[], gymnasium.Env] | None = None,
    max_episode_steps: int | None = None,
    wrap: Callable[[gymnasium.Env], gymnasium.Env] | None = None,
    steps_per_second: Callable[[gymnasium.Env], float | None] = _render_fps,
    view: Look = gymnasium_view,
) -> VectorEnvironment:
    """`num_envs` copies of a gymnasium environment, all stepped in this process; see `acer_tf.envs.make`.

    Args:
        max_episode_steps: a time limit in steps; None keeps the registered one.
        wrap: wraps each environment.
        steps_per_second: reads `VectorEnvironment.steps_per_second` from one environment; by default its render_fps.
        view: what a picture shows of one environment; None where it renders itself.

    Raises:
        InvalidEnvironment: unknown id, package not installed, unsupported spaces, or rendering that does not work.
        EnvironmentFailure: the environment raised.
    """

    made: list[Any] = []

    def make_one(render: bool = False) -> gymnasium.Env:
        if factory is not None:
            env = factory()
            base = getattr(env, "unwrapped", env)
            if any(base is other for other in made):  # one that was checked and closed, or N that step each other
                raise InvalidEnvironment(f"{env_id}: its function must make a new environment at each call")
            made.append(base)
            return env
        # Users' environments need not accept a render_mode.
        mode = {"render_mode": "rgb_array"} if render else {}
        env = gymnasium.make(env_id, max_episode_steps=max_episode_steps, disable_env_checker=True, **mode)
        return env if wrap is None else wrap(env)

    first = functools.partial(make_one, render)  # the only one that is drawn
    rate = _check(env_id, first, view if render else None, steps_per_second, registered=factory is None)
    with _blamed(env_id, "when it was made"):
        vector = _Vector(env_id, [first, *[make_one] * (num_envs - 1)], view)
    return VectorEnvironment(vector, seeds, steps_per_second=rate)


@contextlib.contextmanager
def _blamed(env_id: str, where: str) -> Iterator[None]:
    """What the environment raises becomes an EnvironmentFailure that names it."""
    try:
        yield
    except (InvalidEnvironment, EnvironmentFailure):
        raise
    except (Exception, SystemExit) as error:
        raise EnvironmentFailure(f"{env_id} failed {where}: {type(error).__name__}: {error}") from error


class _Vector(SyncVectorEnv):
    """Names the environment if it fails.

    Renders the first, MuJoCo's through a `Screen`: it may not make an OpenGL context in this process.
    """

    def __init__(self, env_id: str, make_each: list[Callable[[], gymnasium.Env]], view: Look) -> None:
        self._id, self._view = env_id, view
        self._screen: Screen | None = None
        super().__init__(make_each)

    def reset(self, **kwargs: Any) -> Any:
        with _blamed(self._id, "in reset()"), self._observations_checked("in reset()"):
            return super().reset(**kwargs)

    def step(self, actions: Any) -> Any:
        with _blamed(self._id, "in step()"), self._observations_checked("in step()"):
            return super().step(actions)

    def _add_info(self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int) -> dict[str, Any]:
        """Nothing reads them, and gymnasium cannot join infos whose types or shapes differ."""
        return vector_infos

    @contextlib.contextmanager
    def _observations_checked(self, where: str) -> Iterator[None]:
        """Says what was returned if the copy into one array fails; a check of every step would take too long."""
        try:
            yield
        except (TypeError, ValueError):
            space: Any = self.single_observation_space
            for found in map(np.asarray, filter(lambda found: found is not None, self._env_obs)):
                if found.shape != space.shape or not np.can_cast(found.dtype, space.dtype, "same_kind"):
                    # Without a cause, whose traceback would be of gymnasium's code, not of the environment's.
                    raise EnvironmentFailure(
                        f"{self._id} failed {where}: it returned an observation of shape {found.shape} and dtype "
                        f"{found.dtype}, but its space is {space}"
                    ) from None
            raise

    def render(self) -> tuple[Any, ...]:
        with _blamed(self._id, "in render()"):
            view = self._view(self.envs[0])
            if view is None:
                return (self.envs[0].render(),)
            if self._screen is None:
                data, camera, height, width = view
                self._screen = Screen(data.model, camera, height=height, width=width)
            return (self._screen.draw(view.data),)

    def close_extras(self, **kwargs: Any) -> None:
        with _blamed(self._id, "in close()"):
            super().close_extras(**kwargs)
        if self._screen is not None:
            self._screen.close()


def _check(
    env_id: str,
    make_one: Callable[[], gymnasium.Env],
    view: Look | None,
    steps_per_second: Callable[[gymnasium.Env], float | None],
    *,
    registered: bool,
) -> float | None:
    """Makes, checks and closes one environment; returns its `steps_per_second`. Without `view`, it is not rendered."""
    if registered:
        refuse_raw_atari(env_id)
    known = gymnasium.registry.get(env_id)
    try:
        if registered and known is not None and isinstance(known.entry_point, str):
            with without_gl():  # the first of gymnasium's MuJoCo environments imports mujoco
                load_env_creator(known.entry_point)
        with without_gl(), _unversioned_quietly(env_id):
            env = make_one()
    except (ImportError, DependencyNotInstalled) as error:
        module = env_id.rpartition(":")[0].partition(".")[0]
        if module and importlib.util.find_spec(module) is None:
            raise InvalidEnvironment(
                f"{env_id}: Python finds no module {module}, in the current folder or among the installed packages"
            ) from error
        raise InvalidEnvironment(f"{env_id} needs {_missing(error)}") from error
    except (Exception, SystemExit) as error:
        # For a malformed id gymnasium raises Error itself. Its other errors, and those of a known id, are the
        # environment's own.
        not_found = isinstance(error, (UnregisteredEnv, DeprecatedEnv)) or type(error) is gymnasium.error.Error
        if registered and known is None and not_found:
            raise unknown(env_id) from error
        if view is not None and isinstance(error, TypeError) and "render_mode" in str(error):
            raise InvalidEnvironment(f"{env_id} cannot be rendered: it takes no argument render_mode") from error
        with _blamed(env_id, "when it was made"):
            raise error
    try:
        # gymnasium resolves an id without a version ("Pong") to the newest one; a run must record what it ran.
        if registered and (env.spec is None or env.spec.id != env_id.rpartition(":")[2]):
            raise unknown(env_id)
        check_action_space(env_id, cast(Space, getattr(env, "action_space", None)))
        space = getattr(env, "observation_space", None)
        if not isinstance(space, Box):
            raise InvalidEnvironment(f"{env_id} has the observation space {space}; only a Box is supported")
        if 0 in space.shape:
            raise InvalidEnvironment(f"{env_id} has observations without elements, of shape {space.shape}")
        if view is not None:
            with _blamed(env_id, "when it was rendered"):
                _check_render(env_id, env, view)
        return steps_per_second(env)
    finally:
        with _blamed(env_id, "in close()"):
            env.close()


@contextlib.contextmanager
def _unversioned_quietly(env_id: str) -> Iterator[None]:
    """Of an id without a version gymnasium warns, and takes the newest; our error names the ids that there are."""
    if re.search(r"-v\d+$", env_id):  # catching warnings would let others be shown a second time
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*latest versioned environment")
        yield


def _missing(error: ImportError | DependencyNotInstalled) -> str:
    """What is not installed; gymnasium's own hints name its extras, which have other versions than ours."""
    for package, extra in (("pygame", "classic"), ("MuJoCo", "control")):
        if package.lower() in str(error).lower():
            return f"{package}, which is not installed: pip install 'acer_tf[{extra}]'"
    return f"a package that is not installed: {error}"


def _check_render(env_id: str, env: gymnasium.Env, view: Look) -> None:
    if view(env) is not None:
        if env.render_mode != "rgb_array":
            raise InvalidEnvironment(f"{env_id} cannot be rendered: make it with render_mode='rgb_array'")
        require_gl(env_id)
        return
    try:
        env.reset()
        picture = env.render()
    except (ImportError, DependencyNotInstalled) as error:
        raise InvalidEnvironment(f"rendering {env_id} needs {_missing(error)}") from error
    if np.ndim(picture) != 3:  # type: ignore[arg-type]
        raise InvalidEnvironment(f"{env_id} cannot be rendered as rgb_array")
    if env.render_mode != "rgb_array":
        raise InvalidEnvironment(
            f"{env_id} cannot be rendered: its render_mode is {env.render_mode!r}, and must be 'rgb_array'"
        )
