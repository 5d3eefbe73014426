"""The stages `mono` and `mono-encode`, in which monolingual text is cleaned and encoded.

One task processes a language, in memory of some tens of bytes per line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, compress, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel

from nmt.data.manifest import added
from nmt.data.settings import DataConfig
from nmt.data.sources import AnyTrainSource
from nmt.errors import DataError
from nmt.languages.directions import LanguagePair
from nmt.layout import MONO, DataDir, TokenizerDir
from nmt.prepare.cleaning.cleaner import LineCleaner, SeenLines
from nmt.prepare.cleaning.counts import CleanReport, counted, total
from nmt.prepare.pairs import OpenSource, SentencePair, Units
from nmt.prepare.pipeline.clean import cleaning_settings, comparable_lines, write_pairs
from nmt.prepare.pipeline.encode import read_cleaned, text_record, write_array
from nmt.prepare.pipeline.read import read_side
from nmt.prepare.pipeline.work import Work, part_folder
from nmt.prepare.sources import check_count, read_part
from nmt.tasks.perform import Done, Json
from nmt.text.blocks import BlockEncoder
from nmt.text.ids import id_dtype
from nmt.text.vocabularies import Tokenizers

_HELD_OUT = "mono-held-out"
_BLOCK = 1 << 14  # lines in memory
_IDS = 1 << 20  # copied at a time
_SOURCE_BITS = 40  # the bits of a document's number below the number of its source


class _Line(NamedTuple):
    number: int
    """Its number in its source, from 1."""
    document: int
    """A number that grows from document to document."""
    text: str


@dataclass(frozen=True)
class MonoText:
    """The cleaned monolingual text of a language, possibly already encoded."""

    done: Done
    reports: list[CleanReport]
    """Counts so far, for each source."""


class _Cleaning(BaseModel):
    config: DataConfig
    language: str
    sources: list[list[AnyTrainSource]]
    """The parts of each source, see `OpenSource.parts`."""
    held_out: Path
    """The folder with the text of all development and test sets."""
    versions: list[str]
    letters: dict[str, str]
    """The forms of letters in which the text is written."""


def clean_mono(
    work: Work, config: DataConfig, sources: Mapping[str, OpenSource], held_out: Sequence[SentencePair]
) -> dict[str, MonoText]:
    """Clean the monolingual text of each language that has any. Return it by language; `sources` are by key.

    Raises DataError, also if nothing is left of a language.
    """
    if not config.mono:
        return {}
    folder = write_pairs(work, _HELD_OUT, held_out)
    languages = sorted(config.mono)
    settings = cleaning_settings(config)
    arguments = []
    for language in languages:
        parts = []
        versions = [work.versions[_HELD_OUT]]
        for key, other, _ in config.mono_sources():
            if other == language:
                parts.append([*sources[key].parts])
                versions.append(sources[key].record.model_dump_json())
        arguments.append(
            _Cleaning(
                config=settings, language=language, sources=parts,
                held_out=folder, versions=versions, letters=work.letters.get(language, {}),
            )
        )  # fmt: skip
    done = work.run_stage(MONO, "cleaning monolingual text", clean_language, arguments, work.versions["block lists"])
    cleaned = {}
    for language, part in zip(languages, done, strict=True):
        cleaned[language] = MonoText(part, _reports(part))
        for source, report in zip(config.mono[language], cleaned[language].reports, strict=True):
            check_count(source, report.read)
        _refuse_empty(language, cleaned[language].reports)
    return cleaned


class _Encoding(BaseModel):
    languages: LanguagePair
    language: str
    cleaned: Path
    """The folder with the cleaned text."""
    n_sources: int
    tokenizer: Path
    max_pieces: int


def encode_mono(work: Work, config: DataConfig, cleaned: Mapping[str, MonoText]) -> dict[str, MonoText]:
    """Encode monolingual text. Return it by language. Raises DataError if nothing is left of a language."""
    if not cleaned:
        return {}
    arguments = [
        _Encoding(
            languages=config.pair, language=language, cleaned=text.done.folder, n_sources=len(text.reports),
            tokenizer=part_folder(work.folder, "tokenizer", 0), max_pieces=config.max_pieces,
        )
        for language, text in cleaned.items()
    ]  # fmt: skip
    n_lines = sum(report.kept for text in cleaned.values() for report in text.reports)
    version = work.version(MONO, "tokenizer")
    done = work.run_stage(f"{MONO}-encode", "encoding monolingual text", encode_language, arguments, version, n_lines)
    encoded = {}
    for (language, text), part in zip(cleaned.items(), done, strict=True):
        reports = deepcopy(text.reports)
        for report, more in zip(reports, _reports(part), strict=True):
            report.add(more)
        _refuse_empty(language, reports)
        encoded[language] = MonoText(part, reports)
    return encoded


def _reports(done: Done) -> list[CleanReport]:
    return [CleanReport.from_json(report) for report in done.summary["reports"]]


def _refuse_empty(language: str, reports: Sequence[CleanReport]) -> None:
    counts = total(reports)
    if counts.read == 0:
        raise DataError(f"data.mono.{language}: the text is empty: 0 lines were read")
    if counts.kept == 0:
        raise DataError(f"data.mono.{language}: all {counts.read:,} lines were dropped: {counted(counts.dropped)}")


def clean_language(folder: Path, task: _Cleaning) -> Json:
    """Clean the monolingual text of a language, and return the reports on its sources.

    Write the kept lines, and for each line its number in its source and the number of its document.
    """
    held_out = read_side(task.held_out, task.config.pair.index(task.language))
    seen = SeenLines()
    rows = [np.zeros((0, 2), np.int64)]
    reports = []
    with (folder / "text").open("wb") as file:
        for number, parts in enumerate(task.sources):
            cleaner = LineCleaner(task.config, task.language, held_out, task.letters)
            lines = _cleaned(task, parts, cleaner, number << _SOURCE_BITS)
            while block := list(islice(lines, _BLOCK)):
                is_new = seen.add(comparable_lines([line.text for line in block], task.language))
                for line in compress(block, (~is_new).tolist()):
                    cleaner.report.drop("duplicate", line.number, line.text, "")
                    cleaner.report.kept -= 1
                kept = list(compress(block, is_new.tolist()))
                file.write("".join(f"{line.text}\n" for line in kept).encode())
                rows.append(np.array([line[:2] for line in kept], np.int64).reshape(-1, 2))
            reports.append(cleaner.report)
    np.save(folder / "rows.npy", np.concatenate(rows))
    return {"reports": [report.to_json() for report in reports], "pairs": sum(report.read for report in reports)}


def _cleaned(task: _Cleaning, parts: Sequence[AnyTrainSource], cleaner: LineCleaner, document: int) -> Iterator[_Line]:
    """Yield the kept lines of a source; `document`: the number of its first document."""
    root = Path(task.config.root)
    twice = (task.language, task.language)
    pairs = chain.from_iterable(read_part(part, twice, root, Units()) for part in parts)
    for number, (line, *_) in enumerate(pairs, start=1):
        text = cleaner.clean(line)
        if text:
            yield _Line(number, document, text)
        elif text is not None:
            document += 1


def encode_language(folder: Path, task: _Encoding) -> Json:
    """Encode the monolingual text of a language: write text, ids and documents of the lines that are not too long.

    Return counts, and reports that count only the lines with too many pieces.
    """
    tokenizer = Tokenizers.load(TokenizerDir(task.tokenizer), task.languages)[task.language]
    encoder = BlockEncoder(tokenizer)
    directory = DataDir(folder)
    reports = [CleanReport() for _ in range(task.n_sources)]
    rows = np.load(task.cleaned / "rows.npy")
    lines = read_cleaned(task.cleaned)
    is_kept = np.ones(len(rows), np.bool_)
    lengths = [np.zeros(0, np.int64)]
    counts = []
    first = 0
    ids_path = folder / "ids"
    with directory.text(MONO, task.language).open("wb") as file, ids_path.open("wb") as ids:
        while block := list(islice(lines, _BLOCK)):
            encoded = encoder.encode(block)
            is_short = encoded.lengths <= task.max_pieces
            for row in np.flatnonzero(~is_short).tolist():
                number, document = rows[first + row].tolist()
                report = reports[document >> _SOURCE_BITS]
                report.drop("pieces", number, block[row], "")
                report.kept -= 1
            is_kept[first : first + len(block)] = is_short
            first += len(block)
            encoded = encoded.take(np.flatnonzero(is_short))
            file.write("".join(f"{line}\n" for line in compress(block, is_short.tolist())).encode())
            ids.write(encoded.ids.tobytes())
            lengths.append(encoded.lengths)
            counts.append(text_record(encoded))
    np.save(directory.ends(MONO, task.language), np.cumsum(np.concatenate(lengths), dtype=np.int64))
    dtype = np.dtype(id_dtype(len(tokenizer)))
    n_ids = sum(count.pieces for count in counts)
    with ids_path.open("rb") as ids:  # the header, which comes first, contains their number
        blocks = (np.fromfile(ids, dtype, _IDS) for _ in range(0, n_ids, _IDS))
        write_array(directory.ids(MONO, task.language), dtype, n_ids, blocks)
    ids_path.unlink()
    documents = np.flatnonzero(np.diff(rows[is_kept, 1], prepend=-1))
    np.save(directory.documents(MONO, task.language), documents.astype(np.int64))
    return {
        "reports": [report.to_json() for report in reports],
        "lines": int(is_kept.sum()),
        "pairs": int(is_kept.sum()),
        "documents": len(documents),
        "text": added(counts).model_dump(),
    }
