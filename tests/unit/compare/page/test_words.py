"""Words, and what two lines have in common."""

from __future__ import annotations

import pytest

from nmt.evaluate.compare.view import MOST, SCRIPT_PATTERN, NGram, find_words, join_words, won_and_lost


@pytest.mark.parametrize("line, expected", [
    ("Don't stop, at 7:30!", ["Don", "'", "t", "stop", ",", "at", "7", ":", "30", "!"]),
    ("我喜欢 C++。", ["我", "喜", "欢", "C", "+", "+", "。"]),
    ("ฉันรัก", ["ฉั", "น", "รั", "ก"]),
    ("मैं हिन्दी।", ["मैं", "हिन्दी", "।"]), ("ما اسمك؟", ["ما", "اسمك", "؟"]), ("a\u00a0b", ["a", "b"]),
    (r"[x]\-^{}", ["[", "x", "]", "\\", "-", "^", "{", "}"]), ("", []),
])  # fmt: skip
def test_split_words(line: str, expected: list[str]) -> None:
    assert find_words(line) == expected


def test_joined_words_equal_text() -> None:
    assert join_words(["in", "the", "我", "喜", "。"]) == "in the 我喜。"


def test_script_pattern_escapes_long_code_points() -> None:
    assert r"\u{20000}-\u{3ffff}" in SCRIPT_PATTERN and r"\U" not in SCRIPT_PATTERN


# --- N-grams won and lost ---


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
