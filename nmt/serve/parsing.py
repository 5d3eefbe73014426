"""A child process that reads and writes documents, which takes long and needs much memory.

In the server's process, a pattern that is searched in a long text, or a collection of garbage among the parts of a
large document, would delay all answers. While a document is translated, the server holds only the file and its texts;
the child reads the file again to write the translation.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TypeAlias

from nmt.console import say
from nmt.documents import Translated, open_document
from nmt.documents.types import Alignment, Languages
from nmt.errors import DataError, failure
from nmt.process import set_up_streams
from nmt.tasks.processes import ChildProcess

MEMORY_BYTES = 1 << 30
"""Maximum size of the child's data in bytes."""
NICENESS = 5
"""How far the child gives way to the server and to other processes."""
POLL_SECONDS = 0.1
PORTION = 1000
"""Number of translations that are sent at a time; meanwhile the server does nothing else."""

Rendered: TypeAlias = tuple[str, Alignment | None]
"""The translation of a text, and its alignment."""


class FileLimits(NamedTuple):
    """Maximum numbers of texts of a document, and of characters of all texts and of each."""

    texts: int
    characters: int
    longest: int


class DocumentProcess:
    """The child process, to be used by one thread. It is started again after it has ended."""

    def __init__(self) -> None:
        self._child: ChildProcess | None = None

    def texts(
        self, name: str, content: bytes, limits: FileLimits, should_stop: Callable[[], bool]
    ) -> tuple[list[str], list[str]]:
        """Return the texts and flags of a document (see `Document`).

        should_stop: called several times per second; the child is ended if it returns True. Raises DataError, also if
        the document exceeds the limits.
        """
        texts, flags = self._result(should_stop, read_texts, (name, content, limits))
        return texts, flags

    def written(
        self,
        name: str,
        content: bytes,
        rendered: Sequence[Rendered],
        languages: Languages,
        should_stop: Callable[[], bool],
    ) -> bytes:
        """Return a document with its texts translated. Raises DataError."""
        written: bytes = self._result(should_stop, write_translated, (name, content, languages), rendered)
        return written

    def start(self) -> ChildProcess:
        """Return the child, which is started unless it runs."""
        if self._child is None or not self._child.is_alive:
            self.close()
            self._child = ChildProcess({}, __name__)
        return self._child

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def _result(
        self,
        should_stop: Callable[[], bool],
        work: Callable[..., object],
        arguments: tuple[object, ...],
        rendered: Sequence[Rendered] = (),
    ) -> Any:
        """Return what `work` returns in the child. Raises DataError."""
        connection = self.start().connection
        try:
            connection.send((work, arguments))
            for start in range(0, len(rendered), PORTION):
                connection.send(rendered[start : start + PORTION])
            connection.send(())
            while not connection.poll(POLL_SECONDS):
                if should_stop():
                    self.close()
                    raise DataError("the request for the document has ended")
            result = connection.recv()
        except (EOFError, OSError):
            self.close()
            raise DataError("the document cannot be read, perhaps for lack of memory; divide it") from None
        if isinstance(result, Exception):
            if not isinstance(result, DataError):
                say(f"a document failed: {result}")
            raise result
        return result


# --- in the child -----------------------------------------------------------------------------------------


def main(descriptor: int) -> None:
    """Read and write the documents that the server sends, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the server ends this one
    set_up_streams()
    os.nice(NICENESS)
    with suppress(OSError, ValueError):  # a lower limit is in force
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    connection = Connection(descriptor)
    with suppress(EOFError, OSError):
        while True:
            work, arguments = connection.recv()
            rendered = chain.from_iterable(iter(connection.recv, ()))
            connection.send(_attempt(work, *arguments, [*rendered]))


def _attempt(work: Callable[..., object], *arguments: object) -> object:
    """Return a result, or the error to raise in the server; that of a bug says only where it occurred."""
    try:
        return work(*arguments)
    except DataError as error:
        return error
    except MemoryError:
        return DataError("the document needs too much memory; divide it")
    except Exception as error:
        return RuntimeError(failure(error))  # the message could quote the document


def read_texts(name: str, content: bytes, limits: FileLimits, _: object) -> tuple[list[str], list[str]]:
    """Return the texts and flags of a document. Raises DataError."""
    document = open_document(name, content)
    lengths = [len(text) for text in document.texts]
    check_lines(len(lengths), limits.texts)
    if (n := sum(lengths)) > limits.characters:
        raise DataError(f"the text of the file ({n}) exceeds its limit ({limits.characters})")
    if (longest := max(lengths, default=0)) > limits.longest:
        raise DataError(f"the longest line or paragraph of the file ({longest}) exceeds text limit ({limits.longest})")
    return document.texts, document.flags


def check_lines(n: int, most: int) -> None:
    """Raise DataError if a file has too many lines."""
    if n > most:
        raise DataError(f"the file has more than {most} lines or elements")


def write_translated(name: str, content: bytes, languages: Languages, rendered: Sequence[Rendered]) -> bytes:
    """Return a document with its texts translated. Raises DataError."""
    document = open_document(name, content)
    return document.translated([Translated(*translation) for translation in rendered], languages)
