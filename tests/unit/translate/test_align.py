"""Tests of word alignments: pieces of words, and diagonal alignments of copied lines."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fragments import parts as fragments
from nmt.search.forced import ForcedDecoder, Pair
from nmt.text.constraints import encode_marked, marked, without_translations
from nmt.text.ids import N_SPECIAL
from nmt.text.letters import usual_forms
from nmt.text.tokenizer import CONTROL, Tokenizer, train_tokenizer
from nmt.translate.align import alignments, pharaoh, src_word_shares, word_shares
from nmt.translate.types import BLANK_TRANSLATION, Part, Translation
from sentences import sentence_pairs

ODD = [
    "", " ", "  ", " a", "a ", "a  b", "\t", "a\tb\t", "\u00a0a\u00a0", "a\u2028b", "\ufeffa", "\u2581 \u2581",
    "x \U0001f600\U0001f600 y", "a\u2581b c", "Der  Hund, ja!", "  Der Hund", "e\u0301 f", "你好 世界", "a\u3000b",
    "ta\x00go", "\x1fa\x85b",
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([line for pair in sentence_pairs(300) for line in pair], 500)


# --- pieces of words ----------------------------------------------------------


def check_words(tokenizer: Tokenizer, ids: Sequence[int]) -> None:
    """Check that pieces with letters belong to the words of the line, and other pieces to the word that they begin."""
    words = tokenizer.decode(ids).split()
    shares = word_shares(tokenizer, ids)
    assert shares.shape == (len(words), len(ids))
    totals = shares.sum(0)
    assert np.isin(totals, (0.0, 1.0)).all()
    assert tokenizer.decode([i for i, total in zip(ids, totals, strict=True) if not total]).strip() == ""
    for word, row in zip(words, shares, strict=True):
        pieces = row.nonzero()[0]
        assert (np.diff(pieces) == 1).all(), "the pieces of a word are contiguous"
        assert (row[pieces] == 1.0).all(), "no piece of this vocabulary contains inner white space"
        assert tokenizer.decode([ids[piece] for piece in pieces]).strip() == word


@pytest.mark.parametrize("line", ODD)
def test_word_shares_cover_unusual_lines(tokenizer: Tokenizer, line: str) -> None:
    check_words(tokenizer, tokenizer.encode(line))
    assert len(word_shares(tokenizer, tokenizer.encode(line))) == len(CONTROL.sub(" ", line).split())


@given(st.lists(fragments, max_size=30).map("".join))
def test_word_shares_cover_any_line(tokenizer: Tokenizer, line: str) -> None:
    check_words(tokenizer, tokenizer.encode(line))


@given(st.lists(st.integers(0, 400), max_size=30))
def test_word_shares_cover_any_ids(tokenizer: Tokenizer, ids: list[int]) -> None:
    """A model may generate special tokens and invalid UTF-8 bytes."""
    words = tokenizer.decode(ids).split()
    shares = word_shares(tokenizer, ids)
    assert shares.shape == (len(words), len(ids))
    assert not shares[:, [place for place, i in enumerate(ids) if i < N_SPECIAL]].any()
    assert (shares.sum(1) > 0).all()


def test_space_belongs_to_next_word(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("Hund  \U0001f600 ")
    pieces = tokenizer.pieces(ids)
    assert pieces[-7:] == ["\u2581", "\u2581", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "\u2581"]
    _, emoji = word_shares(tokenizer, ids)
    assert emoji[-7:].tolist() == [0, 1, 1, 1, 1, 1, 0]


def test_piece_of_two_words_is_shared(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece may contain a no-break space, as in `10 %`."""
    pieces = ["\u2581", "1", "0\u00a0%", "\u2581ja"]
    monkeypatch.setattr(tokenizer, "pieces", lambda ids: pieces[: len(ids)])
    ids = range(N_SPECIAL + 256, N_SPECIAL + 260)
    assert word_shares(tokenizer, ids).tolist() == [[1, 1, 0.5, 0], [0, 0, 0.5, 0], [0, 0, 0, 1]]


# --- alignments from attention -----------------------------------------------------------


class FixedAttention(ForcedDecoder):
    """A decoder that returns given attention weights."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        super().__init__([], torch.device("cpu"), "float32", 1)
        object.__setattr__(self, "weights", weights)

    def attention(self, pairs: Sequence[Pair], *_: object) -> list[Tensor]:
        weights: list[Tensor] = self.__dict__["weights"]
        assert [each.shape for each in weights] == [(len(tgt) + 1, len(src) + 1) for src, tgt in pairs]
        return weights


def copied(tokenizer: Tokenizer, parts: Sequence[str]) -> tuple[FixedAttention, Translation]:
    """Return a decoder and a translation in which each piece of the parts is translated into itself."""
    ids = [tokenizer.encode(part) for part in parts]
    copies = tuple(Part(part, each, each) for part, each in zip(parts, ids, strict=True))
    return FixedAttention([torch.eye(len(each) + 1) for each in ids]), Translation("".join(parts), parts=copies)


@given(st.lists(fragments, max_size=20).map("".join), st.lists(st.integers(0, 40), max_size=3))
def test_copy_aligns_diagonally(tokenizer: Tokenizer, line: str, cuts: list[int]) -> None:
    """A word that is cut by a boundary has the same index in both parts."""
    line = tokenizer.decode(tokenizer.encode(line))  # without the characters that are read as nothing
    places = sorted({0, len(line), *(min(cut, len(line)) for cut in cuts)})
    decoder, translation = copied(tokenizer, [line[start:end] for start, end in itertools.pairwise(places)])
    [found] = alignments(decoder, tokenizer, tokenizer, [line], [translation])
    assert found == [(i, i) for i in range(len(line.split()))]


def test_words_that_are_not_read_are_counted(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "letters", usual_forms("fa", Counter()))
    read, line = ["Hund ", "Katze"], ["ـ Hund \u200f ", "\u200eـ Katze"]
    decoder, translation = copied(tokenizer, read)
    parts = [Part(text, part.src_ids, part.tgt_ids) for text, part in zip(line, translation.parts, strict=True)]
    translation = replace(translation, parts=tuple(parts))
    [found] = alignments(decoder, tokenizer, tokenizer, ["".join(line)], [translation])
    assert found == [(1, 0), (4, 1)]


def test_word_alignment_sums_attention_of_pieces(tokenizer: Tokenizer) -> None:
    src, tgt = tokenizer.encode("\U0001f600 b"), tokenizer.encode("a \U0001f600")
    assert tokenizer.pieces(src)[-1].endswith("b")
    n_emoji = len(src) - len(tokenizer.encode("b"))
    weights = torch.zeros(len(tgt) + 1, len(src) + 1)
    n_first = len(tgt) - n_emoji
    weights[:n_first, :n_emoji] = 0.6 / n_emoji  # less for each piece of the emoji than for the piece of b
    weights[:n_first, n_emoji:-1] = 0.4 / (len(src) - n_emoji)
    weights[n_first:, -1] = 1.0
    weights[n_first, :] = torch.eye(len(src) + 1)[-2]
    decoder = FixedAttention([weights])
    translation = Translation("a \U0001f600", parts=(Part("\U0001f600 b", src, tgt),))
    [found] = alignments(decoder, tokenizer, tokenizer, ["\U0001f600 b"], [translation])
    assert found == [(0, 0)], "one piece of the second word attends to b, all others to the end of sentence"


def test_attention_outside_words_gives_no_alignment(tokenizer: Tokenizer) -> None:
    src = tokenizer.encode("Hund   Katze")
    idle = int((word_shares(tokenizer, src).sum(0) == 0).nonzero()[0][0])
    tgt = tokenizer.encode("Hund")
    for nowhere in (idle, len(src)):
        for most, expected in ((0.6, []), (0.4, [(1, 0)])):
            weights = torch.zeros(len(tgt) + 1, len(src) + 1)
            weights[:, nowhere] = most
            weights[:, len(src) - 1] = 1 - most
            translation = Translation("Hund", parts=(Part("Hund   Katze", src, tgt),))
            found = alignments(FixedAttention([weights]), tokenizer, tokenizer, ["Hund   Katze"], [translation])
            assert found == [expected]


def test_blank_line_has_no_alignment(tokenizer: Tokenizer) -> None:
    empty = Translation("", parts=(Part("Hund", tokenizer.encode("Hund"), []),))
    n = len(tokenizer.encode("Hund")) + 1
    decoder = FixedAttention([torch.full((1, n), 1 / n)])
    assert alignments(decoder, tokenizer, tokenizer, ["", "Hund"], [BLANK_TRANSLATION, empty]) == [[], []]
    assert pharaoh([]) == ""


def test_inline_term_aligns_to_its_source(tokenizer: Tokenizer) -> None:
    text = "das\x01 rote Haus\x02 red house indeed\x03 da"
    ids = encode_marked(tokenizer, text)
    shares = src_word_shares(tokenizer, ids, "das rote Haus da")
    [(_, translation)] = marked(ids)
    assert shares.shape == (4, len(ids))
    assert shares[:, translation].sum(0) == pytest.approx(1.0)
    assert not shares[[0, 3]][:, translation].any() and shares[[1, 2]][:, translation].all()
    without = np.delete(shares, np.arange(translation.start, translation.stop), axis=1)
    assert (without == word_shares(tokenizer, without_translations(ids))).all()
    plain = tokenizer.encode("das rote Haus")
    assert (src_word_shares(tokenizer, plain, "das rote Haus") == word_shares(tokenizer, plain)).all()
