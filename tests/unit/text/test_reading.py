"""Reading of spaces, invisible characters and normal forms that a vocabulary does not know."""

from __future__ import annotations

import unicodedata
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fragments import parts
from nmt.text.reading import Reading, folded, plain
from nmt.text.tokenizer import LosslessTokenizer, train_tokenizer
from waiting import cpu_time_limit

FRENCH = [
    "Qu\u2019est-ce\u00a0? \u00c9t\u00e9, no\u00ebl et \u0153uf.",
    "Le caf\u00e9 \u00e0 3\u202f000\u00a0\u20ac",
] * 20


def reading(lines: list[str], vocab_size: int = 400) -> LosslessTokenizer:
    return train_tokenizer(lines, vocab_size)


@pytest.mark.parametrize(
    "space", ["\u00a0", "\u202f", "\u2009", "\u3000", "\u2007", "\u205f", "\u1680", "\t", "\u2028"]
)
def test_unknown_space_is_read_as_a_space(space: str) -> None:
    tokenizer = reading(["den Hund f\u00fcttern"] * 9)
    assert tokenizer.encode(f"den{space}Hund") == tokenizer.encode("den Hund")


@pytest.mark.parametrize(
    "sign", [*"\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\u2063\u2067\u061c\ufeff\u034f\u180e\u2061\ufe0f\U000e0001"]
)
def test_unknown_invisible_character_is_read_as_nothing(sign: str) -> None:
    tokenizer = reading(["den Hund f\u00fcttern"] * 9)
    assert tokenizer.as_read(f"{sign}den H{sign}und{sign}") == "den Hund"
    assert tokenizer.exactly().as_read(f"H{sign}und") == f"H{sign}und"


@pytest.mark.parametrize(
    ("lines", "text", "expected"),
    [
        # every character was learned
        *((lines, text, text) for lines, text in (
            (FRENCH, "no\u00ebl\u00a0? 3\u202f000"),
            (["\u0645\u06cc\u200c\u062e\u0631\u062f"] * 9, "\u0645\u06cc\u200c\u062e\u0631"),
            (["a\u00adb\u200bc\ufeff d\u3000e"] * 9, "a\u00adb\u200bc\ufeff d\u3000e"),
            ([normalize("NFD", line) for line in FRENCH], normalize("NFD", "noël été")),
            (["\u09df \u09a1\u09bc \u0995\u09cb"] * 9, "\u09df \u09a1\u09bc \u0995\u09cb"),  # not in NFC
            (["caf\u00e9 cafe\u0301"] * 30, "cafe\u0301 caf\u00e9"),  # both forms have pieces
        )),
        # equivalents outside of the normal forms
        (["5 \u00c5 \u03a9 \u09a1\u09bc"] * 9, "\u212b \u2126 \u09dc", "\u00c5 \u03a9 \u09a1\u09bc"),
        (["\u09dc\u09be \ufb2a"] * 9, "\u09a1\u09bc\u09be \u05e9\u05c1", "\u09dc\u09be \ufb2a"),
        # joiners are nothing only in scripts without joiners
        *((["Auflage"] * 9, text, expected) for text, expected in (
            ("Auf\u200clage", "Auflage"),
            ("\u0645\u06cc\u200c\u062e\u0631\u062f", "\u0645\u06cc\u200c\u062e\u0631\u062f"),
            ("\u0930\u094d\u200d\u092f", "\u0930\u094d\u200d\u092f"), ("\u0e01\u200c\u0e01", "\u0e01\u0e01"),
            ("\U0001f469\u200d\U0001f467", "\U0001f469\u200d\U0001f467"),
        )),
    ],
)  # fmt: skip
def test_text_is_read_as_learned(lines: list[str], text: str, expected: str) -> None:
    assert reading(lines).as_read(text) == expected


@pytest.mark.parametrize("learned", ["NFC", "NFD"])
@pytest.mark.parametrize(
    "lines",
    [
        FRENCH,
        ["\u1eb9\u0301 k\u00fa \u00e0\u00e1r\u1ecd\u0300, \u1eb9 \u1e63e\u00e9. \u00ccl\u00fa w\u00e0"] * 20,
        ["\uc548\ub155\ud558\uc138\uc694 \uadf8\ub294 \ud559\uc0dd\uc774\ub2e4"] * 20,
        ["\u0985\u09a1\u09bc \u0995\u09cb\u09a8\u09cb \u1ebf\u1ec7"] * 9,
    ],
)
def test_text_in_either_normal_form_has_the_ids_of_the_learned_one(learned: str, lines: list[str]) -> None:
    tokenizer = reading([normalize(learned, line) for line in lines], 600)
    expected = tokenizer.encode(normalize(learned, lines[0]))
    assert [tokenizer.encode(normalize(form, lines[0])) for form in ("NFC", "NFD")] == [expected] * 2


def test_letter_is_composed_as_far_as_the_vocabulary_has_pieces() -> None:
    read = Reading(["\u00ea", "\u0301", "\u1ecd", "\u0300", "e", "o"], set("\u00ea\u0301\u1ecd\u0300eo").__contains__)
    assert read("e\u0302\u0301") == read("\u1ebf") == "\u00ea\u0301"
    assert read("o\u0300\u0323") == "\u1ecd\u0300"  # marks in another order
    assert read("\u0169") == "\u0169"


@pytest.mark.parametrize("pair", ["áạ", "íị", "óọ", "úụ", "ýỵ", "éẹ", "ńṇ", "śṣ"])
def test_order_of_pieces_decides_between_equally_good_readings(pair: str) -> None:
    base, above, below = *normalize("NFD", pair[0]), normalize("NFD", pair[1])[1]
    for first, other_mark in zip(pair, (below, above), strict=True):
        pieces = [first, *pair, above, below, base]
        assert Reading(pieces, set(pieces).__contains__)(f"{base}{below}{above}") == f"{first}{other_mark}"


@pytest.mark.parametrize("letter", [*"ñřűệẋ뷁각", "a\u0323\u0301", "\u212b", "\ufb2a", "\u0958"])
@pytest.mark.parametrize("known", ["", "aeinor", "éèê", "aeo\u0301\u0308", "간갂", "\u1100\u1161\u11a8"])
def test_letter_is_read_alike_in_all_forms_even_if_no_form_is_known(letter: str, known: str) -> None:
    read = Reading(list(known), {*known, *normalize("NFD", known)}.__contains__)
    for around in ("", "x", letter):
        assert len({read(around + normalize(form, letter) + around) for form in ("NFC", "NFD")}) == 1


def test_letters_that_a_vocabulary_of_many_syllables_lacks_are_read_in_linear_time() -> None:
    syllables = {*map(chr, range(0xAC00, 0xD7A4))}
    read = Reading([*syllables], syllables.__contains__)
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 5_000)))
    with cpu_time_limit():  # usual is a fifth of a second; to try each syllable takes minutes
        assert read(text) == text


@pytest.mark.parametrize("text", ["\U0001f3f4\U000e0067\U000e0062\U000e007f", "\u3164", "\uffa0a", "\u115f\u1161"])
def test_tags_of_flags_and_hangul_fillers_are_kept(text: str) -> None:
    assert plain(text) == normalize("NFC", text)


def test_flags_are_folded_in_linear_time() -> None:
    text = "\U0001f1e9\U0001f1ea" * 50_000
    with cpu_time_limit():  # usual is half a second; quadratic code takes an hour
        assert folded(text)[0] == text


@given(st.lists(parts, max_size=30).map("".join))
def test_folded_text_is_plain_and_keeps_its_places(text: str) -> None:
    text_folded, starts, ends = folded(text)
    assert text_folded == plain(text) == plain(text_folded)
    assert starts == sorted(starts)
    for character, start, end in zip(text_folded, starts, ends, strict=True):
        assert start < end and character in plain(text[start:end])


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_plain_text_has_neither_other_spaces_nor_invisible_characters(text: str) -> None:
    lines = plain(text)
    assert lines.count("\n") == text.count("\n")
    assert unicodedata.is_normalized("NFC", lines) and "  " not in lines
    assert plain(lines) == plain(normalize("NFD", text)) == lines
