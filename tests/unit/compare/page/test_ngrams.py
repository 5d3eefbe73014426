"""N-grams won and lost."""

from __future__ import annotations

from nmt.evaluate.compare.view import MOST, NGram, won_and_lost


def split(*lines: str) -> list[tuple[str, ...]]:
    return [tuple(line.split()) for line in lines]


def test_ngrams_won_and_lost() -> None:
    references = split("the cat sat", "the cat ran", "the dog ran")
    baseline = split("a cat sat", "the cat ran", "the dog sat")
    other = split("the cat sat", "the cat ran", "a dog ran ran")
    won, lost = won_and_lost(references, baseline, other)
    assert won == [
        NGram(("the", "cat", "sat"), 1, 0, 1), NGram(("dog", "ran"), 1, 0, 1),
    ]  # fmt: skip
    assert lost == [NGram(("the", "dog"), 1, 1, 0)]


def test_ngram_matches_are_clipped() -> None:
    won, lost = won_and_lost(split("a b a"), split("a"), split("a a a a"))
    assert (won, lost) == ([NGram(("a",), 2, 1, 2)], [])
    assert won_and_lost(split("a b"), split("a b"), split("a b")) == ([], [])


def test_ngrams_are_sorted_and_limited() -> None:
    names = [f"w{number}" for number in range(2 * MOST)]
    references = split(*(f"{name} ." for name in names for _ in range(2)), "x", "x", "x")
    won, _ = won_and_lost(references, split(*[""] * len(references)), references)
    assert won[0] == NGram((".",), 4 * MOST, 0, 4 * MOST) and won[1].words == ("x",) and len(won) == MOST
    assert len(won[2].words) == 2, "the longer one stands for its parts"
