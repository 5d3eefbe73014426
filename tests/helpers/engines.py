"""Both engines on the same lines, and that they agree."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nmt.search.settings import SearchConfig
from nmt.translate.loading import Translator
from nmt.translate.types import Line, Translation

Pair = tuple[Translator, Translator]
GREEDY = {"beam": 1, "max_length_ratio": 1.0}


def translations(
    translator: Translator, lines: Sequence[Line | str], n_best: int = 1, **search: object
) -> list[list[Translation]]:
    return list(translator.translate_lines(lines, SearchConfig(**search), n_best))  # type: ignore[arg-type]


def ids(found: Sequence[Sequence[Translation]]) -> list[list[list[int]]]:
    return [[list(part.tgt_ids) for each in of_line for part in each.parts] for of_line in found]


def check_equal(pair: Pair, lines: Sequence[Line | str], n_best: int = 1, **search: object) -> list[list[Translation]]:
    """Check that both engines find the same pieces with the same scores."""
    native, other = pair
    wanted = translations(native, lines, n_best, **search)
    found = translations(other, lines, n_best, **search)
    assert ids(found) == ids(wanted)
    for of_line, wanted_of_line in zip(found, wanted, strict=True):
        for each, expected in zip(of_line, wanted_of_line, strict=True):
            assert each.score == pytest.approx(expected.score, abs=1e-4, rel=1e-5)
            assert each.log_prob == pytest.approx(expected.log_prob, abs=1e-3, rel=1e-5)
            assert (each.text, each.finished) == (expected.text, expected.finished)
    return found
