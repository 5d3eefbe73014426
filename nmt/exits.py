"""How a command ends: one line on standard error for each thing a user can put right, and an exit status."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from nmt.console import say
from nmt.errors import NmtError

INTERRUPTED, NOBODY_READS = 130, 141  # 128 + the signal's number, as shells report it
PATIENCE_SECONDS = 10.0  # with the first of several processes
# What a user can put right; any other OSError is a defect and keeps its traceback.
USER_ERRNOS = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT,
    errno.EFBIG, errno.EIO, errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.ENAMETOOLONG, errno.EEXIST,
    errno.ELOOP, errno.ENXIO, errno.EBUSY, errno.ESTALE,
}  # fmt: skip


@contextmanager
def errors_for_people() -> Iterator[None]:
    """Turn what a user can put right into `nmt: message` lines on standard error and an exit status."""
    try:
        yield
    except NmtError as error:
        _fail(error.exit_status, *error.args)
    except KeyboardInterrupt:
        _fail(INTERRUPTED, "interrupted")
    except BrokenPipeError:
        sys.exit(NOBODY_READS)  # `nmt translate | head`
    except OSError as error:
        if error.errno not in USER_ERRNOS:
            raise
        _fail(2, f"{error.filename or 'output'}: {error.strerror}")
    except Exception as error:
        message = getattr(error, "format_message", None)  # Typer's own: an option, a value or a command there is not
        if message is None:
            raise
        if os.environ.get("RANK", "0") != "0":
            # Of several processes, which all find the same, the first tells; torchrun then ends this one. Were this
            # one to end before that, torchrun would end the first, and nobody would have told.
            time.sleep(PATIENCE_SECONDS)
        _fail(2, f"{message().rstrip('.')}; --help shows what there is")


def _fail(status: int, *lines: str) -> None:
    for line in lines:
        say(line)
    sys.exit(status)
