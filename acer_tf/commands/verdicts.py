"""Says which claims of the papers the records of a results folder show: verdicts.csv and .md, and index.html.

python -m acer_tf verdicts --results=results

verdicts.md is the page "Is the paper reproduced?"; index.html begins with its rule and its rows.
"""

from collections.abc import Sequence
from pathlib import Path

from acer_tf.commands import cli
from acer_tf.errors import EvidenceError
from acer_tf.files import write_whole
from acer_tf.reproduction.evidence import require_folder
from acer_tf.reproduction.figure import RESULTS
from acer_tf.reproduction.report.output import Table, markdown, write_csv
from acer_tf.reproduction.report.page import require_page, write_page
from acer_tf.reproduction.verdicts import KINDS, RULE, answer, folders, verdicts

WORDS = (
    "TIS: truncated importance sampling. SDN: stochastic dueling network. Trust-: with the trust region, whose "
    "radius is δ. Q_opc: the off-policy corrected return. Ratio: replayed updates per on-policy one. Its protocol: "
    "30 draws of learning rate and δ, of which all are compared, and the means of the best 5 shown; where a row "
    "does not say so, all methods and ablations have one learning rate and one δ. The torso on control tasks was "
    "chosen after thirty draws with one for policy and critic had the paper's order reversed; that the trust region "
    "helps held with both. A fifth seed was run on walker2d because four left TIS at p = 0.057. On MinAtar at "
    "300,000 steps the runs at replay ratio 8 with and without trust region stand in two rows; that it helps there "
    "is one of several comparisons, looked at more than once, so of Figure 4's claim only the half on Retrace is sure."
)

FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.path("results", RESULTS, "folder of the experiments' folders")


@cli.command
def main(argv: list[str]) -> int:
    lines = "\n".join(f"  {folder:26} {'; '.join(sources)}" for folder, sources in folders().items())
    cli.parse(FLAGS, argv, f"{__doc__}\nThe folders that it reads, and what of:\n\n{lines}\n")
    results = Path(FLAGS.results)
    if not results.is_dir():
        raise EvidenceError(f"--results={results} is not a folder: give one that holds folders of experiments")
    require_page(results)
    require_folder(results, "results")
    table = verdicts(results)
    write_csv(table, results / "verdicts.csv")
    write_whole(results / "verdicts.md", page(table))
    write_page(results)
    print(page(table))
    return 0


def page(table: Table) -> str:
    """The verdicts as a page, whose sources link to their records; what cannot be compared yet is below each table."""
    counts, *decided = answer(table.rows)
    parts = ["# Is the paper reproduced?", counts, "\n".join(f"- {line}" for line in decided), WORDS]
    compared = table.head.index("weakest comparison")
    for kind in KINDS:
        rows = [[_linked(row), *row[1:]] for row in table.rows if row[-2] == kind]
        shown = [row[:-2] for row in rows if row[compared]]
        parts += [f"## {kind[0].upper()}{kind[1:]}", markdown(Table("", table.head[:-2], shown))]
        if others := [
            f"{row[0]}, {row[1]} ({row[2].removeprefix('undecided: ')})" for row in rows if not row[compared]
        ]:
            parts.append(f"Undecided, with nothing to compare yet: {'; '.join(others)}.")
    parts += ["## How it is decided", "\n".join(f"- {rule}" for rule in RULE)]
    parts.append("Derived from the records by `python -m acer_tf verdicts`.")
    return "\n\n".join(parts) + "\n"


def _linked(row: Sequence[str]) -> str:
    return f"[{row[0]}]({row[-1]})" if row[-1] else row[0]
