"""Tests of minimum Bayes risk decoding against sacrebleu scores of all pairs of candidates."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from nmt.translate.mbr import least_risk, pairwise


def brute_force(candidates: Sequence[str]) -> list[list[float]]:
    """Return the sacrebleu score of each candidate against each candidate."""
    return [[CHRF().sentence_score(hyp, [ref]).score for ref in candidates] for hyp in candidates]


def variants(n: int, seed: int, length: int = 20) -> list[str]:
    """Return `n` sentences of about `length` words that have most words in common, like samples from a model."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(1, 9))) for _ in range(2 * length)]
    common = rng.choices(words, k=length)
    return [" ".join(rng.choice(words) if rng.random() < 0.2 else word for word in common) + "." for _ in range(n)]


# few letters, for many equal n-grams; all kinds of spaces, punctuation that 13a splits, entities, and no letters
TEXTS = st.text(alphabet="aab .,'-&;\n 猫\u0301", max_size=12) | st.sampled_from(
    ["", " ", "a", "a a", "a b a b a b a", "It's 3.5 &quot;a&quot;, a-b.", "the the the the", "猫が好きです。"]
)


@given(candidates=st.lists(TEXTS, min_size=1, max_size=7))
def test_pair_scores_equal_sacrebleu(candidates: list[str]) -> None:
    for found, by_sacrebleu in zip(pairwise(candidates).tolist(), brute_force(candidates), strict=True):
        assert found == pytest.approx(by_sacrebleu, abs=1e-6)


@given(candidates=st.lists(TEXTS | st.sampled_from(variants(8, seed=2, length=5)), min_size=1, max_size=9))
def test_mbr_equals_brute_force(candidates: list[str]) -> None:
    utility = [sum(row) for row in brute_force(candidates)]
    assert least_risk(candidates) == next(i for i, u in enumerate(utility) if u > max(utility) - 1e-7)


@pytest.mark.parametrize(
    ("candidates", "first"),
    [
        (["ab cd", "ab cd"], 0),
        (["ab cd ef gh", "ij kl mn op"], 0),
        (["", "ij kl", "ab cd", "ij kl", "ab cd"], 1),
    ],
)
def test_mbr_chooses_first_candidate_on_ties(candidates: list[str], first: int) -> None:
    assert least_risk(candidates) == first
