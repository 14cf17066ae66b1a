"""Compares the speed of training with the public implementations that install from PyPI, one beside the other.

python -m benchmarks.peers --repetitions=5 --seconds=20

Makes a virtual environment per peer (some GB each) below --environments, which the next call finds again. The programs
in benchmarks/peer_programs/ run in turn, round after round, so that what else the machine does meets all of them.
Writes peers.json and peers.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from acer_tf.commands import cli
from acer_tf.errors import EvidenceError
from acer_tf.files import write_json
from acer_tf.reproduction.evidence import require_folder
from acer_tf.runs.records import run_document
from benchmarks.outputs import require_no_loss

PROGRAMS = Path(__file__).with_name("peer_programs")
OURS = "acer_tf"

# What pip takes into each peer's environment; nothing for ours, which is this one. torch, NumPy and the emulator are
# pinned too, because they decide the speed.
REQUIREMENTS: dict[str, tuple[str, ...]] = {
    OURS: (),
    # gym 0.26 breaks PFRL's wrappers; packaging is missing from its own requirements.
    "pfrl": (
        "pfrl==0.4.0",
        "gym==0.25.2",
        "packaging==26.3",
        "torch==2.14.1",
        "numpy==2.4.6",
        "gymnasium==1.4.0",
        "ale-py==0.12.1",
        "opencv-python-headless==5.0.0.93",
    ),
    # DI-engine's setuptools is too old for newer versions of torch, and its NumPy for newer ones of OpenCV.
    "di-engine": (
        "DI-engine==0.5.3",
        "torch==2.12.1",
        "numpy==1.26.4",
        "gymnasium==1.4.0",
        "ale-py==0.12.1",
        "opencv-python-headless==4.11.0.86",
    ),
    # Without what it asks for, of which its ACER does not need MuJoCo 1 and MPI; TensorFlow is ours.
    "baselines": (
        "tensorflow==2.21.0",
        "numpy==2.4.6",
        "gym==0.25.2",
        "gymnasium==1.4.0",
        "ale-py==0.12.1",
        "opencv-python-headless==5.0.0.93",
        "joblib==1.5.2",
        "scipy==1.17.1",
        "--no-deps baselines==0.1.5",
    ),
    "sb3": (
        "stable-baselines3==2.9.2",
        "torch==2.14.1",
        "numpy==2.4.6",
        "gymnasium==1.4.0",
        "ale-py==0.12.1",
        "opencv-python-headless==5.0.0.93",
        "minatar==1.0.15",
    ),
}


class Row(NamedTuple):
    """One line of the table: a peer's program with flags."""

    peer: str
    what: str
    program: str
    flags: tuple[str, ...] = ()


# The first is what the others are compared with.
ROWS = (
    Row(OURS, "acer_tf ACER, float32", "acer_tf_train.py", ("--precision=float32",)),
    Row(OURS, "acer_tf ACER, default precision", "acer_tf_train.py"),
    Row("pfrl", "PFRL ACER, a process per core", "pfrl_acer.py"),
    Row("pfrl", "PFRL ACER, 1 process", "pfrl_acer.py", ("--processes=1",)),
    Row("di-engine", "DI-engine ACER", "di_engine_acer.py"),
    Row("baselines", "OpenAI baselines ACER", "baselines_acer.py"),
    Row(
        "sb3",
        "Stable-Baselines3 PPO, our batch and passes",
        "sb3.py",
        ("--n_envs=16", "--n_steps=20", "--n_epochs=5", "--batch_size=320"),
    ),
    Row("sb3", "Stable-Baselines3 PPO, RL Zoo's Atari settings", "sb3.py"),
    Row(
        "sb3",
        "Stable-Baselines3 DQN, RL Zoo's Atari settings",
        "sb3.py",
        ("--algorithm=DQN", "--n_envs=1", "--batch_size=32"),
    ),
    Row(OURS, "acer_tf DQN, float32", "acer_tf_train.py", ("--agent=dqn", "--preset=dqn", "--precision=float32")),
)

FLAGS = cli.new_flags()
flag = cli.definers(FLAGS)
flag.string("output", "runs/benchmark", "folder for peers.json and peers.md")
flag.string("environments", "runs/peers", "folder of the peers' virtual environments")
flag.integer("repetitions", 5, "runs of each program", lower_bound=1)
flag.float("seconds", 20.0, "seconds that each run measures for", lower_bound=1.0)
flag.multi_enum("only", [], [*REQUIREMENTS], "only this peer; may be repeated")


class PeerError(RuntimeError):
    """A peer does not install or run: the message is the last line of what it said."""


@cli.command
def main(argv: list[str]) -> int:
    cli.parse(FLAGS, argv, __doc__)
    output, rows = Path(FLAGS.output), [row for row in ROWS if not FLAGS.only or row.peer in FLAGS.only]
    for flag, folder in (("output", output), ("environments", Path(FLAGS.environments))):
        require_folder(folder, flag)
    peers = {row.peer for row in rows}
    require_no_loss(output / "peers.json", lambda known: [row["peer"] for row in known["rows"] if row["runs"]], peers)
    for peer in peers:
        require_replaceable(Path(FLAGS.environments) / peer)
    interpreters, errors = prepare([*dict.fromkeys(row.peer for row in rows)], Path(FLAGS.environments).absolute())
    measured = measure(rows, interpreters, errors, FLAGS.repetitions, FLAGS.seconds)
    settings = {"env": "atari/Pong", "repetitions": FLAGS.repetitions, "seconds": FLAGS.seconds}
    document = run_document(settings, {"requirements": REQUIREMENTS, "rows": measured})
    write_json(output / "peers.json", document)
    lines = [*table(measured), "", caption(document)]
    (output / "peers.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    print(f"peers.json and peers.md in {output}")
    # A comparison has two sides.
    for side in ([row for row in measured if (row["peer"] == OURS) == ours] for ours in (True, False)):
        if side and not any(row["runs"] for row in side):
            return cli.fail(1, f"nothing to compare: {side[0]['error']}")
    return 0


def require_replaceable(environment: Path) -> None:
    """Raises EvidenceError for a folder that is no virtual environment: it could not be replaced without loss."""
    if environment.exists() and not (environment / "pyvenv.cfg").exists():
        raise EvidenceError(
            f"--environments={environment.parent}: its {environment.name} is no virtual environment: move it"
        )


def prepare(peers: list[str], environments: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """The interpreter of each peer that installs, and the reason of each that does not."""
    interpreters, errors = {}, {}
    for peer in peers:
        try:
            interpreters[peer] = interpreter(REQUIREMENTS[peer], environments / peer)
        except PeerError as error:
            errors[peer] = f"does not install: {error}"
            print(f"{peer} {errors[peer]}")
    return interpreters, errors


def interpreter(requirements: tuple[str, ...], environment: Path) -> Path:
    """The Python of `environment`, which is made where it is not there, or was made for other requirements."""
    if not requirements:
        return Path(sys.executable)
    python, stamp = environment / "bin" / "python", environment / "requirements.txt"
    text = "\n".join(requirements) + "\n"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != text:
        print(f"installing {requirements[0]} and what it needs into {environment}: some GB", flush=True)
        shutil.rmtree(environment, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(environment)], environment.parent, 600.0)
        alone = [requirement for requirement in requirements if requirement.startswith("--no-deps ")]
        together = [requirement for requirement in requirements if requirement not in alone]
        for words in (together, *(requirement.split() for requirement in alone)):
            command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words]
            run(command, environment, 3600.0)
        stamp.write_text(text, encoding="utf-8")
    return python


def measure(
    rows: list[Row], interpreters: dict[str, Path], errors: dict[str, str], repetitions: int, seconds: float
) -> list[dict[str, Any]]:
    """Runs the programs in turn, `repetitions` times; one that has failed is not run again."""
    measured: list[dict[str, Any]] = [
        {"peer": row.peer, "what": row.what, "error": errors.get(row.peer), "runs": []} for row in rows
    ]
    for repetition in range(repetitions):
        for row, result in zip(rows, measured, strict=True):
            if result["error"]:
                continue
            command = [str(interpreters[row.peer]), str(PROGRAMS / row.program), *row.flags]
            command += [f"--seed={repetition}"]
            try:
                values = speed(command, seconds, CUDA_VISIBLE_DEVICES="")
            except PeerError as error:
                result["error"] = f"does not run: {error}"
                print(f"{repetition + 1}/{repetitions}  {row.what} {result['error']}", flush=True)
            else:
                result["runs"].append(values)
                print(
                    f"{repetition + 1}/{repetitions}  {row.what}: {values['steps_per_second']:,.1f} steps/s", flush=True
                )
    return measured


def speed(command: list[str], seconds: float, **environment: str) -> dict[str, Any]:
    """What a program measures over `seconds`: steps_per_second and more.

    Raises:
        PeerError: it does not run, or prints no result.
    """
    # A folder of its own, because some peers write where they are.
    with tempfile.TemporaryDirectory() as folder:
        return answer(run([*command, f"--seconds={seconds}"], Path(folder), 600.0 + 20.0 * seconds, **environment))


def run(command: list[str], folder: Path, timeout: float, **environment: str) -> str:
    """What `command` prints, with `environment` added to the environment variables of this process.

    Raises:
        PeerError: it cannot be started, fails, or takes longer than `timeout` seconds.
    """
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise PeerError(str(error)) from error
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise PeerError(f"not done after {timeout:,.0f} s") from None
    finally:
        # Peers leave processes of their own behind when they end early.
        if process.returncode != 0:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        said = [line.strip() for line in (err.strip() or out.strip()).splitlines() if line.strip()]
        raise PeerError(said[-1] if said else f"exit status {process.returncode}")
    return out


def answer(out: str) -> dict[str, Any]:
    """The JSON object in the last line of what a program printed."""
    try:
        values = json.loads(out.strip().splitlines()[-1])
        return {**values, "steps_per_second": float(values["steps_per_second"])}
    except (IndexError, KeyError, TypeError, ValueError):
        raise PeerError("printed no result") from None


def table(measured: list[dict[str, Any]]) -> list[str]:
    """A row per program, the ratio to the first row of ours that ran; a failure's reason in place of its speed."""
    medians = [
        statistics.median(r["steps_per_second"] for r in row["runs"]) if row["runs"] else None for row in measured
    ]
    ours = next((m for row, m in zip(measured, medians, strict=True) if row["peer"] == OURS and m), None)
    lines = ["| what | versions | settings | steps/s, median | min – max | ratio to ours |", "|" + " --- |" * 6]
    for row, median in zip(measured, medians, strict=True):
        cells = [row["what"], "", "", "–", "", ""]
        if median is not None:
            speeds = [run["steps_per_second"] for run in row["runs"]]
            cells[1] = ", ".join(f"{name} {version}" for name, version in row["runs"][-1]["versions"].items())
            cells[2] = row["runs"][-1]["settings"]
            cells[3:5] = f"{median:,.1f}", f"{min(speeds):,.1f} – {max(speeds):,.1f}"
            cells[5] = f"{median / ours:.2f}" if ours else ""
        if row["error"]:
            cells[2] = "; ".join(filter(None, [cells[2], row["error"].replace("|", "\\|")]))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def caption(document: dict[str, Any]) -> str:
    settings, machine = document["settings"], document["machine"]
    return (
        "Agent decisions (4 frames each) per second of the whole training loop on Atari Pong, Nature network, float32 "
        f"unless said otherwise, no GPU; {settings['repetitions']} interleaved runs of {settings['seconds']:g} s after "
        f"warm-up; {machine['processor']}, {machine['cores']} cores. Ratio: to the first row of acer_tf; above 1 is "
        "faster than that. PPO is another algorithm: it keeps no replay."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv))
