"""What Word's and OpenDocument's files have in common: paragraphs in members of a zip archive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from lxml import etree

from nmt.documents.inline import Passage, Token
from nmt.documents.package import Package, serialised
from nmt.documents.placing import place
from nmt.documents.types import Document, Translated
from nmt.errors import DataError


class Markup(NamedTuple):
    """What a mark of a paragraph stands for: elements, or the beginning or end of one with text in it."""

    elements: Sequence[etree._Element] = ()
    format: etree._Element | None = None
    """Of Word: the run whose format the elements have, or without elements, the text up to its end."""
    around: etree._Element | None = None
    """The element that holds the text."""


class Paragraph(NamedTuple):
    """A paragraph, and a function that gives it other content."""

    passage: Passage[Markup]
    rewrite: Callable[[Iterable[Token[Markup]]], None]


def open_office(
    package: Package,
    members: Sequence[str],
    paragraphs: Callable[[etree._Element], Iterator[Paragraph]],
    should_stop: Callable[[], bool],
) -> Document:
    """Take the paragraphs of these members apart, which are in the order of the package.

    should_stop: asked between paragraphs, also when the translations are put in. Raises DataError, and if it says so.
    """
    package.check_size(members)

    def going(some: Iterable[Paragraph]) -> Iterator[Paragraph]:
        for paragraph in some:
            if should_stop():
                raise DataError("nobody waits for the document any more")
            yield paragraph

    # the trees, which take ten times as much memory, are not kept
    found = (paragraph for member in members for paragraph in going(paragraphs(package.xml(member))))
    texts = [text for paragraph in found for text in paragraph.passage.texts]

    def write(results: Sequence[Translated]) -> bytes:
        queue = iter(results)

        def new(member: str) -> bytes | None:
            root = package.xml(member)
            is_changed = False
            for paragraph in going(list(paragraphs(root))):
                is_other, tokens = paragraph.passage.translated(queue, place)
                if is_other:
                    paragraph.rewrite(tokens)
                is_changed |= is_other
            return serialised(root) if is_changed else None

        return package.changed(members, new)

    return Document(texts, write)
