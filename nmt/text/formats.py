"""Recognition of files that are not lines of UTF-8 text, by their first bytes.

Compression, binary formats and encodings are checked wherever text is read. Formats that are text themselves (XML, PO,
JSON, tables) are checked for the sides of a corpus, and for texts to translate unless their lines are asked for.
Refusing an ordinary corpus would be worse than overlooking a table, so tables are recognised by many lines.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import AnyStr

from nmt.files.compressed import recognised

BEGINNING = 1 << 16
"""Bytes from the start of a file that are examined."""
_N_LINES = 200  # of the beginning
_BINARY = {  # patterns: a sentence may begin like a short magic number
    rb"PK\x03\x04": "a zip archive or an office document",
    rb"%PDF-\d\.\d\s*[\r\n]": "a PDF document",
    rb"\{\\rtf1?\s*[\\{]": "an RTF document",
    rb"\xd0\xcf\x11\xe0": "a document of an office program",
    rb"7z\xbc\xaf\x27\x1c": "a 7z archive",
    rb"(?s).{257}ustar(?:\x0000|  \x00)": "a tar archive",
    rb"\x04\x22\x4d\x18": "a file compressed with LZ4",
    rb"PAR1[^\n]{0,8}[\x00-\x08\x0e-\x1f]": "a Parquet file",
    rb"ARROW1\x00\x00": "an Arrow file",
}


def text_problem(start: bytes) -> str | None:
    """Return the format of a file that begins with `start`, and the remedy; None if it may be text in UTF-8."""
    if problem := compression_problem(start):
        return problem
    if kind := _first(_BINARY, start):
        return f"{kind}, where a text file is needed; save its text as plain text"
    encoding = _wide_encoding(start)
    return f"{encoding[:6]}; convert it to UTF-8: iconv -f {encoding} -t UTF-8" if encoding else None


def compression_problem(start: bytes) -> str | None:
    """Return the compression of content that begins with `start`, and the remedy; None if it is not compressed."""
    kind = recognised(start)
    if kind is None:
        return None
    return f"compressed with {kind.name}; decompress it ({kind.command}) or rename it to end in {kind.suffix}"


def _first(kinds: dict[AnyStr, str], start: AnyStr) -> str | None:
    """Return the kind with the first pattern that the beginning of a file matches."""
    return next((kind for pattern, kind in kinds.items() if re.match(pattern, start)), None)


def _wide_encoding(start: bytes) -> str | None:
    """Return the encoding of text with two or four bytes per character, by its name in iconv."""
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "UTF-32"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16"
    n = min(len(start), 1000) // 2
    high = start[: 2 * n : 2].count(0)
    low = start[1 : 2 * n : 2].count(0)
    if n < 8 or max(high, low) < 0.6 * n or min(high, low) > 0.1 * n:  # without a mark: every other byte is NUL
        return None
    return "UTF-16BE" if high > low else "UTF-16LE"


def other_encoding(line: bytes, is_mixed: bool) -> str:
    """Return the remedy for a `line` that is not UTF-8.

    `is_mixed`: whether earlier lines have characters beyond ASCII, so that the file is not in another encoding.
    """
    if is_mixed:
        return "earlier lines are valid; remove the invalid bytes: iconv -c -f UTF-8 -t UTF-8"
    if re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", line):
        return "is it a text file?"
    return (
        "convert it from its encoding, such as WINDOWS-1252, ISO-8859-2 or WINDOWS-1250 (Central Europe), KOI8-U or "
        "WINDOWS-1251 (Cyrillic), SHIFT_JIS or GB18030, and look at the result: iconv -f ENCODING -t UTF-8"
    )


def other_format(start: bytes) -> str | None:
    """Return the format of a file that begins with `start`; None if it may have one sentence per line.

    `start`: the first BEGINNING bytes, or the whole file if it is shorter.
    """
    text, lines = _text_and_lines(start)
    return _text_document(text, lines) or _tab_separated(lines)


def document_kind(start: bytes, suffix: str = "") -> str | None:
    """Return the kind of document that begins with `start`, such as HTML or PDF; None if it may be lines of text.

    Unlike `other_format`, this includes binary formats, and no tab-separated text. start: as for `other_format`;
    suffix: the end of the file name, such as .md.
    """
    return _first(_BINARY, start) or _text_document(*_text_and_lines(start), suffix)


def _text_and_lines(start: bytes) -> tuple[str, list[str]]:
    """Return the text at the beginning of a file, and its first complete lines that are not blank."""
    text = start.decode(_wide_encoding(start) or "utf-8-sig", errors="replace").lstrip("\ufeff")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if len(start) >= BEGINNING and len(lines) > 1:
        lines.pop()  # truncated
    return text, [line for line in lines[:_N_LINES] if line.strip()]


def _text_document(text: str, lines: Sequence[str], suffix: str = "") -> str | None:
    if not lines:
        return None
    by_beginning = _first(_TEXTS, f"{suffix}\n{text}")
    return _markup(text.lstrip()) or _po(lines) or by_beginning or _json(text, lines) or _csv(lines, suffix)


TABLE = "a table"
"""The kind of files named .csv and .tsv that are tables."""
_TEXTS = {  # the suffix of the name and the text, in which an arrow or equals sign alone is no evidence
    r".*\n(?:\s*\d+[ \t]*\r?\n|WEBVTT(?:[ \t][^\n]*|\r)?\n(?:[^\n]*\n)*?)"
    r"(?:\d+:)?\d\d?:\d\d[,.]\d+[ \t]+-->[ \t]+(?:\d+:)?\d\d?:\d\d[,.]\d": "subtitles",
    # lines such as `Mehl: 500 g` and `Wissen = Macht` may be prose
    r"\.(?:properties|strings)\n|.*\n\s*(?://[^\n]*\n\s*|/\*[^*]*\*/\s*)*"
    r"(?:\"[^\"\n]+\"[ \t]*=[ \t]*\"[^\n]*\";[ \t\r]*\n\s*){5}": "a list of keys and texts",
    r"\.ass\n\s*\[Script Info\]": "subtitles",
    r"\.tex\n(?s:.*?)\\(?:documentclass|begin|(?:sub)*section|usepackage)\b": "LaTeX",
    r"\.xml\n\s*<": "XML",
    r"\.jsonl?\n|\.arb\n\s*\{\s*[\"}]": "JSON",  # Standard Arabic has the code arb
    r"\.md\n": "Markdown",
    # the suffixes yml, csv and tsv are languages, too, Iamalele, Sumtu Chin and Tsogo: none of five lines may be a
    # sentence, unless the first key has an indented line, or any key a text of several lines
    r"\.yaml\n|\.yml\n(?:(?!(?:.*\n){0,4}(?!\s*[#-]|.*:(?:\s|\Z)).*\w)|(?s:.*?)[\w\"']:[ \t]+[|>][-+\d]*[ \t\r]*\n"
    r"|\s*(?:#[^\n]*\n\s*|---[ \t\r]*\n\s*)*[\"'\w.-]+:(?:[ \t][^\n]*|\r)?\n(?:[ \t\r]*\n)*[ ]+\S)": "YAML",
    r"\.csv\n(?!(?:.*\n){0,4}[^,;\t\n]*\w[^,;\t\n]*(?:\n|\Z))"
    r"|\.tsv\n(?!(?:.*\n){0,4}[^\t\n]*\w[^\t\n]*(?:\n|\Z))": TABLE,
}
_ROOTS = {
    "tmx": "TMX", "xliff": "XLIFF", "html": "HTML", "srcset": "SGML", "refset": "SGML", "tstset": "SGML",
    "resources": "Android resources", "ts": "a file of Qt Linguist", "root": "XML", "plist": "XML",
}  # fmt: skip
_FIRST_INSIDE = r"<(?:html>\s*<(?:head|body)|(?:resources|root|plist)\s*>\s*<(?:!--|dict>|[a-z:-]+\s[a-z:]+=))"
"""Matches the beginning of a root element without attributes; any other tag is no evidence."""


def _markup(text: str) -> str | None:
    """Return the kind of XML, HTML or SGML, by its declaration or root element."""
    root = re.match(
        r"(?P<declared>(?:<\?xml\s[^>]*\?>|<!doctype\s[^>]*>|<!--.*?-->|\s)*)<(?P<name>[a-z][\w:.-]*)(?P<rest>[^>]*)",
        text,
        re.IGNORECASE | re.DOTALL,
    )
    if root is None:
        return "XML" if re.match(r"<\?xml\s|<!doctype\s", text, re.IGNORECASE) else None
    name = root["name"].lower()
    declared = root["declared"].strip()
    if not (declared or root["rest"].strip() or re.match(_FIRST_INSIDE, text, re.IGNORECASE)):
        return None
    if name in _ROOTS:
        return _ROOTS[name]
    if not declared or declared.startswith("<!--"):
        return None
    return "HTML" if "doctype html" in declared.lower() else "XML"


def _po(lines: Sequence[str]) -> str | None:
    for key in ("msgid ", "msgstr"):
        if not any(line.startswith(key) for line in lines):
            return None
    pattern = re.compile(r'#|(msgctxt|msgid|msgid_plural|msgstr(\[\d+\])?)\s+"|\s*".*"\s*$')
    n_like_po = sum(pattern.match(line) is not None for line in lines)
    return "a PO file of gettext" if n_like_po >= 0.8 * len(lines) else None


def _json(text: str, lines: Sequence[str]) -> str | None:
    """Return JSON if text is one JSON document, or each line is a JSON object or a list with several strings."""
    if (len(lines) == 1 or lines[0].strip() in ("{", "[")) and re.match(r'\s*(\[\s*)?\{\s*"', text):
        return "JSON"
    try:
        rows = [json.loads(line) for line in lines[:20]]
    except (ValueError, RecursionError):
        return None
    are_objects = all(isinstance(row, dict) and row for row in rows)
    return "JSON" if are_objects or (len(rows) >= 3 and all(map(_has_strings, rows))) else None


def _has_strings(row: object) -> bool:
    return isinstance(row, list) and sum(isinstance(item, str) for item in row) >= 2


def _tab_separated(lines: Sequence[str]) -> str | None:
    """Return tab-separated text with its number of columns, or None.

    If there are two columns, both must be text: lines may be numbered.
    """
    rows = [line.split("\t") for line in lines]
    if len(rows) < 5 or len({*map(len, rows)}) != 1 or len(rows[0]) < 2:
        return None
    if len(rows[0]) == 2 and min(map(_n_words, zip(*rows, strict=True))) < 0.5 * len(rows):
        return None
    return f"tab-separated text with {len(rows[0])} columns"


def _n_words(cells: Iterable[str]) -> int:
    """Return the number of cells with a letter."""
    return sum(any(map(str.isalpha, cell)) for cell in cells)


def _csv(lines: Sequence[str], suffix: str) -> str | None:
    """Return CSV with its separator, or None: all rows have as many columns and look written by a program.

    The first rows of a file named .csv or .tsv, which is a table, need only have as many columns.
    """
    is_named = suffix in (".csv", ".tsv")
    for separator in "\t" if suffix == ".tsv" else ",;":
        try:
            reader = csv.reader(lines, delimiter=separator, strict=True)
            rows = [*islice(reader, 5)] if is_named else [*reader]
        except csv.Error:
            continue
        if not is_named:
            rows = rows[:-1] or rows  # the last may continue
        if len({*map(len, rows)}) != 1 or len(rows[0]) < 2:
            continue
        if is_named:
            return TABLE
        if _is_written_by_program(lines, rows, separator):
            return f"CSV with the separator {separator!r}"
    return None


def _is_written_by_program(lines: Sequence[str], rows: Sequence[Sequence[str]], separator: str) -> bool:
    """Return whether lines are a table, given its rows of as many cells, and no prose with commas."""
    if len(rows) < 10 or any(cell.startswith(" ") for row in rows for cell in row):
        return False
    n_quoted = sum(f'"{separator}' in line or f'{separator}"' in line for line in lines)
    has_words = all(_n_words(row) > 1 for row in rows[1:])
    return n_quoted >= 0.5 * len(lines) or (len(rows) >= 20 and len(rows[0]) > 2 and has_words)


_ASCII = b"xn--a-+AGE- \\x41"
"""ASCII text that decodes differently in encodings that do not extend ASCII, or that escape characters."""
_BROWSERS = {
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"),
    "iso8859-9": "cp1254",
    **dict.fromkeys(("iso8859-11", "tis-620", "windows-874"), "cp874"),
    "iso-8859-8-i": "iso8859-8",
    "koi8-ru": "koi8-u",
    **dict.fromkeys(("gb2312", "gbk", "gb_2312-80"), "gb18030"),
    "big5": "big5hkscs",
    **dict.fromkeys(("shift_jis", "windows-31j"), "cp932"),
    **dict.fromkeys(("euc_kr", "ksc_5601", "windows-949"), "cp949"),
}
"""Encoding labels, or names in Python -> the encoding that browsers use: https://encoding.spec.whatwg.org/."""


def browser_encoding(label: str) -> str | None:
    """Return the encoding that browsers use for a page that declares `label`; None if it is not supported."""
    label = label.lower().removeprefix("x-")
    encoding = _BROWSERS.get(label, label)
    return _BROWSERS.get(name := codecs.lookup(encoding).name, name) if extends_ascii(encoding) else None


def extends_ascii(encoding: str) -> bool:
    """Return whether Python supports an encoding and it decodes ASCII as ASCII."""
    try:
        return _ASCII.decode(encoding) == _ASCII.decode("ascii")
    except (LookupError, UnicodeError):
        return False
