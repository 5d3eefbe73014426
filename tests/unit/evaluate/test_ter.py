"""Edits of TER, compared with sacrebleu."""

from __future__ import annotations

import random

import pytest
from sacrebleu.metrics.lib_ter import translation_edit_rate

from nmt.evaluate import ter
from nmt.evaluate.ter import count_edits

ALPHABET = [chr(code) for code in range(ord("a"), ord("z") + 1)]


def expected(words: list[str], reference: list[str]) -> int:
    return int(translation_edit_rate(words, reference)[0])


def damaged(rng: random.Random, reference: list[str], vocabulary: list[str], rate: float) -> list[str]:
    """Return the words with phrases moved, and with words replaced, dropped and repeated."""
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


@pytest.mark.parametrize(("n_words", "longest"), [(1, 12), (2, 14), (4, 16), (12, 25), (1000, 40)])
def test_ter_edits_equal_sacrebleu(n_words: int, longest: int) -> None:
    rng, shifted = random.Random(n_words), 0
    vocabulary = [str(number) for number in range(n_words)]
    for _ in range(12):
        reference = [rng.choice(vocabulary) for _ in range(rng.randint(0, longest))]
        words = damaged(rng, reference, vocabulary, rng.choice([0, 0.1, 0.4, 1]))
        edits = expected(words, reference)
        assert count_edits(words, reference) == edits, (words, reference)
        shifted += 0 < edits < len(reference) and sorted(words) == sorted(reference)
    assert shifted or n_words == 1, "some lines differ only by shifts"


def test_long_phrases_are_shifted_in_parts() -> None:
    reference = [str(number) for number in range(36)]
    words = reference[24:] + reference[:24]  # twelve words
    assert count_edits(words, reference) == expected(words, reference) == 2


@pytest.mark.parametrize("distance", [50, 51])
def test_ter_shift_distance_is_bounded(distance: int) -> None:
    reference = [str(number) for number in range(60)]
    words = reference[1 : distance + 1] + reference[:1] + reference[distance + 1 :]
    assert count_edits(words, reference) == expected(words, reference) == (1 if distance == 50 else 2)


def test_ter_of_long_lines_equals_sacrebleu(monkeypatch: pytest.MonkeyPatch) -> None:
    # 104 edits are enough, but their alignment is outside of the beam
    common = [f"c{number}" for number in range(60)]
    words, reference = common + ["x"] * 52, ["y"] * 52 + common
    assert count_edits(words, reference) == expected(words, reference) == 112
    # alignments that stay inside of it are counted here
    monkeypatch.setattr(ter, "translation_edit_rate", pytest.fail)
    words = [*ALPHABET, *(f"x{number}" for number in range(45)), *ALPHABET]
    reference = [*ALPHABET, *(f"y{number}" for number in range(45)), *ALPHABET]
    assert count_edits(words, reference) == expected(words, reference) == 45
