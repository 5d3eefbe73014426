"""Tests of the search of similar texts, compared with the distances to all texts."""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Sequence
from fractions import Fraction

import pytest

from nmt.errors import ConfigError
from nmt.text import similarity
from nmt.text.similarity import SimilarTexts


def distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the edit distance by dynamic programming."""
    row = list(range(len(second) + 1))
    for i, word in enumerate(first, start=1):
        above, row = row, [i]
        for j, other in enumerate(second, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (word != other)))
    return row[-1]


@functools.cache
def similarity_of(text: str, other: str) -> Fraction:
    first, second = text.split(), other.split()
    return 1 - Fraction(distance(first, second), max(len(first), len(second), 1))


@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.85])
def test_found_text_is_as_similar_as_any(threshold: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "MOST_COMPARED", 1000)
    rng = random.Random(4)
    texts = [" ".join(rng.choices("abcdefghijkl", k=rng.randint(1, 8))) for _ in range(300)]
    index = SimilarTexts(texts, threshold)
    n_found = 0
    for text in [*texts[:100], *(f"{text} new x {text}" for text in texts[:20]), "new words", "", "."]:
        for or_equal in (True, False):
            best = max(similarity_of(text, other) for other in texts if or_equal or other != text)
            row = index.find(text, or_equal)
            assert (row is not None) == (best >= Fraction(str(threshold)))
            if row is not None:
                assert similarity_of(text, texts[row]) == best and (or_equal or texts[row] != text)
                n_found += 1
    assert n_found >= 100


LONG = [f"w{i}" for i in range(100)]


@pytest.mark.parametrize(
    ("texts", "text", "row"),
    [
        ([" ".join(LONG), " ".join(LONG[::-1]), ""], " ".join([*LONG[1:50], "new", *LONG[50:]]), 0),
        ([" ".join(LONG), " ".join(LONG[::-1]), ""], " ".join(LONG[:65]), None),
        # words, punctuation and letters of scripts without spaces are compared
        (["Speichern (unter), bitte!", "我喜欢吃苹果和香蕉。"], "Speichern (ohne), bitte!", 0),
        (["Speichern (unter), bitte!", "我喜欢吃苹果和香蕉。"], "我喜欢吃橙子和香蕉。", 1),
        (["Speichern (unter), bitte!", "我喜欢吃苹果和香蕉。"], "我不喝橙子和香蕉?", None),
        (["मेरो नाम गोपाल हो", "ഗോപാലൻ നമ്മുടെ ഒരു സുഹൃത്താണ്"], "तेरो काम नेपाल हो", None),
        (["मेरो नाम गोपाल हो", "ഗോപാലൻ നമ്മുടെ ഒരു സുഹൃത്താണ്"], "ഗോപാലൻ നമ്മുടെ രണ്ട് സുഹൃത്താണ്", 1),
    ],
)
def test_texts_are_compared_word_by_word(texts: list[str], text: str, row: int | None) -> None:
    assert SimilarTexts(texts, 0.7).find(text) == row


def test_words_of_too_many_texts_lead_to_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"open the file {i}" for i in range(20)]
    assert SimilarTexts(texts, 0.7).find("open the file now") == 0
    monkeypatch.setattr(similarity, "MOST_TEXTS", 10)
    assert SimilarTexts(texts, 0.7).find("open the file now") is None
    assert SimilarTexts([], 0.7).find("open") is None


def test_missing_rapidfuzz_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance.Levenshtein", None)
    with pytest.raises(ConfigError, match="pip install rapidfuzz"):
        SimilarTexts(["a"], 0.7)
