"""Changes of source lines: where they have a place, what they leave alone, and how the rate chooses."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.evaluate.robustness import CHANGES, changed_line, default_changes
from nmt.text.constraints import protected

LINE = "Der Hund „Rex“ läuft schnell - sehr SCHNELL - über 3,50 m, don't you? www.ex.de/Über"


def everywhere(change: str, line: str, language: str = "de", seed: int = 1) -> str:
    """The line, changed at all places."""
    return changed_line(line, language, change, [1.0], seed)[0]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("upper_case", "DER HUND „REX“ LÄUFT SCHNELL - SEHR SCHNELL - ÜBER 3,50 M, DON'T YOU? www.ex.de/Über"),
        ("lower_case", "der hund „rex“ läuft schnell - sehr schnell - über 3,50 m, don't you? www.ex.de/Über"),
        ("title_case", "Der Hund „Rex“ Läuft Schnell - Sehr SCHNELL - Über 3,50 M, Don't You? www.ex.de/Über"),
        ("punctuation_removed", "Der Hund Rex läuft schnell sehr SCHNELL über 3,50 m don't you www.ex.de/Über"),
        ("umlauts", "Der Hund „Rex“ laeuft schnell - sehr SCHNELL - ueber 3,50 m, don't you? www.ex.de/Über"),
        ("accents", "Der Hund „Rex“ lauft schnell - sehr SCHNELL - uber 3,50 m, don't you? www.ex.de/Über"),
    ],
)
def test_change_at_full_rate(change: str, expected: str) -> None:
    assert everywhere(change, LINE) == expected


def test_punctuation_changes_to_an_alternative() -> None:
    seen = {everywhere("punctuation_changed", "„Ja“, e-mail - gut. Was?", seed=seed) for seed in range(60)}
    for start, middle in zip("„“,-.", ("Ja", "", " e-mail ", " gut", " Was?"), strict=True):
        assert start and all(middle in line for line in seen)
    assert not any(mark in line for line in seen for mark in ("„Ja", "Ja“", ", e", " - ", "gut."))
    assert {line[-8:-5] for line in seen} == {"ut!", "ut…"}
    assert everywhere("punctuation_changed", "你好，世界。", "zh") in {
        f"你好{a}世界{b}" for a in "、；：" for b in "！…"
    }
    assert everywhere("punctuation_changed", "Wait... what?!") == "Wait... what?…"


@pytest.mark.parametrize(
    ("change", "language", "line", "expected"),
    [
        ("umlauts", "de", "ÄPFEL Äpfel STRAẞE Maß Ö", "AEPFEL Aepfel STRASSE Mass Oe"),
        ("umlauts", "de", "u\u0308ber", "ueber"),
        ("accents", "fr", "ŒUVRE cœur Été naïve ÇA", "OEUVRE coeur Ete naive CA"),
        ("accents", "pl", "łódź Đà", "lodz Da"),
        ("accents", "el", "καλημέρα", "καλημερα"),
        ("accents", "ru", "мой ёж, мои\u0306", "мой ёж, мои\u0306"),
        ("accents", "ko", "한국어", "한국어"),
        ("upper_case", "tr", "iyi ılık", "İYİ ILIK"),
        ("upper_case", "zh", "我喜欢 abc 茶", "我喜欢 ABC 茶"),
        ("lower_case", "ka", "თბილისი", "თბილისი"),
        ("punctuation_removed", "fr", "Quoi ? L'eau, « oui » !", "Quoi L'eau « oui »".replace("« oui »", "oui")),
        ("punctuation_removed", "zh", "你好，世界。", "你好世界"),
        ("punctuation_removed", "en", "...", ""),
        ("typos", "ja", "これはペンです。", "これはペンです。"),
        ("typos", "en", "The cat is 1000 m up.", "The cat is 1000 m up."),
    ],
)
def test_change_by_language_and_corner_cases(change: str, language: str, line: str, expected: str) -> None:
    assert everywhere(change, line, language) == expected


def test_typos_are_inside_words() -> None:
    for seed in range(200):
        wrong = changed_line("Katzen mögen einen Fisch", "de", "typos", [0.5], seed)[0]
        assert [word[0] for word in wrong.split(" ")] == ["K", "m", "e", "F"]
    # one of ten letters inside words, over many lines
    lines = [f"Wanderer {i} bewundern Landschaften" for i in range(400)]
    n_inside = sum(len(word) - 2 for word in ("Wanderer", "bewundern", "Landschaften")) * len(lines)
    changed = [changed_line(line, "de", "typos", [0.1], 1)[0] for line in lines]
    n_edits = sum(
        sum(tag != "equal" for tag, *_ in difflib.SequenceMatcher(None, *pair, autojunk=False).get_opcodes())
        for pair in zip(lines, changed, strict=True)
    )
    assert 0.07 < n_edits / n_inside < 0.14  # a swap may count as two, two in a row as one


def test_rate_is_share_of_places() -> None:
    lines = [f"eins {i} zwei drei vier" for i in range(1000)]
    rates = [0.01, 0.05, 0.5]
    variants = zip(*(changed_line(line, "de", "upper_case", rates, 7) for line in lines), strict=True)
    for rate, changed in zip(rates, variants, strict=True):
        n_changed = sum(word.isupper() for line in changed for word in line.split())
        assert n_changed / 4000 == pytest.approx(rate, rel=0.25)


WORDS = [
    *LINE.split(),
    "Straße",
    "{name}",
    "<b>",
    "</b>",
    "你好，",
    "мой",
    "école",
    "İI",
    "e\u0301",
    "...",
    "(",
    "\u0301",
]
LINES = st.one_of(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join), st.text(max_size=30))


@pytest.mark.parametrize("change", CHANGES)
@settings(max_examples=25, deadline=None)
@given(line=LINES, seed=st.integers(0, 99))
def test_change_depends_on_seed_and_line_and_grows_with_rate(change: str, line: str, seed: int) -> None:
    rates = [0.0, 0.1, 0.3, 1.0]
    changed = changed_line(line, "de", change, rates, seed)
    assert changed[0] == line
    assert changed == changed_line(line, "de", change, rates, seed)
    assert changed[1:3] == changed_line(line, "de", change, rates[1:3], seed)
    if changed[3] == line:
        assert changed == [line] * 4
    if change != "punctuation_removed" and "<" not in line:  # marks around a number may belong to it
        assert all(protected(each) == protected(line) for each in changed) or not protected(line)


def test_chosen_places_are_stable_across_versions() -> None:
    assert changed_line("Zwei kleine Katzen schlafen auf dem warmen Sofa.", "de", "typos", [0.05, 0.2], 1) == [
        "Zwei kleine Katzen schladen auf dem warmen Sofa.",
        "Zwei klleine Kaatzrn schladen auf dem wramen Sofa.",
    ]


def test_default_changes_by_language() -> None:
    assert set(CHANGES) - set(default_changes("de")) == {"accents"} == set(CHANGES) - set(default_changes("de_AT"))
    assert set(CHANGES) - set(default_changes("den")) == {"umlauts"} == set(CHANGES) - set(default_changes("fr"))
