"""Tests of reranking: tuned weights, candidates from files, features, and the choice of candidates."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.evaluate.metrics import MetricName, corpus_score
from nmt.recipes import rerank as module
from nmt.recipes.rerank import (
    Candidate,
    CandidatePairs,
    CandidateTable,
    Feature,
    NBest,
    direct,
    length,
    make_table,
    read_n_best,
    rescored,
    tune,
)
from nmt.search.settings import SearchConfig
from nmt.text.tokenizer import Tokenizer
from nmt.translate.loading import Translator
from tiny_run import PLAIN

WORDS = ["the", "a", "cat", "dog", "house", "tree", "sits", "runs", "on", "under", "big", "old", "red"]


def feature(name: str, seed: int, scale: float = 1.0, is_signed: bool = False) -> Feature:
    """Return a feature with random values, which are equal for equal pairs."""

    def values(pairs: CandidatePairs) -> list[float]:
        return [scale * random.Random(f"{seed} {line} {candidate.text}").gauss(0, 1) for line, candidate in pairs]

    return Feature(name, values, is_signed=is_signed)


def made_lists(n: int, seed: int = 1) -> list[NBest]:
    """Return lines with one to eight candidates of random words."""
    rng = random.Random(seed)
    texts = (" ".join(rng.choices(WORDS, k=rng.randint(3, 9))) for _ in count())
    return [
        NBest(f"line {number}", [Candidate(next(texts), -rng.random()) for _ in range(1 + number % 8)])
        for number in range(n)
    ]


FEATURES = [direct(), feature("channel", 1, 20.0), feature("length", 2, 0.1, is_signed=True)]


def wanted(table: CandidateTable, weights: Sequence[float]) -> list[str]:
    """Return the texts that are chosen with these weights."""
    return [texts[number] for texts, number in zip(table.texts, table.choose_candidates(weights), strict=True)]


def test_known_feature_weights_are_recovered() -> None:
    table = make_table(made_lists(200), FEATURES)
    known = (1.0, 0.02, -3.0)
    tuned = tune(table, FEATURES, wanted(table, known), "bleu", None)
    assert tuned.weights == pytest.approx(known, rel=0.1)
    assert tuned.direct < 60 < 98 < tuned.reranked <= tuned.oracle == pytest.approx(100)
    assert tuned == tune(table, FEATURES, wanted(table, known), "bleu", None), "the same again"


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(["bleu", "chrf"]))
def test_tuned_score_is_at_least_search_score(seed: int, metric: MetricName) -> None:
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


# --- Candidates as `nmt translate --n-best` writes them ---


SOURCE = Path("a.src")


def test_candidates_are_grouped_by_line(tmp_path: Path) -> None:
    path = tmp_path / "n-best"
    rows = ["1\t-0.5\t-1\tone\ttab", "1\t-0.6\t-1\tother", "1\t-0.7\t-2\tone\ttab", "2\t-1\t-1\tblank", "3\t-1\t-1\tz"]
    path.write_text("".join(f"{row}\n" for row in rows))
    assert [*read_n_best(path, ["x", " ", "y"], SOURCE)] == [
        NBest("x", (Candidate("one\ttab", -0.5), Candidate("other", -0.6))),
        NBest(" ", (Candidate("", 0.0),)),
        NBest("y", (Candidate("z", -1.0),)),
    ]
    path.write_text("")
    assert [*read_n_best(path, [], SOURCE)] == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["1\t-1\t-1\ta", "3\t-1\t-1\tb"], ": no candidates for line 2 of a.src, found line 3 instead"),
        (["2\t-1\t-1\ta"], ": no candidates for line 1 of a.src, found line 2 instead"),
        (["1\t-1\t-1\ta"], ": no candidates for line 2 of a.src, found the end of the file instead"),
        ([f"{n}\t-1\t-1\ta" for n in (1, 2, 3, 4)], ": has candidates for line 4, but a.src has 3 lines"),
        ([f"{n}\t-1\t-1\ta" for n in (1, 2, 3, 2)], ": has candidates for line 2, but a.src has 3 lines"),
        (["a"], ": line 1 is 'a', expected line number, score, log-probability and translation"),
        (["1\t-1\t-1\ta", "1\tx\t-1\ta"], ": line 2 is '1\\tx\\t-1\\ta', expected line number, "),
        (["1\t-1\t-1\t41.3\ta"], ": line 1 has a column of confidence"),
        (["1\tnan\t-1\ta"], ": line 1 has the score nan; it must be a finite number"),
    ],
)
def test_mismatched_candidates_are_rejected(tmp_path: Path, rows: list[str], message: str) -> None:
    path = tmp_path / "n-best"
    path.write_text("".join(f"{row}\n" for row in rows))
    with pytest.raises(DataError) as caught:
        [*read_n_best(path, ["x", "y", "z"], SOURCE)]
    assert str(caught.value).startswith(f"{path}{message}")


# --- Features by tiny models, which equal the scores of `nmt score` ---


PAIRS = [(PLAIN[0], Candidate(PLAIN[1], -0.5)), (PLAIN[0], Candidate(PLAIN[3], -0.75)), ("", Candidate("", 0.0))]
MEANS, SUMS = SearchConfig(), SearchConfig(length_penalty=0.0)


@pytest.mark.parametrize("search", [MEANS, SUMS])
def test_translations_are_scored_in_both_directions(translator: Translator, search: SearchConfig) -> None:
    *there, blank = rescored("other", translator, search).values(PAIRS)
    assert there == [one.score for one in translator.score([(PLAIN[0], PLAIN[1]), (PLAIN[0], PLAIN[3])], search)]
    *back, blank_too = rescored("channel", translator, search, is_reverse=True).values(PAIRS)
    assert back == [one.score for one in translator.score([(PLAIN[1], PLAIN[0]), (PLAIN[3], PLAIN[0])], search)]
    assert there != back and math.isnan(blank) and math.isnan(blank_too)


def test_length_feature_counts_pieces(translator: Translator, tokenizer: Tokenizer) -> None:
    source, *targets = (len(tokenizer.encode(PLAIN[number])) + 1 for number in (0, 1, 3))
    assert length(translator, SUMS).values(PAIRS) == [*targets, 1]
    assert length(translator, MEANS).values(PAIRS) == [*(target / source for target in targets), 1]


# --- The choice by weights, computed by hand ---


CHANNEL = {"house": -3.0, "home": -1.0, "cat": -2.0, "": float("nan")}
LISTS = [
    NBest("Haus", (Candidate("house", -1.0), Candidate("home", -1.5))),
    NBest("", (Candidate("", 0.0),)),
    NBest("Katze", (Candidate("cat", -4.0), Candidate("", -4.5), Candidate("home", -5.0))),
]


def channel_of_scores(pairs: CandidatePairs) -> list[float]:
    return [CHANNEL[candidate.text] for _, candidate in pairs]


SCORED_FEATURES = [direct(), Feature("channel_of_scores", channel_of_scores)]


@pytest.mark.parametrize(
    ("weights", "chosen"),
    [
        ((1.0, 0.0), [0, 0, 0]),
        ((1.0, 0.25), [0, 0, 0]),  # -1.75 and -1.75: the first
        ((1.0, 0.26), [1, 0, 0]),
        ((1.0, 1.0), [1, 0, 0]),  # -6.0, -6.5 (as bad as the worst), -6.0
        ((1.0, 1.01), [1, 0, 2]),
        ((0.0, -1.0), [0, 0, 0]),  # 2.0, 2.0, 1.0
        ((-1.0, 0.0), [1, 0, 2]),
    ],
)
def test_candidate_with_highest_weighted_sum_is_chosen(weights: tuple[float, ...], chosen: list[int]) -> None:
    table = make_table(LISTS, SCORED_FEATURES)
    assert table.values.shape == (2, 3, 3)
    assert table.texts[0] == ["house", "home", "home"]
    assert table.choose_candidates(weights).tolist() == chosen
