"""Errors that a user can fix: their messages say what was found, where, and what to do.

    NmtError                 exit status 2
    ├── ConfigError          one or more problems in a configuration, all shown at once
    ├── DataError            a corpus, a text file or a data directory
    │   └── HubError         the hub, or something on it, is not available
    ├── CheckpointError      a run directory or a checkpoint
    │   └── LockedError      another process is using it
    ├── UnsafeFileError      both a DataError and a CheckpointError: a link, pipe or device, or too large a file
    ├── DivergedError        exit status 3: training gave up
    └── StoppedError         exit status 75: training was stopped and can be resumed

The command line prints only the message of an `NmtError`; any other exception is a bug in `nmt` and keeps its
traceback.
"""

from __future__ import annotations

from collections.abc import Sequence


class NmtError(Exception):
    """One or more problems that a user can fix, each reported in a line of its own."""

    exit_status = 2

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)

    def __str__(self) -> str:
        return "\n".join(self.args)

    def __reduce__(self) -> tuple[object, ...]:  # whatever the arguments of a subclass
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[NmtError], problems: tuple[str, ...]) -> NmtError:
    """Make an error that another process has sent."""
    return kind.__new__(kind, *problems)


class ConfigError(NmtError):
    """All problems of a configuration, one per line."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__(*self.problems)


class DataError(NmtError):
    """A corpus, a text file or a data directory is missing, damaged or invalid."""


class HubError(DataError):
    """The hub, or a dataset or model on it, is not available."""


class CheckpointError(NmtError):
    """A run directory or a checkpoint is missing, damaged or belongs to another model."""


class LockedError(CheckpointError):
    """Another process is using a directory; the message names it."""


class UnsafeFileError(DataError, CheckpointError):
    """A file in a data directory or a run is refused because of its kind or size.

    It is a symbolic link, a pipe or a device, or larger than any valid file.
    """


class DivergedError(NmtError):
    """Training gave up because the loss or the gradients diverged."""

    exit_status = 3


class StoppedError(NmtError):
    """Training was stopped on request and can be resumed. The exit status is EX_TEMPFAIL of sysexits.h."""

    exit_status = 75


MAX_ERROR_CHARS = 300


def error_text(error: BaseException | str) -> str:
    """Return the message of another library's error in one line of at most `MAX_ERROR_CHARS`, or else its type."""
    text = " ".join(str(error).split()) or ("" if isinstance(error, str) else type(error).__name__)
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[: MAX_ERROR_CHARS - 3]}..."
