"""Letters that stand for one another, and marks that stand for nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from nmt.languages.codes import language_of
from nmt.languages.scripts import rows_of, scripts
from nmt.text.letters import comparable, usual_forms, write

PERSIAN = Counter("یک کتاب و یک میز ۱۲۳۴۵۶۷۸۹۰")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("يك كتاب", "یک کتاب"),
        ("یک کتـــاب", "یک کتاب"),
        ("\u200fیک کتاب.\u200e", "یک کتاب."),
        ("ﻳﻚ ﻛﺘﺎﺏ", "یک کتاب"),
        ("٢٠٢٤", "۲۰۲۴"),
        ("یک کتاب", "یک کتاب"),
    ],
)
def test_text_is_written_in_the_usual_forms(text: str, expected: str) -> None:
    assert write(text, usual_forms("fa", PERSIAN)) == expected


@pytest.mark.parametrize("characters", [PERSIAN, Counter("ي" * 9), Counter()])
def test_usual_forms_do_not_change_any_more(characters: Counter[str]) -> None:
    forms = usual_forms("fa", characters)
    written = write("".join(forms), forms)
    assert write(written, forms) == written


def test_digits_are_chosen_together() -> None:
    digits = Counter("٠١٢٣٤٥٦٧٨٩" * 2 + "۰۱۲۳۴۵۶۷۸۹" + "۱" * 50)
    assert write("۰۱۹", usual_forms("fa", digits)) == "٠١٩"


def test_ascii_is_never_replaced() -> None:
    text = "{0} http://a.b/12 %1$s don't"
    for language, characters in (("fa", PERSIAN), ("uz", Counter("ʻʻʻ")), ("he", Counter("־־"))):
        assert write(text, usual_forms(language, characters)) == text


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ps", "ی ي ى"), ("pbt_Arab", "ی ي"), ("ug", "ي ى"), ("ar", "ي ى"), ("arz", "ي ى"), ("sd", "ڪ ک"),
        ("fa", "ە ه\u200c"), ("tr", "ş ţ"), ("yi", "אַ אָ א פּ פֿ"),
    ],
)  # fmt: skip
def test_different_letters_of_a_language_stay(language: str, text: str) -> None:
    assert write(text, usual_forms(language, Counter(text[:1] * 99))) == text


@pytest.mark.parametrize(
    ("language", "text", "other"),
    [
        ("fa", "ی", "ي"), ("pes_Arab", "ی", "ى"), ("ur", "ہ", "ه"), ("ckb", "ە", "ه\u200c"), ("ku_Arab", "ک", "ك"),
        ("ro", "ș", "ş"), ("ron_Latn", "Ț", "Ţ"), ("uk", "'", "ʼ"), ("uzn_Latn", "ʻ", "‘"), ("he", "שׁ", "\ufb2a"),
        ("yi", "וו", "װ"), ("ml", "ൻ", "ന്\u200d"),
    ],
)  # fmt: skip
def test_forms_of_a_letter_are_exchanged(language: str, text: str, other: str) -> None:
    assert write(other, usual_forms(language, Counter(text * 99))) == text


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("ru", "Мoсква, «cлово» и Bода", "Москва, «слово» и Вода"),
        ("uk", "мiстo, пiд'їзд", "місто, під'їзд"),
        ("sr", "jабука и jaje", "јабука и jaje"),
        ("en", "the аpple of Рaris", "the apple of Paris"),
        ("de", "Größе", "Größe"),
        ("sr_Latn", "аpo", "apo"),
    ],
)
def test_letters_of_another_script_in_a_word_are_replaced(language: str, text: str, expected: str) -> None:
    assert write(text, usual_forms(language, Counter(text))) == expected


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ru", "PDF, coca и COP в SMSка, Windowsа, ХIХ век, A-1, H2О, http://a.c/o_а %cа \\xа"),
        ("de", "слово, оса und Größe, éclair, Москва-Fluss"),
        ("en", "the word оса, 5а"),
        ("az", "сəс"),
        ("el", "Aθήνα"),
    ],
)
def test_words_in_another_script_and_placeholders_stay(language: str, text: str) -> None:
    assert write(text, usual_forms(language, Counter(text))) == text


@pytest.mark.parametrize("language", ["hy", "hi", "zh", "label"])
def test_languages_without_such_letters_have_no_forms(language: str) -> None:
    assert usual_forms(language, PERSIAN) == {}


def test_comparisons_ignore_forms_and_marks_of_direction() -> None:
    texts = ("یک کتاب ۲۰۲۴", "يك كتاب ٢٠٢٤", "\u200fیک کتـاب 2024\u200f", "\u202bیک کتاب ۲۰۲۴\u202c")
    assert len({*map(comparable, texts)}) == 1
    assert comparable("یک کتاب") != comparable("یک باب")
    for text in ("Größe’s «Été», čtvrť", "soft\u00adhyphen"):
        assert comparable(text) == text


def test_table_names_known_scripts_and_languages_and_different_forms() -> None:
    for of, not_of, forms in rows_of("letters.tsv"):
        for name in (*of.split(), *not_of.split()):
            assert name in scripts() or language_of(name) is not None, name
        first, *others = forms.split(" ")
        assert others and len({first, *others}) == 1 + len(others), forms
        assert all(others), forms
        if ">" in first:
            assert str.maketrans(*first.split(">"))
            assert not usual_forms(of.split()[0], Counter()).get(first)
