"""Recognise files that are not plain text by their first bytes, to name the format and the remedy.

Compression, archives and encodings are checked wherever text is read. Formats that are text themselves (XML, PO, JSON,
tables) are checked only for the sides of a corpus: users may well want to translate lines of JSON. Refusing an ordinary
corpus would be worse than overlooking a table, so these are decided on many lines.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from nmt.files.compressed import compression_of, recognised
from nmt.text.language_names import language_name

BEGINNING = 1 << 16
"""Bytes from the start of a file that are examined."""

_N_LINES = 200  # of the beginning

_LZ4 = b"\x04\x22\x4d\x18"
_DOCUMENTS = {  # patterns: a sentence may begin like a short magic number
    rb"(?s)PK\x03\x04.{26}(?:\[Content_Types\]\.xml|_rels/|docProps/|word/|xl/|ppt/)": "a document of Microsoft Office",
    rb"(?s)PK\x03\x04.{26}mimetypeapplication/(?:vnd\.oasis|epub)": "an OpenDocument or EPUB document",
    rb"%PDF-\d\.\d\s*[\r\n]": "a PDF document",
    rb"\{\\rtf1?\s*[\\{]": "an RTF document",
    rb"\xd0\xcf\x11\xe0": "a document of an office program",
}
_BINARY = {
    rb"PK\x03\x04": ("a zip archive, which .docx, .xlsx and .odt files are, too", "unzip"),
    rb"7z\xbc\xaf\x27\x1c": ("a 7z archive", "7z x"),
    rb"PAR1[^\n]{0,8}[\x00-\x08\x0e-\x1f]": ("a Parquet file", None),
    rb"ARROW1\x00\x00": ("an Arrow file", None),
    rb"SQLite format 3\x00": ("an SQLite database", None),
}
_TAR_MARKS = (b"ustar\x0000", b"ustar  \x00")  # of POSIX and of GNU, at byte 257


def text_problem(name: Path | str, start: bytes) -> str | None:
    """Name the format of a file that begins with `start` and the remedy; None if it may be text in UTF-8.

    name: its path, or a name for a stream, for which no command is suggested.
    """
    if problem := compression_problem(name, start):
        return problem
    if start.startswith(_LZ4):
        return f"compressed with LZ4; {_unpack(name, 'lz4 -dc')}"
    if start[257:265] in _TAR_MARKS:
        return f"a tar archive, where a text file is needed; unpack it first: {_call('tar -xf', name)}"
    if document := _binary_document(start):
        return f"{document}, where a text file is needed; save it as plain text first"
    for pattern, (what, tool) in _BINARY.items():
        if re.match(pattern, start):
            advice = f"; unpack it first: {_call(tool, name)}" if tool else ""
            return f"{what}, where a text file is needed{advice}"
    encoding = _wide_encoding(start)
    return f"{encoding[:6]}; {_convert(name, encoding)}" if encoding else None


def compression_problem(name: Path | str, start: bytes) -> str | None:
    """Describe, with a remedy, how content that begins with `start` is compressed although it should not be, or not any
    more; None if it is not. `name`: as for `text_problem`."""
    found = recognised(start)
    if found is None:
        return None
    is_named = isinstance(name, Path) and compression_of(name) is None
    why = f", but its name does not end in {found.suffix}" if is_named else ""
    return f"compressed with {found.name}{why}; {_unpack(name, found.command)}"


def _wide_encoding(start: bytes) -> str | None:
    """Return the encoding of text with two or four bytes per character, by its name in iconv."""
    for mark, encoding in (
        (codecs.BOM_UTF32_LE, "UTF-32"),
        (codecs.BOM_UTF32_BE, "UTF-32"),
        (codecs.BOM_UTF16_LE, "UTF-16"),
        (codecs.BOM_UTF16_BE, "UTF-16"),
    ):
        if start.startswith(mark):
            return encoding
    head = start[:1000]
    n = len(head) // 2
    high, low = head[: 2 * n : 2].count(0), head[1 : 2 * n : 2].count(0)
    if n < 8 or max(high, low) < 0.6 * n or min(high, low) > 0.1 * n:  # without a mark: every other byte is NUL
        return None
    return "UTF-16BE" if high > low else "UTF-16LE"


def other_encoding(name: Path | str, line: bytes, is_mixed: bool) -> str:
    """Return the remedy for a `line` that is not UTF-8: the command to convert it.

    is_mixed: whether earlier lines have characters beyond ASCII in UTF-8, so that the file as a whole is not in another
    encoding.
    """
    if is_mixed:
        return (
            f"the lines before are, so leave out what is broken: {_call('iconv -c -f UTF-8 -t UTF-8', name, '.utf8')}"
        )
    if re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", line):
        return "is it a text file?"
    command = _call("iconv -f WINDOWS-1252 -t UTF-8", name, ".utf8")
    return f"convert it first, from WINDOWS-1252 or another encoding usual for the language: {command}"


def lines_problem(start: bytes) -> str | None:
    """Name the format of a file that begins with `start`; None if it may have one sentence per line.

    start: the first BEGINNING bytes, or the whole file if it is shorter.
    """
    text, lines = _text_and_lines(start)
    if not lines:
        return None
    if document := _text_document(text, lines):
        kind = document
    elif _is_json_lines(lines):
        kind = "JSON Lines"
    elif _is_json(text, lines):
        kind = "JSON"
    elif n := _n_columns(lines):
        kind = f"tab-separated text with {n} columns"
    elif separator := _separator(lines):
        kind = f"CSV with the separator {separator!r}"
    else:
        return None
    return f"{kind}, {_NEEDED}"


def document_kind(start: bytes) -> str | None:
    """Name the kind of document that begins with `start`, such as HTML, XLIFF or PDF; None if it may be lines of text.

    start: as for `lines_problem`.
    """
    return _binary_document(start) or _text_document(*_text_and_lines(start))


def _binary_document(start: bytes) -> str | None:
    return next((what for pattern, what in _DOCUMENTS.items() if re.match(pattern, start)), None)


def _text_and_lines(start: bytes) -> tuple[str, list[str]]:
    """Return the text that a file begins with, and its first lines that are whole and not blank."""
    text = start.decode(_wide_encoding(start) or "utf-8-sig", errors="replace").lstrip("\ufeff")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if len(start) >= BEGINNING and len(lines) > 1:
        lines.pop()  # truncated
    return text, [line for line in lines[:_N_LINES] if line.strip()]


def _text_document(text: str, lines: Sequence[str]) -> str | None:
    return _markup(text.lstrip()) or _po(lines) or ("subtitles" if _SUBTITLES.match(text) else None)


_SUBTITLES = re.compile(
    r"(?:\s*\d+[ \t]*\r?\n|WEBVTT(?:[ \t][^\n]*|\r)?\n(?:[^\n]*\n)*?)"
    r"(?:\d+:)?\d\d?:\d\d[,.]\d+[ \t]+-->[ \t]+(?:\d+:)?\d\d?:\d\d[,.]\d"
)
"""The beginning of SubRip or WebVTT; an arrow alone is no evidence."""


_NEEDED = (
    "where a text file with one sentence per line is needed: write the text of each language to a file of its own "
    "(a corpus in TMX, XLIFF, PO, TSV, CSV or JSON Lines is named as path in place of files)"
)
_ROOTS = {"tmx": "a TMX translation memory (XML)", "html": "HTML", "srcset": "SGML", "refset": "SGML", "tstset": "SGML"}


def _markup(text: str) -> str | None:
    """Return the kind of XML, HTML or SGML, by its declaration or root element; a mere tag is no evidence."""
    root = re.match(
        r"(?P<declared>(?:<\?xml\s[^>]*\?>|<!doctype\s[^>]*>|<!--.*?-->|\s)*)<(?P<name>[a-z][\w:.-]*)(?P<rest>[^>]*)",
        text,
        re.IGNORECASE | re.DOTALL,
    )
    if root is None:
        return "XML" if re.match(r"<\?xml\s|<!doctype\s", text, re.IGNORECASE) else None
    name, is_declared = root["name"].lower(), bool(root["declared"].strip())
    if name == "xliff":
        version = re.search(r"""\sversion=["']([\d.]+)["']""", root["rest"])
        return f"XLIFF {version[1]} (XML)" if version else "XLIFF (XML)" if is_declared else None
    if not (is_declared or root["rest"].strip() or re.match(r"<html>\s*<(?:head|body)\b", text, re.IGNORECASE)):
        return None
    declared_as = "HTML" if "doctype html" in root["declared"].lower() else "XML"
    return _ROOTS.get(name) or (declared_as if is_declared and not root["declared"].startswith("<!--") else None)


def _po(lines: Sequence[str]) -> str | None:
    is_po = [re.match(r'#|(msgctxt|msgid|msgid_plural|msgstr(\[\d+\])?)\s+"|\s*".*"\s*$', line) for line in lines]
    has_both = all(any(line.startswith(key) for line in lines) for key in ("msgid ", "msgstr"))
    return "a PO file of gettext" if has_both and sum(map(bool, is_po)) >= 0.8 * len(lines) else None


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_json_lines(lines: Sequence[str]) -> bool:
    rows = [_parsed(line) for line in lines[:20]]
    if all(isinstance(row, dict) and row for row in rows):
        return True
    is_list = all(isinstance(row, list) and sum(isinstance(item, str) for item in row) >= 2 for row in rows)
    return is_list and len(rows) >= 3


def _is_json(text: str, lines: Sequence[str]) -> bool:
    is_begun = len(lines) == 1 or lines[0].strip() in ("{", "[")
    return is_begun and re.match(r'\s*(\[\s*)?\{\s*"', text) is not None


def _n_columns(lines: Sequence[str]) -> int | None:
    """Return the number of columns of tab-separated text, if constant.

    Of two columns both must be text: lines may be numbered.
    """
    rows = [line.split("\t") for line in lines]
    if len(rows) < 5 or len({len(row) for row in rows}) != 1 or len(rows[0]) < 2:
        return None
    n_words = [sum(any(map(str.isalpha, cell)) for cell in column) for column in zip(*rows, strict=True)]
    return len(rows[0]) if len(rows[0]) > 2 or min(n_words) >= 0.5 * len(rows) else None


_LANGUAGE_NAMES = """
ar arabic arabisch arabe árabe العربية; cs czech tschechisch tchèque čeština; de german deutsch allemand alemán tedesco;
en english englisch anglais inglés inglese; es spanish spanisch espagnol español spagnolo castellano;
fr french französisch français francés francese; it italian italienisch italien italiano; ja japanese japanisch 日本語;
ko korean koreanisch 한국어; nl dutch niederländisch néerlandais nederlands; pl polish polnisch polonais polski;
pt portuguese portugiesisch portugais portugués português; ro romanian rumänisch română; ru russian russisch русский;
sv swedish schwedisch svenska; tr turkish türkisch türkçe; uk ukrainian ukrainisch українська;
zh chinese chinesisch 中文
"""
_LANGUAGES = {name: entry.split()[0] for entry in _LANGUAGE_NAMES.split(";") for name in entry.split()}
_TERM = r"(?<![^\W_])(?:term|begriff|text|sentence|reference|language|sprache|langue|idioma|lingua)[^\W_]*"
_SIDES = {
    "source": r"source|src|quell|ausgang|origen|origine|partenza",
    "target": r"target|tgt|translation|ziel|übersetzung|cible|traduc|traduzion|destin|arrivo",
}


def heading(cell: str) -> str | None:
    """Return what a column of this name holds: the code of a language, `source`, `target` or `term`; None if it is not
    known as a name of a column of text."""
    text = cell.strip().lower()
    rest = re.sub(_TERM, "", text).strip(" _-:()")
    if text and not rest:
        return "term"
    name = re.fullmatch(r"([^\W\d_]+)(?:[-_][a-z]+| ?\(.*)?", rest)
    if name and (name[1] in _LANGUAGES or language_name(name[1]) != name[1]):
        return _LANGUAGES.get(name[1], name[1])
    words = re.findall(r"[^\W_]+", text)
    sides = (side for side, stems in _SIDES.items() if any(re.match(stems, word) for word in words))
    return next(sides, None) if len(words) <= 3 else None


def _separator(lines: Sequence[str]) -> str | None:
    """Return the separator of CSV: all rows have as many columns, and look written by a program."""
    for separator in (",", ";"):
        try:
            rows = list(csv.reader(lines, delimiter=separator, strict=True))
        except csv.Error:
            continue
        rows = rows[:-1] or rows  # the last may continue
        if len(rows) < 10 or len({len(row) for row in rows}) != 1 or len(rows[0]) < 2:
            continue
        if any(cell.startswith(" ") for row in rows for cell in row):  # as in prose
            continue
        quoted = sum(f'"{separator}' in line or f'{separator}"' in line for line in lines)
        has_words = all(sum(any(map(str.isalpha, cell)) for cell in row) >= 2 for row in rows[1:])
        # two columns of words alone may be a list of names
        is_table = len(rows[0]) >= 3 or all(map(heading, rows[0]))
        if quoted >= 0.5 * len(lines) or (len(rows) >= 20 and has_words and is_table):
            return separator
    return None


# --- commands -------------------------------------------------------------------------------------


def _unpack(name: Path | str, command: str) -> str:
    return f"unpack it first: {_call(command, name, '.txt')}"


def _convert(name: Path | str, encoding: str) -> str:
    return f"convert it first: {_call(f'iconv -f {encoding} -t UTF-8', name, '.utf8')}"


def _call(command: str, name: Path | str, ending: str = "") -> str:
    """Return a command on a file, decompressed if needed; with `ending`, its output goes to a file with this suffix."""
    if isinstance(name, str):
        return command
    path, compression = shlex.quote(str(name)), compression_of(name)
    if not ending:
        return f"{command} {path}"
    if compression is None:
        return f"{command} {path} > {shlex.quote(f'{name}{ending}')}"
    target = shlex.quote(f"{name.with_suffix('')}{ending}")
    return f"{compression.command} {path} | {command} > {target}"
