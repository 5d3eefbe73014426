"""A child process that reads and writes documents, which takes long and needs much memory.

In the server's process, a pattern that is searched in a long text, or a collection of garbage among the parts of a
large document, would delay all answers. While a document is translated, the server holds only the file and its texts;
the child reads the file again to write the translation.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context, parent_process
from typing import Any

from nmt.documents import Translated, open_document
from nmt.documents.types import Languages
from nmt.errors import DataError

MEMORY_BYTES = 768 << 20
"""Maximum size of the child's data in bytes."""
NICENESS = 5
"""How far the child gives way to the server and to other processes."""
POLL_SECONDS = 0.1
_TOO_LARGE = "the document needs too much memory; divide it"


class DocumentProcess:
    """The child process, to be used by one thread. It is started again after it has ended."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._pid = 0

    def start(self) -> ProcessPoolExecutor:
        """Return the pool of the child, which is started unless it runs."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, get_context("spawn"), _set_up)
            self._pid = self._pool.submit(os.getpid).result()
        return self._pool

    def close(self) -> None:
        """End the child."""
        pool, self._pool = self._pool, None
        if pool is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            pool.shutdown(wait=False)

    def run_in_child(self, should_stop: Callable[[], bool], work: Callable[..., Any], *arguments: object) -> Any:
        """Return what a function of this module returns in the child.

        should_stop: called several times per second; the child is ended if it returns True. Raises DataError, also if
        there is too little memory.
        """
        try:
            try:
                result = self.start().submit(work, *arguments)
            except BrokenProcessPool:  # something has ended the child while it had no work
                self._pool = None
                result = self.start().submit(work, *arguments)
            while not wait([result], POLL_SECONDS).done:
                if should_stop():
                    self.close()
            return result.result()
        except BrokenProcessPool:
            self._pool = None  # nothing to end: another process may have its number
            raise DataError(_TOO_LARGE) from None
        except MemoryError:
            self.close()
            raise DataError(_TOO_LARGE) from None


# --- in the child -----------------------------------------------------------------------------------------


def _set_up() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the server ends this one
    threading.Thread(target=_end_with_server, daemon=True).start()
    os.nice(NICENESS)
    with suppress(OSError, ValueError):  # a lower limit is in force
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def _end_with_server() -> None:
    if (server := parent_process()) is not None:
        server.join()
    os._exit(1)


def read_texts(
    most: tuple[int, int, int], name: str, content: bytes, source: str, target: str
) -> tuple[list[str], list[str]]:
    """Return the texts and flags of a document (see `open_document`).

    most: maximum number of texts, of characters in all texts, and of characters in each. Raises DataError.
    """
    document = open_document(name, content, source, target)
    lengths = [len(text) for text in document.texts]
    n, longest = sum(lengths), max(lengths, default=0)
    check_lines(len(lengths), most[0])
    if n > most[1]:
        raise DataError(f"the text of the file ({n}) exceeds its limit ({most[1]})")
    if longest > most[2]:
        raise DataError(f"the longest line or paragraph of the file ({longest}) exceeds text limit ({most[2]})")
    return document.texts, document.flags


def check_lines(n: int, most: int) -> None:
    """Raise DataError if a file has too many lines."""
    if n > most:
        raise DataError(f"the file has more than {most} lines or elements")


def write_translated(
    name: str, content: bytes, languages: Languages, rendered: Iterable[Any]
) -> tuple[bytes, list[str]]:
    """Return a document with its texts translated, and notes on it. Raises DataError."""
    document = open_document(name, content, *languages)
    written = document.translated([Translated(*translation) for translation in rendered], languages)
    return written, document.notes()
