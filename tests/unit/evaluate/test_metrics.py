"""What sacrebleu lets pass in silence must not pass."""

from __future__ import annotations

import pytest
import sacrebleu

from nmt.errors import DataError
from nmt.evaluate.metrics import METRICS, corpus_score

HYPS = ["The cat sits on the mat .", "He doesn't know it.", "", "Two dogs run in the Park"]
REFS = ["The cat sat on the mat.", "He does not know it.", "An empty line", "Two dogs run in the park"]


def test_scores_are_cased_by_default() -> None:
    for metric in METRICS:
        perfect = 0.0 if metric == "ter" else 100.0
        hyps, refs = [line.lower() for line in REFS], REFS
        assert corpus_score(metric, hyps, refs).value != perfect
        assert "case:mixed" in corpus_score(metric, hyps, refs).signature
        lowercased = corpus_score(metric, hyps, refs, lowercase=True)
        assert lowercased.value == pytest.approx(perfect)
        assert "case:lc" in lowercased.signature


def test_higher_is_better_by_metric() -> None:
    assert {metric: corpus_score(metric, HYPS, REFS).higher_is_better for metric in METRICS} == {
        "bleu": True,
        "chrf": True,
        "ter": False,
    }


@pytest.mark.parametrize(
    ("tgt_lang", "tok"),
    [("de", "13a"), (None, "13a"), ("zh", "zh"), ("zh_TW", "zh"), ("ja", "char"), ("ko", "char"), ("th", "char")],
)
def test_tokenizer_by_target_language(tgt_lang: str | None, tok: str) -> None:
    assert f"|tok:{tok}|" in corpus_score("bleu", HYPS, REFS, tgt_lang=tgt_lang).signature
    assert "|tok:intl|" in corpus_score("bleu", HYPS, REFS, tgt_lang=tgt_lang, tokenize="intl").signature


def test_ter_of_language_without_spaces() -> None:
    hyps, refs = ["猫在垫子上睡觉"], ["猫在垫子上坐着"]
    assert corpus_score("ter", hyps, refs).value == 100.0  # one word, and it is wrong
    assert corpus_score("ter", hyps, refs, tgt_lang="zh").value == pytest.approx(200 / 7)
    assert corpus_score("bleu", hyps, refs, tgt_lang="zh").value > 50


@pytest.mark.parametrize("metric", METRICS)
def test_unequal_line_counts_raise(metric: str) -> None:
    # sacrebleu itself cuts the longer one, or stops with another message
    with pytest.raises(DataError, match=r"^3 hypotheses, 4 references: they must pair line by line$"):
        corpus_score(metric, HYPS[:3], REFS)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"^no hypotheses and no references: there is nothing to score$"):
        corpus_score(metric, [], [])  # type: ignore[arg-type]


def test_unknown_tokenizer_raises() -> None:
    with pytest.raises(DataError, match=r"^tokenize: 'moses' is none of 13a, intl, zh, char, none$"):
        corpus_score("bleu", HYPS, REFS, tokenize="moses")


def test_scores_are_of_detokenised_text() -> None:
    assert corpus_score("bleu", REFS, REFS).value == pytest.approx(100.0)
    assert corpus_score("bleu", REFS, REFS).signature.endswith(f"|version:{sacrebleu.__version__}")
