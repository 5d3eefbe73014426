"""Text with markup in it, divided into blocks that are translated one by one.

A format turns its content into tokens: texts, and marks for everything else. This module divides them where a break
is, such as a paragraph's end, and takes what surrounds a block out of it: of `<p><b>Note</b></p>` only `Note` is
left. What is inside a block, `placing` puts where it belongs in the translation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

from nmt.documents.types import Translated, spaced
from nmt.errors import DataError
from nmt.text.constraints import protected

M = TypeVar("M")

_MAX_DEPTH = 100
"""Spans inside each other. Deeper ones are not understood as such, but remain."""
_MAX_STRICT_DEPTH = 32
"""The same where a format nests them by itself, as XML does: each level takes time for all that is inside it."""


@dataclass(frozen=True, eq=False)
class Text:
    """Characters, and how they are written (empty: as the format writes them)."""

    text: str
    raw: str = ""


@dataclass(frozen=True, eq=False)
class Mark(Generic[M]):
    """Anything that is not text.

    An `open` one and a `close` one of the same key enclose a span. A `point` is between characters; a `space` is one
    that counts as a space of the text; a `break` divides texts.
    """

    kind: Literal["open", "close", "point", "space", "break"]
    markup: M
    key: Hashable = None
    is_strict: bool = False
    """Of an open one: what begins inside it ends inside it, as in XML."""


@dataclass(frozen=True, eq=False)
class Span(Generic[M]):
    """What stands between a mark and the one that closes it."""

    open: Mark[M]
    close: Mark[M]
    inside: list[Node[M]]
    has_break: bool = field(init=False)
    has_text: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "has_break", any(map(_divides, self.inside)))
        object.__setattr__(self, "has_text", any(map(_has_text, self.inside)))


Token: TypeAlias = "Text | Mark[M]"
Node: TypeAlias = "Text | Mark[M] | Span[M]"


@dataclass(frozen=True, eq=False)
class Piece(Generic[M]):
    """A mark or a span, and which characters of its block's text it encloses: `start` to `end`."""

    start: int
    end: int
    node: Mark[M] | Span[M]
    inside: list[Piece[M]]
    is_apart: bool = False
    """Whether there are spaces on both sides, of which the text has one."""


class Block(Generic[M]):
    """A stretch of text that is translated as a whole, with the markup inside it."""

    def __init__(self, nodes: Sequence[Node[M]]) -> None:
        self.nodes = nodes
        whole = "".join(token.text for token in flat(nodes) if isinstance(token, Text))
        self.before = whole[: len(whole) - len(spaced(whole).lstrip(" "))]
        self.after = whole[len(spaced(whole).rstrip(" ")) :]
        content = _Content()
        pieces = content.pieces(nodes)
        self.text = content.text
        """Its text without markup; any white space is one space."""
        self.pieces = [content.final(piece, len(self.text)) for piece in pieces]

    @property
    def has_words(self) -> bool:
        """Whether there is anything to translate: letters, other than those of a placeholder or an address."""
        return any(map(str.isalpha, self.text)) and (" " in self.text or protected(self.text) != [self.text])


Place: TypeAlias = "Callable[[Block[M], Translated], Iterable[Token[M]]]"


class Passage(Generic[M]):
    """The content of a document, or of a paragraph, divided into blocks and what is between them."""

    def __init__(self, tokens: Iterable[Token[M]]) -> None:
        self._items = list(_items(_nested(tokens)))
        self.texts = [item.text for item in self._items if isinstance(item, Block)]

    def translated(self, results: Iterator[Translated], place: Place[M]) -> tuple[bool, list[Token[M]]]:
        """Return whether anything has changed, and all tokens.

        results: where the translations of `texts` are taken from. A text that is its own translation is left as it was
        written.
        """
        tokens: list[Token[M]] = []
        is_changed = False
        for item in self._items:
            if not isinstance(item, Block):
                tokens.append(item)
            elif (result := next(results)).text == item.text:
                tokens += flat(item.nodes)
            else:
                is_changed = True
                tokens += [Text(item.before), *place(item, result), Text(item.after)]
        return is_changed, tokens


def flat(nodes: Iterable[Node[M]]) -> Iterator[Token[M]]:
    """Yield the tokens that nodes were made of."""
    for node in nodes:
        if isinstance(node, Span):
            yield node.open
            yield from flat(node.inside)
            yield node.close
        else:
            yield node


def _nested(tokens: Iterable[Token[M]]) -> list[Node[M]]:
    """Put what is between two marks into spans. Marks without the other half are left alone where they are."""
    root: list[Node[M]] = []
    spans: list[tuple[Mark[M], list[Node[M]]]] = []
    for token in tokens:
        inside = spans[-1][1] if spans else root
        if isinstance(token, Mark) and token.is_strict and len(spans) >= _MAX_STRICT_DEPTH:
            raise DataError(f"more than {_MAX_STRICT_DEPTH} formats inside each other; simplify the document")
        if isinstance(token, Mark) and token.kind == "open" and (token.is_strict or len(spans) < _MAX_DEPTH):
            spans.append((token, []))
        elif isinstance(token, Mark) and token.kind == "close" and (depth := _opened(spans, token)) is not None:
            _leave_alone(spans, root, depth + 1)
            opened, inside = spans.pop()
            (spans[-1][1] if spans else root).append(Span(opened, token, inside))
        else:
            inside.append(token)
    _leave_alone(spans, root, 0)
    return root


def _opened(spans: Sequence[tuple[Mark[M], list[Node[M]]]], closing: Mark[M]) -> int | None:
    for depth in reversed(range(len(spans))):
        if spans[depth][0].key == closing.key:
            return depth
        if spans[depth][0].is_strict:
            break
    return None


def _leave_alone(spans: list[tuple[Mark[M], list[Node[M]]]], root: list[Node[M]], depth: int) -> None:
    """Make what was opened at `depth` and deeper no spans, since nothing closes them."""
    while len(spans) > depth:
        opened, inside = spans.pop()
        (spans[-1][1] if spans else root).extend([opened, *inside])


def _divides(node: Node[M]) -> bool:
    return node.has_break if isinstance(node, Span) else isinstance(node, Mark) and node.kind == "break"


def _has_text(node: Node[M]) -> bool:
    return node.has_text if isinstance(node, Span) else isinstance(node, Text) and bool(spaced(node.text).strip(" "))


def _items(nodes: Iterable[Node[M]]) -> Iterator[Token[M] | Block[M]]:
    """Divide nodes at breaks, and where spans with breaks in them begin and end."""
    stretch: list[Node[M]] = []
    for node in nodes:
        if not _divides(node):
            stretch.append(node)
            continue
        yield from _block(stretch)
        stretch = []
        if isinstance(node, Span):
            yield node.open
            yield from _items(node.inside)
            yield node.close
        else:
            yield node
    yield from _block(stretch)


def _block(nodes: list[Node[M]]) -> Iterator[Token[M] | Block[M]]:
    """Yield what is around the text of a stretch without breaks, and its text as a block."""
    with_text = [i for i, node in enumerate(nodes) if _has_text(node)]
    first, end = (with_text[0], with_text[-1] + 1) if with_text else (0, 0)
    yield from flat(nodes[:first])
    inner = nodes[first:end]
    if len(inner) == 1 and isinstance(span := inner[0], Span):
        yield span.open
        yield from _block(span.inside)
        yield span.close
    elif inner and (block := Block(inner)).has_words:
        yield block
    else:
        yield from flat(inner)
    yield from flat(nodes[end:])


class _Content:
    """Collects the text of a block."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._ends_in_space = True  # at its start, there is no space
        self._doubled: set[int] = set()
        """Characters before which there was one more space."""

    @property
    def text(self) -> str:
        """All of it, without the space at its end."""
        return "".join(self._parts).rstrip(" ")

    def pieces(self, nodes: Iterable[Node[M]]) -> list[Piece[M]]:
        """Append the text of nodes, and return where their marks and spans are in it."""
        pieces: list[Piece[M]] = []
        for node in nodes:
            if isinstance(node, Text):
                self._append(node.text)
                continue
            if isinstance(node, Mark) and node.kind == "space":
                self._append(" ")
            start = self._length
            inside = self.pieces(node.inside) if isinstance(node, Span) else []
            pieces.append(Piece(start, self._length, node, inside))
        return pieces

    def final(self, piece: Piece[M], end: int) -> Piece[M]:
        """Return a piece with all that is known at the end of the text, which is before the last space."""
        inside = [self.final(inner, end) for inner in piece.inside]
        is_space = isinstance(piece.node, Mark) and piece.node.kind == "space"
        is_apart = piece.start == piece.end and piece.start in self._doubled and not is_space
        return Piece(min(piece.start, end), min(piece.end, end), piece.node, inside, is_apart)

    def _append(self, text: str) -> None:
        text = re.sub(" +", " ", spaced(text))
        if text.startswith(" ") and self._ends_in_space:
            self._doubled.add(self._length)
            text = text[1:]
        if text:
            self._parts.append(text)
            self._length += len(text)
            self._ends_in_space = text.endswith(" ")
