"""Tests of subtitles, in which only texts change."""

from __future__ import annotations

import codecs

import pytest

from documents import SRT, VTT, reversed_upper, same
from nmt.documents import Translated, open_document
from nmt.errors import DataError


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
    assert document.translated([Translated(text.upper()) for text in texts]).decode() == f"{head}{new}\n"


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


@pytest.mark.parametrize(
    ("name", "text", "texts", "wanted"),
    [
        ("a.vtt", "<v Anna>Do you\n<v Anna>see it?\n<v.loud Bert>No.</v>\nYet.", ["Do you see it?", "No. Yet."],
         "<v Anna>DO YOU\n<v Anna>SEE IT?\n<v.loud Bert>NO.</v>\nYET."),
        # ruby is translated with its reading
        ("a.vtt", "a <rt> b c", ["a b c"], "A <rt> B C"),
        ("a.srt", "a <rt> b c", ["a b c"], "A <rt> B C"),
    ],
)  # fmt: skip
def test_each_voice_is_translated_separately(name: str, text: str, texts: list[str], wanted: str) -> None:
    cue = "WEBVTT\n\n00:01.000 --> 00:02.000\n"
    document = open_document(name, f"{cue}{text}\n".encode())
    assert document.texts == texts and document.n_readings == 0
    assert document.translated([text.upper() for text in texts]).decode() == f"{cue}{wanted}\n"


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
