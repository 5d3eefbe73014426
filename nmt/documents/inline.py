"""Division of text with markup into blocks to translate, and placement of the markup in the translations.

A format turns its content into tokens: texts, and marks for everything else. `Passage` divides them at breaks, such as
the end of a paragraph, and removes the markup around each block: `<p><b>Note</b></p>` becomes `Note`.
`Passage.translated` places the markup inside a block where it belongs in the translation.

Both texts are cut into units: words, placeholders such as `{name}`, and single symbols such as a full stop, so that the
colon of `<b>Note</b>:` stays outside. Each unit of the translation comes from a unit of the text: a placeholder from
the same placeholder; any other unit by the alignment, otherwise from an equal unit, such as a name, otherwise, which is
a guess, from the word at the same relative position. If both texts have as many sentences, equal units and guesses stay
in the sentence with the same number, and marks and spans between two sentences stay there. A span encloses the longest
stretch of the translation that comes from inside it, and a mark stays beside its neighbour. Every mark occurs once,
spans stay nested, and none that has text becomes empty, whatever the alignment is, unless the translation has fewer
units than innermost spans with text.
"""

from __future__ import annotations

import itertools
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from nmt.documents.types import BLANKS, Results, spaced
from nmt.errors import DataError
from nmt.text.constraints import protected, spans
from nmt.text.split import sentence_edges
from nmt.text.translated import Alignment, Translated
from nmt.text.words import LETTERWISE
from nmt.text.words import units as boundaries

DIRECTION_MARK = "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
TAG = (
    r"</?(?:[A-Za-z][^<>\n]{0,200}|[0-9]{1,3}/?)>|<[0-9:.]{1,20}>|\{\\[^{}\n]{0,200}\}|\{\d{1,4}>|<\d{1,4}\}|"
    + DIRECTION_MARK
)
_TAG = re.compile(f"({TAG})")


def tagged(text: str, untagged: str = "") -> Iterator[Token[str]]:
    """Divide a text into texts and tags; what looks like a tag and occurs in `untagged` is text."""
    for i, part in enumerate(_TAG.split(text)):
        if i % 2 == 0 or part in untagged:
            if part:
                yield Text(part, part)
        elif name := re.match(r"<(/?)([A-Za-z]+|\d+(?=>))[^>]*(?<!/)>", part):
            yield Mark("close" if name[1] else "open", part, name[2].lower())
        else:
            yield Mark("point", part)


M = TypeVar("M")

_INNER = re.compile(f"(?s)[^{BLANKS}](?:.*[^{BLANKS}])?")
"""Matches a text without the white space around it."""
_KEPT = re.compile(
    rf"[^{BLANKS}]|(?<=[^{BLANKS}])"
    rf"(?!(?<=[{LETTERWISE}])(?:(?![\r\n])[{BLANKS}])*+[\r\n][{BLANKS}]*+[{LETTERWISE}])"
    rf"[{BLANKS}](?=[{BLANKS}]*+[^{BLANKS}])"
)
"""Matches each character but white space, and the first of white space that divides words: not at the ends of a text,
nor a line break between letters of a script without spaces."""
_MAX_DEPTH = 32
"""Maximum depth of nested spans: each level takes time proportional to the text inside it."""


@dataclass(frozen=True, eq=False)
class Text:
    """Characters of a text; `raw` is their spelling in the document, or empty if the format must escape them."""

    text: str
    raw: str = ""
    kind = "text"
    has_break = False

    @property
    def has_text(self) -> bool:
        """Whether it has more than white space."""
        return bool(spaced(self.text).strip(" \u3000"))


@dataclass(frozen=True, eq=False)
class Mark(Generic[M]):
    """A token of markup, without text.

    An `open` mark and a `close` mark with the same key enclose a span. A `point` is between characters, a `space`
    counts as a space of the text, and a `break` divides texts.
    """

    kind: Literal["open", "close", "point", "space", "break"]
    markup: M
    key: Hashable = None
    is_strict: bool = False
    """Whether all spans that begin inside the span of this `open` mark also end inside it, as in XML."""
    has_text = False

    @property
    def has_break(self) -> bool:
        """Whether it divides texts."""
        return self.kind == "break"


class MarkSpan(Generic[M]):
    """An opening mark, its closing mark, and the nodes between them."""

    kind = "span"

    def __init__(self, opening: Mark[M], closing: Mark[M], inside: list[Node[M]]) -> None:
        self.opening = opening
        self.closing = closing
        self.inside = inside
        self.has_break: bool = any(node.has_break for node in inside)
        self.has_text: bool = any(node.has_text for node in inside)


Token: TypeAlias = "Text | Mark[M]"
Node: TypeAlias = "Text | Mark[M] | MarkSpan[M]"


class Piece(NamedTuple, Generic[M]):
    """A mark or a span, and the characters `start` to `end` of its block's text that it encloses."""

    start: int
    end: int
    node: Mark[M] | MarkSpan[M]
    inside: list[Piece[M]]
    n_leaves: int
    """Number of spans with text, itself among them, without such a span inside."""
    follows_space: bool
    precedes_space: bool
    """Whether a space is directly before it and after it, if it is empty."""


class Block(Generic[M]):
    """A stretch of text that is translated as a whole, with the markup inside it."""

    def __init__(self, nodes: Sequence[Node[M]]) -> None:
        self.nodes = nodes
        texts = []
        written = []
        for token in flat(nodes):
            if isinstance(token, Text):
                texts.append(token.text)
                written.append(token.text)
            elif token.kind == "space":
                written.append(" ")
        self.before, self.after = _INNER.split("".join(texts), maxsplit=1)
        whole = "".join(written)
        self._raw = spaced(whole)
        self._kept = array("I", (character.start() for character in _KEPT.finditer(whole)))
        self.text = "".join(self._raw[i] for i in self._kept)
        """The text without markup, in which any white space is replaced by one space, and a line break between two
        letters of a script without spaces by none."""
        self.edges: set[int] = set()
        """Offsets in the text at which marks and spans begin and end."""
        self._read = 0
        self.pieces = self._pieces(nodes)

    def _pieces(self, nodes: Sequence[Node[M]]) -> list[Piece[M]]:
        """Return the marks and spans among nodes; `_read` counts the characters of the raw text before each."""
        pieces = []
        for i, node in enumerate(nodes):
            if isinstance(node, Text):
                self._read += len(node.text)
                continue
            if node.kind == "space":
                self._read += 1
            start = self._read
            inside = []
            if isinstance(node, MarkSpan):
                inside = self._pieces(node.inside)
            is_empty = start == self._read and node.kind != "space"
            follows_text = i == 0 or isinstance(nodes[i - 1], Text)
            precedes_text = i + 1 == len(nodes) or isinstance(nodes[i + 1], Text)
            follows_space = is_empty and follows_text and self._raw[start - 1 : start] == " "
            precedes_space = is_empty and precedes_text and self._raw[start : start + 1] == " "
            first = bisect_left(self._kept, start)
            end = bisect_left(self._kept, self._read)
            self.edges |= {first, end}
            text = self.text[first:end].strip()
            n_leaves = sum(piece.n_leaves for piece in inside)
            if isinstance(node, MarkSpan) and text and (text[0] != "{" or protected(text) != [text]):
                n_leaves = max(n_leaves, 1)
            pieces.append(Piece(first, end, node, inside, n_leaves, follows_space, precedes_space))
        return pieces

    @property
    def has_words(self) -> bool:
        """Whether the block has anything to translate: letters outside placeholders and addresses."""
        text = self.text
        for placeholder in sorted({*protected(text)}, key=len, reverse=True):  # one may contain another
            text = text.replace(placeholder, " ")
        return any(map(str.isalpha, text))


class Passage(Generic[M]):
    """The content of a document or a paragraph, divided into blocks and the tokens between them."""

    def __init__(self, tokens: Iterable[Token[M]]) -> None:
        self._items = list(_items(_nested(tokens)))
        self.texts = [item.text for item in self._items if isinstance(item, Block)]

    def translated(self, results: Results) -> tuple[bool, list[Token[M]]]:
        """Return whether any text has changed, and all tokens of the translated passage.

        results: yields the translations of `texts`, and counts the marks whose place is a guess. A text that is equal
        to its translation stays as it was written.
        """
        tokens = []
        is_changed = False
        for item in self._items:
            if not isinstance(item, Block):
                tokens.append(item)
            elif (result := next(results)).text == item.text:
                tokens += flat(item.nodes)
            else:
                is_changed = True
                n_guessed, placed = _placed_block(item, result)
                results.n_guessed += n_guessed
                tokens += [Text(item.before), *placed, Text(item.after)]
        return is_changed, tokens


def flat(nodes: Iterable[Node[M]]) -> Iterator[Token[M]]:
    """Yield the tokens of nodes and of their spans, in order."""
    for node in nodes:
        if isinstance(node, MarkSpan):
            yield node.opening
            yield from flat(node.inside)
            yield node.closing
        else:
            yield node


def _nested(tokens: Iterable[Token[M]]) -> list[Node[M]]:
    """Nest tokens between an opening and a closing mark as spans. Marks without a counterpart stay as they are.

    Raises DataError if strict spans are nested too deeply.
    """
    root: list[Node[M]] = []
    opened: list[tuple[Mark[M], list[Node[M]]]] = []

    def inner() -> list[Node[M]]:
        return opened[-1][1] if opened else root

    def dissolve(depth: int) -> None:
        """Replace the spans opened at `depth` and deeper, which are never closed, by their nodes."""
        while len(opened) > depth:
            mark, inside = opened.pop()
            inner().extend([mark, *inside])

    for token in tokens:
        node: Node[M] = token
        if isinstance(token, Mark) and token.kind == "open":
            if len(opened) < _MAX_DEPTH:
                opened.append((token, []))
                continue
            if token.is_strict:
                raise DataError(f"the document has more than {_MAX_DEPTH} nested formats; simplify it")
        elif isinstance(token, Mark) and token.kind == "close":
            for depth in reversed(range(len(opened))):
                if opened[depth][0].key == token.key:
                    dissolve(depth + 1)
                    node = MarkSpan(opened[depth][0], token, opened.pop()[1])
                    break
                if opened[depth][0].is_strict:
                    break
        inner().append(node)
    dissolve(0)
    return root


def _items(nodes: Iterable[Node[M]]) -> Iterator[Token[M] | Block[M]]:
    """Divide nodes at breaks, and where spans that contain breaks begin and end."""
    for has_break, group in itertools.groupby(nodes, lambda node: node.has_break):
        if not has_break:
            yield from _block([*group])
            continue
        for node in group:
            if isinstance(node, MarkSpan):
                yield node.opening
                yield from _items(node.inside)
                yield node.closing
            else:
                yield node


def _block(nodes: list[Node[M]]) -> Iterator[Token[M] | Block[M]]:
    """Yield the text of nodes without breaks as a block, between the tokens around it."""
    with_text = [i for i, node in enumerate(nodes) if node.has_text]
    first, end = (with_text[0], with_text[-1] + 1) if with_text else (0, 0)
    yield from flat(nodes[:first])
    inner = nodes[first:end]
    if len(inner) == 1 and isinstance(span := inner[0], MarkSpan):
        yield span.opening
        yield from _block(span.inside)
        yield span.closing
    elif inner and (block := Block(inner)).has_words:
        yield block
    else:
        yield from flat(inner)
    yield from flat(nodes[end:])


_WORD_START = re.compile(rf"(?<!\S)|(?=[{LETTERWISE}])")
_MAX_UNITS = 4
"""Maximum number of units that one aligned word is told apart from. In a script without spaces, the text between two
spaces has more, and an alignment of it says little."""


class Unit(NamedTuple):
    """A word or a symbol: the characters `start` to `end` of a text."""

    start: int
    end: int
    text: str
    """The characters, or the number or placeholder that they begin with."""

    @property
    def is_word(self) -> bool:
        """Whether it is a word, not a symbol."""
        return any(map(str.isalnum, self.text))


class Origins:
    """The units of a text and of its translation, and the origin of each unit of the translation in the text.

    Words of the text are cut where markup begins or ends within them. Without words, the translation has an empty unit.
    """

    def __init__(self, source: str, translated: Translated, edges: set[int]) -> None:
        self.source = source
        self.text = translated.text
        self.src_units = _units(source, edges)
        self._starts = [unit.start for unit in self.src_units]
        self.units = _units(self.text, _same_cuts(source, self.text, edges)) or [Unit(0, 0, "")]
        word_starts = (i for i, unit in enumerate(self.units) if _WORD_START.match(self.text, unit.start))
        self._word_starts = [*word_starts, len(self.units)]
        """Units that follow white space, or begin a word in a script without spaces, and the end of the text."""
        self._src_edges, self._edges = sentence_edges(source), sentence_edges(self.text)
        if len(self._src_edges) != len(self._edges):
            del self._src_edges[1:-1], self._edges[1:-1]
        src_units = (bisect_left(self._starts, edge) for edge in self._src_edges)
        self.fixed = {next(src_units): bisect_left(self.units, (edge,)) for edge in self._edges}
        """The unit of the translation that follows an edge of a sentence, by the unit of the text that follows it."""
        self.of: list[int | None] = [None] * len(self.units)
        self._align(translated.alignment or ())
        self._match_equal()
        self.known = {unit for unit, origin in enumerate(self.of) if origin is not None}
        """Units whose origin is not a guess."""
        self.n_guessed = 0
        """Number of marks and spans whose place is a guess."""
        taken = {*self.of}
        for number, unit in enumerate(self.units):
            if self.of[number] is None and unit.is_word:
                # 1e-6: rounding must not yield a little less than a whole number
                middle = np.interp((unit.start + unit.end) / 2, self._edges, self._src_edges) + 1e-6
                origin = max(0, bisect_right(self._starts, middle) - 1)
                if self.src_units[origin].is_word and origin not in taken:
                    self.of[number] = origin
        self.last = dict(zip(self.of, range(len(self.of)), strict=True))
        """The last unit that comes from each unit of the text."""
        self._first = dict(zip(reversed(self.of), reversed(range(len(self.of))), strict=True))

    def inside(self, start: int, end: int) -> range:
        """Return the units of the text that begin between the characters `start` and `end`."""
        return range(bisect_left(self._starts, start), bisect_left(self._starts, end))

    def by_place(self, position: int) -> int:
        """Return the unit of the translation at the same relative position as a character of the text."""
        place = int(np.interp(position, self._src_edges, self._edges) + 1e-6)
        return bisect_left(self.units, place, key=lambda unit: unit.end)

    def nearest_word(self, unit: int) -> int:
        """Return the nearest unit that begins a word; the number of units stands for the end of the text."""
        return _nearest(self._word_starts, unit + 0.25)  # of two, the later

    def gap(self, position: int, is_attached: bool) -> int:
        """Return the unit of the translation that follows a mark at this character of the text.

        is_attached: whether the mark belongs to the preceding unit rather than to the following one.
        """
        following = bisect_left(self._starts, position)
        if following in self.fixed:
            return self.fixed[following]
        back = range(following - 1, -1, -1)
        forth = range(following, len(self._starts))
        near = itertools.chain(back, forth) if is_attached else itertools.chain(forth, back)
        for origin in near:
            if origin in self.last:
                unit = self.last[origin] if origin < following else self._first[origin]
                self.n_guessed += unit not in self.known
                return unit + (origin < following)
        return 0

    def _align(self, alignment: Alignment) -> None:
        """Align the units of aligned words: words in their order, and symbols with equal symbols."""
        sources: dict[tuple[int, int], set[int]] = defaultdict(set)
        for source, (start, end) in alignment:
            sources[start, end].update(_overlapping(self.src_units, *source))
        for target, origins in sources.items():
            units = _overlapping(self.units, *target)
            words = [unit for unit in units if self.units[unit].is_word]
            src_words = [unit for unit in sorted(origins) if self.src_units[unit].is_word]
            signs = {self.src_units[unit].text: unit for unit in origins.difference(src_words)}
            for unit in units:
                self.of[unit] = signs.get(self.units[unit].text)
            if max(len(words), len(src_words)) <= _MAX_UNITS * min(len(words), len(src_words)):
                for i, unit in enumerate(words):
                    self.of[unit] = src_words[i * len(src_words) // len(words)]

    def _match_equal(self) -> None:
        """Align equal units of a sentence: in their order, or each with the nearest if one text has more of them.

        Placeholders, numbers and addresses are aligned with nothing else; other units only if they are not aligned.
        """
        copied = {*protected(self.source)}
        src_places = _places(self.src_units, {*self.of}, copied, self._src_edges)
        places = _places(
            self.units, {unit for unit, origin in enumerate(self.of) if origin is not None}, copied, self._edges
        )
        ratio = len(self.src_units) / len(self.units)
        equal: dict[int, int] = {}
        for text in places.keys() & src_places:
            units = places[text]
            origins = src_places[text]
            if len(units) == len(origins):
                equal |= zip(units, origins, strict=True)
            elif len(units) < len(origins):
                equal |= {unit: _nearest(origins, unit * ratio) for unit in units}
            else:
                equal |= {_nearest(units, origin / ratio): origin for origin in origins}
        taken = {*equal.values()}
        self.of = [equal.get(unit, None if origin in taken else origin) for unit, origin in enumerate(self.of)]


def _places(
    units: Sequence[Unit], aligned: Set[int | None], copied: Set[str], edges: Sequence[int]
) -> dict[tuple[str, int], list[int]]:
    """Return the numbers of units that are not aligned, or are `copied`, by their text and the number of the sentence.

    edges: the ends of the sentences.
    """
    places = defaultdict(list)
    for number, unit in enumerate(units):
        if number not in aligned or unit.text in copied:
            places[unit.text, bisect_right(edges, unit.start)].append(number)
    return places


def _nearest(places: Sequence[int], place: float) -> int:
    """Return the one of ascending places that is nearest to a place, the earlier of two."""
    i = bisect_left(places, place)
    return min(places[max(i - 1, 0) : i + 1], key=lambda near: abs(near - place))


def _units(text: str, cuts: Set[int]) -> list[Unit]:
    """Return the words and placeholders of a text, and the symbols around them; all are also cut at `cuts`."""
    copied = {span.start: span.wanted for span in spans(text)}
    inner = {i for start, copy in copied.items() for i in range(start + 1, start + len(copy))}
    words = [word.span() for word in re.finditer(r"\S+", text)]
    edges = {start for start, _ in boundaries(text)}.union(*words).difference(inner).union(cuts)
    pairs = itertools.pairwise(sorted(edges))
    return [Unit(*pair, copied.get(pair[0], text[slice(*pair)])) for pair in pairs if not text[slice(*pair)].isspace()]


def _same_cuts(source: str, text: str, cuts: Set[int]) -> set[int]:
    """Return the offsets at which to cut a translation: inside words that its source, cut at `cuts`, contains, too."""
    same = defaultdict(set)
    for start, end, _ in _units(source, set()):
        for i in cuts & {*range(start + 1, end)}:
            same[source[start:end]].add(i - start)
    return {start + i for start, end, _ in _units(text, set()) for i in same.get(text[start:end], ())}


def _overlapping(units: Sequence[Unit], start: int, end: int) -> range:
    """Return the units that overlap with the characters `start` to `end`."""
    first = bisect_right(units, start, key=lambda unit: unit.end)
    return range(first, max(first, bisect_left(units, (end,))))


def _placed_block(block: Block[M], translated: Translated) -> tuple[int, list[Token[M]]]:
    """Return the number of marks placed by a guess, and the tokens of a block's translation: all of its text, and each
    mark of the block once."""
    if not block.pieces:
        return 0, [Text(translated.text)]
    origins = Origins(block.text, translated, block.edges)
    units = origins.units
    placed = [*_placed(origins, block.pieces, (0, len(block.text)), range(len(units)))]
    before = translated.text[: units[0].start]
    after = translated.text[units[-1].end :]
    return origins.n_guessed, [Text(before), *placed, Text(after)]


def _placed(origins: Origins, pieces: Sequence[Piece[M]], around: tuple[int, int], place: range) -> Iterator[Token[M]]:
    """Yield some units of the translation with the pieces of the span that they come from.

    around: the characters of the text that the span encloses.
    """
    text = origins.text
    units = origins.units
    position = units[place[0]].start
    stop = units[place[-1]].end
    for unit, rank, number, end in _in_order(origins, pieces, around, place):
        piece = pieces[number]
        start = units[unit - 1].end if rank == _ATTACHED else units[unit].start
        if start > position:
            yield Text(text[position:start])
            position = start  # a mark in the middle of a span goes after it
        if rank == _SPAN and isinstance(piece.node, MarkSpan):
            yield piece.node.opening
            yield from _placed(origins, piece.inside, (piece.start, piece.end), range(unit, end))
            yield piece.node.closing
            position = units[end - 1].end
            continue
        before = text[max(position - 1, 0) : position]
        after = text[position : position + 1]
        if piece.follows_space and before and position == stop and (piece.precedes_space or after != " "):
            yield Text(" ")
        yield from (token for token in flat([piece.node]) if isinstance(token, Mark))
        if piece.precedes_space and position < stop and before in ("", " "):
            yield Text(" ")
    if position < stop:
        yield Text(text[position:stop])


_ATTACHED, _BEFORE, _SPAN = range(3)
"""Ranks, in the order of the text: a mark after the previous unit, a mark before a unit, a span that begins with it."""


def _in_order(
    origins: Origins, pieces: Sequence[Piece[M]], around: tuple[int, int], place: range
) -> list[tuple[int, int, int, int]]:
    """Return the unit, the rank, the index and the end of each piece directly inside a span, in order.

    Marks with nothing between them that has a counterpart in the translation stay together.
    """
    stretches = _stretches(origins, pieces, place)
    placed = []
    mark = None
    for number, piece in enumerate(pieces):
        if number in stretches:
            mark = None
            rank = _SPAN
            unit, end = stretches[number]
        else:
            if mark is None or not origins.last.keys().isdisjoint(origins.inside(mark.end, piece.start)):
                unit, rank = _gap(origins, piece, around, place)
            mark = None if piece.node.kind == "space" else piece
            end = unit
        placed.append((unit, rank, number, end))
    return sorted(placed)


def _stretches(origins: Origins, pieces: Sequence[Piece[M]], place: range) -> dict[int, tuple[int, int]]:
    """Return the range (first, end) of units for each piece with text, by the piece's index.

    It is the longest that comes from inside the piece; without one, a unit at the same relative position, after the
    ranges that begin before it. Units of unknown origin belong to the range around them, and so does a comma between
    two of its words. A span around a lost placeholder in braces, such as a field, is a mark.
    """
    runs = _runs(origins, pieces, place)
    # a span around a placeholder in braces, which is a mark, must not stay behind in the span around it
    kept = {unit for unit in place if origins.units[unit].text[:1] == "{"}
    chosen = {}
    for number, piece in enumerate(pieces):
        if piece.n_leaves or number in runs:
            chosen[number] = _chosen(origins, piece, runs[number], kept if piece.inside else set())
    return _repaired(chosen, pieces, place)


def _runs(origins: Origins, pieces: Sequence[Piece[M]], place: range) -> dict[int | None, list[list[int]]]:
    """Return the runs of units that come from inside each piece, by the piece's index."""
    number_of = {unit: i for i, piece in enumerate(pieces) for unit in origins.inside(piece.start, piece.end)}
    runs: dict[int | None, list[list[int]]] = defaultdict(list)
    previous: int | None = -1
    for unit in place:
        origin = origins.of[unit]
        if origin is None:
            continue
        number = number_of.get(origin)
        if number is None and not (unit in origins.known and origins.units[unit].is_word):
            continue
        if number != previous:
            runs[number].append([])
        runs[number][-1].append(unit)
        previous = number
    return runs


def _chosen(origins: Origins, piece: Piece[M], runs: Sequence[list[int]], kept: set[int]) -> range:
    """Return the units of a piece: all of its sentences if it consists of whole ones, else the units of one run,
    the first with the most units in `kept`, then the most whose origin is known, then the most of all."""
    inside = origins.inside(piece.start, piece.end)
    if origins.fixed.keys() >= {inside.start, inside.stop}:
        first, end = origins.fixed[inside.start], origins.fixed[inside.stop]
    else:
        units = max(
            runs,
            key=lambda run: (len(kept.intersection(run)), len(origins.known.intersection(run)), len(run)),
            default=[],
        )
        origins.n_guessed += origins.known.isdisjoint(units)
        first, end = (units[0], units[-1] + 1) if units else (0, 0)
    if first >= end:
        first = end = origins.by_place((piece.start + piece.end) // 2)
    return range(first, end)


def _repaired(chosen: Mapping[int, range], pieces: Sequence[Piece[M]], place: range) -> dict[int, tuple[int, int]]:
    """Return ranges that do not overlap, without the empty ones.

    They are moved and extended so that no span with text becomes empty if the place has as many units as innermost
    spans with text.
    """
    stretches = {}
    start = place.start
    n_left = sum(piece.n_leaves for piece in pieces)
    for number in sorted(chosen, key=lambda number: (chosen[number].start, -chosen[number].stop)):
        n_leaves = pieces[number].n_leaves
        first = max(min(chosen[number].start, place.stop - n_left), start)
        n_left -= n_leaves
        start = min(max(min(chosen[number].stop, place.stop - n_left), first + n_leaves), place.stop)
        if first < start:
            stretches[number] = first, start
    return stretches


def _gap(origins: Origins, piece: Piece[M], around: tuple[int, int], place: range) -> tuple[int, int]:
    """Return the place of a piece without words: the following unit, and its rank.

    A mark directly after a character follows the unit that comes from this character; any other mark precedes the unit
    that comes from the next one.
    """
    is_attached = origins.source[piece.start - 1 : piece.start] != " "
    if piece.start <= around[0]:
        unit = place.start
    elif piece.end >= around[1]:
        unit = place.stop
    elif piece.node.kind == "space":  # at the same relative position, between two words
        near = min(max(origins.by_place(piece.start), place.start + 1), max(place.stop - 1, place.start))
        unit = origins.nearest_word(near)
    else:
        unit = origins.gap(piece.start, is_attached)
        if piece.follows_space and piece.precedes_space:
            unit = origins.nearest_word(unit)
    unit = min(max(unit, place.start), place.stop)
    is_before = unit == place.start or (unit < place.stop and not is_attached)
    return unit, _BEFORE if is_before else _ATTACHED
