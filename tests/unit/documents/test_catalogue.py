"""Tests of PO catalogues, in which only untranslated messages change."""

from __future__ import annotations

import polib
import pytest

from documents import PO, reversed_upper
from nmt.documents import Translated, open_document
from nmt.text.po import po_messages


def test_only_untranslated_messages_are_translated() -> None:
    document = open_document("a.po", PO.encode())
    assert document.texts == ['Open "%s"', "and close", "one file", "many files"]
    catalogue = polib.pofile(document.translated([reversed_upper(text) for text in document.texts]).decode())
    before = polib.pofile(PO)
    assert [entry.msgid for entry in catalogue] == [entry.msgid for entry in before]
    menu, done, files, wrong, gone = catalogue
    assert [(entry.msgstr, entry.flags, entry.msgctxt) for entry in (menu, done, wrong)] == [
        ('"%S" OPEN\n<b>CLOSE</b> AND\n', ["c-format", "fuzzy"], "menu"), ("fertig", [], None), ("x", ["fuzzy"], None),
    ]  # fmt: skip
    assert files.msgstr_plural == {0: "FILE ONE", 1: "FILES MANY", 2: "FILES MANY"}
    assert files.flags == ["fuzzy", "c-format"] and files.previous_msgid == "one old file"
    assert gone.obsolete and gone.msgstr == "" and catalogue.header == before.header
    assert catalogue.metadata == before.metadata and menu.occurrences == [("file.c", "1")]


PLURALS = [
    # Arabic, Slovenian, Latvian, Welsh, Russian, French, Japanese
    ("nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);", 6, 1),
    ("nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);", 4, 1),
    ("nplurals=3; plural=n%10==0 || n%100>=11 && n%100<=19 ? 0 : n%10==1 && n%100!=11 ? 1 : 2", 3, 1),
    ("nplurals = 6 ; plural = (n==0) ? 0 : (n==1) ? 1 : (n==2) ? 2 : (n==3) ? 3 : (n==6) ? 4 : 5 ;", 6, 1),
    ("nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);", 3, 0),
    ("nplurals=2; plural=(n > 1);", 2, 0),
    ("nplurals=1; plural=0;", 1, None),
    ("nplurals=INTEGER; plural=EXPRESSION;", 2, 0),
    ("nplurals=6; plural=(n==1 ? 5 : 0);", 2, 0),  # the file has fewer forms
    ("nplurals=2; plural=n-2;", 2, 0),
    ("nplurals=2; plural=n/(n-1);", 2, 0),
    (f"nplurals=2; plural={'(' * 90}n{')' * 90};", 2, 0),
    (f"nplurals=2; plural={'n==' * 300}1;", 2, 0),
    (f"nplurals=2; plural={'!' * 2000}n;", 2, 0),
    ("nplurals=2; plural=9**9**9**9 < n;", 2, 0),
    ("nplurals=2; plural=__import__('os').getpid();", 2, 0),
    ("nplurals=2", 2, 0),
    ("", 2, 0),
]
"""A header's `Plural-Forms`, the number of forms of a message, and the one for one object, if any is only for some."""


@pytest.mark.parametrize(("header", "n_forms", "one"), PLURALS)
def test_form_for_one_object_has_translation_of_singular(header: str, n_forms: int, one: int | None) -> None:
    forms = "".join(f'msgstr[{i}] ""\n' for i in range(n_forms))
    po = f'msgid ""\nmsgstr ""\n"Plural-Forms: {header}\\n"\n\nmsgid "a dog"\nmsgid_plural "dogs"\n{forms}'
    document = open_document("a.po", po.encode())
    _, entry = po_messages("a.po", document.translated([Translated("ein"), Translated("viele")]).decode().split("\n"))
    translations = [text for keyword, text in entry.texts.items() if keyword.startswith("msgstr")]
    assert translations == ["ein" if i == one else "viele" for i in range(n_forms)]


def test_changed_placeholders_mark_message_fuzzy() -> None:
    po = """#, c-format
msgid "In %s: {name} of <b>7</b>, see https://a.org/b."
msgstr ""

#, c-format
msgctxt "x"
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
"""
    document = open_document("a.po", po.encode())
    kept = ["{name}: 7, cf. https://a.org/b (%s)", "%d F.", "F. (%d)"]
    lost = [("{name} in %s https://a.org", 0), ("name in %s, https://a.org/b", 0), ("F.", 1), ("%d %d", 2), ("%s", 2)]
    for translation, place in [("", None), *lost]:
        texts = [translation if i == place else text for i, text in enumerate(kept)]
        new = polib.pofile(document.translated([*map(Translated, texts)]).decode())
        assert [entry.fuzzy for entry in new] == [place == 0, place in (1, 2)], translation
        assert all("c-format" in entry.flags for entry in new)


@pytest.mark.parametrize(
    ("text", "translation", "is_fuzzy"),
    [
        ("1,000 of 24 h on 3/4", "Am 3.4. 1.000 von 24 Std.", False),
        ("two of 24", "2 von 24", False),
        ("page 3 of 24", "Seite 3", True),
        ("in 2019", "2091", True),
        ("15 files", "١٥ ملفا", False),
        ("15 files", "۱۵ پرونده", False),
        ("15 files", "१५ फ़ाइलें", False),
        ("15 files", "ไฟล์ ๑๕ รายการ", False),
        ("15 files", "١٦ ملفا", True),
        ("١٥ ملفا", "15 files", False),
        ("١٥ ملفا", "files", True),
        ("1,500.5 km", "١٬٥٠٠٫٥ كم", False),
        ("2.5 km", "２．５キロ", False),
        ("see https://a.org/1", "https://a.org/١", True),
        ("Save &As…", "Speichern &unter …", False),
        ("E&xit", "Beenden", True),
        ("_Open", "Öffnen", True),
        ("R & D", "F und E", False),
        ("100%% of it", "100 %% davon", False),
        ("100%% of it", "100 % davon", True),
    ],
)
def test_lost_number_or_accelerator_marks_message_fuzzy(text: str, translation: str, is_fuzzy: bool) -> None:
    document = open_document("a.po", f'msgid "{text}"\nmsgstr ""\n'.encode())
    [entry] = polib.pofile(document.translated([Translated(translation)]).decode())
    assert entry.fuzzy is is_fuzzy


@pytest.mark.parametrize(
    ("text", "texts", "translation"),
    [
        ("one man\ta woman\ta child", ["one man", "a woman", "a child"], "MAN ONE\tWOMAN A\tCHILD A"),
        ("&A dog jumps\tCtrl+O", ["&A dog jumps", "Ctrl+O"], "JUMPS DOG &A\tCTRL+O"),
        ("\t<b>a b</b>\t7\n\tc d", ["a b", "c d"], "\t<b>B A</b>\t7\n\tD C"),
        ('a <i\tid="x">b c</i>', ["a b c"], '<i\tid="x">C B</i> A'),
    ],
    ids=["columns", "shortcut", "indentation", "inside a tag"],
)
def test_message_keeps_tabs_between_its_texts(text: str, texts: list[str], translation: str) -> None:
    written = text.replace('"', '\\"').replace("\t", "\\t").replace("\n", "\\n")
    document = open_document("a.po", f'msgid "{written}"\nmsgstr ""\n'.encode())
    assert document.texts == texts
    [entry] = polib.pofile(document.translated([reversed_upper(text) for text in texts]).decode())
    assert entry.msgid == text and entry.msgstr == translation and not entry.fuzzy


def test_message_with_only_placeholder_is_not_translated() -> None:
    texts = ["%s", "{count}", "a@example.org", "x {a}", "%x.", "{{ name }}", "{a} {b}: %d", "{{ x }} y"]
    po = "\n".join(f'msgid "{text}"\nmsgstr ""\n' for text in texts)
    assert open_document("a.po", po.encode()).texts == ["x {a}", "{{ x }} y"]


@pytest.mark.parametrize("space", [" ", ' "\n"'])
def test_catalogue_keeps_charset_or_uses_utf8(space: str) -> None:
    header = f'"Content-Type: text/plain;{space}charset=ISO-8859-1\\n"'
    po = f'# charset=foo\nmsgid ""\nmsgstr {header}\n\nmsgid "é"\nmsgstr ""\n'
    document = open_document("a.po", po.encode("latin-1"))
    assert document.texts == ["é"]
    assert document.translated([Translated("ü")]).endswith('msgstr "ü"\n'.encode("latin-1"))
    new = document.translated([Translated("Ж")]).decode()
    assert new.startswith("# charset=foo\n") and "charset=UTF-8\\n" in new and new.endswith('msgstr "Ж"\n')
