"""Encoding of many lines into one array, with a cache of words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fragments import parts
from nmt.text import blocks
from nmt.text.blocks import BlockEncoder, Encoded
from nmt.text.ids import id_dtype, ranges
from nmt.text.tokenizer import CONTROL, LosslessTokenizer, Tokenizer, train_tokenizer
from sentences import sentence_pairs


def test_ranges_of_any_length_are_concatenated() -> None:
    assert ranges(np.array([7, 3, 0]), np.array([2, 0, 3])).tolist() == [7, 8, 0, 1, 2]
    assert ranges(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []
    assert ranges(0, np.array([2, 0, 3])).tolist() == [0, 1, 0, 1, 2]


LINES = [line for pair in sentence_pairs(300) for line in pair]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(LINES, 500)


WORDS = ["x" * n for n in (7, 8, 9, 15, 16, 17, 23, 24, 25, 60)] + [
    "x" * 24 + "é",
    "xxxxxxxx\u2581",
    "\u0085",
    "\x1c",
    "\x00",
]
LINE = st.lists(st.one_of(parts, st.sampled_from([" ", " ", "  ", *WORDS])), max_size=20).map("".join)


@pytest.fixture(scope="module")
def encoder(tokenizer: Tokenizer) -> BlockEncoder:
    return BlockEncoder(tokenizer)


def check(encoded: Encoded, lines: list[str], tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_all(lines)
    assert encoded.ids.dtype == id_dtype(len(tokenizer))
    assert encoded.ids.tolist() == [i for line in ids for i in line]
    assert encoded.lengths.tolist() == [len(line) for line in ids]
    words = [CONTROL.sub(" ", line).split() for line in lines]
    assert encoded.words.tolist() == list(map(len, words))
    assert encoded.characters.tolist() == [sum(map(len, of_line)) for of_line in words]


@settings(max_examples=50)
@given(st.lists(LINE, max_size=8))
def test_block_encoder_equals_encode_for_any_lines(
    encoder: BlockEncoder, tokenizer: Tokenizer, lines: list[str]
) -> None:
    check(encoder.encode(lines), lines, tokenizer)


def test_word_cache_handles_hash_collision(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_SLOT_BITS", 2)
    encoder = BlockEncoder(tokenizer)
    for start in range(0, len(LINES), 10):
        lines = LINES[start : start + 10]
        check(encoder.encode(lines), lines, tokenizer)


def test_full_word_cache_is_cleared(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_CACHED_BYTES", 1000)
    monkeypatch.setattr(blocks, "_LINES", 1)
    monkeypatch.setattr(blocks, "_SLOT_BITS", 6)
    encoded: list[str] = []
    encode_parts = LosslessTokenizer.encode_parts

    def recording(self: LosslessTokenizer, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        encoded.extend(texts if threads == 1 else ())
        return encode_parts(self, texts, threads)

    monkeypatch.setattr(LosslessTokenizer, "encode_parts", recording)
    lines = [f"a {i}" for i in range(20)]
    check(BlockEncoder(tokenizer).encode(lines), lines, tokenizer)
    assert encoded.count(" a") == 5  # 5 words have more than 1000 bytes


def test_take_selects_encoded_lines(encoder: BlockEncoder, tokenizer: Tokenizer) -> None:
    encoded = encoder.encode(LINES)
    rows = np.array([5, 3, 3, 0, len(LINES) - 1])
    check(encoded.take(rows), [LINES[row] for row in rows], tokenizer)
    check(encoded.take(rows[:0]), [], tokenizer)
