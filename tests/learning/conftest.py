"""Keeps what `make learning` finds: the table of the claims, in the file that --claims names."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--claims", type=Path, help="file for the table of what each claim measured")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if (path := config.getoption("--claims", default=None)) is None:
        return
    from acer_tf.runs.provenance import provenance

    made = provenance()
    machine = f"{made['machine']['processor']}, {made['machine']['cores']} cores"
    lines = [f"Commit {made['commit']}, {machine}, ended {made['started']}.", ""]
    lines += ["| claim | outcome | minutes | said last |", "|---|---|---|---|"]
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            claim, said = report.nodeid.partition("::")[2], ["", *report.capstdout.splitlines()]
            lines.append(f"| {claim} | {outcome} | {report.duration / 60:.1f} | {said[-1]} |")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
