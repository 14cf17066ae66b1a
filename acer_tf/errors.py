"""The errors that users of the package meet. Each carries the exit status of a command that it ends."""

import errno
import signal


class AcerError(Exception):
    """The base of the package's errors: something failed while running.

    The message names the flag, file or quantity, and says what would be right. Commands print it as one line.
    """

    status = 1  # the exit status of a command


class BadInput(AcerError):
    """The base of errors in what was asked for: nothing was started or written."""

    status = 2


# fmt: off
class SettingsError(BadInput, ValueError):
    """An invalid setting or argument: the message names it, its value, and what would be right."""
class InvalidEnvironment(BadInput, ValueError):
    """The environment does not exist, is not installed, or does not suit the agent."""
class RunFolderError(BadInput, RuntimeError):
    """The run folder cannot be used: the message says why and what to do."""
class FolderInUse(RunFolderError):
    """Another process uses the folder; the message names it."""
class PolicyError(BadInput, ValueError):
    """A directory holds no usable policy; the message says why."""
class NonFinitePolicy(PolicyError):
    """What a policy answers is not finite; the message says which part of it."""
    status = 1  # its environments are being played then
class PolicyFolderError(BadInput, OSError):
    """No policy can be written to a folder; the message says why. Nothing has been changed."""
class FormatError(BadInput, ValueError):
    """A policy cannot be converted; the message says why. Nothing has been written."""
class SweepError(BadInput, RuntimeError):
    """A sweep cannot be run: the message names the flag or file, its value, and what would be right."""
class MeasurementFailure(AcerError):
    """The speed of a sweep's cells cannot be measured: the process that was timed failed; the message says how."""
class EvidenceError(BadInput, RuntimeError):
    """A results folder cannot be used: the message names the file, and what would be right."""
class CurveError(BadInput, ValueError):
    """A run folder cannot be read: the message names the file and what is wrong."""
class RecordError(AcerError, ValueError):
    """A record of a run is missing or cannot be read: the message names the file and the problem."""
class CheckpointError(AcerError, RuntimeError):
    """No checkpoint could be written or read; the message says which file and why."""
class Mismatch(CheckpointError):
    """A saved state is whole, but it is the state of something else than what shall take it."""
class EnvironmentFailure(AcerError):
    """The environment raised, its simulation diverged, or it returned what gymnasium or its spaces do not allow.

    What it raised is the cause, whose traceback commands print.
    """
class NonFiniteError(AcerError, ArithmeticError):
    """A quantity became NaN or infinite: the message names the first one in the order of computation."""
    left = "are from before"  # its checkpoints; what `train` says last, by which searches know that a run diverged
class ClusterLost(AcerError, ConnectionError):
    """The Ray cluster is gone, or has no room left; the run can continue on another."""
# fmt: on


class Interrupted(KeyboardInterrupt):
    """A signal, such as Ctrl-C's, stopped the run after a checkpoint; the same command continues it.

    It is no `AcerError`, and no `Exception`: what handles failures, as around a loop of runs, does not take it for one.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number
        self.status = 128 + signal_number


def status_of(error: OSError) -> int:
    """The status of a command that cannot begin: 1 if the disk is full, which is no bad input, else 2."""
    return 1 if error.errno in (errno.ENOSPC, errno.EDQUOT) else 2


def reason(error: BaseException) -> str:
    """Why a file's content cannot be read: the error that it raised in words, where a KeyError has the key alone."""
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)


def first_line(error: BaseException) -> str:
    """The kind of an error, and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
