"""Tests of the translation service: the memory of its cache, and limits on n-best lists."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from nmt.serve import service as service_module
from nmt.serve.limits import Refusal
from nmt.serve.models import Models
from nmt.serve.service import Cache, Service, Wish, lines_of, memory
from nmt.translate.direction import Candidate, How
from nmt.translate.types import Line
from served import MadeUp


@pytest.fixture
def direction() -> MadeUp:
    return MadeUp("de", "en")


@pytest.fixture
def service(direction: MadeUp) -> Iterator[Service]:
    service = Service(Models([direction]), cache=40_000)
    service.start()
    yield service
    service.close()


def translate(service: Service, *texts: str, **wish: Any) -> list[list[Candidate]]:
    return asyncio.run(service.translate(texts, "de", "en", Wish(**wish), 60))


def test_prefix_begins_first_line_that_is_not_blank() -> None:
    lines = lines_of(["a\nb", "\n \n\nc\nd", ""], Wish(prefix="x"))
    assert [(line.text, line.prefix) for line in lines] == [
        ("a", "x"), ("b", ""), ("", ""), (" ", ""), ("", ""), ("c", "x"), ("d", ""), ("", "x"),
    ]  # fmt: skip


# --- the cache ----------------------------------------------------------------------------------


def word(chosen: random.Random) -> str:
    return "".join(chosen.choice("abcdefghijklmnopqrstuvwxyzäß\u0434") for _ in range(chosen.randint(1, 9)))


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("n_best", [1, 4])
def test_cache_memory_is_bounded(direction: MadeUp, aligned: bool, n_best: int) -> None:
    chosen, most = random.Random(1), 400_000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        cache = Cache[list[Candidate]](most)
        for number in range(600 // n_best):
            line = Line(" ".join(word(chosen) for _ in range(chosen.randint(1, 30))))
            how = How(direction.search, n_best, aligned)
            key = service_module._key(direction, line, how, 300 + number)
            candidates = [
                Candidate(
                    f"{line.text} {rank}", spans(1000, line) if aligned else None, chosen.random(), chosen.random()
                )
                for rank in range(n_best)
            ]
            cache.put(key, candidates, memory(key, candidates))
        del line, how, key, candidates
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.6 * most < taken <= most, "the cache uses most of the allowed memory"
    assert 12 < len(cache) < 600 // n_best


def spans(start: int, line: Line) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """Return spans whose integers are separate objects, since Python shares only small ones."""
    return tuple(((start + i, start + i + 1), (start + i + 2, start + i + 3)) for i in range(len(line.text.split())))


# --- n-best -------------------------------------------------------------------------------------


def test_n_best_is_limited_by_beam(direction: MadeUp) -> None:
    service = Service(Models([direction]), allowed={"beam": 10.0, "sample": None})
    assert service._how([direction], Wish(5)).search.beam == 5
    assert service._how([direction], Wish(10, search={"beam": 10})).n_best == 10
    for wish in (Wish(6), Wish(7, search={"beam": 6}), Wish(6, search={"sample": True})):
        with pytest.raises(Refusal, match=r"n_best: must be at most the beam, [56]") as refused:
            service._how([direction], wish)
        assert refused.value.status == 400
