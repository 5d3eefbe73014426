"""Tokenizers: lossless encoding, special ids, training and files."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from fragments import parts
from nmt.errors import DataError
from nmt.prepare.pipeline.encode import count_characters
from nmt.text import tokenizer as module
from nmt.text.ids import BOS, EOS, N_RESERVED, N_SPECIAL, PAD, UNK, id_dtype
from nmt.text.tokenizer import LosslessTokenizer, Tokenizer, train_tokenizer
from sentences import sentence_pairs

LINES = [line for pair in sentence_pairs(300) for line in pair]
SPACE_SIGN = "\u2581"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(LINES, 500)


@given(st.lists(parts, max_size=30).map("".join))
def test_any_line_without_control_characters_is_restored_as_it_is_read(tokenizer: Tokenizer, line: str) -> None:
    ids = tokenizer.encode(line)
    assert tokenizer.decode(ids) == tokenizer.as_read(line)
    assert tokenizer.encode(tokenizer.as_read(line)) == ids
    assert normalize("NFC", tokenizer.decode(tokenizer.exactly().encode(line))) == normalize("NFC", line)
    assert all(N_SPECIAL <= i < len(tokenizer) for i in ids)


@pytest.mark.parametrize(
    "line",
    ["", " ", "  ", " a", "a ", "a  b", "\u00e9", "Ⅷ ﬁ … Ａ",
     SPACE_SIGN, f" {SPACE_SIGN}", f"{SPACE_SIGN} ", f"a{SPACE_SIGN}{SPACE_SIGN}b", "<s> </s> <pad> <0x41>", "👩‍👩‍👧"],
)  # fmt: skip
def test_unusual_lines_survive_encoding_and_decoding(tokenizer: Tokenizer, line: str) -> None:
    assert tokenizer.decode(tokenizer.encode(line)) == line


def test_control_characters_are_encoded_as_spaces(tokenizer: Tokenizer) -> None:
    for code in {*range(0x20), *range(0x7F, 0xA0)} - {ord("\t")}:
        assert tokenizer.encode(f"a{chr(code)}b") == tokenizer.encode("a b"), hex(code)
    assert tokenizer.decode(tokenizer.encode("a\tb")) == "a b"


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ([BOS], [EOS, PAD, UNK, N_SPECIAL - 1], "Der Hund"),
        ([], [N_SPECIAL + 0x0A, N_SPECIAL + 0x0D], "Der Hund  "),
        ([N_SPECIAL + 0xFF], [], "\ufffd Der Hund"),
    ],
)
def test_decoded_text_has_no_special_ids_and_no_line_break(
    tokenizer: Tokenizer, before: list[int], after: list[int], text: str
) -> None:
    assert tokenizer.decode([*before, *tokenizer.encode("Der Hund"), *after]) == text


def test_training_depends_on_lines_and_not_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = train_tokenizer(LINES, 400), train_tokenizer(iter(LINES), 400)
    assert first.fingerprint == second.fingerprint
    monkeypatch.setattr(module, "THREADS", 1)
    alone = train_tokenizer(LINES, 400)
    assert alone.pieces(range(400)) == first.pieces(range(400))
    assert alone.encode_all(LINES) == first.encode_all(LINES)
    assert train_tokenizer(LINES[:100], 400).fingerprint != first.fingerprint


@pytest.mark.parametrize("sign", ["\u2585", SPACE_SIGN, "\x00", "\t", "\n", "\ufffd"])
def test_tokenizer_learns_from_long_lines_and_odd_characters(sign: str) -> None:
    learned = train_tokenizer([f"Quark{sign}Quark " * 2000], 400)
    assert learned.pieces(learned.encode("Quark")) == [f"{SPACE_SIGN}Quark"]


@pytest.mark.parametrize("lines", [[], [""], ["  ", "\x00"], [SPACE_SIGN]])
def test_empty_text_raises(lines: list[str]) -> None:
    with pytest.raises(DataError, match="no text to learn a vocabulary from"):
        train_tokenizer(lines, 300)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DataError("line 3"), ValueError("odd")])
def test_reader_error_propagates(error: BaseException) -> None:
    def lines() -> Iterator[str]:
        yield from LINES[:100]
        raise error

    with pytest.raises(type(error)) as caught:
        train_tokenizer(lines(), 330, {"a": 1})
    assert caught.value is error


def test_saved_tokenizer_is_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "a.model").write_bytes(tokenizer.model)
    loaded = LosslessTokenizer.load(tmp_path / "a.model")
    assert loaded.fingerprint == tokenizer.fingerprint and len(loaded.fingerprint) == 16
    assert loaded.encode_all(LINES) == tokenizer.encode_all(LINES)


def test_tokenizers_not_trained_by_nmt_are_rejected(
    tokenizer: Tokenizer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match=r"absent\.model: the tokenizer cannot be read: No such file"):
        LosslessTokenizer.load(tmp_path / "absent.model")
    foreign, across_spaces = io.BytesIO(), io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=foreign, vocab_size=80, minloglevel=2
    )
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(f" {line}" for line in LINES), model_writer=across_spaces, model_type="bpe",
        vocab_size=500, hard_vocab_limit=False, pad_id=0, unk_id=1, bos_id=2, eos_id=3, byte_fallback=True,
        split_by_whitespace=False, control_symbols=[f"<reserved_{i}>" for i in range(N_RESERVED)],
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False, minloglevel=2,
    )  # fmt: skip
    for model, said in (
        (b"garbage", "not a SentencePiece model"),
        (b"", "not a SentencePiece model"),
        (tokenizer.model[:5000], "(not a SentencePiece model|a SentencePiece model that nmt did not)"),
        (foreign.getvalue(), "a SentencePiece model that nmt did not train"),
        (across_spaces.getvalue(), "a SentencePiece model that nmt did not train"),
    ):
        (tmp_path / "a.model").write_bytes(model)
        with pytest.raises(DataError, match=rf"a\.model: {said}"):
            LosslessTokenizer.load(tmp_path / "a.model")
    assert capfd.readouterr() == ("", "")


@settings(max_examples=40)
@given(st.lists(st.lists(parts, max_size=9).map("".join), max_size=5))
def test_count_characters_equals_counter(lines: list[str]) -> None:
    assert count_characters(lines) == Counter("".join(lines))


def test_ids_of_large_vocabulary_have_four_bytes() -> None:
    assert (id_dtype(65_536), id_dtype(65_537)) == (np.uint16, np.uint32)


def test_target_language_of_tokenizer_without_tags_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError):
        tokenizer.encode_all(["Hund"], "swe")
