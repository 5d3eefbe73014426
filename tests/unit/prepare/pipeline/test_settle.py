"""A development set split off the training text: the choice of pairs, dropped pairs, and messages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from folders import TEST, TRAIN, Folder, files
from nmt.errors import ConfigError, DataError
from nmt.prepare.cleaning.grouping import pair_hash
from nmt.prepare.pairs import SentencePair
from nmt.prepare.pipeline import settle as split_off
from nmt.prepare.pipeline.settle import Draw

MANY = [SentencePair(f"Satz {n}", f"sentence {n}", "") for n in range(20_000)]


def drawn(amount: int | float, pairs: list[SentencePair]) -> list[SentencePair]:
    draw = Draw(amount)
    hashes = np.array([int.from_bytes(pair_hash(pair.src, pair.tgt)[:8], "big") for pair in pairs], np.uint64)
    for part, start in enumerate(range(0, len(pairs), 700)):
        rows = np.arange(len(hashes[start : start + 700]))
        draw.offer(part, rows, hashes[start : start + 700])
    return [pairs[700 * part + row] for part, own in draw.chosen().items() for row in own]


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_split_off_share_is_stable() -> None:
    few, many = drawn(0.05, MANY[:8000]), drawn(0.05, MANY)
    first = set(MANY[:8000])
    assert few == [pair for pair in many if pair in first]
    assert 900 < len(many) < 1100
    set_of_many = set(many)
    assert set(drawn(0.05, MANY[::-1])) == set_of_many
    assert many == [pair for pair in MANY if pair in set_of_many]


def test_counted_development_set_is_stable() -> None:
    few, many = set(drawn(300, MANY[:18_000])), set(drawn(300, MANY))
    assert len(few) == len(many) == 300
    assert many - few <= set(MANY[18_000:])
    assert len(few & many) > 240
    assert set(drawn(100, MANY)) < many


def test_counted_development_set_is_at_most_a_tenth() -> None:
    assert [len(drawn(300, MANY[:n])) for n in (3000, 2999, 500, 10, 3, 1)] == [300, 299, 50, 1, 1, 1]


def test_too_small_or_large_share_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"^data\.valid: a share of 1e-05 of 5 pairs is less than one pair"):
        drawn(1e-5, MANY[:5])
    monkeypatch.setattr(split_off, "MOST_LINES", 100)
    with pytest.raises(DataError, match=r"^data\.valid: a share of 0\.5 is more than 100 pairs of this text"):
        drawn(0.5, MANY)


@pytest.mark.parametrize("amount", [20, 0.1])
def test_development_sides_are_excluded_from_training(place: Folder, amount: int | float) -> None:
    again = [(de, f"{en} Really.") for de, en in TRAIN] + [(f"Doch: {de}", en) for de, en in TRAIN]
    place.write(train=[*TRAIN, *again, *TEST[:3]])
    said = place.prepare(data__valid=amount)
    train, valid = place.pairs("train"), place.pairs("valid")
    assert valid and set(valid) <= {*TRAIN, *again}
    for side in (0, 1):
        assert not {pair[side] for pair in train} & {pair[side] for pair in valid}
    manifest = place.manifest()
    dropped = manifest["splits"]["train"]["clean"]["dropped"]
    assert dropped == {"overlap": 3, "valid": len(valid), "shared": 720 - len(train) - len(valid)}
    assert dropped["shared"] >= len(valid)
    assert manifest["splits"]["valid"]["split_off"] == {"asked": amount, "of": 720, "left_out": dropped["shared"]}
    assert manifest["splits"]["valid"]["clean"]["read"] == manifest["splits"]["valid"]["pairs"] == len(valid)
    assert "valid" not in manifest["sources"]
    asked = "20 lines, but at most a tenth" if amount == 20 else "a share of 0.1"
    assert f"valid: {len(valid)} of 720 training pairs, split off by a hash of their text ({asked}); " in said
    assert f"; {dropped['shared']} that share a side with them were left out\n" in said
    assert sorted(path.name for path in place.data.glob("cleaned*")) == []


def test_default_development_set_is_thousand_pairs_or_a_tenth(place: Folder) -> None:
    tree = place.config().model_dump()
    del tree["data"]["valid"]
    assert place.config(data__valid=1000) == place.config().model_validate(tree)
    said = place.prepare(data__valid=1000)
    assert len(place.pairs("valid")) == 24
    assert "split off by a hash of their text (1,000 lines, but at most a tenth)" in said
    assert "nothing to do" in place.prepare(data__valid=1000)
    assert "nothing to do" in place.prepare(direction="en-de", data__valid=1000)
    assert "again: data.valid was 1000, is 20" in place.prepare(data__valid=20)
    assert "again: data.valid was 20, is {files: {de: 'valid.de'" in place.prepare()
    assert "again: data.valid was {" in place.prepare(data__valid=0.2)


def test_development_set_larger_than_tenth_is_explained_by_documents(place: Folder) -> None:
    said = place.prepare(data__documents=True, data__valid=1000)
    n = len(place.pairs("valid"))
    assert n > 24
    assert f"valid: {n} of 240 training pairs" in said and "at most a tenth; more, so that documents" in said


def test_text_that_is_split_off_as_whole_raises_with_advice(place: Folder) -> None:
    place.write(train=TRAIN[:30])
    message = place.refused(data__documents=True, data__valid=1000)
    assert "split off for development 30; data.valid can name files, or" in message


def test_only_chosen_copies_of_repeated_pairs_count_as_split_off(place: Folder) -> None:
    answer = ("Ja.", "Yes.")
    place.write(train=[pair for i in range(0, 240, 5) for pair in (*TRAIN[i : i + 5], answer, ("", ""))])
    place.prepare(data__documents=True, data__valid=20)
    train, valid = place.pairs("train"), place.pairs("valid")
    n_copies = 48 - valid.count(answer)
    assert answer in valid and answer not in train and n_copies > 0
    source, report = place.manifest()["sources"]["train.0"], json.loads((place.data / "report.json").read_bytes())
    assert source["dropped"] == {"empty": 48, "valid": len(valid), "shared": n_copies}
    assert place.manifest()["splits"]["valid"]["split_off"]["left_out"] == n_copies
    samples = report["corpora"][0]["dropped_samples"]["shared"]
    assert samples and {(sample["de"], sample["en"]) for sample in samples} == {answer}


def test_repeated_pair_is_split_off_once(place: Folder) -> None:
    place.prepare(data__train=[{**files("train"), "repeat": 3}], data__valid=20)
    train, valid = place.pairs("train"), place.pairs("valid")
    assert (len(valid), len(train)) == (20, 3 * 220)
    assert not set(train) & set(valid)


def test_corpora_hold_out_a_development_set_and_test_sets(place: Folder) -> None:
    general = [(de, f"{en} Really.") for de, en in TRAIN[:40]] + [(f"Kurz: {de}", f"Short: {en}") for de, en in TRAIN]
    place.write(general=[*TRAIN[40:60], *general])
    corpora = [
        files("train") | {"name": "mine", "valid": 10, "test": 12},
        files("general") | {"name": "other", "valid": 1},
    ]
    tree = place.config(data__train=corpora, data__valid=None).model_dump()
    del tree["data"]["valid"]
    assert place.config().model_validate(tree).data.valid is None
    said = place.prepare(data__train=corpora, data__valid=None)
    train, valid, mine = place.pairs("train"), place.pairs("valid"), place.pairs("mine")
    assert len({*valid} - {*TRAIN}) == 1 and 5 < len({*valid} & {*TRAIN}) <= 10 and 8 < len({*mine} & {*TRAIN}) <= 12
    assert [*place.corpus().splits] == ["train", "valid", "mine", "test"]
    for side in (0, 1):
        in_train, in_valid, in_mine = ({pair[side] for pair in pairs} for pairs in (train, valid, mine))
        assert not in_train & (in_valid | in_mine) and not in_valid & in_mine
    dropped = place.manifest()["splits"]["train"]["clean"]["dropped"]
    assert (dropped["valid"], dropped["test"]) == (len(valid), len(mine)) and dropped["shared"] > 0
    assert f"\nmine: {len(mine)} of 2" in said and "(12 lines, but at most a tenth)" in said
    assert said.count("that share a side with them were left out") == 1
    assert "nothing to do" in place.prepare(data__train=corpora, data__valid=None)
    assert "again: data.train.0.test" in place.prepare(
        data__train=[corpora[0] | {"test": 5}, corpora[1]], data__valid=None
    )


def test_development_set_of_corpus_beside_another_is_rejected(place: Folder) -> None:
    corpus = files("train") | {"valid": 10}
    for changes in ({}, {"data__valid": 300}, {"data__valid": 0.1}):
        with pytest.raises(ConfigError) as caught:
            place.config(data__train=[corpus], **changes)
        assert "data.valid" in str(caught.value) and "\n" not in str(caught.value)
    for name in ("test", "valid", "a b"):
        with pytest.raises(ConfigError, match=f"data.test: '{name}'"):
            place.config(data__train=[files("train") | {"test": 10, "name": name}])


def test_sets_of_corpora_have_their_tags_in_every_direction(place: Folder) -> None:
    mine = {"files": {"de": "a", "en": "b"}, "name": "mine", "test": 9, "valid": 9, "tags": {"kind": "help"}}
    other = {"files": {"fr": "c", "en": "b"}, "name": "other", "test": 9}
    data = place.config(
        "", data__valid=None, data__directions=["de-en", "fr-en"], data__train=[mine, other], data__test={}
    ).data
    assert [data.tags_of(name) for name in ("valid", "mine", "other")] == [["kind=help"], ["kind=help"], []]
    assert data.towards("de-en").drawn == {"valid": {"train.0": 9}, "mine": {"train.0": 9}}
    assert data.towards("fr-en").drawn == {"other": {"train.0": 9}, "valid": {"train": 1000}}


def test_document_of_one_corpus_is_held_out_for_one_set(place: Folder) -> None:
    place.prepare(
        data__documents=True, data__train=[files("train") | {"name": "mine", "valid": 5, "test": 5}], data__valid=None
    )
    train, valid, mine = place.pairs("train"), place.pairs("valid"), place.pairs("mine")
    assert valid and mine and train and not {*valid} & {*mine} and not {*train} & {*valid, *mine}
