"""Sources: local aligned files, or files of a dataset on the hub, as a stream of sentence pairs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nmt.config import Source
from nmt.files.read import checksum
from nmt.prepare.pairs import OpenSource, SentencePair
from nmt.text.lines import TWICE, read_aligned, refuse_other_texts

SAMPLE = Path("data/sample")


def text_folder(root: str) -> Path:
    """The folder that `data.root` names. data/sample, where there is none, is the sample corpus that comes with nmt."""
    folder, package = Path(root), Path(__file__).parent.parent
    if folder != SAMPLE or folder.exists():
        return folder
    # an installed package holds the corpus; in a checkout it stands beside the package
    return next((path for path in (package / "sample", package.parent / SAMPLE) if path.is_dir()), folder)


def open_source(source: Source, languages: tuple[str, str], root: Path) -> OpenSource:
    """Find the files of a source, downloading those of a hub, and take their checksums.

    Relative file names are looked up under `root`. Raises DataError, or HubError if the hub does not give them.
    """
    if source.hub is not None:
        from nmt.prepare.hub import open_hub  # here, since it imports `datasets`, which takes seconds

        return open_hub(source, languages)
    return open_files(source, languages, root)


def open_files(source: Source, languages: tuple[str, str], root: Path) -> OpenSource:
    """A source of local aligned files. Raises DataError if one cannot be read."""
    names = source.files or {}
    first, second = (root / names[language] for language in languages)
    files = {
        language: {"name": names[language], "sha256": checksum(root / names[language], TWICE)} for language in languages
    }
    for path in (first, second):
        refuse_other_texts(path)
    record = {"corpus": source.label, "files": files}

    def pairs() -> Iterator[SentencePair]:
        for src, tgt in read_aligned(first, second, languages):
            yield SentencePair(src, tgt, source.label)

    return OpenSource(record, pairs)
