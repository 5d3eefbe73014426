"""PO: messages, languages, plurals, charsets, and damaged files. `polib` writes and reads them as well."""

from __future__ import annotations

import pytest

from nmt.prepare.formats.units import read_po
from reading import error_of, read_bytes

HEADER = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'  # five lines


def message(source: str, target: str) -> str:
    return f'msgid "{source}"\nmsgstr "{target}"\n\n'


def test_po_messages_of_all_kinds_are_read() -> None:
    data = (
        HEADER
        + '# a comment\n#. for translators\n#: a.c:1\n#, c-format\n#| msgid "old"\nmsgid "one"\nmsgstr "eins"\n\n'
        + 'msgctxt "menu"\nmsgid ""\n"two "\n"lines\\n"\n"of \\"it\\"\\n"\nmsgstr "zwei "\n\t"Zeilen\\n da\\tvon"\n'
        + 'msgid "no blank line before"\nmsgstr "keine Leerzeile davor"\n'
        + '#, fuzzy\n#, c-format\nmsgid "fuzzy"\nmsgstr "unscharf"\n\n'
        + '#= range: 0..9, fuzzy\nmsgid "fuzzy, too"\nmsgstr "auch unscharf"\n\n'
        + '#, python-format\n#. fuzzy\nmsgid "not fuzzy"\nmsgstr "scharf"\n\n'
        + 'msgid "untranslated"\nmsgstr ""\n\n'
        + '#~ msgctxt "c"\n#~ msgid "old"\n#~ msgstr ""\n#~ "alt"\n\n#~| msgid "older"\n#~ msgid "x"\n#~ msgstr "y"\n'
        + 'msgctxt "empty, but no header"\nmsgid ""\nmsgstr "leer"\n# the end\n'
    )
    assert read_bytes(read_po, data) == (
        [("eins", "one"), ("zwei Zeilen da\tvon", 'two lines of "it"'),
         ("keine Leerzeile davor", "no blank line before"), ("scharf", "not fuzzy")],
        {"fuzzy": 2, "no text in de": 1, "no text in en": 1, "obsolete": 2},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "text"),
    [(r"a\\nb", r"a\nb"), (r"a\tb", "a\tb"), (r"C:\\", "C:\\"), (r"\"", '"'), (r"100\%", r"100\%"), ("a#b", "a#b")],
)
def test_po_escapes_are_decoded(written: str, text: str) -> None:
    assert read_bytes(read_po, HEADER + message("x", written))[0] == [(text, "x")]


@pytest.mark.parametrize(
    ("forms", "pairs", "skipped"),
    [
        (["Datei"], [("Datei", "%d files")], {}),
        (["%d Datei", "%d Dateien"], [("%d Datei", "%d file"), ("%d Dateien", "%d files")], {}),
        (["%d Datei", ""], [("%d Datei", "%d file")], {"no text in de": 1}),
        (["a", "b", "c"], [], {"plural": 1}),
    ],
)
def test_po_plurals_are_paired(forms: list[str], pairs: list[tuple[str, str]], skipped: dict[str, int]) -> None:
    data = HEADER + 'msgid "%d file"\nmsgid_plural "%d files"\n'
    data += "".join(f'msgstr[{i}] ""\n"{form}"\n' for i, form in enumerate(forms))
    assert read_bytes(read_po, data) == (pairs, skipped)


@pytest.mark.parametrize(
    ("expression", "pairs"),
    [
        ("nplurals=2; plural=(n != 1);", [("a", "%d file"), ("b", "%d files")]),
        ("nplurals=2; plural=(n == 1);", [("a", "%d files"), ("b", "%d file")]),
        ("nplurals=INTEGER; plural=EXPRESSION;", [("a", "%d file"), ("b", "%d files")]),
    ],
)
def test_po_singular_is_paired_with_form_for_one_object(expression: str, pairs: list[tuple[str, str]]) -> None:
    header = HEADER.replace('"Content', f'"Plural-Forms: {expression}\\n"\n"Content')
    data = header + 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "a"\nmsgstr[1] "b"\n'
    assert read_bytes(read_po, data) == (pairs, {})


def test_po_languages_are_read_from_header() -> None:
    text = message("one", "eins")
    columns = {"de": "msgstr", "en": "msgid"}
    for header, named, expected in [
        (HEADER, None, ([("eins", "one")], {})),
        (HEADER.replace("de", "de_AT@euro"), None, ([("eins", "one")], {})),
        (HEADER.replace("de", "fr"), None, ([], {"languages en-fr": 1})),
        (HEADER.replace("de", "en"), None, ([], {"languages en-en": 1})),
        (HEADER.replace("Language: de", "X-Source-Language: de\\nLanguage: en"), None, ([("one", "eins")], {})),
        (HEADER.replace("de", "fr"), columns, ([("eins", "one")], {})),
        ("", columns, ([("eins", "one")], {})),
        ("", {"de": "msgid", "en": "msgstr"}, ([("one", "eins")], {})),
    ]:
        assert read_bytes(read_po, header + text, columns=named) == expected
    for header in ("", HEADER.replace("Language: de", "Language: ")):
        assert error_of(read_po, header + text) == (
            "F: no Language in its header; state the languages with columns: {de: msgid, en: msgstr} or the reverse"
        )
    assert "columns must be msgid and msgstr" in error_of(read_po, text, {"de": "0", "en": "1"})


def test_wrong_charset_raises() -> None:
    assert (
        error_of(read_po, (HEADER + "\n").encode("utf-16"))
        == "F: UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8"
    )
    data = 'msgid ""\nmsgstr "Language: de\\n"\n\n' + message("a", "ä")
    assert error_of(read_po, data.encode("latin-1")) == "F: line 5: not utf-8, and its header names no other charset"


@pytest.mark.parametrize("charset", ["UTF-8", "ISO-8859-1", "windows-1252", "CHARSET"])
def test_po_charset_is_read_from_header(charset: str) -> None:
    data = HEADER.replace("UTF-8", charset) + message("larger", "größer")
    encoding = "utf-8" if charset == "CHARSET" else charset
    assert read_bytes(read_po, data.encode(encoding))[0] == [("größer", "larger")]


def test_po_charset_is_found_in_continued_header() -> None:
    for header, encoding in (
        (HEADER.replace("; charset=UTF-8", '; "\n"charset=latin-1'), "latin-1"),
        (HEADER.replace("; charset=UTF-8", ';"\r\n\t"charset=latin-1'), "latin-1"),
        (HEADER.replace("; charset=UTF-8", '\\n"\n"X-Note: charset=latin-1'), "utf-8"),
    ):
        data = (header + message("larger", "größer")).encode(encoding)
        assert read_bytes(read_po, data)[0] == [("größer", "larger")]


@pytest.mark.parametrize("charset", ["utf-16", "utf-7", "zlib", "punycode", "unicode_escape", "undefined", "nonsense"])
def test_unsupported_charsets_raise(charset: str) -> None:
    expected = f"F: the charset {charset} in its header is not supported; save the file as UTF-8"
    assert error_of(read_po, HEADER.replace("UTF-8", charset)) == expected


# --- damaged --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('msgid "a"\nmsgid "b"\nmsgstr "B"\n', "line 8: msgid after msgid"),
        ('msgstr "A"\nmsgid "b"\n', "line 7: msgstr after the message before"),
        ('msgid "a"\n# lost\nmsgstr "B"\n', "line 8: a comment inside a message"),
        ('msgid "a\nmsgstr "B"\n', 'line 7: neither a quoted text nor a keyword with one: msgid "a'),
        ('msgid "a" "b"\nmsgstr "B"\n', "line 7: neither"),
        ('msgid "a"\rmsgstr "A"\n', 'with one: msgid "a"\\rmsgstr "A"'),
        ('msgid a\nmsgstr "B"\n', "line 7: neither"),
        ('msgid\nmsgstr "B"\n', "line 8: msgstr, where the text of msgid is needed"),
        ('"a"\n', "line 7: neither"),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr "B"\n', "line 9: msgstr after msgid_plural"),
        ('msgid "a"\nmsgstr[0] "B"\n', "line 8: msgstr[0] after msgid"),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr[1] "B"\n', "line 9: msgstr[1] after msgid_plural"),
        ('msgid "a"\n#~ msgstr "B"\n', "line 8: only a part of the message is marked as obsolete"),
        ('msgid "a"\nmsgstr "A"\n\n"b"\n', "line 10: neither"),
        ('msgid "a"\n', "line 7: the file ends inside a message"),
        ('msgid "a"\nmsgstr "\udcff"\n', "line 8: not UTF-8, its charset"),
    ],
)
def test_invalid_messages_are_rejected(text: str, problem: str) -> None:
    assert problem in error_of(read_po, (HEADER + "#\n" + text).encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    ("name", "header", "language", "is_found"),
    [
        ("sr.po", "sr", "sr", True),
        ("sr@latin.po", "sr@latin", "sr", False),
        ("sr@latin.po", "sr", "sr", False),
        ("locale/sr_Latn/LC_MESSAGES/a.po", "sr", "sr_Latn", True),
        ("sr@latin.po", "sr@latin", "sr_Latn", True),
        ("sr.po", "sr_RS", "sr_Latn", False),
        ("uz@cyrillic.po.gz", "uz", "uz", False),
        ("be@tarask.po", "be", "be", True),
        ("ku_Latn.po", "sr", "sr", True),
        ("zh_TW.po", "zh_TW", "zh", False),
        ("sr@latin/a.po", "sr@cyrillic", "sr", True),  # the header says it
        ("sr_Latn/a.po", "sr_RS", "sr", True),
        ("sr_Cyrl/old/sr@latin.po", "sr", "sr_Latn", True),  # the nearest part
        ("sr_Latn/sr_Cyrl/LC_MESSAGES/a.po", "sr", "sr_Latn", False),
    ],
)
def test_po_in_another_script_is_left_out(name: str, header: str, language: str, is_found: bool) -> None:
    data = HEADER.replace("de", header) + message("one", "x")
    pairs, skipped = read_bytes(read_po, data, ("en", language), name=name)
    assert pairs == ([("one", "x")] if is_found else []) and bool(skipped) != is_found
