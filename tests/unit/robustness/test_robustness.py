"""A text, changed and translated by a made-up translator: what is translated, and what comes out."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
import sacrebleu

from nmt.errors import DataError
from nmt.evaluate.report import Subject
from nmt.evaluate.robustness import (
    COLUMNS,
    SAMPLES,
    Plan,
    Report,
    Signs,
    Text,
    make_variants,
    measure,
    render_json,
    render_text,
)

SOURCES = ["Der Hund läuft.", "Die Katze schläft.", "Der Hund läuft.", "Zwei Hunde bellen laut.", "Ja"]
REFERENCES = ["The dog runs.", "The cat sleeps.", "A dog is running.", "Two dogs bark loudly.", "Yes"]
TEXT = Text("test", SOURCES, REFERENCES, ("de", "en"), range(1, 6))
WORDS = {
    "Der": "The", "Die": "The", "Hund": "dog", "läuft.": "runs.", "Katze": "cat", "schläft.": "sleeps.", "Zwei": "Two",
    "Hunde": "dogs", "bellen": "bark", "laut.": "loudly.", "Ja": "Yes",
}  # fmt: skip


class Translating:
    """Translates word by word, copies words it does not know, and keeps what it was asked."""

    def __init__(self) -> None:
        self.lines: Sequence[str] = ()
        self.numbers: Sequence[int] = ()

    def __call__(self, lines: Sequence[str], numbers: Sequence[int]) -> list[str]:
        self.lines, self.numbers = lines, numbers
        return [" ".join(WORDS.get(word, word) for word in line.split()) for line in lines]


def chrf(hyps: Sequence[str], refs: Sequence[str]) -> float:
    return sacrebleu.corpus_chrf(hyps, [refs]).score


def test_distinct_lines_are_translated_once() -> None:
    translating = Translating()
    variants = make_variants(TEXT, Plan(["umlauts", "upper_case", "accents"], [100], 1))
    measured = measure(TEXT, variants, translating)
    assert [variant.name for variant in variants] == ["original", "umlauts-100", "upper_case-100", "accents-100"]
    assert dict(zip(translating.lines, translating.numbers, strict=True)) == {
        "Der Hund läuft.": 1, "Die Katze schläft.": 2, "Zwei Hunde bellen laut.": 4, "Ja": 5,
        "Der Hund laeuft.": 1, "Die Katze schlaeft.": 2,
        "DER HUND LÄUFT.": 1, "DIE KATZE SCHLÄFT.": 2, "ZWEI HUNDE BELLEN LAUT.": 4, "JA": 5,
        "Der Hund lauft.": 1, "Die Katze schlaft.": 2,
    }  # fmt: skip
    assert [row.n_changed for row in measured.rows] == [0, 3, 5, 3]
    assert measured.translations[1][2:] == ["The dog laeuft.", "Two dogs bark loudly.", "Yes"]


def test_scores_equal_sacrebleu() -> None:
    variants = make_variants(TEXT, Plan(["umlauts", "upper_case"], [40, 100], 2))
    measured = measure(TEXT, variants, Translating())
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
    assert measured.rows[-1].signs == Signs(empty=0, copied=5, repeated=0, length=0)


def test_kept_interval_is_over_lines() -> None:
    measured = measure(TEXT, make_variants(TEXT, Plan(["umlauts"], [100], 1)), Translating())
    original, changed = measured.rows
    assert original.chrf_kept_interval == pytest.approx((100, 100))
    assert changed.chrf_kept is not None and changed.chrf_kept_interval is not None
    low, high = changed.chrf_kept_interval
    assert low < changed.chrf_kept < high
    rows = np.random.default_rng(12345).integers(0, 5, (SAMPLES, 5))  # the seed of all tests over lines
    kept = []
    for drawn in rows:
        refs = [REFERENCES[row] for row in drawn]
        before, after = (chrf([lines[row] for row in drawn], refs) for lines in measured.translations)
        kept.append(100 * after / before)
    assert (low, high) == pytest.approx(tuple(np.quantile(kept, [0.025, 0.975])))


def test_empty_translations() -> None:
    measured = measure(TEXT, make_variants(TEXT, Plan(["umlauts"], [100], 1)), lambda lines, _: [""] * len(lines))
    assert [(row.chrf_kept, row.chrf_kept_interval) for row in measured.rows] == [(None, None)] * 2
    assert [row.consistency for row in measured.rows] == [0, 0]
    assert {row.signs for row in measured.rows} == {Signs(5, 0, 0, 0)}
    report = Report(Subject(), 5, 5, Plan(["umlauts"], [100], 1), measured)
    assert "umlauts  100 %" in render_text(report) and json.loads(render_json(report))["rows"][1]["chrf_kept"] is None


def test_change_without_effect_is_skipped_and_noted() -> None:
    plan = Plan(["accents", "upper_case", "typos"], [5], 1)
    text = Text("test", ["Go 3 x"], ["Los 3 x"], ("en", "de"), [1])
    variants = make_variants(text, plan)
    assert [variant.change for variant in variants] == [None, "upper_case"]  # of no effect at 5 %, but it has places
    report = Report(Subject(), 1, 1, plan, measure(text, variants, Translating()))
    assert report.notes == ("left out, because no line has a place for it: accents, typos",)
    with pytest.raises(DataError, match=r"^test: typos, accents would change nothing in 1 lines$"):
        make_variants(text, Plan(["typos", "accents"], [5], 1))


def test_sample_is_spread_evenly() -> None:
    sampled = TEXT.sampled(2)
    assert (sampled.sources, sampled.references) == ([SOURCES[0], SOURCES[2]], [REFERENCES[0], REFERENCES[2]])
    assert list(sampled.numbers) == [1, 3]
    assert list(TEXT.sampled(9).numbers) == [1, 2, 3, 4, 5]


def test_table_and_json() -> None:
    plan = Plan(["typos", "punctuation_removed"], [1, 12.5], 3)
    subject = Subject(run="runs/a-name-that-is-long", split="test", step=4000, weights="average", search="beam 5")
    report = Report(subject, 5, 500, plan, measure(TEXT, make_variants(TEXT, plan), Translating()))
    lines = render_text(report).splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert lines[0].split() == [
        "change", "rate", "lines", "chrF", "kept", "%", "95", "%", "BLEU", "same", "empty", "copied", "repeated",
        "length",
    ]  # fmt: skip
    assert lines[1].split()[0] == "none"
    assert [line.split(" %")[0].split() for line in lines[2:6]] == [
        ["typos", "1"], ["typos", "12.5"], ["punctuation_removed", "1"], ["punctuation_removed", "12.5"],
    ]  # fmt: skip
    assert "note: 5 of 500 lines, spread evenly: not comparable with all" in lines
    told = json.loads(render_json(report))
    assert (told["lines"], told["split"], told["step"], told["seed"]) == (5, "test", 4000, 3)
    assert told["rows"][0] == {
        "change": None, "rate": 0.0, "n_changed": 0, "chrf": told["rows"][0]["chrf"], "chrf_kept": 100.0,
        "chrf_kept_interval": [pytest.approx(100)] * 2, "bleu": told["rows"][0]["bleu"],
        "consistency": pytest.approx(100), "empty": 0, "copied": 0, "repeated": 0, "length": 0,
    }  # fmt: skip
