"""Cells: the runs that a figure is made of, with what was asked for and what is known of each."""

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from acer_tf.errors import SweepError
from acer_tf.settings import Settings, make_settings
from acer_tf.settings.record import changed, settings_document, settings_from

State = Literal["finished", "interrupted", "not begun", "failed"]


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run of a figure.

    Raises:
        ValueError: a value has a wrong type or is out of range, because anyone may have written the file it is from.
    """

    name: str  # its folder's: the same for the same settings, whatever figure asks for them
    method: str  # key of its method in the figure; for the command `curves`, the label that its user gave
    settings: Mapping[str, Any]  # as in run.json; before the run has begun, as asked for
    draw: int | None = None  # number of its draw, if its method is a search
    state: State = "not begun"  # "failed" if it was given up
    steps: int = 0  # agent steps done
    seconds: float = 0.0  # time that these took
    mean_return: float | None = None  # mean over the last 100 episodes; None before the first has ended
    commit: str | None = None  # of the code that started it
    reason: str = ""  # why it is not finished, if known
    policy: str | None = None  # path of its SavedModel

    def __post_init__(self) -> None:
        require_valid(self, [self.name])
        try:
            env, numbers = self.settings["env"], (self.seed, self.total_steps)
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"the settings of {self.name} lack a value ({type(error).__name__} {error})") from error
        if not (isinstance(env, str) and env) or not all(_is_of(number, int) for number in numbers):
            raise ValueError(f"the settings of {self.name} have a value out of range")

    @classmethod
    def asked(cls, method: str, settings: Settings, draw: int | None = None) -> "Cell":
        """A cell that has not begun."""
        digest = hashlib.sha256(json.dumps(changed(settings), sort_keys=True).encode()).hexdigest()[:10]
        slug = re.sub(r"[^A-Za-z0-9_.]+", "-", f"{settings.env}-{settings.agent}").strip("-")
        return cls(f"{slug}-seed{settings.seed}-{digest}", method, settings_document(settings), draw)

    @functools.cached_property
    def train_settings(self) -> Settings:
        """The settings for `train`; raises SettingsError if they are not of this version or of another program."""
        return settings_from(self.settings)

    @property
    def env(self) -> str:
        return str(self.settings["env"])

    @property
    def seed(self) -> int:
        return int(self.settings["seed"])

    @property
    def total_steps(self) -> int:
        return int(self.settings["total_steps"])

    @property
    def place(self) -> tuple[str, int | None, str, int]:
        """Method, draw, environment and seed, of which a figure has one cell."""
        return self.method, self.draw, self.env, self.seed

    @property
    def label(self) -> str:
        """The name of the cell in messages."""
        draw = "" if self.draw is None else f" draw {self.draw}"
        return f"{self.method}{draw}, {self.env}, seed {self.seed}"


def require_distinct(cells: Sequence[Cell]) -> None:
    """Raises SweepError without cells, or if two have the same settings."""
    if not cells:
        raise SweepError("no cells: the experiment's flags leave nothing to run")
    seen: dict[str, Cell] = {}
    for cell in cells:
        if cell.name in seen:
            raise SweepError(f"'{seen[cell.name].label}' and '{cell.label}' have the same settings: give each run once")
        seen[cell.name] = cell


def flags_of(settings: Settings) -> list[str]:
    """The shortest flags of `acer_tf train` that give `settings`."""
    wanted = dataclasses.asdict(settings)
    given = {name: wanted[name] for name in ("env", "agent", "preset", "seed", "total_steps")}
    # In turns: a value that is given may change what another is by default.
    while differing := {n: v for n, v in dataclasses.asdict(make_settings(given)).items() if v != wanted[n]}:
        given |= {name: wanted[name] for name in differing}
    return [
        f"--{name}" if value is True else f"--no{name}" if value is False else f"--{name}={value}"
        for name, value in given.items()
    ]


def require_valid(record: Any, files: Iterable[str]) -> None:
    """Raises ValueError for a field of a dataclass whose value is not of the annotated type, and for names of files.

    These may not, as paths, lead out of the figure's folder, and must be possible.
    """
    for name, kind in get_type_hints(type(record)).items():
        if not _is_of(value := getattr(record, name), kind):
            raise ValueError(f"its {name} cannot be {value!r:.60}")
    for name in files:
        if name in ("", ".", "..") or "/" in name or not name.isprintable() or len(name.encode()) > 200:
            raise ValueError(f"{name!r:.60} cannot be the name of a file in it")


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a value is of an annotated type, and no integer is negative or too large to be printed or converted."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in inner
    if origin is UnionType:
        return any(_is_of(value, each) for each in inner)
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_of(each, inner[0]) for each in value)
    if origin is not None:
        pairs = value.items() if isinstance(value, Mapping) else [(None, None)]
        return all(_is_of(key, inner[0]) and _is_of(each, inner[1]) for key, each in pairs)
    if kind is int:
        return type(value) is int and 0 <= value < 2**63
    if kind is float:
        return isinstance(value, float) or (type(value) is int and abs(value) < 2**63)
    return kind is Any or isinstance(value, kind)
