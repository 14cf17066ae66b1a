"""Published final scores per Atari game, with their protocols; the data files' first lines give the sources."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, cast

from acer_tf.reproduction.data_files import grouped, read_table, suggestion
from acer_tf.reproduction.scores import Protocol, human_normalized, require_protocol

_FILES = ("atari57_final_scores.csv", "prioritized_paper_table7.csv", "ppo_paper_table6.csv")


class PublishedScores(NamedTuple):
    """One agent's scores by one protocol."""

    agent: str
    protocol: Protocol
    frames: int | None  # emulator frames of training, 4 per agent step; None if the source does not say
    scores: Mapping[str, float]  # raw, by game ("MsPacman"); games that the source leaves out are absent

    def human_normalized(self, games: Iterable[str] | None = None) -> dict[str, float]:
        """The scores normalised by this protocol's references: of `games`, or of all published ones.

        Raises:
            ValueError: one of `games` has no published score.
        """
        wanted = self.scores if games is None else list(games)
        missing = [game for game in wanted if game not in self.scores]
        if missing:
            raise ValueError(
                f"{self.agent} ({self.protocol}) has no published score of {missing[0]!r}"
                f"{suggestion(missing[0], self.scores)}"
            )
        return {game: human_normalized(game, self.scores[game], protocol=self.protocol) for game in wanted}

    def median(self, games: Iterable[str] | None = None) -> float:
        """The median of `human_normalized(games)`; raises what that raises."""
        return statistics.median(self.human_normalized(games).values())

    def mean(self, games: Iterable[str] | None = None) -> float:
        """The mean of `human_normalized(games)`; raises what that raises."""
        return statistics.fmean(self.human_normalized(games).values())


def published_agents(protocol: Protocol) -> tuple[str, ...]:
    """The agents with published scores by `protocol`.

    >>> acer_tf.published_agents("no-op starts")[:2]
    ('DQN', 'Double DQN')

    Raises:
        ValueError: unknown protocol.
    """
    require_protocol(protocol)
    return tuple(agent for agent, of in _all_scores() if of == protocol)


def published_scores(agent: str, protocol: Protocol) -> PublishedScores:
    """The published scores of `agent` by `protocol`.

    >>> dqn = acer_tf.published_scores("DQN", "no-op starts")
    >>> dqn.scores["Pong"], round(dqn.median(), 2)  # raw; human-normalised by the same protocol
    (19.5, 0.79)

    Args:
        agent: one of `published_agents(protocol)`: "Double DQN", "Prioritized Double DQN (rank)", "ACER".
        protocol: without a default, because scores by different protocols must not be compared.

    Raises:
        ValueError: unknown agent or protocol, or the agent's scores were measured by another protocol.
    """
    require_protocol(protocol)
    everything = _all_scores()
    if (agent, protocol) in everything:
        return everything[agent, protocol]
    if others := [repr(of) for name, of in everything if name == agent]:
        raise ValueError(
            f"the published scores of {agent} are by the protocol {' and '.join(others)}, not {protocol!r}"
        )
    agents = published_agents(protocol)
    hint = suggestion(agent, agents) or f"; for {protocol!r} there are {', '.join(agents)}"
    raise ValueError(f"no scores of {agent!r} are shipped{hint}")


@functools.cache
def _all_scores() -> Mapping[tuple[str, Protocol], PublishedScores]:
    found = {}
    rows = [row for file in _FILES for row in read_table(file)]
    for (agent, of), own in grouped(rows, "agent", "protocol").items():
        protocol, frames = cast(Protocol, of), own[0]["frames"]
        scores = MappingProxyType({row["game"]: float(row["score"]) for row in own})
        found[agent, protocol] = PublishedScores(agent, protocol, int(frames) if frames else None, scores)
    return found
