"""Where the markup inside a text belongs in its translation.

Both texts are cut into units: words, and single signs such as a full stop, so that of `<b>Note</b>:` the colon stays
outside. Each unit of the translation comes from one of the text, by the alignment or else by its place. A span then
encloses the longest stretch of the translation that comes from inside it. Each mark is there once, and spans are inside
each other as they were, whatever the alignment says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple

from nmt.documents.inline import Block, M, Mark, Piece, Span, Text, Token, flat
from nmt.documents.origins import Origins
from nmt.documents.types import Translated

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
    """Units of a translation, and where these are in it."""

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
        """Return the pieces and their places as they follow each other in the translation."""
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
        """Return a free unit for a span that none comes from: that of the rest of its word, or one nearby."""
        src_units = self._origins.inside(piece.start, piece.end)
        if not src_units:
            return None
        if (mate := self._origins.rest_of_word(src_units)) is not None and self._is_free(mate):
            return mate
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
