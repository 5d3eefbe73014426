"""Splitting of long lines into parts, and joining of their translations."""

from __future__ import annotations

import random
import re
import unicodedata
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.languages.codes import scripts
from nmt.text.split import SENTENCE_MARKS, CountPieces, join, sentences, split
from nmt.text.words import CLUSTER
from tiny_run import tiny_tokenizer
from waiting import cpu_time_limit


def by_tokenizer(texts: list[str]) -> list[int]:
    return [len(ids) for ids in tiny_tokenizer().encode_all(texts)]


def by_character(texts: list[str]) -> list[int]:
    return [len(text) for text in texts]


def by_letter(texts: list[str]) -> list[int]:
    return [len("".join(text.split())) for text in texts]


def by_word(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


MARKS = [
    ". ",
    "! ",
    "? ",
    "… ",
    ".» ",
    "。",
    "！",
    "؟ ",
    "।",
    "። ",
    "; ",
    ", ",
    "，",
    " – ",
    " ",
    "  ",
    "\u3000",
    "\u00a0",
    "．",
    "፡",
    " » ",
    "\u200b",
]
WORDS = [
    "a",
    "Ab",
    "3",
    "z",
    "Dr",
    "你好",
    "สวัสดี",
    "e\u0301e\u0301",
    "👩\u200d🔬",
    "가",
    "किताब",
    "x" * 30,
    "\u0301",
    "ωω",
    "ነው",
]
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(MARKS + WORDS), max_size=60).map("".join),
    st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(MARKS)).map("".join), max_size=60).map("".join),
)


def parts_of(text: str, n_pieces: CountPieces, longest: int) -> list[str]:
    return [part for part, _ in split(text, n_pieces, longest)]


@given(TEXTS, st.sampled_from([by_tokenizer, by_character, by_letter, by_word]), st.integers(1, 40))
def test_split_is_lossless_and_bounded(text: str, n_pieces: CountPieces, longest: int) -> None:
    parts = split(text, n_pieces, longest)
    assert "".join(part + after for part, after in parts) == text
    if n_pieces([text])[0] <= longest:
        assert parts == [(text, "")]
        return
    for i, (part, after) in enumerate(parts):
        assert not after.strip()
        assert part == part.strip() and (part or i == 0)
        bases = [c for c in part if unicodedata.category(c)[0] != "M" and c != "\u200d"]
        assert n_pieces([part])[0] <= longest or len(bases) <= 2
        assert i == 0 or not part or after or unicodedata.category(part[0])[0] != "M" or parts[i - 1][1]


@given(TEXTS, st.integers(1, 40))
def test_long_sentence_is_split_into_maximal_parts(text: str, longest: int) -> None:
    """Two consecutive parts together would be too long."""
    sentence = re.sub(f"[{SENTENCE_MARKS}]", "-", text).strip()
    for (one, _), (other, _) in pairwise(split(sentence, by_letter, longest)):
        assert by_letter([one + other])[0] > longest


@pytest.mark.parametrize(
    "expected",
    [
        [
            "Er kam am 3. Mai.",
            "Sie ging, z. B. heute.",
            "„Geht das?“",
            "«Nein!» rief er.",
            "Dr. Kurz bzw. J. Lang kam.",
        ],
        ["Is it?!", "(It is.)", "It costs $3.50 at 10:30 a.m. here...", "Ask St. Peter.", 'He said "No."', "Good!"],
        ["यह एक घर है।", "वह आया।", "क्या?"],
        ["هل هذا بيت؟", "نعم.", "لا!"],
        ["ይህ ቤት ነው።", "እሱ መጣ።", "መጣ፧", "ነው፡፡", "እሱ።፡", "መጣ።"],
        ["ეს სახლია.", "ის მოვიდა!", "სად?", "კი."],
        ["በ2010 ዓ.ም. መጣ።", "እሱ መጣ።"],
        ["Սա տուն է։", "Նա եկավ։"],
        ["Αυτό είναι σπίτι.", "Ήρθε;", "«Πότε»;", "Ήρθέ;", "Ναι.", "Ήρθε;", "Όχι."],
        ["આ ગુજરાત.", "તે આવ્યો.", "હા."],
        ["මෙය ගෙය ය.", "ඔහු ආවේ ය.", "ඔව්."],
        ["이것은 좋은 것.", "그는 왔다."],
        ["זֶה בַּיִת.", "הוּא בָּא.‏", "כֵּן."],
        ["Das ist für.", "Ä. Kurz kam.", "Gut."],
        ["« Oui. »", "Il part.", "« Non. »", "« Non ! »", "« Oui. » dit-il.", "Bien."],
        ['Say {{ ok ? "YES" : "No." }}!', '{% if a == "B. C" %} Go.', "{{name}} came."],
        ['" So be it .', "He left .", 'Fine . "'],
        ["Ja. ​", "Nein.", "Gut. ‎"],
        ["”Hej.”", "Sen kom han.", "„Tak.”", "»Nej!«", "„Ja.“", "'Go.'", "The dogs' bowl."],
        # one letter, and words whose vowel is w, r or l
        ["Em chào ạ.", "Chị đi à.", "Vâng."],
        ["Is mise é.", "Cá bhfuil sí.", "Níl."],
        ["Ọ bụ nwoke a.", "Ọ bịara.", "Nke a.", "Ee."],
        ["Mo rí ọ.", "Ó dára."],
        ["Dov'è.", "Non c'è.", "Chi è.", "Vas-y.", "Il y en a.", "Oui."],
        ["Ele é.", "Sim."],
        ["Es viņu e\u0304.", "Jā."],
        ["Yn y cwm.", "Y dyn hwn.", "Hen dwr.", "Mawr."],
        ["Zlomil si prst.", "Teče mu krv.", "Přišel vlk.", "Ano."],
        ["Gledao je vrh.", "Došla je smrt.", "Da."],
        ["Это я.", "Хто там є.", "Такъв е.", "Да."],
        [
            "Frankfurt u. Berlin, alte u. Neue, s. o. Kapitel, o. g. Katze.",
            "In Frankfurt a. Main, i. A. Kurz, u. a. Hunde.",
            "5 mld. EUR.",
        ],
        ["До н. э. Рим, и. о. директора, т. е. Москва.", "В 1990 г. Москва."],
        ["Kossuth u. 12. szám.", "Paní plk. Nová, pplk. Malý, drs. Jansen, blz. 5, tlf. 12."],
        ["a. Erstens. e. Fünftens."],
        ["Ja.", "😀👍", "Nein!", "👩\u200d🔬👍🏽", "Gut 😀 so.", "❤\ufe0f", "„Ja.“", "🇩🇪", "Gut."],
        ["वह आया |", "वह गया|", "हाँ |"],
        ["সে এল|", "সে গেল|"],
        ["वह आया|", "वह गया|", "हाँ"],
        ["ᱥᱮᱫ ᱠᱟᱱᱟ᱾", "ꯃꯁꯤ꯫", "یہ گھر ہے۔", "ཡིན།"],
    ],
)
def test_sentence_ends_are_found_in_scripts_with_spaces(expected: list[str]) -> None:
    for gap in (" ", "  ", "\t"):
        text = gap.join(expected)
        assert sentences(text) == expected
        parts = split(text, by_character, max(map(len, expected)))
        assert parts == [*((sentence, gap) for sentence in expected[:-1]), (expected[-1], "")]


@pytest.mark.parametrize(
    ("longest", "parts"),
    [
        (7, ["你好！", "我是王先生。", "「你来吗？」", "来。"]),
        (8, ["一二三，四五六；", "七八九。", "十"]),
        (7, ["一二三，", "四五六；", "七八九。", "十"]),
    ],
)
def test_sentence_ends_are_found_in_scripts_without_spaces(longest: int, parts: list[str]) -> None:
    assert split("".join(parts), by_character, longest) == [(part, "") for part in parts]


def test_every_mark_of_the_table_ends_a_sentence() -> None:
    missed = []
    for script in scripts().values():
        letters = "ωω" if script.code == "Grek" else "xy"
        for mark in script.sentence_ends.replace("\u2024", ""):
            if sentences(f"{letters}{mark} Next") != [f"{letters}{mark}", "Next"]:
                missed.append(mark)
    assert missed == []


@pytest.mark.parametrize(
    "text",
    [
        "円は３．14と3．１４の間",
        "Art.\u00a05 gilt.",
        "Go on; then stop",
        "the angle (ω); then",
        "က၊ခ",
        "ཡིན། དེ་རེད། ཡིན།",
        "บ้านนี้สวย เขามา",
        "Part one․․․ 5",
        "د. محمد",
        "ა. შ. და",
        "「Hello.」と言った",
        "１．この本は赤い",
        "12．この本は赤い",
        "先生は「赤いです。」と言った",
        "“赤い？”と『赤いです！』、（赤い。）の三つ",
        "नाम | उम्र | शहर",
        "| नाम| उम्र|",
        "name| age| city",
        "१| २|",
        "यह ॥१॥२ है",
        "پی۔ٹی۔آئی",
        "សៀវភៅ ប៊ិច។ល។",
        "សៀវភៅ ប៊ិច ។ ល ។",
        "«ሰላም!»አለች",
    ],
)
def test_other_marks_end_no_sentence(text: str) -> None:
    assert sentences(text) == [text]


@pytest.mark.parametrize(
    "expected",
    [
        ["នេះជាផ្ទះ។", "គាត់មក៕", "បាទ"], ["តើនៅផ្ទះទេ?", "គាត់មក!", "បាទ"], ["ይወዳል!", "ሳራ ይወዳል?", "ሳራ።"],
        ["赤い。", "「赤い。」", "彼は「赤い。」"], ["赤い（古い。）。", "「赤い。」！？", "次"],
        ["家である．", "彼が来た．", "本当!？", "はい"],
        ["他走了。”", "她说。", "“好。”"],  # the quotation begins in another line
        ["ប៊ិច។ល។", "គាត់មក។"], ["वह आया।", "वह गया॥", "हाँ"], ["সে এল।", "সে গেল।"], ["ماذا؟", "نعم"],
    ],
)  # fmt: skip
def test_sentence_ends_of_some_scripts_need_no_space(expected: list[str]) -> None:
    assert sentences("".join(expected)) == expected


@pytest.mark.parametrize("quotes", ["“”", "‘’", '""', "''", "«»", "「」", "‹›", "„“"])
@pytest.mark.parametrize(
    "expected",
    [
        ["他走了。", "(你好！)", "她说。", "(再见。)", "好。"],
        ["他说：(你好！)", "(再见。)", "(It's 好。)"],
        ["家です。", "(はい。)", "彼。"],
        ["គាត់មក។", "(សួស្តី។)", "គាត់។", "(បាទ។)"],
        ["នៅទេ?", "(បាទ!)គាត់និយាយ។"],
        ["သူသွားသည်။", "(မင်္ဂလာပါ။)", "သူပြောသည်။", "(ဟုတ်ကဲ့။)"],
        ["ሳራ መጣች።", "(ሰላም።)", "(ደህና።)"],
        ["वह गया।", "(नमस्ते)वह।", "हाँ"],
    ],
)
def test_quotation_mark_belongs_to_what_it_encloses(expected: list[str], quotes: str) -> None:
    expected = [sentence.replace("(", quotes[0]).replace(")", quotes[1]) for sentence in expected]
    assert sentences("".join(expected)) == expected


@pytest.mark.parametrize(
    ("n_pieces", "longest", "parts"),
    [
        (by_word, 6, ["one two, three four; five six:", "seven"]),
        (by_word, 5, ["one two, three four;", "five six: seven"]),
        (by_word, 3, ["one two,", "three four;", "five six: seven"]),
        (by_word, 1, ["one", "two,", "three", "four;", "five", "six:", "seven"]),
        (by_word, 3, ["eins –", "zwei drei vier"]),
        (by_character, 12, ["das kostet", "10\u00a0000 Euro"]),
        (by_word, 4, ["klein geht es. weiter.", "So."]),
        (by_word, 3, ["klein geht es.", "weiter.", "So."]),
    ],
)
def test_weaker_boundaries_are_tried_in_order(n_pieces: CountPieces, longest: int, parts: list[str]) -> None:
    assert parts_of(" ".join(parts), n_pieces, longest) == parts


def test_very_long_word_is_cut() -> None:
    word = "".join(
        random.Random(1).choices(["a", "b\u0301\u0323", "👩\u200d🔬", "가", "ᄀ\u1161\u11a8", "कि"], k=10_000)
    )
    for n_pieces, longest in ((by_character, 50), (by_tokenizer, 50)):
        parts = parts_of(word, n_pieces, longest)
        assert "".join(parts) == word
        assert max(n_pieces(parts)) <= longest
        assert len(parts) < 1.5 * n_pieces([word])[0] / longest
        assert not any(unicodedata.category(part[0])[0] == "M" or part[0] in "\u200d\u1161\u11a8" for part in parts)
        assert not any(part.endswith("\u200d") for part in parts)
    for word in ("ស្ត្រី" * 30, "မင်္ဂလာ" * 20, "เที่ยวไป" * 20, "ക്ഷ" * 30):
        parts = parts_of(word, by_character, 9)
        ends = {end for cluster in CLUSTER.finditer(word) for end in cluster.span()}
        assert len(parts) > 5 and {*accumulate(map(len, parts))} <= ends
    stacked = "e" + "\u0301" * 400  # one character
    assert parts_of(f"ab{stacked}cd", by_character, 3) == ["ab", stacked, "cd"]


@pytest.mark.parametrize(
    "text",
    [
        "Der Hund schläft heute nicht. " * 3_500,
        "wort " * 20_000,
        "x" * 100_000,
        "." * 100_000,
        ",;" * 50_000,
        "你好。" * 35_000,
        "e" + "\u0301" * 100_000,
        "ab" + "\u0301" * 100_000 + "c" * 1000,
        "a" + " " * 100_000 + "b",
        "z. B. " * 17_000,
        ". »" * 33_000,
        "ω;" * 50_000,
        "፡" * 100_000,
        '。"' * 50_000,
        '"' * 100_000,
        "។«" * 50_000,
        "क |" * 30_000,
        "क" + "|" * 100_000,
        "ក្" * 50_000,
        "a. " * 33_000,
        "\U0001f1e9\U0001f1ea" * 50_000,
        "a. " + "\U0001f1e9\U0001f1ea" * 50_000,
    ],
    ids=lambda text: text[:10],
)
def test_very_long_line_takes_linear_time(text: str) -> None:
    n_counted = 0

    def counted(texts: list[str]) -> list[int]:
        nonlocal n_counted
        n_counted += sum(map(len, texts))
        return by_character(texts)

    with cpu_time_limit():  # usual is less than a second; quadratic code takes minutes
        parts = split(text, counted, 250)
    assert "".join(part + after for part, after in parts) == text
    assert n_counted <= 12 * len(text)


@pytest.mark.parametrize(
    ("parts", "translations", "joined"),
    [
        ([("Ja.", "  "), ("Nein.", "")], ["Yes.", "No."], "Yes. No."),
        ([("你好。", ""), ("我来。", "")], ["Hello.", "I come."], "Hello. I come."),
        ([("መጣ።", ""), ("ሳራ።", "")], ["Come.", "Sara."], "Come. Sara."),
        ([("Hello.", " "), ("I come.", "")], ["你好。", "我来。"], "你好。我来。"),
        ([("Hello.", " "), ("Hi.", "")], ["สวัสดี", "หวัดดี"], "สวัสดี หวัดดี"),
        ([("สวัสดี", ""), ("หวัดดี", "")], ["สวัสดี", "หวัดดี"], "สวัสดีหวัดดี"),
        ([("他走了。", ""), ("我也走了。", "")], ["เขามาแล้ว", "ฉันไปแล้ว"], "เขามาแล้ว ฉันไปแล้ว"),
        ([("家です。", ""), ("彼。", "")], ["ລາວມາແລ້ວ", "ຂ້ອຍໄປ"], "ລາວມາແລ້ວ ຂ້ອຍໄປ"),
        ([("家です！」", ""), ("彼。", "")], ["ཡིན།", "རེད།"], "ཡིན། རེད།"),
        ([("你好。", ""), ("我来。", "")], ["គាត់មក។", "ខ្ញុំទៅ។"], "គាត់មក។ ខ្ញុំទៅ។"),
        ([("ទៅ។", ""), ("មក។", "")], ["သူသွားသည်။", "သူလာသည်။"], "သူသွားသည်။ သူလာသည်။"),
        ([("很长的", ""), ("一句话", "")], ["ยาว", "มาก"], "ยาวมาก"),
        ([("He left.", " "), ("“Hello!”", " "), ("OK.", "")], ["他走了。", "“你好！”", "OK。"], "他走了。“你好！”OK。"),
        ([("Ja.", " "), ("Nein.", "")], ["예。", "아니요。"], "예。아니요。"),
        ([("xxx", ""), ("yyy", "")], ["xxx", "yyy"], "xxxyyy"),
        *(
            ([(source, ""), ("ka", "")], ["Come.", "Go."], "Come. Go.")
            for source in ("आओ।", "ꯂꯥꯛꯎ꯫", "ᱦᱤᱡᱩᱜ ᱢᱮ᱾", "Արի։", "کجا؟", "ᠢᠷᠡ᠃", "आओ |", "“आओ।”", "आओ॥")
        ),
        ([("བོད་", ""), ("ཡིག", "")], ["བོད་", "ཡིག"], "བོད་ཡིག"),
        ([("https://a.b/?", ""), ("x=1", "")], ["https://a.b/?", "x=1"], "https://a.b/?x=1"),
        ([("", " "), ("Ja.", " "), ("Nein.", "\t")], ["", "Yes.", "No."], "Yes. No."),
        ([("Ja.", " "), ("\x00", " "), ("Nein.", "")], ["Yes.", "", "No."], "Yes. No."),
        ([("a", " ")], [""], ""),
    ],
)
def test_join_separates_translations(parts: list[tuple[str, str]], translations: list[str], joined: str) -> None:
    assert join(parts, translations) == joined


@given(TEXTS, st.integers(1, 40))
def test_joined_parts_equal_line(text: str, longest: int) -> None:
    parts = split(text, by_character, longest)
    copied = join(parts, [part for part, _ in parts])
    assert "".join(copied.split()) == "".join(text.split())
    if all(after in ("", " ") for _, after in parts) and text == text.strip() and text.isascii():
        assert copied == text


@pytest.mark.parametrize("space", ["\u00a0 ", " \u00a0", "\u202f  "])
def test_sentence_ends_before_white_space_with_a_space(space: str) -> None:
    assert sentences(f"Lena schläft.{space}Maria singt.") == ["Lena schläft.", "Maria singt."]
