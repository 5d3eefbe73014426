"""`prepare` with local files: its output, its report, and messages about bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from folders import TEST, TRAIN, VALID, Folder, files
from nmt.data.corpus import lines_of
from nmt.data.manifest import TextRecord
from nmt.errors import ConfigError
from nmt.prepare.pipeline.work import Sizes
from nmt.prepare.report import TokenizerReport, lengths_of_pieces
from nmt.text.ids import EOS, UNK
from nmt.text.tokenizer import LosslessTokenizer

ODD = [("a\x00b", "c"), ("  zwei  ", ""), ("x\u2028y\ty", "z\u2581"), ("gleich", "gleich"), ("", ""), ("k" * 2000, "l")]


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_text_and_ids_agree(place: Folder) -> None:
    place.prepare()
    corpus = place.corpus()
    assert (corpus.languages, corpus.splits) == (("de", "en"), ("train", "valid", "test"))
    for name, pairs in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        split = corpus.split(name)
        assert split.n == len(pairs)
        for side, language in enumerate(corpus.languages):
            lines = split.text(language)
            assert lines == [pair[side] for pair in pairs]
            ids, ends = split.ids(language), split.ends(language)
            assert (ids.dtype, ends.dtype, lines_of(split, language).n_ids().dtype) == ("uint16", "int64", "int32")
            tokenizer = corpus.tokenizers[language]
            by_line = [ids[start:end].tolist() for start, end in zip([0, *ends[:-1]], ends, strict=True)]
            assert by_line == [tokenizer.encode(line) for line in lines]
            assert list(map(tokenizer.decode, by_line)) == lines
            assert lines_of(split, language).n_ids().tolist() == list(map(len, by_line))
            assert not {UNK, EOS} & set(ids.tolist())


def test_prepare_prints_report(place: Folder) -> None:
    place.write(
        train=[*TRAIN, TRAIN[0], VALID[3], TEST[4], ("leer", " "), ("Berlin", "Berlin"), ("x" * 1001, "y" * 900)]
    )
    said = place.prepare(tokenizer__vocab_size=300)
    assert " ".join(said.partition("de: ")[0].split()) == (
        "split read kept dropped train 246 240 6 empty side 1, in a dev or test set 2, too long (characters) 1, "
        "copied source 1, duplicate 1 valid 30 30 0 test 30 30 0 vocabulary: 300 pieces for de and en"
    )
    for told in ("de: ", "pieces per word; of the pieces ", "valid: 60 lines are decoded exactly from their pieces\n"):
        assert told in said
    assert said.endswith(f"wrote {place.data}")


def test_vocabulary_is_counted_without_tags(place: Folder) -> None:
    tagged = {"files": {"de": "train.de", "en": "train.en"}, "tags": {"domain": "help"}}
    assert "vocabulary: 300 pieces for de and en\n" in place.prepare(tokenizer__vocab_size=300, data__train=[tagged])


def test_manifest_records_sources_and_counts(place: Folder) -> None:
    place.write(train=[*TRAIN, VALID[0], ("leer", "")])
    place.prepare()
    manifest = place.manifest()
    assert (manifest["format"], manifest["languages"]) == (1, ["de", "en"])
    assert manifest["config"]["tokenizer"].items() >= {"vocab_size": 400, "joint": True}.items()
    assert manifest["config"]["data"]["max_pieces"] == 250
    assert manifest["tokenizer"]["pieces"] == {"de": 400, "en": 400}
    source = manifest["sources"]["train.0"]
    assert source["files"]["de"]["name"] == "train.de" and len(source["files"]["de"]["sha256"]) == 64
    assert (source["read"], source["kept"]) == (242, 240)
    assert manifest["splits"]["train"]["clean"]["dropped"] == {"empty": 1, "overlap": 1}
    assert manifest["splits"]["valid"]["round_trip"] == {"lines": 60, "exact": 60, "control": 0}
    assert set(manifest["files"]) == set(place.content()) - {"manifest.json", "report.json", "report.html"}


def test_references_are_never_dropped_or_altered(place: Folder) -> None:
    place.write(valid=ODD)
    said = place.prepare()
    assert place.pairs("valid") == ODD
    assert lines_of(place.corpus().split("valid"), "en").n_ids().tolist()[1] == 0
    assert "valid: 10 lines are decoded exactly from their pieces; 1 with control characters are not; 1 " in said


def test_tokenizer_learns_from_training_text_only(place: Folder) -> None:
    place.write(valid=[("Quatsch", "xylophone")] * 500)
    place.prepare(tokenizer__vocab_size=600)
    tokenizer = place.corpus().tokenizers["de"]
    assert len(tokenizer.encode("Quatsch")) > 3
    assert len(tokenizer.encode("Pferd")) == 1


def not_utf8(place: Folder) -> None:
    for language, line in (("en", b"caf\xe9\n"), ("de", b"Kaffee\n")):
        path = place.folder / "text" / f"train.{language}"
        path.write_bytes(path.read_bytes() + line)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (
            lambda place: (place.folder / "text" / "valid.en").write_bytes(b"one\n"),
            "valid.de has 30 lines, valid.en 1: they must pair line by line",
        ),
        (not_utf8, "train.en: not UTF-8 at line 241, byte 4 of the line (0xE9)"),
        (
            lambda place: (place.folder / "text" / "test.de").unlink(),
            "test.de: no such file; check data.root and files",
        ),
        (lambda place: place.write(train=[]), "data.train: the training corpus is empty: 0 pairs were read"),
        (lambda place: place.write(valid=[]), "data.valid (valid.de): 0 pairs were read"),
        (lambda place: place.write(test=[]), "data.test.test (test.de): 0 pairs were read"),
        (
            lambda place: place.write(valid=[("", ""), ("ja", " ")]),
            "data.valid (valid.de): no pair has text on both sides, only blank lines",
        ),
        (
            lambda place: place.write(train=[("a\x00", "b\x00")]),
            "data.train: all 1 training pairs were dropped: control character 1; is it text, with a line feed",
        ),
        (
            lambda place: place.write(train=[("a", "a"), ("b", "b"), ("", "")]),
            "dropped: empty side 1, copied source 2; both sides are identical: is this one file with both languages?",
        ),
        (
            lambda place: place.write(train=[("a", ""), ("b", "b"), *TEST]),
            "data.train: all 32 training pairs were dropped: empty side 1, in a dev or test set 30, copied source 1",
        ),
    ],
)
def test_bad_input_raises_one_line_error_and_leaves_no_files(
    place: Folder, break_it: Callable[[Folder], object], message: str
) -> None:
    break_it(place)
    assert message in place.refused()
    assert place.left() == set()


def test_identical_held_out_sides_warn(place: Folder) -> None:
    same = [("eins", "eins"), ("zwei", "zwei")]
    place.write(valid=same, test=same)
    said = place.prepare()
    for name in ("data.valid (valid.de)", "data.test.test (test.de)"):
        warning = f"{name}: both sides are identical: is this one file with both languages?"
        assert f"warning: {warning}" in said and warning in place.manifest()["warnings"]


def test_irreversible_reference_raises(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(test=[("eins", "one"), ("zwei ", "two")])
    decode = LosslessTokenizer.decode
    monkeypatch.setattr(LosslessTokenizer, "decode", lambda self, ids: decode(self, ids).replace("zwei ", "zwei"))
    assert place.refused() == "test.de, line 2: the tokenizer does not restore the line from its pieces"
    assert place.left() == set()


def test_each_source_has_its_own_counts(place: Folder) -> None:
    long = (" ".join(pair[0] for pair in TRAIN[:6]), " ".join(pair[1] for pair in TRAIN[:6]))
    place.write(train=TRAIN[:100], more=[long, *TRAIN[90:], long[::-1]], last=[("eins", "one"), long])
    sources = [files("train"), files("more"), files("last")]
    said = place.prepare(sizes=Sizes(part_pairs=7), data__train=sources, data__max_pieces=60)
    manifest = place.manifest()
    records = [manifest["sources"][f"train.{i}"] for i in range(3)]
    assert [(record["read"], record["kept"], record["dropped"]) for record in records] == [
        (100, 100, {}), (152, 140, {"duplicate": 10, "pieces": 2}), (2, 1, {"duplicate": 1}),
    ]  # fmt: skip
    assert manifest["splits"]["train"]["clean"]["dropped"] == {"duplicate": 11, "pieces": 2}
    assert [" ".join(line.split()) for line in said.split("\n")[:5]] == [
        "split read kept dropped",
        "train 254 241 13 duplicate 11, too long (pieces) 2",
        "train.0 train.de 100 100 0",
        "train.1 more.de 152 140 12 duplicate 10, too long (pieces) 2",
        "train.2 last.de 2 1 1 duplicate 1",
    ]
    train = place.corpus().split("train")
    assert (train.n, train.text("de")[-1]) == (241, "eins") and lines_of(train, "de").n_ids().max() <= 60


def test_corpus_with_too_many_pieces_in_all_pairs_gives_warning(place: Folder) -> None:
    place.write(more=[(" ".join(pair[0] for pair in TRAIN[:6]), " ".join(pair[1] for pair in TRAIN[:6]))])
    place.prepare(data__train=[files("train"), files("more")], data__max_pieces=60)
    [warning] = place.manifest()["warnings"]
    assert warning.startswith("data.train.1 (more.de): none of its pairs is kept: too long (pieces) 1")


def test_corpus_is_repeated(place: Folder) -> None:
    place.write(train=TRAIN[:100], more=[*TRAIN[90:], ("eins", "one")])
    place.prepare(sizes=Sizes(part_pairs=7), data__train=[{**files("train"), "repeat": 3}, files("more")])
    train = place.corpus().split("train")
    n_other = len(TRAIN) - 100 + 1  # those that both have are of the first
    assert train.n == 3 * 100 + n_other
    for side, language in enumerate(("de", "en")):
        lines = train.text(language)
        assert lines[:300] == [pair[side] for pair in TRAIN[:100] for _ in range(3)]
        assert len(set(lines[300:])) == n_other
    with pytest.raises(ConfigError, match=r"data\.valid\.repeat: only available for training corpora"):
        place.prepare(data__valid={**files("dev"), "repeat": 2})


def test_vocabularies_are_separate_if_not_joint(place: Folder) -> None:
    changes = {"tokenizer__joint": False, "tokenizer__vocab_size": 450, "model__tie_embeddings": "target"}
    assert "vocabulary: 450 pieces for de\nvocabulary: 450 pieces for en\n" in place.prepare(**changes)
    tokenizers = place.corpus().tokenizers
    assert not tokenizers.joint
    assert len(tokenizers["de"].encode("Pferd")) < len(tokenizers["en"].encode("Pferd"))


@pytest.mark.parametrize(
    ("language", "words", "said"),
    [
        ("de", 1000, "2.50 pieces per word; of the pieces 0.00% are single bytes, 0.00% unknown"),
        ("ko", 1000, "2.50 pieces per word; "),
        ("zh", 1000, "2.20 characters per piece; of the pieces 0.00% are single bytes, 0.00% unknown"),
        ("ja_JP", 1000, "2.20 characters per piece; "),
        ("aa", 400, "2.20 characters per piece; "),  # 13.75 characters a word: no language with spaces has such
    ],
)
def test_length_of_pieces_is_given_in_words_or_characters(language: str, words: int, said: str) -> None:
    counts = TextRecord(words=words, characters=5500, pieces=2500, bytes=0, unknown=0)
    [line] = lengths_of_pieces(TokenizerReport(joint=True, pieces={}, text={language: counts}))
    assert line.startswith(f"{language}: {said}")
