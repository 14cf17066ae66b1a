"""Says which claims of the papers the records of a results folder show: verdicts.csv and .md, and index.html.

python -m acer_tf verdicts --results=results

If the folder has a README.md with a line <!-- verdicts -->, the table replaces what stands between it and <!-- end -->.
"""

from pathlib import Path

from acer_tf.commands import cli
from acer_tf.errors import EvidenceError
from acer_tf.files import write_whole
from acer_tf.reproduction.evidence import require_folder
from acer_tf.reproduction.figure import RESULTS
from acer_tf.reproduction.report.output import Table, markdown, write_table
from acer_tf.reproduction.report.page import require_page, write_page
from acer_tf.reproduction.verdicts import folders, verdicts

FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.path("results", RESULTS, "folder of the experiments' folders")

BEGIN, END = "<!-- verdicts -->\n", "<!-- end -->"


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
    write_table(table, results, "verdicts")
    readme = results / "README.md"
    if readme.exists() and BEGIN in (text := readme.read_text(encoding="utf-8")):
        write_whole(readme, with_verdicts(text, table))
    write_page(results)
    print(f"{markdown(table)}\n\n{table.caption}")
    return 0


def with_verdicts(text: str, table: Table) -> str:
    """A README with the table between the two marks, its records as links."""
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:  # a README that has had no table yet
        after = f"\n{rest}"
    linked = [[*row[:-1], f"[{row[-1]}]({row[-1]})" if row[-1] else ""] for row in table.rows]
    return f"{before}{BEGIN}{markdown(Table(table.caption, table.head, linked))}\n{END}{after}"
