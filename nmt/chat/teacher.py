"""A language model as teacher: it translates lines, each of which is asked for once, checked and kept.

In the directory of a recipe, answers.db has all answers, rejected.tsv the lines without a good one, with the reason and
the last answer, and teacher.json the record of the model.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from multiprocessing.pool import ThreadPool
from pathlib import Path

from nmt.chat.answers import REFUSED, UNPLACED, Answer, Answers, Totals
from nmt.chat.checks import Checks, without_thoughts
from nmt.chat.prompt import NUMBERED, SIMILARITY, Prompter, divided, read_prompt
from nmt.chat.protocol import INVALID, POLL, Client, Question, status_of
from nmt.chat.settings import ChatOptions
from nmt.console import Progress, amount, say
from nmt.data.settings import DataConfig
from nmt.data.sources import TeacherRecord
from nmt.errors import ConfigError, DataError, StoppedError
from nmt.files.document import document_text, read_document
from nmt.files.write import replace_file
from nmt.languages.directions import sides_of
from nmt.prepare.cleaning.cleaner import LineCleaner
from nmt.prepare.cleaning.counts import REASONS
from nmt.process import Interrupted, stopping
from nmt.search.settings import SearchConfig
from nmt.text.glossaries import read_glossary
from nmt.text.lines import read_lines
from nmt.translate.loading import Translator
from nmt.translate.mbr import least_risk
from nmt.translate.memory_files import read_memory

SAID_EVERY = 60.0
"""Seconds between two reports of the progress where there is no terminal."""
MOST_ERRORS = 5
"""Number of refused requests in succession, after which the reason is not a single line."""
NO_CREDIT = 402
SERVER_ERROR = 500
SAMPLING_TEMPERATURE = 0.7
"""The temperature of several candidates."""


class ChatTeacher:
    """A language model that translates in one direction."""

    license = None
    """The provider's terms are in the record instead."""
    after_stop = "; all answers are kept, and the same command continues"
    """What messages say about the answers so far, if the work stops."""

    def __init__(self, options: ChatOptions, data: DataConfig, direction: str) -> None:
        """Read the files of the options. data: the settings of the text, whose cleaning is applied.

        Raises ConfigError, and DataError if a file cannot be read.
        """
        if data.has_several_directions:
            raise ConfigError("--teacher-url: translates in one direction, so the config must have data.direction")
        self.options = options
        self.name = options.teacher_model
        """The language model, for messages."""
        languages = src, tgt = sides_of(direction)
        glossary = None if options.glossary is None else read_glossary(options.glossary, tgt)
        memory = read_memory(options.tm, src, tgt) if options.tm else None
        if memory is not None:
            memory.use_for(SIMILARITY, SearchConfig())
        self.prompter = Prompter(read_prompt(options.prompt), languages, glossary, memory)
        self._checks = Checks(data, languages)
        # the forms of letters are not known yet
        repair = [name for name in data.clean.repair or () if name != "letters"]
        clean = data.clean.model_copy(update={"repair": repair})
        self._cleaner = LineCleaner(data.model_copy(update={"clean": clean}), src, ())
        self._scorer: Translator | None = None
        if options.scorer is not None:
            self._scorer = Translator.load_for(direction, "--scorer", [options.scorer])
        try:
            read, written = map(float, (options.price or "0,0").split(","))
            self._prices = read, written
            fields = json.loads("\n".join(read_lines(options.request)) if options.request else "{}")
            temperature = SAMPLING_TEMPERATURE if options.candidates > 1 else 0.0
            self._client = Client(options.teacher_url, {"model": self.name, "temperature": temperature}, {**fields})
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"--price must be the prices of a million tokens read and written, such as 0.1,0.4, and --request a "
                f"file with a JSON object: {error}"
            ) from None
        self.settings = {
            "direction": direction,
            "model": self.name,
            "prompt": self.prompter.template,
            "request": fields,
            "scorer": self._scorer and str(self._scorer.origin),
            "glossary": glossary and glossary.fingerprint,
            "tm": memory and memory.fingerprint,
            "max_chars": data.max_chars,
            "max_ratio": data.max_ratio,
            "clean": data.clean.model_dump(mode="json", exclude_none=True),
            **options.model_dump(include={"lines_per_request", "candidates", "unchecked"}),
        }
        """What determines the translations, as JSON values."""
        self._n_lines = self._n_done = self._n_asked = self._n_errors = 0

    def data_directory(self, data: DataConfig, otherwise: str) -> Path:  # noqa: ARG002
        """Return the data directory of the configuration."""
        return data.directory

    @contextmanager
    def opened(self, recipe: Path | None, n_lines: int) -> Iterator[None]:
        """Be ready to translate, and keep all answers in the directory of a recipe; None keeps nothing. SIGINT, SIGTERM
        and SIGHUP stop it when the requests under way are answered.

        n_lines: the number of lines of the text, for the progress. Raises DataError if answers cannot be kept.
        """
        path = ":memory:" if recipe is None else recipe / "answers.db"
        try:
            with closing(Answers(path)) as self._answers, ThreadPool(self.options.parallel) as self._pool:
                self.used = self._answers.totals()
                self._n_lines = n_lines
                self._began = self._said = time.monotonic()
                self._rejected = list[str]()
                with stopping(self._client.stop):
                    yield
                if recipe is not None and self._rejected:
                    replace_file(recipe / "rejected.tsv", "".join(self._rejected))
        except sqlite3.Error as error:
            raise DataError(f"{path}: the answers cannot be kept or read: {error}") from error

    def record(self, recipe: Path, n_lines: int) -> TeacherRecord:
        """Return the record for the settings of the corpus, which is made only once. n_lines: the number of
        translations. Raises DataError."""
        path = recipe / "teacher.json"
        if not path.is_file():
            with self.opened(recipe, 0):
                used = self.used
            record = TeacherRecord(
                model=used.models or self.name,
                host=self._client.host,
                prompt=self.prompter.template,
                temperature=self._client.temperature,
                date=" to ".join(dict.fromkeys(filter(None, (used.first, used.last)))),
                lines=n_lines,
                tokens=used.read + used.written,
                terms=self.options.terms or "",
            )
            replace_file(path, document_text(record))
        return read_document(path, TeacherRecord, DataError)

    def cost(self, used: Totals) -> float:
        """Return the cost of tokens."""
        return (used.read * self._prices[0] + used.written * self._prices[1]) / 1e6

    def spent(self, used: Totals) -> str:
        """Format the numbers of tokens and their cost."""
        cost = f", cost {self.cost(used):,.4f}" if self.options.price else ""
        return f"{used.read:,} tokens read and {used.written:,} written{cost}"

    def asked(self, line: str) -> tuple[str, str | None]:
        """Return the text to translate for a line, repaired, and the reason why it is not asked for; None if it is."""
        text = self._cleaner.repaired(line.strip())
        reason = self._cleaner.reason(text)
        return text, reason and f"not translated: {REASONS[reason]}"

    def translations(self, lines: Sequence[str], first: int, progress: Progress) -> Iterator[list[str]]:  # noqa: ARG002
        """Yield a list with the translation of each line, in order; it is empty if none is good.

        Equal lines are asked for once, and none of those that are already answered. Raises DataError if the server
        does not answer, StoppedError if the process should stop or a limit is reached.
        """
        asked = {line: self.asked(line) for line in dict.fromkeys(lines)}
        texts = dict.fromkeys(text for text, reason in asked.values() if reason is None)
        questions = [*self._questions(texts)]
        self._advance(len(lines) - sum(len(question.lines) for question in questions if not question.number), progress)
        is_first = True
        while questions:
            failure: Exception | None = None
            limit = self._limit_reached()
            for question, result in self._pool.imap_unordered(self._answer, [] if limit else questions):
                error = self._received(question, result)  # answers are kept after a failure, too
                failure = failure or error
                limit = self._limit_reached()
                if failure or limit:
                    self._client.stop.signal = str(failure or limit)  # no other request begins
                self._n_asked += len(question.lines)
                self._advance(len(question.lines) if is_first and not question.number else 0, progress)
            is_first = False
            questions = [*self._questions(texts)]
            if limit is not None and questions:
                failure = limit
            if isinstance(failure, StoppedError):
                raise StoppedError(f"{failure}; {self.spent(self.used)} so far{self.after_stop}")
            if failure is not None:
                raise failure
        for line in lines:
            text, reason = asked[line]
            good = [] if reason else [answer for answer, problem in self._outcomes(text) if problem is None]
            yield [self._best(text, good)] if good else []

    def reason(self, line: str) -> str | None:
        """Return why a line has no translation, and note the line in `rejected`; None if it has one."""
        text, reason = self.asked(line)
        outcomes = [] if reason else self._outcomes(text)
        if reason or not outcomes or any(problem is None for _, problem in outcomes):
            return reason
        last, problem = outcomes[-1]
        self._rejected.append("\t".join(" ".join(cell.split()) for cell in (str(problem), line, last)) + "\n")
        return f"left out: {problem}"

    def _best(self, text: str, answers: Sequence[str]) -> str:
        """Return the best of the good answers to a text."""
        if self._scorer is None:
            return answers[least_risk(answers)]
        scored = self._scorer.score([(text, answer) for answer in answers])
        scores = [pair.score for pair in scored]
        return answers[scores.index(max(scores))]

    def _outcomes(self, text: str) -> list[tuple[str, str | None]]:
        """Return the checked answers to a text, with the reason to reject each."""
        outcomes = list[tuple[str, str | None]]()
        for answer in self._answers.of(text).values():
            line = " ".join(without_thoughts(answer.text).split())
            if self.options.unchecked and line:
                outcomes.append((line, None))
            elif answer.end != UNPLACED:
                outcomes.append(self._checks.checked(text, answer))
        return outcomes

    def _questions(self, texts: Collection[str]) -> Iterator[Question]:
        """Yield the questions that are not answered yet; a text is asked once more if no answer is good."""
        n = self.options.candidates
        together: dict[int, list[str]] = {number: [] for number in range(n)}
        for text in texts:
            known = self._answers.of(text)
            for number, answer in known.items():
                if answer.end == UNPLACED:
                    yield self._question([text], number)
            missing = together.keys() - known
            for number in missing:
                if NUMBERED.fullmatch(text):  # its own number might be taken for that of the question
                    yield self._question([text], number)
                    continue
                together[number].append(text)
                if len(together[number]) == self.options.lines_per_request:
                    yield self._question(together.pop(number), number)
                    together[number] = []
            reasons = [reason for _, reason in self._outcomes(text)]
            if len(known) == len(reasons) == n and None not in reasons:
                yield self._question([text], n, str(reasons[-1]))
        for number, rest in together.items():
            if rest:
                yield self._question(rest, number)

    def _question(self, lines: Sequence[str], number: int, rejected: str = "") -> Question:
        prompt = self.prompter.prompt(lines, rejected, self._client.has_format)
        limit = 256 + 4 * sum(len(line.encode()) + 8 for line in lines)
        return Question(tuple(lines), number, prompt, 8 * limit if rejected else limit)  # perhaps it was cut off

    def _answer(self, question: Question) -> tuple[Question, Answer | Exception]:
        """Return the answer to a question, or the error, in a thread."""
        try:
            self._client.stop.poll()
            return question, self._client.ask(question)
        except Exception as error:  # raised again in the main thread
            return question, error

    def _received(self, question: Question, result: Answer | Exception) -> Exception | None:
        """Keep an answer, and return the error that ends the work, if there is one."""
        match result:
            case Interrupted():
                return StoppedError(f"stopped: {self._client.stop.reason}")
            case DataError() if self._n_errors < MOST_ERRORS and (
                status_of(result) in INVALID or (status_of(result) == SERVER_ERROR and self.used.read)
            ):
                say(f"{result}; the text was {question.lines[0][:60]!r}")
                self._n_errors += 1
                if not self.used.read:  # perhaps it refuses all requests; the line is asked again
                    return None
                result = Answer("", REFUSED)
            case DataError() if (
                status_of(result) == NO_CREDIT
                or status_of(result) >= 429
                or getattr(result.__cause__, "may_pass", False)
            ):
                return StoppedError(str(result))
            case Exception():
                return result
            case _:
                self._n_errors = 0
        end = result.end
        texts: list[str] | None = [result.text]
        n = len(question.lines)
        if n > 1:
            texts = divided(without_thoughts(result.text), n) if end == "stop" else None
            end = UNPLACED if texts is None else end
        parts = [Answer(text, end) for text in texts or [""] * n]
        parts[0] = result._replace(text=parts[0].text, end=end)
        self._answers.keep(question.number, dict(zip(question.lines, parts, strict=True)))
        self.used = self.used.plus(result)
        return None

    def _limit_reached(self) -> Exception | None:
        """Return the error for the option whose limit is reached; None if there is none."""
        tokens = self.used.read + self.used.written
        limits = {
            "max-tokens": (self.options.max_tokens, tokens),
            "max-cost": (self.options.max_cost, self.cost(self.used)),
        }
        for name, (most, used) in limits.items():
            if most is not None and used >= most:
                return StoppedError(f"--{name} {most:g} is reached; raise it to go on")
        return None

    def _advance(self, n: int, progress: Progress) -> None:
        """Count lines, and show rate, tokens and cost: beside the progress, or from time to time without a terminal."""
        self._n_done += n
        now = time.monotonic()
        status = f"{self._n_asked / max(now - self._began, POLL):.1f} lines/s, {self.spent(self.used)}"
        progress.add(n)
        progress.describe(f"translating, {status}")
        if now - self._said >= SAID_EVERY and not sys.stderr.isatty():
            self._said = now
            share = self._n_done / max(1, self._n_lines)
            say(f"{self._n_done:,} of {amount(self._n_lines, 'line')} ({share:.0%}), {status}")
