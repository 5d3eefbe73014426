"""The filter of misaligned pairs, in made-up languages."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nmt.prepare.cleaning.misaligned import MIN_PAIRS, is_misaligned, learn_filter
from sentences import translated

PAIRS, BAD = 3000, 120


@pytest.fixture(scope="module")
def corpus() -> list[tuple[str, str]]:
    """Return a corpus whose last pairs are shifted by one."""
    pairs = translated(PAIRS)
    good, shifted = pairs[:-BAD], pairs[-BAD:]
    return good + [(src, tgt) for (src, _), (_, tgt) in zip(shifted, [*shifted[1:], shifted[0]], strict=True)]


@pytest.fixture(scope="module")
def learned(corpus: list[tuple[str, str]]) -> bytes:
    return learn_filter(corpus, 0.03)


def test_shifted_pairs_are_dropped_and_others_kept(corpus: list[tuple[str, str]], learned: bytes) -> None:
    dropped = is_misaligned(corpus, learned)
    assert dropped[-BAD:].mean() > 0.85
    assert dropped[:-BAD].mean() < 0.04
    fresh = translated(PAIRS + 300)[PAIRS:]
    crossed = [(src, tgt) for (src, _), (_, tgt) in zip(fresh, reversed(fresh), strict=True)]
    assert is_misaligned(fresh, learned).mean() < 0.05
    assert is_misaligned(crossed, learned).mean() > 0.9


def test_judging_parts_matches_judging_whole_corpus(corpus: list[tuple[str, str]], learned: bytes) -> None:
    assert learn_filter(list(corpus), 0.03) == learned
    whole = is_misaligned(corpus, learned)
    parts = [is_misaligned(corpus[i : i + 1700], learned) for i in range(0, PAIRS, 1700)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert len(is_misaligned([], learned)) == 0


def test_pairs_that_cannot_be_judged_are_kept(learned: bytes, corpus: list[tuple[str, str]]) -> None:
    short, unknown = (corpus[0][0].split()[0], corpus[1][1].split()[0]), ("Quux Corge 1987", "Grault Garply 12 Fred")
    odd = [short, unknown, ("", ""), ("?!", "…"), ("你好世界", "สวัสดี"), ("\udcff", "x")]
    assert not is_misaligned(odd, learned).any()


def test_corpus_too_small_to_learn_from_loses_no_pairs(corpus: list[tuple[str, str]]) -> None:
    assert learn_filter(corpus[: MIN_PAIRS - 1], 0.03) == b"" and not is_misaligned(corpus, b"").any()


def test_unrelated_corpus_keeps_most_pairs(corpus: list[tuple[str, str]]) -> None:
    targets = [tgt for _, tgt in corpus]
    random.Random(1).shuffle(targets)
    pairs = [(src, tgt) for (src, _), tgt in zip(corpus[:MIN_PAIRS], targets[:MIN_PAIRS], strict=True)]
    assert is_misaligned(pairs, learn_filter(pairs, 0.03)).mean() < 0.1
