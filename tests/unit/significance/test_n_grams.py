"""N-grams that lines have in common."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.evaluate import line_statistics as module
from nmt.evaluate.line_statistics import count_matches, number_characters, number_words

LINES = st.lists(st.text("abé狗\U0001f415\ud800", max_size=9), min_size=1, max_size=7)


def in_common(reference: str, line: str, order: int) -> int:
    one, other = (Counter(text[i : i + order] for i in range(len(text) - order + 1)) for text in (reference, line))
    return (one & other).total()


@pytest.mark.parametrize(("lines_at_once", "largest"), [(1000, 1 << 62), (2, 1 << 62), (3, 100)])
@settings(max_examples=20)
@given(st.data())
def test_count_matches_by_line(lines_at_once: int, largest: int, data: st.DataObject) -> None:
    texts = [data.draw(LINES)]
    texts += [[data.draw(st.sampled_from([line, line[::-1], line[1:] + line])) for line in texts[0]] for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LINES", lines_at_once)
        patch.setattr(module, "_LARGEST", largest)  # 100: n-grams are numbered anew at every order
        reference, *others = number_characters(texts)
        counted = count_matches(reference, others, 5)
    for lines, matches in zip(texts[1:], counted, strict=True):
        assert matches.tolist() == [
            [in_common(ref, line, order) for order in range(1, 6)] for ref, line in zip(texts[0], lines, strict=True)
        ]


def test_count_matches_of_words() -> None:
    texts = number_words([[["ab", "c"], ["a"]], [["a", "bc"], ["a", "a"]]])
    (matches,) = count_matches(texts[0], texts[1:], 2)
    assert matches.tolist() == [[0, 0], [1, 0]]
    assert texts[0].n_grams(3).tolist() == [[2, 1, 0], [1, 0, 0]]


def test_n_grams_stop_at_line_end() -> None:
    reference, other = number_characters([["ab", "cd"], ["a", "bcd"]])
    (matches,) = count_matches(reference, [other], 3)
    assert matches.tolist() == [[1, 0, 0], [2, 1, 0]]


def test_count_matches_of_blank_lines() -> None:
    reference, other = number_characters([["", ""], ["", "a"]])
    assert not np.any(count_matches(reference, [other], 2))
    assert count_matches(other, [reference], 2)[0].shape == (2, 2)
    assert not np.any(count_matches(reference, [reference], 2))
