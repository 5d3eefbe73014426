"""Pairs of lines as single sequences, `source SEPARATOR target`, and wrong pairs made from them.

From wrong pairs, a model learns to distinguish translations from other lines. Half of the pairs get a wrong source or
target of one of the kinds of `training.masked.pair_task`, on either side, since damage that is learned on one side only
is not found on the other. The choice is a function of a random number of each pair and of the pairs given together.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import numpy.typing as npt

from nmt.config.objectives import PairNegative
from nmt.data.corpus import Rows, Side
from nmt.data.random_numbers import Hashes
from nmt.text.tokenizer import PAD, SEPARATOR, Tokenizer

_Ids = npt.NDArray[np.int64]
_SEPARATOR = np.array([SEPARATOR])


def joined(src: _Ids, tgt: _Ids) -> _Ids:
    """Join the source and the target of a pair into one sequence."""
    return np.concatenate((src, _SEPARATOR, tgt))


def divided(sequence: _Ids) -> tuple[_Ids, _Ids]:
    """Split a sequence into its source and its target."""
    middle = int(np.argmax(sequence == SEPARATOR))
    return sequence[:middle], sequence[middle + 1 :]


class PairSequences:
    """A side in which each line is a source and its target, joined into one sequence."""

    def __init__(self, src: Side, tgt: Side) -> None:
        self._src, self._tgt = src, tgt

    def __len__(self) -> int:
        return len(self._src)

    def n_ids(self) -> npt.NDArray[np.int32]:
        """Return the number of ids of each sequence, (P,)."""
        n_ids: npt.NDArray[np.int32] = self._src.n_ids() + self._tgt.n_ids() + 1
        return n_ids

    def gather(self, rows: Rows, last: int) -> _Ids:
        """Return sequences `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""
        src, tgt = self._src.gather(rows, SEPARATOR), self._tgt.gather(rows, last)
        ends = np.cumsum([(side != PAD).sum(1) for side in (src, tgt)], axis=0)[..., None]
        column = np.arange(int(ends[1].max(initial=0)))
        gathered = np.full((len(rows), len(column)), PAD, np.int64)
        gathered[column < ends[0]] = src[src != PAD]
        gathered[(column >= ends[0]) & (column < ends[1])] = tgt[tgt != PAD]
        return gathered


_NEAR = 8  # another line is drawn from this many shorter lines and as many longer lines


class PairExamples:
    """A maker of right and wrong pairs."""

    def __init__(self, kinds: Sequence[PairNegative], tokenizer: Tokenizer, max_pieces: int) -> None:
        """`kinds`: the kinds of wrong lines; `max_pieces`: the maximum number of pieces of a side."""
        self._kinds, self._tokenizer, self._max_pieces = kinds, tokenizer, max_pieces
        self._begins_word = np.array(tokenizer.begins_word())
        pieces = tokenizer.pieces(range(tokenizer.n_pieces))
        self._has_digit = np.array([any(map(str.isdecimal, piece)) for piece in pieces])
        self._has_digit[: tokenizer.first_learned] = False  # the names of special pieces and bytes

    def made(self, sequences: Sequence[_Ids], numbers: Hashes) -> tuple[list[_Ids], _Ids]:
        """Return the sequences, half of them with a wrong side, and labels: 1 for right pairs, 0 for wrong ones.

        A pair that cannot be made wrong, such as a single pair, stays right. `numbers`: a random number for each pair.
        """
        sides = list(zip(*map(divided, sequences), strict=True))
        near = [_Near(side, numbers) for side in sides]
        result, labels = list(sequences), np.ones(len(sequences), np.int64)
        for i in np.flatnonzero(numbers & np.uint64(1)).tolist():
            pair, rng = [side[i] for side in sides], Random(int(numbers[i]))
            for side in rng.sample((0, 1), 2):
                wrong = self._wrong(pair[side], pair[1 - side], near[side].drawn(i, rng), rng)
                if wrong is not None:
                    pair[side] = wrong
                    result[i], labels[i] = joined(*pair), 0
                    break
        return result, labels

    def _wrong(self, line: _Ids, translation: _Ids, other: _Ids | None, rng: Random) -> _Ids | None:
        """Return a wrong line of the first possible kind, in random order; None if no kind is possible.

        `other`: the same side of another pair, if any.
        """
        for kind in rng.sample(self._kinds, len(self._kinds)):
            match kind:
                case "shuffled":
                    wrong = other
                case "cut":
                    wrong = line[: len(line) // 2]
                case "replaced":
                    wrong = None if other is None else self._replaced(line, other, rng)
                case "number":
                    wrong = self._renumbered(line, rng)
                case "copied":
                    wrong = translation
            if wrong is not None and 0 < len(wrong) <= self._max_pieces and wrong.tobytes() != line.tobytes():
                return wrong
        return None

    def _replaced(self, line: _Ids, other: _Ids, rng: Random) -> _Ids | None:
        """Return the line with one word replaced by a word of another line; None for a line of one word."""
        words = self._words(line)
        if len(words) < 2:
            return None
        words[rng.randrange(len(words))] = rng.choice(self._words(other))
        return np.concatenate(words)

    def _words(self, ids: _Ids) -> list[_Ids]:
        return np.split(ids, 1 + np.flatnonzero(self._begins_word[ids[1:]]))

    def _renumbered(self, line: _Ids, rng: Random) -> _Ids | None:
        """Return the line with one digit changed; None for a line without digits."""
        if not self._has_digit[line].any():
            return None
        text = self._tokenizer.decode(line.tolist())
        place = rng.choice([i for i, character in enumerate(text) if character.isdecimal()])
        digit = int(text[place])
        # Unicode has the ten digits of a script one after the other
        other = chr(ord(text[place]) - digit + (digit + rng.randrange(1, 10)) % 10)
        return np.array(self._tokenizer.encode_parts([f" {text[:place]}{other}{text[place + 1 :]}"])[0], np.int64)


class _Near:
    """The lines of one side in order of length, from which other lines of about the same length are drawn."""

    def __init__(self, lines: Sequence[_Ids], numbers: Hashes) -> None:
        self._lines = lines
        self._by_length = sorted(range(len(lines)), key=lambda i: (len(lines[i]), int(numbers[i])))
        self._place = {i: where for where, i in enumerate(self._by_length)}

    def drawn(self, i: int, rng: Random) -> _Ids | None:
        """Return a line near line `i` in length; None if there is no other line."""
        where = self._place[i]
        near = [j for j in self._by_length[max(0, where - _NEAR) : where + _NEAR + 1] if j != i]
        return self._lines[rng.choice(near)] if near else None
