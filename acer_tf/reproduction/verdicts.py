"""The verdicts: what the papers claim, whether the records of a results folder show it, and how much was run.

One rule decides all claims: `decide`.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from acer_tf.errors import EvidenceError
from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.curves import RecordedRuns
from acer_tf.reproduction.evidence import read_evidence
from acer_tf.reproduction.figure import KINDS, Figure, Finding, Judged, cells_of, figures
from acer_tf.reproduction.report.output import Table, number, span
from acer_tf.reproduction.statistics import Comparison
from acer_tf.settings.presets import PRESETS
from acer_tf.settings.record import DEFAULTS, idle, jsonable

RULE = (
    "A comparison is the probability of improvement: that a run of one method beats one of the other at equal steps "
    "(no difference: 0.5), or what is named (no difference: 0). It is significant where its 95 % interval excludes "
    "that value and, between two methods, the exact permutation test of the runs has a p of at most 0.05 (two-sided, "
    "corrected neither for the number of comparisons nor for that of looks: where there is no effect, about 1 of 10 "
    "experiments shows one if it is looked at after each of 4 to 10 seeds). A mean gap to a published curve is over "
    "the range from a third of its rise on; the published band widens its interval, and the exact test of signs takes "
    "the place of the other. A rank correlation has that of shuffled draws, a difference of two gains the permutation "
    "test of both. A comparison of another kind has no such test.",
    "Supported: every comparison of the claim is significant, in its favour; of replay ratios, each that was run is "
    "compared with the one below it. Contradicted: one is significant, against it. Undecided: neither; “needs N "
    "seeds” is the number in all on these tasks with which it would just be supported (or contradicted, where it "
    "says so) if the estimates stayed as they are. The least favourable comparison is shown as the weakest, and of "
    "how many. Comparisons are means over tasks: a method may be ahead without being so in each.",
    "Intervals resample seeds (or draws) within each game or task, which are fixed (rliable's stratified bootstrap). "
    "Where a method has one run per task they resample the tasks. None is given where so few runs could not have a p "
    "of 0.05, however they are ordered. [1.00, 1.00]: every run of the one beats every run of the other. They are of "
    "2,000 resamples: with five runs an end can differ by 0.04 by chance.",
    "Share: how much was run of the experiment as it is laid out here (results/*/README.md, `--help` of the figure), "
    "with the number of tasks that are compared where it is smaller; NAME=VALUE differs from that. A claim that is "
    "decided is so on this share alone. The control tasks are rebuilt, as the paper's models are not public: there "
    "the order compares, and returns only where a reward is a count, as in reacher3. Hours: the machines', for all "
    "the runs that the share counts, some of which stand in two rows. Runs under way are left out where others of the "
    "method in the task are finished; all are compared where the shortest ends.",
)
_NOT_COMPARED = ("total_steps", "log_interval", "seed")
HEAD = ("source", "claim", "verdict", "weakest comparison", "ours", "published", "share", "hours", "kind", "records")


def decide(comparisons: Sequence[Comparison]) -> tuple[str, Comparison]:
    """The verdict on a claim that all comparisons are above even, and the weakest of them.

    "supported" if each is shown to be, "contradicted" if one is shown to lie below; else "undecided", and what would
    decide it.
    """

    def place(comparison: Comparison) -> tuple[bool, bool, bool, float]:
        value, low, _ = comparison.estimate  # those without a value come first, then those without an interval
        shown = comparison.side > 0
        return *comparison.known, shown, float(np.nan_to_num((low if comparison.known[1] else value) - comparison.even))

    below = [each for each in comparisons if each.side < 0]
    weakest = min(below or comparisons or [Comparison()], key=place)
    if below:
        return "contradicted", weakest
    if weakest.side > 0:
        return "supported", weakest
    left = [each for each in comparisons if each.side == 0]
    against = [each for each in left if each.estimate.value < each.even]
    if not all(weakest.known):
        needs = weakest.needs
    elif against:  # of one of them
        needs = f"{min(against, key=lambda each: each.needed).needs} to contradict it"
    else:  # of all
        needs = max(left, key=lambda each: each.needed).needs
    return f"undecided: needs {needs}", weakest


def folders() -> dict[str, list[str]]:
    """The sources of the claims, by the folder of their records."""
    found: dict[str, list[str]] = {}
    for figure in figures().values():
        for claim in figure.claims:
            for folder in filter(None, (claim.folder or figure.name, claim.beside)):
                sources = found.setdefault(folder, [])
                sources += [source for source in [claim.source or figure.source] if source not in sources]
    return found


def verdicts(results: Path) -> Table:
    """The table of all claims. Raises EvidenceError, CurveError or OSError for a bad record."""
    rows = []
    for figure, claim in ((each, claim) for each in figures().values() for claim in each.claims):
        folder = claim.folder or figure.name
        shown, records = [decide(())[0], "", "", "", "none of it", ""], ""
        judged = claim.read(figure, results / folder)
        finding = claim.judge(judged.content) if judged else Finding(())
        verdict, weakest = decide(finding.comparisons)
        # A figure may have runs, but none that this claim is about.
        if judged and (finding.ours or weakest.needs != Comparison().needs):
            sides = [comparison.side > 0 for comparison in finding.comparisons]
            some = f", {sum(sides)} shown" if any(sides) and not all(sides) else ""
            of = f" (of {len(sides)}{some})" if len(sides) > 1 and str(weakest) else ""
            share = "; ".join(filter(None, [judged.share, finding.compared]))
            shown = [verdict, f"{weakest}{of}", finding.ours, finding.theirs, share, number(judged.hours, 1)]
            records = judged.folder or folder
        rows.append([claim.source or figure.source, claim.text, *shown, figure.kind, records])
    return Table(" ".join([*answer(rows), *RULE]), HEAD, rows)


def answer(rows: Sequence[Sequence[str]]) -> list[str]:
    """How many claims are supported, contradicted and undecided; then of each kind which are decided, and on what."""
    parts = []
    for kind in KINDS:
        found = [row for row in rows if row[HEAD.index("kind")] == kind]
        decided: dict[tuple[str, str], list[str]] = {}  # the sources of a claim that several experiments decide alike
        for row in found:
            source, claim, verdict = row[:3]
            if not verdict.startswith("undecided"):
                share = row[HEAD.index("share")]
                first, *others = share.partition(";")[0].split(", ")
                steps = [part for part in others if part.endswith(" % of steps") and not part.startswith("100 ")]
                of = share.partition("compared: ")[2] or ", ".join([first, *steps])
                decided.setdefault((claim, verdict), []).append(source + (f", on {of}" if of else ""))
        named = "; ".join(f"{claim} ({verdict}: {'; '.join(of)})" for (claim, verdict), of in decided.items())
        count = sum(map(len, decided.values()))
        parts.append(f"Of {kind}, {count} of {len(found)} claims are decided{': ' * bool(named)}{named}.")
    counts = Counter(row[2].partition(":")[0] for row in rows)
    different = len({row[1] for row in rows if row[2] == "supported"})
    empty = sum(row[2].startswith("undecided") and not row[HEAD.index("weakest comparison")] for row in rows)
    words = (
        f"{counts['supported']} supported ({different} different claims), {counts['contradicted']} contradicted, "
        f"{counts['undecided']} undecided ({empty} with nothing to compare yet)"
    )
    return [f"{len(rows)} claims on single experiments, which we chose: {words}.", *parts]


def own_design(figure: Figure, folder: Path, design: Figure | None = None) -> Judged | None:
    """The runs that a figure's evidence has of its own design, or of another such as its search; None if there is none.

    Where some runs of a method in a task are finished, those under way are left out, since all are compared where the
    shortest ends. Those that failed are not: a method is not to be judged by the seeds in which it did not.
    """
    if (evidence := read_evidence(folder)) is None:
        return None
    if evidence.name != figure.name:
        raise EvidenceError(f"{folder} holds the evidence of {evidence.name}, not of {figure.name}: move it away")
    design = design or figure
    begun = [cell for cell in cells_of(design.methods, evidence.cells) if cell.steps]
    done = {(cell.method, cell.env) for cell in begun if cell.state == "finished"}
    kept = [cell for cell in begun if cell.state != "interrupted" or (cell.method, cell.env) not in done]
    if not kept:
        return None
    recorded, out = RecordedRuns(design.methods, kept, folder), len(begun) - len(kept)
    share = coverage(design, kept) + (f"; without {out} under way" if out else "")
    return Judged(recorded, share, recorded.hours)


def coverage(figure: Figure, cells: Collection[Cell]) -> str:
    """How much of a whole figure its cells are; empty if some are of methods or draws that it does not have."""
    whole = {cell.place[:3]: cell for cell in figure.whole.values()}
    if not {(cell.method, cell.draw) for cell in cells} <= {(method, draw) for method, draw, _ in whole}:
        return ""
    begun = [cell for cell in cells if cell.steps and cell.place[:3] in whole]
    if not begun:
        return f"none of {len(figure.whole)} runs"
    counts = Counter((cell.method, cell.env) for cell in begun)
    of = Counter((cell.method, cell.env) for cell in figure.whole.values())
    done = [100 * min(1.0, cell.steps / whole[cell.place[:3]].total_steps) for cell in begun]
    shown = [float(f"{share:.2g}") if share < 99 else math.floor(10 * share) / 10 for share in done]  # 100 is all
    kinds = {"atari": "games", "minatar": "games of MinAtar (none of the paper's)", "control": "rebuilt tasks"}
    kind = kinds.get(figure.family, "tasks")
    unit = "seeds" if all(cell.draw is None for cell in begun) else "draws"
    planned = max(of.values())
    runs = f"{span(counts.values())}/{planned} {unit}"
    if planned == 1 or max(counts.values()) > planned:
        runs = f"{span(counts.values())} {unit if max(counts.values()) > 1 else unit[:-1]} ({planned} planned)"
    parts = (
        f"{len({cell.env for cell in begun})}/{len({env for *_, env in whole})} {kind}",
        f"{len({cell.method for cell in begun})}/{len({method for method, *_ in whole})} methods",
        runs,
        f"{span(shown, 'g')} % of steps",
    )
    return "; ".join([", ".join(parts), *altered(begun, whole)])


def altered(cells: Collection[Cell], whole: Mapping[tuple[str, int | None, str], Cell]) -> tuple[str, ...]:
    """The settings of cells that are not those of the cell in the same place of `whole`, length and seed aside.

    What draws by priority read alone is left out where there are none. The precision, which machines choose, is named
    where it differs between the cells of a task.
    """
    found: Counter[str] = Counter()
    decided: dict[str, Counter[str]] = {}  # precisions, by task
    for cell in cells:
        if cell.place[:3] in whole and whole[cell.place[:3]].settings.get("precision", "auto") == "auto":
            decided.setdefault(cell.env, Counter())[str(cell.settings.get("precision", "auto"))] += 1
        known = whole[cell.place[:3]].settings if cell.place[:3] in whole else {}
        here = {**DEFAULTS, **cell.settings}
        same = {*_NOT_COMPARED, *idle(here)}
        names = [n for n, value in known.items() if n not in same and value not in ("auto", here.get(n))]
        differing = {name: here.get(name) for name in names}
        if isinstance(differing.get("preset"), str):  # its name says what it changes
            given = DEFAULTS | jsonable(PRESETS.get(here["preset"], {})) | {"preset": None}
            differing = {name: value for name, value in differing.items() if given.get(name) != value}
        found.update(f"{name}={value}" for name, value in differing.items())
    groups: dict[str, list[str]] = {}
    for setting, count in sorted(found.items()):
        groups.setdefault("" if count == len(cells) else f"{count} of them ", []).append(setting)
    lines = [f"{runs}with {', '.join(group)}" for runs, group in groups.items()]
    mixed = sum((counts for counts in decided.values() if len(counts) > 1), Counter[str]())
    named = ", ".join(f"{count} {precision}" for precision, count in sorted(mixed.items()))
    return (*lines, *([f"of two precisions in one task: {named}"] if mixed else []))
