"""Translation of documents in files. Each keeps its format; `nmt serve` translates them in the same way."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from nmt.console import Progress, amount, say
from nmt.documents import FORMATS, Columns, Document, format_of, has_markup, is_translated, read_document
from nmt.documents.names import target_names
from nmt.documents.types import Languages
from nmt.documents.units import OTHER_PLACEHOLDERS, TOO_LONG
from nmt.errors import ConfigError, DataError
from nmt.files.read import checksum
from nmt.files.write import open_output, refuse_overwriting, replace_file, work_directory
from nmt.tasks.perform import Json, Task
from nmt.tasks.processes import InProcess
from nmt.text.constraints import Glossary, lost
from nmt.translate.bilingual import bilingual_content, bilingual_format, read_reviewed, source_language
from nmt.translate.files import Warnings, translate_into
from nmt.translate.loading import Translator
from nmt.translate.memory import TranslationMemory
from nmt.translate.merging import Previous
from nmt.translate.types import Confidence, Line, Options, Translation

TEXTS = 512
"""Number of texts of a document that are translated, and kept for resuming, together."""
Translate: TypeAlias = Callable[[Document], Sequence[Translation]]
Content: TypeAlias = Callable[[Document, Sequence[Translation]], bytes]
"""A function that returns the content of a file, given a document and its translations."""


@dataclass(frozen=True)
class DocumentTranslator:
    """A translator with the options of a translation of documents."""

    translator: Translator
    options: Options
    """Words are aligned only where a document has markup, and if `options.align` is true."""
    glossary: Glossary | None
    tm: TranslationMemory | None

    @property
    def languages(self) -> Languages:
        """The source and target language."""
        return self.translator.source, self.translator.target

    def content(self, document: Document, translations: Sequence[Translation]) -> bytes:
        """Return a document with its translations, and with the language and direction of the target."""
        return document.translated(translations, self.languages)

    def version(self, source: Path) -> tuple[Options, str]:
        """Return the options for a document, and what identifies them, the models, the terms and the segments."""
        options = replace(self.options, align=self.options.align and has_markup(source))
        given = (lines.fingerprint for lines in (self.glossary, self.tm) if lines)
        version = " ".join([self.translator.fingerprint, options.key, *given])
        if options.confidence:
            version += f" {self.translator.estimator.map.model_dump_json()}"
        return options, version

    def translate(self, source: Path, work: Path, is_shown: bool, document: Document) -> list[Translation]:
        """Return the translations of the texts of a document, with counted warnings printed to standard error.

        Texts that an interrupted call has translated with the same models and settings are read from the directory
        `work`. is_shown: whether to show a progress bar. Raises DataError, and ConfigError for unsupported settings.
        """
        texts = document.texts
        options, version = self.version(source)
        warnings = Warnings()
        translated = list[Translation]()
        new = set()
        with Progress(f"translating {source.name}", len(texts), "texts", shown=is_shown) as progress:

            def translate(folder: Path, arguments: Json) -> Json:  # noqa: ARG001 (the signature of tasks)
                lines = [Line(text, glossary=self.glossary, tm=self.tm, flag=flag) for text, flag in arguments["texts"]]
                first = arguments["first"]
                of_part = Warnings()
                results = []
                by_line = translate_into([of_part], self.translator, lines, options, first)
                for best, *_ in progress.track(by_line):
                    results.append((best.text, best.alignment, best.confidence, best.match))
                new.add(first)
                return {"translations": results, "warnings": asdict(of_part)}

            starts = range(0, len(texts), TEXTS)
            flagged = [*zip(texts, document.flags, strict=True)]
            parts = [{"first": first, "texts": flagged[first : first + TEXTS]} for first in starts]
            tasks = [Task("", translate, part, version) for part in parts]
            # named by their content: documents of a folder share the directory
            for _, done in InProcess().run(work, [replace(task, name=task.key) for task in tasks]):
                of_part = done.summary["translations"]
                if len(translated) not in new:
                    progress.add(len(of_part))
                for text, alignment, confidence, match in of_part:
                    expected = confidence and Confidence(*confidence)
                    translated.append(Translation(text, alignment, confidence=expected, match=match))
                warnings.merge(Warnings.parse(done.summary["warnings"]))
        for message in warnings.finish():
            say(f"{source}: {message}")
        return translated


@dataclass(frozen=True)
class Documents:
    """The files that a translation of documents reads and writes.

    Raises ConfigError for files that do not go together, and DataError if an output file is also an input.
    """

    inputs: Sequence[str]
    """One document; with `directory`, several documents and folders."""
    output: str | None = None
    """The file to write, - for standard output."""
    directory: Path | None = None
    """The directory to write to."""
    bilingual: Path | None = None
    """The bilingual file to write; with `directory`, the directory with one for each document, such as a.docx.xlf."""
    reviewed: Path | None = None
    """The bilingual file to read the translations from, or the directory with one for each document."""
    columns: Columns | None = None
    """The columns of a table; with `directory`, of all tables."""
    overwrite: bool = False
    """Whether to translate what an output has already, and to replace outputs that were edited."""
    report: Path | None = None
    """The file to write about the documents, as JSON."""

    def __post_init__(self) -> None:
        if "-" in self.inputs:
            raise ConfigError("--output-dir, --bilingual, --reviewed and --columns need --input F, not standard input")
        review = self.bilingual or self.reviewed
        if self.directory is not None:
            if self.output is not None or (review and review.suffix in (".xlf", ".xliff", ".tmx")):
                raise ConfigError("--output-dir: takes no --output, and --bilingual and --reviewed must be directories")
            if self.reviewed and not self.reviewed.is_dir():
                raise DataError(f"{self.reviewed}: no such directory")
            return
        if len(self.inputs) > 1 or Path(self.inputs[0]).is_dir():
            raise ConfigError("--input: folders and several files are documents, which need --output-dir")
        if review:
            bilingual_format(review)
        if self.bilingual and self.bilingual.exists():
            raise DataError(f"{self.bilingual}: exists, and may contain a review; choose another file, or remove it")
        source = Path(self.inputs[0])
        refuse_overwriting([self._output, self.bilingual, self.report], [source, self.reviewed])
        if self._output not in (None, "-") and Path(str(self._output)).suffix.lower() != source.suffix.lower():
            raise DataError(f"{self._output}: must end in {source.suffix}, since a document keeps its format")
        row = format_of(source)
        is_binary = row is not None and row.is_binary
        if self._output == "-" and is_binary and sys.stdout is not None and sys.stdout.isatty():
            raise DataError(f"{source}: cannot be shown on a terminal; write to a file with --output F{source.suffix}")

    @property
    def _output(self) -> str | None:
        """The document to write: by default standard output, or none if there is a bilingual file."""
        return "-" if self.output is None and self.bilingual is None else self.output

    def write(self, translator: DocumentTranslator | None) -> None:
        """Translate the documents, or build a document from reviewed translations.

        A file appears only when it is complete. Finished work of an interrupted translation is kept in OUTPUT.work, or
        in the directory .work of `directory`, and used by the next call with the same models and settings.

        translator: may be None if there is a reviewed file: then markup keeps its relative position.

        Raises DataError if a document or a reviewed file cannot be read, if they do not belong together, or if a file
        cannot be written, and LockedError if another process translates to the same output.
        """
        if self.directory is not None:
            rows = self._write_all(translator, self.directory)
        else:
            with _work_beside(self._output or str(self.bilingual)) as work:
                row = self._write_one(translator, work, self.bilingual)
            rows = [{"input": self.inputs[0], "output": self._output, **row}]
        if self.report is not None:
            replace_file(self.report, f"{json.dumps(rows, indent=1)}\n")
        if n_failed := sum(row["outcome"] == "failed" for row in rows):
            n = sum("output" in row for row in rows)
            raise DataError(f"{n_failed} of {amount(n, 'document')} not translated")

    def _write_one(
        self, translator: DocumentTranslator | None, work: Path, review: Path | None, in_folder: bool = False
    ) -> Json:
        """Write a document and its bilingual file, unless they are left, and return the row of the report."""
        source = Path(self.inputs[0])
        target = self._output
        outputs = dict[str, Content]()
        if target is not None:
            outputs[target] = translator.content if translator else Document.translated
        if self.reviewed is not None:
            languages = translator.languages if translator else (source_language(self.reviewed), "")
            document = read_document(source, *languages, self.columns)
            return _write(source, document, outputs, partial(_reviewed, self.reviewed, source, translator))
        assert translator is not None, "needed to translate"
        if review is not None:
            outputs[str(review)] = partial(bilingual_content, review, source.name, translator.languages)
        document = read_document(source, *translator.languages, self.columns)
        previous = None
        path = Path(target or "-")
        if in_folder or (document.units and target not in (None, "-") and path.is_file() == path.exists()):
            previous = Previous(
                [*map(Path, outputs)], f"{checksum(source)} {self.columns} {translator.version(source)[1]}"
            )
            if in_folder and (reason := previous.reason_to_stay(bool(document.units), self.overwrite)):
                return {"outcome": reason}
            if path.is_file() and document.units and not (review or self.overwrite):
                previous.merge(document)
        translate = partial(translator.translate, source, work, target != "-")
        return _write(source, document, outputs, translate, previous)

    def _write_all(self, translator: DocumentTranslator | None, directory: Path) -> list[Json]:
        """Write all documents to a directory, and return the rows of the report. Errors of documents are printed."""
        jobs, left_out = self._jobs(directory, translator.languages if translator else ("", ""))
        rows = list[Json]()
        with work_directory(directory / ".work", "translates") as work:
            for target, (source, name) in jobs.items():
                review, reviewed = (path and path / f"{name}.xlf" for path in (self.bilingual, self.reviewed))
                for path in filter(None, (target, review)):
                    path.parent.mkdir(parents=True, exist_ok=True)
                columns = self.columns if getattr(format_of(source), "has_columns", False) else None
                alone = Documents([str(source)], str(target), None, None, reviewed, columns, self.overwrite)
                try:
                    row = alone._write_one(translator, work, review, in_folder=True)
                except DataError as error:
                    say(str(error))
                    row = {"outcome": "failed", "notes": [str(error)]}
                else:
                    if row["outcome"] == "translated":
                        say(f"wrote {target}")
                rows.append({"input": str(source), "output": str(target), **row})
            for row in rows:
                counts = (f", {name.replace('_', ' ')}: {n:,}" for name, n in row.items() if isinstance(n, int) and n)
                say(f"{row['output']}: {row['outcome']}{''.join(counts)}")
            for what, paths in left_out.items():
                say(f"{amount(len(paths), 'file')} {what} left out: {', '.join(paths)}")
                rows += [{"input": path, "outcome": f"left out: {what}"} for path in paths]
        return rows

    def _jobs(
        self, directory: Path, languages: Languages
    ) -> tuple[dict[Path, tuple[Path, str]], Mapping[str, list[str]]]:
        """Return for each file to write in a directory the document and its path in the folder that is given, and the
        files that are left out, by what they are.

        The path of an output is that of the document, with the target language in place of the source. Hidden files and
        those in `directory` are not translated. Raises DataError if two documents would be written to one file, a file
        is also an input, or there are no documents.
        """
        jobs = dict[Path, tuple[Path, str]]()
        left_out = defaultdict[str, list[str]](list)
        written = directory.resolve()
        for given in map(Path, self.inputs):
            folder = given.parent
            paths = [given]
            if given.is_dir():
                folder = given
                paths = sorted(path for path in given.rglob("*") if path.is_file())
            if given.resolve() in written.parents:
                paths = [path for path in paths if written not in path.resolve().parents]
            names = [path.relative_to(folder).as_posix() for path in paths]
            for path, name, named in zip(paths, names, target_names(names, *languages), strict=True):
                # ~$: a lock file of Word; Windows adds two files to folders
                if given.is_dir() and re.search(r"(^|/)(\.|~\$|Thumbs\.db$|desktop\.ini$)", name):
                    continue
                if not named or (given.is_dir() and not is_translated(path)):
                    left_out["of other formats" if named else "in other languages"].append(str(path))
                    continue
                target = directory / named
                if target in jobs:
                    raise DataError(f"{jobs[target][0]} and {path} would both be written to {target}")
                jobs[target] = path, name
        if not jobs:
            raise DataError(f"{', '.join(self.inputs)}: contains no documents ({' '.join(FORMATS)})")
        refuse_overwriting([*jobs], [source for source, _ in jobs.values()])
        return jobs, left_out


def _write(
    source: Path,
    document: Document,
    outputs: Mapping[str, Content],
    translate: Translate,
    previous: Previous | None = None,
) -> Json:
    """Translate a document, write each output with the content that its function returns, and return what is counted.

    previous: keeps a record of the outputs.
    """
    with ExitStack() as opened:  # before translation, to find errors early
        if previous is not None:  # opened first, so that it is replaced last
            if not (folder := previous.at.parent.parent).is_dir():
                raise DataError(f"{folder}: no such directory")
            previous.at.parent.mkdir(exist_ok=True)
            record = opened.enter_context(open_output(previous.at))
        files = [opened.enter_context(open_output(name)) for name in outputs]
        translations = translate(document)
        contents = [content(document, translations) for content in outputs.values()]
        for file, content in zip(files, contents, strict=True):
            file.write(content)
        if previous is not None:
            record.write(previous.record(document, contents))
            record.flush()
    for note in document.notes():
        say(f"{source}: {note}")
    lacking = [lost(text, best.text) for text, best in zip(document.texts, translations, strict=True)]
    are_low = [best.confidence.is_low for best in translations if best.confidence]
    return {
        "outcome": "translated",
        "texts": len(document.texts),
        "exact_matches": sum(best.match == "exact" for best in translations),
        "low_confidence": sum(are_low) if are_low else None,
        "lost_placeholders": max(sum(map(bool, lacking)), len(document.problems.get(OTHER_PLACEHOLDERS, ()))),
        "too_long": len(document.problems.get(TOO_LONG, ())),
        "kept": len(document.kept),
        "notes": document.notes(),
    }


def _reviewed(path: Path, source: Path, translator: DocumentTranslator | None, document: Document) -> list[Translation]:
    """Return the reviewed translations of the texts of a document, aligned if there is a translator."""
    texts = document.texts
    languages = translator.languages if translator else None
    translations = read_reviewed(path, source, texts, languages)
    if translator is None or not (translator.options.align and has_markup(source)):
        return [*map(Translation, translations)]
    return [*translator.translator.align(texts, translations, translator.options.search)]


@contextmanager
def _work_beside(output: str) -> Iterator[Path]:
    """Yield a directory for finished work, which an interrupted process leaves beside a file to write."""
    path = Path(output)
    if output == "-" or path.is_dir() or not path.parent.is_dir():  # which writing it reports
        with TemporaryDirectory() as folder:
            yield Path(folder)
        return
    with work_directory(path.with_name(f"{path.name}.work"), "translates") as work:
        yield work
