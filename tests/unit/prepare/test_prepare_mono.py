"""`prepare` with monolingual text: its output, dropped lines and report, and when it prepares again."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from folders import PAIRS, TEST, TRAIN, VALID, Folder, files
from nmt.data.corpus import lines_of
from nmt.errors import DataError
from nmt.prepare.pipeline import mono as stage
from nmt.prepare.pipeline.work import Sizes
from nmt.prepare.prepare import append
from nmt.recipes.directory import rooted

NEWS = [f"{tgt[:-1]}, says news {n}." for n, (_, tgt) in enumerate(PAIRS[:60])]
"""Lines that are no side of a pair."""
FIRST = [*NEWS[:10], "", "  ", *NEWS[10:20], NEWS[3], VALID[2][1], "x" * 1001, "a\x01b", "", NEWS[4], "", *NEWS[20:30]]
"""Documents of 10, 10 and 10 lines."""
MONO: dict[str, Any] = {
    "data__mono": {"en": [{"files": {"en": "one.txt"}}, {"files": {"en": "two.txt"}, "name": "II"}]}
}


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    return folder_with_mono(tmp_path)


@pytest.fixture(scope="module")
def mono(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder after `prepare` with monolingual text, which tests must not change."""
    folder = folder_with_mono(tmp_path_factory.mktemp("mono"))
    folder.prepare(**MONO)
    return folder


def folder_with_mono(path: Path) -> Folder:
    folder = Folder(path)
    write(folder, "one.txt", FIRST)
    write(folder, "two.txt", [NEWS[0], *NEWS[30:40], VALID[0][0]])
    return folder


def write(place: Folder, name: str, lines: list[str]) -> None:
    (place.folder / "text" / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_monolingual_text_has_ids_and_documents(mono: Folder) -> None:
    corpus = mono.corpus()
    assert corpus.mono_languages == ("en",)
    split, tokenizer = corpus.mono("en"), corpus.tokenizers["en"]
    lines = split.text("en")
    assert lines == [*NEWS[:40], VALID[0][0]]  # the German side of a pair that is held out is no English one
    assert split.n == len(lines)
    assert (split.ids("en").dtype, split.ends("en").dtype) == ("uint16", "int64")
    ends = split.ends("en").tolist()
    assert [split.ids("en")[a:b].tolist() for a, b in zip([0, *ends[:-1]], ends, strict=True)] == [
        tokenizer.encode(line) for line in lines
    ]
    assert (split.documents("en").tolist(), split.documents("en").dtype) == ([0, 10, 20, 30], "int64")
    corpus.verify_mono("en")
    with pytest.raises(DataError, match=r"data: no monolingual text in de; add it to data\.mono"):
        corpus.mono("de")


def test_report_contains_monolingual_text(mono: Folder) -> None:
    assert " ".join(" ".join(mono.said[1:7]).split()) == (
        "train 240 240 0 valid 30 30 0 test 30 30 0 mono.en.0 one.txt 39 30 9 blank line 4, in a dev or test set 1, "
        "control character 1, too long (characters) 1, duplicate 2 mono.en.1 II 12 11 1 duplicate 1"
    )
    dropped = {"overlap": 1, "blank": 4, "control": 1, "long": 1, "duplicate": 2}
    manifest = mono.manifest()
    source = manifest["sources"]["mono.en.0"]
    assert (source["read"], source["kept"], source["dropped"]) == (39, 30, dropped)
    assert source["files"]["en"]["name"] == "one.txt"
    record = manifest["mono"]["en"]
    assert (record["lines"], record["documents"], record["text"]["words"] > 100) == (41, 4, True)
    assert record["clean"]["dropped"] == dropped | {"duplicate": 3}
    report = json.loads((mono.data / "report.json").read_bytes())
    assert [(one["key"], one["kept"]) for one in report["mono"]] == [("mono.en.0", 30), ("mono.en.1", 11)]
    assert report["mono"][0]["dropped_samples"]["overlap"] == [{"line": 24, "en": VALID[2][1]}]
    page = (mono.data / "report.html").read_text(encoding="utf-8")
    assert "Monolingual text" in page and "duplicate (2), line 23" in page


def test_result_does_not_depend_on_block_size(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    place.prepare(data__max_pieces=25, **MONO)
    whole = place.content()
    monkeypatch.setattr(stage, "_BLOCK", 7)
    monkeypatch.setattr(stage, "_IDS", 10)
    shutil.rmtree(place.data)
    place.prepare(data__max_pieces=25, **MONO)
    assert place.content() == whole


def test_lines_with_too_many_pieces_are_dropped_from_documents(place: Folder) -> None:
    long = [" ".join(NEWS[n : n + 4]) for n in (40, 44)]
    write(place, "one.txt", [long[0], NEWS[0], NEWS[1], "", long[1], "", NEWS[2]])
    place.prepare(data__max_pieces=60, data__mono={"en": [{"files": {"en": "one.txt"}}]})
    split = place.corpus().mono("en")
    assert (split.text("en"), split.documents("en").tolist()) == (NEWS[:3], [0, 2])
    assert lines_of(split, "en").n_ids().max() <= 60
    assert place.manifest()["sources"]["mono.en.0"]["dropped"] == {"blank": 2, "pieces": 2}


def test_split_off_development_set_is_held_out_of_mono(place: Folder) -> None:
    write(place, "one.txt", [tgt for _, tgt in TRAIN])
    place.prepare(data__valid=12, data__mono={"en": [{"files": {"en": "one.txt"}}]})
    corpus = place.corpus()
    left = {tgt for _, tgt in TRAIN} - set(corpus.split("valid").text("en")) - {tgt for _, tgt in TEST}
    assert set(corpus.mono("en").text("en")) == left and corpus.mono("en").n == 228


@pytest.mark.parametrize("joint", [True, False])
def test_tokenizer_learns_from_monolingual_text(place: Folder, joint: bool) -> None:
    write(place, "one.txt", [f"xylophone {word}" for word in map("".join, itertools.permutations("qwvz"))])
    changes: dict[str, Any] = {"tokenizer__vocab_size": 600, "tokenizer__joint": joint}
    changes |= {} if joint else {"model__tie_embeddings": "none"}
    place.prepare(**changes)
    before = place.corpus().tokenizers
    place.prepare(data__mono={"en": [{"files": {"en": "one.txt"}}]}, **changes)
    after = place.corpus().tokenizers
    assert len(before["en"].encode("xylophone")) > 3 and len(after["en"].encode("xylophone")) == 1
    assert (after["de"].fingerprint == before["de"].fingerprint) == (not joint)


def test_changed_monolingual_text_prepares_again(place: Folder, prepared_once: Folder) -> None:
    shutil.copytree(prepared_once.data, place.data)
    first = place.corpus().fingerprint
    assert place.prepare(**MONO).startswith(f"preparing {place.data} again: data.mono.en was added\n")
    second = place.corpus().fingerprint
    assert "nothing to do" in place.prepare(**MONO)
    write(place, "two.txt", NEWS[50:])
    assert "again: two.txt has changed\n" in place.prepare(**MONO)
    assert len({first, second, place.corpus().fingerprint}) == 3
    renamed = {"en": [MONO["data__mono"]["en"][0], {"files": {"en": "two.txt"}, "name": "III"}]}
    assert "again: data.mono.en.1.name was 'II', is 'III'\n" in place.prepare(data__mono=renamed)
    pinned = {"en": [MONO["data__mono"]["en"][0] | {"pairs": 39}, renamed["en"][1]]}
    assert "nothing to do" in place.prepare(data__mono=pinned)
    assert "again: data.mono.en was removed\n" in place.prepare()
    assert not [name for name in place.content() if "mono" in name]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b"", "data.mono.en: the text is empty: 0 lines were read"),
        (b"\n \n", "data.mono.en: all 2 lines were dropped: blank line 2"),
        (b"good\ncaf\xe9\n", "one.txt: not UTF-8 at line 2, byte 4 of the line (0xE9)"),
        (b"good good good good\n" * 3, "data.mono.en: all 3 lines were dropped: duplicate 2, too long (pieces) 1"),
        (None, "one.txt: no such file; check data.root and files"),
    ],
)
def test_bad_monolingual_input_raises_and_leaves_no_files(place: Folder, lines: bytes | None, message: str) -> None:
    path = place.folder / "text" / "one.txt"
    path.unlink() if lines is None else path.write_bytes(lines)
    place.write(train=[("a b", "c"), ("d", "e f"), ("g", "h i")] * 5, valid=VALID[:1], test=TEST[:1])
    assert message in place.refused(data__max_pieces=3, data__mono={"en": [{"files": {"en": "one.txt"}}]})
    assert place.left() == set()


@pytest.mark.parametrize("name", ["mono.en", "mono.en.ids.npy", "mono.en.ends.npy", "mono.en.documents.npy"])
def test_damaged_monolingual_file_raises(place: Folder, mono: Folder, name: str) -> None:
    shutil.copytree(mono.data, place.data)
    data = bytearray((place.data / name).read_bytes())
    data[-1] ^= 1
    (place.data / name).write_bytes(data)
    with pytest.raises(DataError, match=rf"{name}: damaged: its checksum does not match"):
        place.corpus().verify_mono("en")
    (place.data / name).write_bytes(data[:-1])
    with pytest.raises(DataError, match=rf"{name}: \d+ bytes, but the manifest says \d+ bytes; run nmt prepare again"):
        place.corpus()


def test_append_keeps_monolingual_text(place: Folder) -> None:
    sizes = Sizes(part_pairs=40, bucket_pairs=100, shard_pairs=60)
    place.prepare(sizes=sizes, **MONO)
    before = {name: data for name, data in place.content().items() if name.startswith("mono.")}
    assert len(before) == 4
    record = place.manifest()["mono"]
    place.write(more=[(f"{src} Neu.", f"{tgt} New.") for src, tgt in TRAIN[:70]])
    two: dict[str, Any] = {"data__train": [files("train"), files("more")]}
    with pytest.raises(DataError, match=r"but other settings have changed: data\.mono\.en was removed"):
        append(place.config(**two), place.data, echo=place.said.append, sizes=sizes)
    append(place.config(**two, **MONO), place.data, echo=place.said.append, sizes=sizes)
    assert {name: data for name, data in place.content().items() if name.startswith("mono.")} == before
    assert place.manifest()["mono"] == record
    place.corpus().verify_mono("en")
    assert "nothing to do" in place.prepare(sizes=sizes, **two, **MONO)


def test_recipe_config_finds_monolingual_text(place: Folder) -> None:
    data = rooted(place.config(**MONO)).data
    assert [source.files for source in data.mono["en"]] == [
        {"en": str(place.folder / "text" / name)} for name in ("one.txt", "two.txt")
    ]
