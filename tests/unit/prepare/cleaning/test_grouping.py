"""Groups of similar pairs: exact and near-duplicates."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.prepare.cleaning.grouping import groupings, normal_form, normal_hash
from nmt.prepare.cleaning.settings import CleanConfig


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Der Hund, 3-mal!", "derhundmal"),
        (
            "„Schöne Grüße“ – Ève ﬁel",
            "schonegrusseevefiel",
        ),
        ("ΣΊΣΥΦΟΣ ς", "σισυφοσσ"),
        ("Москва, ёлка №5", "москваелкаno"),
        ("١٢٣ كِتَاب", "کتاب"),
        ("שָׁלוֹם, אַבָּא", "שלוםאבא"),
        ("אַן אָרט פֿון פּאָר", "אַןאָרטפֿוןפּאָר"),
        ("ײַ ייִ \ufb2e", "ייַייִאַ"),
        ("हिन्दी में ५", "हिन्दीमें"),
        ("这是 １ 句。", "这是句"),
        ("ไก่ ใกล้", "ไก่ใกล้"),
        ("ຂ້ອຍ ສູ່", "ຂ້ອຍສູ່"),
        ("ភ្នំ ពេញ", "ភ្នំពេញ"),
        ("が か", "がか".replace("が", "か\u3099")),
        ("Ｗｉｄｅ ™ µ", "widetmμ"),
        ("123 – !", "123 – !"),
        ("", ""),
        ("😀 ok", "ok"),
    ],
)
def test_text_has_expected_normal_form(text: str, expected: str) -> None:
    assert normal_form(text, "yi" if "\u05d0" <= text[:1] < "\u0600" else "fa") == expected


@given(st.text(st.characters(codec="utf-8")))
@settings(max_examples=100, deadline=None)
def test_normal_form_ignores_case_and_punctuation(text: str) -> None:
    form = normal_form(text, "fa")
    assert normal_form(form, "fa") == form
    if any(map(str.isalpha, form)):  # else it is the text without white space around it
        for other in (unicodedata.normalize("NFD", text), unicodedata.normalize("NFKC", text), f" {text}, 7."):
            assert normal_form(other, "fa") == form


def test_near_duplicates_have_equal_hashes() -> None:
    key = normal_hash(("de", "en"))
    assert key("Der Hund.", "The dog") == key("der hund 2", "THE DOG!")
    others = [
        ("Der Hund", "The cat"),
        ("der hund the", "dog"),
        ("The dog", "Der Hund"),
        ("5", "6"),
        ("5", "7"),
        ("8", "!"),
    ]
    assert len({key(*pair) for pair in [("Der Hund.", "The dog"), *others]}) == 7
    assert len(key("a", "b")) == 16


def test_grouping_rules_follow_config() -> None:
    assert [rule.reason for rule in groupings(CleanConfig(), ("de", "en"))] == ["duplicate"]
    rules = groupings(CleanConfig(drop=["near_duplicates"]), ("de", "en"))
    assert [rule.reason for rule in rules] == ["duplicate", "near_duplicate"]
    exact, near = (rule.key for rule in rules)
    assert exact("a", "b") != exact("a", "B") and near("a", "b") == near("a", "B")


@pytest.mark.parametrize(
    ("language", "text", "other", "is_equal"),
    [
        ("tr", "IŞIK", "ışık", True),
        ("az", "İnsan", "insan", True),
        ("ps", "سړی", "سړي", False),
        ("ml", "അവൻ", "അവന്", False),
    ],
)
def test_normal_form_ignores_case_by_language_and_keeps_letters_that_distinguish_words(
    language: str, text: str, other: str, is_equal: bool
) -> None:
    assert (normal_form(text, language) == normal_form(other, language)) == is_equal
