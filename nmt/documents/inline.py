"""Text with markup in it: divided into blocks that are translated one by one, and put back where it belongs.

A format turns its content into tokens: texts, and marks for everything else. This module divides them where a break
is, such as a paragraph's end, and takes what surrounds a block out of it: of `<p><b>Note</b></p>` only `Note` is
left. What is inside a block, `placing` puts where it belongs in the translation.

Both texts are cut into units: words, placeholders such as `{name}`, and single signs such as a full stop, so that of
`<b>Note</b>:` the colon stays outside. Each unit of the translation comes from one of the text: a placeholder from the
same one, anything else by the alignment or else by its place. A span then
encloses the longest stretch of the translation that comes from inside it. Each mark is there once, and spans are inside
each other as they were, whatever the alignment says.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from nmt.documents.types import Alignment, Translated, spaced
from nmt.errors import DataError
from nmt.text.constraints import protected, spans
from nmt.text.words import is_boundary

TAG = r"</?[A-Za-z][^<>\n]{0,200}>|<[0-9:.]{1,20}>|\{\\[^{}\n]{0,200}\}"
_TAG = re.compile(f"({TAG})")


def tagged(text: str) -> Iterator[Token[str]]:
    """Divide a line into texts and tags."""
    for i, part in enumerate(_TAG.split(text)):
        if i % 2 == 0:
            if part:
                yield Text(part, part)
        elif name := re.match(r"<(/?)([A-Za-z]+)[^>]*(?<!/)>", part):
            yield Mark("close" if name[1] else "open", part, name[2].lower())
        else:
            yield Mark("point", part)


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
    """The text between an opening mark and its closing mark."""

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
    """Nest the text between an opening and a closing mark as a span. Marks without the other half stay as they
    are."""
    root: list[Node[M]] = []
    spans: list[tuple[Mark[M], list[Node[M]]]] = []
    for token in tokens:
        inside = spans[-1][1] if spans else root
        if isinstance(token, Mark) and token.is_strict and len(spans) >= _MAX_STRICT_DEPTH:
            raise DataError(f"more than {_MAX_STRICT_DEPTH} nested formats; simplify the document")
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
        """The whole text, without trailing spaces."""
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


_LOOK_BACK = 3
"""Units before or after a mark by which its place is looked for."""


class Origins:
    """Units of a text and of its translation, (start, end), and which of the text each of the translation comes from.

    A unit is a word or a sign; words of the text are cut where markup begins or ends within them.
    """

    def __init__(self, source: str, translated: Translated, edges: set[int]) -> None:
        self.source, self.text = source, translated.text
        self._is_aligned = translated.alignment is not None
        self.src_units = _units(source, edges)
        self._starts = [start for start, _ in self.src_units]
        self.units = _units(self.text, _same_cuts(source, self.text, edges))
        self._word_starts = [
            unit
            for unit, (start, _) in enumerate(self.units)
            if start == 0 or self.text[start - 1].isspace() or min(self.text[start - 1 : start + 1]) > "\u2fff"
        ]
        """Units that follow white space, or in a script without spaces another word."""
        self.of: list[int | None] = [None] * len(self.units)
        if translated.alignment is None:
            self._by_place()
        else:
            self._by_alignment(translated.alignment)
        self._by_placeholders()
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        for unit, origin in enumerate(self.of):
            if origin is not None:
                self._first.setdefault(origin, unit)
                self._last[origin] = unit

    def inside(self, start: int, end: int) -> range:
        """Return the units of the text that begin inside these characters."""
        return range(bisect_left(self._starts, start), bisect_left(self._starts, end))

    def by_place(self, position: int) -> int:
        """Return the unit of the translation that is as far from its start as this character of the text from its."""
        place = position * len(self.text) // max(len(self.source), 1)
        return bisect_left(self.units, place, key=lambda unit: unit[1])

    def nearest_word(self, unit: int) -> int:
        """Return the unit nearest to this one that begins a word, or the number of units: the end."""
        place = bisect_left(self._word_starts, unit)
        near = [*self._word_starts[max(place - 1, 0) : place + 1], len(self.units)]
        return min(near, key=lambda start: (abs(start - unit), -start))

    def may_take(self, unit: int) -> bool:
        """Whether a span may enclose a unit though it does not come from inside it: a word of unknown origin."""
        return (self.of[unit] is None or not self._is_aligned) and self.is_word(unit)

    def is_word(self, unit: int) -> bool:
        """Whether a unit of the translation is a word, not a sign."""
        return _is_word(self.text, self.units[unit])

    def gap(self, position: int, is_attached: bool) -> int:
        """Return before which unit of the translation a mark is that is at this character of the text.

        is_attached: whether it belongs to what is before it rather than to what follows.
        """
        following = bisect_left(self._starts, position)
        before = [self._last[i] + 1 for i in _down(following - 1) if i in self._last]
        after = [self._first[i] for i in range(following, following + _LOOK_BACK) if i in self._first]
        found = before[:1] + after[:1] if is_attached else after[:1] + before[:1]
        return found[0] if found else self.by_place(position)

    def _by_place(self) -> None:
        for unit, (start, end) in enumerate(self.units):
            middle = (start + end) * len(self.source) // (2 * len(self.text))
            self.of[unit] = max(0, bisect_right(self._starts, middle) - 1)

    def _by_placeholders(self) -> None:
        """Let a placeholder, number or address come from the same one, and nothing else come from that."""
        places: dict[str, list[range]] = defaultdict(list)
        for span in spans(self.source):
            places[span.wanted].append(_overlapping(self.src_units, span.start, span.end))
        copied: dict[int, int] = {}
        beside: dict[int, int] = {}
        for span in spans(self.text):
            if places[span.wanted]:
                units, origins = _overlapping(self.units, span.start, span.end), places[span.wanted].pop(0)
                copied |= zip(units, origins, strict=False)
                beside |= {units.start - 1: origins.start - 1, units.stop: origins.stop}
        taken = set(copied.values())
        self.of = [None if origin in taken else origin for origin in self.of]
        for unit, origin in (beside | copied).items():
            is_same = 0 <= unit < len(self.units) and 0 <= origin < len(self.src_units)
            if is_same and self.text[slice(*self.units[unit])] == self.source[slice(*self.src_units[origin])]:
                self.of[unit] = origin

    def _by_alignment(self, alignment: Alignment) -> None:
        sources: dict[tuple[int, int], set[int]] = defaultdict(set)
        for source, (start, end) in alignment:
            sources[start, end].update(_overlapping(self.src_units, *source))
        for target, units in sources.items():
            self._align(_overlapping(self.units, *target), sorted(units))

    def _align(self, units: Sequence[int], origins: Sequence[int]) -> None:
        """Align the units of one word: words in their order, a sign with the same one, or the one at the same end."""
        words = [unit for unit in units if self.is_word(unit)]
        src_words = [unit for unit in origins if _is_word(self.source, self.src_units[unit])]
        if src_words:
            for i, unit in enumerate(words):
                self.of[unit] = src_words[i * len(src_words) // len(words)]
        src_signs = sorted(set(origins) - set(src_words))
        by_sign = {self.source[slice(*self.src_units[unit])]: unit for unit in src_signs}
        for unit in sorted(set(units) - set(words)):
            outer = origins[-1 if words and unit > words[0] else 0] if src_signs else None
            same = by_sign.get(self.text[slice(*self.units[unit])])
            self.of[unit] = same if same is not None else outer if outer in by_sign.values() else None


def _units(text: str, cuts: set[int]) -> list[tuple[int, int]]:
    """Return where the words and placeholders of a text are, and the signs around them; all are cut at `cuts`, too."""
    whole = {i for span in spans(text) for i in range(span.start + 1, span.end)}
    found: list[tuple[int, int]] = []
    for word in re.finditer(r"\S+", text):
        start, end = word.span()
        inner = (i for i in range(start + 1, end) if i in cuts or (i not in whole and is_boundary(text, i)))
        found += itertools.pairwise([start, *inner, end])
    return found


def _same_cuts(source: str, text: str, cuts: set[int]) -> set[int]:
    """Return where a translation is cut, given where its source is: inside words that both have."""
    same: dict[str, set[int]] = defaultdict(set)
    for start, end in _units(source, set()):
        if inner := {i - start for i in range(start + 1, end) if i in cuts}:
            same[source[start:end]] |= inner
    return {start + i for start, end in _units(text, set()) for i in same.get(text[start:end], ())} if same else set()


def _is_word(text: str, unit: tuple[int, int]) -> bool:
    return any(map(str.isalnum, text[slice(*unit)]))


def _down(unit: int) -> range:
    return range(unit, max(unit - _LOOK_BACK, -1), -1)


def _overlapping(units: Sequence[tuple[int, int]], start: int, end: int) -> range:
    """Return the units of which a part is inside these characters."""
    first = bisect_right(units, start, key=lambda unit: unit[1])
    return range(first, max(first, bisect_left(units, end, key=lambda unit: unit[0])))


_NEAR = 4
"""Units to either side of its place where a span that no word comes from looks for one that comes from nowhere."""


def place(block: Block[M], translated: Translated) -> Iterator[Token[M]]:
    """Yield the tokens of a block's translation: all of its text, and each mark of the block once."""
    if not block.pieces:
        yield Text(translated.text)
        return
    origins = Origins(block.text, translated, _edges(block.pieces))
    whole = _Place(0, len(origins.units), 0, len(translated.text))
    yield from _placed(origins, block.pieces, (0, len(block.text)), whole)


class _Place(NamedTuple):
    """Units of a translation, and their positions in it."""

    first: int
    end: int
    start: int
    stop: int


def _edges(pieces: Sequence[Piece[M]]) -> set[int]:
    """Return where spans of a text begin and end."""
    edges = {edge for piece in pieces for edge in (piece.start, piece.end)}
    return edges.union(*(_edges(piece.inside) for piece in pieces))


def _placed(origins: Origins, pieces: Sequence[Piece[M]], around: tuple[int, int], place: _Place) -> Iterator[Token[M]]:
    """Yield what a span encloses: its part of the translation, with the pieces that are directly inside it.

    around: the characters of the text that the span encloses.
    """
    level = _Level(origins, pieces, around, place)
    position = place.start
    for piece, inner in level.in_order():
        if inner.start > position:
            yield Text(origins.text[position : inner.start])
        position = inner.stop
        if inner.first < inner.end and isinstance(piece.node, Span):
            yield piece.node.open
            yield from _placed(origins, piece.inside, (piece.start, piece.end), inner)
            yield piece.node.close
            continue
        if piece.is_apart and inner.start == place.stop > place.start:
            yield Text(" ")
        yield from (token for token in flat([piece.node]) if isinstance(token, Mark))
        if (
            piece.is_apart
            and inner.start < place.stop
            and origins.text[max(inner.start - 1, 0) : inner.start] in ("", " ")
        ):
            yield Text(" ")
    if position < place.stop:
        yield Text(origins.text[position : place.stop])


class _Level(Generic[M]):
    """The pieces that are directly inside a span, and where each is in the translation."""

    def __init__(self, origins: Origins, pieces: Sequence[Piece[M]], around: tuple[int, int], place: _Place) -> None:
        self._origins, self._pieces, self._around, self._place = origins, pieces, around, place
        self._runs = self._longest()
        self._owner: dict[int, int] = {}
        """Unit -> the number of the piece that encloses it."""
        for number, (first, end) in self._runs.items():
            self._owner |= dict.fromkeys(range(first, end), number)
        for number, piece in enumerate(pieces):
            if number not in self._runs and (unit := self._substitute(piece)) is not None:
                self._runs[number] = unit, unit + 1
                self._owner[unit] = number

    def in_order(self) -> list[tuple[Piece[M], _Place]]:
        """Return the pieces and their places in the order of the translation."""
        found = []
        for number, piece in enumerate(self._pieces):
            if number in self._runs:
                first, end = self._runs[number]
                place = _Place(first, end, self._origins.units[first][0], self._origins.units[end - 1][1])
                found.append((first, 2, number, place))
            else:
                unit, rank, position = self._gap(piece)
                found.append((unit, rank, number, _Place(unit, unit, position, position)))
        return [(self._pieces[number], place) for *_, number, place in sorted(found)]

    def _longest(self) -> dict[int, tuple[int, int]]:
        """Return for each piece that units of the translation come from the longest stretch of such units.

        What comes from nowhere belongs to the stretch around it, and so does a comma between two of its words.
        """
        spans = [i for i, piece in enumerate(self._pieces) if self._origins.inside(piece.start, piece.end)]
        starts = [self._pieces[i].start for i in spans]
        most = dict.fromkeys(spans, 0)
        runs: dict[int, tuple[int, int]] = {}
        current, first, count = -1, 0, 0
        for unit in range(self._place.first, self._place.end):
            origin = self._origins.of[unit]
            if origin is None:
                continue
            start = self._origins.src_units[origin][0]
            nearest = bisect_right(starts, start) - 1
            number = spans[nearest] if nearest >= 0 and start < self._pieces[spans[nearest]].end else -1
            if number < 0 and not self._origins.is_word(unit):
                continue
            if number != current:
                current, first, count = number, unit, 0
            count += 1
            if number >= 0 and count > most[number]:
                most[number], runs[number] = count, (first, unit + 1)
        return runs

    def _substitute(self, piece: Piece[M]) -> int | None:
        """Return a free unit nearby for a span that none comes from."""
        if not self._origins.inside(piece.start, piece.end):
            return None
        middle = self._origins.by_place((piece.start + piece.end) // 2)
        near = sorted(range(middle - _NEAR, middle + _NEAR + 1), key=lambda unit: abs(unit - middle))
        return next((unit for unit in near if self._is_free(unit) and self._origins.may_take(unit)), None)

    def _is_free(self, unit: int) -> bool:
        return self._place.first <= unit < self._place.end and unit not in self._owner

    def _gap(self, piece: Piece[M]) -> tuple[int, int, int]:
        """Return for what encloses nothing the unit before which it is, its rank there, and the character.

        After a character without a space between it is after what comes from that, else before what comes from what
        follows.
        """
        first, end, start, stop = self._place
        if piece.start <= self._around[0]:
            return first, 0, start
        if piece.end >= self._around[1]:
            return end, 0, stop
        is_attached = self._origins.source[piece.start - 1] != " "
        is_space = isinstance(piece.node, Mark) and piece.node.kind == "space"
        if is_space:  # as far from the start, between two words
            unit = min(max(self._origins.by_place(piece.start), first + 1), max(end - 1, first))
        else:
            unit = self._origins.gap(piece.start, is_attached)
        if is_space or piece.is_apart:
            unit = self._origins.nearest_word(unit)
        unit = min(max(unit, first), end)
        if first < unit < end and (owner := self._owner.get(unit)) is not None and owner == self._owner.get(unit - 1):
            unit = self._runs[owner][1 if is_attached else 0]
        if unit in (first, end):
            return unit, 0, start if unit == first else stop
        return (unit, 0, self._origins.units[unit - 1][1]) if is_attached else (unit, 1, self._origins.units[unit][0])
