"""A folder of results that holds everything that a page must show: whole and broken, harmless and hostile."""

import imageio.v3 as imageio
import numpy as np
from matplotlib import pyplot as plt

from acer_tf.reproduction.cells import Cell
from acer_tf.reproduction.evidence import Evidence, write_evidence

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HOSTILE = '<script>alert("x")</script> & <b>'


def cell(name, state="finished", steps=200, **given):
    settings = {"env": "atari/Pong", "seed": 0, "total_steps": 200}
    values = {"seconds": 3600.0, "mean_return": -1.25, "commit": COMMIT} | given
    return Cell(name, "ACER, replay 4", settings, None, state, steps, **values)


def fill(folder, evidence, *, without=()):
    """An experiment's folder, with every file that its evidence names but `without`."""
    write_evidence(folder, evidence)
    for one in evidence.cells:
        if one.state != "not begun":
            (folder / "runs" / one.name).mkdir(parents=True)
            for record in ("run.json", "progress.csv"):
                (folder / "runs" / one.name / record).write_text("{}\n")
    for name in set(evidence.figures) - set(without):
        figure, axes = plt.subplots(figsize=(7.5, 4.5))
        axes.plot([1, 3, 2])
        for suffix in ("png", "svg"):
            figure.savefig(folder / f"{name}.{suffix}", dpi=150)
        plt.close(figure)
    for name in set(evidence.tables) - set(without):
        head = ["method", *(f"environment number {n}" for n in range(12))]
        rows = [[HOSTILE.replace('"', '""'), *["1,234.5 ± 6.7"] * 11, "much"], ["ACER", *["-3.00 [-4, 2]"] * 11, ""]]
        lines = [",".join(f'"{text}"' for text in row) for row in (head, *rows)]
        path = folder / f"{name}.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text("| a |\n", encoding="utf-8")


CELLS = (
    cell("good"),
    cell("waiting", "not begun", 0, seconds=0.0, mean_return=None, commit=None),
    cell("stopped", "interrupted", 199, mean_return=float("nan"), reason="Ctrl-C", commit=COMMIT + "+changes"),
    cell("broken", "failed", 50, reason=f"given up {HOSTILE}"),
    cell("exported", policy="policies/exported"),
)
MIXED = Evidence(
    "mixed",
    f"Title {HOSTILE}",
    (f"Text {HOSTILE}", "Another paragraph."),
    f"python -m mixed --flag={HOSTILE} " + "--long=" + "x" * 200,
    CELLS,
    tables={"table": f"Caption {HOSTILE}"},
    figures={"figure": f"Curves {HOSTILE}", "gone": "Lost"},
)
_TWO = (cell("a"), cell("b"))
WHOLE = Evidence("whole", "Whole", (), "python -m whole", _TWO, tables={"scores": ""}, figures={"plot": ""})


def build(results):
    # A folder's name may hold anything.
    fill(results / "deep" / "a #1 & 50%", MIXED, without=("gone",))
    fill(results / "whole", WHOLE)
    (results / "deep" / "a #1 & 50%" / "policies" / "exported").mkdir(parents=True)
    (results / "torn").mkdir()
    (results / "torn" / "experiment.json").write_text("{")
    (results / "no_experiment").mkdir()
    (results / "no_experiment" / "figure.png").write_text("")
    (results / "whole" / "videos").mkdir()
    (results / "whole" / "videos" / "play.mp4").write_bytes(b"")
    (results / "whole" / "other.webm").write_bytes(b"")
    frames = [np.full((20, 30, 3), shade, np.uint8) for shade in (0, 200)]
    imageio.imwrite(results / "whole" / "videos" / "play.gif", frames)
    return results
