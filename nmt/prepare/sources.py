"""Sources of sentence pairs: aligned files, files that hold both languages, or a dataset on the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nmt.config import Source
from nmt.data.manifest import SourceFile, SourceRecord
from nmt.files.read import checksum
from nmt.prepare.formats.arrow import read_arrow, read_parquet
from nmt.prepare.formats.json_lines import read_jsonl
from nmt.prepare.formats.po import read_po
from nmt.prepare.formats.tables import read_csv, read_tsv
from nmt.prepare.formats.tmx import read_tmx
from nmt.prepare.formats.xliff import read_xliff
from nmt.prepare.inputs import find_inputs, fingerprints
from nmt.prepare.pairs import Layout, OpenSource, SentencePair, Units
from nmt.text.lines import READ_TWICE, read_aligned, refuse_other_texts

SAMPLE = Path("data/sample")
READERS = {
    "tmx": read_tmx, "xliff": read_xliff, "po": read_po, "tsv": read_tsv, "csv": read_csv, "jsonl": read_jsonl,
    "parquet": read_parquet, "arrow": read_arrow,
}  # fmt: skip
"""The reader of each format of `Source.format`."""


def text_folder(root: str) -> Path:
    """Return the folder for `data.root`: the sample corpus shipped with nmt for data/sample, if that does not exist."""
    folder, package = Path(root), Path(__file__).parent.parent
    if folder != SAMPLE or folder.exists():
        return folder
    # inside an installed package; beside the package in a checkout
    return next((path for path in (package / "sample", package.parent / SAMPLE) if path.is_dir()), folder)


def open_source(source: Source, languages: tuple[str, str], root: Path) -> OpenSource:
    """Open a source: download its files if they are on the hub, and compute their checksums.

    Relative file names are looked up under `root`. Raises DataError, or HubError if a download fails.
    """
    if source.hub is not None:
        from nmt.prepare.hub import open_hub  # imports `datasets`, which takes seconds

        return open_hub(source, languages)
    if source.path is not None:
        return open_path(source, languages, root)
    return open_files(source, languages, root)


def open_path(source: Source, languages: tuple[str, str], root: Path) -> OpenSource:
    """Open a source of files that hold both languages. Raises DataError if there are none, or one cannot be read."""
    files = {name: SourceFile(sha256=digest) for name, digest in fingerprints(source, root).items()}
    inputs, units = find_inputs(source, root), Units()
    layout = Layout(languages, source.columns or {}, source.column)

    def pairs() -> Iterator[SentencePair]:
        units.skipped.clear()
        for file in inputs:
            for src, tgt in READERS[file.format](file, layout, units):
                yield SentencePair(src, tgt, source.label)

    return OpenSource(SourceRecord(corpus=source.label, files=files), pairs, units)


def open_files(source: Source, languages: tuple[str, str], root: Path) -> OpenSource:
    """Open a source of local aligned files. Raises DataError if one cannot be read."""
    names = source.files or {}
    first, second = (root / names[language] for language in languages)
    files = {
        language: SourceFile(name=names[language], sha256=checksum(root / names[language], READ_TWICE))
        for language in languages
    }
    for path in (first, second):
        refuse_other_texts(path)
    record = SourceRecord(corpus=source.label, files=files)

    def pairs() -> Iterator[SentencePair]:
        for src, tgt in read_aligned(first, second, languages):
            yield SentencePair(src, tgt, source.label)

    return OpenSource(record, pairs)
