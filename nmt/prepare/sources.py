"""Sources of sentence pairs: their files are located or downloaded, read, and recorded with their checksums."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter

from nmt.console import say
from nmt.data.manifest import SourceFile, SourceRecord
from nmt.data.sources import (
    AnyTrainSource,
    FilesSource,
    HubSource,
    OpusSource,
    PathSource,
    Source,
    TrainFiles,
    TrainHub,
    TrainPath,
    is_url,
    score_of,
)
from nmt.errors import DataError
from nmt.files.read import shipped
from nmt.languages.directions import LanguagePair
from nmt.prepare.download import cached
from nmt.prepare.formats.tables import read_arrow, read_csv, read_jsonl, read_parquet, read_tsv
from nmt.prepare.formats.units import read_po, read_tmx, read_xliff
from nmt.prepare.formats.verses import read_verses
from nmt.prepare.inputs import find_inputs, fingerprints, has_verses, is_usfm, relative_name, side_checksum
from nmt.prepare.opus import find_corpus, read_moses
from nmt.prepare.pairs import Layout, OpenSource, Row, SentencePair, Units, scored
from nmt.text.lines import read_aligned, read_lines, refuse_other_texts

READERS = {
    "tmx": read_tmx, "xliff": read_xliff, "po": read_po, "lift": read_tmx, "tsv": read_tsv, "csv": read_csv,
    "jsonl": read_jsonl, "parquet": read_parquet, "arrow": read_arrow,
}  # fmt: skip
"""Format of `Paths.format` -> function that reads it."""


def read_part(part: AnyTrainSource, languages: LanguagePair, root: Path, units: Units) -> Iterator[SentencePair]:
    """Yield the pairs of a part of a source; see `OpenSource.parts`.

    A unit with a blank side is skipped. Blank lines of aligned files and of monolingual text are kept: others refer to
    their numbers, and a blank line ends a document.

    Args:
        languages: both languages in alphabetical order.
        root: the folder that relative file names refer to.
        units: counts skipped units.

    Raises DataError, or HubError if a file of the Hub cannot be read.
    """
    keeps_blank = languages[0] == languages[1]
    match part:
        case TrainHub():
            from nmt.prepare.hub import read_hub  # imports `huggingface_hub`, which takes a second

            rows = read_hub(part, languages, units)
        case TrainPath(format="moses"):
            rows = read_moses(root / part.path, languages, part.score)
            keeps_blank = True
        case TrainPath():
            rows = _input_files(part, languages, root, units)
        case TrainFiles() if has_verses(part, root):
            rows = read_verses(part, languages, root, units)
        case TrainFiles():
            rows = _aligned(part, languages, root)
            keeps_blank = True
    if not isinstance(part, TrainPath):  # whose files are entered one by one
        units.enter(part)
    for src, tgt, score in rows:
        if keeps_blank or not units.skip_blank((src, tgt), languages):
            yield SentencePair(src, tgt, part.label, score, units.document)


def _input_files(part: TrainPath, languages: LanguagePair, root: Path, units: Units) -> Iterator[Row]:
    layout = Layout(languages, part.columns or {}, part.score, part.document, part.format)
    for file in find_inputs(part, root, is_quiet=True):
        if part.score is not None and file.format in ("po", "xliff", "lift"):
            raise DataError(f"{file.name}: {file.format.upper()} files have no scores; remove score from the config")
        units.enter(file.name)
        yield from READERS[file.format](file, layout, units)


def _aligned(part: TrainFiles, languages: LanguagePair, root: Path) -> Iterator[Row]:
    names = part.files
    if len(names) == 1:  # monolingual text: each line stands for a pair with itself
        return ((line, line, None) for line in read_lines(root / names[languages[0]]))
    first, second = (root / names[language] for language in languages)
    scores_path = root / (part.score or "")
    scores = None if part.score is None else read_lines(scores_path)
    return scored(read_aligned(first, second), first, scores, scores_path)


SAMPLE = "data/sample"
_OF_READING = {
    "files", "vref", "books", "path", "format", "members", "hub", "revision", "paths", "columns", "document", "score",
    "name",
}  # fmt: skip
"""Settings of a source that determine how a part of it is read."""
_PART: TypeAdapter[AnyTrainSource] = TypeAdapter(AnyTrainSource)
"""Validates parts; development and test sets are read like training corpora."""


def text_folder(root: str) -> Path:
    """Return the folder for `data.root`; for a missing data/sample, return the sample corpus shipped with nmt."""
    folder = Path(root)
    return folder if folder != Path(SAMPLE) or folder.exists() else shipped(SAMPLE)


def open_source(source: Source, languages: LanguagePair, root: Path) -> OpenSource:
    """Open a source: download its files if necessary, and compute their checksums.

    Relative file names refer to `root`. Monolingual text is read as pairs of each line with itself: `languages` then
    contains its language twice. Raises DataError, or HubError if a file of the Hub is not available.
    """
    record, located = _located(source, languages, root)
    _check_content(source, record)
    parts = tuple(_PART.validate_python(part.model_dump(include=_OF_READING)) for part in located)
    units = Units()

    def pairs() -> Iterator[SentencePair]:
        units.clear()
        n = 0
        for part in parts:
            for pair in read_part(part, languages, root, units):
                n += 1
                yield pair
        check_count(source, n)

    return OpenSource(record, pairs, units, parts)


def check_count(source: Source, n: int) -> None:
    """Raise DataError if the config expects a source to have a number of pairs other than `n`."""
    if source.pairs not in (None, n):
        raise DataError(
            f"{source.label}: has {n:,} pairs, but the config says pairs: {source.pairs:,}; the corpus "
            "has changed, and results would not be comparable"
        )


def _located(source: Source, languages: LanguagePair, root: Path) -> tuple[SourceRecord, list[Source]]:
    """Return the record of a source, and its parts with local file names."""
    match source:
        case HubSource():
            from nmt.prepare.hub import locate_hub  # imports `huggingface_hub`, which takes a second

            return locate_hub(source)
        case OpusSource():
            return _locate_opus(source, languages)
        case FilesSource():
            return _locate_files(source, root)
        case PathSource():
            return _locate_path(source, root)
    raise TypeError(type(source))


def _locate_path(source: PathSource, root: Path) -> tuple[SourceRecord, list[Source]]:
    """Return the record of a source with a `path`, with a part for each file; archives are not divided."""
    name = source.path
    files = {}
    if is_url(name):
        path, digest = cached(name, source.sha256)
        files = {name: digest}
        if source.sha256 is None:
            _say_unpinned(name, f"sha256: {digest}")
        source = source.model_copy(update={"path": str(path), "name": source.label})
    if source.format == "moses" and not (root / source.path).is_file():
        raise DataError(f"{name}: format: moses requires the path of a single archive")
    inputs = find_inputs(source, root)
    parts: list[Source] = [source]
    if not any(file.is_member for file in inputs):
        parts = []
        for file in inputs:
            parts.append(source.model_copy(update={"path": relative_name(file.path, root), "name": source.label}))
    digests = files or fingerprints(inputs, root)
    files_of_record = {name: SourceFile(sha256=digest) for name, digest in digests.items()}
    return SourceRecord(corpus=source.label, files=files_of_record), parts


def _locate_opus(source: OpusSource, languages: LanguagePair) -> tuple[SourceRecord, list[Source]]:
    name, _, version = source.opus.partition("/")
    corpus = find_corpus(name, languages, version or None)
    archive = cached(corpus.url, source.sha256)
    if source.sha256 is None:
        _say_unpinned(source.opus, f"opus: {corpus.name}/{corpus.version} and sha256: {archive.sha256}")
    record = SourceRecord(
        corpus=source.label,
        opus=corpus.name,
        version=corpus.version,
        files={corpus.url: SourceFile(sha256=archive.sha256)},
    )
    return record, [TrainPath(path=str(archive.path), format="moses", score=score_of(source), name=source.label)]


def _locate_files(source: FilesSource, root: Path) -> tuple[SourceRecord, list[Source]]:
    local = dict(sorted(source.files.items()))
    files = {}
    pinned = source.sha256 or {}
    for language, name in local.items():
        if is_url(name):
            path, digest = cached(name, pinned.get(language))
            local[language] = str(path)
        else:
            digest = side_checksum(root / name)
        files[language] = SourceFile(name=name, sha256=digest)
    if source.sha256 is None and any(map(is_url, source.files.values())):
        digests = ", ".join(f"{language}: {file.sha256}" for language, file in files.items())
        _say_unpinned(source.label, f"sha256: {{{digests}}}")
    for name in local.values():
        if not is_usfm(root / name):
            refuse_other_texts(root / name)
    for setting, more in (("score", score_of(source)), ("vref", source.vref)):
        if more is not None:
            files[setting] = SourceFile(name=more, sha256=side_checksum(root / more))
    part = source.model_copy(update={"files": local, "name": source.label})
    if score_of(source) and has_verses(part, root):
        raise DataError(f"{source.label}: verses have no scores; remove score from the config")
    return SourceRecord(corpus=source.label, files=files), [part]


def _say_unpinned(name: str | None, setting: str) -> None:
    say(f"{name}: the content is not verified; to reject any other content from now on, add {setting}")


def _check_content(source: Source, record: SourceRecord) -> None:
    """Raise DataError for a file whose checksum differs from the one in the config."""
    for name, expected in wanted_checksums(source, record).items():
        file = record.files[name]
        if file.sha256 != expected:
            raise DataError(f"{file.name or name}: its SHA-256 is {file.sha256}, but the config expects {expected}")


def wanted_checksums(source: Source, record: SourceRecord) -> dict[str, str]:
    """Return the checksums that the config expects of a source, in lower case, by the keys of `record.files`.

    Raises DataError if the config has one checksum, but the source has several files.
    """
    match source:
        case FilesSource():
            return {language: digest.lower() for language, digest in (source.sha256 or {}).items()}
        case PathSource() | OpusSource() if source.sha256 is not None:
            if len(record.files) != 1:
                raise DataError(f"{source.label}: sha256 is for one file, but the source has {len(record.files)}")
            return dict.fromkeys(record.files, source.sha256.lower())
    return {}
