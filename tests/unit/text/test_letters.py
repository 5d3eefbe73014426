"""Letters that stand for one another, and marks that stand for nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import pytest

from nmt.languages.codes import language_of, rows_of, scripts
from nmt.text.letters import comparable, count_forms, usual_forms, write

PERSIAN = "یک کتاب و یک میز ۱۲۳۴۵۶۷۸۹۰"


def forms_of(language: str, text: str) -> dict[str, str]:
    """Return how other forms of letters are written than those of a text."""
    return usual_forms(language, count_forms(language, [text]))


@pytest.mark.parametrize(
    ("text", "expected", "language", "usual"),
    [
        *((text, expected, "fa", PERSIAN) for text, expected in (
            ("يك كتاب", "یک کتاب"), ("یک کتـــاب", "یک کتاب"), ("\u200fیک کتاب.\u200e", "یک کتاب."),
            ("ﻳﻚ ﻛﺘﺎﺏ", "یک کتاب"), ("٢٠٢٤", "۲۰۲۴"), ("یک کتاب", "یک کتاب"),
            # marks take their spaces along
            ("\u200f سیب", "سیب"), ("ـ کتاب ـ میز ـ", "کتاب میز"), (" \u200f سیب", " سیب"),
            ("سیب\u200f میز", "سیب میز"),
            ("ـ", ""), ("\u200f ـ", ""), ("\u200fسیب  میز ", "سیب  میز "),
        )),
        # digits are chosen together, and stay if some are missing in the text
        ("٠١٢٩", "۰۱۲۹", "fa", "٠١٢٣٤٥٦٧٨٩" + "۰۱۳۵۷" * 50),
        ("سال ۱۳۵۷", "سال ۱۳۵۷", "fa", "سال ۱۳۵۷ و ۱۴۰۲ و ۸۶۷ " * 1000 + "123456780"),
        # presentation forms are never the usual ones, nor are quotation marks those of Hebrew signs
        ("ﺑﺎﺏ باب ﺑﺒﺮ ﻻ", "باب باب ببر لا", "fa", "ﺑﺎﺏ ﮐﺘﺎﺏ ﺑﺒﺮ ﻻ" * 100),
        ("ﻛﺘﺎﺏ", "کتاب", "fa", "ﺑﺎﺏ ﮐﺘﺎﺏ ﺑﺒﺮ ﻻ" * 100),
        ("צה”ל ג’ו צה״ל ג׳ו", "צה״ל ג׳ו צה״ל ג׳ו", "he", "“שלום” ’כן’ צה״ל ג׳ו"),
    ],
)  # fmt: skip
def test_text_is_written_in_the_usual_forms(text: str, expected: str, language: str, usual: str) -> None:
    assert write(text, forms_of(language, usual)) == expected


@pytest.mark.parametrize("usual", [PERSIAN, "ي" * 9, ""])
def test_usual_forms_do_not_change_any_more(usual: str) -> None:
    forms = forms_of("fa", usual)
    written = write("".join(forms), forms)
    assert write(written, forms) == written


@pytest.mark.parametrize(("language", "usual"), [("fa", PERSIAN), ("uz", "oʻoʻoʻ"), ("he", "־־")])
@pytest.mark.parametrize("text", ["{0} http://a.b/12 %1$s don't"])
def test_ascii_is_never_replaced(language: str, usual: str, text: str) -> None:
    assert write(text, forms_of(language, usual)) == text


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ps", "ی ي ى"), ("pbt_Arab", "ی ي"), ("ug", "ي ى"), ("ar", "ي ى"), ("arz", "ي ى"), ("sd", "ڪ ک"),
        ("fa", "ە ه\u200c"), ("acq_Arab", "ي ى"), ("shu", "ي ى"),
        ("min_Arab", "ى ي"), ("pst", "ی ي"), ("he", "“שלום” ב“הארץ” ‘כן’"), ("uz", "‘ha’ 5′"),
        ("uk", "‘так’ 5′ так’"), ("br", "‘ya’ 5′"), ("haw", "‘O ia’ 5′ haole’s"), ("tr", "ş ţ"), ("yi", "אַ אָ א פּ פֿ"),
        ("ha", "‘yau’ ce, ’to’ 5′"), ("gn", "‘ko ápe’ 5′"),
    ],
)  # fmt: skip
def test_different_letters_of_a_language_stay(language: str, text: str) -> None:
    assert write(text, forms_of(language, text[:1] * 99)) == text


@pytest.mark.parametrize(
    ("language", "text", "other"),
    [
        ("fa", "ی", "ي"), ("pes_Arab", "ی", "ى"), ("ur", "ہ", "ه"), ("ckb", "ە", "ه\u200c"), ("ku_Arab", "ک", "ك"),
        ("ku", "ی", "ي"), ("ku", "ە", "ه\u200c"), ("pnb", "ہ", "ه"), ("lah", "ہ", "ه"), ("acq_Arab", "ي", "ی"),
        ("ro", "ș", "ş"), ("ron_Latn", "Ț", "Ţ"), ("uk", "п'я", "пʼя"), ("uzn_Latn", "oʻ", "o‘"),
        ("uz", "maʼno", "ma’no"), ("he", "צה״ל", "צה”ל"), ("he", "ג׳ו", "ג’ו"), ("he", "שׁ", "\ufb2a"),
        ("yi", "וו", "װ"), ("yi", "װ", "וו"), ("yi", "ײ", "יי"), ("ml", "ൻ", "ന്\u200d"), ("ml", "ന്\u200d", "ൻ"),
        ("ha", "'ya'ya", "ʼyaʼya"), ("ha", "’yan jama’a", "ʼyan jamaʼa"), ("gn", "mba'e", "mba’e"),
        ("qu", "p’acha", "pʼacha"), ("om", "ka'e", "ka’e"), ("swh", "ng'ombe", "ng’ombe"),
    ],
)  # fmt: skip
def test_forms_of_a_letter_are_exchanged(language: str, text: str, other: str) -> None:
    assert write(other, forms_of(language, text * 99)) == text


@pytest.mark.parametrize(
    ("language", "word", "other", "elsewhere"),
    [
        ("yi", "װ", "וו", "ו"), ("yi", "ײ", "יי", "י"), ("ml", "ൺ", "ണ്\u200d", "ക്\u200d"),
        ("ckb", "ە", "ه\u200c", "ی\u200c"),
        ("he", "צה״ל", "צה”ל", '"שלום" ”כן”'), ("uk", "м’я", "мʼя", "«ʼ»"), ("gn", "mba’e", "mbaʼe", "ʼko'"),
    ],
)  # fmt: skip
def test_last_letter_of_a_form_and_quotation_marks_are_not_counted(
    language: str, word: str, other: str, elsewhere: str
) -> None:
    forms = forms_of(language, f"{word} {word} {other} {f'{elsewhere} ' * 30}")
    assert write(f"{word} {other}", forms) == f"{word} {word}"


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("ru", "Мoсква, «cлово» и Bода", "Москва, «слово» и Вода"),
        ("uk", "мiстo, пiд'їзд", "місто, під'їзд"),
        ("sr", "jабука и jaje", "јабука и jaje"),
        ("en", "the аpple of Рaris", "the apple of Paris"),
        ("de", "Größе", "Größe"),
        ("sr_Latn", "аpo", "apo"),
        # words in another script and placeholders stay
        *((language, text, text) for language, text in (
            ("ru", "PDF, coca и COP в SMSка, Windowsа, ХIХ век, A-1, H2О, http://a.c/o_а %cа \\xа"),
            ("de", "слово, оса und Größe, éclair, Москва-Fluss"), ("en", "the word оса, 5а"), ("az", "сəс"),
            ("el", "Aθήνα"),
        )),
    ],
)  # fmt: skip
def test_letters_of_another_script_are_replaced_in_a_word(language: str, text: str, expected: str) -> None:
    assert write(text, forms_of(language, text)) == expected


@pytest.mark.parametrize("language", ["hy", "hi", "zh", "label"])
def test_languages_without_such_letters_have_no_forms(language: str) -> None:
    assert forms_of(language, PERSIAN) == {}


def test_comparisons_ignore_forms_and_invisible_marks() -> None:
    texts = ("یک کتاب می\u200cخرد ۲۰۲۴", "يك كتاب ميخرد ٢٠٢٤", "\u200fیک کتـاب میخرد 2024\u200f", "ﻳﻚ کتاب میخرد 2024")
    assert len({comparable(text, "fa") for text in texts}) == 1
    assert comparable("یک کتاب", "fa") != comparable("یک باب", "fa")
    assert comparable("soft\u00adhyphen, don’t", "en") == "softhyphen, don't"


@pytest.mark.parametrize("language", ["de", "ru", "he", "uk", "und"])
@pytest.mark.parametrize(
    "text", ["Größe „x“ ‚y‘ «Été», čtvrť", "“I” ‘you’ – 5′ d…", "Москва, ДО и до", "שלום “כן” ב“הארץ” ״לא״", "ґ ї"]
)
def test_other_letters_and_quotation_marks_stay_in_comparisons(text: str, language: str) -> None:
    assert comparable(text, language) == text


@pytest.mark.parametrize(
    ("language", "text", "other"),
    [
        ("sd", "ڪير", "کير"), ("ps", "سړی", "سړي"), ("ar", "علي", "على"), ("arz", "في", "فى"), ("ml", "അവൻ", "അവന്"),
        ("mr", "र्\u200dय", "र्य"), ("bn", "র\u200d্য", "র্য"), ("de", "ی", "ي"), ("fa", "ș", "ş"), ("tr", "ş", "ș"),
        ("si", "ක්\u200dය", "ක්ය"),
    ],
)  # fmt: skip
def test_letters_that_distinguish_words_of_a_language_stay_in_comparisons(language: str, text: str, other: str) -> None:
    assert comparable(text, language) != comparable(other, language)


@pytest.mark.parametrize("language", ["fr", "ko", "vi", "fa", "hi", "zz"])
@pytest.mark.parametrize(
    "text",
    ["\u00a0Été\u202f: 1\u2009000  km", "한국어\u3000말", "E\u0301te\u0301\u00ad\ufeff", "\u200eTiê\u0301\t V"],
)
def test_comparisons_ignore_white_space_invisible_characters_and_normal_forms(text: str, language: str) -> None:
    expected = " ".join(unicodedata.normalize("NFC", re.sub("[\u00ad\u200e\ufeff]", "", text)).split())
    assert comparable(text, language) == expected
    lines = comparable(f"{text}\n \n{unicodedata.normalize('NFD', text)}", language)
    assert lines == f"{expected}\n\n{expected}"


# where a row has an expression of its own, a word in which its forms are replaced
WORDS = {
    "Hebr": ("צה{}ל", "ג{}ו"),
    "uk": ("п{}я",),
    "br": ("c{}h",),
    "ha": ("ja{}in",),
    "uz": ("o{}z", "ma{}no"),
    "haw": ("i{}i",),
}


def spellings() -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield a language of each row of the table, its forms, and a word with each form."""
    languages = {"Arab": "fa", "Hebr": "he"}
    words = {name: iter(of_name) for name, of_name in WORDS.items()}
    for of, _, row, where in rows_of("letters.tsv"):
        name = of.split()[0]
        if name not in "*'" and "%s" in where:
            word = "{}" if where == "%s" else next(words[name])
            yield languages.get(name, name), row.split(" "), [word.format(form) for form in row.split(" ")]


@pytest.mark.parametrize(("language", "forms", "words"), [*spellings()])
def test_each_form_in_the_table_is_replaced_and_equal_in_comparisons(
    language: str, forms: list[str], words: list[str]
) -> None:
    for usual in words:
        written = forms_of(language, usual * 99)
        for form, word in zip(forms, words, strict=True):
            assert write(word, written) == (word if form.isascii() else usual)
    assert len({comparable(word, language) for word in words}) == 1


@pytest.mark.parametrize("characters", [range(0xFB1D, 0xFBB2), range(0xFBD3, 0xFC00), range(0xFE80, 0xFEFD)])
def test_presentation_forms_are_written_in_normal_form(characters: range) -> None:
    for form in map(chr, characters):
        normal = unicodedata.normalize("NFKC", form)
        if normal.isascii():
            continue
        language = "he" if form < "\ufb50" else "ps"  # Pashto has ي and ی
        forms = forms_of(language, form * 9)
        assert write(form, forms) == write(normal, forms)
        assert comparable(form, language) == comparable(normal, language)


def test_table_names_known_scripts_and_languages_and_different_forms() -> None:
    for of, not_of, row, where in rows_of("letters.tsv"):
        for name in {*of.split(), *not_of.split()} - {*"*'"}:
            known = language_of(name)
            assert name in scripts() or (known is not None and known.code == name), name
        assert re.compile(where.replace("%s", "x")).groups == 0, where
        forms = row.split(" ")
        assert len({*forms}) == len(forms), row
        assert ("%s" in where) == (len(forms) > 1), row
        if ">" in row:
            assert str.maketrans(*row.split(">"))
