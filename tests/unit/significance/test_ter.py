"""The edits of TER are those that sacrebleu counts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.lib_ter import translation_edit_rate

from nmt.evaluate import line_statistics as ter
from nmt.evaluate.line_statistics import count_edits

ALPHABET = [chr(code) for code in range(ord("a"), ord("z") + 1)]


def expected(words: list[str], reference: list[str]) -> int:
    edits: int = translation_edit_rate(words, reference)[0]
    return edits


def damaged(rng: random.Random, reference: list[str], vocabulary: list[str], rate: float) -> list[str]:
    """The words with phrases at other places, and with words replaced, dropped and repeated."""
    words = [*reference]
    for _ in range(rng.randint(0, 4)):
        start = rng.randint(0, len(words))
        phrase = words[start : start + rng.randint(1, 12)]
        del words[start : start + len(phrase)]
        to = rng.randint(0, len(words))
        words[to:to] = phrase
    changed = []
    for word in words:
        changed += rng.choice([[], [word, word], [rng.choice(vocabulary)]]) if rng.random() < rate else [word]
    return changed


@pytest.mark.parametrize(("n_words", "longest"), [(1, 12), (2, 14), (4, 16), (12, 35), (1000, 60)])
def test_edits_equal_sacrebleu(n_words: int, longest: int) -> None:
    rng, shifted = random.Random(n_words), 0
    vocabulary = [str(number) for number in range(n_words)]
    for _ in range(25):
        reference = [rng.choice(vocabulary) for _ in range(rng.randint(0, longest))]
        words = damaged(rng, reference, vocabulary, rng.choice([0, 0.1, 0.4, 1]))
        assert count_edits(words, reference) == expected(words, reference), (words, reference)
        shifted += 0 < expected(words, reference) < len(reference) and sorted(words) == sorted(reference)
    assert shifted or n_words == 1, "some lines differ by shifts alone"


@settings(max_examples=60)
@given(*[st.lists(st.sampled_from("abcd"), max_size=11)] * 2)
def test_edits_equal_sacrebleu_on_any_lines(words: list[str], reference: list[str]) -> None:
    assert count_edits(words, reference) == expected(words, reference)


def test_edits_by_hand() -> None:
    assert count_edits([], []) == count_edits(["a"], ["a"]) == 0
    assert count_edits([], ["a", "b"]) == count_edits(["a", "b"], []) == 2
    assert count_edits([*"45123"], [*"12345"]) == 1
    assert count_edits([*"xbc"], [*"abcd"]) == 2


def test_phrases_longer_than_ten_words_are_shifted_in_parts() -> None:
    reference = [str(number) for number in range(36)]
    words = reference[24:] + reference[:24]  # twelve words
    assert count_edits(words, reference) == expected(words, reference) == 2


@pytest.mark.parametrize("distance", [50, 51])
def test_words_farther_than_fifty_are_not_shifted(distance: int) -> None:
    reference = [str(number) for number in range(60)]
    words = reference[1 : distance + 1] + reference[:1] + reference[distance + 1 :]
    assert count_edits(words, reference) == expected(words, reference) == (1 if distance == 50 else 2)


def test_at_most_a_thousand_shifts_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(9)
    words, reference = rng.choices("ab", k=26), rng.choices("ab", k=26)
    assert count_edits(words, reference) == expected(words, reference) == 6
    monkeypatch.setattr(ter, "_MOST_SHIFTS", 100_000)
    assert count_edits(words, reference) == 5, "the limit has an effect on this line"


def test_long_lines_use_sacrebleu_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    # 104 edits are enough, but their alignment is outside of the beam
    common = [f"c{number}" for number in range(60)]
    words, reference = common + ["x"] * 52, ["y"] * 52 + common
    assert count_edits(words, reference) == expected(words, reference) == 112
    # what is surely inside of it is counted here
    monkeypatch.setattr(ter, "translation_edit_rate", pytest.fail)
    words = [*ALPHABET, *(f"x{number}" for number in range(45)), *ALPHABET]
    reference = [*ALPHABET, *(f"y{number}" for number in range(45)), *ALPHABET]
    assert count_edits(words, reference) == expected(words, reference) == 45
