"""Masked language modelling: some pieces of a line are masked, and the model predicts them from all other pieces (BERT;
Devlin et al., 2019, arXiv:1810.04805).

80 % of the pieces that are chosen in a line become MASK, 10 % a random learned piece, and 10 % stay. The choice is a
function of (seed, epoch, row of the line), so that a resumed run learns from the same examples.

With `training.masked.pair_task` a line is a pair, `source SEPARATOR target` (translation language modelling; Conneau
and Lample, 2019, arXiv:1901.07291). Half of the pairs get a wrong source or target of one of its kinds, on either side,
since damage that is learned on one side only is not found on the other. From them, a model learns to distinguish
translations from other lines. The choice is a function of a random number of each pair and of the pairs given together.

Legend: N lines of an update, L pieces of all lines, P pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import numpy.typing as npt

from nmt.data.batching import Pairs, joined, unpadded
from nmt.data.lines import Indices, Segments, Side
from nmt.data.random_numbers import MASKING, Hashes, fractions, hashed, key_of
from nmt.text.ids import MASK, N_SPECIAL, PAD, SEPARATOR, ranges
from nmt.text.tokenizer import Tokenizer
from nmt.training.facts import MaskedConfig, PairNegative
from nmt.training.objective import Objective

MASKED = 0.8
REPLACED = 0.1
"""Shares of the chosen pieces that become MASK and a random piece."""

_Ids = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


class Masked(Objective):
    """Masked language modelling of lines, or with the pair task of pairs."""

    def __post_init__(self) -> None:
        tokenizer = self.tokenizers[self.learned_languages[-1]]
        self.changes = [Masking(self.settings.masked, tokenizer, self.data.max_pieces, self.seed).masked]

    def examples(self, src: Side, tgt: Side, mono: Sequence[Side] = (), segments: Segments | None = None) -> Pairs:
        """Return pairs that have the same line on both sides, or with the pair task the sequence of a pair."""
        if not self.settings.masked.pair_task:
            return super().examples(src, tgt, mono, segments)
        sequences = PairSequences(src, tgt)
        return Pairs(sequences, sequences, segments)


class Masking:
    """Masking of the lines, or of the pairs, of an update."""

    def __init__(self, settings: MaskedConfig, tokenizer: Tokenizer, max_pieces: int, seed: int) -> None:
        """`tokenizer`: the tokenizer of both languages; `max_pieces`: the maximum number of pieces of each side of a
        wrong pair."""
        self._share = settings.mask_share
        self._seed = seed
        self._first_learned = tokenizer.first_learned
        self._n_learned = tokenizer.n_pieces - tokenizer.first_learned
        self._examples = PairExamples(settings.pair_task, tokenizer, max_pieces) if settings.pair_task else None

    def masked(self, pairs: Pairs, rows: Indices, epoch: int) -> Pairs:
        """Return the lines `rows` (N,) with masks; row i of the result is row `rows[i]`.

        The target is the same line without masks, of which the chosen pieces are scored. With the pair task, lines are
        `PairSequences` and get labels: 1 for a translation, 0 for a wrong pair, which is made from other pairs of
        `rows`.
        """
        corpus_rows = pairs.corpus_rows(rows)
        keys = hashed(key_of(self._seed, epoch, MASKING), corpus_rows)
        lines = unpadded(pairs.batch(rows).tgt_out)
        labels = None
        if self._examples is not None:
            lines, labels = self._examples.made(lines, _numbered(keys, 0))
        ids = np.concatenate(lines)
        ends = np.cumsum([len(line) for line in lines])
        masked, is_chosen = self._masked(ids, ends, keys)
        scored = np.split(np.insert(is_chosen, ends, values=False), ends[:-1] + np.arange(1, len(ends)))
        return Pairs.changed(np.split(masked, ends[:-1]), lines, corpus_rows, scored, labels)

    def _masked(self, ids: _Ids, ends: _Ids, keys: Hashes) -> tuple[_Ids, _Bools]:
        """Return masked ids (L,), and a mask of the chosen pieces; `ends`, `keys` (N,): the end and the key of each
        line."""
        lengths = np.diff(ends, prepend=0)
        line = np.repeat(np.arange(len(ends)), lengths)
        position = ranges(0, lengths)
        is_chosen = self._chosen(line, position, ids >= N_SPECIAL, keys)
        places = np.flatnonzero(is_chosen)
        numbers = hashed(_numbered(keys, 1)[line[places]], position[places])
        kind = fractions(numbers)
        drawn = self._first_learned + (_numbered(numbers, 0) % self._n_learned).astype(np.int64)
        masked = ids.copy()
        masked[places] = np.where(kind < MASKED, MASK, np.where(kind < MASKED + REPLACED, drawn, ids[places]))
        return masked, is_chosen

    def _chosen(self, line: Indices, position: Indices, is_text: _Bools, keys: Hashes) -> _Bools:
        """Return a mask (L,) of the chosen pieces: the given share of the text of each line, but at least one piece.

        `line`, `position`, `is_text` (L,): for each piece its line, its position there, and whether it is text.
        """
        order = np.lexsort((hashed(_numbered(keys, 2)[line], position), ~is_text, line))
        n_all, n_text = (np.bincount(line, counted, len(keys)) for counted in (None, is_text))
        n_chosen = np.floor(self._share * n_text + fractions(_numbered(keys, 3)))
        n_chosen = np.minimum(np.maximum(n_chosen, 1), n_text)
        rank = ranges(0, n_all)  # lines stay together in the order
        is_chosen = np.empty(len(line), np.bool_)
        is_chosen[order] = rank < n_chosen[line]
        return is_chosen


def _numbered(keys: Hashes, number: int) -> Hashes:
    """Return random number `number` of each key."""
    return hashed(keys, np.array([number]))


class PairSequences:
    """A side in which each line is a source and its target, joined into one sequence."""

    def __init__(self, src: Side, tgt: Side) -> None:
        self._src = src
        self._tgt = tgt

    def __len__(self) -> int:
        return len(self._src)

    def n_ids(self) -> npt.NDArray[np.int32]:
        """Return the number of ids of each sequence, (P,)."""
        n_ids: npt.NDArray[np.int32] = self._src.n_ids() + self._tgt.n_ids() + 1
        return n_ids

    def gather(self, rows: Indices, last: int) -> _Ids:
        """Return sequences `rows` (B,), each followed by the id `last`, as (B, longest), padded on the right."""
        src = self._src.gather(rows, SEPARATOR)
        tgt = self._tgt.gather(rows, last)
        ends = np.cumsum([(side != PAD).sum(1) for side in (src, tgt)], axis=0)[..., None]
        column = np.arange(int(ends[1].max(initial=0)))
        gathered = np.full((len(rows), len(column)), PAD, np.int64)
        gathered[column < ends[0]] = src[src != PAD]
        gathered[(column >= ends[0]) & (column < ends[1])] = tgt[tgt != PAD]
        return gathered


_NEAR = 8  # another line is drawn from this many shorter lines and as many longer lines


def divided(sequence: _Ids) -> tuple[_Ids, _Ids]:
    """Split a sequence into its source and its target."""
    middle = int(np.argmax(sequence == SEPARATOR))
    return sequence[:middle], sequence[middle + 1 :]


class PairExamples:
    """A maker of right and wrong pairs."""

    def __init__(self, kinds: Sequence[PairNegative], tokenizer: Tokenizer, max_pieces: int) -> None:
        """`kinds`: the kinds of wrong lines; `max_pieces`: the maximum number of pieces of a side."""
        self._kinds = kinds
        self._tokenizer = tokenizer
        self._max_pieces = max_pieces
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
        result = list(sequences)
        labels = np.ones(len(sequences), np.int64)
        for i in np.flatnonzero(numbers & np.uint64(1)).tolist():
            pair = [side[i] for side in sides]
            rng = Random(int(numbers[i]))
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
