"""What a document is to those who translate it: texts, and a function of their translations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

Alignment = Sequence[tuple[tuple[int, int], tuple[int, int]]]
"""Pairs of a word in a text and one in its translation, each by its first character and the one after its last."""

# What may stand in no line of a text file, or in no XML; of each a space is made, so that offsets stay as they are.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Translated:
    """The translation of one text. Offsets of the alignment count Unicode code points."""

    text: str
    alignment: Alignment | None = None


class Document:
    """A document that was taken apart.

    No text has a line break, or white space at its ends.
    """

    def __init__(self, texts: list[str], write: Callable[[list[Translated]], bytes]) -> None:
        """write: makes the document of the translations, one for each text."""
        self.texts = texts
        self._write = write

    def translated(self, results: Sequence[Translated]) -> bytes:
        """Return the document with translations, one for each of `texts`, in its own encoding.

        Raises ValueError for another number of them.
        """
        return self._write(in_lines(self.texts, results))


def spaced(text: str) -> str:
    """Return a text, as long as it was, with spaces for control characters and line breaks."""
    return _CONTROL.sub(" ", text)


def in_lines(texts: Sequence[str], results: Sequence[Translated]) -> list[Translated]:
    """Return translations without control characters and line breaks. Raises ValueError if they are not one a text."""
    if len(texts) != len(results):
        raise ValueError(f"{len(results)} translations of {len(texts)} texts")
    return [replace(result, text=spaced(result.text)) for result in results]
