"""BPE-dropout: comparison with SentencePiece and the paper, and reproducibility."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import cycle, pairwise, repeat

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nmt.data import bpe_dropout as module
from nmt.data.batching import Pairs
from nmt.data.bpe_dropout import BpeDropout, Merges
from nmt.data.lines import Lines
from nmt.text.ids import EOS, N_SPECIAL, PAD
from nmt.text.tokenizer import Tokenizer, train_tokenizer
from nmt.text.vocabularies import Tokenizers
from nmt.training.settings import TrainingConfig
from sentences import sentence_pairs

GERMAN, ENGLISH = (list(lines) for lines in zip(*sentence_pairs(300), strict=True))
ODD = ["", " ", "  a", "a ", "\t", "a\tb", "\x00a", "\u2581", " \u2581 a\u2581b", "字", "é\u0301", "<0x41>", "aaaaa"]
NEVER = repeat(2**32 - 1)  # random numbers that leave out no merge

tricky = st.sampled_from([*" \t\u00a0\u2028\u3000\ufeff\u2581\u2585\u0301\U0001f600aeé字<>", "Hund", "<0x41>", "aaa"])
lines = st.lists(tricky | st.characters(exclude_categories=["Cs"]), max_size=30).map("".join)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([*GERMAN, *ENGLISH, *["aaaa aaaaaaa aaa"] * 50], 500)


@pytest.fixture(scope="module")
def merges(tokenizer: Tokenizer) -> Merges:
    return Merges(tokenizer)


def sentences(pairs: Pairs) -> list[tuple[list[int], list[int]]]:
    """Return the ids of every pair."""
    batch = pairs.batch(np.arange(len(pairs)))
    sides = [[[i for i in row if i not in (PAD, EOS)] for row in side.tolist()] for side in (batch.src, batch.tgt_out)]
    return list(zip(*sides, strict=True))


class Made:
    """The lines of two languages, and their pairs with dropout."""

    def __init__(self, tokenizer: Tokenizer, de: Sequence[str] = GERMAN, en: Sequence[str] = ENGLISH) -> None:
        ids = {"de": tokenizer.encode_all(de), "en": tokenizer.encode_all(en)}
        flat = {name: np.array([i for line in side for i in line], np.uint16) for name, side in ids.items()}
        ends = {name: np.cumsum([len(line) for line in side]) for name, side in ids.items()}
        self.sides = {name: Lines(flat[name], ends[name]) for name in ids}
        self.plain = list(zip(ids["de"], ids["en"], strict=True))
        self.tokenizers = Tokenizers({"de": tokenizer, "en": tokenizer}, joint=True)

    def dropout(self, rate: float = 0.2, seed: int = 1, longest: int = 1000) -> BpeDropout:
        sides = tuple((self.sides[name], self.tokenizers[name]) for name in ("de", "en"))
        return BpeDropout(sides, longest, TrainingConfig(bpe_dropout=rate, seed=seed))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def made(tokenizer: Tokenizer) -> Made:
    return Made(tokenizer, GERMAN + ODD, ENGLISH + ODD[::-1])


# --- the merges ---------------------------------------------------------------------------------


@given(lines)
@example("aaaaaaaaaaa aaaaa a")
def test_cut_without_dropout_equals_sentencepiece(tokenizer: Tokenizer, merges: Merges, line: str) -> None:
    ids = tokenizer.encode(line)
    assert merges.cut(ids, 0.0, NEVER) == ids
    letters = merges.cut(ids, 0.5, repeat(0))  # from letters they are merged again
    assert merges.cut(letters, 0.0, NEVER) == ids


@pytest.mark.parametrize("line", ODD)
def test_cut_of_unusual_lines_equals_sentencepiece(tokenizer: Tokenizer, merges: Merges, line: str) -> None:
    assert merges.cut(tokenizer.encode(line), 0.0, NEVER) == tokenizer.encode(line)


def plain_cut(pieces: list[str], ids: Sequence[int], rate: float, numbers: Iterator[int]) -> list[str]:
    """Algorithm 1 of the paper, letter by letter, without regard to speed; `pieces` are those of the vocabulary."""
    learned = {piece: i for i, piece in enumerate(pieces) if i >= N_SPECIAL + 256}
    word = [letter for i in ids for letter in (pieces[i] if pieces[i] in learned else [f"byte {pieces[i]}"])]
    while True:
        merges = [(learned.get(one + other), place) for place, (one, other) in enumerate(pairwise(word))]
        possible = sorted((new, place) for new, place in merges if new is not None)
        left = next((place for _, place in possible if next(numbers) >= round(rate * 2**32)), None)
        if left is None:
            return [piece.removeprefix("byte ") for piece in word]
        word[left : left + 2] = [word[left] + word[left + 1]]


@given(lines | st.sampled_from(GERMAN + ENGLISH), st.floats(0, 0.99), st.lists(st.integers(0, 2**32 - 1), min_size=1))
def test_cut_equals_algorithm_of_paper(
    tokenizer: Tokenizer, merges: Merges, line: str, rate: float, numbers: list[int]
) -> None:
    numbers = [*numbers, 2**32 - 1]
    ids = tokenizer.encode(line)
    found = tokenizer.pieces(merges.cut(ids, rate, cycle(numbers)))
    assert found == plain_cut(tokenizer.pieces(range(len(tokenizer))), ids, rate, cycle(numbers))
    assert tokenizer.decode(merges.cut(ids, rate, cycle(numbers))) == tokenizer.decode(ids)


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.5])
def test_merge_is_dropped_at_rate(tokenizer: Tokenizer, merges: Merges, rate: float) -> None:
    word, n = tokenizer.encode("d"), 4000
    assert tokenizer.pieces(word) == ["\u2581d"]
    left_out = sum(len(merges.cut(word, rate, module._random_numbers(b"%d" % i))) == 2 for i in range(n))
    assert abs(left_out - n * rate) < 4 * math.sqrt(n * rate * (1 - rate))


# --- an epoch -----------------------------------------------------------------------------------


def test_dropout_keeps_text(made: Made, tokenizer: Tokenizer) -> None:
    found = sentences(made.dropout(0.5).pairs(0))
    for new, plain in zip(found, made.plain, strict=True):
        assert [tokenizer.decode(side) for side in new] == [tokenizer.decode(side) for side in plain]
        assert all(i >= N_SPECIAL for side in new for i in side)
    assert sum(new != plain for new, plain in zip(found, made.plain, strict=True)) > 300


def test_epoch_is_independent_of_history(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = sentences(made.dropout().pairs(3))
    later = made.dropout()
    for epoch in (7, 0, 3, 1):
        later.pairs(epoch)
    assert sentences(later.pairs(3)) == alone
    monkeypatch.setattr(module, "_BLOCK", 7)
    assert sentences(made.dropout().pairs(3)) == alone


def test_epochs_and_seeds_differ(made: Made) -> None:
    first = sentences(made.dropout().pairs(0))
    for other in (made.dropout().pairs(1), made.dropout(seed=2).pairs(0)):
        assert sum(a != b for a, b in zip(first, sentences(other), strict=True)) > 250


def test_sides_are_cut_independently(tokenizer: Tokenizer) -> None:
    found = sentences(Made(tokenizer, GERMAN, GERMAN).dropout().pairs(0))
    assert sum(src == tgt for src, tgt in found) < 30


def test_overlong_line_keeps_its_pieces(made: Made) -> None:
    free = sentences(made.dropout(0.3).pairs(0))
    found = sentences(made.dropout(0.3, longest=16).pairs(0))
    kept = 0
    for new, without_limit, plain in zip(found, free, made.plain, strict=True):
        for side in (0, 1):
            kept += len(without_limit[side]) > 16
            assert new[side] == (plain[side] if len(without_limit[side]) > 16 else without_limit[side])
    assert 100 < kept < 500


def test_dropout_with_two_vocabularies(tokenizer: Tokenizer) -> None:
    other = train_tokenizer(ENGLISH, 330)
    made = Made(tokenizer)
    ids = other.encode_all(ENGLISH)
    flat = np.array([i for line in ids for i in line], np.uint32)
    sides = (made.sides["de"], tokenizer), (Lines(flat, np.cumsum([len(line) for line in ids])), other)
    pairs = BpeDropout(sides, 1000, TrainingConfig(bpe_dropout=0.3)).pairs(0)
    for (src, tgt), german, english in zip(sentences(pairs), GERMAN, ENGLISH, strict=True):
        assert (tokenizer.decode(src), other.decode(tgt)) == (german, english)
    assert pairs._tgt.ids.dtype == np.uint32  # type: ignore[attr-defined]
