"""Slurm with one node on this machine: munged, slurmctld and slurmd on loopback, without cgroups or accounts."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
CONFIGURATION = """
ClusterName=tiny
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
# cred_expire: also the time until a requeued task may start.
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/spool
SlurmdPidFile={folder}/slurmd.pid
SlurmdPort={node_port}
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
KillWait=5
NodeName=node0 NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs=2 RealMemory=8000 State=UNKNOWN
PartitionName=main Nodes=node0 Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """Why there can be no cluster; empty if there can."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    if lacking := [program for program in PROGRAMS if shutil.which(program, path=path) is None]:
        return f"{lacking[0]} is not installed: Debian's packages slurm-wlm and munge have it"
    return "" if os.geteuid() == 0 else "slurmd needs root"


@contextlib.contextmanager
def cluster(folder):
    """The cluster; its commands find it by SLURM_CONF, which is set meanwhile."""
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(parents=True)
    key = folder / "munge" / "key-file"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(128))
    ports = {"controller_port": _free_port(), "node_port": _free_port()}
    configuration = folder / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, host=socket.gethostname().split(".")[0], **ports))
    before = {name: os.environ.get(name) for name in ("SLURM_CONF", "PATH")}
    os.environ |= {"SLURM_CONF": str(configuration), "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
    munge = [
        f"--{name}={folder / 'munge' / name}" for name in ("key-file", "socket", "pid-file", "log-file", "seed-file")
    ]
    with contextlib.ExitStack() as started:
        started.callback(_restore, before)
        for command in (
            ["munged", "--foreground", "--force", *munge],
            ["slurmctld", "-D"],
            ["slurmd", "-D", "-N", "node0"],
        ):
            started.callback(_end, _start(command, folder))
            _wait((folder / "munge" / "socket").exists, folder)
        _wait(lambda: "idle" in _said("sinfo", "--noheader", "--format=%t"), folder)
        started.callback(_wait, lambda: not _said("squeue", "--noheader"), folder)
        started.callback(subprocess.run, ["scancel", "--me"])
        yield


def _start(command, folder):
    # The kernel ends it with the tests, should they be killed.
    with (folder / f"{command[0]}.err.log").open("wb") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig=TERM", *command], stdout=log, stderr=log, start_new_session=True
        )


def _end(process):
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(condition, folder):
    deadline = time.monotonic() + 60
    while not condition():
        logs = "\n".join(log.read_text(errors="replace")[-1000:] for log in folder.glob("*.log"))
        assert time.monotonic() < deadline, logs
        time.sleep(0.2)


def _said(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


def _restore(before):
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
