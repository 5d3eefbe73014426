"""Errors that a user can fix, with messages that say what was found, where, and what to do.

    NmtError                 exit status 2
    ├── ConfigError          one or more problems in a configuration, all shown at once
    ├── DataError            a corpus, a text file or a data directory
    │   └── HubError         the Hub, or a dataset or model on it, is not available
    ├── CheckpointError      a run directory or a checkpoint
    │   └── LockedError      another process is using a directory
    ├── UnsafeFileError      both a DataError and a CheckpointError: a link, pipe, device or oversized file
    ├── DivergedError        exit status 3: training diverged
    └── StoppedError         exit status 75: training was stopped and can be resumed

The command line prints only the message of an `NmtError`; any other exception is a bug in `nmt` and keeps its
traceback.
"""

from __future__ import annotations

import traceback


class NmtError(Exception):
    """The base class of errors that a user can fix. Each argument is a problem, reported on its own line."""

    exit_status = 2

    def __init__(self, *problems: str, advice: str = "") -> None:
        """`advice` says at the end of each message what to do, such as "; run nmt prepare again"."""
        self.problems = [*problems]
        """The problems without the advice."""
        super().__init__(*(problem + advice for problem in problems))

    def __str__(self) -> str:
        return "\n".join(self.args)

    def __reduce__(self) -> tuple[object, ...]:  # independent of the constructor of a subclass
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[NmtError], problems: tuple[str, ...]) -> NmtError:
    """Recreate an error received from another process."""
    return kind.__new__(kind, *problems)


class ConfigError(NmtError):
    """An error for one or more problems of a configuration."""


class DataError(NmtError):
    """An error for a missing, damaged or invalid corpus, text file or data directory."""


class HubError(DataError):
    """An error for a dataset or model on the Hugging Face Hub that is not available."""


class CheckpointError(NmtError):
    """An error for a run directory or checkpoint that is missing or damaged, or that belongs to another model."""


class LockedError(CheckpointError):
    """An error for a directory that another process is using. The message names the process."""


class UnsafeFileError(DataError, CheckpointError):
    """An error for a file that is a symbolic link, a pipe or a device, or that is larger than any valid file."""


class DivergedError(NmtError):
    """An error for training that has ended because the loss or the gradients diverged."""

    exit_status = 3


class StoppedError(NmtError):
    """An error for training that was stopped on request and can be resumed.

    The exit status is EX_TEMPFAIL of sysexits.h.
    """

    exit_status = 75


MAX_ERROR_CHARS = 300


def error_text(error: BaseException | str) -> str:
    """Return the message of another library's error on one line of at most `MAX_ERROR_CHARS` characters.

    An error without a message is described by its type.
    """
    text = " ".join(str(error).split()) or ("" if isinstance(error, str) else type(error).__name__)
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[: MAX_ERROR_CHARS - 3]}..."


def failure(error: BaseException) -> str:
    """Return the type of an exception and the line that raised it."""
    trace = traceback.extract_tb(error.__traceback__, -1)
    return type(error).__name__ + "".join(f" at {frame.filename}:{frame.lineno}" for frame in trace)
