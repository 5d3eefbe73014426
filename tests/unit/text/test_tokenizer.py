"""Tokenizers: lossless encoding, special ids, training and files."""

from __future__ import annotations

import io
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from fragments import parts
from nmt.errors import DataError
from nmt.layout import TokenizerDir
from nmt.text import blocks
from nmt.text import tokenizer as module
from nmt.text.blocks import BlockEncoder, Encoded
from nmt.text.imported import ImportedTokenizer, ImportedVocabulary
from nmt.text.tokenizer import (
    BOS,
    CONTROL,
    EOS,
    N_RESERVED,
    N_SPECIAL,
    PAD,
    UNK,
    LosslessTokenizer,
    Tokenizer,
    id_dtype,
    train_tokenizer,
)
from nmt.text.vocabularies import Labels, Tokenizers
from nmt.text.words import count_characters
from sentences import sentence_pairs

LINES = [line for pair in sentence_pairs(300) for line in pair]
SPACE_SIGN = "\u2581"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(LINES, 500)


def control(character: str) -> bool:
    return unicodedata.category(character) == "Cc" and character != "\t"


@given(st.lists(parts, max_size=30).map("".join))
def test_any_line_without_control_characters_is_restored(tokenizer: Tokenizer, line: str) -> None:
    ids = tokenizer.encode(line)
    assert tokenizer.decode(ids) == line
    assert all(N_SPECIAL <= i < len(tokenizer) for i in ids)


@pytest.mark.parametrize(
    "line",
    ["", " ", "  ", " a", "a ", "a  b", "\t", "a\tb\t", "\u00a0a\u00a0", "\ufeffa", "a\u2028b", "e\u0301", "Ⅷ ﬁ … Ａ",
     SPACE_SIGN, f" {SPACE_SIGN}", f"{SPACE_SIGN} ", f"a{SPACE_SIGN}{SPACE_SIGN}b", "<s> </s> <pad> <0x41>", "👩‍👩‍👧"],
)  # fmt: skip
def test_unusual_lines_survive_encoding_and_decoding(tokenizer: Tokenizer, line: str) -> None:
    assert tokenizer.decode(tokenizer.encode(line)) == line


def test_control_characters_are_encoded_as_spaces(tokenizer: Tokenizer) -> None:
    for code in [*range(0x20), *range(0x7F, 0xA0)]:
        character = chr(code)
        expected = f"a{' ' if control(character) else character}b"
        assert tokenizer.encode(f"a{character}b") == tokenizer.encode(expected), hex(code)


def test_decoded_text_has_no_line_break(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([*tokenizer.encode("Hund"), N_SPECIAL + 0x0A, N_SPECIAL + 0x0D]) == "Hund  "


def test_decode_skips_special_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([BOS, *tokenizer.encode("Der Hund"), EOS, PAD, UNK, N_SPECIAL - 1]) == "Der Hund"
    assert tokenizer.decode([N_SPECIAL + 0xFF]) == "\ufffd"


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
    assert loaded.fingerprint == tokenizer.fingerprint
    assert len(loaded.fingerprint) == 16
    assert loaded.encode_all(LINES) == tokenizer.encode_all(LINES)


def test_tokenizers_not_trained_by_nmt_are_rejected(
    tokenizer: Tokenizer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match=r"absent\.model: the tokenizer cannot be read: No such file"):
        LosslessTokenizer.load(tmp_path / "absent.model")
    foreign = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=foreign, vocab_size=80, minloglevel=2
    )
    for model, said in (
        (b"garbage", "not a SentencePiece model"),
        (b"", "not a SentencePiece model"),
        (tokenizer.model[:5000], "(not a SentencePiece model|a SentencePiece model that nmt did not)"),
        (foreign.getvalue(), "a SentencePiece model that nmt did not train"),
    ):
        (tmp_path / "a.model").write_bytes(model)
        with pytest.raises(DataError, match=rf"a\.model: {said}"):
            LosslessTokenizer.load(tmp_path / "a.model")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "options",
    [
        {"vocab_size": 120},
        {"vocab_size": 400, "model_type": "bpe", "byte_fallback": True, "pad_id": 3, "bos_id": 1, "unk_id": 0,
         "eos_id": 2, "user_defined_symbols": "{0}"},
        {"vocab_size": 400, "byte_fallback": True, "normalization_rule_name": "identity", "add_dummy_prefix": False},
    ],
    ids=["unigram", "bpe", "identity"],
)  # fmt: skip
def test_given_model_keeps_its_pieces_in_order_of_ids(options: dict[str, Any], tmp_path: Path) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, minloglevel=2, hard_vocab_limit=False, **options
    )
    vocabulary = ImportedVocabulary.of_model(model.getvalue())
    given_tokenizers = Tokenizers.of_import(vocabulary, dict.fromkeys(("en", "de"), model.getvalue()))
    processor, tokenizer = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()), given_tokenizers["de"]
    assert isinstance(tokenizer, ImportedTokenizer) and tokenizer is given_tokenizers["en"]
    for line in [*LINES[:50], "ﬁ {0} ½"]:
        ids = tokenizer.encode(line)
        assert min(ids) > EOS or UNK in ids
        assert tokenizer.decode(ids).split() == processor.decode(processor.encode(line)).split() or UNK in ids
        assert [*map(len, tokenizer.spans(line, ids))] == [2] * len(ids)
    if options.get("byte_fallback"):
        assert tokenizer.first_learned == N_SPECIAL + 256
        assert tokenizer.pieces(range(N_SPECIAL, N_SPECIAL + 256)) == [f"<0x{byte:02X}>" for byte in range(256)]
        line = "猫 Hund"
        ids = tokenizer.encode(line)
        assert tokenizer.decode(ids) == line and UNK not in ids
        assert tokenizer.spans(line, ids)[-1][1] == len(line)
    assert tokenizer.is_unigram == ("model_type" not in options and "add_dummy_prefix" not in options)
    tagged = given_tokenizers.with_tags(["to=de", "domain=a"])
    assert tagged["en"].tags == {"to=de": len(tokenizer), "domain=a": len(tokenizer) + 1}
    tagged.save(TokenizerDir(tmp_path))
    assert Tokenizers.load(TokenizerDir(tmp_path), ("de", "en")).fingerprint == tagged.fingerprint


def test_separate_tokenizers_encode_each_language(tokenizer: Tokenizer, tmp_path: Path) -> None:
    other = train_tokenizer(LINES[:100], 400)
    both = Tokenizers({"en": tokenizer, "de": other}, joint=False)
    both.save(TokenizerDir(tmp_path))
    loaded = Tokenizers.load(TokenizerDir(tmp_path), ("de", "en"))
    assert not loaded.joint
    assert loaded["de"].fingerprint == other.fingerprint
    assert loaded["en"].fingerprint == tokenizer.fingerprint
    assert loaded.fingerprint == both.fingerprint
    swapped = Tokenizers({"de": tokenizer, "en": other}, joint=False)
    assert swapped.fingerprint != both.fingerprint
    with pytest.raises(DataError, match="vocabularies for de and en, expected en and fr"):
        Tokenizers.load(TokenizerDir(tmp_path), ("en", "fr"))
    with pytest.raises(DataError, match="absent: there is no tokenizer in this directory"):
        Tokenizers.load(TokenizerDir(tmp_path / "absent"), ("en", "fr"))


# --- Counting of characters ---


@settings(max_examples=40)
@given(st.lists(st.lists(parts, max_size=9).map("".join), max_size=5))
def test_count_characters_equals_counter(lines: list[str]) -> None:
    assert count_characters(lines) == Counter("".join(lines))


# --- Labels ---


def test_label_ids_follow_sorted_order(tmp_path: Path) -> None:
    labels = Labels(["pos", "neg", "so so", "neg"])
    assert labels.names == ["neg", "pos", "so so"] and len(labels) == 3
    assert BlockEncoder(labels).encode(["pos", " so so ", "neg"]).ids.tolist() == [1, 2, 0]
    assert " pos" in labels and "Pos" not in labels
    labels.save(tmp_path / "labels.json")
    loaded = Labels.load(tmp_path / "labels.json")
    assert loaded.names == labels.names
    assert loaded.fingerprint == labels.fingerprint != Labels(["neg", "pos"]).fingerprint


def test_invalid_sets_of_labels_are_rejected() -> None:
    for names, said in (
        (["pos", "pos"], "only the label 'pos', but at least two are needed"),
        (map(str, range(1001)), r"1,001 different labels, such as '0', '1', '10', .*: this looks like text"),
    ):
        with pytest.raises(DataError, match=said):
            Labels(names)
    assert len(Labels(map(str, range(1000)))) == 1000
    with pytest.raises(DataError, match="label 'meh' is not in the training text, which has neg, pos"):
        Labels(["neg", "pos"]).id_of("meh")
    assert Labels(["a" * 100, "b"]).shown() == f"{'a' * 40}, b"


@pytest.mark.parametrize("text", ['{"labels": ["b", "a"]}', '{"labels": ["a"]}', '{"labels": ["a", ""]}', "{}", "["])
def test_damaged_file_raises(tmp_path: Path, text: str) -> None:
    path = tmp_path / "labels.json"
    with pytest.raises(DataError, match="the labels are missing"):
        Labels.load(path)
    path.write_text(text)
    with pytest.raises(DataError, match=r"labels\.json"):
        Labels.load(path)


# --- Encoding with a cache of words ---


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


def test_tokenizer_with_pieces_across_spaces_is_rejected() -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(f" {line}" for line in LINES), model_writer=model, model_type="bpe", vocab_size=500,
        hard_vocab_limit=False, pad_id=0, unk_id=1, bos_id=2, eos_id=3, byte_fallback=True, split_by_whitespace=False,
        control_symbols=[f"<reserved_{i}>" for i in range(N_RESERVED)], normalization_rule_name="identity",
        remove_extra_whitespaces=False, add_dummy_prefix=False, minloglevel=2,
    )  # fmt: skip
    with pytest.raises(DataError, match="that nmt did not train"):
        LosslessTokenizer(model.getvalue())


def test_take_selects_encoded_lines(encoder: BlockEncoder, tokenizer: Tokenizer) -> None:
    encoded = encoder.encode(LINES)
    rows = np.array([5, 3, 3, 0, len(LINES) - 1])
    check(encoded.take(rows), [LINES[row] for row in rows], tokenizer)
    check(encoded.take(rows[:0]), [], tokenizer)


def test_ids_of_large_vocabulary_have_four_bytes() -> None:
    assert (id_dtype(65_536), id_dtype(65_537)) == (np.uint16, np.uint32)


def test_target_language_of_tokenizer_without_tags_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError):
        tokenizer.encode_all(["Hund"], "swe")
