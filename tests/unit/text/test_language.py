"""Identification of languages by py3langid."""

from __future__ import annotations

import pytest

from nmt.text.language import in_other_language

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


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("fa", "این یک کتاب کوچک است که یکی از کودکان دیروز خریده بود."),
        ("ur", "یہ کتاب ایک لڑکی کی ہے۔"),
    ],
)
def test_text_in_other_forms_of_letters_is_recognised(language: str, line: str) -> None:
    respelled = line.translate(str.maketrans("یک", "يك"))
    counts: dict[str, int] = {}
    assert not in_other_language(language, counts)(respelled) and set(counts) <= {language, "unclear"}
    assert in_other_language(language, {})(LINES["ar"])
    for other in ("ps", "ar"):
        assert in_other_language(other, {})(line)


def test_text_without_a_clear_language_is_kept() -> None:
    for language in ("de", "en", "fr"):
        counts: dict[str, int] = {}
        test = in_other_language(language, counts)
        assert [text for text in SHORT if test(text)] == []
        assert set(counts) <= {language, "unclear"} and sum(counts.values()) == len(SHORT)


KURMANJI = "Zarok piştî nîvro li baxçeyê li pişt malê dilîzin."
SORANI = "منداڵەکان دوای نیوەڕۆ لە باخچەکەی پشت ماڵەکە یاری دەکەن."


@pytest.mark.parametrize(
    ("language", "texts", "others"),
    [
        ("nb", ["Barna leker i hagen bak huset om ettermiddagen."], []),
        ("pt_BR", ["As crianças brincam no jardim atrás da casa à tarde."], []),
        ("deu", [LINES["de"]], []),
        # of one macrolanguage, those of one script
        ("ku", [KURMANJI, SORANI, LINES["de"]], [LINES["de"]]),
        ("kmr", [KURMANJI, SORANI, LINES["de"]], [SORANI, LINES["de"]]),
        ("ckb", [KURMANJI, SORANI, LINES["de"]], [LINES["de"]]),
    ],
)
def test_related_languages_are_not_distinguished(language: str, texts: list[str], others: list[str]) -> None:
    assert [*filter(in_other_language(language, {}), texts)] == others
