"""Translation of the lines of a file or a stream, with files of constraints and alignments.

`translate_in_parts` translates a large file by several workers, and can be resumed after an interruption. A part is one
window of `translate_file`, whose lines are sorted and batched together, so translations do not depend on which worker
translates which part. Parts and their translations are stored in a folder next to the output file until it is complete.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import islice, repeat
from pathlib import Path
from typing import IO

import torch
from pydantic import BaseModel, TypeAdapter

from nmt.config import Config
from nmt.console import Progress, amount, is_typed, say
from nmt.console import n_lines as count_lines
from nmt.documents import refuse_document
from nmt.errors import ConfigError, DataError
from nmt.figures.attention import check_picture, draw_attention, save_picture
from nmt.files.write import open_output, refuse_overwriting, work_directory, writing
from nmt.layout import RunDir
from nmt.model.device import float32_library, pick_device, use_float32_library
from nmt.model.weights import weights_fingerprint
from nmt.runs.model import ModelRef, Saved, choose_precision, open_ensemble
from nmt.search.forced import ForcedDecoder, with_cross_attention
from nmt.search.settings import SearchConfig
from nmt.tasks.perform import TEXT, Json, Task, TaskRunner, join, run_all
from nmt.text.constraints import Applied, Glossary, constraint_spans, lost
from nmt.text.formats import other_format
from nmt.text.glossaries import read_glossary
from nmt.text.ids import UNK
from nmt.text.lines import beginning, read_lines, windows
from nmt.text.profiles import Profiles, checked
from nmt.translate.align import alignments, pharaoh
from nmt.translate.loading import Translator
from nmt.translate.memory import MATCH_KINDS, TranslationMemory
from nmt.translate.score import EOS_PIECE, scored_line
from nmt.translate.segment import MAX_PIECES_FACTOR
from nmt.translate.types import WINDOW, Line, Options, Part, Translation, check_search

MAX_NUMBERS = 10
"""Maximum number of line numbers in a warning."""


@dataclass(frozen=True)
class TranslationFiles:
    """Optional input and output files of a translation; line n of a file with lines belongs to line n of the text."""

    prefixes: Path | None = None
    """Input file of prefixes of the translations; a blank line has no effect."""
    terms: Path | None = None
    """Input file of tab-separated terms that the translations must contain; a blank line has no effect."""
    glossary: Path | None = None
    """Input file of terms with their translations, which apply to the whole text; see `read_glossary`."""
    tm: tuple[str, ...] = ()
    """Input files of a translation memory; see `nmt.translate.memory_files.read_memory`."""
    alignments: Path | None = None
    """Output file for word alignments."""
    attention: Path | None = None
    """Output file for a picture of the attention weights of the first line that is not blank."""
    scores: bool = False
    """Whether to write scores beside the translations."""
    as_text: bool = False
    """Whether standard input may contain a document, whose lines are translated as they are."""
    text: str | None = None
    """Text to translate instead of standard input."""


def translate_file(
    translator: Translator,
    source: Path | str,
    target: Path | str,
    options: Options | None = None,
    files: TranslationFiles | None = None,
) -> None:
    """Translate the lines of a file, or of standard input (`-`), into a file or to standard output (`-`).

    Output line n is the translation of input line n. With `files.scores`, or `n_best` above 1, every translation has a
    line of four tab-separated columns: number of the source line (from 1), score, log-probability, translation; best
    first. With `confidence`, there is a column before the translation with it, empty for a blank line.
    Lines are written to standard output as soon as they are translated. A file is written as F.part and renamed.
    Warnings are counted and printed to standard error at the end.
    Raises ConfigError for unsupported settings, DataError if the input is missing, not UTF-8 or, on standard input
    without `files.as_text`, a document, if `prefixes` or `terms` has another number of lines, or if an output cannot be
    written.
    """
    options = options or Options(translator.search)
    files = files or TranslationFiles()
    search = options.search
    has_terms = files.terms is not None or (files.glossary is not None and not search.inline_terms)
    translator.check(search, options.n_best, has_terms=has_terms)
    inputs = source, files.prefixes, files.terms, files.glossary, *files.tm
    refuse_overwriting((target, files.alignments, files.attention), inputs)
    glossary = read_glossary(files.glossary, translator.conventions.tgt) if files.glossary is not None else None
    memory = translator.memory(files.tm, search) if files.tm else None
    decoder = _attending_decoder(translator, search, files)
    if options.confidence:
        translator.estimator  # noqa: B018 (raises before anything is written)
    sinks = list[Sink]()
    n_lines = 0
    with ExitStack() as opened:
        sinks.append(TranslationSink(opened.enter_context(open_output(target)), options, files.scores))
        if decoder is not None and files.alignments is not None:
            sinks.append(_Alignments(opened.enter_context(open_output(files.alignments)), translator, decoder))
        if decoder is not None and files.attention is not None:
            sinks.append(_Picture(files.attention, translator, decoder))
        if memory is not None:
            sinks.append(_UnusedMemory(files))
        if glossary is not None:
            sinks.append(_AppliedTerms(Applied(glossary, translator.target), search))
        sinks.append(Warnings())
        progress = opened.enter_context(progress_between("translating", source, target))
        windows_of_text = checked(_windows(source, files), translator.tokenizers.profiles, translator.source)
        for lines in _with_constraints(windows_of_text, files, glossary, memory):
            for _ in translate_into(sinks, translator, lines, options, n_lines, progress):
                pass
            n_lines += len(lines)
    for sink in sinks:
        for message in sink.finish():
            say(message)


def _attending_decoder(translator: Translator, search: SearchConfig, files: TranslationFiles) -> ForcedDecoder | None:
    """Return the decoder that computes the attention of translations; None if no file needs it. Raises DataError for a
    picture of an unknown format, ConfigError if there is no attention."""
    if files.attention is not None:
        check_picture(files.attention)
    if files.alignments is None and files.attention is None:
        return None
    if translator.first is not None:
        raise ConfigError("--via: not available with --alignments and --attention")
    decoder = translator.forced_decoder(search)
    with_cross_attention(decoder.models)
    return decoder


def _windows(source: Path | str, files: TranslationFiles) -> Iterable[list[str]]:
    """Return the lines to translate, some at a time."""
    if files.text is not None:
        return [files.text.split("\n")]
    return input_windows(source, None if files.as_text else refuse_document)


def _with_constraints(
    windows: Iterable[list[str]], files: TranslationFiles, glossary: Glossary | None, memory: TranslationMemory | None
) -> Iterator[list[Line]]:
    """Yield the lines of a text, in windows, with their constraints.

    Raises DataError if the files of prefixes and terms have another number of lines.
    """
    paths = (files.prefixes, files.terms)
    columns = [repeat("") if path is None else read_lines(path) for path in paths]
    for window in windows:
        rows = [list(islice(column, len(window))) for column in columns]
        for path, of_file in zip(paths, rows, strict=True):
            if len(of_file) < len(window):
                raise DataError(f"{path}: has fewer lines than the text; they must pair line by line")
        yield [
            Line(text, prefix, tuple(filter(None, map(str.strip, row.split("\t")))), glossary, memory)
            for text, prefix, row in zip(window, *rows, strict=True)
        ]
    for path, column in zip(paths, columns, strict=True):
        if path is not None and next(column, None) is not None:
            raise DataError(f"{path}: has more lines than the text; they must pair line by line")


# --- what is written and counted ------------------------------------------------------------------


class Sink(ABC):
    """Takes each line of a text with its translations, in order."""

    @abstractmethod
    def add(self, number: int, line: Line, translations: Sequence[Translation]) -> None:
        """Take line `number` (from 1) with its translations, best first."""

    def flush(self) -> None:  # noqa: B027  (most sinks have nothing to write then)
        """Write what was taken; called after some lines."""

    def finish(self) -> Iterable[str]:
        """Return messages for the user; called after the last line, when all files of lines are complete."""
        return ()


def translate_into(
    sinks: Sequence[Sink],
    translator: Translator,
    lines: Sequence[Line],
    options: Options,
    first: int,
    progress: Progress | None = None,
) -> Iterator[list[Translation]]:
    """Translate lines, give each of them to the sinks, and yield its translations.

    first: the number of the first line, from 0.
    """
    by_line = translator.translate_window(lines, options, first, progress)
    for number, (line, translations) in enumerate(zip(lines, by_line, strict=True), start=first + 1):
        for sink in sinks:
            sink.add(number, line, translations)
        yield translations
    for sink in sinks:
        sink.flush()


@dataclass
class TranslationSink(Sink):
    """A sink that writes a line for each translation, or four columns; see `translate_file`."""

    out: IO[bytes]
    options: Options
    scores: bool
    n: int = 0
    """Number of lines written."""

    def add(self, number: int, line: Line, translations: Sequence[Translation]) -> None:  # noqa: ARG002
        self.out.writelines(self._row(number, translation) for translation in translations)
        self.n += len(translations)
        self.out.flush()

    def _row(self, number: int, translation: Translation) -> bytes:
        row = translation.text
        if self.options.confidence:
            expected = "" if translation.confidence is None else f"{translation.confidence.chrf:.1f}"
            row = f"{expected}\t{row}"
        if self.scores or self.options.n_best > 1 or self.options.confidence:
            row = scored_line(number, translation.score, translation.log_prob, row)
        return f"{row}\n".encode()


@dataclass
class _Alignments(Sink):
    """A sink that writes the aligned words of each line."""

    out: IO[bytes]
    translator: Translator
    decoder: ForcedDecoder
    texts: list[str] = field(default_factory=list)
    """Lines that are not yet aligned."""
    best: list[Translation] = field(default_factory=list)

    def add(self, number: int, line: Line, translations: Sequence[Translation]) -> None:  # noqa: ARG002
        self.texts.append(line.text)
        self.best.append(translations[0])

    def flush(self) -> None:
        src, tgt = self.translator.tokenizers.sides(self.translator.conventions.direction)
        of_lines = alignments(self.decoder, src, tgt, self.texts, self.best)
        self.out.writelines(f"{pharaoh(pairs)}\n".encode() for pairs in of_lines)
        self.texts.clear()
        self.best.clear()


@dataclass
class _Picture(Sink):
    """A sink that draws the attention weights of the first part of a text that the model has read."""

    path: Path
    translator: Translator
    decoder: ForcedDecoder
    part: Part | None = None

    def add(self, number: int, line: Line, translations: Sequence[Translation]) -> None:  # noqa: ARG002
        if self.part is None:
            self.part = next((part for part in translations[0].parts if part.match != "copied"), None)

    def finish(self) -> Iterable[str]:
        """Draw the picture. Raises DataError if no part was read."""
        if self.part is None:
            raise DataError(f"{self.path}: cannot draw attention, since no line of the text has letters to translate")
        ids = self.part.src_ids, self.part.tgt_ids
        [weights] = self.decoder.attention([ids])
        sides = self.translator.tokenizers.sides(self.translator.conventions.direction)
        src, tgt = ([*tokenizer.pieces(of_side), EOS_PIECE] for tokenizer, of_side in zip(sides, ids, strict=True))
        save_picture(draw_attention(src, tgt, weights.numpy(), "Attention, mean of the heads"), self.path)
        return ()


@dataclass
class _UnusedMemory(Sink):
    """A sink that reports a translation memory without any match."""

    files: TranslationFiles
    is_used: bool = False

    def add(self, number: int, line: Line, translations: Sequence[Translation]) -> None:  # noqa: ARG002
        self.is_used = self.is_used or any(part.match in MATCH_KINDS for part in translations[0].parts)

    def finish(self) -> Iterable[str]:
        why = "was not used; it is not for lines with a prefix or constraints, or whose match lacks a glossary term"
        if not (self.files.prefixes or self.files.terms or self.files.glossary):
            why = "has no match for any line"
        return () if self.is_used else [f"the translation memory {why}"]


@dataclass
class _AppliedTerms(Sink):
    """A sink that counts the terms of a glossary."""

    applied: Applied
    search: SearchConfig

    def add(self, number: int, line: Line, translations: Sequence[Translation]) -> None:
        self.applied.add(number, constraint_spans(line.text, self.search, line.glossary), translations[0].text)

    def finish(self) -> Iterable[str]:
        return self.applied.lines()


@dataclass
class Warnings(Sink):
    """A sink that counts the warnings about the translations of a text."""

    counts: dict[str, int] = field(default_factory=dict)
    """Number of lines for each kind of warning: blank, whole, unfinished, split, lost, cut, unknown, and for each kind
    of match."""
    cut: list[int] = field(default_factory=list)
    """Numbers of the first lines that were truncated."""

    def add(self, number: int, line: Line, translations: Sequence[Translation]) -> None:
        """Add the warnings about a line; `number` is its line number, from 1."""
        best = translations[0]
        kinds: dict[str, bool] = {
            "blank": bool((line.prefix.strip() or line.terms) and not best.parts),
            "whole": best.whole,
            "unfinished": not best.finished,
            "split": len(best.parts) > 1,
            "lost": bool(lost(line.text, best.text)),
            **{kind: any(part.match == kind for part in best.parts) for kind in MATCH_KINDS},
            "cut": best.cut,
            "unknown": any(UNK in part.src_ids for part in best.searched),
        }
        self.merge(Warnings({kind: 1 for kind, holds in kinds.items() if holds}, [number] * best.cut))

    def merge(self, later: Warnings) -> None:
        """Add the counts of warnings about later lines."""
        self.counts = {**Counter(self.counts) + Counter(later.counts)}
        self.cut = [*self.cut, *later.cut][:MAX_NUMBERS]

    @classmethod
    def parse(cls, summary: object) -> Warnings:
        """Return warnings from the summary of a task, in which they are as `asdict` returns them."""
        return TypeAdapter(cls).validate_python(summary)

    def finish(self) -> list[str]:
        """Return a message for each kind of warning that occurred."""
        numbers = ", ".join(map(str, self.cut))
        if self.counts.get("cut", 0) > len(self.cut):
            numbers += ", …"
        messages = {
            "unfinished": ("translation", "cut off at the length limit (search.max_length_ratio, max_length_offset)"),
            "exact": ("line", "with exact matches of the translation memory"),
            "adapted": (
                "line",
                "with matches of the translation memory, adapted in numbers, capitals or formatting",
            ),
            "fuzzy": ("line", "translated beside the translation of a similar text"),
            "split": ("line", "split into sentences or shorter parts (search.split)"),
            "lost": (
                "line",
                "whose translation lacks a placeholder, URL or tag; search.protect=placeholders copies the first ten "
                "or so, and [placeholders] all",
            ),
            "whole": ("line", "not split because of required terms; a model trained on single sentences may omit text"),
            "blank": ("blank line", "with a prefix or terms stayed blank"),
            "unknown": ("line", "with characters that the vocabulary lacks, which the model cannot tell apart"),
            "cut": (
                "line",
                "with more pieces than the model supports (model.max_positions, or "
                f"{MAX_PIECES_FACTOR} times data.max_pieces); only the start was translated: {numbers}",
            ),
        }
        return [
            f"{amount(self.counts[kind], noun)} {message}"
            for kind, (noun, message) in messages.items()
            if self.counts.get(kind)
        ]


def progress_between(title: str, source: Path | str, target: Path | str) -> Progress:
    """Return a progress line, which is hidden if output goes to the terminal or input is typed."""
    to_file = str(target) != "-" or Path("/dev/stdout").is_file()
    total = None if str(source) == "-" else count_lines(Path(source))
    return Progress(title, total, shown=to_file and not (str(source) == "-" and is_typed()))


def input_windows(source: Path | str, check: Callable[[str, bytes], None] | None = None) -> Iterator[list[str]]:
    """Yield the lines of a text to translate, `WINDOW` at a time, or fewer if standard input is slow. Raises DataError.

    check: a function that is called with the name and the first bytes of standard input, and may raise DataError.
    """
    if str(source) == "-":
        if sys.stdin is None:
            raise DataError("standard input is closed; specify a file with --input")
        if is_typed() and sys.stderr.isatty():
            say("waiting for lines on standard input; press Ctrl-D on an empty line to finish")
        return windows(sys.stdin.buffer, "standard input", WINDOW, check=check)
    path = Path(source)
    if path.is_file() and (kind := other_format(beginning(path))):
        say(f"warning: {path}: {kind}; its lines are translated as they are")
    lines = read_lines(path)
    return iter(lambda: list(islice(lines, WINDOW)), [])


class Arithmetic(BaseModel):
    """The device, precision and library of matrix products, chosen once because machines may choose differently."""

    device: str
    precision: str
    library: str


class TranslationModels(BaseModel, frozen=True):
    """The models of a translation, described so that every worker opens the same models."""

    model: ModelRef
    precision: str
    """The requested precision: `auto`, float32, bf16 or fp16."""
    fingerprints: tuple[str, ...]
    language: str
    """Language of the text to translate."""

    @classmethod
    def read(cls, model: ModelRef, precision: str = "auto") -> tuple[TranslationModels, Config]:
        """Return the description of a model, and its configuration. Raises what `open_ensemble` raises."""
        saved = open_ensemble(model)
        config = saved[0].config
        resolved = replace(model, paths=tuple(path.resolve() for path in model.paths))
        fingerprints = _fingerprints(saved)
        return cls(model=resolved, precision=precision, fingerprints=fingerprints, language=config.data.src), config

    def open(self) -> list[Saved]:
        """Read the models. Raises DataError if their weights have changed, and what `open_ensemble` raises."""
        saved = open_ensemble(self.model)
        if _fingerprints(saved) != self.fingerprints:
            paths = ", ".join(map(str, self.model.paths))
            raise DataError(f"{paths}: the weights have changed since the start; run the command again")
        return saved


def _fingerprints(saved: Sequence[Saved]) -> tuple[str, ...]:
    return tuple(weights_fingerprint(member.weights.tensors) for member in saved)


class _Request(BaseModel):
    """The settings that all parts share."""

    models: TranslationModels
    arithmetic: Arithmetic
    search: SearchConfig
    n_best: int
    scores: bool


def translate_in_parts(
    engine: TaskRunner,
    models: TranslationModels,
    source: Path,
    target: Path,
    options: Options,
    scores: bool = False,
) -> None:
    """Translate a file into a file as `translate_file` does, on an engine, in parts of `WINDOW` lines.

    Parts that an interrupted earlier call has translated with the same models and settings are read from TARGET.work
    instead of translated again. Raises LockedError if another process writes there, and what `translate_file` raises.
    """
    n_best = options.n_best
    check_search(options.search, n_best)
    refuse_overwriting((target,), (source,))
    if target.is_dir() or not target.parent.is_dir():
        with open_output(target):  # raises an error that names the problem
            pass
    with work_directory(target.with_name(f"{target.name}.work"), "translates") as work:
        of_models = {"models": models.model_dump(mode="json")}
        [choice] = run_all(engine, work, [Task("arithmetic", choose_arithmetic, of_models)])
        arithmetic = Arithmetic.model_validate(choice.summary)
        request = _Request(
            models=models, arithmetic=arithmetic, search=options.search, n_best=n_best, scores=scores or n_best > 1
        ).model_dump(mode="json")
        tasks = _write_parts(work, source, models, request)
        with Progress("translating", len(tasks), "parts") as progress:
            results = run_all(engine, work, tasks, lambda _: progress.add())
        warnings = Warnings()
        for done in results:
            warnings.merge(Warnings.parse(done.summary["warnings"]))
        join(results, target)
    for message in warnings.finish():
        say(message)


def _write_parts(work: Path, source: Path, models: TranslationModels, request: Json) -> list[Task]:
    """Divide the text into files of `WINDOW` lines, and return a task for each.

    Raises DataError if the text cannot be read or is not UTF-8.
    """
    folder = work / "source"
    tasks = list[Task]()
    first = 0
    # runs and exported folders have their tokenizer in the same place
    profiles = Profiles.load(RunDir(models.model.path).tokenizer.profiles)
    with writing(folder):
        folder.mkdir(exist_ok=True)
        for window in checked(input_windows(source), profiles, models.language):
            content = "".join(f"{line}\n" for line in window).encode()
            path = folder / f"{len(tasks):06d}"
            if not (path.is_file() and path.read_bytes() == content):  # an old worker may still read it
                path.write_bytes(content)
            arguments = {"first": first, "request": request}
            version = hashlib.sha256(content).hexdigest()
            tasks.append(Task(f"translated/{path.name}", translate_part, arguments, version))
            first += len(window)
    return tasks


def choose_arithmetic(folder: Path, arguments: Json) -> Json:  # noqa: ARG001 (the signature of tasks)
    """Choose the precision and the library of matrix products on the device that runs the models (a task)."""
    models = TranslationModels.model_validate(arguments["models"])
    device = pick_device("auto")
    saved = models.open()
    precision = choose_precision(saved[0], models.precision, device)
    return Arithmetic(device=device.type, precision=precision, library=float32_library()).model_dump()


def translate_part(folder: Path, arguments: Json) -> Json:
    """Translate a part of the text (a task)."""
    first = arguments["first"]
    request = _Request.model_validate(arguments["request"])
    translator = _translator(request.models, request.arithmetic.device, request.arithmetic.precision)
    use_float32_library(request.arithmetic.library)
    translator.check(request.search, request.n_best)
    # not `read_lines`, which would strip a byte order mark from the first line and \r from the end of lines
    source = folder.parents[1] / "source" / folder.name.partition(".")[0]
    lines = [Line(text) for text in source.read_bytes().decode().split("\n")[:-1]]
    options = Options(request.search, request.n_best)
    warnings = Warnings()
    with (folder / TEXT).open("wb") as out:
        rows = TranslationSink(out, options, request.scores)
        for _ in translate_into([rows, warnings], translator, lines, options, first):
            pass
    return {"rows": rows.n, "warnings": asdict(warnings)}


@functools.lru_cache(maxsize=1)
def _translator(models: TranslationModels, device: str, precision: str) -> Translator:
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "the translation was started with a GPU, and none is available now; remove OUTPUT.work to start again"
        )
    return Translator.of(models.open(), pick_device(device), precision)
