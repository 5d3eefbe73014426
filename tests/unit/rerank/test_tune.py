"""Tuning finds weights that are known, and its scores are those of sacrebleu on the chosen texts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.evaluate.metrics import MetricName, corpus_score
from nmt.recipes import rerank as module
from nmt.recipes.rerank import Candidate, Counts, Feature, NBest, Pairs, Table, direct, find_weights, make_table, tune

WORDS = ["the", "a", "cat", "dog", "house", "tree", "sits", "runs", "on", "under", "big", "old", "red"]


def feature(name: str, seed: int, scale: float = 1.0, is_signed: bool = False) -> Feature:
    """Random numbers, the same for the same pair."""

    def values(pairs: Pairs) -> list[float]:
        return [scale * random.Random(f"{seed} {line} {candidate.text}").gauss(0, 1) for line, candidate in pairs]

    return Feature(name, values, is_signed=is_signed)


def made_lists(n: int, seed: int = 1) -> list[NBest]:
    """Lines with one to eight candidates of random words."""
    rng = random.Random(seed)
    texts = (" ".join(rng.choices(WORDS, k=rng.randint(3, 9))) for _ in count())
    return [
        NBest(f"line {number}", [Candidate(next(texts), -rng.random()) for _ in range(1 + number % 8)])
        for number in range(n)
    ]


FEATURES = [direct(), feature("channel", 1, 20.0), feature("length", 2, 0.1, is_signed=True)]


def wanted(table: Table, weights: Sequence[float]) -> list[str]:
    """The texts that these weights choose."""
    return [texts[number] for texts, number in zip(table.texts, table.choose(weights), strict=True)]


def test_weights_that_are_known_are_found() -> None:
    table = make_table(made_lists(200), FEATURES)
    known = (1.0, 0.02, -3.0)
    tuned = tune(table, FEATURES, wanted(table, known), "bleu", None)
    assert tuned.weights == pytest.approx(known, rel=0.1)
    assert tuned.direct < 60 < 98 < tuned.reranked <= tuned.oracle == pytest.approx(100)
    assert tuned == tune(table, FEATURES, wanted(table, known), "bleu", None), "the same again"


def test_a_feature_that_does_not_help_has_no_weight() -> None:
    constant = Feature("constant", lambda pairs: [7.0] * len(pairs))
    features = [direct(), constant, feature("opposite", 3)]
    table = make_table(made_lists(100), features)
    right = table.choose((1.0, 0.0, -0.5))
    weights, scores = find_weights(table, features, lambda chosen: float((chosen == right).mean()))
    assert weights == (1.0, 0.0, 0.0), "only signed features may count against a candidate"
    assert scores[weights] < 1


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(["bleu", "chrf"]))
def test_never_below_the_ranking_by_search_and_as_sacrebleu_says(seed: int, metric: MetricName) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "N_RANDOM", 20)
        rng = random.Random(seed)
        lists = made_lists(12, seed)
        refs = [" ".join(rng.choices(WORDS, k=6)) for _ in lists]
        table = make_table(lists, FEATURES)
        tuned = tune(table, FEATURES, refs, metric, None)
    first = [candidates[np.argmax([each.score for each in candidates])].text for _, candidates in lists]
    assert tuned.direct == pytest.approx(corpus_score(metric, first, refs).value)
    assert tuned.reranked == pytest.approx(corpus_score(metric, wanted(table, tuned.weights), refs).value)
    assert tuned.reranked >= tuned.direct
    best = [
        max([each.text for each in candidates], key=lambda text: corpus_score("chrf", [text], [ref]).value)
        for (_, candidates), ref in zip(lists, refs, strict=True)
    ]
    assert tuned.oracle == pytest.approx(corpus_score(metric, best, refs).value)
    assert tuned.metric.signature == corpus_score(metric, first, refs).signature


def test_any_choice_has_the_score_of_its_text() -> None:
    lists = made_lists(40)
    table = make_table(lists, FEATURES)
    refs = [candidates[-1].text + " and more" for _, candidates in lists]
    chosen = np.array([number % len(candidates) for number, (_, candidates) in enumerate(lists)])
    texts = [candidates[number].text for number, (_, candidates) in zip(chosen, lists, strict=True)]
    for metric in ("bleu", "chrf"):
        counts = Counts.of(metric, table, refs, None)
        assert counts.score(chosen) == pytest.approx(corpus_score(metric, texts, refs).value)
    with pytest.raises(DataError, match="40 hypotheses, 39 references"):
        tune(table, FEATURES, refs[1:], "bleu", None)


def test_the_simplest_of_equally_good_weights_is_kept() -> None:
    table = make_table(made_lists(30), FEATURES)
    weights, scores = find_weights(table, FEATURES, lambda _: 50.0)
    assert weights == (1.0, 0.0, 0.0) and len(scores) > 900
    assert (1.0, 1.0, 1.0) in scores, "the default weights"
    assert all(channel >= 0 for _, channel, _ in scores)
    assert min(length for _, _, length in scores) < 0
