"""Scores of line selections, compared with sacrebleu."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.ter import TER

from nmt.errors import DataError
from nmt.evaluate.metrics import (
    METRIC_FACTS,
    METRICS,
    MetricName,
    Reference,
    as_tuple,
    class_scores,
    corpus_score,
    count_lines,
)


@dataclass(frozen=True)
class Text:
    """A test set and the options of its scores."""

    hyps: list[str]
    refs: list[Reference]
    tgt_lang: str | None = None
    lowercase: bool = False
    tokenize: str | None = None

    def selection(self, rows: list[int]) -> Text:
        hyps, refs = [self.hyps[i] for i in rows], [self.refs[i] for i in rows]
        return Text(hyps, refs, self.tgt_lang, self.lowercase, self.tokenize)


HYPS = [
    "The cat sat on the mat, and the dog slept.",
    "",
    "zzz qqq xxx vvv www",  # no n-gram in common
    "a house",  # shorter than an n-gram of BLEU
    "He said that He would come",
    "the the the the the the the",
    "It rains  today .",
    "ein Haus am See und sonst nichts als Wiese",
    "!",
]
REFS = [
    "The cat sat on a mat, and the dog slept.",
    "Something was said here.",
    "There is nothing alike in it.",
    "a House",
    "he said that he would come tomorrow",
    "the cat",
    "",
    "ein Haus am See und nichts als Wiesen",
    "?",
]
SECOND = [*REFS[3:], *REFS[:3]]
CHINESE = ["你好，世界。", "今天 天气 很好", "", "我 爱 NMT", "完全不同的句子"]
CHINESE_REFS = ["你好世界。", "今天天气很好", "什么", "我爱 nmt", "一二三四五六"]
TEXTS = {
    "one reference": Text(HYPS, [*REFS]),
    "two references": Text(HYPS, list(zip(REFS, SECOND, strict=True))),
    "three references": Text(HYPS, list(zip(REFS, SECOND, reversed(REFS), strict=True))),
    "lowercase": Text(HYPS, [*REFS], lowercase=True),
    "intl": Text(HYPS, [*REFS], tokenize="intl"),
    "zh": Text(CHINESE, [*CHINESE_REFS], tgt_lang="zh"),
    "char": Text(CHINESE, [*CHINESE_REFS], tgt_lang="ja", lowercase=True),
    "by characters": Text(["ไปที่สวน", "ฝน ตก", ""], ["เราไปสวน", "ฝนตก", "ไป"], tgt_lang="tha_Thai"),
    "nothing alike": Text(HYPS[1:3], [*REFS[1:3]]),
    "all empty": Text(["", ""], ["", ""]),
}


def selections(n: int) -> list[list[int]]:
    rng = random.Random(n)
    return [list(range(n)), *([i] for i in range(n)), *(rng.choices(range(n), k=n) for _ in range(8))]


@pytest.mark.parametrize("metric", METRIC_FACTS)
@pytest.mark.parametrize("name", TEXTS)
def test_scores_of_line_selections_equal_sacrebleu(name: str, metric: MetricName):
    text = TEXTS[name]
    rules = (text.tgt_lang, text.lowercase, text.tokenize)
    (counted,) = count_lines(metric, [text.hyps], text.refs, *rules)
    rows = selections(len(text.hyps))
    sums = np.stack([counted.counts[selected].sum(0) for selected in rows])
    whole, *others = (corpus_score(metric, part.hyps, part.refs, *rules) for part in map(text.selection, rows))
    expected = [whole.value, *(score.value for score in others)]
    assert counted.scores(sums) == pytest.approx(expected, abs=1e-9)
    assert counted.line_scores() == pytest.approx(expected[1 : 1 + len(text.hyps)], abs=1e-9)
    assert counted.score() == pytest.approx(whole.value, abs=1e-9)
    assert (counted.metric.signature, counted.metric.higher_is_better) == (whole.signature, whole.higher_is_better)


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "by characters"])
def test_ter_equals_sacrebleu(name: str) -> None:
    text, is_han = TEXTS[name], name in ("zh", "char")
    scorer = TER(case_sensitive=not text.lowercase, normalized=is_han, asian_support=is_han)
    expected = scorer.corpus_score(text.hyps, list(zip(*map(as_tuple, text.refs), strict=True))).score
    found = corpus_score("ter", text.hyps, text.refs, text.tgt_lang, text.lowercase)
    assert found.value == pytest.approx(expected, abs=1e-9)
    assert found.signature.endswith(str(scorer.get_signature()).partition("|")[2])  # after the number of references


@settings(max_examples=30)
@given(st.data())
def test_scores_equal_sacrebleu_on_any_text(data: st.DataObject):
    line = st.lists(st.sampled_from(["a", "b", "ab", "c.", "D"]), max_size=7).map(" ".join)
    hyps, refs = zip(*data.draw(st.lists(st.tuples(line, line), min_size=1, max_size=6)), strict=True)
    for metric in METRICS:
        (counted,) = count_lines(metric, [hyps], refs)
        assert counted.score() == pytest.approx(corpus_score(metric, hyps, refs).value, abs=1e-9)


def test_unequal_line_counts_raise():
    for hyps, refs, tokenize, problem in (
        ([["a"], ["a", "b"]], ["a"], None, "2 hypotheses, but 1 references"),
        ([[]], [], None, "nothing to score"),
        ([["a"]], ["a"], "spaces", "tokenize"),
    ):
        with pytest.raises(DataError, match=problem):
            count_lines("bleu", hyps, refs, tokenize=tokenize)


# --- Scores of classes, against values computed by hand ---


LABELS = np.array([0, 0, 0, 1, 1, 2])


PROBABILITIES = np.array([
    [0.9, 0.1, 0.0, 0.0],
    [0.6, 0.4, 0.0, 0.0],
    [0.2, 0.7, 0.1, 0.0],  # wrong
    [0.1, 0.9, 0.0, 0.0],
    [0.0, 1.0, 0.0, 0.0],
    [0.5, 0.3, 0.2, 0.0],  # wrong
])  # fmt: skip


def test_class_scores_equal_values_computed_by_hand() -> None:
    scores = class_scores(PROBABILITIES, LABELS)
    assert scores.accuracy == pytest.approx(4 / 6)
    assert scores.confusion.tolist() == [[2, 1, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    # F1 = 2 right / (of the class + predicted): 2·2/(3+3), 2·2/(2+3), 0; the fourth class has no part
    assert scores.macro_f1 == pytest.approx((4 / 6 + 4 / 5 + 0) / 3)
    # bins of 1/15: two texts of 0.9 in one, all others on their own; 1.0 is right with certainty
    assert scores.calibration_error == pytest.approx(sum((2 - 1.8, 1 - 0.6, 0.7 - 0, 1 - 1.0, 0.5 - 0)) / 6)
