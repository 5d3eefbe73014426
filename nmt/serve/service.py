"""The translation service behind both interfaces: detects languages, divides texts into lines, translates them."""

from __future__ import annotations

import asyncio
import functools
import math
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from nmt.config import SearchConfig
from nmt.errors import ConfigError, DataError
from nmt.serve.limits import Limits, Rate, Refusal, Room
from nmt.serve.metrics import Metrics
from nmt.serve.models import Candidate, Direction, How, Models
from nmt.serve.worker import Job, Worker, invalid
from nmt.text.constraints import Glossary
from nmt.text.language_names import language_name, normalized
from nmt.text.tokenizer import is_blank
from nmt.translate.types import Line

Value = TypeVar("Value")

ENTRY, CANDIDATE, PAIR = 512, 160, 320
"""Bytes that an entry, a translation and a pair of aligned words take beside their texts."""


class Cache(Generic[Value]):
    """A cache of limited size that drops the least recently used entries. Several threads may use it."""

    def __init__(self, most: int) -> None:
        """most: maximum total size of the entries; 0 keeps nothing."""
        self._most, self._size = most, 0
        self._entries: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Value | None:
        """Return an entry and mark it as most recently used; None if there is none."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        """Add an entry; `size` covers the key and the value. One larger than a tenth of the cache is not kept."""
        if size * 10 > self._most:
            return
        with self._lock:
            self._size += size - self._entries.pop(key, (value, 0))[1]
            self._entries[key] = value, size
            while self._size > self._most:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._size -= dropped


def memory(key: Sequence[object], candidates: Sequence[Candidate]) -> int:
    """Return an upper estimate of the memory in bytes of an entry with a line's translations."""
    of_translations = sum(
        CANDIDATE + sys.getsizeof(candidate.text) + PAIR * len(candidate.alignment or ()) for candidate in candidates
    )
    return ENTRY + sum(map(sys.getsizeof, key)) + of_translations


TERMS_OF_LINE, TERMS_OF_REQUEST, TERMS_OF_FILE = 10, 200, 2000


@dataclass(frozen=True)
class Wish:
    """The options of a request for a translation."""

    n_best: int = 1
    align: bool = False
    prefix: str = ""
    terms: Mapping[str, str] = field(default_factory=dict)
    search: Mapping[str, object] = field(default_factory=dict)
    most_terms: int = TERMS_OF_REQUEST
    """Occurrences of terms beyond which it is refused."""


def lines_of(texts: Sequence[str], wish: Wish) -> list[Line]:
    """Return the lines of all texts. Lines end at a line feed; a carriage return before it is not part of them."""
    glossary = Glossary(wish.terms, "terms") if wish.terms else None
    return [
        Line(line.removesuffix("\r"), wish.prefix if number == 0 else "", glossary=glossary)
        for text in texts
        for number, line in enumerate(text.split("\n"))
    ]


def joined(texts: Sequence[str], by_line: Sequence[Sequence[Candidate]]) -> list[list[Candidate]]:
    """Return the translations of each text, best first, given those of all `lines_of` the texts.

    The second best of a text has the second best translation of each line, if it has one. The score of a text of
    several lines is the mean of theirs, the log-probability their sum.
    """
    rest = iter(by_line)
    of_texts = [[(line, next(rest)) for line in text.split("\n")] for text in texts]
    return [
        [
            _joined([(line, of_rank(candidates, rank)) for line, candidates in lines])
            for rank in range(max(len(candidates) for _, candidates in lines))
        ]
        for lines in of_texts
    ]


def of_rank(candidates: Sequence[Candidate], rank: int) -> Candidate:
    """Return the translation of this rank, or the last one."""
    return candidates[min(rank, len(candidates) - 1)]


def _joined(lines: Sequence[tuple[str, Candidate]]) -> Candidate:
    texts, pairs = [], []
    source = target = 0
    for line, candidate in lines:
        texts.append(candidate.text + ("\r" if line.endswith("\r") else ""))
        for (start, stop), (to_start, to_stop) in candidate.alignment or ():
            pairs.append(((source + start, source + stop), (target + to_start, target + to_stop)))
        source += len(line) + 1
        target += len(texts[-1]) + 1
    candidates = [candidate for _, candidate in lines]
    n = sum(bool(candidate.text) for candidate in candidates)
    return Candidate(
        text="\n".join(texts),
        score=math.fsum(candidate.score for candidate in candidates if candidate.text) / max(n, 1),
        log_prob=math.fsum(candidate.log_prob for candidate in candidates if candidate.text),
        alignment=None if any(candidate.alignment is None for candidate in candidates) else tuple(pairs),
    )


CHARACTERS = 1000
"""Of a text that are looked at: at most 2 ms of work, and more would change nothing."""


class Detected(NamedTuple):
    """A detected language with a confidence from 0 to 100, as in LibreTranslate's interface."""

    language: str
    confidence: float


@functools.cache
def identifier() -> Any:
    """Return py3langid's model, which takes half a second to load."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


class Detector:
    """Detects the language of a text among those of the models.

    The confidence is the probability among all languages that py3langid knows, so that it is low for a text in a
    language that no model reads, even where there is only one that does.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        """languages: the codes to choose from."""
        self._languages = languages
        self._by_code: dict[str, list[str]] = {}
        for code in languages:
            self._by_code.setdefault(normalized(code).partition("_")[0], []).append(code)

    def detect(self, text: str) -> list[Detected]:
        """Return all languages, the likeliest first; those that py3langid does not know come last."""
        found = [
            Detected(language, round(100 * float(probability), 2))
            for code, probability in identifier().rank(text[:CHARACTERS])
            for language in self._by_code.get(code, ())
        ]
        known = {detected.language for detected in found}
        return [*found, *(Detected(language, 0.0) for language in self._languages if language not in known)]


BLANK = [Candidate("", 0.0, 0.0, ())]
"""The translations of a blank line."""
PARSED_AT_ONCE = 2
AUTO = "auto"


class Service:
    """Translates texts of clients. For use in one event loop; the worker has threads of its own."""

    def __init__(
        self,
        models: Models,
        limits: Limits = Limits(),  # noqa: B008  (immutable)
        keys: Collection[str] | None = None,
        rate: Rate | None = None,
        allowed: Mapping[str, float | None] | None = None,
        cache: int = 16 << 20,
        queue: int = 256,
        threads: int | None = None,
    ) -> None:
        """keys: SHA-256 of each API key; allowed: settings of search that clients may change, and their largest values;
        cache: its bytes; queue: requests that may wait; threads: of PyTorch.
        """
        self.models, self.limits, self.keys, self.rate = models, limits, keys, rate or Rate(0)
        self.allowed = dict(allowed or {})
        self.metrics = Metrics()
        self.detector = Detector(models.languages)
        self.queue = Room(queue)
        self._worker = Worker(self.metrics, threads)
        self._cache: Cache[list[Candidate]] = Cache(cache)
        self.parsing = asyncio.Semaphore(PARSED_AT_ONCE)
        """Held by whatever takes a document apart, or puts it together, in a thread."""
        self.fragments = asyncio.Semaphore(1)
        """The same for fragments of HTML, which are short and do not wait for documents."""
        self.is_ready = False

    def start(self) -> None:
        """Start the workers."""
        self._worker.start()

    async def warm_up(self) -> None:
        """Translate a word in each direction, so that no client waits for what is made at first use."""
        await asyncio.to_thread(identifier)
        for direction in self.models.directions.values():
            deadline = time.monotonic() + self.limits.file_seconds
            await self._one_way(direction, [Line("a")], How(direction.search), deadline, 1)
        self.is_ready = True

    def close(self) -> None:
        """Translate the jobs that wait, and end."""
        self._worker.close()

    @property
    def most_best(self) -> int | None:
        """The maximum number of translations of a text: the beam of every direction, or the largest allowed one."""
        if "beam" not in self.allowed:
            return self.models.alternatives + 1
        most = self.allowed["beam"]
        return None if most is None else max(self.models.alternatives + 1, int(most))

    def languages(self, source: str, target: str, texts: Sequence[str]) -> tuple[str, str, Detected | None]:
        """Return source and target, and the detected language if the source is `auto`. Raises Refusal for unknown ones.

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
    ) -> list[list[Candidate]]:
        """Return for each text up to `wish.n_best` translations, best first.

        seconds: until this is refused. Texts in the language that is wanted stay as they are. Raises Refusal.
        """
        if source == target:
            return [[Candidate(text, 0.0, 0.0, None)] for text in texts]
        route = self.route(source, target)
        how = self._how(route, wish)
        deadline = time.monotonic() + seconds
        size = sum(map(len, texts)) + len(texts) + sum(map(len, wish.terms))
        lines = await aside(size, _checked_lines, texts, wish)
        for direction in route[:-1]:  # prefix and terms are for the last one
            plain = [replace(line, prefix="", glossary=None) for line in lines]
            found = await self._one_way(direction, plain, How(direction.search), deadline, size)
            lines = [replace(line, text=best.text) for line, (best, *_) in zip(lines, found, strict=True)]
        found = await self._one_way(route[-1], lines, how, deadline, size)
        return await aside(size * wish.n_best, joined, texts, found)

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
            raise Refusal(400, f"terms need a direct translation, not one through {last.source}")
        if wish.terms and not last.has_native:
            raise Refusal(400, f"terms are not available from {last.source} to {last.target}")
        for name, value in wish.search.items():
            most = self._most(name)
            if name == "protect" and isinstance(value, list):  # expressions may take any time
                raise Refusal(400, "search.protect: only true, false or placeholders on this server")
            if most is not None and not (isinstance(value, (int, float)) and value <= most):
                raise Refusal(400, f"search.{name}: at most {most:g} on this server")
        search = _settings(last, wish.search)
        if wish.n_best > search.beam and not search.sample:
            if "beam" in wish.search:
                raise Refusal(400, f"Invalid request: {wish.n_best} translations of a beam of {search.beam}")
            search = _settings(last, {**wish.search, "beam": self._beam_for(wish.n_best, search)})
        return How(search, wish.n_best, wish.align and len(route) == 1 and last.aligns)

    def _beam_for(self, n_best: int, search: SearchConfig) -> int:
        """Return the smallest beam that gives this many translations. Raises Refusal for one that is not allowed."""
        groups = search.diversity_groups
        beam = -(-n_best // groups) * groups
        most = self.allowed.get("beam", search.beam)
        if most is not None and beam > most:
            raise Refusal(400, f"n_best: at most {max(search.beam, int(most) // groups * groups)} on this server")
        return beam

    def _most(self, name: str) -> float | None:
        if name not in self.allowed:
            known = ", ".join(self.allowed) or "none"
            raise Refusal(400, f"search.{name}: cannot be changed on this server; allowed settings: {known}")
        return self.allowed[name]

    async def _one_way(
        self, direction: Direction, lines: Sequence[Line], how: How, deadline: float, size: int
    ) -> list[list[Candidate]]:
        """Translate lines in one direction: those that are not blank, not in the cache, and each only once.

        size: of all lines; see `aside`.
        """
        keys, found, unknown = await aside(size, self._look_up, direction, lines, how)
        if unknown:
            try:
                job = await aside(size, Job, direction, how, [*unknown.values()], deadline)
            except (ConfigError, DataError) as error:
                raise invalid(error) from error
            by_line = await asyncio.wrap_future(self._worker.submit(job))
            found |= await aside(size, self._keep, direction, unknown, by_line)
        return [found[key] for key in keys]

    def _look_up(
        self, direction: Direction, lines: Sequence[Line], how: How
    ) -> tuple[list[_Key], dict[_Key, list[Candidate]], dict[_Key, Line]]:
        """Return the keys of lines, the translations of those that are blank or in the cache, and the other lines."""
        keys = [_key(direction, line, how, i) for i, line in enumerate(lines)]
        found: dict[_Key, list[Candidate]] = {}
        unknown: dict[_Key, Line] = {}
        for key, line in zip(keys, lines, strict=True):
            known = BLANK if is_blank(line.text) else None if how.search.sample else self._cache.get(key)
            if known is None:
                unknown[key] = line
            else:
                found[key] = known
        self.metrics.cached.labels("yes").inc(sum(key in found for key in keys))
        self.metrics.cached.labels("no").inc(len(unknown))
        return keys, found, unknown

    def _keep(
        self, direction: Direction, lines: Mapping[_Key, Line], by_line: Sequence[list[Candidate]]
    ) -> dict[_Key, list[Candidate]]:
        """Cache new translations, and return them by key."""
        n_characters = sum(len(line.text) for line in lines.values())
        self.metrics.characters.labels(f"{direction.source}-{direction.target}").inc(n_characters)
        new = dict(zip(lines, by_line, strict=True))
        for key, candidates in new.items():
            self._cache.put(key, candidates, memory(key, candidates))
        return new


_Key = tuple[str, str, str, str, str, str, int]


def _settings(direction: Direction, changes: Mapping[str, object]) -> SearchConfig:
    if not changes:
        return direction.search
    try:
        return direction.search_settings(changes)
    except ConfigError as error:
        raise invalid(error) from error


def _checked_lines(texts: Sequence[str], wish: Wish) -> list[Line]:
    """Return the lines of texts. Raises Refusal if terms are invalid, or occur too often, which slows down search."""
    try:
        lines = lines_of(texts, wish)
    except DataError as error:
        raise invalid(error) from error
    numbers = [sum(1 for _ in line.glossary.spans(line.text)) for line in lines if line.glossary is not None]
    if max(numbers, default=0) > TERMS_OF_LINE or sum(numbers) > wish.most_terms:
        most = f"{TERMS_OF_LINE} times in a line, {wish.most_terms} in a request"
        raise Refusal(400, f"terms: occur too often; at most {most}")
    return lines


def _key(direction: Direction, line: Line, how: How, number: int) -> _Key:
    """Return a key that is equal for lines with equal translations. Samples of equal lines differ, by `number`."""
    terms = line.glossary.fingerprint if line.glossary is not None else ""
    sampled = number if how.search.sample else 0
    return direction.source, direction.target, how.key, line.text, line.prefix, terms, sampled


SMALL = 1000
"""Characters, times translations of each, that are worked on at once: at most 5 ms."""
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


async def aside(
    size: int, work: Callable[Arguments, Result], *args: Arguments.args, **named: Arguments.kwargs
) -> Result:
    """Return the result of `work`, or raise its exception; it runs in a thread if `size` is above `SMALL`."""
    return work(*args, **named) if size <= SMALL else await asyncio.to_thread(work, *args, **named)
