"""Errors that are for people: what was found, where, and what to do.

    NmtError                 exit status 2
    ├── ConfigError          one or more problems in a configuration, all shown at once
    ├── DataError            a corpus, a text file or a data directory
    │   └── HubError         a dataset on the hub could not be had
    ├── CheckpointError      a run directory or a checkpoint
    │   └── LockedError      another process works there
    ├── UnsafeFileError      both a DataError and a CheckpointError: a link, a pipe, a device, or too large a file
    ├── DivergedError        exit status 3: training gave up
    └── StoppedError         exit status 75: training was stopped and can go on

The command line prints the message of an `NmtError` and nothing else; any other exception is a defect of
`nmt` and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence


class NmtError(Exception):
    """Something a user can put right: one or more problems, each told in a line of its own."""

    exit_status = 2

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)

    def __str__(self) -> str:
        return "\n".join(self.args)


class ConfigError(NmtError):
    """All problems found in a configuration, a line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__(*self.problems)


class DataError(NmtError):
    """A corpus, a text file or a data directory is not as it must be."""


class HubError(DataError):
    """A dataset on the hub could not be had."""


class CheckpointError(NmtError):
    """A run directory or a checkpoint is missing, damaged or of another model."""


class LockedError(CheckpointError):
    """Another process works in a directory; the message names it."""


class UnsafeFileError(DataError, CheckpointError):
    """A file, in a data directory as well as in a run, is not read or written because of what it is: a symbolic link,
    a pipe, a device, or larger than it can be."""


class DivergedError(NmtError):
    """Training gave up because its numbers went wrong."""

    exit_status = 3


class StoppedError(NmtError):
    """Training was stopped before its end, on demand, and can be resumed. The status is EX_TEMPFAIL of sysexits.h."""

    exit_status = 75
