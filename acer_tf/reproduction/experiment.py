"""An experiment: what it runs, and how its results are reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from absl.flags import FlagValues

from acer_tf.reproduction.methods import Method
from acer_tf.reproduction.outcome import Outcome
from acer_tf.reproduction.report.output import Report
from acer_tf.reproduction.sweep import Cell

RESULTS = "my_results"  # default folder of results; results/ of the repository is the shipped evidence


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper.

    Attributes:
        name: of its command and its results.
        title: of its section on the page of results.
        summary: what it makes; --help begins with it.
        examples: flags of its command, as --help shows them.
        sweep: experiments with the same sweep share their common cells.
        text: paragraphs: what it reproduces, by what protocol, how it differs.
        envs: ids of its tasks.
        methods: by the name that --agents takes.
        seeds: of a whole reproduction.
        report: makes tables and figures of the results so far.
        flags: defines flags of this experiment alone.
        chosen: the experiment that the flags describe; raises SettingsError for what they cannot mean.
        keep: which of the cells that the flags describe are run.
    """

    name: str
    title: str
    summary: str
    examples: tuple[str, ...]
    sweep: str
    text: tuple[str, ...]
    envs: tuple[str, ...]
    methods: Mapping[str, Method]
    seeds: int
    report: Callable[[Outcome], Report]
    flags: Callable[[FlagValues], None] = lambda values: None
    chosen: Callable[[Experiment, FlagValues], Experiment] = lambda experiment, values: experiment
    keep: Callable[[list[Cell]], list[Cell]] = list

    def usage(self) -> str:
        """The summary, and the examples as commands."""
        return "\n".join([self.summary, "", *(f"python -m acer_tf {self.name} {flags}" for flags in self.examples)])
