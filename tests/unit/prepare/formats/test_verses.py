"""USFM, and lines with verse references: what is text of a verse, and files that are damaged or of another kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nmt.data.sources import TrainFiles
from nmt.errors import DataError
from nmt.prepare.formats.verses import read_verses
from nmt.prepare.pairs import Row, Units

START = "\\id MRK a draft\n\\h Mark\n\\toc1 Mark\n\\mt1 A title\n\\ip An introduction.\n\\c 1\n\\s A heading\n\\p\n"
Read = tuple[list[Row], dict[str, int]]


def read(folder: Path, de: str, en: str, suffixes: tuple[str, str] = ("sfm", "SFM"), **settings: Any) -> Read:
    """Return the pairs of two files, and the counts of what is skipped."""
    names = {language: f"{language}.{suffix}" for language, suffix in zip(("de", "en"), suffixes, strict=True)}
    for name, text in zip(names.values(), (de, en), strict=True):
        (folder / name).write_bytes(text.encode())
    units = Units()
    rows = list(read_verses(TrainFiles(files=names, **settings), ("de", "en"), folder, units))
    return [row for row in rows if not units.skip_blank(row[:2], ("de", "en"))], units.skipped


def pairs(*texts: tuple[str, str]) -> list[Row]:
    return [(*pair, None) for pair in texts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the cow", "the cow"),
        ("the cow \r\n  sleeps ", "the cow sleeps"),
        ("the cow\\f + \\fr 1:1 \\ft a \\fq cow\\fq* is an animal\\f* sleeps", "the cow sleeps"),
        ("the\\x - \\xo 1:1 \\xt Jhn 1.1\\x* cow\\fe * \\ft one\\fe*", "the cow"),
        ("the \\nd cow\\nd*s \\add and\\add* \\qt the \\+nd cat\\+nd*\\qt*", "the cows and the cat"),
        ('the \\w cows|lemma="cow" strong="H1"\\w* \\w eat\\w* \\rb BB|gloss="g:g"\\rb*', "the cows eat BB"),
        ('the \\w \\+nd cow\\+nd*|lemma="cow"\\w*!', "the cow!"),
        ('\\zaln-s |x-strong="H1"\\*\\w the|x-occurrence="1"\\w*\\zaln-e\\* cow\\ts\\* eats', "the cow eats"),
        ("the cow\n\\q1 eats\n\\q2 grass\n\\b\n\\m and sleeps", "the cow eats grass and sleeps"),
        ("the cow\n\\s1 The cow's \\nd rest\\nd*\n\\r (Jhn 1)\n\\p sleeps", "the cow sleeps"),
        ("the cow\n\\s2 Rest\n\\rem to do", "the cow"),
        ('the cow \\fig a cow|src="cow.jpg" size="col"\\fig*\\vp 1b\\vp*\\ca 2\\ca* sleeps', "the cow sleeps"),
        ("the cow\\zmine  of ours\\zmine* sleeps", "the cow of ours sleeps"),
        ("\\wj Sleep!", "Sleep!"),  # ends in the next verse
        ("the~cow//sleeps\\tr \\th1 a \\tc2-3 b", "the\xa0cow sleeps a b"),
        ("the\n\\esb\n\\ms Cows\n\\p Cows are animals.\n\\esbe\n\\p cow", "the cow"),
        ("a | b", "a | b"),
        ("הפרה\n\\q1 ישנה", "הפרה ישנה"),
        ("这头牛\n\\q1 睡了", "这头牛睡了"),
    ],
)
def test_verse_has_no_notes_headings_and_attributes(tmp_path: Path, text: str, expected: str) -> None:
    de, en = f"\ufeff{START}\\v 1 {text}\r\n\\v 2 ends\\wj*", "\\id MRK\r\n\\c 1\r\n\\v 1 one\r\n\\p\\v 2 two"
    assert read(tmp_path, de, en) == (pairs((expected, "one"), ("ends", "two")), {})


@pytest.mark.parametrize(
    ("numbers", "others", "joined"),
    [
        ("1-2", "1 2", [("1-2", "1 2")]),
        ("1 2-3 4", "1-2 3 4", [("1 2-3", "1-2 3"), ("4", "4")]),
        ("1\u200f-\u200f2 3", "1 2 3", [("1\u200f-\u200f2", "1 2"), ("3", "3")]),
        ("1a 1b 2", "1 2", [("1a 1b", "1"), ("2", "2")]),
        ("1–3", "1 2 3", [("1–3", "1 2 3")]),
        ("9 10", "9 10", [("9", "9"), ("10", "10")]),
    ],
)
def test_verses_that_a_side_has_together_are_joined(
    tmp_path: Path, numbers: str, others: str, joined: list[tuple[str, str]]
) -> None:
    sides = []
    for side in (numbers, others):
        sides.append(START + "".join(f"\\v {number} {number}\n" for number in side.split()))
    assert read(tmp_path, *sides) == (pairs(*joined), {})


@pytest.mark.parametrize(
    ("de", "en", "kept", "reason"),
    [
        ("\\v 1 a \\v 2 b", "\\v 2 B", ("b", "B"), "no text in en"),
        ("\\v 1 a \\v 2 b", "\\v 1 \\v 2 B", ("b", "B"), "no text in en"),
        ("\\v 1 a \\v 2-3 b", "\\v 1 A \\v 2 B", ("a", "A"), "no text in en"),
        ("\\v 1 a \\v 2-3 b", "\\v 1 A \\v 2 B \\v 3", ("a", "A"), "no text in en"),
        ("\\v 1 a", "\\v 1 A \\c 2 \\v 1 B", ("a", "A"), "no text in de"),
        ("\\v 1 a \\v 1 b", "\\v 1 A", ("a", "A"), "verse that occurs again in de"),
        ("\\v 1 a", "\\v 1 A \\v 1 B", ("a", "A"), "verse that occurs again in en"),
        ("\\v 1 a \\v b c", "\\v 1 A", ("a", "A"), "text after \\v in de"),
        ("\\v 1 a \\v 2b-3 c", "\\v 1 A", ("a", "A"), "text after \\v in de"),
        ("\\v 1 a \\v 5-2 c", "\\v 1 A \\v 5 C", ("a", "A"), "no text in de"),
        ("\\v 1 a\n\\zours b \\nd c\\nd*\n\\p d", "\\v 1 A", ("a d", "A"), "text after \\zours in de"),
        ("\\v 1 a \\f + \\ft b \\p c \\v 2 d \\f + e\\f* f", "\\v 1 A \\v 2 D", None, "text after \\f in de"),
    ],
)
def test_what_is_not_paired_is_counted(
    tmp_path: Path, de: str, en: str, kept: tuple[str, str] | None, reason: str
) -> None:
    rows, skipped = read(tmp_path, START + de, START + en)
    assert rows == pairs(*([("a c", "A"), ("d f", "D")] if kept is None else [kept]))
    assert skipped[reason] >= 1


def test_books_may_be_in_any_order_and_in_one_file(tmp_path: Path) -> None:
    mark, john = START + "\\v 1 a\n", "\\id jhn\n\\c 1 \\p \\v 1 b\n\\c 2 \\p \\v 1 c\n"
    expected = pairs(("b", "b"), ("c", "c"), ("a", "a"))
    assert read(tmp_path, mark + john, john + mark) == (expected, {})
    assert read(tmp_path, mark + john, john + mark, books=["JHN"])[0] == expected[:2]
    with pytest.raises(DataError, match="no verses of LUK"):
        read(tmp_path, mark + john, john + mark, books=["JHN", "LUK"])


NAMES = ["MRK 1:1", "MRK 1:2", "MRK 1:3", "MRK 2:1", "JHN 1:1"]


def named(folder: Path, de: list[str], en: list[str], names: list[str] = NAMES) -> Read:
    (folder / "vref.txt").write_text("\r\n".join(names), encoding="utf-8")
    texts = ("".join(f"{line}\n" for line in side) for side in (de, en))
    return read(folder, *texts, ("txt", "txt"), vref="vref.txt")


def test_lines_with_references_are_joined_and_counted(tmp_path: Path) -> None:
    rows, skipped = named(tmp_path, ["a", "<range>", "c", "d", ""], ["A", "B", "<range>", "", "E"])
    assert (rows, skipped) == (pairs(("a c", "A B")), {"no text in en": 1, "no text in de": 1})
    rows, skipped = named(tmp_path, ["<range>", "b", "c", "", "<range>"], ["A", "B", "C", "D", "E"])
    assert rows == pairs(("b", "B"), ("c", "C"))
    assert skipped == {"no text in de": 2}


def test_one_side_may_be_usfm_and_the_other_lines(tmp_path: Path) -> None:
    (tmp_path / "vref.txt").write_text("\n".join(NAMES[:2]), encoding="utf-8")
    usfm = f"{START}\\v 1-2 a"
    assert read(tmp_path, usfm, "A\nB\n", ("usfm", "txt"), vref="vref.txt") == (pairs(("a", "A B")), {})
    with pytest.raises(DataError, match=r"en\.txt: .*vref"):
        read(tmp_path, usfm, "A\nB\n", ("usfm", "txt"))


@pytest.mark.parametrize("text", ["", "no marker", "\\c 1 \\v 1 a", "<?xml version='1.0'?><usx/>", "{}"])
def test_file_that_is_not_usfm_raises(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"de\.sfm: .*\\id"):
        read(tmp_path, text, START)


@pytest.mark.parametrize(
    ("names", "message"),
    [([*NAMES[:4], "John 1:1"], r"vref\.txt: line 5: John 1:1"), (NAMES[:4], r"vref\.txt has 4 lines, de\.txt 5")],
)
def test_file_without_references_raises(tmp_path: Path, names: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        named(tmp_path, ["a"] * 5, ["A"] * 5, names)


@pytest.mark.parametrize(
    "text", ["\\v 1 " + "\\f " * 40_000, "\\v 1 " + "|" * 200_000, "\\esb " * 40_000, "\\v 1 " + "\\zz a" * 20_000]
)
def test_damaged_file_is_read_in_linear_time(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, START + text, START + "\\v 2 A")[0] == []
