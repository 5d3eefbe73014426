"""What the server does for both of its interfaces: find the language, the way and the words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nmt.errors import ConfigError, DataError
from nmt.serve.cache import Cache
from nmt.serve.detect import Detected, Detector, identifier
from nmt.serve.limits import Keys, Limits, Rate
from nmt.serve.metrics import Metrics
from nmt.serve.models import Candidate, Direction, How, Models
from nmt.serve.refusal import Refusal
from nmt.serve.texts import Rendered, Wish, joined, lines_of
from nmt.serve.worker import Job, Worker
from nmt.text.language_names import language_name
from nmt.text.tokenizer import is_blank
from nmt.translate.types import Line

BLANK = [Candidate("", 0.0, 0.0, ())]
"""The translations of a blank line."""
OVERHEAD = 200
"""Memory of a cached translation beside its text, in characters."""
PARSED_AT_ONCE = 2
TERMS_OF_LINE, TERMS_OF_REQUEST = 10, 200
AUTO = "auto"


class Service:
    """Translates texts of clients. For use in one event loop; the worker has a thread of its own."""

    def __init__(
        self,
        models: Models,
        limits: Limits = Limits(),  # noqa: B008  (immutable)
        keys: Keys | None = None,
        rate: Rate | None = None,
        allowed: Mapping[str, float | None] | None = None,
        cache: int = 4 << 20,
        queue: int = 256,
        threads: int | None = None,
    ) -> None:
        """allowed: settings of search that clients may change, and their largest values; cache: its characters; queue:
        requests that may wait; threads: of PyTorch.

        Raises ConfigError for settings that no client may change.
        """
        self.models, self.limits, self.keys, self.rate = models, limits, keys, rate or Rate(0)
        self.allowed = dict(allowed or {})
        self.metrics = Metrics()
        self.detector = Detector(models.languages)
        self.queue = queue
        self._worker = Worker(self.metrics, queue, threads)
        self._cache: Cache[list[Candidate]] = Cache(cache)
        self.parsing = asyncio.Semaphore(PARSED_AT_ONCE)
        """Held by whatever takes a document apart, or puts it together, in a thread."""
        self.is_ready = False

    def start(self) -> None:
        """Begin to work."""
        self._worker.start()

    async def warm_up(self) -> None:
        """Translate a word in each direction, so that no client waits for what is made at first use."""
        await asyncio.gather(asyncio.to_thread(identifier), self._translate_a_word())
        self.is_ready = True

    async def _translate_a_word(self) -> None:
        for direction in self.models.directions.values():
            deadline = time.monotonic() + self.limits.file_seconds
            await self._one_way(direction, [Line("a")], How(direction.search), deadline)

    def close(self) -> None:
        """Translate what waits, and end."""
        self._worker.close()

    def languages(self, source: str, target: str, texts: Sequence[str]) -> tuple[str, str, Detected | None]:
        """Return source and target, and what was detected if the source is `auto`. Raises Refusal for unknown ones.

        What is detected is the target, or a language from which there is a way to it.
        """
        into = self._language(target)
        if source != AUTO:
            return self._language(source), into, None
        possible = self.models.sources_of(into)
        if not possible:
            raise Refusal(400, f"{language_name(into)} ({into}) is not available as a target language")
        found = self.detector.detect("\n".join(texts))
        detected = next(each for each in found if each.language in (*possible, into))
        return detected.language, into, detected

    def _language(self, code: str) -> str:
        language = self.models.language(code)
        if language is None:
            raise Refusal(400, f"{code} is not supported")
        return language

    async def translate(
        self, texts: Sequence[str], source: str, target: str, wish: Wish, seconds: float
    ) -> list[list[Rendered]]:
        """Return for each text up to `wish.n_best` translations, best first.

        seconds: until this is refused. Texts in the language that is wanted stay as they are. Raises Refusal.
        """
        if source == target:
            return [[Rendered(text, 0.0, 0.0, None)] for text in texts]
        route = self.route(source, target)
        how = self._how(route, wish)
        try:
            lines = lines_of(texts, wish)
        except DataError as error:
            raise Refusal(400, f"Invalid request: {error.args[0]}") from error
        _check_terms(lines)
        deadline = time.monotonic() + seconds
        for direction in route[:-1]:
            plain = [replace(line, prefix="", glossary=None) for line in lines]
            found = await self._one_way(direction, plain, How(direction.search), deadline)
            lines = [replace(line, text=best.text) for line, (best, *_) in zip(lines, found, strict=True)]
        return joined(texts, await self._one_way(route[-1], lines, how, deadline))

    def route(self, source: str, target: str) -> list[Direction]:
        """Return the directions to translate with, one after the other. Raises Refusal if there are none."""
        route = self.models.route(source, target)
        if route is None:
            into, out_of = f"{language_name(target)} ({target})", f"{language_name(source)} ({source})"
            raise Refusal(400, f"{into} is not available as a target language from {out_of}")
        return route

    def _how(self, route: Sequence[Direction], wish: Wish) -> How:
        """Return how the last direction of a route translates. Raises Refusal for what it cannot, or is not allowed."""
        last = route[-1]
        if wish.terms and len(route) > 1:
            raise Refusal(400, f"terms need a direct translator, found one by way of {last.source}")
        if wish.terms and not last.has_native:
            raise Refusal(400, f"terms are not available from {last.source} to {last.target}")
        search = last.search
        for name, value in wish.search.items():
            most = self._most(name)
            if most is not None and not (isinstance(value, (int, float)) and value <= most):
                raise Refusal(400, f"search.{name}: at most {most:g} on this server")
        if wish.search:
            try:
                search = last.search_settings(wish.search)
            except ConfigError as error:
                raise Refusal(400, f"Invalid request: {error.args[0]}") from error
        if wish.n_best > search.beam and not search.sample:
            raise Refusal(400, f"Invalid request: {wish.n_best} translations of a beam of {search.beam}")
        return How(search, wish.n_best, wish.align and len(route) == 1 and last.aligns)

    def _most(self, name: str) -> float | None:
        if name not in self.allowed:
            known = ", ".join(self.allowed) or "none"
            raise Refusal(400, f"search.{name}: may not be changed on this server; settings that may: {known}")
        return self.allowed[name]

    async def _one_way(
        self, direction: Direction, lines: Sequence[Line], how: How, deadline: float
    ) -> list[list[Candidate]]:
        """Translate lines in one direction: those that are not blank, not in the cache, and each only once."""
        keys = [_key(direction, line, how, i) for i, line in enumerate(lines)]
        known: dict[_Key, list[Candidate]] = {}
        unknown: dict[_Key, Line] = {}
        for key, line in zip(keys, lines, strict=True):
            if is_blank(line.text):
                known[key] = BLANK
            elif key not in known and key not in unknown:
                cached = None if how.search.sample else self._cache.get(key)
                if cached is None:
                    unknown[key] = line
                else:
                    known[key] = cached
        self.metrics.cached.add(sum(key not in unknown for key in keys), found="yes")
        self.metrics.cached.add(len(unknown), found="no")
        if unknown:
            job = Job(direction, how, [*unknown.values()], deadline)
            by_line = await asyncio.wrap_future(self._worker.submit(job))
            n_characters = sum(len(line.text) for line in unknown.values())
            self.metrics.characters.add(n_characters, direction=f"{direction.source}-{direction.target}")
            for (key, line), candidates in zip(unknown.items(), by_line, strict=True):
                known[key] = candidates
                size = len(line.text) + sum(len(candidate.text) for candidate in candidates) + OVERHEAD
                self._cache.put(key, candidates, size)
        return [known[key] for key in keys]


def _check_terms(lines: Sequence[Line]) -> None:
    """Raise Refusal for many occurrences of terms: each makes the search of its line slower."""
    numbers = [sum(1 for _ in line.glossary.spans(line.text)) for line in lines if line.glossary is not None]
    if max(numbers, default=0) > TERMS_OF_LINE or sum(numbers) > TERMS_OF_REQUEST:
        raise Refusal(
            400, f"terms: occur too often; at most {TERMS_OF_LINE} times in a line, {TERMS_OF_REQUEST} in a request"
        )


_Key = tuple[str, str, str, str, str, str, int]


def _key(direction: Direction, line: Line, how: How, number: int) -> _Key:
    """Return a key that is equal for lines with equal translations. Samples of equal lines differ, by `number`."""
    terms = line.glossary.fingerprint if line.glossary is not None else ""
    sampled = number if how.search.sample else 0
    return direction.source, direction.target, how.key, line.text, line.prefix, terms, sampled
