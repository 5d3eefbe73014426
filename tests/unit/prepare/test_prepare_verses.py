"""`nmt prepare` with Scripture in USFM: folders of two projects, whole books as test sets, and what is refused."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import Command
from folders import PAIRS, Folder
from nmt.config.load import dump_config
from nmt.recipes.directory import rooted

MARK, JOHN = PAIRS[:200], PAIRS[200:260]
FILES = {"de": "deu/", "en": "eng/"}
LEFT_OUT = "\\f + \\ft a note\\f*\n\\s A heading\n\\p\n"


def book(code: str, lines: list[str]) -> str:
    """Return a book with twenty verses in a chapter."""
    text = [f"\\id {code}\n\\h {code}\n"]
    for number, line in enumerate(lines):
        if number % 20 == 0:
            text.append(f"\\c {number // 20 + 1}\n\\p\n")
        text.append(f"\\v {number % 20 + 1} {line}{LEFT_OUT if number % 7 == 0 else ''}\n")
    return "".join(text)


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    """A folder with two projects: the English one lacks two verses of Mark, and has two others together."""
    place = Folder(tmp_path)
    for side, name in enumerate(FILES.values()):
        project = tmp_path / "text" / name
        project.mkdir()
        (project / "Settings.xml").write_text("<ScriptureText/>")
        texts = {"41MRKa.SFM": ("MRK", MARK), "43JHNa.usfm": ("JHN", JOHN)}
        for file, (code, pairs) in texts.items():
            text = book(code, [pair[side] for pair in pairs])
            if side and code == "MRK":
                text = text.replace("\\v 3 ", "\\rem ", 1).replace("\\v 4 ", "\\rem ", 1)
                text = text.replace("\\v 5 ", "\\v 5-6 ", 1).replace("\\v 6 ", "", 1)
            (project / file).write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    return place


def changes(**more: Any) -> dict[str, Any]:
    source = {"files": FILES, "name": "projects"}
    tests = {"john": {"files": FILES, "books": ["JHN"]}}
    return {"data__train": [source], "data__valid": 20, "data__documents": True, "data__test": tests, **more}


def run(nmt: Command, place: Folder, *arguments: object, **more: Any) -> Any:
    (place.folder / "mine.yaml").write_text(dump_config(place.config(**changes(**more))), encoding="utf-8")
    return nmt("prepare", "--config", place.folder / "mine.yaml", "--data", place.data, *arguments)


def test_projects_are_paired_by_verse_and_a_book_is_held_out(nmt: Command, place: Folder) -> None:
    result = run(nmt, place)
    assert result.status == 0, result.err
    assert place.pairs("john") == JOHN
    valid, train = place.pairs("valid"), place.pairs("train")
    [together] = [pair for pair in valid + train if len(pair[0].split(". ")) > 1 and pair[1].startswith(MARK[4][1])]
    assert together == tuple(" ".join(MARK[verse][side] for verse in (4, 5)) for side in (0, 1))
    kept = {*MARK} - {MARK[2], MARK[3], MARK[4], MARK[5]}
    assert {*valid, *train} <= {*kept, together}
    assert not {*train} & {*JOHN}
    report = json.loads((place.data / "report.json").read_bytes())
    [corpus] = report["corpora"]
    assert corpus["skipped"] == {"no text in en": 2}
    assert corpus["dropped"]["overlap"] == len(JOHN)
    follow = np.load(place.data / "valid.follows.npy")
    assert 0 < np.count_nonzero(follow) < len(follow)  # chapters, whole


def test_projects_are_prepared_again_if_a_book_has_changed(nmt: Command, place: Folder) -> None:
    assert run(nmt, place).status == 0
    (place.folder / "text" / "deu" / "Settings.xml").write_text("<ScriptureText>changed</ScriptureText>")
    before = place.content()
    assert run(nmt, place).status == 0
    assert place.content() == before
    with (place.folder / "text" / "deu" / "43JHNa.usfm").open("a", encoding="utf-8") as file:
        file.write("\\v 21 Ein neuer Vers.\n")
    result = run(nmt, place)
    assert result.status == 0 and place.content() != before


def test_archives_and_monolingual_text_are_read_in_another_folder(place: Folder) -> None:
    archive = place.folder / "text" / "deu.zip"
    with zipfile.ZipFile(archive, "w") as written:
        for path in (place.folder / "text" / "deu").iterdir():
            written.write(path, path.name)
    (place.folder / "text" / "vref.txt").write_text("MRK 1:1\nMRK 1:2\n", encoding="utf-8")
    (place.folder / "text" / "mono.de").write_text("Eine Kuh schläft.\n<range>\n", encoding="utf-8")
    mono = [{"files": {"de": "deu.zip"}}, {"files": {"de": "mono.de"}, "vref": "vref.txt"}]
    john = {"files": FILES, "books": ["JHN"]}
    settings = changes(
        data__mono={"de": mono}, data__train=[{"files": {"de": "deu.zip", "en": "eng"}}], data__valid=john
    )
    of_root = rooted(place.config(**settings)).data
    assert of_root.mono["de"][1].model_dump()["vref"] == str(place.folder / "text" / "vref.txt")
    place.prepare(**settings)
    assert place.corpus().mono("de").text("de")[-1] == "Eine Kuh schläft."
    assert place.pairs("valid") == JOHN


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ({"files": {"de": "deu/", "en": "train.en"}}, ["train.en", "vref"]),
        ({"files": {"de": "train.de", "en": "train.en"}, "books": ["MRK"]}, ["train.de", "vref"]),
        ({"files": FILES, "books": ["MRK", "LUK"]}, ["LUK"]),
        ({"files": FILES, "score": "scores"}, ["score"]),
        ({"files": {"de": "notes.txt", "en": "train.en"}}, ["notes.txt", ".sfm"]),
        ({"files": {"de": "bad.sfm", "en": "eng"}}, ["bad.sfm", "\\id"]),
        ({"files": {"de": "latin.sfm", "en": "eng"}}, ["latin.sfm", "UTF-8"]),
        ({"files": {"de": "empty", "en": "eng"}}, ["empty", ".sfm"]),
        ({"files": {"de": "absent/", "en": "eng"}}, ["absent", "data.root"]),
        ({"path": "deu/41MRKa.SFM"}, ["41MRKa.SFM", "files"]),
    ],
)
def test_other_files_are_refused(nmt: Command, place: Folder, source: dict[str, Any], parts: list[str]) -> None:
    text = place.folder / "text"
    (text / "notes.txt").write_text("\\id MRK\n\\c 1\n\\v 1 a\n")
    (text / "bad.sfm").write_text("A text.\n")
    (text / "scores").write_text("1\n")
    (text / "latin.sfm").write_bytes("\\id MRK\n\\ide CP-1252\n\\c 1\n\\v 1 fröhlich\n".encode("latin-1"))
    (text / "empty").mkdir()
    (text / "empty" / "a.txt").write_text("a")
    result = run(nmt, place, data__train=[source])
    [line] = result.err.strip().split("\n")
    assert result.status == 2
    assert all(part in line for part in parts), line
    assert not place.data.exists()
