"""Language identification, and the scripts of languages."""

from __future__ import annotations

import pytest

from nmt.prepare.cleaning.filters import in_other_language
from nmt.prepare.cleaning.script import in_other_script, is_spaced, script_of, scripts_of

LINES = {
    "de": "Die Kinder spielen am Nachmittag im Garten hinter dem Haus.",
    "en": "The children play in the garden behind the house in the afternoon.",
    "fr": "Les enfants jouent l'après-midi dans le jardin derrière la maison.",
    "ru": "Дети играют после обеда в саду за домом.",
    "zh": "孩子们下午在房子后面的花园里玩耍。",
    "ar": "يلعب الأطفال بعد الظهر في الحديقة خلف المنزل.",
    "hi": "बच्चे दोपहर में घर के पीछे बगीचे में खेलते हैं।",
}
SHORT = [
    "OK",
    "Berlin",
    "NATO 1990",
    "12:30",
    "https://example.org/a/b",
    "<b>{0}</b>",
    "",
    "🙂",
    "Taxi Hotel",
    "=SUM(A1:B7)*$C$3/100",
]


@pytest.mark.parametrize("language", LINES)
def test_text_in_other_language_is_recognised(language: str) -> None:
    counts: dict[str, int] = {}
    test = in_other_language(language, counts)
    assert [other for other, line in LINES.items() if not test(line)] == [language]
    assert counts == dict.fromkeys(LINES, 1)


def test_text_without_a_clear_language_is_kept() -> None:
    for language in ("de", "en", "fr"):
        counts: dict[str, int] = {}
        test = in_other_language(language, counts)
        assert [text for text in SHORT if test(text)] == []
        assert set(counts) <= {language, "unclear"} and sum(counts.values()) == len(SHORT)


def test_related_languages_are_not_distinguished() -> None:
    assert not in_other_language("nb", {})("Barna leker i hagen bak huset om ettermiddagen.")
    assert not in_other_language("pt_BR", {})("As crianças brincam no jardim atrás da casa à tarde.")


@pytest.mark.parametrize(
    ("char", "script"),
    [("a", "LATIN"), ("ß", "LATIN"), ("ａ", "LATIN"), ("я", "CYRILLIC"), ("α", "GREEK"), ("中", "CJK"), ("の", "CJK"),
     ("한", "HANGUL"), ("ع", "ARABIC"), ("क", "DEVANAGARI"), ("ก", "THAI"), ("1", None), ("।", None), ("😀", None)],
)  # fmt: skip
def test_letter_has_expected_script(char: str, script: str | None) -> None:
    assert script_of(char) == script


def test_language_has_expected_scripts() -> None:
    assert scripts_of("de") == scripts_of("DE_at") == {"LATIN"}
    assert scripts_of("sr") == {"LATIN", "CYRILLIC"} and scripts_of("sr_Latn") == {"LATIN"}
    assert scripts_of("zh_Hant") == {"CJK"} and scripts_of("ja") == {"CJK"}
    assert scripts_of("xx") == frozenset() and scripts_of("xx_cyrl") == {"CYRILLIC"}


def test_scripts_of_all_languages_exist() -> None:
    """A misspelt script would drop all text of its languages."""
    from nmt.prepare.cleaning import script

    known = {script_of(chr(code)) for code in range(0x1F000)}
    assert {name for names in script._SCRIPTS.values() for name in names} | set(script._SUBTAGS.values()) <= known


def test_script_filter_compares_share_of_letters() -> None:
    test = in_other_script(frozenset(["DEVANAGARI"]), 0.5)
    assert [test(text) for text in ("हिन्दी", "हम ab", "हम abc", "abc", "12", "")] == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]


def test_is_spaced_depends_on_script_of_language() -> None:
    assert all(map(is_spaced, ("de", "ko", "hi", "xx")))
    assert not any(map(is_spaced, ("zh", "ja", "th", "my", "yue")))
