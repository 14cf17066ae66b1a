"""Properties of every shipped data file."""

import csv
from collections import Counter
from importlib import resources

import pytest

from acer_tf.envs.families import ATARI_GAMES, MINATAR_GAMES

DATA = resources.files("acer_tf.reproduction") / "data"
# Of each file: its number of rows, and the columns that together identify a row.
FILES = {
    "acer_paper_figure1_frames.csv": (1233, "agent replay_ratio trust_region frames"),
    "acer_paper_figure1_hours.csv": (1265, "agent replay_ratio trust_region hours"),
    "acer_paper_figure3.csv": (2655, "task method steps"),
    "acer_paper_figure4.csv": (5 * (79 + 124 + 79), "task method steps"),
    "acer_paper_figures5_6.csv": (28 + 28 + 28 + 30 + 29 + 22, "task learning_rate delta"),
    "atari57_final_scores.csv": (7 * 57 + 3 * 54, "agent protocol game"),
    "atari57_random_human.csv": (57, "game"),
    "atari57_random_human_human_starts.csv": (57, "game"),
    "dqn_zoo_median_curves.csv": (7 * 100, "agent frames"),
    "minatar_references.csv": (5, "game"),
    "openai_baselines_acer_curves.csv": (2 * 7 * 100, "version game steps"),
    "openai_baselines_mujoco_curves.csv": (1400, "version env algorithm steps"),
    "pong_dqn_curves.csv": (124, "version agent steps"),
    "ppo_paper_table6.csv": (3 * 49, "agent protocol game"),
    "prioritized_paper_table6.csv": (49 + 4 * 57, "agent game"),
    "prioritized_paper_table7.csv": (2 * 49 + 4 * 57, "agent protocol game"),
    "sb3_gymnasium.csv": (56, "env algorithm seed"),
    "sb3_gymnasium_curves.csv": (2807, "env algorithm seed steps"),
    "spinningup_mujoco_curves.csv": (2500, "env algorithm steps"),
    "td3_authors_mujoco_curves.csv": (1400, "env algorithm steps"),
}
# The same names in every file: agent steps are `steps`, emulator frames are `frames`.
NUMBERS = {"steps", "frames", "hours", "score", "percent", "random", "human", "mean", "std", "median", "low", "high"}
NUMBERS |= {"return", "learning_rate", "delta", "replay_ratio", "reference", "seed", "training", "evaluation"}
WORDS = {"agent", "game", "protocol", "task", "method", "env", "algorithm", "version", "trust_region"}


def read(name):
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    header = [line for line in lines if line.startswith("#")]
    return header, list(csv.DictReader(lines[len(header) :]))


def test_every_file_is_listed_here():
    assert {file.name for file in DATA.iterdir()} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_what_it_is_and_where_it_is_from(name):
    header, _ = read(name)
    assert all(line.startswith("# ") for line in header)
    text = " ".join(line.removeprefix("# ") for line in header)
    assert "Source" in text
    assert "@" in text or "arXiv" in text  # a commit or a paper


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_its_rows_each_once(name):
    _, rows = read(name)
    count, key = FILES[name]
    assert len(rows) == count
    repeated = [k for k, n in Counter(tuple(row[c] for c in key.split()) for row in rows).items() if n > 1]
    assert not repeated


@pytest.mark.parametrize("name", FILES)
def test_columns_are_of_one_vocabulary_and_whole(name):
    _, rows = read(name)
    assert set(rows[0]) <= NUMBERS | WORDS
    # Both in one file would invite confusion.
    assert not {"steps", "frames"} <= set(rows[0])
    may_be_blank = {"frames", "replay_ratio", "trust_region"}
    for row in rows:
        assert None not in row and None not in row.values()  # as many cells as columns
        for column, cell in row.items():
            if column in NUMBERS and cell:
                float(cell)
            assert cell or column in may_be_blank


@pytest.mark.parametrize("name", [name for name, (_, key) in FILES.items() if "game" in key])
def test_games_are_spelled_as_the_emulator_spells_them(name):
    _, rows = read(name)
    assert {row["game"] for row in rows} <= set(MINATAR_GAMES if name.startswith("minatar") else ATARI_GAMES)


@pytest.mark.parametrize("name", [name for name, (_, key) in FILES.items() if "protocol" in key])
def test_there_are_three_protocols(name):
    _, rows = read(name)
    assert {row["protocol"] for row in rows} <= {"no-op starts", "human starts", "training"}


def test_frames_are_those_of_the_emulator():
    # 4 frames per agent step: a column of steps would show 10 and 50 million.
    _, ppo = read("ppo_paper_table6.csv")
    assert {row["frames"] for row in ppo} == {"40000000"}
    _, final = read("atari57_final_scores.csv")
    assert {row["frames"] for row in final} == {"200000000", "320000000", ""}
    assert {row["agent"] for row in final if not row["frames"]} == {"A3C FF (1 day)", "A3C FF", "A3C LSTM"}
