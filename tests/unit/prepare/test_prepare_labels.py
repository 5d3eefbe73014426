"""`prepare` of texts with labels in place of translations."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from labelled import TEST, TRAIN, VALID, labelled_config, write_reviews
from nmt.config import Config
from nmt.data.corpus import Corpus, lines_of
from nmt.data.manifest import SplitRecord
from nmt.errors import ConfigError, DataError
from nmt.layout import DataDir
from nmt.prepare.pipeline.work import Sizes
from nmt.prepare.prepare import dry_run, prepare
from nmt.text.vocabularies import Labels
from tiny_corpus import tiny_settings, tiny_text

PAIR_TASK: dict[str, object] = {"objective": "masked", "masked": {"pair_task": ["cut"]}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, pairs in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        write_reviews(tmp_path, name, pairs)
    return tmp_path


def prepared(config: Config, tokenizer_from: Path | None = None) -> tuple[Corpus, str]:
    said: list[str] = []
    prepare(config, config.data.directory, tokenizer_from, said.append)
    return Corpus.open(DataDir(config.data.directory)), "\n".join(said)


@pytest.mark.parametrize("language", ["en", "zh"])  # before and after label in the alphabet
def test_text_and_labels_are_prepared(folder: Path, language: str) -> None:
    settings = (
        {}
        if language == "en"
        else {"tokenizer": {"vocab_size": 330, "joint": False}, "model": {"tie_embeddings": "none"}}
    )
    config = labelled_config(folder, language, **settings)
    corpus, said = prepared(config)
    labels = corpus.tokenizers.labels
    assert labels is not None and labels.names == ["neg", "pos"] and {*corpus.languages} == {"label", language}
    for name, pairs in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        split = corpus.split(name)
        assert list(zip(split.text(language), split.text("label"), strict=True)) == pairs
        assert split.ids("label").tolist() == [label == "pos" for _, label in pairs]
        assert lines_of(split, "label").n_ids().tolist() == [1] * len(pairs)
        tokenizer = corpus.tokenizers[language]
        assert split.ids(language).tolist() == [i for text, _ in pairs for i in tokenizer.encode(text)]
        assert split_record(folder, name).classes == dict(sorted(Counter(label for _, label in pairs).items()))
        corpus.verify(name)
    assert "vocabulary: 330 pieces for " + language in said
    counts = Counter(label for _, label in TRAIN)
    (most, n), (other, m) = counts.most_common()
    assert f"train: 2 labels, {most} {n} ({n / 240:.1%}), {other} {m} ({m / 240:.1%})" in said
    assert "label: " not in said.replace("for label: ", ""), "pieces per word of labels"
    page = (folder / "data" / "report.html").read_text()
    assert f'<td>pos</td><td class="n">{counts["pos"]} (' in page and "length of" not in page
    assert "nothing to do" in prepared(config)[1]


def test_labels_of_repeated_corpora_are_counted_as_often_in_shards(folder: Path) -> None:
    train = {"files": {"en": "train.txt", "label": "train.label"}, "repeat": 3}
    config = labelled_config(folder, data={"train": [train]})
    prepare(config, folder / "data", echo=lambda _: None, sizes=Sizes(shard_pairs=100))
    record = split_record(folder, "train")
    counts = Counter(label for _, label in TRAIN)
    assert record.shards and record.classes == {name: 3 * counts[name] for name in ("neg", "pos")}


def split_record(folder: Path, name: str) -> SplitRecord:
    return SplitRecord.model_validate(json.loads((folder / "data" / "manifest.json").read_text())["splits"][name])


def test_cleaning_drops_texts_but_ignores_labels(folder: Path) -> None:
    """Identical pairs and held-out texts are dropped, whatever their label; pairs with equal labels are kept."""
    (text, label), other = TRAIN[0], {"neg": "pos", "pos": "neg"}
    (held_out, its), (tested, _) = VALID[0], TEST[0]
    odd = [(text, label), (text, other[label]), (held_out, other[its]), (tested, " pos "), ("pos", "pos"), ("x", "")]
    write_reviews(folder, "train", [*TRAIN, *odd, ("an  &amp; b", "a  &amp; b"), ("words " * 200, "pos")])
    corpus, said = prepared(labelled_config(folder, data={"clean": {"repair": ["entities", "spaces"]}}))
    split = corpus.split("train")
    kept = [*TRAIN, odd[1], odd[4], ("an & b", "a  &amp; b")]
    assert list(zip(split.text("en"), split.text("label"), strict=True)) == kept
    assert "empty side 1, in a dev or test set 2, too long (characters) 1, duplicate 1" in " ".join(said.split())
    assert f"data.train: 1 text has more than one label, such as {text[:60]!r}" in said


def test_split_off_development_set_shares_no_texts_with_training(folder: Path) -> None:
    text, label = TRAIN[0]
    write_reviews(folder, "train", [*TRAIN, *((text, other) for other in ("neg", "pos") if other != label)])
    corpus, said = prepared(labelled_config(folder, data={"valid": 0.5}))
    train, valid = (set(corpus.split(name).text("en")) for name in ("train", "valid"))
    assert corpus.split("train").n + corpus.split("valid").n in (240, 241) and 60 < corpus.split("valid").n < 180
    assert not train & valid and "split off" in said


def test_labels_may_be_numbers_or_class_names(folder: Path) -> None:
    texts, numbers = [text for text, _ in TRAIN], [int(label == "pos") for _, label in TRAIN]
    rows = (json.dumps({"en": text, "label": number}) for text, number in zip(texts, numbers, strict=True))
    (folder / "plain.jsonl").write_text("".join(f"{row}\n" for row in rows))
    table = pa.table({"text": texts, "stars": pa.array([*numbers[:-1], -1], pa.int64())})
    features = {"stars": {"names": ["neg", "pos"], "_type": "ClassLabel"}, "text": {"_type": "Value"}}
    named = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    for content, name in ((table, "plain"), (named, "named")):
        parquet.write_table(content, folder / f"{name}.parquet")
        feather.write_feather(content, folder / f"{name}.arrow")
    columns = {"en": "text", "label": "stars"}
    for name, names in (
        ("plain.jsonl", ["0", "1"]),
        ("plain.parquet", ["-1", "0", "1"]),
        ("named.parquet", ["neg", "pos"]),
        ("named.arrow", ["neg", "pos"]),
    ):
        source = {"path": name} | ({} if name == "plain.jsonl" else {"columns": columns})
        corpus, said = prepared(labelled_config(folder, data={"train": [source], "valid": 20, "test": {}}))
        assert corpus.tokenizers.labels is not None and corpus.tokenizers.labels.names == names
        assert ("no text in label 1" in said) == name.startswith("named")
    (folder / "plain.jsonl").write_text('{"en": "a", "label": ["x", "y"]}\n')
    with pytest.raises(DataError, match="line 1: a list for label, where text is needed"):
        prepared(labelled_config(folder, data={"train": [{"path": "plain.jsonl"}]}))


def test_invalid_sets_of_labels_are_rejected(folder: Path) -> None:
    one, many = [(text, "pos") for text, _ in TRAIN], [(f"text {n}", f"other text {n}") for n in range(1001)]
    for train, test, run, problem in (
        (one, TEST, prepared, r"data\.train: only the label 'pos'"),
        (one, TEST, lambda config: dry_run(config, echo=lambda _: None), r"data\.train: only the label 'pos'"),
        (many, TEST, prepared, r"1,001 different labels.*this looks like text"),
        (TRAIN, [*TEST, ("so so", "meh")], prepared,
         "test, line 31: the label 'meh' is not in the training text, which has neg, pos"),
    ):  # fmt: skip
        write_reviews(folder, "train", train)
        write_reviews(folder, "test", test)
        with pytest.raises(DataError, match=problem):
            run(labelled_config(folder))
    assert not (folder / "data").exists()


def test_vocabulary_is_reused_from_translation_corpus(folder: Path) -> None:
    tiny_text(folder / "pairs", 50)
    pairs = tiny_settings(folder / "pairs", data={"dir": str(folder / "other")})
    prepare(pairs, folder / "other", echo=lambda _: None)
    corpus, said = prepared(labelled_config(folder, "bb"), folder / "other")
    assert corpus.tokenizers["bb"].fingerprint == Corpus.open(DataDir(folder / "other")).tokenizers["bb"].fingerprint
    assert isinstance(corpus.tokenizers.labels, Labels) and "not learned from this text" in said
    assert corpus.tokenizers.profiles is None
    with pytest.raises(DataError, match="its tokenizer is for aa and bb, but the texts are in en"):
        prepared(labelled_config(folder), folder / "other")


@pytest.mark.parametrize(
    ("section", "changes", "problem"),
    [
        ("data", {"direction": "label-en"}, "direction: labels must be the target: en-label, not label-en"),
        ("data", {"clean": {"drop": ["numbers"]}}, "clean.drop: numbers is not available with en-label"),
        ("data", {"max_ratio": 3.0}, "data.max_ratio: no effect on texts with labels"),
        ("data", {"clean": {"block_lists": {"label": "x"}}}, "clean.block_lists: label is not text"),
        ("data", {"mono": {"label": [{"files": {"label": "x"}}]}}, "mono: label is not a language"),
        ("data", {"train": [{"opus": "Europarl"}]}, "train.0: opus contains translations, not labels"),
        ("training", PAIR_TASK, "training.masked.pair_task: no effect on texts with labels"),
        ("training", {"modifiers": {"typos": 0.1}}, "training.modifiers: no effect on texts with labels"),
    ],
)
def test_translation_only_settings_raise(
    tmp_path: Path, section: str, changes: dict[str, object], problem: str
) -> None:
    with pytest.raises(ConfigError) as error:
        model: dict[str, object] = {"kind": "encoder"} if changes is PAIR_TASK else {}
        labelled_config(tmp_path, **{section: changes, "model": model})
    assert problem in str(error.value)


def test_cleaning_does_not_judge_labels(folder: Path) -> None:
    """Labels that are short, in capitals and of no script are kept."""
    pairs = [(text, label.upper() * 5) for text, label in TRAIN]
    write_reviews(folder, "train", [*pairs, ("LOUD AND LOUDER STILL", "POS" * 5), ("совсем другое дело", "NEG" * 5)])
    clean = {"drop": ["shouted", "near_duplicates"], "min_script": 0.5}
    corpus, said = prepared(labelled_config(folder, data={"clean": clean, "valid": 20, "test": {}}))
    assert corpus.split("train").n + corpus.split("valid").n == 240
    assert "all in capitals 1" in said and "script 1" in said


def test_near_duplicates_have_the_same_label(folder: Path) -> None:
    write_reviews(folder, "train", [*((text, "1") for text, _ in TRAIN), ("One thing", "1"), ("one thing!", "2")])
    corpus, _ = prepared(
        labelled_config(folder, data={"clean": {"drop": ["near_duplicates"]}, "valid": 20, "test": {}})
    )
    assert sum("thing" in text for name in corpus.splits for text in corpus.split(name).text("en")) == 2
