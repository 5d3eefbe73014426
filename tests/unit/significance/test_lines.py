"""Scores of any selection of lines are those of sacrebleu on that selection, though only sums are known."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.evaluate.line_statistics import corpus_scores, count_lines, of_line_scores
from nmt.evaluate.metrics import METRICS, MetricName, Reference, corpus_score, make_scorer


@dataclass(frozen=True)
class Text:
    """A test set, and how to score it."""

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
    "nothing alike": Text(HYPS[1:3], [*REFS[1:3]]),
    "all empty": Text(["", ""], ["", ""]),
}


def selections(n: int) -> list[list[int]]:
    rng = random.Random(n)
    return [list(range(n)), *([i] for i in range(n)), *(rng.choices(range(n), k=n) for _ in range(8))]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", TEXTS)
def test_scores_of_selections_equal_sacrebleu(name: str, metric: MetricName):
    text = TEXTS[name]
    rules = (text.tgt_lang, text.lowercase, text.tokenize)
    (counted,) = count_lines(metric, [text.hyps], text.refs, *rules)
    rows = selections(len(text.hyps))
    sums = np.stack([counted.counts[selected].sum(0) for selected in rows])
    expected = []
    for selected in rows:
        part = text.selection(selected)
        expected.append(corpus_score(metric, part.hyps, part.refs, *rules).value)
    assert counted.scores(sums) == pytest.approx(expected, abs=1e-9)
    assert counted.line_scores() == pytest.approx(expected[1 : 1 + len(text.hyps)], abs=1e-9)
    whole = corpus_score(metric, text.hyps, text.refs, *rules)
    assert counted.score() == pytest.approx(whole.value, abs=1e-9)
    assert counted.metric.signature == whole.signature
    assert counted.metric.higher_is_better == whole.higher_is_better


@settings(max_examples=30)
@given(st.data())
def test_scores_agree_on_any_text(data: st.DataObject):
    line = st.lists(st.sampled_from(["a", "b", "ab", "c.", "D"]), max_size=7).map(" ".join)
    hyps, refs = zip(*data.draw(st.lists(st.tuples(line, line), min_size=1, max_size=6)), strict=True)
    for metric in METRICS:
        (counted,) = count_lines(metric, [hyps], refs)
        assert counted.score() == pytest.approx(corpus_score(metric, hyps, refs).value, abs=1e-9)


def test_counts_by_hand():
    hyps, refs = ["a b c d", "x"], ["a b c e f", "x y"]
    (bleu,) = count_lines("bleu", [hyps], refs)
    assert bleu.counts.tolist() == [[4, 5, 3, 2, 1, 0, 4, 3, 2, 1], [1, 2, 1, 0, 0, 0, 1, 0, 0, 0]]
    (chrf,) = count_lines("chrf", [["abc"]], ["abd"])
    assert chrf.counts.tolist() == [[3, 3, 2, 2, 2, 1, 1, 1, 0, *[0] * 9]]
    (ter,) = count_lines("ter", [hyps], list(zip(refs, ["a b c", "y"], strict=True)))
    assert ter.counts.tolist() == [[1, 4], [1, 1.5]]  # the fewest edits, the mean length


def test_count_lines_of_several_systems():
    systems = [HYPS, [*reversed(HYPS)], REFS]
    for metric in METRICS:
        scores = [counted.score() for counted in count_lines(metric, systems, REFS)]
        assert scores == pytest.approx([corpus_score(metric, hyps, REFS).value for hyps in systems])


def test_corpus_score_of_line_scores_is_their_mean():
    counted = of_line_scores("comet", [0.25, 0.5, 1.5], "comet|model")
    assert counted.score() == pytest.approx(0.75)
    assert counted.line_scores().tolist() == [0.25, 0.5, 1.5]
    assert counted.scores(np.array([[2.0, 4.0]])).tolist() == [0.5]
    assert (counted.metric.name, counted.metric.signature, counted.metric.higher_is_better) == (
        "comet", "comet|model", True,
    )  # fmt: skip


def test_zero_totals_score_zero_without_warning():
    shapes = {"bleu": 10, "chrf": 18, "ter": 2}
    for formula in METRICS:
        assert corpus_scores(formula, np.zeros((3, shapes[formula]))).tolist() == [0, 0, 0]
    assert corpus_scores("ter", np.array([[2.0, 0.0]])).tolist() == [100]


@pytest.mark.parametrize("metric", METRICS)
def test_private_methods_of_sacrebleu(metric: MetricName) -> None:
    """`count_lines` calls both, so that pyproject.toml has an upper bound for sacrebleu."""
    scorer = make_scorer(metric, ["a b"])
    assert isinstance(scorer._preprocess_segment("a  b"), str)
    assert np.array(scorer._extract_corpus_statistics(["a b"], None)).ndim == 2


def test_unequal_line_counts_raise():
    with pytest.raises(DataError, match="2 hypotheses, 1 references"):
        count_lines("bleu", [["a"], ["a", "b"]], ["a"])
    with pytest.raises(DataError, match="nothing to score"):
        count_lines("bleu", [[]], [])
    with pytest.raises(DataError, match="tokenize"):
        count_lines("bleu", [["a"]], ["a"], tokenize="spaces")
