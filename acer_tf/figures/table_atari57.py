"""The cells of Figure 1 by game: final scores beside those published of DQN, prioritized replay, A3C and Rainbow.

python -m acer_tf table_atari57 --games=atari5 --agents=replay4_trust --total_steps=10_000_000
python -m acer_tf table_atari57 --report_only
"""

from acer_tf.figures.figure1_atari57 import FIGURE as FIGURE1
from acer_tf.reproduction import atari
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.figure import Figure
from acer_tf.reproduction.report.output import Drawing, Report, Table, dots
from acer_tf.reproduction.scores import Protocol, published_scores

_PRIORITIZED = ("Prioritized Double DQN (rank)", "Prioritized Double DQN (proportional)")
_COLUMNS: dict[Protocol, tuple[str, ...]] = {
    "no-op starts": ("DQN", "Double DQN", *_PRIORITIZED, "A3C", "Rainbow"),
    "human starts": ("A3C FF", "A3C LSTM", *_PRIORITIZED),
}


def report(recorded: RecordedRuns) -> Report:
    """Final scores by game beside the published columns."""
    games = atari.games_in(recorded)
    published = [published_scores(agent, protocol) for protocol, agents in _COLUMNS.items() for agent in agents]
    theirs = [p.human_normalized([game for game in games if game in p.scores]) for p in published]
    columns = {method.label: atari.final_scores(recorded, key) for key, method in recorded.methods.items()}
    normalized = {label: atari.normalized(scores) for label, scores in columns.items()}
    blank = [""] * len(published)
    raw = atari.rows_by_game(recorded, columns.values(), [p.scores for p in published])
    raw.append(["frames (M), least", *(atari.frames_done(recorded, key) for key in recorded.methods), *blank])
    raw.append(["cells finished", *(recorded.finished(key) for key in recorded.methods), *blank])
    human = atari.rows_by_game(recorded, normalized.values(), theirs)
    medians = map(atari.median_of, (*map(atari.means, normalized.values()), *theirs))
    human.append(["median over games", *medians])
    head = ["game", *columns, *(f"{p.agent} ({p.protocol}, published)" for p in published)]
    raw_caption = (
        f"Raw scores per game. Ours: {atari.TRAINING}, mean ± standard error. Published: by the protocol that the "
        "column names."
    )
    human_caption = (
        "The same as fractions of human, each by the references of its own protocol; the last row is the median over "
        "the games in the column."
    )
    tables = {"table": Table(raw_caption, head, raw), "normalized": Table(human_caption, head, human)}
    ours = {label: atari.means(scores) for label, scores in normalized.items() if scores}
    pairs = zip(published, theirs, strict=True)
    no_op = {f"{p.agent} ({p.protocol})": scores for p, scores in pairs if p.protocol == "no-op starts"}
    caption = "Human-normalised scores: 0 plays like random, 1 like the human tester. Filled: ours; hollow: published."
    return Report(tables, {"figure": Drawing(caption, dots(games, ours, no_op))})


FIGURE = Figure(
    __name__,
    order=70,
    source="ACER, Figure 1, by game",
    title="Atari 57, by game",
    text=(
        "Final scores of the same runs as Figure 1's, by game, beside published ones. No ACER scores by game were "
        "published for 57 games. Ours are training scores of the last 1M frames; the published ones are "
        "evaluations, each by the protocol that its column names, most of them after 200M frames and of the best "
        "agent seen in training.",
        atari.DEVIATIONS,
    ),
    envs=FIGURE1.envs,
    methods=FIGURE1.methods,
    report=report,
)
