"""Recognition of files by their first bytes, and messages about other encodings."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.data.sources import TrainFiles
from nmt.errors import DataError
from nmt.prepare.sources import open_source
from nmt.text.formats import BEGINNING, other_format, text_problem
from nmt.text.lines import read_lines, refuse_other_texts

SENTENCES = [f"Satz Nummer {n}, mit Größe: {n * n}." for n in range(40)]
TEXT = "".join(f"{sentence}\n" for sentence in SENTENCES)


def archive() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        member = tarfile.TarInfo("train.de")
        member.size = len(TEXT.encode())
        tar.addfile(member, io.BytesIO(TEXT.encode()))
    return data.getvalue()


def zipped() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        # the bytes of its time are line feeds
        file.writestr(zipfile.ZipInfo("train.de", (2026, 10, 10, 1, 16, 20)), TEXT)
    return data.getvalue()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (
            gzip.compress(TEXT.encode()),
            "compressed with gzip; decompress it (gzip -dc) or rename it to end in .gz",
        ),
        (lzma.compress(TEXT.encode()), "compressed with xz; "),
        (bz2.compress(TEXT.encode()), "compressed with bzip2; "),
        (b"\x28\xb5\x2f\xfd" + b"\0" * 20, "compressed with Zstandard; "),
        (archive(), "a tar archive, where a text file is needed"),
        (zipped(), "a zip archive or an office document, where a text file is needed"),
        (b"PAR1\x15\x04\x15\xd0", "a Parquet file, where a text file is needed"),
        (b"{\\rtf1\\ansi hello}\n", "an RTF document, where a text file is needed"),
        (b"ARROW1\0\0", "an Arrow file, where a text file is needed"),
        (b"%PDF-1.7\n", "a PDF document, where a text file is needed"),
        (TEXT.encode("utf-16"), "UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8"),
        (TEXT.encode("utf-16-be"), "UTF-16; convert it to UTF-8: iconv -f UTF-16BE -t UTF-8"),
        (TEXT.encode("utf-16-le"), "UTF-16; convert it to UTF-8: iconv -f UTF-16LE -t UTF-8"),
        (TEXT.encode("utf-32"), "UTF-32; convert it to UTF-8: iconv -f UTF-32 -t UTF-8"),
    ],
)
def test_non_text_files_raise(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "some text"
    path.write_bytes(data)
    with pytest.raises(DataError, match=rf"^{re.escape(f'{path}: {what}')}.*$"):
        list(read_lines(path))


TMX = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">\n<body><tu><tuv>a</tuv></tu>\n'
PO = '# head\nmsgid ""\nmsgstr ""\n"Content-Type: text/plain"\n\n#: a.c:3\nmsgid "one"\nmsgstr "eins"\n'


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (TMX, "TMX"),
        ('<tmx version="1.4">\n<body>\n', "TMX"),
        ('<?xml version="1.0"?>\n<xliff xmlns="x" version="1.2">\n', "XLIFF"),
        ("<xliff srcLang='de' version='2.0'>\n", "XLIFF"),
        ("<!DOCTYPE html>\n<html lang=de>\n", "HTML"),
        ('<?xml version="1.0"?>\n<resources><string name="a">b</string></resources>\n', "Android resources"),
        ('<resources>\n  <string name="a">b</string>\n</resources>\n', "Android resources"),
        ('/* Menü */\n"a" = "Datei";\n\n' + '"b c" = "Ende";\n' * 4, "a list of keys and texts"),
        ('<srcset setid="newstest2014" srclang="any">\n', "SGML"),
        ("<html>\n<head><title>x</title></head>\n", "HTML"),
        (PO, "a PO file of gettext"),
        ("1\n00:00:01,000 --> 00:00:02,000\nHallo.\n", "subtitles"),
        ("\r\n1\r\n0:00:01.000 --> 0:00:02.000 X1:1\r\nHallo.\r\n", "subtitles"),
        ("WEBVTT - Titel\n\nNOTE a\nb\n\n00:01.000 --> 00:02.000\nHallo.\n", "subtitles"),
        ('{"de": "eins", "en": "one"}\n' * 5, "JSON"),
        ('{"id": 1, "translation": {"de": "eins", "en": "one"}}\n', "JSON"),
        ('["eins", "one"]\n' * 3, "JSON"),
        (json.dumps([{"de": "eins"}] * 30_000, indent=1), "JSON"),
        (json.dumps([{"de": "eins"}] * 30_000), "JSON"),
        ("".join(f"{s}\tnumber {n}\n" for n, s in enumerate(SENTENCES)), "tab-separated text with 2 columns"),
        ("".join(f'"{s}","number {n}"\n' for n, s in enumerate(SENTENCES)), "CSV with the separator ','"),
        ("".join(f"{s};x;number {n}\n" for n, s in enumerate(SENTENCES)), "CSV with the separator ';'"),
    ],
)
@pytest.mark.parametrize(
    "encode", [str.encode, lambda text: text.encode("utf-16"), lambda t: b"\xef\xbb\xbf" + t.encode()]
)
def test_structured_text_is_rejected_as_side_of_corpus(
    text: str, what: str, encode: Callable[[str], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_bytes(encode(text))
    with pytest.raises(DataError, match=re.escape(f"{path}: {what}, ")):
        refuse_other_texts(path)
    assert text_problem(text.encode()) is None  # such lines may be translated


@pytest.mark.parametrize("packed", [False, True])
def test_rejected_corpus_file_is_named(tmp_path: Path, packed: bool) -> None:
    names = {language: f"train.{language}{'.gz' * packed}" for language in ("de", "en")}
    for name, text in zip(names.values(), (TEXT, "a\tb\n" * 40), strict=True):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with pytest.raises(DataError, match=r"train\.en(\.gz)?: tab-separated text with 2 columns, where a text file"):
        open_source(TrainFiles(files=names), ("de", "en"), tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "",
        "\n\n",
        "<b>Fett</b> ist das.\n" + TEXT,
        "<p>Jede Zeile</p>\n" * 40,
        "<html>\n" * 2,
        "<tmx>\n" + TEXT,
        "<!-- Bemerkung -->\n<b>Fett</b>\n",
        "<resources>\nDas ist ein Wort.\n",
        "Anna:\nHallo!\nBert:\nJa?\n",
        "Anna: Hallo!\nBert: Ja?\n" * 20,
        "Zutaten:\n  Mehl: 500 g\n  Zucker: 3 g\nAlles mischen.\n",
        "Wissen = Macht\nZeit = Geld\n" * 5,
        "x = 3\nDas ist eine Gleichung.\n" + TEXT,
        "{name} hat {n} Karten\n" * 40,
        "[Musik]\n[Beifall]\n" * 20,
        "[1]\n[2]\n[3]\n[4]\n",
        '"Ja", sagte er, "gern".\n' * 40,
        "Berlin, Deutschland\nParis, Frankreich\n" * 20,
        "3,14\n2,72\n" * 30,
        "eins,one\n" * 4,
        "Smith,John\nMiller,Ann\n" * 13,
        "Taste\tTab\n" * 4,
        "".join(f"{n}\t{sentence}\n" for n, sentence in enumerate(SENTENCES)),
        "a\tb\n" * 30 + "ohne\n",
        'msgid "x" steht so im Text.\n' + TEXT,
        "#hashtag\n" * 30,
        "PKW\n" + TEXT,
        "1\nA --> B\n" + TEXT,
        "00:00:01,000 --> 00:00:02,000\n" + TEXT,
        "1\n00:00:01,000 bis 00:00:02,000\n" + TEXT,
        "WEBVTT\n" + TEXT,
        "WEBVTT ist ein Format.\n" + TEXT,
        "BZhörde\n" + TEXT,
        "漢字かな\n" * 40,
        "x" * 256 + " gustar\n" + TEXT,
        "x" * 257 + "ustar 00, schrieb er\n" + TEXT,
        "PAR16 LED-Lampe\n" + TEXT,
        "PAR1\n" + TEXT,
        "PAR1\tLampe\n" + TEXT,
        "ARROW1 ist der Name\n" + TEXT,
        "%PDF-1.7 ist der Anfang eines Dokuments\n" + TEXT,
        "%PDF-Dateien\n" + TEXT,
        "{\\rtf1 steht am Anfang\n" + TEXT,
        "BZh91 ist ein Kennzeichen\n" + TEXT,
        "7z ist ein Packer\n" + TEXT,
        "SQLite format 3 ist alt\n" + TEXT,
        "\\id GEN\n" + TEXT,  # USFM is refused as a side of a corpus only
    ],
)
def test_ordinary_text_is_accepted(text: str) -> None:
    data = text.encode()[:BEGINNING]
    assert other_format(data) is text_problem(data) is None


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("train.de", b"plain\nGr\xf6\xdfe", "not UTF-8 at line 2, byte 3.*iconv -f ENCODING -t UTF-8"),
        ("train.de", b"plain\n" + "本です".encode("shift_jis"),
         "not UTF-8 at line 2, byte 1.*iconv -f ENCODING -t UTF-8"),
        ("train.de.gz", gzip.compress("Größe\n".encode() + b"Gr\xf6\xdfe\n", mtime=0),
         r"byte 3 of the line \(0xF6\); earlier lines are valid; remove the invalid bytes: iconv -c"),
    ],
)  # fmt: skip
def test_wrong_encoding_error_suggests_iconv(name: str, content: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=problem):
        list(read_lines(tmp_path / name))
