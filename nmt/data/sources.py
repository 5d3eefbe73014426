"""Sources: local aligned files, or files of a dataset on the hub, as a stream of sentence pairs.

A line ends at a line feed and nowhere else: U+2028, NUL, form feeds and lone carriage returns never shift the pairing.
A byte order mark at the start of a file and a carriage return at the end of a line are taken off.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from nmt.config import Source
from nmt.data.formats import BEGINNING, other_encoding, why_not_lines, why_not_text
from nmt.errors import DataError


class SentencePair(NamedTuple):
    """A text and its translation, `src` in the alphabetically first language: pairs have no direction here."""

    src: str
    tgt: str
    corpus: str


@dataclass(frozen=True)
class OpenSource:
    """A source whose files are there: what the manifest records of it, and its pairs, which can be read again."""

    record: dict[str, Any]
    pairs: Callable[[], Iterator[SentencePair]]


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
        from nmt.data.hub import open_hub  # here, since it imports `datasets`, which takes seconds

        return open_hub(source, languages)
    return open_files(source, languages, root)


def open_files(source: Source, languages: tuple[str, str], root: Path) -> OpenSource:
    """A source of local aligned files. Raises DataError if one cannot be read."""
    names = source.files or {}
    first, second = (root / names[language] for language in languages)
    files = {language: {"name": names[language], "sha256": checksum(root / names[language])} for language in languages}
    for path in (first, second):
        _refuse_other_texts(path)
    record = {"corpus": source.label, "files": files}

    def pairs() -> Iterator[SentencePair]:
        for src, tgt in read_aligned(first, second):
            yield SentencePair(src, tgt, source.label)

    return OpenSource(record, pairs)


def checksum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. Raises DataError if it is no readable file."""
    digest = hashlib.sha256()
    with _reading(path), path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what can be wrong with a file into a DataError."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check data.root and files in the config") from None
    except IsADirectoryError:
        raise DataError(f"{path}: a directory, where a text file is needed") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def read_aligned(first: Path, second: Path) -> Iterator[tuple[str, str]]:
    """Line n of one file with line n of the other, to the end.

    Raises DataError if they have different numbers of lines, or on what `read_lines` raises.
    """
    lines, others = read_lines(first), read_lines(second)
    n = 0
    for n, line in enumerate(lines, start=1):
        other = next(others, None)
        if other is None:
            raise _unequal(first, n + sum(1 for _ in lines), second, n - 1)
        yield line, other
    rest = sum(1 for _ in others)
    if rest:
        raise _unequal(first, n, second, n + rest)


def _unequal(first: Path, n_first: int, second: Path, n_second: int) -> DataError:
    names = (first.name, second.name) if first.parent == second.parent else (str(first), str(second))
    counts = f"{names[0]} has {n_first} lines, {names[1]} {n_second}"
    where = f" (in {first.parent})" if first.parent == second.parent else ""
    return DataError(f"{counts}: they must pair line by line{where}")


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends; a name in .gz is decompressed.

    Raises DataError with the line and the byte where the file is not UTF-8.
    """
    with _reading(path), _open(path) as file:
        yield from decode_lines(file, path)


def decode_lines(file: IO[bytes], name: Path | str) -> Iterator[str]:
    """The lines of an open file, as `read_lines` gives them; `name` is for messages."""
    number, is_mixed = 0, False
    try:
        for number, raw in enumerate(file, start=1):
            if number == 1:
                _refuse_other_formats(name, raw)
                raw = raw.removeprefix(codecs.BOM_UTF8)
            line = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
            is_mixed = is_mixed or not line.isascii()
            yield line
    except UnicodeDecodeError as error:
        found = f"0x{error.object[error.start]:02X}"
        advice = other_encoding(name, error.object, is_mixed)
        raise DataError(
            f"{name}: not UTF-8 at line {number}, byte {error.start + 1} of the line ({found}); {advice}"
        ) from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{name}: not readable as gzip after line {number}: {error}") from error


def _open(path: Path) -> IO[bytes]:
    opened = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115 (the caller's)
    return cast(IO[bytes], opened)


def _refuse_other_formats(name: Path | str, start: bytes) -> None:
    if problem := why_not_text(name, start):
        raise DataError(f"{name}: {problem}")


def _refuse_other_texts(path: Path) -> None:
    """Raise DataError if a side of a corpus is no text with a sentence a line, by its beginning."""
    with _reading(path), _open(path) as file:
        try:
            start = file.read(BEGINNING)
        except (gzip.BadGzipFile, zlib.error, EOFError):
            return  # told where the lines are read
    if problem := why_not_lines(path, start) or why_not_text(path, start):
        raise DataError(f"{path}: {problem}")
