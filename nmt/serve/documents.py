"""Translation of documents and HTML fragments, and storage of translated files in memory for download."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from sys import getsizeof
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from nmt.documents import FORMATS as FORMATS
from nmt.documents import format_of, is_translated
from nmt.documents.html import HtmlFragment
from nmt.documents.types import Languages
from nmt.errors import DataError
from nmt.serve.bodies import Upload
from nmt.serve.limits import Refusal
from nmt.serve.parsing import check_lines, read_texts, write_translated
from nmt.serve.service import AUTO, Service, TextOptions
from nmt.serve.worker import aside
from nmt.text.formats import BEGINNING
from nmt.translate.types import Translation, by_rank

SECONDS = 1800.0
"""Time in seconds until a translated file is deleted."""
BYTES = 64 << 20
"""Maximum size in bytes of all translated files together."""
FILES = 1000
"""Maximum number of translated files."""

PIECE_BYTES = 64 << 10
"""Size in bytes of the pieces in which a file is sent."""
NAME_CHARACTERS = 200
"""Maximum length of a file name; the end of a longer name is kept."""


def file_answer(name: str, content: bytes) -> Response:
    """Return a response that streams a file, so that a connection holds a copy of at most one piece."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(content), PIECE_BYTES):
            yield content[start : start + PIECE_BYTES]

    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    headers = {"Content-Length": str(len(content)), "Content-Disposition": disposition}
    return StreamingResponse(pieces(), 200, headers, "application/octet-stream")


class Downloads:
    """A store of translated files, which deletes them after half an hour, or earlier if there are too many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._files: dict[str, tuple[float, str, bytes]] = {}  # oldest first
        self._size = 0

    def add(self, name: str, content: bytes) -> str:
        """Add a file and return its random identifier."""
        number = secrets.token_urlsafe(16)
        self._files[number] = self._clock(), name[-NAME_CHARACTERS:], content
        self._size += len(content)
        self._forget()
        return number

    def get(self, number: str) -> tuple[str, bytes] | None:
        """Return the name and content of a file, or None if the identifier is unknown."""
        self._forget()
        file = self._files.get(number)
        return file and file[1:]

    def _forget(self) -> None:
        """Delete the oldest files: those that are too old, and as many as are too many or too large."""
        least = self._clock() - SECONDS
        while self._files:
            number, (since, _, content) = next(iter(self._files.items()))
            if since > least and len(self._files) <= FILES and self._size <= BYTES:
                return
            del self._files[number]
            self._size -= len(content)


_MOST_LOST = 100  # in a note
FILE_LINES = 50_000
"""Maximum number of lines of a file: many short lines take long even if the file is small."""
TEXT_BYTES = 1000
"""Memory that a text of a file takes besides its characters, with its translation."""
ALIGNED_BYTES = 20
"""Memory that a character takes after it is translated, most of it for the alignment of its word."""


async def translated_html(
    service: Service, texts: Sequence[str], source: str, target: str, asked: TextOptions, seconds: float
) -> list[list[Translation]]:
    """Return the translations of each HTML fragment, best first, including tags. Raises Refusal."""
    if source == target:
        return await service.translate(texts, source, target, asked, seconds)
    fragments = await aside(sum(map(len, texts)), lambda: [HtmlFragment(text, False, source) for text in texts])
    parts = [part for fragment in fragments for part in fragment.texts]
    asked = replace(asked, alignment=True, is_document=len(fragments) == 1)
    rendered = await service.translate(parts, source, target, asked, seconds)
    size = asked.n_best * sum(map(len, texts))  # of the tags, too
    return await aside(size, _placed, fragments, rendered, (source, target))


def _placed(
    fragments: Sequence[HtmlFragment], rendered: Sequence[Sequence[Translation]], languages: Languages
) -> list[list[Translation]]:
    """Return the translations of each fragment, best first, given the translations of all fragments' texts."""
    remaining = iter(rendered)
    results = []
    for fragment in fragments:
        ranked = by_rank([next(remaining) for _ in fragment.texts])
        results.append(
            [Translation(fragment.translated_text(texts, languages), lost=all_lost(texts)) for texts in ranked]
        )
    return results


def all_lost(translations: Iterable[Translation]) -> tuple[str, ...]:
    """Return the distinct placeholders, addresses and tags that translations lack."""
    return tuple(dict.fromkeys(text for translation in translations for text in translation.lost))


async def translated_file(
    service: Service, file: Upload, languages: tuple[str, str], asked: TextOptions, hold: Callable[[int], None]
) -> tuple[bytes, list[str]]:
    """Return the translation of a document in the same format, and notes on it. Raises Refusal.

    languages: source, which may be auto, and target; `hold` is called with the number of bytes of memory to reserve.
    """
    name, content = file.name, file.content
    limits = service.limits
    row = format_of(name, content[:BEGINNING])
    assert row is not None, "checked by `check_format`"
    separators = (b"\n", b"\r", b"{\\", *row.separators)
    over = threading.Event()
    size = len(content)
    run = partial(service.document_process.run_in_child, over.is_set)
    try:
        check_lines(max(content.count(b"<") // 2, *map(content.count, separators)), FILE_LINES)
        read = partial(run, read_texts, (FILE_LINES, limits.file_bytes, limits.characters), name, content)
        texts, flags = await service.documents.run(size, read, *languages)
        hold(sum(len(text) * ALIGNED_BYTES + getsizeof(text) + TEXT_BYTES for text in texts))
        source = languages[0]
        target = service.models.language(languages[1])
        [detected] = await service.sources(source, target, ["\n".join(texts[:100])])
        if source == AUTO:  # text in other languages is left out
            texts, flags = await service.documents.run(size, read, detected.language, target)
        languages = detected.language, target
        asked = replace(asked, alignment=row.has_markup, is_document=True, flags=flags)
        by_text = await service.translate(texts, *languages, asked, limits.file_seconds)
        lost = all_lost(best for best, *_ in by_text)
        rendered = [(best.text, best.alignment) for best, *_ in by_text]
        written, notes = await service.documents.run(size, run, write_translated, name, content, languages, rendered)
        return written, [*notes, *[f"the translation lacks {', '.join(lost[:_MOST_LOST])}"] * bool(lost)]
    except DataError as error:
        raise Refusal(400, f"Invalid request: {'; '.join(error.args)}") from error
    finally:
        over.set()  # ends a child that still works after a disconnect or a timeout


def check_format(file: Upload) -> None:
    """Raise Refusal if the format of a file is not supported."""
    if not is_translated(file.name, file.content[:BEGINNING]):
        raise Refusal(400, f"Invalid request: file format not supported; supported are {', '.join(FORMATS)}")
