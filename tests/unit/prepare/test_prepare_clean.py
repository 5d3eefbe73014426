"""`prepare` with optional steps of cleaning, through all its stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from folders import TRAIN, Folder, files

NOISE = [
    ("GrÃ¼ÃŸe  &amp; Dank", "kind regards &amp; thanks"),
    ("im Jahr 1990", "in the year 1991"),
    (f"{TRAIN[0][0].upper()} 7", TRAIN[0][1].upper()),
    (TRAIN[1][0], "another one"),
    (TRAIN[1][0], "yet another one"),
    ("verdammt", "darn"),
]
CLEAN = {
    "repair": ["encoding", "entities", "spaces"], "drop": ["numbers", "near_duplicates"],
    "block_lists": {"de": "bad.de"},
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    place = Folder(tmp_path)
    place.write(train=TRAIN, noise=NOISE)
    (place.folder / "text" / "bad.de").write_text("Verdammt\n", encoding="utf-8")
    return place


def test_drops_and_repairs_are_counted_by_corpus(place: Folder) -> None:
    train = [files("train"), files("noise") | {"name": "noise", "clean": {"drop": []}}]
    said = place.prepare(data__train=train, data__clean=CLEAN)
    first, second = (place.manifest()["sources"][f"train.{i}"] for i in range(2))
    assert first["dropped"] == {} and "repaired" not in first
    assert second["repaired"] == {"encoding": 1, "entities": 1, "spaces": 1}
    assert second["dropped"] == {"blocked": 1, "near_duplicate": 1}
    assert "repaired: wrong encoding 1, HTML entities 1, white space 1" in said
    assert "Grüße & Dank" in (place.data / "train.de").read_text(encoding="utf-8").split("\n")


def test_pairs_of_documents_are_near_duplicates_only_after_near_duplicates(place: Folder) -> None:
    answers = [pair for i in range(0, 200, 5) for pair in (*TRAIN[i : i + 5], ("Ja.", "Yes."))]
    again = [(src.upper(), tgt.upper()) for src, tgt in answers[:12]]
    place.write(train=[*answers, ("", ""), *again])
    place.prepare(data__documents=True, data__clean={"drop": ["near_duplicates"]})
    assert place.manifest()["sources"]["train.0"]["dropped"] == {"empty": 1, "near_duplicate": len(again)}
    assert place.corpus().follows(place.corpus().split("train")).tolist() == [0] + [1] * (len(answers) - 1)


def test_changed_block_list_prepares_again(place: Folder) -> None:
    changes = {"data__train": [files("train"), files("noise")], "data__clean": CLEAN}
    place.prepare(**changes)
    assert "nothing to do" in place.prepare(**changes)
    (place.folder / "text" / "bad.de").write_text("Katze\n", encoding="utf-8")
    assert place.prepare(**changes).startswith(f"preparing {place.data} again: bad.de has changed")
    assert "verdammt" in (place.data / "train.de").read_text(encoding="utf-8").split("\n")


def test_missing_block_list_raises(place: Folder) -> None:
    assert "gone.de: no such file" in place.refused(data__clean={"block_lists": {"de": "gone.de"}})
