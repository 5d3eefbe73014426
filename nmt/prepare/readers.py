"""Read the pairs of a source whose files are on this machine, or of one on the hub that is streamed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nmt.config import Source
from nmt.errors import DataError
from nmt.prepare.formats.arrow import read_arrow, read_parquet
from nmt.prepare.formats.json_lines import read_jsonl
from nmt.prepare.formats.po import read_po
from nmt.prepare.formats.tables import read_csv, read_tsv
from nmt.prepare.formats.tmx import read_tmx
from nmt.prepare.formats.xliff import read_xliff
from nmt.prepare.inputs import find_inputs
from nmt.prepare.opus import read_moses, read_moses_scores
from nmt.prepare.pairs import Layout, Row, SentencePair, Units
from nmt.prepare.parts import read_scores
from nmt.text.lines import read_aligned, read_lines, unequal

READERS = {
    "tmx": read_tmx, "xliff": read_xliff, "po": read_po, "tsv": read_tsv, "csv": read_csv, "jsonl": read_jsonl,
    "parquet": read_parquet, "arrow": read_arrow,
}  # fmt: skip
"""The reader of each format of `Source.format`."""


def read_part(part: Source, languages: tuple[str, str], root: Path, units: Units) -> Iterator[SentencePair]:
    """Yield the pairs of a part of a source, see `OpenSource.parts`.

    Args:
        languages: in alphabetical order.
        root: the folder for relative names.
        units: counts what is no pair.

    Raises DataError, or HubError if a file of the hub cannot be read.
    """
    if part.hub is not None:
        from nmt.prepare.hub import read_hub  # imports `datasets`, which takes seconds

        rows: Iterator[Row] = read_hub(part, languages, units)
    elif part.format == "moses":
        rows = _moses(part, languages, root)
    elif part.path is not None:
        rows = _inputs(part, languages, root, units)
    else:
        rows = _aligned(part, languages, root)
    for src, tgt, score in rows:
        yield SentencePair(src, tgt, part.label, score)


def _inputs(part: Source, languages: tuple[str, str], root: Path, units: Units) -> Iterator[Row]:
    layout = Layout(languages, part.columns or {}, part.column, part.score)
    for file in find_inputs(part, root, is_told=True):
        if part.score is not None and file.format in ("po", "xliff"):
            raise DataError(f"{file.name}: {file.format.upper()} has no scores; leave score out")
        yield from READERS[file.format](file, layout, units)


def _moses(part: Source, languages: tuple[str, str], root: Path) -> Iterator[Row]:
    archive = root / str(part.path)
    pairs = read_moses(archive, languages)
    if part.score is None:
        return _without_scores(pairs)
    return _with_scores(pairs, archive, read_moses_scores(archive, languages, part.score), archive / part.score)


def _aligned(part: Source, languages: tuple[str, str], root: Path) -> Iterator[Row]:
    names = part.files or {}
    if len(names) == 1:  # monolingual text: each line stands for a pair with itself
        return ((line, line, None) for line in read_lines(root / names[languages[0]], languages[0]))
    first, second = (root / names[language] for language in languages)
    pairs = read_aligned(first, second, languages)
    if part.score is None:
        return _without_scores(pairs)
    path = root / part.score
    return _with_scores(pairs, first, read_lines(path), path)


def _without_scores(pairs: Iterator[tuple[str, str]]) -> Iterator[Row]:
    return ((src, tgt, None) for src, tgt in pairs)


def _with_scores(pairs: Iterator[tuple[str, str]], first: Path, lines: Iterator[str], name: Path) -> Iterator[Row]:
    """Yield each pair with its score. Raises DataError if there are more or fewer, or one is not a number."""
    scores, n = read_scores(lines, name), 0
    for n, (src, tgt) in enumerate(pairs, start=1):
        score = next(scores, None)
        if score is None:
            raise unequal(first, n + sum(1 for _ in pairs), name, n - 1)
        yield src, tgt, score
    if rest := sum(1 for _ in scores):
        raise unequal(first, n, name, n + rest)
