"""TSV, CSV and JSON Lines: which texts pair, what is skipped, and what is said about files that will not do."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.languages.codes import names_of
from nmt.prepare.formats.tables import read_csv, read_jsonl, read_tsv
from nmt.prepare.pairs import Layout
from nmt.text.segments import one_line
from nmt.text.tokenizer import is_blank
from reading import NAMED, pairs, problem

NUMBERED = Layout(("de", "en"), {"de": "1", "en": "2"})
MAPPING = Layout(("de", "en"), {"de": "translation.de", "en": "translation.en"})


def columns(de: str, en: str | list[str]) -> Layout:
    return Layout(("de", "en"), {"de": de, "en": en})


# --- columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "names", "found"),
    [
        ("de", ["en", "de"], ["de"]),
        ("de", ["de-AT", "DE "], ["DE "]),
        ("de", ["de-AT", "de_DE"], ["de-AT", "de_DE"]),
        ("pt_BR", ["pt-br", "pt"], ["pt-br"]),
        ("de_DE", ["de-AT", "de"], []),
        ("zh", ["zh-Hant-TW", "zho"], ["zho"]),
        ("zh_Hant", ["zh-CN", "zh-TW"], ["zh-TW"]),
        ("sr_Latn", ["sr", "sr@latin", "sr_Latn_score"], ["sr@latin"]),
        ("az", ["azb", "azj_Latn"], ["azj_Latn"]),
        ("en", ["eng", "en"], ["en"]),
        ("khm_Khmr", ["km-KH", "kh"], ["km-KH"]),
        ("zh_Hans", ["zh-TW", "zho-Hans-CN"], ["zho-Hans-CN"]),
        ("de", ["den", "de_score", "de_text", "de-"], []),
    ],
)
def test_column_names_match_language_codes(language: str, names: list[str], found: list[str]) -> None:
    assert names_of(language, names) == found


@settings(max_examples=40)
@given(st.text(st.sampled_from(" \n\r\tab\x0b\u2028")))
def test_one_line_preserves_words(text: str) -> None:
    line = one_line(text)
    assert "\n" not in line and "\r" not in line and line == line.strip()
    assert line.split() == text.split()
    assert line == text.strip() or "\n" in text or "\r" in text


# --- TSV ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "layout", "expected"),
    [
        (b"en\tde\nX\tx\n", NAMED, [("x", "X")]),
        (b"\xef\xbb\xbfid\tde_AT\tEN\r\n1\tx\tX\r\n", NAMED, [("x", "X")]),
        (b"x\tX\nde\ten", NUMBERED, [("x", "X"), ("de", "en")]),
        (b"X\t0.5\tx\tmore\t\n", columns("3", "1"), [("x", "X")]),
        (b"src\ttgt\nx\tX\n", columns("src", "tgt"), [("x", "X")]),
        (b"us\tgb\tde\nA\tX\tx\n", columns("de", ["en", "gb", "us"]), [("x", "X")]),
        (b'"x\tX\ny"\t"Y"\n', NUMBERED, [('"x', "X"), ('y"', '"Y"')]),
        (" a\rb \tc\u2028d\x0b\n".encode(), NUMBERED, [("a b", "c\u2028d")]),
        (b"", NUMBERED, []),
    ],
)
def test_tsv_rows_are_read(data: bytes, layout: Layout, expected: list[tuple[str, str]]) -> None:
    assert pairs(read_tsv, data, layout) == (expected, {})


@pytest.mark.parametrize(
    ("data", "layout", "expected"),
    [
        (b'de\ten\n"a ""x"""\t"""X"" b"\ny\tY\n', NAMED, [('a "x"', '"X" b'), ("y", "Y")]),
        (b'"x, ""y""\r\nz"\tX\ny\t"\tY"\n', NUMBERED, [('x, "y" z', "X"), ("y", "Y")]),
        (b'"de"\t"en"\n"x"\t"X"\n', NAMED, [("x", "X")]),
    ],
    ids=["doubled", "line break", "all quoted"],
)
def test_quoted_tsv_is_read_as_csv(data: bytes, layout: Layout, expected: list[tuple[str, str]]) -> None:
    read, skipped = pairs(read_tsv, data, layout)
    assert read == expected and [*skipped.values()] == [1] and "format: tsv" in str(skipped)


@pytest.mark.parametrize(
    "rows",
    [
        [('"x"', '"X"'), ("y", "Y")],
        [('"x", ""y""', "X")],
        [('"x ""y"""', 'X "'), ('""', "Y")],
        [('"x, y', "X, Y"), ('z ""', "Z")],
        [('""', "X"), ('"y"', '"Y"'), *[("z", "Z")] * 300, ('"a', "A"), ("b", "B"), ('c"', "C")],
        [('"x ""y""', "X"), ("z", "Z"), ('a"', "A"), ("b", "B")],
        [("w", "W"), ('"x ""y"" z', 'X"')],
    ],
    ids=["quotations", "not quoted", "mixed", "open at the end", "blank", "over rows", "of several widths"],
)
def test_quotes_of_other_tsv_are_kept(rows: list[tuple[str, str]]) -> None:
    data = "".join(f"{de}\t{en}\n" for de, en in rows).encode()
    assert pairs(read_tsv, data, NUMBERED) == (rows, {})


def test_quotes_are_kept_with_format_tsv() -> None:
    assert pairs(read_tsv, b'"a ""x"""\tX\n', replace(NUMBERED, format="tsv")) == ([('"a ""x"""', "X")], {})


def test_record_of_quoted_tsv_that_is_not_csv_raises() -> None:
    message = problem(read_tsv, b'"a ""x"""\tX\n' + b"y\tY\n" * 200 + b'"z" z\tZ\n', NUMBERED)
    assert message.startswith("f: the record at line 202 ") and "format: tsv" in message


def test_rows_of_another_width_are_skipped() -> None:
    data = b"de\ten\nx\tX\ny\n\nz\tZ\t\na\tA\n"
    skipped = {"fewer columns than 2": 1, "empty line": 1, "more columns than 2": 1}
    assert pairs(read_tsv, data) == ([("x", "X"), ("a", "A")], skipped)
    assert pairs(read_tsv, b"x\tX\nshort\n\na\tA\tmore\n", columns("1", "2")) == (
        [("x", "X"), ("a", "A")],
        {"fewer columns than 2": 1, "empty line": 1},
    )


@pytest.mark.parametrize(
    ("data", "layout", "message"),
    [
        (b"id\tdeutsch\ten\n", NAMED, "f: no column for de; the columns are id, deutsch, en; write columns: {de: NAME, "
         "en: NAME}, or numbers if there is no header: columns: {de: 1, en: 2}"),
        (b"a\tb\n", columns("b", "c"), "f: no column named c; the columns are a, b; write "),
        (b"de\ten\tde\n", NAMED, "f: 2 columns for de; the columns are de, en, de; write "),
        (b"de-AT\tde_DE\ten\n", NAMED, "f: 2 columns for de; the columns are de-AT, de_DE"),
        (b"a\tb\n", columns("a", "a"), "f: column a cannot contain both de and en; "),
        (b"", NAMED, "f: empty, where a header with the names of the columns is needed"),
        (b"\n\n", NAMED, "f: empty, where a header with the names of the columns is needed"),
        (b"a\tb\n", columns("1", "b"),
         "f: columns and score must be names, or different numbers from 1; found 1 and b"),
        (b"a\tb\tc\n", columns("1", ["2", "3"]), "f: columns and score must be names, or different numbers from 1"),
        (b"a\tb\n", columns("0", "1"),
         "f: columns and score must be names, or different numbers from 1; found 0 and 1"),
        (b"de\ten\nx\t\xe4\n", NAMED, "f: not UTF-8 at line 2, byte 3 of the line (0xE4); "),
        (b"PK\x03\x04", NUMBERED, "f: a zip archive"),
    ],
)  # fmt: skip
def test_invalid_tsv_raises(data: bytes, layout: Layout, message: str) -> None:
    assert problem(read_tsv, data, layout).startswith(message)


# --- CSV ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "layout", "expected"),
    [
        (b"id,de,en\n1,x,X\n", NAMED, [("x", "X")]),
        (b"\xef\xbb\xbfde;en\r\nx, y;X\r\n", NAMED, [("x, y", "X")]),
        (b'de|en\n"x|y"|"a ""X"""\n', NAMED, [("x|y", 'a "X"')]),
        (b'de,en\n"x\ny\r\n\r\n z","X"\n', NAMED, [("x y z", "X")]),
        (b'"de", "en"\n"x", "X, Y"\n', NAMED, [("x", "X, Y")]),
        (b"a, b;c, d\n" * 2, NUMBERED, [("a, b", "c, d")] * 2),
        (b'"a;, b","c, d"\n' * 2, NUMBERED, [("a;, b", "c, d")] * 2),
        (b"a;b\tc\n" * 2, NUMBERED, [("a;b", "c")] * 2),
        (b'"a; b","c; d"\n', NUMBERED, [("a; b", "c; d")]),
        (b'a;b,c\n"a;b","c"\n', NUMBERED, [("a;b", "c")] * 2),
        (b'a "b" c,d\n', NUMBERED, [('a "b" c', "d")]),
        (b"a,b", NUMBERED, [("a", "b")]),
        (b"sep=;\r\nde;en\r\nx, y;X, Y\r\n", NAMED, [("x, y", "X, Y")]),
        (b'\xef\xbb\xbf"SEP=\t"\nx;y\tX;Y\n', NUMBERED, [("x;y", "X;Y")]),
        (b"a\x00,b\r\r\n", NUMBERED, [("a\x00", "b")]),
        (b"", NUMBERED, []),
    ],
)
def test_csv_rows_are_read(data: bytes, layout: Layout, expected: list[tuple[str, str]]) -> None:
    assert pairs(read_csv, data, layout) == (expected, {})


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b'de,en\nx,X\n"y,Y\nz,Z\n', 3, "unexpected end of data"),
        (b'de,en\nx,X\n"y,Y\n"z",Z\n', 3, "',' expected after '\"'"),
        (b'de,en\n"x\ny",X\n"y" Y,z\n', 4, "',' expected after '\"'"),
        (b'de,en\nx,"' + b"word " * 30_000, 2, "field larger than field limit"),
        (b"de,en\nx\ry,X\n", 2, "new-line character seen in unquoted field"),
    ],
)
def test_unbalanced_quotes_raise(data: bytes, line: int, reason: str) -> None:
    assert problem(read_csv, data).startswith(f"f: the record at line {line} is not CSV separated by ',': {reason}")


def test_record_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.prepare.formats.tables.LINE_BYTES", 100)
    data = b"de,en\n" + b"word word word word,Wort Wort\n" * 10
    assert len(pairs(read_csv, data)[0]) == 10
    data = b'de,en\nx,"\n' + b'word word word word,","\n' * 10
    assert "the record at line 2 is not CSV separated by ',': a record of more than 0 MB" in problem(read_csv, data)


@pytest.mark.parametrize(
    ("data", "layout", "message"),
    [
        (b"id;deutsch;en, or so\n", NAMED, "f, separated by ';': no column for de; the columns are id, deutsch, en, or "
         "so; write columns: {de: NAME, en: NAME}, or numbers if there is no header: columns: {de: 1, en: 2}"),
        (b"\n\n", NAMED, "f, separated by '\\t': empty, where a header"),
        (b"a,b\n", columns("1", "1"),
         "f, separated by ',': columns and score must be names, or different numbers from 1; found 1 and 1"),
        (b"de,en\nx,\xe4\n", NAMED, "f: not UTF-8 at line 2, byte 3 of the line (0xE4); "),
    ],
)  # fmt: skip
def test_invalid_csv_raises(data: bytes, layout: Layout, message: str) -> None:
    assert problem(read_csv, data, layout).startswith(message)


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff"), min_size=1, max_size=20)


@settings(max_examples=30)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=10), st.sampled_from(",;|\t"))
def test_written_tables_are_read_back(rows: list[tuple[str, str]], delimiter: str) -> None:
    wanted = [(a.strip(), b.strip()) for a, b in rows if not (is_blank(a) or is_blank(b))]
    file = StringIO()
    csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([("de", "en"), *rows])
    assert pairs(read_csv, file.getvalue().encode())[0] == wanted
    lines = "".join(json.dumps({"de": a, "en": b}, ensure_ascii=delimiter == ",") + "\n" for a, b in rows)
    assert pairs(read_jsonl, lines.encode())[0] == wanted


# --- JSON Lines -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "layout", "expected"),
    [
        (b'{"id": 1, "de": "x", "en": "X"}\n', NAMED, [("x", "X")]),
        (b'\xef\xbb\xbf{"de-AT": "x\\n y", "EN": "X"}\r\n', NAMED, [("x y", "X")]),
        (b'{"translation": {"en": "X", "de": "x"}}', MAPPING, [("x", "X")]),
        (b'{"a": {"b": {"en": "X", "de": "x"}}}', Layout(("de", "en"), {"de": "a.b.de", "en": "a.b.en"}), [("x", "X")]),
        (b'{"a": {"s": "x", "t": "X"}}', columns("a.s", "a.t"), [("x", "X")]),
        (b'{"a.s": "x", "a": {"s": "no", "t": "X"}}', columns("a.s", "a.t"), [("x", "X")]),
        (
            b'{"t": "x", "en": "b"}\n{"t": "y", "en": "b", "gb": "a"}',
            columns("t", ["gb", "en"]),
            [("x", "b"), ("y", "a")],
        ),
        (
            b'{"t": "x", "gb": null, "en": "b"}\n{"t": "y", "gb": " ", "en": "c"}\n{"t": "z", "gb": "a", "en": null}',
            columns("t", ["gb", "en"]),
            [("x", "b"), ("y", "c"), ("z", "a")],
        ),
        (b'{"de": "x", "en": "\\ud83d\\ude00", "n": NaN}', NAMED, [("x", "\U0001f600")]),
        (b"", NAMED, []),
    ],
)
def test_json_lines_are_read(data: bytes, layout: Layout, expected: list[tuple[str, str]]) -> None:
    assert pairs(read_jsonl, data, layout) == (expected, {})


OBJECTS = [{"de": "x", "en": "X"}, {"de": None, "en": "X"}, {"de": "x"}, {}, {"de": "\ud800", "en": "X"}]


@pytest.mark.parametrize(
    ("data", "layout", "expected", "skipped"),
    [
        (b"\n \n" + "\n".join(map(json.dumps, OBJECTS)).encode(), NAMED, [("x", "X")],
         {"empty line": 2, "no text in de": 1, "no text in en": 1, "no text in de or en": 1,
          "broken Unicode in de": 1}),
        (b'{"translation": null}\n{"translation": {"de": "x", "en": "X"}}\n{}\n', MAPPING, [("x", "X")],
         {"no text in de or en": 2}),
        (b'{"t": "x", "gb": null}', columns("t", ["gb", "en"]), [], {"no text in en": 1}),
        (b'{"de": "", "en": " "}', NAMED, [], {"no text in de or en": 1}),
    ],
)  # fmt: skip
def test_objects_without_text_are_skipped(
    data: bytes, layout: Layout, expected: list[tuple[str, str]], skipped: dict[str, int]
) -> None:
    assert pairs(read_jsonl, data, layout) == (expected, skipped)


@pytest.mark.parametrize(
    ("data", "layout", "message"),
    [
        (b'{"de": "x", "en": "X"}\n{"de": 1, "en": "X"}', NAMED, "f: line 2: a number for de, where text is needed"),
        (b'{"de": "x", "en": ["X"]}', NAMED, "f: line 1: a list for en, where text is needed"),
        (b'{"de": "x", "en": {}}', NAMED, "f: line 1: an object for en, where text is needed"),
        (b'{"de": true, "en": {}}', NAMED, "f: line 1: true or false for de, where text is needed"),
        (b'["x", "X"]', NAMED, "f: line 1: a list, where JSON Lines has an object such as {...} per line"),
        (b"null", NAMED, "f: line 1: null, where JSON Lines has an object"),
        (b'\n"x"', NAMED, "f: line 2: text, where JSON Lines has an object"),
        (b'[{"de": "x"},\n', NAMED, "f: line 1: not JSON: Expecting value at character "),
        (b'{"de": "x", "de": "y", "en": "X"}', NAMED, "f: line 1: not JSON: a key occurs twice in an object"),
        (b'{"a": ' * 200_000, NAMED, "f: line 1: not JSON: nested too deeply; "),
        (b'{"a": ' + b"1" * 5000 + b"}", NAMED, "f: line 1: not JSON: Exceeds the limit"),
        (b'{"de-AT": "x", "de-DE": "x"}', NAMED, "f: line 1: 2 keys for de, de-AT, de-DE; write columns: {de: KEY, "),
        (b'{"translation": "x"}', MAPPING, "f: no key for de in any of 1 objects; the first has the keys translation"),
        (b'{"\\ud800\\n": "x"}\n{"b": 1}', NAMED, "f: no key for de in any of 2 objects; the first has the keys "
         "\\ud800; write columns: {de: KEY, en: KEY}; KEY may be a path"),
        (b'{"de": "x"}', columns("de", "de.en"), "f: no key for en in any of 1 objects; the first has the keys de; "),
        (b'{"de": "\xe4"}', NAMED, "f: not UTF-8 at line 1, byte 9 of the line (0xE4); "),
    ],
)  # fmt: skip
def test_invalid_json_lines_raise(data: bytes, layout: Layout, message: str) -> None:
    assert problem(read_jsonl, data, layout).startswith(message)
