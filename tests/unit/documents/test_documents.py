"""Tests of plain text, and of what all documents that are text have in common."""

from __future__ import annotations

import gzip
import re
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import Command
from documents import PO, SRT, VTT, bare_docx, bare_odt, reversed_upper, same
from nmt import documents as opening
from nmt.documents import Translated, open_document, read_document, refuse_document
from nmt.errors import DataError
from places import ROOT

LINES = "  First line.\r\n\r\nSecond\tline \n--- 12 ---\rthird"


TWO_TIMES = "00:00:01,000 --> 00:00:02,000\n00:00:03,000 --> 00:00:04,000\nHi there\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("name", "content"), [("a.txt", LINES), ("a.srt", SRT), ("a.vtt", VTT), ("a.srt", SRT * 2),
                                               ("a.txt", ""), ("b.srt", SRT.replace("\n", "\r\n")),
                                               ("c.srt", TWO_TIMES), ("c.vtt", TWO_TIMES)])  # fmt: skip
def test_identity_translation_keeps_document_bytes(name: str, content: str, encoding: str) -> None:
    raw = content.encode(encoding)
    document = open_document(Path(name), raw)
    assert same(document) == document.translated(document.texts) == raw


@pytest.mark.parametrize(
    ("name", "content", "translations", "translated"),
    [
        ("a.txt", f"\ufeff{LINES}", {"First line.": "one\ntwo", "Second": "2", "line": "", "third": "3"},
         "\ufeff  one two\r\n\r\n2\t \n--- 12 ---\r3"),
        ("a.txt", "\tone man\ta woman \t\t42\ta child\t\r\n", {"one man": "X", "a woman": "Y", "a child": "Z"},
         "\tX\tY \t\t42\tZ\t\r\n"),
        # an ideographic space is indentation
        ("a.txt", "\u3000本\u3000です。\u3000\n\x01赤い\n", {"本\u3000です。": "X", "赤い": "Y"},
         "\u3000X\u3000\n\x01Y\n"),
        ("a.html", "<p>\u3000本<b> \u3000</b></p>", {"本": "X"}, "<p>\u3000X<b> \u3000</b></p>"),
    ],
)  # fmt: skip
def test_lines_and_what_is_between_tabs_and_spaces_are_translated(
    name: str, content: str, translations: dict[str, str], translated: str
) -> None:
    document = open_document(name, content.encode())
    assert document.texts == [*translations]
    assert document.translated([*map(Translated, translations.values())]).decode() == translated


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.pdf", b"", "type .pdf are not supported; save the document as one of .txt"),
        ("noname", b"", "no suffix"),
        ("a\n.txt", b"caf\xe9 x", r"a\n.txt: not UTF-8 at line 1; "),
        ("a.txt", b"PK\3\4", "a zip archive"),
        ("a.txt", "ab".encode("utf-32"), "UTF-32"),
        ("a.txt", b'{"greeting": "Hello there"}', "JSON"),
        ("a.txt", "<xliff version='1.2'>".encode("utf-16"), "XLIFF"),
        ("a.srt", b"x\ny\n", "no timing line such as"),
        ("a.srt", b"\xff\xfex", "not utf-16-le"),
        (
            "a.srt",
            SRT.replace("3,000 -->", "3,000 ->").encode(),
            "a.srt: line 7: malformed time 00:00:03,000 -> 00:00:04,000; ",
        ),
        ("a.vtt", b"WEBVTT\n\n00:01 000 --> 00:02.000\nx\n", "a.vtt: line 3: malformed time 00:01 000 --> 00:02.000; "),
        ("a.srt", "text", "must be bytes, found str"),
        ("a.po", b'msgid "x', "neither a quoted text"),
        ("a.po", b'msgid "x"\n', "cut off"),
        ("a.po", b"\x1f\x8b\x08\0\0\0\0\0", "compressed with gzip"),
    ],
)
def test_unreadable_document_raises(name: str, content: bytes, why: str) -> None:
    with pytest.raises(DataError) as caught:
        open_document(name, content)
    assert why in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.po.gz", gzip.compress(b"", mtime=0)), ("a", PO.encode()), ("a.de", SRT.encode("utf-16")),
     ("a.tmx", b"<?xml version='1.0'?>\n<tmx version='1.4'>"), ("a.de", b"%PDF-1.4\n")],
)  # fmt: skip
def test_translate_rejects_document_without_as_text(name: str, content: bytes, tmp_path: Path, nmt: Command) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "none").mkdir()
    shutil.copy(ROOT / "configs" / "sample.yaml", tmp_path / "none" / "config.yaml")
    found = nmt(
        "translate",
        "--run",
        tmp_path / "none",
        "--input",
        tmp_path / name,
        "--output",
        tmp_path / "out",
        "--workers",
        "2",
    )
    assert (found.status, found.err.count("\n")) == (2, 1)
    assert f"nmt: {tmp_path / name}: " in found.err and ".docx" in found.err and "--as-text" in found.err
    taken = nmt("translate", "--run", tmp_path / "none", "--input", tmp_path / name, "--as-text")
    assert "--as-text" not in taken.err and str(tmp_path / "none") in taken.err


@pytest.mark.parametrize(
    ("name", "content", "is_refused"),
    [
        ("a.strings", '"a" = "One";\n', True),
        ("a.json.gz", "[1]", True),
        ("README.md", "One.\n", True),
        ("a.yaml", "one: two\n", True),
        ("a.yml", "# all\none: Two three\nfour five: |\n  Six: seven\n", True),
        ("a.yml", "One two three.\nFour: five.\n", False),
        ("a.yml", "title: One\ntext: |\n  Two three.\n  Four.\nlast: Five\n", True),
        ("a.yml", "# all\n\ntitle: One two,\n  three.\n", True),
        ("rez.txt", "Zutaten:\n  Mehl: 500 g\n  Zucker: 3 g\nAlles mischen.\n", False),
        ("a.de", "Wissen = Macht\nZeit = Geld\n" * 3, False),
        ("a.csv", "key;text\n1;One two\n", True),
        ("a.csv", 'id,text\n1,"One, two.\nThree."\n2,"Four, five"\n', True),
        ("a.csv", "id;text\n" + '1;"One.\nTwo."\n' * 120, True),
        ("a.csv", "key,text\n1,One two,\n2,Three,four,five\n", True),
        ("a.csv", "One, two.\nThree.\n", False),
        ("news.ts", "Ndzi lava: swona.\n", False),
        ("news.ts", "<!DOCTYPE TS>\n<TS version='2.1'>\n", True),
        ("wiki.is", "Halló.\n", False),
        ("a.json", "", False),
    ],
)
def test_file_of_keys_and_texts_is_refused_by_name_unless_it_is_a_language(
    name: str, content: str, is_refused: bool, tmp_path: Path
) -> None:
    raw = content.encode("utf-16")
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    with pytest.raises(DataError, match="--as-text") if is_refused else nullcontext():
        refuse_document(tmp_path / name)


_SAMPLES = {"a.txt": LINES, "a.srt": SRT, "a.vtt": VTT, "a.po": PO, "a.html": f"<p>{LINES}</p><b>x</b>"}


@given(st.sampled_from(sorted(_SAMPLES)), st.data())
def test_damaged_document_raises_or_keeps_words(name: str, data: st.DataObject) -> None:
    content = bytearray(_SAMPLES[name].encode())
    for _ in range(data.draw(st.integers(0, 4))):
        start = data.draw(st.integers(0, len(content)))
        content[start : start + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=6))
    try:
        document = open_document(name, bytes(content))
    except DataError:
        return
    if name != "a.po":
        assert same(document) == bytes(content)
    words = re.findall(r"\w+", " ".join(document.texts))
    new = document.translated([reversed_upper(text) for text in document.texts])
    assert len(re.findall(rb"[A-Z]", new)) >= len([word for word in words if word.isascii() and word.isalpha()])


def test_file_that_another_program_changes_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "a.txt", opening.read_regular

    def read_while_written(path: Path) -> bytes:
        content = read(path)
        path.write_bytes(b"longer")
        return content

    path.write_bytes(b"text")
    assert read_document(path).texts == ["text"]
    monkeypatch.setattr(opening, "read_regular", read_while_written)
    with pytest.raises(DataError, match=r"a\.txt: changed"):
        read_document(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b"42\n"),
        ("a.srt", b"1\n00:00:01,000 --> 00:00:02,000\n42\n"),
        ("a.vtt", b"WEBVTT\n"),
        ("a.po", b'msgid "one"\nmsgstr "eins"\n'),
        ("a.html", b"<p translate=no>one</p>"),
        ("a.docx", bare_docx("")),
        ("a.odt", bare_odt("<text:p/>")),
    ],
)
def test_document_without_text_to_translate_is_noted(name: str, content: bytes) -> None:
    document = open_document(name, content)
    assert document.texts == [] and len(document.notes()) == 1
