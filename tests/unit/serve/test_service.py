"""Tests of the translation service: the memory of its cache, and limits on n-best lists."""

from __future__ import annotations

import asyncio
import random
import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from nmt.serve import service as service_module
from nmt.serve.limits import Refusal
from nmt.serve.models import Models
from nmt.serve.service import LruCache, Service, TextOptions, lines_of, memory
from nmt.serve.worker import SideThread, aside, in_portions
from nmt.text.constraints import Glossary, Span
from nmt.translate.types import Line, Options, Translation
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


def translate(service: Service, *texts: str, **asked: Any) -> list[list[Translation]]:
    return asyncio.run(service.translate(texts, "de", "en", TextOptions(**asked), 60))


def test_prefix_begins_first_line_that_is_not_blank() -> None:
    lines = lines_of(["a\nb", "\n \n\ufeff\nc\nd", ""], TextOptions(prefix="x"))
    assert [(line.text, line.prefix) for line in lines] == [
        ("a", "x"), ("b", ""), ("", ""), (" ", ""), ("\ufeff", ""), ("c", "x"), ("d", ""), ("", "x"),
    ]  # fmt: skip


@pytest.mark.parametrize("known", [(True, False), (False, True), (True, True), (False, False)])
def test_tags_are_read_in_the_steps_that_know_them(known: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    route = [MadeUp("de", "en"), MadeUp("en", "fr")]
    for leg, is_known in zip(route, known, strict=True):
        names = ["case=loud"] if is_known else []
        object.__setattr__(leg, "conventions", replace(leg.conventions, tag_names=names))
    last = route[-1]
    monkeypatch.setattr(last, "search_settings", lambda tags, _: last.search.model_copy(update=tags))
    service = Service(Models(route))
    service.start()
    for text, given in (("a", ["case=loud"]), ("b", None)):
        asyncio.run(service.translate([text], "de", "fr", TextOptions(tags=given), 60))
    service.close()
    tags = [[how.search.tags for how in leg.hows] for leg in route]
    reads = known if any(known) else (False, True)
    assert tags == [[["case=loud"] if is_read else None, None] for is_read in reads]


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
        cache = LruCache[list[Translation]](most)
        for number in range(600 // n_best):
            line = Line(" ".join(word(chosen) for _ in range(chosen.randint(1, 30))))
            how = Options(direction.config.search, n_best, aligned)
            key = service_module._key(direction, line, how, 300 + number)
            candidates = [
                Translation(
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
    assert service._options([direction], TextOptions(5)).search.beam == 5
    assert service._options([direction], TextOptions(10, search={"beam": 10})).n_best == 10
    for asked in (TextOptions(6), TextOptions(7, search={"beam": 6}), TextOptions(6, search={"sample": True})):
        with pytest.raises(Refusal, match=r"n_best: must be at most the beam, [56]") as refused:
            service._options([direction], asked)
        assert refused.value.status_code == 400


# --- work outside the search ----------------------------------------------------------------------


def test_small_work_comes_before_large_work_that_has_not_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    side_thread, begun, go_on, done = SideThread(), threading.Event(), threading.Event(), list[int]()
    now = [100.0]
    monkeypatch.setattr("nmt.serve.worker.time", SimpleNamespace(monotonic=lambda: now[0]))

    def later(size: int) -> asyncio.Task[None]:
        return asyncio.create_task(side_thread.run(size, done.append, size))

    def hold() -> None:
        begun.set()
        assert go_on.wait(30)

    async def run_all() -> None:
        holding = asyncio.create_task(side_thread.run(1, hold))
        await asyncio.to_thread(begun.wait, 30)
        waiting = [later(size) for size in (4_000_000, 2000, 10_000)]
        cancelled = later(10)
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        now[0] += 3
        waiting.append(later(1))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(holding, *waiting)

    asyncio.run(run_all())
    assert done == [2000, 10_000, 4_000_000, 1]


def test_work_ends_with_its_client(service: Service, direction: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, firsts = threading.Event(), threading.Event(), list[int]()

    def costs(lines: Sequence[Line], first: int, options: Options) -> list[float]:  # noqa: ARG001
        firsts.append(first)
        begun.set()
        assert go_on.wait(30)
        return [1.0] * len(lines)

    async def leave() -> None:
        work = asyncio.create_task(
            service.translate(["a" * 5000 + f"\n{n}" for n in range(20)], "de", "en", TextOptions(), 60)
        )
        await asyncio.to_thread(begun.wait, 30)
        work.cancel()
        go_on.set()
        await aside(10**9, lambda: None)  # after all work that is waiting

    monkeypatch.setattr(direction, "costs", costs)
    asyncio.run(leave())
    assert firsts == [0]


@pytest.mark.parametrize("lines", [["a"], ["a" * 9000, "b" * 9000, "", "c" * 30_000, "d"], ["e"] * 3000, []])
def test_portions_have_all_lines_in_order(lines: list[str]) -> None:
    def numbered(portion: Sequence[Line], first: int) -> list[tuple[int, str]]:
        assert len(portion) == 1 or sum(len(line.text) for line in portion) <= 10_000
        return list(enumerate((line.text for line in portion), start=first))

    assert asyncio.run(in_portions(10**6, [Line(line) for line in lines], numbered)) == list(enumerate(lines))


def test_portions_wait_by_their_own_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, run = [], SideThread.run

    async def recorded(side_thread: SideThread, size: int, *work: Any) -> object:
        sizes.append(size)
        return await run(side_thread, size, *work)

    monkeypatch.setattr(SideThread, "run", recorded)
    lines = [Line("a" * 4000, "b" * 1000)] * 10
    assert len(asyncio.run(in_portions(10**6, lines, lambda portion, _: [*portion]))) == 10
    assert len(sizes) == 10 and max(sizes) <= 10_000


def test_terms_are_not_counted_beyond_their_maximum(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    n, spans = [0], Glossary.spans

    def counted(glossary: Glossary, text: str) -> Iterator[Span]:
        for span in spans(glossary, text):
            n[0] += 1
            yield span

    monkeypatch.setattr(Glossary, "spans", counted)
    with pytest.raises(Refusal, match="too often"):
        translate(service, "." * 1000, terms={"." * n: "x" for n in range(1, 100)})
    assert n[0] < 20


def test_cache_size_is_bounded() -> None:
    cache = LruCache[str](100)
    cache.put("long", "x", 11)  # more than a tenth of the cache
    for _ in range(30):
        cache.put("again", "x", 10)
    assert len(cache) == 1 and cache.get("long") is LruCache[str](0).get("x") is None
    for i in range(30):
        cache.put(i, "x", 9)
    assert len(cache) == 11  # 99 of 100 bytes
