"""Bilingual files of documents: what is written, what is read back after a review, and what does not fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lxml import etree

from nmt.documents import Document
from nmt.errors import DataError
from nmt.prepare.formats.units import read_tmx, read_xliff
from nmt.translate.bilingual import bilingual_content, read_reviewed
from nmt.translate.memory import MatchKind
from nmt.translate.types import Confidence, Translation
from reading import read_bytes

TEXTS = ["Eins & <zwei>.", "Ja.", "Größer \U0001f600", "Ja."]
DONE = ["One & <two>.", "Yes.", "Bigger", "Sure."]
LETTER = Path("letter.docx")


def written(path: Path, languages: tuple[str, str] = ("de", "en")) -> bytes:
    document = Document(TEXTS, lambda _: b"")
    sure = [None, Confidence(71.26, False), Confidence(30.0, True), None]
    matches: list[MatchKind | None] = ["exact", None, None, "fuzzy"]
    done = [Translation(text, None, 0.0, 0.0, *each) for text, *each in zip(DONE, sure, matches, strict=True)]
    return bilingual_content(path, "Brief & mehr.docx", languages, document, done)


def xliff(*units: str) -> bytes:
    start = '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a"><body><group>'
    return f"{start}{''.join(units)}</group></body></file></xliff>".encode()


def unit(number: int | str, source: str, target: str) -> str:
    return f'<trans-unit id="{number}"><source>{source}</source>{target}</trans-unit>'


def tmx(*units: tuple[tuple[str, str], ...]) -> bytes:
    sides = ["".join(f"<tuv xml:lang='{code}'><seg>{text}</seg></tuv>" for code, text in each) for each in units]
    body = "".join(f"<tu>{each}</tu>" for each in sides)
    return f'<tmx version="1.4"><header srclang="de"/><body>{body}</body></tmx>'.encode()


MEMORY = tmx((("fr", "x"), ("en-GB", "A"), ("de", "a")))
BRAZILIAN = written(Path("a.xlf"), ("de", "pt_BR"))


@pytest.mark.parametrize(
    ("name", "content", "languages", "expected"),
    [
        *((f"a.{suffix}", written(Path(f"a.{suffix}")), None, DONE) for suffix in ("xlf", "xliff", "tmx")),
        ("a.xlf", BRAZILIAN, ("de", "pt_BR"), DONE),
        ("a.tmx", MEMORY, ("de", "en"), ["A"]),
        ("a.tmx", MEMORY.replace(b"xml:lang", b"lang"), ("de", "en"), ["A"]),  # as in version 1.1
        # of languages that it does not name
        ("a.xlf", xliff(unit(1, "a", "<target>A</target>")), ("de", "en"), ["A"]),
    ],
)
def test_written_file_is_read_back(
    name: str, content: bytes, languages: tuple[str, str] | None, expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    assert read_reviewed(tmp_path / name, LETTER, TEXTS if expected is DONE else ["a"], languages) == expected


def test_written_files_are_read_as_corpora_without_what_needs_a_review() -> None:
    pairs = [*zip(TEXTS, DONE, strict=True)]
    assert read_bytes(read_xliff, written(Path("a.xlf"))) == (pairs[:2], {"state needs-review-translation": 2})
    assert read_bytes(read_tmx, written(Path("a.tmx"))) == (pairs, {})


def test_xliff_names_document_languages_and_states() -> None:
    root = etree.fromstring(written(Path("a.xlf"), ("de", "pt_BR")))
    file = root.find("{*}file")
    assert file is not None
    names = {"original": "Brief & mehr.docx", "source-language": "de", "target-language": "pt-BR"}
    assert {*file.attrib.items()} >= {*names.items()}
    assert [
        (unit.get("id"), *map(unit.find("{*}target").get, ("state", "state-qualifier")), unit.findtext("{*}note"))
        for unit in root.iter("{*}trans-unit")
    ] == [
        ("1", "translated", "exact-match", None),
        ("2", "translated", None, "expected chrF 71"),
        ("3", "needs-review-translation", None, "expected chrF 30"),
        ("4", "needs-review-translation", None, None),
    ]


def test_tmx_has_confidences_as_properties() -> None:
    root = etree.fromstring(written(Path("a.tmx")))
    found = [each.findtext("{*}prop[@type='confidence']") for each in root.iter("{*}tu")]
    assert found == [None, "71.3", "30.0", None]


def test_units_of_other_programs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.xlf"
    marked = '<mrk mtype="seg" mid="0">Eins &amp;</mrk> <mrk mtype="seg" mid="1">&lt;zwei&gt;.</mrk>'
    done = '<mrk mtype="seg" mid="0">One <g id="1">and</g></mrk> <mrk mtype="seg" mid="1"><x id="2"/>two.</mrk>'
    path.write_bytes(
        xliff(
            unit(4, "Ja.", "<target>Sure.</target>"),
            unit(2, "Ja.", '<target state="final" state-qualifier="exact-match">\n  Yes.\n</target>'),
            unit(3, "Größer  \U0001f600", "<target>Big\nger</target><alt-trans><target>No</target></alt-trans>"),
            unit(1, "Eins &amp; &lt;zwei&gt;.", f"<seg-source>{marked}</seg-source><target>{done}</target>"),
        )
    )
    assert read_reviewed(path, LETTER, TEXTS) == ["One and two.", "Yes.", "Big ger", "Sure."]
    path.write_bytes(xliff(*(unit(f"x-{n}", text, f"<target>{n}</target>") for n, text in enumerate("abc"))))
    assert read_reviewed(path, LETTER, ["c", "a", "b"]) == ["2", "0", "1"]


OTHER_UNITS = tmx((("en-GB", "Two"), ("DE-at", "a")), (("de", "Ja."), ("en", "Yes.")), (("de", "x"), ("en", "y")))
REPEATED_UNITS = tmx(*((("de", text), ("en", f"{n}")) for n, text in enumerate(["Ja.", "a", "Ja.", "Ja."])))


@pytest.mark.parametrize(
    ("units", "expected"),
    [(OTHER_UNITS, ["Yes.", "Two", "Yes."]), (REPEATED_UNITS, ["2", "1", "3"])],
    ids=["one for repeated texts", "the latest of repeated ones"],
)
def test_memory_may_have_more_units(
    units: bytes, expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.tmx"
    path.write_bytes(units)
    assert read_reviewed(path, LETTER, ["Ja.", "a", "Ja."]) == expected
    assert "1 unit not needed for letter.docx" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "languages", "found"),
    [
        ("a.xlf", xliff(unit(1, "a", "<target>A</target>")), None, "text 2 of letter.docx, 'b'"),
        ("a.tmx", tmx((("de", "a"), ("en", "A"))), None, "text 2 of letter.docx, 'b'"),
        ("a.xlf", xliff(*(unit(n, n, "<target>A</target>") for n in "abc")), None, "unit c, 'c'"),
        ("a.xlf", xliff(*(unit(1, n, "<target>A</target>") for n in "abc")), None, "unit 1, 'c'"),
        (
            "a.xlf",
            xliff(unit(7, "a", "<target> </target>"), unit(8, "b", "")),
            None,
            "2 units without a translation, first",
        ),
        ("a.tmx", tmx((("de", "a"),)), None, "unit 1: 1 text"),
        ("a.xlf", b"<tmx/>", None, "<xliff>"),
        ("a.xlf", b"<xliff><trans-unit>", None, "broken XML"),
        ("a.docx", b"", None, "must end in"),
        ("none.xlf", None, None, "no such file"),
        ("a.tmx", tmx(*((("de", n), ("en", n)) for n in "ab")), ("de", "es"), "without a translation"),
        ("a.tmx", MEMORY, None, "3 texts"),
        *(
            ("a.xlf", BRAZILIAN, languages, "translates from de into pt-BR")
            for languages in (("de", "pt_PT"), ("pt_BR", "de"), ("fr", "pt_BR"))
        ),
    ],
)
def test_file_that_does_not_fit_raises(
    name: str, content: bytes | None, languages: tuple[str, str] | None, found: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=rf"^{re.escape(str(path))}: .*{re.escape(found)}.*$"):
        read_reviewed(path, LETTER, ["a", "b"], languages)
