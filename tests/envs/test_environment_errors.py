"""Bad input raises InvalidEnvironment with a sentence that says what to do, and starts nothing."""

import collections
import fractions
import functools
import re
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from acer_tf import envs
from acer_tf.envs.families import split_id
from acer_tf.errors import EnvironmentFailure, InvalidEnvironment


def refused(env_id, num_envs=1, **settings):
    with pytest.raises(InvalidEnvironment) as error:
        envs.make(env_id, num_envs, 0, **settings)
    return str(error.value)


@pytest.mark.parametrize(
    "asked, meant",
    [
        ("atari/pong", "atari/Pong"),
        ("atari/Ms_Pacman", "atari/MsPacman"),
        ("atari/SpaceInvader", "atari/SpaceInvaders"),
        ("Atari/Breakout", "atari/Breakout"),
        ("Pong", "atari/Pong"),
        ("breakout", "atari/Breakout"),
        ("minatar/Breakout", "minatar/breakout"),
        ("minatar/spaceinvaders", "minatar/space_invaders"),
        ("control/chetah", "control/cheetah"),
        ("control/walker", "control/walker2d"),
        ("humanoid", "control/humanoid"),
        ("CartPole-v7", "CartPole-v1"),
        ("CartPole", "CartPole-v1"),
        ("Cartpole-v1", "CartPole-v1"),
    ],
)
def test_an_unknown_name_names_the_nearest(asked, meant):
    message = refused(asked)
    assert f"no environment '{asked}'" in message and meant in re.findall(r"[\w/.-]+", message.partition(";")[2])


@pytest.mark.parametrize("asked", ["", "zzzzzz", "atari/", "qqq/QQQQQQ-v0"])
def test_a_name_near_nothing(asked):
    assert f"no environment {asked!r}" in refused(asked)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("own_worlds:Corridor", "did you mean own_worlds:Corridor-v3?"),
        ("own_worlds:Corider-v3", "did you mean own_worlds:Corridor-v3?"),
        ("own_worlds:Qqqqqq", "the module own_worlds"),
        ("own_world:Corridor-v3", "no module own_world,"),
        ("own_worlds.py:Corridor-v3", "among the installed packages: its name has no .py"),
        ("own_worlds.more.worlds:Corridor-v3", "no module own_worlds.more.worlds,"),
        ("./own_worlds:Corridor-v3", "no module ./own_worlds,"),
        ("needy.worlds:Corridor-v3", "it needs a package that is not installed: No module named 'qqqqqq'"),
        ("Qqqqqq-v3", "module:Id-v0"),
    ],
)
def test_a_mistake_in_the_name_of_one_s_own_environment(asked, message, tmp_path, monkeypatch):
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    monkeypatch.delitem(sys.modules, "own_worlds", raising=False)
    text = "import gymnasium\ngymnasium.register('Corridor-v3', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    (tmp_path / "own_worlds.py").write_text(text)
    (tmp_path / "needy").mkdir()
    (tmp_path / "needy" / "__init__.py").write_text("import qqqqqq\n")
    monkeypatch.syspath_prepend(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert message in refused(asked)


def test_an_observation_without_a_fixed_form():
    class Written(Blank):
        observation_space = spaces.Text(4)

    assert "the observation space Text(1, 4" in refused("written", factory=Written)


class Blank(gymnasium.Env):
    observation_space = spaces.Box(0, 1, (1,))
    action_space = spaces.Discrete(2)
    made = closed = 0

    def __init__(self, needs=None, actions=None, render_mode=None):
        Blank.made += 1
        self.render_mode = render_mode
        self.action_space = actions or self.action_space
        if needs:
            raise needs

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def close(self):
        Blank.closed += 1

    def render(self):
        raise gymnasium.error.DependencyNotInstalled("pygame is not installed")


@pytest.fixture
def blank():
    def register(**kwargs):
        gymnasium.register("Blank-v0", lambda **settings: Blank(**settings), kwargs=kwargs)
        Blank.made = Blank.closed = 0

    yield register
    gymnasium.registry.pop("Blank-v0", None)


@pytest.mark.parametrize(
    "actions, reason",
    [
        (spaces.MultiDiscrete([100, 100]), "at most 4,096"),
        (spaces.Box(-np.inf, np.inf, (2,)), "must be bounded"),
        (spaces.Box(np.float32([-1, -1]), np.float32([1, np.inf])), "must be bounded"),
        (spaces.Box(np.float32(-3e38), np.float32(3e38), (2,)), "must be bounded"),
        (spaces.Box(-1, 1, (0,)), "at least one component"),
        (spaces.Box(-1, 1, (2, 2)), "must be of vectors"),
        (spaces.Box(0, 5, (2,), np.int64), "must be of real numbers"),
    ],
)
def test_other_action_spaces(blank, actions, reason):
    blank(actions=actions)
    message = refused("Blank-v0", num_envs=4)
    assert "Blank-v0 has the action space" in message and reason in message
    assert Blank.made == Blank.closed == 1


@pytest.mark.parametrize(
    "needs", [gymnasium.error.DependencyNotInstalled("Box2D is missing"), ModuleNotFoundError("Box2D")]
)
def test_a_package_that_is_not_installed(blank, needs):
    blank(needs=needs)
    message = refused("Blank-v0", num_envs=4)
    assert "Blank-v0 " in message and "needs a package that is not installed" in message and "Box2D" in message
    assert Blank.made == 1


def test_an_extra_is_named_only_if_its_package_is_missing(blank, monkeypatch):
    blank(needs=gymnasium.error.DependencyNotInstalled("only supported on mujoco<3"))
    assert "acer_tf[" not in refused("Blank-v0")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "needs mujoco, which is not installed" in refused("Blank-v0")


def test_a_name_that_cannot_be_imported_is_an_error_of_the_environment(blank):
    blank(needs=ImportError("cannot import name 'Orderd' from 'collections'"))
    with pytest.raises(EnvironmentFailure, match="Blank-v0 failed .*: ImportError: cannot import name 'Orderd'"):
        envs.spec("Blank-v0")


def test_an_error_of_gymnasium_that_an_environment_raises_is_its_own(blank):
    blank(needs=gymnasium.error.InvalidAction("the grid must be odd"))
    with pytest.raises(EnvironmentFailure, match="^Blank-v0 .*InvalidAction"):
        envs.make("Blank-v0", 1, 0)
    with pytest.raises(EnvironmentFailure, match="^corridor failed .* NameNotFound: .*CartPol"):
        envs.make("corridor", 1, 0, factory=lambda: gymnasium.make("CartPol-v1"))


class Faulty(gymnasium.Env):
    observation_space = spaces.Box(0, 255, (2, 2), np.uint8)
    action_space = spaces.Discrete(2)
    method, answer, made = "", None, 0

    def __init__(self):
        self._answer("made")
        Faulty.made += 1
        self._answer(f"made {Faulty.made}")

    def _answer(self, method, usual=None):
        if method != Faulty.method:
            return usual
        if isinstance(Faulty.answer, BaseException):
            raise Faulty.answer
        return Faulty.answer

    def reset(self, *, seed=None, options=None):
        return self._answer("reset", (np.zeros((2, 2), np.uint8), {}))

    def step(self, action):
        return self._answer("step", (np.zeros((2, 2), np.uint8), 1.0, False, False, {}))

    def close(self):
        self._answer("close")


def faulty(method, answer, monkeypatch):
    """The message and the cause, with an environment that answers so in one method."""
    for name, value in {"method": method, "answer": answer, "made": 0}.items():
        monkeypatch.setattr(Faulty, name, value)
    with pytest.raises(EnvironmentFailure) as error:
        env = envs.make("faulty", 2, 0, factory=Faulty)
        env.reset()
        env.step(np.array([0, 1]))
        env.close()
    return str(error.value), error.value.__cause__


@pytest.mark.parametrize(
    ("method", "where"),
    [
        ("made", "when it was made"),
        ("made 3", "when it was made"),
        ("reset", "in reset()"),
        ("step", "in step()"),
        ("close", "in close()"),
    ],
)
@pytest.mark.parametrize("own", [KeyError("boom"), SystemExit("boom")])
def test_what_an_environment_raises_names_it_and_where(method, where, own, monkeypatch):
    message, cause = faulty(method, own, monkeypatch)
    assert message == f"faulty failed {where}: {type(own).__name__}: {own}" and cause is own


GOOD = np.zeros((2, 2), np.uint8)
RESET, STEP = "reset() must return (observation, info)", "step() must return (observation, reward, terminated,"


@pytest.mark.parametrize(
    ("method", "answer", "parts"),
    [
        ("reset", (np.zeros(3), {}), ["shape (3,)", "Box(0, 255, (2, 2), uint8)"]),
        ("reset", ({"seen": GOOD}, {}), ["observation of type dict", "Box(0, 255, (2, 2), uint8)"]),
        ("reset", (None, {}), ["observation of type NoneType"]),
        ("reset", ([[1, 2], [3]], {}), ["observation of type list"]),
        ("reset", GOOD, [RESET, "shape (2, 2)"]),
        ("reset", [GOOD, 1], [RESET, "info of type int"]),
        ("reset", (GOOD, 0.0, {}), [RESET, "got 3 values"]),
        ("reset", None, [RESET, "NoneType"]),
        ("step", (GOOD[0], 1.0, False, False, {}), ["shape (2,)", "uint8", "Box(0, 255, (2, 2), uint8)"]),
        ("step", (GOOD / 2, 1.0, False, False, {}), ["shape (2, 2)", "float64", "Box(0, 255, (2, 2), uint8)"]),
        ("step", (GOOD.astype(str), 1.0, False, False, {}), ["dtype <U", "Box(0, 255, (2, 2), uint8)"]),
        ("step", GOOD, [STEP, "shape (2, 2)"]),
        ("step", None, [STEP, "NoneType"]),
        ("step", (GOOD, 1.0, False, {}), [STEP, "got 4 values", "old gym"]),
        ("step", (GOOD, 1.0, False), [STEP, "got 3 values"]),
        ("step", (GOOD, 1.0, False, {}, False), [STEP, "info of type bool"]),
        ("step", (GOOD, "high", False, False, {}), ["reward of type str, 'high'"]),
        ("step", (GOOD, "1.5", False, False, {}), ["reward of type str, '1.5'"]),
        ("step", (GOOD, None, False, False, {}), ["reward of type NoneType"]),
        ("step", (GOOD, 1j, False, False, {}), ["reward of type complex"]),
        ("step", (GOOD, np.array([1.0]), False, False, {}), ["reward of shape (1,)"]),
        ("step", (GOOD, [1.0], False, False, {}), ["reward of shape (1,)"]),
        ("step", (GOOD, np.nan, False, False, {}), ["reward of nan"]),
        ("step", (GOOD, -np.inf, False, False, {}), ["reward of -inf"]),
        ("step", (GOOD, 1e39, False, False, {}), ["reward of 1e+39", "float32", "3.4e+38"]),
        ("step", (GOOD, 1.0, None, False, {}), ["terminated of type NoneType", "True or False"]),
        ("step", (GOOD, 1.0, False, "no", {}), ["truncated of type str, 'no'", "True or False"]),
        ("step", (GOOD, 1.0, 2, False, {}), ["terminated of type int, 2"]),
        ("step", (GOOD, 1.0, np.array([True]), False, {}), ["terminated of shape (1,)"]),
    ],
)
def test_what_gymnasium_or_the_spaces_do_not_allow_is_shown(method, answer, parts, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        message, cause = faulty(method, answer, monkeypatch)
    assert message.startswith(f"faulty failed in {method}(): ") and all(part in message for part in parts)
    assert cause is None


def test_one_wrong_answer_among_others_is_found(monkeypatch):
    monkeypatch.setattr(Faulty, "made", 0)
    each = iter([(GOOD, 1.0, False, False, {}), (GOOD, np.ones(2), False, False, {})])
    monkeypatch.setattr(Faulty, "step", lambda *_: next(each))
    env = envs.make("faulty", 2, 0, factory=Faulty)
    env.reset()
    with pytest.raises(EnvironmentFailure, match=r"reward of shape \(2,\)"):
        env.step(np.array([0, 1]))


@pytest.mark.parametrize("answer", [(GOOD, 1.0, False, {}), (GOOD, 1.0, False)])
def test_what_a_time_limit_cannot_unpack(answer, monkeypatch):
    monkeypatch.setattr(Faulty, "step", lambda *_: answer)
    env = envs.make("faulty", 2, 0, factory=lambda: TimeLimit(Faulty(), 5))
    env.reset()
    with pytest.raises(EnvironmentFailure, match=r"^faulty failed in step.*got") as error:
        env.step(np.array([0, 1]))
    assert STEP in str(error.value) and ("old gym" in str(error.value)) == (len(answer) == 4)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_observations_that_float32_does_not_hold(value, dtype):
    class Odd(gymnasium.Env):
        observation_space, action_space = spaces.Box(-np.inf, np.inf, (2,), dtype), spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(2), {}

        def step(self, action):
            return np.array([0, value]), 1.0, False, False, {}

    env = envs.make("odd", 1, 0, factory=Odd)
    env.reset()
    with warnings.catch_warnings(), pytest.raises(EnvironmentFailure) as error:
        warnings.simplefilter("error")
        env.step(np.array([0]))
    assert f"in step(): it returned an observation of {value}" in str(error.value)
    assert ("beyond float32" in str(error.value)) == (value == 1e39)


def test_wider_numbers_that_the_space_s_dtype_does_not_hold_are_not_wrapped():
    class Wide(gymnasium.Env):
        observation_space, action_space = spaces.Box(0, 255, (3,), np.uint8), spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.array([255, 1, 0], np.uint16), {}

        def step(self, action):
            return np.array([255, 300, 0], np.uint16), 1.0, False, False, {}

    env = envs.make("wide", 1, 0, factory=Wide)
    assert env.reset().observation.tolist() == [[255, 1, 0]]
    with pytest.raises(EnvironmentFailure, match=r"in step\(\): it returned an observation of 300.*uint8"):
        env.step(np.array([0]))


def test_numbers_of_a_discrete_space_may_be_unsigned():
    class Unsigned(gymnasium.Env):
        observation_space, action_space = spaces.Discrete(3), spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.uint64(2), {}

    assert envs.make("unsigned", 1, 0, factory=Unsigned).reset().observation.tolist() == [[0, 0, 1]]


@pytest.mark.parametrize(
    ("answer", "reward", "last"),
    [
        ((GOOD, fractions.Fraction(1, 2), 0, 1, {}), 0.5, True),
        ((GOOD, 2**70, np.False_, 0.0, {}), 2.0**70, False),
        ([GOOD.tolist(), True, np.array(True), False, collections.OrderedDict()], 1.0, True),
        ((GOOD, np.array(3), False, False, {}), 3.0, False),
        ((GOOD.astype(bool), np.float16(0.5), False, False, {}), 0.5, False),
    ],
)
def test_what_stands_for_a_number_or_a_bool_is_taken_for_it(answer, reward, last, monkeypatch):
    if isinstance(answer, list):
        monkeypatch.setattr(Faulty, "observation_space", spaces.Box(0, 255, (2, 2), np.int64))
    monkeypatch.setattr(Faulty, "step", lambda *_: answer)
    env = envs.make("faulty", 2, 0, factory=Faulty)
    env.reset()
    step = env.step(np.array([0, 1]))
    assert step.reward.tolist() == [reward] * 2 and step.last.tolist() == [last] * 2


def test_an_environment_without_spaces_is_refused():
    class Bare(gymnasium.Env):
        pass

    assert "has the observation space None" in refused("bare", factory=Bare)


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_function_that_returns_one_environment_time_and_again_is_refused(num_envs, wrapped):
    """`env=lambda: env`, as other libraries take one: each step would move it N times."""
    world = gymnasium.make("CartPole-v1")
    message = refused("cart", num_envs, factory=lambda: TimeLimit(world, 50) if wrapped else world)
    assert "cart: its function must make a new environment" in message


def test_observations_without_elements_are_refused():
    class Blind(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(0, 1, (0, 2)), gymnasium.spaces.Discrete(2)

    assert "blind has the observation space Box([], [], (0, 2)" in refused("blind", factory=Blind)


def test_pictures_whose_package_is_not_installed(blank, monkeypatch):
    blank()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    envs.make("Blank-v0", 1, 0)
    message = refused("Blank-v0", render=True)
    assert "Blank-v0 failed when it was rendered: " in message and "pip install 'acer_tf[classic]'" in message


def test_a_copy_that_cannot_be_made_closes_those_that_are_made(blank):
    def make():
        if Blank.made == 3:  # the one that is looked at, and two copies
            raise OSError("no licence for a fourth")
        return Blank()

    Blank.made = Blank.closed = 0
    with pytest.raises(EnvironmentFailure, match="OSError: no licence for a fourth"):
        envs.make("mine", 4, 0, factory=make)
    assert Blank.closed == 3


def test_a_close_that_fails_hides_no_refusal(capsys):
    class Unbegun(Blank):
        observation_space = spaces.Text(4)

        def close(self):
            raise AttributeError("no window")

    assert "Text(1, 4" in refused("mine", factory=Unbegun)
    assert "mine failed in close(): AttributeError: no window\n" in capsys.readouterr().err


def test_metadata_that_are_none_are_refused():
    class Bare(Blank):
        metadata = None

    assert refused("mine", factory=Bare) == "mine: its metadata must be a dict, not None"


def test_an_environment_that_takes_no_render_mode():
    class Mute(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Discrete(2)

    gymnasium.register("Mute-v0", Mute)
    try:
        assert "Mute-v0 cannot be rendered: " in (said := refused("Mute-v0", render=True)) and "render_mode" in said
    finally:
        del gymnasium.registry["Mute-v0"]


def test_an_environment_that_forgets_its_render_mode():
    class Painted(gymnasium.Env):
        metadata = {"render_modes": ["rgb_array"]}
        observation_space, action_space = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Discrete(2)

        def reset(self, **_):
            return np.zeros(2, np.float32), {}

        def render(self):
            return np.zeros((200, 200, 3), np.uint8)

    assert "Painted cannot be rendered: its render_mode is None" in refused("Painted", render=True, factory=Painted)


def test_a_mujoco_environment_that_was_not_made_for_pictures():
    made = functools.partial(gymnasium.make, "InvertedPendulum-v5")
    assert "pendulum cannot be rendered: its render_mode is None" in refused("pendulum", render=True, factory=made)


def test_minatar_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "minatar", None)
    assert "pip install 'acer_tf[minatar]'" in refused("minatar/breakout")


@pytest.mark.parametrize("num_envs", [0, -3])
@pytest.mark.parametrize("env_id", ["atari/Pong", "CartPole-v1"])
def test_no_environments(env_id, num_envs):
    assert "num_envs must be at least 1" in refused(env_id, num_envs=num_envs)


def test_an_unknown_atari_preset():
    message = refused("atari/Pong", atari_preset="acer2017")
    assert "'acer2017'" in message and "acer2016, machado2018" in message


def test_a_negative_seed():
    with pytest.raises(ValueError, match="non-negative"):
        envs.make("CartPole-v1", 1, -1)


def test_spec_refuses_as_make_does():
    with pytest.raises(InvalidEnvironment, match="atari/Pong"):
        envs.spec("atari/pong")


@pytest.mark.parametrize(
    "env_id, family",
    [
        ("atari/Pong", "atari"),
        ("minatar/breakout", "minatar"),
        ("control/fish", "control"),
        ("dm_control/fish-swim-v0", "dm_control"),
        ("CartPole-v1", "gymnasium"),
        ("atari", "gymnasium"),
        ("ALE/Pong-v5", "gymnasium"),
    ],
)
def test_family(env_id, family):
    assert split_id(env_id)[0] == family


@pytest.mark.parametrize("given", [gymnasium.make("CartPole-v1"), "CartPole-v1"])
def test_an_environment_in_the_place_of_a_function_is_refused_in_a_line(given):
    with pytest.raises(InvalidEnvironment, match=f"function that makes one environment.* {type(given).__name__}$"):
        envs.spec("mine", factory=given)


@pytest.mark.skipif("Taxi-v4" not in gymnasium.registry, reason="with gymnasium 1.1 Taxi-v3 is the newest")
def test_a_deprecated_version_is_told_in_gymnasiums_own_words():
    with pytest.raises(InvalidEnvironment, match="'Taxi-v3': .*deprecated.*Taxi-v4"):
        envs.spec("Taxi-v3")


@pytest.mark.parametrize(
    ("factory", "found"), [(lambda: None, "a NoneType"), (lambda: Blank, "the class Blank"), (lambda: "x", "a str")]
)
def test_a_function_that_returns_no_environment(factory, found):
    assert f"mine: its function must return a gymnasium.Env, not {found}" in refused("mine", factory=factory)


class Unlike(Blank):
    def step(self):
        return self.reset()

    def reset(self):
        return np.zeros(1, np.float32), {}


def test_a_method_that_takes_other_arguments_is_blamed_for_that_also_in_a_wrapper():
    env = envs.make("mine", 1, 0, factory=lambda: TimeLimit(Unlike(), 5), action_masks=False)
    with pytest.raises(EnvironmentFailure, match=r"^mine failed in reset\(\): TypeError: .*unexpected keyword"):
        env.reset()


def test_an_observation_of_another_shape_beside_a_mask():
    class Masked(Blank):
        observation_space = spaces.Dict(x=spaces.Box(0, 1, (1,)), action_mask=spaces.MultiBinary(2))

        def reset(self, *, seed=None, options=None):
            return {"x": np.zeros(1, np.float32), "action_mask": np.ones(2, np.int8)}, {}

        def step(self, action):
            return np.zeros(2, np.float32), 0.0, False, False, {}

    env = envs.make("mine", 1, 0, factory=Masked)
    env.reset()
    with pytest.raises(EnvironmentFailure, match=r"it returned an observation of shape \(2,\) and dtype float32, but"):
        env.step(np.array([0]))
