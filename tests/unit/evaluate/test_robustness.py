"""Robustness: changes of source lines, and scores of their translations by a made-up translator."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.evaluate.report import Subject
from nmt.evaluate.robustness import (
    CHANGES,
    RobustnessPlan,
    RobustnessReport,
    Signs,
    changed_line,
    count_signs,
    default_changes,
    make_variants,
    measure,
)
from nmt.evaluate.run import EvaluationText
from nmt.tables import render
from nmt.text.constraints import protected

SOURCES = ["Der Hund läuft.", "Die Katze schläft.", "Der Hund läuft.", "Zwei Hunde bellen laut.", "Ja"]
REFERENCES = ["The dog runs.", "The cat sleeps.", "A dog is running.", "Two dogs bark loudly.", "Yes"]
TEXT = EvaluationText("test", SOURCES, REFERENCES, ("de", "en"), range(1, 6))
WORDS = {
    "Der": "The", "Die": "The", "Hund": "dog", "läuft.": "runs.", "Katze": "cat", "schläft.": "sleeps.", "Zwei": "Two",
    "Hunde": "dogs", "bellen": "bark", "laut.": "loudly.", "Ja": "Yes",
}  # fmt: skip


def by_word(lines: Sequence[str], _: Sequence[int]) -> list[str]:
    """Translate word by word, and copy unknown words."""
    return [" ".join(WORDS.get(word, word) for word in line.split()) for line in lines]


def chrf(hyps: Sequence[str], refs: Sequence[str]) -> float:
    return sacrebleu.corpus_chrf(hyps, [refs]).score


def test_distinct_lines_are_translated_once() -> None:
    asked = []

    def translating(lines: Sequence[str], numbers: Sequence[int]) -> list[str]:
        asked.extend(zip(lines, numbers, strict=True))
        return by_word(lines, numbers)

    variants = make_variants(TEXT, RobustnessPlan(["umlauts", "upper_case", "accents"], [100], 1))
    measured = measure(TEXT, variants, translating)
    assert [variant.change for variant in variants] == [None, "umlauts", "upper_case", "accents"]
    assert len(asked) == 12 and dict(asked) == {
        "Der Hund läuft.": 1, "Die Katze schläft.": 2, "Zwei Hunde bellen laut.": 4, "Ja": 5,
        "Der Hund laeuft.": 1, "Die Katze schlaeft.": 2,
        "DER HUND LÄUFT.": 1, "DIE KATZE SCHLÄFT.": 2, "ZWEI HUNDE BELLEN LAUT.": 4, "JA": 5,
        "Der Hund lauft.": 1, "Die Katze schlaft.": 2,
    }  # fmt: skip
    assert [row.n_changed for row in measured.rows] == [0, 3, 5, 3]
    assert measured.translations[1][2:] == ["The dog laeuft.", "Two dogs bark loudly.", "Yes"]


def test_scores_equal_sacrebleu() -> None:
    variants = make_variants(TEXT, RobustnessPlan(["umlauts", "upper_case"], [40, 100], 2))
    measured = measure(TEXT, variants, by_word)
    original = measured.translations[0]
    for row, translations in zip(measured.rows, measured.translations, strict=True):
        assert row.chrf == pytest.approx(chrf(translations, REFERENCES))
        assert row.bleu == pytest.approx(sacrebleu.corpus_bleu(translations, [REFERENCES]).score)
        assert row.chrf_kept == pytest.approx(100 * row.chrf / measured.rows[0].chrf)
        one, other = chrf(translations, original), chrf(original, translations)
        assert row.consistency == pytest.approx(2 * one * other / (one + other))
    assert measured.rows[0].consistency == pytest.approx(100) and measured.rows[0].chrf_kept == 100
    assert measured.rows[-1].consistency < measured.rows[1].consistency < 100
    assert [signature.split("|")[0] for signature in measured.signatures] == ["chrF2", "BLEU"]
    last = measured.rows[-1]
    assert (last.empty, last.copied, last.repeated, last.length) == (0, 5, 0, 0)


def test_interval_of_kept_chrf_equals_bootstrap_over_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.evaluate.robustness.SAMPLES", 200)
    measured = measure(TEXT, make_variants(TEXT, RobustnessPlan(["umlauts"], [100], 1)), by_word)
    original, changed = measured.rows
    assert original.chrf_kept_interval == pytest.approx((100, 100))
    assert changed.chrf_kept is not None and changed.chrf_kept_interval is not None
    low, high = changed.chrf_kept_interval
    assert low < changed.chrf_kept < high
    rows = np.random.default_rng(12345).integers(0, 5, (200, 5))  # the seed of all tests over lines
    kept = []
    for drawn in rows:
        refs = [REFERENCES[row] for row in drawn]
        before, after = (chrf([lines[row] for row in drawn], refs) for lines in measured.translations)
        kept.append(100 * after / before)
    assert (low, high) == pytest.approx(tuple(np.quantile(kept, [0.025, 0.975])))


def test_empty_translations_have_no_relative_chrf() -> None:
    measured = measure(
        TEXT, make_variants(TEXT, RobustnessPlan(["umlauts"], [100], 1)), lambda lines, _: [""] * len(lines)
    )
    for row in measured.rows:
        assert (row.chrf_kept, row.chrf_kept_interval, row.consistency, row.empty) == (None, None, 0, 5)
    report = RobustnessReport(Subject(), 5, 5, RobustnessPlan(["umlauts"], [100], 1), measured)
    assert "umlauts  100 %" in render("text", [report.as_table()], None)
    assert json.loads(render("json", [], report.as_json()))["rows"][1]["chrf_kept"] is None


def test_change_without_effect_is_skipped_and_noted() -> None:
    plan = RobustnessPlan(["accents", "upper_case", "typos"], [5], 1)
    text = EvaluationText("test", ["Go 3 x"], ["Los 3 x"], ("en", "de"), [1])
    variants = make_variants(text, plan)
    assert [variant.change for variant in variants] == [None, "upper_case"]  # no effect at 5 %, but the line has places
    report = RobustnessReport(Subject(), 1, 1, plan, measure(text, variants, by_word))
    assert report.notes == ("skipped, because they would change no line: accents, typos",)
    with pytest.raises(DataError, match=r"^test: typos, accents would change none of the 1 lines$"):
        make_variants(text, RobustnessPlan(["typos", "accents"], [5], 1))


def test_robustness_report_renders_as_table_and_json() -> None:
    plan = RobustnessPlan(["typos", "punctuation_removed"], [1, 12.5], 3)
    subject = Subject(run="runs/a-name-that-is-long", split="test", step=4000, weights="average", search="beam 5")
    report = RobustnessReport(subject, 5, 500, plan, measure(TEXT, make_variants(TEXT, plan), by_word))
    table = report.as_table()
    lines = render("text", [table], None).splitlines()
    assert max(map(len, lines)) <= 110
    assert table.records[0]["split"] == "test" and table.records[1]["chrf"] == report.measured.rows[1].chrf
    assert lines[0].split() == [
        "change", "rate", "lines", "chrF", "kept", "%", "95", "%", "BLEU", "same", "empty", "copied", "repeated",
        "length",
    ]  # fmt: skip
    assert lines[1].split()[0] == "none"
    assert [line.split(" %")[0].split() for line in lines[2:6]] == [
        ["typos", "1"], ["typos", "12.5"], ["punctuation_removed", "1"], ["punctuation_removed", "12.5"],
    ]  # fmt: skip
    assert "note: 5 of 500 lines, spread evenly: scores of all lines differ" in lines
    told = json.loads(render("json", [], report.as_json()))
    assert (told["lines"], told["split"], told["step"], told["seed"]) == (5, "test", 4000, 3)
    assert told["rows"][0] == {
        "change": None, "rate": 0.0, "n_changed": 0, "chrf": told["rows"][0]["chrf"], "chrf_kept": 100.0,
        "chrf_kept_interval": [pytest.approx(100)] * 2, "bleu": told["rows"][0]["bleu"],
        "consistency": pytest.approx(100), "empty": 0, "copied": 0, "repeated": 0, "length": 0,
    }  # fmt: skip


# --- Signs of hallucination ---


NOTHING = Signs(0, 0, 0, 0)
LONG = "one two three four five six seven eight"


@pytest.mark.parametrize(
    ("source", "translation", "reference", "expected"),
    [
        ("Guten Tag", "Good day", "Good day", NOTHING),
        ("Guten Tag", " ", "Good day", Signs(1, 0, 0, 0)),
        ("Guten Tag", "Guten Tag ", "Good day", Signs(0, 1, 0, 0)),
        ("Berlin", "Berlin", "Berlin", NOTHING),
        ("Hallo", "no no no no no", "no no no no no", NOTHING),
        ("Hallo", "no no no no no no", "no no no no no", Signs(0, 0, 1, 0)),
        ("nein nein nein nein", "no no no no no no", "no no no no no", Signs(0, 0, 1, 0)),
        ("nein nein nein nein nein", "no no no no no no", "no no no no no", NOTHING),
        ("Hallo", " ".join([LONG] * 3), " ".join([LONG] * 3), Signs(0, 0, 1, 0)),
        ("Hallo", " ".join([LONG] * 2), " ".join([LONG] * 2), NOTHING),
        ("abc", "x" * 10, "y" * 20, NOTHING),
        ("abc", "x" * 9, "y" * 20, Signs(0, 0, 0, 1)),
        ("abc", "x" * 40, "y" * 20, NOTHING),
        ("abc", "x" * 41, "y" * 20, Signs(0, 0, 0, 1)),
        ("", "", "", NOTHING),
        ("abc", "abc", "", NOTHING),
        ("", "x", "y" * 9, NOTHING),
    ],
)
def test_signs_of_hallucination_are_counted(source: str, translation: str, reference: str, expected: Signs) -> None:
    assert count_signs([source], [translation], [reference], ("de", "en")) == expected


# --- Changes of source lines ---


LINE = "Der Hund „Rex“ läuft schnell - sehr SCHNELL - über 3,50 m, don't you? www.ex.de/Über"


@pytest.mark.parametrize(
    ("change", "language", "line", "expected"),
    [
        *((change, "de", LINE, expected) for change, expected in {
            "upper_case": "DER HUND „REX“ LÄUFT SCHNELL - SEHR SCHNELL - ÜBER 3,50 M, DON'T YOU? www.ex.de/Über",
            "lower_case": "der hund „rex“ läuft schnell - sehr schnell - über 3,50 m, don't you? www.ex.de/Über",
            "title_case": "Der Hund „Rex“ Läuft Schnell - Sehr SCHNELL - Über 3,50 M, Don't You? www.ex.de/Über",
            "punctuation_removed": "Der Hund Rex läuft schnell sehr SCHNELL über 3,50 m don't you www.ex.de/Über",
            "umlauts": "Der Hund „Rex“ laeuft schnell - sehr SCHNELL - ueber 3,50 m, don't you? www.ex.de/Über",
            "accents": "Der Hund „Rex“ lauft schnell - sehr SCHNELL - uber 3,50 m, don't you? www.ex.de/Über",
        }.items()),
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
)  # fmt: skip
def test_change_at_full_rate_applies_everywhere(change: str, language: str, line: str, expected: str) -> None:
    assert changed_line(line, language, change, [1.0], 1) == [expected]


LINES = st.one_of(
    st.lists(
        st.sampled_from(
            [
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
        ),
        max_size=9,
    ).map(" ".join),
    st.text(max_size=30),
)


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


def test_changed_places_are_stable_across_versions() -> None:
    assert changed_line("Zwei kleine Katzen schlafen auf dem warmen Sofa.", "de", "typos", [0.05, 0.2], 1) == [
        "Zwei kleine Katzen schladen auf dem warmen Sofa.",
        "Zwei klleine Kaatzrn schladen auf dem wramen Sofa.",
    ]


def test_default_changes_depend_on_source_language() -> None:
    assert {kind for code in ("de", "de_AT", "deu_Latn") for kind in {*CHANGES} - {*default_changes(code)}} == {
        "accents"
    }
    assert set(CHANGES) - set(default_changes("den")) == {"umlauts"} == set(CHANGES) - set(default_changes("fr"))
