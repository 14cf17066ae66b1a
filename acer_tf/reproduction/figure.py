"""What a figure or table of a paper is: the runs it is made of, its report, and the claims that it decides.

The modules of acer_tf/figures have one each, in an object FIGURE; `figures` finds them by listing that folder.
"""

import dataclasses
import functools
import importlib
import itertools
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absl.flags import FlagValues

from acer_tf.envs.families import split_id
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.published import PublishedCurve, published_curves
from acer_tf.reproduction.statistics import Comparison
from acer_tf.settings import make_settings

RESULTS = "my_results"  # default folder of results; results/ of the repository is the shipped evidence
_LOG_ROWS = 50  # rows of a whole run, by log_interval; fewer where an iteration is longer
_LONGEST_INTERVAL = 20_000  # steps


@dataclasses.dataclass(frozen=True)
class Method:
    """A curve or a column of a figure."""

    label: str  # for people: "ACER, replay 4"
    settings: Mapping[str, Any]  # flags of `acer_tf train`, without task, seed and length
    total_steps: int | Mapping[str, int]  # agent steps of a whole run; if given by task, other tasks are not run
    published: str = ""  # its name in the published data that it is compared with, if there are any
    draws: tuple[Mapping[str, Any], ...] = ()  # a search's: what each run sets over `settings`, its seed included

    def steps(self, env: str) -> int | None:
        """Agent steps of a whole run in `env`; None if the method is not run there."""
        return self.total_steps if isinstance(self.total_steps, int) else self.total_steps.get(env)

    def variants(self) -> dict[int | None, dict[str, Any]]:
        """The settings of each draw of a search, by its number; of any other method its settings, by None."""
        if not self.draws:
            return {None: dict(self.settings)}
        return {number: {**self.settings, **draw} for number, draw in enumerate(self.draws)}


KINDS = PAPERS_OWN, OTHER_TASKS, OWN_AIM = (  # of claims
    "the papers' own experiments",
    "the same claims on other tasks",
    "our own aim",
)


class Finding(NamedTuple):
    """What records say of a claim."""

    comparisons: Sequence[Comparison]  # the claim is that all of them are above even
    ours: str = ""
    theirs: str = ""
    compared: str = ""  # which part of what was run is compared, if not all


class Judged(NamedTuple):
    """The records that a claim is judged by."""

    content: Any  # for the claim's `judge`
    share: str  # how much of the figure's runs these are, in words
    hours: float  # that the machine took for them; NaN if it is not known
    folder: str = ""  # of most of them, in the results, if not the claim's


@dataclasses.dataclass(frozen=True)
class Claim:
    """One statement of a paper that records can support or contradict."""

    text: str
    judge: Callable[[Any], Finding]  # given the content of its records
    read: Callable[["Figure", Path], Judged | None]  # given the figure and the folder; None if nothing was run
    source: str = ""  # paper, and figure or table, if not those of the figure
    folder: str = ""  # the folder of its records in the results, if not the figure's
    beside: str = ""  # another one with more of them


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure or table of a paper."""

    module: str  # __name__ of its module, whose docstring begins --help; the last part names the command
    order: int  # its place on the page and among the verdicts
    source: str  # paper, and figure or table: "ACER, Figure 1"
    title: str  # the title of its section on the page of results
    text: tuple[str, ...]  # paragraphs: what it reproduces, by what protocol, how it differs
    claims: tuple[Claim, ...] = ()
    envs: tuple[str, ...] = ()  # ids of its tasks
    methods: Mapping[str, Method] = dataclasses.field(default_factory=dict)  # by their keys, which --agents takes
    seeds: int = 1  # seeds of a whole reproduction
    report: Callable[[Any], Any] | None = None  # a `Report` of the `RecordedRuns` so far
    published: Callable[[str], Sequence[PublishedCurve]] = published_curves  # the published curves of one of its tasks
    flags: Callable[[FlagValues], None] = lambda values: None  # defines flags of this figure alone
    keep: Callable[[list[Cell], FlagValues], list[Cell]] = lambda cells, values: cells  # the cells that these choose
    kind: str = PAPERS_OWN  # of its claims: one of KINDS

    @property
    def name(self) -> str:
        """The name of its command and of its folder of results."""
        return self.module.rpartition(".")[2]

    @property
    def doc(self) -> str:
        """What it makes, with examples of its command."""
        return (sys.modules[self.module].__doc__ or "").rstrip()

    @property
    def family(self) -> str:
        """The family of its tasks; figures of one family share a sweep's folder, and with it their common cells."""
        return split_id(self.envs[0])[0]

    @property
    def searches(self) -> bool:
        """Whether its runs are draws of a search, each with a seed of its own."""
        return any(method.draws for method in self.methods.values())

    @functools.cached_property
    def whole(self) -> Mapping[tuple[str, int | None, str, int], Cell]:
        """The cells of a whole reproduction, by their place."""
        return {cell.place: cell for cell in make_cells(self.methods, self.envs, self.seeds)}


def make_cells(
    methods: Mapping[str, Method], envs: Sequence[str], seeds: int, *, total_steps: int | None = None, **over: Any
) -> list[Cell]:
    """Every method in every task: the first seed of all, then the next, so that the first cells say the most.

    `total_steps` and the settings `over` are of every run, instead of its method's.

    Raises:
        SettingsError: invalid settings.
    """
    cells = []
    for seed, env, (key, method) in itertools.product(range(seeds), envs, methods.items()):
        if whole := method.steps(env):
            steps = total_steps or whole
            interval = max(1, min(_LONGEST_INTERVAL, steps // _LOG_ROWS))
            given = {"env": env, "seed": seed, "total_steps": steps, "log_interval": interval}
            for draw, settings in method.variants().items():
                cells.append(Cell.asked(key, make_settings({**given, **settings, **over}), draw))
    return cells


def cells_of(methods: Mapping[str, Method], cells: Iterable[Cell]) -> list[Cell]:
    """The cells that are of one of the methods, or of one of the draws of a search."""
    return [cell for cell in cells if cell.method in methods and cell.draw in methods[cell.method].variants()]


@functools.cache
def figures() -> Mapping[str, Figure]:
    """All figures and tables by name, in the order of the page and the verdicts."""
    modules = pkgutil.iter_modules(importlib.import_module("acer_tf.figures").__path__)
    found = [importlib.import_module(f"acer_tf.figures.{module.name}").FIGURE for module in modules]
    return {figure.name: figure for figure in sorted(found, key=lambda figure: (figure.order, figure.name))}
