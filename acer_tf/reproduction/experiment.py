"""An experiment: what it runs, and how its results are reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from absl.flags import FlagValues

from acer_tf.envs.families import split_id
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.methods import Method
from acer_tf.reproduction.outcome import Outcome
from acer_tf.reproduction.published import PublishedCurve, published_curves
from acer_tf.reproduction.report.output import Report

RESULTS = "my_results"  # default folder of results; results/ of the repository is the shipped evidence


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper."""

    name: str  # of its command and its results
    title: str  # of its section on the page of results
    summary: str  # what it makes; --help begins with it
    examples: tuple[str, ...]  # flags of its command, as --help shows them
    text: tuple[str, ...]  # paragraphs: what it reproduces, by what protocol, how it differs
    envs: tuple[str, ...]  # ids of its tasks
    methods: Mapping[str, Method]  # by the name that --agents takes
    seeds: int  # of a whole reproduction
    report: Callable[[Outcome], Report]  # of the results so far
    published: Callable[[str], Sequence[PublishedCurve]] = published_curves  # of one of its tasks
    flags: Callable[[FlagValues], None] = lambda values: None  # defines flags of this experiment alone
    # The experiment that the flags describe; raises SettingsError for what they cannot mean.
    chosen: Callable[[Experiment, FlagValues], Experiment] = lambda experiment, values: experiment
    keep: Callable[[list[Cell]], list[Cell]] = list  # which of the cells that the flags describe are run

    @property
    def family(self) -> str:
        """The family of its tasks; experiments of one family share a sweep's folder, and with it their common cells."""
        return split_id(self.envs[0])[0]

    def usage(self) -> str:
        """The summary, and the examples as commands."""
        return "\n".join([self.summary, "", *(f"python -m acer_tf {self.name} {flags}" for flags in self.examples)])
