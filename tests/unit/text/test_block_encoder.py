"""Encoding through a cache of words: the same ids and counts as line by line, whatever the text and however full."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from fragments import parts
from nmt.text import block_encoder
from nmt.text import block_encoder as word_cache
from nmt.text.block_encoder import BlockEncoder, Encoded, id_dtype
from nmt.text.tokenizer import N_RESERVED, Tokenizer, train_tokenizer
from sentences import sentence_pairs

LINES = [line for pair in sentence_pairs(300) for line in pair]
WORDS = ["x" * n for n in (7, 8, 9, 15, 16, 17, 23, 24, 25, 60)] + [
    "x" * 24 + "é",
    "xxxxxxxx\u2581",
    "\u0085",
    "\x1c",
    "\x00",
]
LINE = st.lists(st.one_of(parts, st.sampled_from([" ", " ", "  ", *WORDS])), max_size=20).map("".join)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(LINES, 500)


@pytest.fixture(scope="module")
def encoder(tokenizer: Tokenizer) -> BlockEncoder:
    return BlockEncoder(tokenizer)


def check(encoded: Encoded, lines: list[str], tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_all(lines)
    assert encoded.ids.dtype == id_dtype(len(tokenizer))
    assert encoded.ids.tolist() == [i for line in ids for i in line]
    assert encoded.lengths.tolist() == [len(line) for line in ids]
    assert encoded.words.tolist() == [len(line.split()) for line in lines]
    assert encoded.characters.tolist() == [sum(map(len, line.split())) for line in lines]


@given(st.lists(LINE, max_size=8))
def test_any_lines(encoder: BlockEncoder, tokenizer: Tokenizer, lines: list[str]) -> None:
    check(encoder.encode(lines), lines, tokenizer)


@pytest.mark.parametrize(
    "lines",
    [[], [""], ["", ""], [" "], ["", " ", ""], ["a", "", "b"], [" a"], ["a "], ["a  b"], ["a\tb \u00a0"], ["\u2581"],
     ["a\u2581 b"], ["a\nb"], ["a\x00b", "\x85"], ["\n"], ["\x7f a"], ["x" * 100_000], ["字" * 1000, "字 字"]],
)  # fmt: skip
def test_these_lines(encoder: BlockEncoder, tokenizer: Tokenizer, lines: list[str]) -> None:
    check(encoder.encode(lines), lines, tokenizer)


def test_several_blocks(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_encoder, "_LINES", 7)
    check(BlockEncoder(tokenizer).encode(LINES), LINES, tokenizer)


def test_long_words_with_the_same_beginning(tokenizer: Tokenizer) -> None:
    encoder = BlockEncoder(tokenizer)
    for n in (24, 25, 60, 24, 25, 60):
        check(encoder.encode(["x" * n]), ["x" * n], tokenizer)


def test_words_that_share_a_slot(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_cache, "_SLOT_BITS", 2)
    encoder = BlockEncoder(tokenizer)
    for start in range(0, len(LINES), 10):
        lines = LINES[start : start + 10]
        check(encoder.encode(lines), lines, tokenizer)


def test_a_full_cache_is_emptied(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_cache, "_CACHED_BYTES", 1000)
    monkeypatch.setattr(block_encoder, "_LINES", 1)
    monkeypatch.setattr(word_cache, "_SLOT_BITS", 6)
    encoded: list[str] = []
    encode_words = Tokenizer.encode_words

    def recording(self: Tokenizer, words: Sequence[str]) -> list[list[int]]:
        encoded.extend(words)
        return encode_words(self, words)

    monkeypatch.setattr(Tokenizer, "encode_words", recording)
    lines = [f"a {i}" for i in range(20)]
    check(BlockEncoder(tokenizer).encode(lines), lines, tokenizer)
    assert encoded.count("a") == 5  # 5 words have more than 1000 bytes


def test_pieces_that_span_a_space_are_found_and_heeded() -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(f" {line}" for line in LINES), model_writer=model, model_type="bpe", vocab_size=500,
        hard_vocab_limit=False, pad_id=0, unk_id=1, bos_id=2, eos_id=3, byte_fallback=True, split_by_whitespace=False,
        control_symbols=[f"<reserved_{i}>" for i in range(N_RESERVED)], normalization_rule_name="identity",
        remove_extra_whitespaces=False, add_dummy_prefix=False, minloglevel=2,
    )  # fmt: skip
    tokenizer = Tokenizer(model.getvalue())
    assert not tokenizer.splits_at_spaces
    check(BlockEncoder(tokenizer).encode(LINES), LINES, tokenizer)


def test_lines_are_taken(encoder: BlockEncoder, tokenizer: Tokenizer) -> None:
    encoded = encoder.encode(LINES)
    rows = np.array([5, 3, 3, 0, len(LINES) - 1])
    check(encoded.take(rows), [LINES[row] for row in rows], tokenizer)
    check(encoded.take(rows[:0]), [], tokenizer)


def test_a_large_vocabulary_has_four_bytes_an_id() -> None:
    assert id_dtype(65_536) is np.uint16
    assert id_dtype(65_537) is np.uint32
