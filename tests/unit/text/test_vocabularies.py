"""Vocabularies of both languages: tokenizers, imported ones, and labels."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from nmt.errors import DataError
from nmt.layout import TokenizerDir
from nmt.text.blocks import BlockEncoder
from nmt.text.ids import EOS, N_SPECIAL, UNK
from nmt.text.imported import ImportedTokenizer, ImportedVocabulary
from nmt.text.tokenizer import Tokenizer, train_tokenizer
from nmt.text.vocabularies import Labels, Tokenizers
from nmt.translate.align import word_shares
from sentences import sentence_pairs

LINES = [line for pair in sentence_pairs(300) for line in pair]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(LINES, 500)


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


@pytest.mark.parametrize("has_bytes", [False, True])
def test_pieces_that_segmenter_lacks_are_decoded_with_spaces(has_bytes: bool) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, minloglevel=2, vocab_size=420, byte_fallback=has_bytes,
        hard_vocab_limit=False,
    )  # fmt: skip
    vocabulary = ImportedVocabulary.of_model(model.getvalue())
    others = ["\u2581நாய்", "கள்", "\u2581نئے\u2581گھر", "\u2581"]
    pieces = [[*vocabulary.pieces[0][:-1], *others, vocabulary.pieces[0][-1]]]
    tokenizer = ImportedTokenizer(model.getvalue(), vocabulary.model_copy(update={"pieces": pieces}), 0)
    nai, plural, house, space = [tokenizer.pieces(range(len(tokenizer))).index(piece) for piece in others]
    dog = tokenizer.encode("dog")
    for ids, text in [
        ([nai, plural, nai], "நாய்கள் நாய்"),
        ([*dog, house, *dog, nai], "dog نئے گھر dog நாய்"),
        ([space, nai, space, plural], "நாய் கள்"),
    ]:
        assert tokenizer.decode(ids) == text
        assert word_shares(tokenizer, ids).shape == (len(text.split()), len(ids))
    if has_bytes:  # a sign of the text, which the model has spelled in bytes
        spelled = [N_SPECIAL + byte for byte in "\u2581".encode()]
        assert tokenizer.decode([*dog, *spelled, nai]) == "dog\u2581 நாய்"


def test_separate_tokenizers_encode_each_language(tokenizer: Tokenizer, tmp_path: Path) -> None:
    other = train_tokenizer(LINES[:100], 400)
    both = Tokenizers({"en": tokenizer, "de": other}, joint=False)
    both.save(TokenizerDir(tmp_path))
    loaded = Tokenizers.load(TokenizerDir(tmp_path), ("de", "en"))
    assert not loaded.joint and loaded.fingerprint == both.fingerprint
    assert (loaded["de"].fingerprint, loaded["en"].fingerprint) == (other.fingerprint, tokenizer.fingerprint)
    assert Tokenizers({"de": tokenizer, "en": other}, joint=False).fingerprint != both.fingerprint
    with pytest.raises(DataError, match="vocabularies for de and en, expected en and fr"):
        Tokenizers.load(TokenizerDir(tmp_path), ("en", "fr"))
    with pytest.raises(DataError, match="absent: there is no tokenizer in this directory"):
        Tokenizers.load(TokenizerDir(tmp_path / "absent"), ("en", "fr"))


def test_label_ids_follow_sorted_order(tmp_path: Path) -> None:
    labels = Labels(["pos", "neg", "so so", "neg"])
    assert labels.names == ["neg", "pos", "so so"] and len(labels) == 3
    assert BlockEncoder(labels).encode(["pos", " so so ", "neg"]).ids.tolist() == [1, 2, 0]
    assert " pos" in labels and "Pos" not in labels
    labels.save(tmp_path / "labels.json")
    loaded = Labels.load(tmp_path / "labels.json")
    assert (loaded.names, loaded.fingerprint) == (labels.names, labels.fingerprint)
    assert labels.fingerprint != Labels(["neg", "pos"]).fingerprint


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
