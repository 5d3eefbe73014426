"""Words, clusters, and what is cut between them."""

from __future__ import annotations

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text import words as module
from nmt.text.words import CLUSTER, beginning, shortened, units, words


@pytest.mark.parametrize(
    "clusters",
    [
        "ស្ត្រី ខ្មែ រ", "មြန် မာ ဘာ သာ မင်္ဂ လာ ပါ", "ฉั น ไป เที่ ย ว เมื อ ง เก่า จั น ทร์ น้ำ แก้ โต๊ะ", "ພາ ສາ ລາ ວ ເຮົາ ໃຈ",
        "ᨲᩣ᩠ᨿ", "ꦱꦶ ꦠꦶ ꦏ꧀ꦏ", "ᬓ᭄ᬓ", "नि र्ण य स्त्री", "र्‍य", "স্ত্রী", "ക്ഷ ണം", "ಕ್ಷೇ", "క్ష", "ක්‍ෂ", "ਸ੍ਰੀ", "சா மி",
        "e\u0301 ß\u0301\u0323 o", "👩\u200d🔬 ❤\ufe0f 👍🏽 🇩🇪 🇫🇷", "ᄀ\u1161\u11a8 가",
        "か\u3099 っ 本", "ꪹꪕ ꪼꪕ", "བོ ད",
    ],
)  # fmt: skip
def test_cluster_has_all_that_readers_take_for_one_character(clusters: str) -> None:
    expected = [part.strip(" ") for part in clusters.split(" ")]
    assert CLUSTER.findall("".join(expected)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Der Hund, ja! x_1 10½", ["Der", "Hund", ",", "ja", "!", "x_1", "10½"]),
        ("नेपाल राम्रो छ।", ["नेपाल", "राम्रो", "छ", "।"]),
        ("كِتَابٌ می\u200cشود", ["كِتَابٌ", "می\u200cشود"]),
        ("e\u0301te\u0301 l'ọ̀rọ̀", ["e\u0301te\u0301", "l", "'", "ọ̀rọ̀"]),
        ("我住ABC市。", ["我", "住", "ABC", "市", "。"]),
        ("ปี๒๕๖๐", ["ปี", "๒๕๖๐"]),
        ("២០១០ ឆ្នាំ", ["២០១០", "ឆ្នាំ"]),
        ("བོད་ཡིག", ["བོད", "་", "ཡིག"]),
        ("a 👩\u200d🔬b", ["a", "👩\u200d🔬", "b"]),
        ("A\u3099 か", ["A\u3099", "か"]),
        (" \t\u3000", []),
    ],
)
def test_words_are_letters_with_marks_or_clusters(text: str, expected: list[str]) -> None:
    assert words(text) == expected
    assert "".join(text[start:end] for start, end in units(text)) == text


SIMPLE = [
    *"ab1_ .,\u00e9²ª–ñяΩ०가የ\u00ad\u200b\n",
    "e\u0301\u0323",
    "\u200c",
    "שָׁ",
    "عِ",
    "क्षा",
    "ழ்",
    "සෙ",
    "ᄀ\u1161",
    "–\u0301",
]


@given(st.lists(st.sampled_from(SIMPLE), max_size=30).map("".join))
def test_simple_text_has_the_units_of_the_general_pattern(text: str) -> None:
    assert module._SIMPLE.fullmatch(text)
    general = [match.span() for match in module._UNIT.finditer(text)]
    assert [*units(text)] == general
    assert words(text) == [text[start:end] for start, end in general if not text[start:end].isspace()]


@given(st.text(max_size=40))
def test_no_unit_begins_with_a_mark(text: str) -> None:
    parts = [text[start:end] for start, end in units(text)]
    assert "".join(parts) == text
    assert not any(unicodedata.category(part[0])[0] == "M" for part in parts[1:])


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("abc", 5, "abc"), ("abcdef", 4, "abcd"), ("", 3, ""), ("ស្ត្រី", 4, "ស្ត្"), ("aស្ត្រី", 4, "a"), ("ไปเที่ยว", 3, "ไป"),
        ("ab👩\u200d🔬", 4, "ab"), ("ae\u0301", 2, "a"), ("ae\u0301x", 3, "ae\u0301"),
        ("e" + "\u0301" * 99, 5, "e" + "\u0301" * 4),
    ],
)  # fmt: skip
def test_beginning_ends_between_clusters(text: str, most: int, expected: str) -> None:
    assert beginning(text, most) == expected


@pytest.mark.parametrize(
    ("text", "n", "m", "expected"),
    [("abcdefgh", 2, 3, "ab…fgh"), ("abcde", 2, 3, "abcde"), ("ស្ត្រីខ្មែរស្រុក", 1, 2, "ស្ត្រី…ស្រុក")],
)
def test_shortened_text_has_whole_clusters(text: str, n: int, m: int, expected: str) -> None:
    assert shortened(text, n, m, "…") == expected


def test_units_take_linear_time() -> None:
    n, rng = 50_000, random.Random(2)
    for text in (
        "เ" * n,
        "ក្" * n,
        "e" + "\u0301" * n,
        "👩\u200d" * n,
        "\u200d" * n,
        "\U0001f1e9\U0001f1ea" * n,
        "".join(rng.choices("กេ្ရ်\u200d", k=n)),
    ):
        assert "".join(text[start:end] for start, end in units(text)) == text
        assert beginning(text, 10) == text[: len(beginning(text, 10))]
