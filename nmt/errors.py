"""Errors that a user can fix. Their messages say what was found, where, and what to do.

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

from collections.abc import Sequence


class NmtError(Exception):
    """One or more problems that a user can fix, reported one per line."""

    exit_status = 2

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)

    def __str__(self) -> str:
        return "\n".join(self.args)

    def __reduce__(self) -> tuple[object, ...]:  # independent of the constructor of a subclass
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[NmtError], problems: tuple[str, ...]) -> NmtError:
    """Recreate an error received from another process."""
    return kind.__new__(kind, *problems)


class ConfigError(NmtError):
    """One or more problems of a configuration, one per line."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__(*self.problems)


class DataError(NmtError):
    """A corpus, a text file or a data directory is missing, damaged or invalid."""


class HubError(DataError):
    """The Hugging Face Hub, or a dataset or model on it, is not available."""


class CheckpointError(NmtError):
    """A run directory or a checkpoint is missing, damaged or belongs to another model."""


class LockedError(CheckpointError):
    """Another process is using a directory. The message names the process."""


class UnsafeFileError(DataError, CheckpointError):
    """A file in a data or run directory is a symbolic link, a pipe or a device, or larger than any valid file."""


class DivergedError(NmtError):
    """Training gave up because the loss or the gradients diverged."""

    exit_status = 3


class StoppedError(NmtError):
    """Training was stopped on request and can be resumed. The exit status is EX_TEMPFAIL of sysexits.h."""

    exit_status = 75


MAX_ERROR_CHARS = 300


def error_text(error: BaseException | str) -> str:
    """Return the message of another library's error on one line of at most `MAX_ERROR_CHARS` characters.

    An error without a message is described by its type.
    """
    text = " ".join(str(error).split()) or ("" if isinstance(error, str) else type(error).__name__)
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[: MAX_ERROR_CHARS - 3]}..."
