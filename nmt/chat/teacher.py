"""A language model as teacher: it translates lines, each of which is asked for once, checked and kept.

In the directory of a recipe, answers.db has all answers, rejected.tsv the lines without a good one, with the reason and
the last answer, and teacher.json the record of the model.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from nmt.chat.answers import REFUSED, UNPLACED, Answers, Content, Usage
from nmt.chat.checks import Checks, without_thoughts
from nmt.chat.prompt import SIMILARITY, Prompter, divided, read_prompt
from nmt.chat.protocol import Client, Question, estimated_tokens, is_of_request
from nmt.console import Progress, amount, say
from nmt.data.settings import DataConfig
from nmt.data.sources import TeacherRecord
from nmt.errors import ConfigError, DataError, StoppedError
from nmt.files.document import document_text, read_document
from nmt.files.write import replace_file
from nmt.languages.directions import sides_of
from nmt.prepare.cleaning.cleaner import LineCleaner
from nmt.prepare.cleaning.counts import REASONS
from nmt.process import Interrupted, Stop, stopping
from nmt.search.settings import SearchConfig
from nmt.text.glossaries import read_glossary
from nmt.translate.loading import Translator
from nmt.translate.mbr import least_risk
from nmt.translate.memory_files import read_memory

SAID_EVERY = 60.0
"""Seconds between two reports of the progress where there is no terminal."""
MOST_ERRORS = 5
"""Number of errors in succession, after which they are not due to single lines."""
_SAMPLING_TEMPERATURE = 0.7
_POLL = 0.2  # seconds


@dataclass(frozen=True)
class ChatOptions:
    """The options of the commands that ask a language model, by their names."""

    teacher_url: str
    teacher_model: str
    prompt: Path | None = None
    glossary: Path | None = None
    tm: Sequence[str] = ()
    lines_per_request: int = 1
    candidates: int = 1
    scorer: Path | None = None
    request: Path | None = None
    parallel: int = 4
    price: str | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    unchecked: bool = False
    terms: str | None = None
    dry_run: bool = False


class _Job(NamedTuple):
    """A question about lines, and its number for each of them."""

    lines: tuple[str, ...]
    number: int
    question: Question

    @property
    def expected(self) -> tuple[int, int]:
        """The number of tokens that will be read, and that may be written."""
        return estimated_tokens(self.question.prompt), 2 * sum(map(estimated_tokens, self.lines))


@dataclass(frozen=True)
class ChatTeacher:
    """A language model that translates in one direction."""

    options: ChatOptions
    direction: str
    prompter: Prompter
    fields: Mapping[str, object]
    """Further fields of each request."""
    price: tuple[float, float]
    """The price of a token that is read, and of one that is written."""
    checks: Checks
    cleaner: LineCleaner
    scorer: Translator | None

    @classmethod
    def of(cls, options: ChatOptions, data: DataConfig, direction: str) -> ChatTeacher:
        """Return a teacher with the files of its options. data: the settings of the text, whose cleaning is applied.

        Raises ConfigError, and DataError if a file cannot be read.
        """
        languages = src, tgt = sides_of(direction)
        memory = None
        if options.tm:
            memory = read_memory(options.tm, src, tgt)
            memory.use_for(SIMILARITY, SearchConfig())
        prompter = Prompter(
            read_prompt(options.prompt),
            languages,
            None if options.glossary is None else read_glossary(options.glossary, tgt),
            memory,
        )
        scorer = None
        if options.scorer is not None:
            scorer = Translator.load_for(direction, "--scorer", [options.scorer])
        clean = data.clean
        if clean.repair and "letters" in clean.repair:  # the forms are not known yet
            clean = clean.model_copy(update={"repair": [name for name in clean.repair if name != "letters"]})
        cleaner = LineCleaner(data.model_copy(update={"clean": clean}), src, ())
        teacher = cls(
            options, direction, prompter, _fields(options.request), _price(options), Checks(data, languages), cleaner,
            scorer,
        )  # fmt: skip
        teacher.client(Stop())  # errors before anything is written
        return teacher

    @property
    def name(self) -> str:
        """The language model."""
        return self.options.teacher_model

    @property
    def license(self) -> None:
        """None: the terms are in the record."""

    def data_directory(self, data: DataConfig, otherwise: str) -> Path:  # noqa: ARG002
        """Return the data directory of the configuration."""
        return data.directory

    @property
    def settings(self) -> dict[str, object]:
        """What determines the translations, as JSON values."""
        options = self.options
        memory = self.prompter.memory
        glossary = self.prompter.glossary
        return {
            "direction": self.direction,
            "model": options.teacher_model,
            "prompt": self.prompter.template,
            "request": {**self.fields},
            "glossary": None if glossary is None else glossary.fingerprint,
            "tm": None if memory is None else memory.fingerprint,
            "lines_per_request": options.lines_per_request,
            "candidates": options.candidates,
            "scorer": None if self.scorer is None or self.scorer.origin is None else str(self.scorer.origin),
            "unchecked": options.unchecked,
        }

    def client(self, stop: Stop) -> Client:
        """Return a client, whose pauses end when the process should stop. Raises ConfigError or DataError."""

        def sleep(seconds: float) -> None:
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                stop.poll()
                time.sleep(min(left, _POLL))

        options = self.options
        temperature = _SAMPLING_TEMPERATURE if options.candidates > 1 else 0.0
        return Client(options.teacher_url, options.teacher_model, temperature, self.fields, sleep)

    @contextmanager
    def opened(self, recipe: Path | None, n_lines: int) -> Iterator[Asking]:
        """Ask, and keep all answers in the directory of a recipe; None keeps nothing. SIGINT, SIGTERM and SIGHUP stop
        it when the requests under way are answered.

        n_lines: the number of lines of the text, for the progress.
        """
        stop = Stop(work="the requests under way")
        answers = Answers(":memory:" if recipe is None else recipe / "answers.db")
        try:
            with stopping(stop):
                asking = Asking(self, answers, stop, n_lines)
                yield asking
                if recipe is not None and asking.rejected:
                    replace_file(recipe / "rejected.tsv", "".join(asking.rejected))
        finally:
            answers.close()

    def record(self, recipe: Path, n_lines: int) -> TeacherRecord:
        """Return the record for the settings of the corpus, which is made only once. n_lines: the number of
        translations. Raises DataError."""
        path = recipe / "teacher.json"
        if not path.is_file():
            with self.opened(recipe, 0) as asking:
                replace_file(path, document_text(asking.record(n_lines)))
        return read_document(path, TeacherRecord, DataError)

    def cost(self, read: float, written: float) -> float:
        """Return the cost of tokens."""
        return read * self.price[0] + written * self.price[1]

    def spent(self, read: float, written: float, is_estimated: bool = False) -> str:
        """Format a number of tokens and their cost."""
        money = self.cost(read, written)
        cost = f", cost {money:,.2f}" if money >= 1 else f", cost {money:.2g}"
        if self.options.price is None:
            cost = ""
        about = "about " * is_estimated
        return f"{about}{int(read):,} tokens read and {int(written):,} written{cost}"

    def asked(self, line: str) -> tuple[str, str | None]:
        """Return the text to translate for a line, repaired, and the reason why it is not asked for; None if it is."""
        text = self.cleaner.repaired(line.strip())
        reason = self.cleaner.reason(text)
        return text, None if reason is None else f"not translated: {REASONS[reason]}"


@dataclass
class Asking:
    """The work of asking for the translations of a text."""

    teacher: ChatTeacher
    answers: Answers
    stop: Stop
    n_lines: int
    client: Client = field(init=False)
    rejected: list[str] = field(default_factory=list)
    """Rows of rejected.tsv: the reason, the line and the last answer."""

    def __post_init__(self) -> None:
        self.client = self.teacher.client(self.stop)
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._results: SimpleQueue[tuple[_Job, tuple[Content, Usage] | Exception]] = SimpleQueue()
        self._workers = list[Thread]()
        self._errors = list[tuple[_Job, str]]()
        """Jobs in succession that the server has refused."""
        totals = self.answers.totals()
        self._read = totals.read
        self._written = totals.written
        self._is_estimated = totals.is_estimated
        self._n_done = 0
        self._n_asked = 0
        self._began = self._said = time.monotonic()

    @property
    def spent(self) -> str:
        """The number of tokens so far, and their cost."""
        return self.teacher.spent(self._read, self._written, self._is_estimated)

    def translations(self, lines: Sequence[str], first: int, progress: Progress) -> Iterator[list[str]]:  # noqa: ARG002
        """Yield a list with the translation of each line, in order; it is empty if none is good.

        Equal lines are asked for once, and none of those that are already answered. Raises DataError if the server
        does not answer, StoppedError if the process should stop or a limit is reached.
        """
        asked = {line: self.teacher.asked(line) for line in dict.fromkeys(lines)}
        texts = dict.fromkeys(text for text, reason in asked.values() if reason is None)
        jobs = [*self._needed(texts)]
        self._advance(len(lines) - sum(len(job.lines) for job in jobs if job.number == 0), progress)
        is_first = True
        while jobs:
            self._run(jobs, progress, counts=is_first)
            jobs = [*self._needed(texts)]
            is_first = False
        chosen = self._chosen(texts)
        for line in lines:
            text, reason = asked[line]
            yield [chosen[text]] if reason is None and text in chosen else []

    def reason(self, line: str) -> str | None:
        """Return why a line has no translation, and note the line in `rejected`; None if it has one."""
        text, reason = self.teacher.asked(line)
        outcomes = [] if reason else self._outcomes(text)
        reasons = [problem for _, problem in outcomes]
        if reason is not None or None in reasons or not reasons:
            return reason
        row = str(reasons[-1]), line, outcomes[-1][0]
        self.rejected.append("\t".join(" ".join(cell.split()) for cell in row) + "\n")
        return f"left out: {reasons[-1]}"

    def record(self, n_lines: int) -> TeacherRecord:
        """Return what the model is, and has done. n_lines: the number of translations."""
        totals = self.answers.totals()
        options = self.teacher.options
        temperature = self.client.temperature
        return TeacherRecord(
            model=totals.models or options.teacher_model,
            host=self.client.host,
            prompt=self.teacher.prompter.template,
            temperature=float(temperature) if isinstance(temperature, (int, float)) else None,
            date=totals.dates,
            lines=n_lines,
            tokens=totals.read + totals.written,
            terms=options.terms or "",
        )

    def _outcomes(self, text: str) -> list[tuple[str, str | None]]:
        """Return the checked answers to a text, with the reason to reject each."""
        outcomes = []
        for content in self.answers.of(text).values():
            if content.end == UNPLACED:
                continue
            if self.teacher.options.unchecked:
                plain = " ".join((without_thoughts(content.text) or "").split())
                outcomes.append((plain, None if plain else "no text"))
            else:
                outcomes.append(self.teacher.checks.checked(text, content))
        return outcomes

    def _needed(self, texts: Collection[str]) -> Iterator[_Job]:
        """Yield the questions that are not answered yet; a text is asked once more if no answer is good."""
        options = self.teacher.options
        together: dict[int, list[str]] = {number: [] for number in range(options.candidates)}
        for text in texts:
            known = self.answers.of(text)
            unplaced = [number for number, content in known.items() if content.end == UNPLACED]
            for number in unplaced:
                yield self._job([text], number)
            missing = [number for number in together if number not in known]
            for number in missing:
                together[number].append(text)
                if len(together[number]) == options.lines_per_request:
                    yield self._job(together[number], number)
                    together[number] = []
            if not missing and not unplaced and options.candidates not in known:
                reasons = [reason for _, reason in self._outcomes(text)]
                if None not in reasons:
                    yield self._job([text], options.candidates, str(reasons[-1]))
        for number, rest in together.items():
            if rest:
                yield self._job(rest, number)

    def _job(self, lines: Sequence[str], number: int, rejected: str = "") -> _Job:
        prompt = self.teacher.prompter.prompt(lines, self.client.has_format, rejected)
        limit = 256 + 4 * sum(len(line.encode()) + 8 for line in lines)
        if rejected:  # perhaps it was cut off
            limit *= 8
        return _Job(tuple(lines), number, Question(prompt, len(lines), number, limit))

    def _run(self, jobs: Sequence[_Job], progress: Progress, counts: bool) -> None:
        """Send the questions, several at once, and keep each answer. counts: whether they count as progress."""
        for _ in range(self.teacher.options.parallel - len(self._workers)):
            worker = Thread(target=self._work, daemon=True)
            worker.start()
            self._workers.append(worker)
        waiting = list(reversed(jobs))
        running = list[_Job]()
        failure: Exception | None = None
        limit: str | None = None
        while True:
            while waiting and len(running) < len(self._workers) and failure is None and self.stop.reason is None:
                limit = self._limit_reached([*running, waiting[-1]])
                if limit is not None:
                    break
                job = waiting.pop()
                running.append(job)
                self._jobs.put(job)
            if not running:
                break
            job, result = self._results.get()
            running.remove(job)
            try:
                self._keep(job, result)
            except (DataError, Interrupted) as error:
                failure = failure or error
                self.stop.signal = self.stop.signal or "an error"  # ends the pauses of the other requests
            self._n_asked += len(job.lines)
            self._advance(len(job.lines) if counts and job.number == 0 else 0, progress)
        self._flush()
        again = "run the same command again to continue"
        if isinstance(failure, DataError):
            may_pass = getattr(failure.__cause__, "may_pass", False) or is_of_request(failure.__cause__)
            raise StoppedError(f"{failure}; all answers are kept, {again}") if may_pass else failure
        if self.stop.reason is not None:
            raise StoppedError(f"stopped after {self.spent}; {again}")
        if waiting:
            raise StoppedError(f"{limit} is reached: {self.spent}; raise it and {again}")

    def _work(self) -> None:
        """Answer jobs in a thread, which ends with the process."""
        while True:
            job = self._jobs.get()
            try:
                self._results.put((job, self.client.ask(job.question)))
            except Exception as error:  # raised again in the main thread
                self._results.put((job, error))

    def _keep(self, job: _Job, result: tuple[Content, Usage] | Exception) -> None:
        """Keep an answer. Raises the error of a request that was not answered."""
        if isinstance(result, Exception):
            if not isinstance(result, DataError) or not is_of_request(result.__cause__):
                raise result
            self._errors.append((job, str(result)))
            if len(self._errors) == MOST_ERRORS:
                self._errors.clear()
                raise result
            return
        self._flush()
        content, usage = result
        contents = dict.fromkeys(job.lines, content)
        if len(job.lines) > 1:
            whole = without_thoughts(content.text) if content.end == "stop" else None
            texts = divided(whole or "", len(job.lines))
            if texts is None:
                contents = dict.fromkeys(job.lines, Content("", UNPLACED))
            else:
                contents = {line: Content(text, "stop") for line, text in zip(job.lines, texts, strict=True)}
        self.answers.keep(job.number, contents, usage)
        self._read += usage.read
        self._written += usage.written
        self._is_estimated |= usage.is_estimated

    def _flush(self) -> None:
        """Keep the errors of requests, which were due to their lines, since other ones were answered."""
        for job, message in self._errors:
            say(f"{message}: {amount(len(job.lines), 'line')}, such as {job.lines[0][:60]!r}")
            end = UNPLACED if len(job.lines) > 1 else REFUSED
            self.answers.keep(job.number, dict.fromkeys(job.lines, Content("", end)), None)
        self._errors.clear()

    def _limit_reached(self, jobs: Iterable[_Job]) -> str | None:
        """Return the option that does not allow these jobs; None if there is none."""
        options = self.teacher.options
        read, written = map(sum, zip(*(job.expected for job in jobs), strict=True))
        read += self._read
        written += self._written
        if options.max_tokens is not None and read + written > options.max_tokens:
            return f"--max-tokens {options.max_tokens}"
        if options.max_cost is not None and self.teacher.cost(read, written) > options.max_cost:
            return f"--max-cost {options.max_cost:g}"
        return None

    def _advance(self, n: int, progress: Progress) -> None:
        """Count lines, and show rate, tokens and cost: beside the progress, or from time to time without a terminal."""
        self._n_done += n
        now = time.monotonic()
        spent = f"{self._n_asked / max(now - self._began, 1e-3):.1f} a second, {self.spent}"
        progress.add(n)
        progress.describe(f"translating, {spent}")
        if now - self._said >= SAID_EVERY and not sys.stderr.isatty():
            self._said = now
            share = 100 * self._n_done / max(1, self.n_lines)
            say(f"{self._n_done:,} of {amount(self.n_lines, 'line')} ({share:.0f} %), {spent}")

    def _chosen(self, texts: Collection[str]) -> dict[str, str]:
        """Return the translation of each text that has a good one: the best of several candidates."""
        good = {}
        for text in texts:
            if candidates := [answer for answer, problem in self._outcomes(text) if problem is None]:
                good[text] = candidates
        if (scorer := self.teacher.scorer) is not None:
            pairs = [(text, answer) for text, candidates in good.items() for answer in candidates]
            scores = iter([*scorer.score(pairs)])
            ranked = {text: [next(scores).score for _ in candidates] for text, candidates in good.items()}
            return {text: good[text][scored.index(max(scored))] for text, scored in ranked.items()}
        return {text: candidates[least_risk(candidates)] for text, candidates in good.items()}


def _fields(path: Path | None) -> dict[str, object]:
    """Return the further fields of a request. Raises ConfigError unless the file is a JSON object."""
    if path is None:
        return {}
    try:
        fields: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"--request {path}: cannot be read as JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ConfigError(f'--request {path}: must be a JSON object, such as {{"top_p": 0.9}}')
    return fields


def _price(options: ChatOptions) -> tuple[float, float]:
    """Return the price of a token that is read, and of one that is written. Raises ConfigError."""
    if options.price is None:
        return 0.0, 0.0
    try:
        read, written = (float(part) / 1e6 for part in options.price.split(","))
    except ValueError:
        raise ConfigError(
            f"--price {options.price}: must be the prices of a million tokens read and written, such as 0.1,0.4"
        ) from None
    return read, written
