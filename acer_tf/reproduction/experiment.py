"""An experiment: what it runs, and what is shown of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from acer_tf.reproduction.methods import Method
from acer_tf.reproduction.outcome import Outcome
from acer_tf.reproduction.report.output import Report


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper.

    Attributes:
        name: of its script and its results.
        title: for people.
        sweep: name of the sweep that its cells belong to: experiments of one sweep share the cells that they share.
        text: paragraphs: what it reproduces, by what protocol, how it differs.
        envs: ids of its tasks.
        methods: by the name that --agents takes.
        seeds: of a whole reproduction.
        report: makes tables and figures of what there is.
    """

    name: str
    title: str
    sweep: str
    text: tuple[str, ...]
    envs: tuple[str, ...]
    methods: Mapping[str, Method]
    seeds: int
    report: Callable[[Outcome], Report]
