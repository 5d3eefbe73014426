"""Tests of plain text, subtitles and PO catalogues, in which only texts change."""

from __future__ import annotations

import codecs
import gzip
import re
import shutil
from contextlib import nullcontext
from pathlib import Path

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import Command
from documents import bare_docx, bare_odt, reversed_upper, same
from nmt import documents as opening
from nmt.documents import Translated, open_document, read_document, refuse_document
from nmt.errors import DataError
from nmt.text.po import po_messages
from places import ROOT

LINES = "  First line.\r\n\r\nSecond\tline \n--- 12 ---\rthird"
SRT = """1
00:00:01,000 --> 00:00:02,500 X1:40
<i>Two lines of
one cue</i>

2
00:00:03,000 --> 00:00:04,000
- Who is <b>it</b>?
- {\\an8}Me.

3
00:00:05,000 --> 00:00:06,000

4
00:00:07,000 --> 00:00:08,000
1999
♪

after a gap
"""
VTT = """WEBVTT - a title

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Ann>Salt &amp; pepper

NOTE not shown
to anyone

00:03.000 --> 00:04.000
bye
"""
PO = """# a comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=3; plural=n%10==1 ? 0 : 1;\\n"

#. extracted
#: file.c:1
#, c-format
msgctxt "menu"
msgid "Open \\"%s\\"\\n"
"and <b>close</b>\\n"
msgstr ""

msgid "done"
msgstr "fertig"

#, fuzzy, c-format
#| msgid "one old file"
msgid "one file"
msgid_plural "many files"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

#, fuzzy
msgid "wrong"
msgstr "x"

#~ msgid "gone"
#~ msgstr ""
"""


TWO_TIMES = "00:00:01,000 --> 00:00:02,000\n00:00:03,000 --> 00:00:04,000\nHi there\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("name", "content"), [("a.txt", LINES), ("a.srt", SRT), ("a.vtt", VTT), ("a.srt", SRT * 2),
                                               ("a.txt", ""), ("b.srt", SRT.replace("\n", "\r\n")),
                                               ("c.srt", TWO_TIMES), ("c.vtt", TWO_TIMES)])  # fmt: skip
def test_identity_translation_keeps_document_bytes(name: str, content: str, encoding: str) -> None:
    raw = content.encode(encoding)
    document = open_document(Path(name), raw)
    assert same(document) == document.translated(document.texts) == raw


def test_plain_text_keeps_lines() -> None:
    document = open_document("a.txt", codecs.BOM_UTF8 + LINES.encode())
    assert document.texts == ["First line.", "Second", "line", "third"]
    new = document.translated([Translated("one\ntwo"), Translated("2"), Translated(""), Translated("3")])
    assert new == codecs.BOM_UTF8 + b"  one two\r\n\r\n2\t \n--- 12 ---\r3"


def test_ideographic_space_is_indentation() -> None:
    assert (
        translated_text("a.txt", "\u3000本\u3000です。\u3000\n\x01赤い\n")
        == "\u3000X 本\u3000です。\u3000\n\x01X 赤い\n"
    )
    assert translated_text("a.html", "<p>\u3000本<b> \u3000</b></p>") == "<p>\u3000X 本<b> \u3000</b></p>"


def translated_text(name: str, content: str) -> str:
    document = open_document(name, content.encode())
    return document.translated([f"X {text}" for text in document.texts]).decode()


def test_plain_text_between_tabs_is_translated_separately() -> None:
    document = open_document("a.txt", b"\tone man\ta woman \t\t42\ta child\t\r\n")
    assert document.texts == ["one man", "a woman", "a child"]
    new = document.translated([reversed_upper(text) for text in document.texts])
    assert new == b"\tMAN ONE\tWOMAN A \t\t42\tCHILD A\t\r\n"


def test_srt_keeps_times_tags_and_lines() -> None:
    document = open_document("a.srt", SRT.encode())
    assert document.texts == ["Two lines of one cue", "Who is it?", "Me.", "after a gap"]
    new = document.translated([reversed_upper(text) for text in document.texts]).decode()
    assert new.startswith("1\n00:00:01,000 --> 00:00:02,500 X1:40\n<i>CUE ONE OF\nLINES TWO</i>\n\n2\n")
    assert "\n- <b>IT</b>? IS WHO\n- {\\an8}ME.\n\n3\n" in new
    assert new.endswith("00:00:07,000 --> 00:00:08,000\n1999\n♪\n\nGAP A AFTER\n")


@pytest.mark.parametrize(
    ("cue", "texts", "new"),
    [
        ("- Hello.", ["Hello."], "- HELLO."),
        ("<i>-Well, how\nare you?\n-{\\an8}Fine.</i>", ["Well, how are you?", "Fine."],
         "<i>-WELL, HOW\nARE YOU?\n-{\\an8}FINE.</i>"),
        ("Hello.\n– Good <i>day</i>", ["Hello.", "Good day"], "HELLO.\n– GOOD <i>DAY</i>"),
        ("It was\n– long ago –\nin Rome.", ["It was – long ago – in Rome."], "IT WAS –\nLONG AGO –\nIN ROME."),
        ("- A\nb", ["A b"], "- A\nB"),
        ("－赤い。\n－高い\n本。", ["赤い。", "高い本。"], "－赤い。\n－高い\n本。"),
        ("Well、\n―A。\n―B.", ["Well、 ―A。", "B."], "WELL、\n―A。\n―B."),
        ("<i>\nx本は\n\u3000赤いですよ。</i>", ["x本は赤いですよ。"], "<i>X本\nは赤いで\nすよ。</i>"),
        ("-5 degrees\n-7 degrees", ["-5 degrees -7 degrees"], "-5 DEGREES\n-7 DEGREES"),
    ],
)  # fmt: skip
def test_subtitle_speakers_are_translated_separately(cue: str, texts: list[str], new: str) -> None:
    head = "1\n00:00:01,000 --> 00:00:02,000\n"
    document = open_document("a.srt", f"{head}{cue}\n".encode())
    assert document.texts == texts
    translated = document.translated([Translated(text.upper()) for text in texts])
    assert translated.decode() == f"{head}{new}\n"


@pytest.mark.parametrize(
    ("translation", "lines"),
    [
        (
            "a much longer translation of these two lines it is",
            ["a much longer translation", "of these two lines it is"],
        ),
        ("Wort", ["Wort"]),
        ("字幕是两行的这里也是", ["字幕是两行", "的这里也是"]),
        ("หนังสือเล่มนี้สีแดง", ["หนังสือเล่", "มนี้สีแดง"]),
        ("ស្ត្រីខ្មែរស្រុក", ["ស្ត្រី", "ខ្មែរស្រុក"]),
        ("ไปเมือง", ["ไป", "เมือง"]),
        ("မင်္ဂလာက", ["မင်္ဂ", "လာက"]),
        ("彼は走って来た", ["彼は走っ", "て来た"]),
        ("彼は（来た）。はい", ["彼は（来", "た）。はい"]),
        ("", []),
    ],
)
def test_subtitle_lines_have_similar_lengths(translation: str, lines: list[str]) -> None:
    document = open_document("a.srt", SRT.replace("<i>", "").replace("</i>", "").encode())
    new = document.translated([Translated(translation), *map(Translated, document.texts[1:])]).decode()
    assert new.split("\n\n")[0].split("\n")[2:] == lines


def test_vtt_keeps_notes_styles_and_names() -> None:
    document = open_document("a.vtt", VTT.encode())
    assert document.texts == ["Salt & pepper", "bye"]
    new = document.translated([Translated("< & >"), Translated("ciao")]).decode()
    assert new == VTT.replace("Salt &amp; pepper", "&lt; &amp; &gt;").replace("bye", "ciao")


@pytest.mark.parametrize("count", [1, 2])
def test_srt_with_byte_order_mark_before_first_time_is_read(count: int) -> None:
    cues = [f"00:00:0{n},000 --> 00:00:0{n},900\nline {n}\n\n" for n in range(count)]
    document = open_document("a.srt", "".join(cues).encode("utf-8-sig"))
    assert document.texts == [f"line {n}" for n in range(count)] and same(document).startswith(codecs.BOM_UTF8)
    with pytest.raises(DataError, match="line 1: malformed time"):
        open_document("a.srt", "00:00:01,000 -> 00:00:02,000\nx\n".encode("utf-8-sig"))


def test_vtt_block_with_arrow_but_no_time_is_not_text() -> None:
    shown = "WEBVTT\n\n00:01.000 --> 00:02.000\none\n"
    other = ("two --> three\nfour\n\n", "\nname\nx-->y\nfive\n\nsix\n\n")
    content = f"{shown}{other[0]}00:03.000 --> 00:04.000\nseven\n{other[1]}00:05.000 --> 00:06.000\neight\n"
    document = open_document("a.vtt", content.encode())
    assert document.texts == ["one", "seven", "eight"]
    assert document.translated(["ONE", "seven", "eight"]).decode() == content.replace("one", "ONE")


def test_each_voice_is_translated_separately() -> None:
    cue = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Anna>Do you\n<v Anna>see it?\n<v.loud Bert>No.</v>\nYet.\n"
    document = open_document("a.vtt", cue.encode())
    assert document.texts == ["Do you see it?", "No. Yet."]
    assert (
        document.translated([text.upper() for text in document.texts]).decode().count("\n<v.loud Bert>NO.</v>\n") == 1
    )


@pytest.mark.parametrize("name", ["a.srt", "a.vtt"])
def test_ruby_of_subtitles_is_translated_with_reading(name: str) -> None:
    cue = "WEBVTT\n\n00:01.000 --> 00:02.000\n"
    document = open_document(name, f"{cue}a <rt> b c\n".encode())
    assert document.texts == ["a b c"] and document.n_readings == 0
    assert document.translated([Translated("A B C")]).decode() == f"{cue}A <rt> B C\n"


def test_only_untranslated_messages_are_translated() -> None:
    document = open_document("a.po", PO.encode())
    assert document.texts == ['Open "%s"', "and close", "one file", "many files"]
    catalogue = polib.pofile(document.translated([reversed_upper(text) for text in document.texts]).decode())
    before = polib.pofile(PO)
    assert [entry.msgid for entry in catalogue] == [entry.msgid for entry in before]
    menu, done, files, wrong, gone = catalogue
    assert (
        menu.msgstr == '"%S" OPEN\n<b>CLOSE</b> AND\n'
        and menu.flags == ["c-format", "fuzzy"]
        and menu.msgctxt == "menu"
    )
    assert done.msgstr == "fertig" and wrong.msgstr == "x" and wrong.flags == ["fuzzy"]
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
     ("a.xlf", b"<?xml version='1.0'?>\n<xliff version='1.2'>"), ("a.de", b"%PDF-1.4\n"),
     ("a.properties", b"greeting=Hello\n")],
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


@pytest.mark.parametrize("marks", [("\u200f", ""), ("\u202b", "\u202c"), ("\u2067", "\u2069")])
def test_direction_mark_before_dash_does_not_join_speakers(marks: tuple[str, str]) -> None:
    before, after = marks
    head = "1\n00:00:01,000 --> 00:00:02,000\n"
    content = f"{head}{before}- One.{after}\n{before}- Two.{after}\n".encode()
    document = open_document("a.srt", content)
    assert document.texts == ["One.", "Two."] and same(document) == content
    assert document.translated(["A.", "B."], ("ar", "fa")).decode().count(before) == 2
    assert document.translated(["A.", "B."], ("ar", "en")).decode() == f"{head}- A.\n- B.\n"


CUE = "00:00:01,000 --> 00:00:02,000\n"


@pytest.mark.parametrize(
    ("text", "texts", "wanted"),
    [
        ("one two\\Nthree four", ["one two three four"], "ONE TWO\\NTHREE FOUR"),
        ("- One?\\N- Two.", ["One?", "Two."], "- ONE?\\N- TWO."),
        ("one two\n\nthree four.", ["one two three four."], "ONE TWO\n\nTHREE FOUR."),
        ("one,\r\n\r\nthree", ["one, three"], "ONE,\r\n\r\nTHREE"),
        ("One two.\n\nThree four.", ["One two.", "Three four."], "ONE TWO.\n\nTHREE FOUR."),
        ("one\n\n\ntwo", ["one", "two"], "ONE\n\n\nTWO"),
        ("one two\n\nsix ten\nfour five.", ["one two six ten four five."], "ONE TWO\nSIX TEN\nFOUR FIVE."),
        ("one two\\Nsix ten\nfour five", ["one two six ten four five"], "ONE TWO\nSIX TEN\nFOUR FIVE"),
    ],
)
def test_line_break_inside_sentence_of_subrip_does_not_divide_it(text: str, texts: list[str], wanted: str) -> None:
    content = f"1\n{CUE}{text}\n\n2\n{CUE}end\n"
    document = open_document("a.srt", content.encode())
    assert document.texts == [*texts, "end"] and same(document).decode() == content
    new = document.translated([text.upper() for text in document.texts]).decode()
    assert new.replace(" ", "") == f"1\n{CUE}{wanted}\n\n2\n{CUE}END\n".replace(" ", "")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("stated", "wanted"), [("de", "en"), ("de-AT", "en"), ("fr", "fr")])
def test_vtt_header_states_language_of_target(stated: str, wanted: str, end: str) -> None:
    vtt = f"WEBVTT - Titel\nKind: captions\nLanguage: {stated}\n\n00:01.000 --> 00:02.000\nLanguage: de\n"
    document = open_document("a.vtt", vtt.replace("\n", end).encode())
    new = document.translated(document.texts, ("de", "en")).decode()
    assert new == vtt.replace(f"Language: {stated}\n\n", f"Language: {wanted}\n\n").replace("\n", end)


def test_vtt_text_in_another_language_is_left_out() -> None:
    vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\none <lang.x de-AT>zwei\ndrei</lang> <lang en>four</lang>\n"
    document = open_document("a.vtt", vtt.encode(), source="en")
    assert document.texts == ["one four"]
    new = document.translated(["ONE FOUR"], ("en", "fr")).decode()
    assert new.split("\n", 3)[3].replace("\n", " ").replace(" <lang fr>FOUR</lang>", "").strip() == (
        "ONE <lang.x de-AT>zwei drei</lang>"
    )
    assert open_document("a.vtt", vtt.encode()).texts == ["one zwei drei four"]


@pytest.mark.parametrize("text", ["one two\n<lang de>drei vier</lang>", "<lang de>drei\nvier</lang>\none two"])
def test_vtt_line_in_another_language_keeps_its_distance(text: str) -> None:
    document = open_document("a.vtt", f"WEBVTT\n\n00:01.000 --> 00:02.000\n{text}\n".encode(), source="en")
    assert document.texts == ["one two"]
    new = document.translated(["ONE TWO"], ("en", "fr")).decode().split("\n", 3)[3]
    assert new.split() == text.replace("one two", "ONE TWO").split()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b"42\n"),
        ("a.srt", f"1\n{CUE}42\n".encode()),
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
