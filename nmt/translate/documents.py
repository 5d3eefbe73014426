"""Translation of documents in files. Each keeps its format; `nmt serve` translates them in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from nmt.console import Progress, amount, say
from nmt.documents import FORMATS, Translated, is_marked_up, read_document
from nmt.errors import DataError
from nmt.files.write import open_output, refuse_overwriting
from nmt.text.constraints import Glossary
from nmt.translate.direction import Direction, How
from nmt.translate.files import Warnings
from nmt.translate.translation_memory import TranslationMemory
from nmt.translate.types import WINDOW, Line


@dataclass(frozen=True)
class DocumentTranslator:
    """A direction with the options of a translation of documents."""

    direction: Direction
    how: How
    """Words are aligned only where a document has markup, and if `how.align` is true."""
    glossary: Glossary | None = None
    tm: TranslationMemory | None = None

    def translate(self, source: Path, target: Path | str) -> None:
        """Translate a document into a file of the same format, or to standard output (`-`).

        The file appears only when it is complete. Warnings are counted, and printed to standard error. Raises DataError
        if the document cannot be read or the file cannot be written, ConfigError for unsupported settings.
        """
        refuse_overwriting([target], [source])
        if str(target) != "-" and Path(target).suffix.lower() != source.suffix.lower():
            raise DataError(f"{target}: must end in {source.suffix}, since a document keeps its format")
        with open_output(target) as out:
            document = read_document(source)
            warnings, how = Warnings(), replace(self.how, align=self.how.align and is_marked_up(source))
            lines = [Line(text, glossary=self.glossary, tm=self.tm) for text in document.texts]
            with Progress(f"translating {source.name}", len(lines), "texts", shown=str(target) != "-") as progress:
                results = [*progress.track(self._results(lines, how, warnings))]
            out.write(document.translated(results))
        for message in warnings.lines():
            say(f"{source}: {message}")

    def _results(self, lines: Sequence[Line], how: How, warnings: Warnings) -> Iterator[Translated]:
        numbers = count(1)
        for first in range(0, len(lines), WINDOW):
            window, watch = lines[first : first + WINDOW], lambda *of_line: warnings.add(next(numbers), *of_line)
            for (best, *_), _ in self.direction.translate(window, how, first, watch=watch):
                yield Translated(best.text, best.alignment)


def translate_documents(translate: Callable[[Path, Path], None], inputs: Sequence[Path], directory: Path) -> None:
    """Translate documents, and all documents in folders and their subfolders, into a directory.

    A document of a folder has the same path within `directory`. `translate` is called with each document and the file
    to write. Documents that cannot be read are reported, and the others translated; at the end, DataError is raised
    with their number. It is also raised before anything is translated, if two documents would be written to one file or
    there are none.
    """
    jobs, n_others = dict[Path, Path](), 0
    for given in inputs:
        found = sorted(path for path in given.rglob("*") if path.is_file()) if given.is_dir() else [given]
        for path in found:
            if given.is_dir() and path.suffix.lower() not in FORMATS:
                n_others += 1
                continue
            target = directory / (path.relative_to(given) if given.is_dir() else path.name)
            if target in jobs:
                raise DataError(f"{jobs[target]} and {path} would both be written to {target}")
            jobs[target] = path
    if not jobs:
        raise DataError(f"{', '.join(map(str, inputs))}: contains no documents ({' '.join(FORMATS)})")
    refuse_overwriting([*jobs], [*jobs.values()])
    n_failed = 0
    for target, path in jobs.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            translate(path, target)
        except DataError as error:
            say(str(error))
            n_failed += 1
        else:
            say(f"wrote {target}")
    if n_others:
        say(f"{amount(n_others, 'file')} of other formats left out")
    if n_failed:
        raise DataError(f"{n_failed} of {amount(len(jobs), 'document')} not translated")
