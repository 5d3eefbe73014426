"""`prepare --append`, which adds corpora to the shards of a data directory."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from folders import TEST, TRAIN, VALID, Folder, files
from nmt.errors import DataError
from nmt.files import write
from nmt.layout import DataDir
from nmt.prepare.pipeline.work import Sizes
from nmt.prepare.prepare import append

SIZES = Sizes(part_pairs=40, bucket_pairs=100, shard_pairs=60)
FIRST, NEW = TRAIN[:150], [(f"{src} Neu.", f"{tgt} New.") for src, tgt in TRAIN[:70]]
BOTH: dict[str, Any] = {"data__train": [files("train"), files("more")]}


def folder_with_more(path: Path) -> Folder:
    folder = Folder(path)
    folder.write(train=FIRST, more=[*FIRST[:20], *NEW, VALID[0], TEST[0], ("leer", "")])
    return folder


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory before anything is appended."""
    folder = folder_with_more(tmp_path_factory.mktemp("first"))
    folder.prepare(sizes=SIZES)
    return folder.data


@pytest.fixture
def place(tmp_path: Path, first: Path) -> Folder:
    folder = folder_with_more(tmp_path)
    shutil.copytree(first, folder.data)
    return folder


def pairs(place: Folder) -> Counter[tuple[str, str]]:
    found = Counter[tuple[str, str]]()
    corpus = place.corpus()
    for shard in corpus.manifest.splits["train"].shards or []:
        split = corpus.split(shard.name)
        found.update(place.pairs(shard.name))
        for language in corpus.languages:
            ids, ends = split.ids(language), split.ends(language)
            tokenizer = corpus.tokenizers[language]
            assert [tokenizer.decode(ids[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True)] == split.text(
                language
            )
    return found


def add(place: Folder, **changes: Any) -> list[str]:
    place.said.clear()
    append(place.config(**BOTH | changes), place.data, echo=place.said.append, sizes=SIZES)
    return place.said


def test_append_leaves_earlier_shards_unchanged(place: Folder) -> None:
    before, manifest = place.content(), place.manifest()
    assert add(place)[0] == "train.1 more.de: 70 of 93 pairs added"
    assert pairs(place) == Counter([*FIRST, *NEW])
    after = place.content()
    assert {name for name in before if after[name] != before[name]} == {"manifest.json", "report.html", "report.json"}
    new = place.manifest()
    train, clean = new["splits"]["train"], new["splits"]["train"]["clean"]
    assert (train["pairs"], clean["read"], clean["kept"]) == (220, 243, 220)
    assert clean["dropped"] == {"empty": 1, "overlap": 2, "duplicate": 20}
    assert [shard["source"] for shard in train["shards"]] == ["train.0"] * 2 + ["train.1"]
    assert new["sources"]["train.0"] == manifest["sources"]["train.0"]
    assert new["sources"]["train.1"]["kept"] == 70
    assert new["fingerprint"] != manifest["fingerprint"]
    assert train["text"]["de"]["words"] > manifest["splits"]["train"]["text"]["de"]["words"]
    assert "is up to date with 220 training pairs: nothing to do" in place.prepare(sizes=SIZES, **BOTH)
    assert place.left() == {"data"}
    place.prepare(sizes=SIZES, force=True, **BOTH | {"data__max_chars": 900})
    assert manifest["several"] < new["several"] == pytest.approx(place.manifest()["several"], abs=0.05)


def test_append_to_text_without_count_of_sentences_leaves_it_unknown(place: Folder) -> None:
    manifest = place.manifest()
    del manifest["several"]  # as in earlier versions
    (place.data / "manifest.json").write_text(json.dumps(manifest))
    add(place)
    assert place.corpus().manifest.several == 1.0


def test_append_prints_why_rows_and_pairs_were_left_out_as_prepare_does(place: Folder) -> None:
    rows = [f"{src}\t{tgt}\t{0.5 if i < 40 else 'x'}\n" for i, (src, tgt) in enumerate([*FIRST[:20], *NEW])]
    (place.folder / "text" / "g.tsv").write_text("".join(rows), encoding="utf-8")
    changes = {"data__train": [files("train"), {"path": "g.tsv", "columns": {"de": 1, "en": 2}, "score": 3}]}
    told = add(place, **changes)
    assert ["train.1", "g.tsv", "40", "20", "20", "duplicate", "20"] in [line.split() for line in told]
    [skipped] = [line for line in told if "no number as score 50" in line]
    assert skipped in place.prepare(sizes=SIZES, force=True, **changes | {"data__max_chars": 900}).split("\n")


@pytest.mark.parametrize("is_removed", [False, True])
def test_report_after_append_covers_all_corpora_reported_before(place: Folder, is_removed: bool) -> None:
    path, manifest = place.data / "report.json", place.manifest()
    before = json.loads(path.read_bytes())["corpora"]
    (place.data / "manifest.json").write_text(json.dumps(manifest | {"warnings": ["a warning"]}))
    if is_removed:
        path.unlink()
        before = []
    add(place)
    after, manifest = json.loads(path.read_bytes()), place.manifest()
    assert after["corpora"][:-1] == before and after["corpora"][-1]["key"] == "train.1"
    assert after["warnings"] == manifest["warnings"] and after["warnings"][0] == "a warning"
    assert after["tokenizer"]["text"] == manifest["splits"]["train"]["text"]


def test_stopped_append_resumes(place: Folder, first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = folder_with_more(place.folder / "whole")
    shutil.copytree(first, expected.data)
    add(expected)
    before = place.content()
    monkeypatch.setattr(write, "KEPT_AFTER", 0.0)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("nmt.prepare.prepare.encode_text", interrupt)
        add(place)
    assert place.content() == before
    add(place)
    names = before.keys() - {"manifest.json", "report.html", "report.json"}
    assert {name: place.content()[name] for name in names} == {name: expected.content()[name] for name in names}
    assert place.manifest()["fingerprint"] == expected.manifest()["fingerprint"]


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("split", ["valid", "mine"])
def test_append_keeps_sets_that_were_split_off(split: str, tmp_path: Path) -> None:
    place, first = Folder(tmp_path), files("train") | ({"name": "mine", "test": 12} if split == "mine" else {})
    settings: dict[str, Any] = {"data__valid": 12} if split == "valid" else {}
    place.write(train=FIRST, more=NEW)
    place.prepare(sizes=SIZES, data__train=[first], **settings)
    chosen = place.pairs(split)
    alike = [(chosen[0][0], "Another translation."), ("Ein anderer Satz.", chosen[1][1]), chosen[2]]
    place.write(more=[*alike, *NEW])
    add(place, data__train=[first, files("more")], **settings)
    assert place.pairs(split) == chosen
    assert place.manifest()["sources"]["train.1"]["dropped"] == {"overlap": 1, "shared": 2}
    assert set(NEW) <= pairs(place).keys()


def test_append_drops_long_documents_that_are_already_there(tmp_path: Path) -> None:
    place, sizes = Folder(tmp_path), Sizes(part_pairs=100, shard_pairs=60)
    place.write(train=FIRST, more=[*FIRST, *NEW])
    place.prepare(sizes=sizes, data__documents=True)
    append(place.config(**BOTH, data__documents=True), place.data, echo=place.said.append, sizes=sizes)
    assert pairs(place) == Counter([*FIRST, *NEW])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data__train": [files("train")]}, "no new corpora; append them to the end of data.train"),
        ({"data__train": [files("more"), files("train")]}, "other settings have changed: data.train.0.files.de was"),
        ({"data__train": [files("train"), {**files("more"), "tags": {"a": "b"}}]}, "lacks the tag a=b"),
        ({"data__train": [files("train"), {**files("more"), "test": 5}]}, "nothing is held out of added corpora"),
        ({"data__max_chars": 50}, "other settings have changed: data.max_chars was 1000, is 50"),
        ({"tokenizer__vocab_size": 300}, "other settings have changed: tokenizer.vocab_size was 400, is 300"),
    ],
)
def test_invalid_appends_are_rejected(place: Folder, changes: dict[str, Any], message: str) -> None:
    before = place.content()
    with pytest.raises(DataError) as caught:
        add(place, **changes)
    assert message in str(caught.value)
    assert place.content() == before and place.left() == {"data"}


def test_pairs_beside_that_are_of_other_directories_do_not_matter(place: Folder) -> None:
    facts = {"format": 1, "fingerprint": "2", "files": {}}
    others = facts | {"languages": ["cs", "de", "en"], "pairs": {"cs-de": "0" * 16}}
    DataDir(place.folder).pairs.write_text(json.dumps(others))
    add(place)
    assert pairs(place) == Counter([*FIRST, *NEW])


def test_manifest_with_foreign_paths_raises(place: Folder) -> None:
    manifest = place.manifest()
    (place.folder / "outside").write_text("x")
    fact = {"bytes": 1, "sha256": "0" * 64}
    (place.data / "manifest.json").write_text(
        json.dumps(manifest | {"files": manifest["files"] | {"../outside": fact}})
    )
    with pytest.raises(DataError, match=r"damaged: \.\./outside is not in the directory"):
        add(place)
