"""The stages `mono` and `mono-encode`: monolingual text is cleaned, and becomes ids.

One task does a language, in memory of some tens of bytes a line.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel

from nmt.config import DataConfig
from nmt.config.source import AnyTrainSource
from nmt.errors import DataError
from nmt.layout import MONO, DataDir, TokenizerDir
from nmt.prepare.cleaning.cleaner import LineCleaner, SeenLines
from nmt.prepare.cleaning.counts import CleanReport, counted, total
from nmt.prepare.pairs import OpenSource, SentencePair, Units
from nmt.prepare.pipeline.clean import cleaning_settings, write_held_out_lines
from nmt.prepare.pipeline.encode import text_record, write_array
from nmt.prepare.pipeline.work import Work, part_folder, read_side
from nmt.prepare.records import TextRecord, added
from nmt.prepare.sources import check_count, read_part, text_folder
from nmt.tasks.perform import Done, Json, Task
from nmt.text.block_encoder import BlockEncoder, id_dtype
from nmt.text.tokenizer import Tokenizers
from nmt.text.words import count_characters

_HELD_OUT = "mono-held-out"
_BLOCK = 1 << 14  # lines that are in memory
_IDS = 1 << 20  # that are copied at a time
_SOURCE_BITS = 40  # a document's number has that of its source above these


class _Cleaning(BaseModel):
    config: DataConfig
    language: str
    sources: list[list[AnyTrainSource]]
    """The parts of each source, see `OpenSource.parts`."""
    held_out: str
    """The folder with the text of all development and test sets."""


class _Encoding(BaseModel):
    languages: tuple[str, str]
    language: str
    cleaned: str
    """The folder with the cleaned text."""
    n_sources: int
    tokenizer: str
    """Its folder."""
    max_pieces: int


class _Line(NamedTuple):
    number: int
    """In its source, from 1."""
    document: int
    """A number that grows from document to document."""
    text: str


@dataclass(frozen=True)
class CleanedMono:
    """The cleaned monolingual text of a language."""

    done: Done
    reports: list[CleanReport]
    """By source."""

    @property
    def lines(self) -> int:
        """The number of lines that are left."""
        return sum(report.kept for report in self.reports)


@dataclass(frozen=True)
class EncodedMono:
    """The monolingual text of a language as files of a data directory."""

    done: Done
    reports: list[CleanReport]
    """By source: counts from reading to encoding."""
    lines: int
    documents: int
    text: TextRecord


def clean_mono(
    work: Work, config: DataConfig, sources: Mapping[str, OpenSource], held_out: Sequence[SentencePair]
) -> dict[str, CleanedMono]:
    """Clean the monolingual text of all languages that have some; `sources` by key. Returns it by language.

    Raises DataError, also if nothing is left of a language.
    """
    if not config.mono:
        return {}
    folder = write_held_out_lines(work, held_out, _HELD_OUT)
    settings = cleaning_settings(config) | {"root": str(text_folder(config.root).absolute())}
    versions = [work.versions[_HELD_OUT], work.versions["block lists"]]
    tasks = []
    for language in sorted(config.mono):
        own = [sources[key] for key, other, _ in config.mono_sources() if other == language]
        arguments = {
            "config": settings,
            "language": language,
            "sources": [[part.model_dump(mode="json") for part in source.parts] for source in own],
            "held_out": str(folder),
        }
        version = " ".join([*versions, *(source.record.model_dump_json() for source in own)])
        tasks.append(Task(f"{MONO}/{language}", clean_language, arguments, version))
    done = work.stage(MONO, "cleaning monolingual text", tasks, _n_read)
    cleaned = {}
    for language, each in zip(sorted(config.mono), done, strict=True):
        cleaned[language] = CleanedMono(each, _reports(each))
        for source, report in zip(config.mono[language], cleaned[language].reports, strict=True):
            check_count(source, report.read)
        _refuse_empty(language, cleaned[language].reports)
    return cleaned


def encode_mono(work: Work, config: DataConfig, cleaned: Mapping[str, CleanedMono]) -> dict[str, EncodedMono]:
    """Encode monolingual text. Returns it by language. Raises DataError if nothing is left of a language."""
    if not cleaned:
        return {}
    tasks = []
    for language, text in cleaned.items():
        arguments = _Encoding(
            languages=config.languages, language=language, cleaned=str(text.done.folder), n_sources=len(text.reports),
            tokenizer=str(part_folder(work.folder, "tokenizer", 0)), max_pieces=config.max_pieces,
        ).model_dump(mode="json")  # fmt: skip
        tasks.append(Task(f"{MONO}-encode/{language}", encode_language, arguments, work.version(MONO, "tokenizer")))
    n_lines = sum(text.lines for text in cleaned.values())
    done = work.stage(f"{MONO}-encode", "encoding monolingual text", tasks, _n_lines, n_lines)
    encoded = {}
    for (language, text), each in zip(cleaned.items(), done, strict=True):
        reports = [CleanReport.from_json(report.to_json()) for report in text.reports]  # a copy
        for report, more in zip(reports, _reports(each), strict=True):
            report.add(more)
        _refuse_empty(language, reports)
        record = TextRecord.model_validate(each.summary["text"])
        encoded[language] = EncodedMono(each, reports, _n_lines(each), int(str(each.summary["documents"])), record)
    return encoded


def _reports(done: Done) -> list[CleanReport]:
    reports = done.summary["reports"]
    assert isinstance(reports, list)
    return [CleanReport.from_json(report) for report in reports]


def _n_read(done: Done) -> int:
    return sum(report.read for report in _reports(done))


def _n_lines(done: Done) -> int:
    return int(str(done.summary["lines"]))


def _refuse_empty(language: str, reports: Sequence[CleanReport]) -> None:
    counts = total(reports)
    if counts.read == 0:
        raise DataError(f"data.mono.{language}: the text is empty: 0 lines were read")
    if counts.kept == 0:
        raise DataError(f"data.mono.{language}: all {counts.read:,} lines were dropped: {counted(counts.dropped)}")


def clean_language(folder: Path, arguments: Json) -> Json:
    """Write the lines that are kept of a language, their characters, and of each line its number in its source and the
    number of its document. Returns the reports on the sources."""
    task = _Cleaning.model_validate(arguments)
    side = task.config.languages.index(task.language)
    held_out = read_side(Path(task.held_out), side)
    seen, alphabet, rows = SeenLines(), Counter[str](), [np.zeros((0, 2), np.int64)]
    reports = []
    with (folder / "text").open("wb") as file:
        for number, parts in enumerate(task.sources):
            cleaner = LineCleaner(task.config, task.language, held_out)
            lines = _cleaned(task, parts, cleaner, number << _SOURCE_BITS)
            while block := list(islice(lines, _BLOCK)):
                is_new = seen.add([line.text for line in block])
                for line in compress(block, (~is_new).tolist()):
                    cleaner.report.drop("duplicate", line.number, line.text, "")
                    cleaner.report.kept -= 1
                kept = list(compress(block, is_new.tolist()))
                texts = [line.text for line in kept]
                file.write("".join(f"{text}\n" for text in texts).encode())
                alphabet.update(count_characters(texts))
                rows.append(np.array([line[:2] for line in kept], np.int64).reshape(-1, 2))
            reports.append(cleaner.report.to_json())
    np.save(folder / "rows.npy", np.concatenate(rows))
    (folder / "characters.json").write_text(json.dumps(alphabet), encoding="utf-8")
    return {"reports": reports}


def _cleaned(task: _Cleaning, parts: Sequence[AnyTrainSource], cleaner: LineCleaner, document: int) -> Iterator[_Line]:
    """Yield the lines that are kept of a source; `document`: the number of its first one."""
    root, twice = text_folder(task.config.root), (task.language, task.language)
    pairs = chain.from_iterable(read_part(part, twice, root, Units()) for part in parts)
    for number, (line, *_) in enumerate(pairs, start=1):
        text = cleaner.clean(line)
        if text:
            yield _Line(number, document, text)
        elif text is not None:
            document += 1


def mono_folder(work: str | Path, language: str) -> Path:
    """Return the folder of a task of the stage `mono`."""
    return Path(work) / MONO / language


def read_cleaned(folder: Path) -> Iterator[str]:
    """Yield the lines that a task of the stage `mono` has written."""
    with (folder / "text").open(encoding="utf-8", newline="\n") as file:
        yield from (line[:-1] for line in file)


def encode_language(folder: Path, arguments: Json) -> Json:
    """Write text, ids and documents of the lines that do not have too many pieces. Returns counts, and reports that
    count only the lines with too many pieces."""
    task = _Encoding.model_validate(arguments)
    tokenizer = Tokenizers.load(TokenizerDir(Path(task.tokenizer)), task.languages)[task.language]
    encoder, directory = BlockEncoder(tokenizer), DataDir(folder)
    reports = [CleanReport() for _ in range(task.n_sources)]
    rows = np.load(Path(task.cleaned) / "rows.npy")
    lines, is_kept = read_cleaned(Path(task.cleaned)), np.ones(len(rows), np.bool_)
    lengths, counts, first = [np.zeros(0, np.int64)], list[TextRecord](), 0
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
    ends = np.cumsum(np.concatenate(lengths))
    np.save(directory.ends(MONO, task.language), ends.astype(np.int64))
    dtype, n_ids = np.dtype(id_dtype(len(tokenizer))), sum(count.pieces for count in counts)
    with ids_path.open("rb") as ids:  # NumPy's header, which comes first, names their number
        blocks = (np.fromfile(ids, dtype, _IDS) for _ in range(0, n_ids, _IDS))
        write_array(directory.ids(MONO, task.language), dtype, n_ids, blocks)
    ids_path.unlink()
    documents = np.flatnonzero(np.diff(rows[is_kept, 1], prepend=-1))
    np.save(directory.documents(MONO, task.language), documents.astype(np.int64))
    return {
        "reports": [report.to_json() for report in reports],
        "lines": int(is_kept.sum()),
        "documents": len(documents),
        "text": added(counts).model_dump(),
    }
