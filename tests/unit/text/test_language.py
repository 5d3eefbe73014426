"""Identification of languages, by py3langid and by profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.text import language as module
from nmt.text.language import LEAST, Profiles, checked, in_other_language, trigrams
from sentences import CZECH, sentence_pairs

PAIRS = sentence_pairs(300)
GERMAN, ENGLISH = ([pair[side] for pair in sentence_pairs(60, seed=8)] for side in (0, 1))
PROFILES = Profiles.of(("de", "en"), PAIRS)


def said_of(monkeypatch: pytest.MonkeyPatch, lines: list[str], profiles: Profiles | None = PROFILES) -> list[str]:
    """Return the warnings for a text that should be German, in windows of two lines."""
    said: list[str] = []
    monkeypatch.setattr(module, "say", said.append)
    windows = [lines[i : i + 2] for i in range(0, len(lines), 2)]
    assert list(checked(windows, profiles, "de")) == windows
    return said


@pytest.mark.parametrize(
    ("lines", "said"), [(ENGLISH, "looks like English, not German"), (CZECH * 2, "the text does not look like German;")]
)
def test_source_in_another_language_warns_once(monkeypatch: pytest.MonkeyPatch, lines: list[str], said: str) -> None:
    (warning,) = said_of(monkeypatch, lines)
    assert said in warning


@pytest.mark.parametrize(
    "lines",
    [
        GERMAN,
        [],
        ["", "  ", "\t"],
        ENGLISH[:10],
        ["The dog sleeps."],
        [f"{n} 1.5 {n * 3:,} %" for n in range(2000)],
        ["the" * 333] * 9,
        [f"for (x{n} = 0; x < {n}; x++) {{ y[{n}] += f(x, {n}); }}" for n in range(400)],
    ],
    ids=["own", "empty", "blank", "short", "sentence", "numbers", "no spaces", "code"],
)
def test_source_in_correct_or_unclear_language_does_not_warn(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert said_of(monkeypatch, lines) == []


def test_run_without_profiles_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said_of(monkeypatch, ENGLISH, None) == []
    assert said_of(monkeypatch, ENGLISH, Profiles.of(("de", "en"), [("1", "2")])) == []


def test_profile_of_text_without_spaces_uses_characters() -> None:
    chinese = [("the dog sees a train", "那只狗看见了一列火车"), ("the cat sleeps in the house", "猫在房子里睡觉")]
    profiles = Profiles.of(("en", "zh"), chinese)
    assert profiles.other(trigrams(["狗在火车里睡觉"]), "zh") is None
    assert profiles.other(trigrams(["the dog sleeps"]), "zh") == "looks like English, not Chinese"


def test_saved_profiles_are_loaded_and_small(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    assert Profiles.load(path) is None
    PROFILES.save(path)
    assert Profiles.load(path) == PROFILES and path.stat().st_size < 10_000
    assert sum(trigrams(ENGLISH).values()) > LEAST
    path.write_text('{"profiles": {"de": []}}')
    with pytest.raises(DataError):
        Profiles.load(path)


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


def test_related_languages_are_not_distinguished() -> None:
    assert not in_other_language("nb", {})("Barna leker i hagen bak huset om ettermiddagen.")
    assert not in_other_language("pt_BR", {})("As crianças brincam no jardim atrás da casa à tarde.")


def test_languages_of_one_macrolanguage_and_script_are_not_distinguished() -> None:
    kurmanji = "Zarok piştî nîvro li baxçeyê li pişt malê dilîzin."
    sorani = "منداڵەکان دوای نیوەڕۆ لە باخچەکەی پشت ماڵەکە یاری دەکەن."
    texts = [kurmanji, sorani, LINES["de"]]
    for code, expected in {"ku": [False, False, True], "kmr": [False, True, True], "ckb": [False, False, True]}.items():
        assert list(map(in_other_language(code, {}), texts)) == expected
    assert not in_other_language("deu", {})(LINES["de"])
