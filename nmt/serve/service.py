"""The translation service behind both interfaces, with language detection and a cache of lines."""

from __future__ import annotations

import asyncio
import functools
import itertools
import math
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from nmt.errors import ConfigError, DataError
from nmt.languages.codes import language_name, script_of_text
from nmt.serve.limits import Refusal
from nmt.serve.metrics import Metrics
from nmt.serve.models import Models
from nmt.serve.parsing import DocumentProcess
from nmt.serve.settings import Limits, ServeOptions
from nmt.serve.worker import Job, SideThread, Worker, aside, in_portions, invalid
from nmt.text.constraints import Glossary, lost
from nmt.text.language import LEAST_CONFIDENCE, Detected, detect, identifier
from nmt.text.tokenizer import is_blank
from nmt.translate.loading import Translator
from nmt.translate.memory import TranslationMemory
from nmt.translate.translator import searches_by_leg
from nmt.translate.types import Confidence, Line, Options, Translation, by_rank, joint_match

Value = TypeVar("Value")

ENTRY = 512
CANDIDATE = 160
PAIR = 320
"""Sizes in bytes of a cache entry, a translation and a pair of aligned words, excluding their texts."""


class LruCache(Generic[Value]):
    """A thread-safe cache of limited size that drops the least recently used entries."""

    def __init__(self, most: int) -> None:
        """Create a cache. most: the maximum total size of its entries; 0 disables the cache."""
        self._most = most
        self._size = 0
        self._entries: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Value | None:
        """Return a cached value and mark it as most recently used; None if it is not in the cache."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        """Add a value unless its size, including the key, is more than a tenth of the cache."""
        if size * 10 > self._most:
            return
        with self._lock:
            self._size += size - self._entries.pop(key, (value, 0))[1]
            self._entries[key] = value, size
            while self._size > self._most:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._size -= dropped


def memory(key: Sequence[object], translations: Sequence[Translation]) -> int:
    """Return an upper bound on the memory in bytes of the cached translations of a line and their key."""
    n_bytes = ENTRY + sum(map(sys.getsizeof, key))
    for translation in translations:
        n_bytes += CANDIDATE + sys.getsizeof(translation.text) + PAIR * len(translation.alignment or ())
    return n_bytes


TERMS_OF_LINE = 10
TERMS_OF_REQUEST = 200
TERMS_OF_FILE = 2000


@dataclass(frozen=True)
class TextOptions:
    """The options of a request for a translation."""

    n_best: int = 1
    alignment: bool = False
    prefix: str = ""
    terms: Mapping[str, str] = field(default_factory=dict)
    search: Mapping[str, object] = field(default_factory=dict)
    most_terms: int = TERMS_OF_REQUEST
    """Maximum number of occurrences of terms in the request."""
    to: str | None = None
    """The tag of the target language, for a model with several; None for the model's default."""
    tags: Sequence[str] | None = None
    """Tags of the text; None for the model's default."""
    confidence: bool = False
    tm: bool = True
    """Whether to use the translation memory of the direction, if it has one."""
    is_document: bool = False
    """Whether the texts are parts of one document, whose lines have the lines before them as context."""
    flags: Sequence[str] = ()
    """The `Line.flag` of each text of a document."""


def lines_of(texts: Sequence[str], asked: TextOptions, tm: TranslationMemory | None = None) -> list[Line]:
    """Return the lines of all texts; a line ends at a line feed, with or without a carriage return.

    The prefix applies to the first line of each text that is not blank.
    """
    common = Line("", glossary=Glossary(asked.terms, "terms") if asked.terms else None, tm=tm)
    flags = asked.flags or [""] * len(texts)
    lines = []
    for place, (text, flag) in enumerate(zip(texts, flags, strict=True)):
        of_text = [replace(common, text=line.removesuffix("\r"), flag=flag) for line in text.split("\n")]
        begins = next((number for number, line in enumerate(of_text) if not is_blank(line.text)), 0)
        of_text[begins] = replace(of_text[begins], prefix=asked.prefix)
        if place == 0 or not asked.is_document:
            of_text[0] = replace(of_text[0], is_first=True)
        lines += of_text
    return lines


def joined(texts: Sequence[str], by_line: Sequence[Sequence[Translation]]) -> list[list[Translation]]:
    """Return the translations of each text, best first, joined from the translations of its lines.

    The second-best translation of a text consists of the second-best translation of each line that has one. The score
    of a text is the mean score of its lines, its log-probability the sum of their log-probabilities, its confidence
    their mean confidence, weighted by length; it is low if a line's is.
    """
    remaining = iter(by_line)
    by_text = []
    for text in texts:
        lines = text.split("\n")
        ranked = by_rank([next(remaining) for _ in lines])
        best, *others = [_joined(lines, translations) for translations in ranked]
        by_text.append([replace(best, lost=tuple(lost(text, best.text))), *others])
    return by_text


def _joined(lines: Sequence[str], translations: Sequence[Translation]) -> Translation:
    texts = []
    pairs = []
    source = target = 0
    for line, translation in zip(lines, translations, strict=True):
        texts.append(f"{translation.text}\r" if line.endswith("\r") else translation.text)
        for (start, stop), (to_start, to_stop) in translation.alignment or ():
            pairs.append(((source + start, source + stop), (target + to_start, target + to_stop)))
        source += len(line) + 1
        target += len(texts[-1]) + 1
    with_text = [translation for translation in translations if translation.text]
    is_aligned = all(translation.alignment is not None for translation in translations)
    return Translation(
        text="\n".join(texts),
        score=math.fsum(translation.score for translation in with_text) / max(len(with_text), 1),
        log_prob=math.fsum(translation.log_prob for translation in with_text),
        alignment=tuple(pairs) if is_aligned else None,
        confidence=_joint_confidence(translations),
        match=joint_match([translation.match for translation in with_text]),
    )


def _joint_confidence(translations: Sequence[Translation]) -> Confidence | None:
    """Return the mean confidence of translations that have one, weighted by their lengths."""
    total = 0.0
    n_letters = 0
    is_low = False
    for translation in translations:
        if translation.confidence is not None:
            total += translation.confidence.chrf * len(translation.text)
            n_letters += len(translation.text)
            is_low |= translation.confidence.is_low
    return Confidence(total / n_letters, is_low) if n_letters else None


async def by_source(
    translate: Callable[..., Awaitable[list[Value]]],
    texts: Sequence[str],
    sources: Sequence[Detected],
    *options: object,
) -> list[Value]:
    """Return the translations of texts by `translate`, which is called with the texts of each source language."""
    by_language: dict[str, list[str]] = {}
    for text, source in zip(texts, sources, strict=True):
        by_language.setdefault(source.language, []).append(text)
    results = {
        language: iter(await translate(of_language, language, *options))
        for language, of_language in by_language.items()
    }
    return [next(results[source.language]) for source in sources]


BLANK_RESULT = [Translation("", ())]
"""The translations of a blank line."""
AUTO = "auto"
LONG = 40  # characters above which the language of a text is detected by itself


class Service:
    """A service that translates texts for clients, to be used in one event loop."""

    def __init__(
        self,
        models: Models,
        limits: Limits = Limits(),  # noqa: B008  (immutable)
        allowed: Mapping[str, float | None] | None = None,
        cache: int = ServeOptions.cache,
        threads: int | None = None,
    ) -> None:
        """Create a service; `start` starts its threads.

        allowed: search settings that clients may change, and their maximum values; cache: size of the cache in bytes;
        threads: number of PyTorch's threads.
        """
        self.models = models
        self.limits = limits
        self.allowed = dict(allowed or {})
        self.metrics = Metrics()
        self._worker = Worker(self.metrics, threads)
        self._cache: LruCache[list[Translation]] = LruCache(cache)
        self.is_ready = False
        self.is_stuck = False
        """Whether translating threads go on although the service is closed."""

    @functools.cached_property
    def document_process(self) -> DocumentProcess:
        """The process that reads and writes documents."""
        return DocumentProcess()

    @functools.cached_property
    def documents(self) -> SideThread:
        """The thread that waits for this process, one document at a time."""
        return SideThread()

    def start(self) -> None:
        """Start the translating threads."""
        self._worker.start()

    async def warm_up(self) -> None:
        """Translate a word in each direction, which loads everything that is loaded on first use."""
        await asyncio.to_thread(identifier)
        for direction in self.models.directions.values():
            deadline = time.monotonic() + self.limits.file_seconds
            await self._one_way(direction, [Line("a")], Options(direction.search), deadline, 1)
        self.is_ready = True

    def close(self) -> None:
        """Translate the waiting jobs and stop the threads."""
        self.document_process.close()
        self.is_stuck = not self._worker.close()

    async def sources(self, source: str, target: str, texts: Sequence[str]) -> list[Detected]:
        """Return the language of each text, which is detected if `source` is `auto`.

        target: a language of the models. Raises Refusal if the source is unknown, or a text is probably in no language
        that can be translated into the target.
        """
        if source != AUTO:
            return [Detected(self.models.language(source), 100.0)] * len(texts)
        # about 0.2 ms for each text, 5 ms with 200 languages
        return await aside(1000 * len(texts), self._detect, texts, target)

    def _detect(self, texts: Sequence[str], target: str) -> list[Detected]:
        """Return the language of each text: the most probable one with a route to the target, or the target itself.

        A text of up to `LONG` characters is identified with the beginnings of the two texts before and after it that
        are in its script. Raises Refusal if a longer one is probably in another language, or any in another script.
        """
        possible = [source for source in self.models.languages if self.models.route(source, target)]
        texts = [re.sub("<[^<>]*>", "", text) for text in texts]  # tags are in Latin script
        detected = []
        for number, text in enumerate(texts):
            script = script_of_text([text], 0.9)  # None if scripts are mixed: the text is not refused
            evidence = [text]
            least = LEAST_CONFIDENCE
            if len(text) <= LONG:
                nearby = texts[max(0, number - 2) : number + 3]
                evidence = [near[:LONG] for near in nearby if script in (None, script_of_text([near], 0))]
                least = 0
            best = detect("\n".join(evidence), [*possible, target])[0]  # the first one of equally probable ones
            if script and best.confidence <= least:
                raise Refusal(
                    400,
                    f"text {number + 1} is probably in no language that can be translated into {target}; set source",
                )
            detected.append(best)
        return detected

    async def translate(
        self, texts: Sequence[str], source: str, target: str, asked: TextOptions, seconds: float
    ) -> list[list[Translation]]:
        """Translate each text into up to `asked.n_best` translations, best first.

        seconds: time limit. Texts in the target language are returned unchanged. Raises Refusal.
        """
        if source == target:
            return [[Translation(text)] for text in texts]
        route = self.route(source, target)
        options = self._options(route, asked)
        deadline = time.monotonic() + seconds
        size = sum(map(len, [*texts, *asked.terms, *asked.terms.values()])) + len(texts) * (1 + len(asked.prefix))
        tm = route[0].tm if asked.tm and asked.to is None and len(route) == 1 else None
        try:
            lines = await aside(size, lines_of, texts, asked, tm)
        except DataError as error:
            raise invalid(error) from error
        if asked.terms:
            numbers = await in_portions(size, lines, _numbers_of_terms)
            if max(numbers, default=0) > TERMS_OF_LINE or sum(numbers) > asked.most_terms:
                most = f"{TERMS_OF_LINE} times in a line, {asked.most_terms} in a request"
                raise Refusal(400, f"terms: occur too often; the maximum is {most}")
        if len(route) > 1:
            tags = {} if asked.tags is None else {"tags": options.search.tags}
            searches = [*(leg.search.model_copy(update=tags) for leg in route[:-1]), options.search]
            *searches, search = searches_by_leg(route, searches)
            options = replace(options, search=search)
            for direction, search in zip(route, searches, strict=False):  # prefix and terms apply to the last direction
                plain = [replace(line, prefix="", glossary=None) for line in lines]
                by_line = await self._one_way(direction, plain, Options(search), deadline, size)
                lines = [replace(line, text=best.text) for line, (best, *_) in zip(lines, by_line, strict=True)]
        by_line = await self._one_way(route[-1], lines, options, deadline, size)
        return await aside(size * asked.n_best, joined, texts, by_line)

    def route(self, source: str, target: str) -> list[Translator]:
        """Return the successive directions from source to target. Raises Refusal if there is no route."""
        route = self.models.route(source, target)
        if route is None:
            into = f"{language_name(target)} ({target})"
            out_of = f"{language_name(source)} ({source})"
            raise Refusal(400, f"{into} is not available as a target language from {out_of}")
        return route

    def _options(self, route: Sequence[Translator], asked: TextOptions) -> Options:
        """Return the options for the last direction of a route. Raises Refusal if unsupported or not allowed."""
        last = route[-1]
        is_direct = len(route) == 1
        languages = f"from {last.source} to {last.target}"
        if asked.terms and not is_direct:
            raise Refusal(400, f"terms: not supported for translations through {last.source}")
        if asked.terms and last.native is None:
            raise Refusal(400, f"terms: not supported {languages}")
        if asked.confidence and is_direct and not last.has_confidence:
            raise Refusal(400, f"confidence: not calibrated {languages}")
        changes = dict(asked.search)
        self._check_allowed(changes)
        if asked.to is not None:
            changes["to"] = asked.to
        if asked.tags is not None:
            changes["tags"] = asked.tags
        try:
            search = last.search_settings(changes, "request") if changes else last.search
        except ConfigError as error:
            raise invalid(error) from error
        if asked.n_best > search.beam:
            raise Refusal(400, f"n_best: must be at most the beam, {search.beam}")
        return Options(
            search, asked.n_best, asked.alignment and is_direct and last.aligns, asked.confidence and is_direct
        )

    def _check_allowed(self, changes: Mapping[str, object]) -> None:
        """Raise Refusal unless clients may change these search settings to these values."""
        for name, value in changes.items():
            if name not in self.allowed:
                known = ", ".join(self.allowed) or "none"
                raise Refusal(400, f"search.{name}: cannot be changed on this server; allowed settings: {known}")
            most = self.allowed[name]
            if name == "protect" and isinstance(value, list):  # regular expressions may take arbitrarily long
                raise Refusal(400, "search.protect: must be true, false or placeholders on this server")
            if most is not None and not (isinstance(value, (int, float)) and value <= most):
                raise Refusal(400, f"search.{name}: must be at most {most:g} on this server")

    async def _one_way(
        self, direction: Translator, lines: Sequence[Line], options: Options, deadline: float, size: int
    ) -> list[list[Translation]]:
        """Return the translations of lines in one direction; equal and cached lines are not translated again, except in
        context.

        size: the total size of the lines; see `aside`.
        """
        keys, known, unknown = await aside(size, self._look_up, direction, lines, options)
        if unknown:
            new_lines = [*unknown.values()]
            try:
                costs = await in_portions(size, new_lines, functools.partial(direction.costs, options=options))
            except (ConfigError, DataError) as error:
                raise invalid(error) from error
            job = Job(direction, options, new_lines, costs, deadline)
            by_line = await asyncio.wrap_future(self._worker.submit(job))
            new = dict(zip(unknown, by_line, strict=True))
            await aside(size, self._keep, direction, new_lines, new, not options.search.context)
            known |= new
        return [known[key] for key in keys]

    def _look_up(
        self, direction: Translator, lines: Sequence[Line], options: Options
    ) -> tuple[list[_Key], dict[_Key, list[Translation]], dict[_Key, Line]]:
        """Return the cache keys of lines, the translations of blank and cached lines, and the remaining lines."""
        keys = [_key(direction, line, options, number) for number, line in enumerate(lines)]
        known = {}
        unknown = {}
        for key, line in zip(keys, lines, strict=True):
            cached = None
            if options.search.context:  # in which blank lines end documents
                pass
            elif is_blank(line.text):
                cached = BLANK_RESULT
            elif not options.search.sample:
                cached = self._cache.get(key)
            if cached is None:
                unknown[key] = line
            else:
                known[key] = cached
        self.metrics.cached.labels("yes").inc(sum(key in known for key in keys))
        self.metrics.cached.labels("no").inc(len(unknown))
        return keys, known, unknown

    def _keep(
        self, direction: Translator, lines: Sequence[Line], new: Mapping[_Key, list[Translation]], is_cached: bool
    ) -> None:
        """Count the new translations of lines, and add them to the cache if `is_cached`."""
        n_characters = sum(len(line.text) for line in lines)
        self.metrics.characters.labels(f"{direction.source}-{direction.target}").inc(n_characters)
        if is_cached:
            for key, translations in new.items():
                self._cache.put(key, translations, memory(key, translations))


_Key = tuple[str, str, str, str, str, str, str, int, bool]


def _numbers_of_terms(lines: Sequence[Line], _: int) -> list[int]:
    """Return the number of occurrences of terms in each line, which are not counted far beyond the maximum."""
    occurrences = (line.glossary.spans(line.text) for line in lines if line.glossary is not None)
    return [len([*itertools.islice(of_line, TERMS_OF_LINE + 1)]) for of_line in occurrences]


def _key(direction: Translator, line: Line, options: Options, number: int) -> _Key:
    """Return the cache key of a line; with sampling and in context, it includes `number`, since the translations of
    equal lines differ."""
    terms = line.glossary.fingerprint if line.glossary is not None else ""
    place = number if options.search.sample or options.search.context else 0
    has_memory = line.tm is not None
    return (
        direction.source, direction.target, options.key, line.text, line.flag, line.prefix, terms, place, has_memory,
    )  # fmt: skip
