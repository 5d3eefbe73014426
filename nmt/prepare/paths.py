"""Files under a path: a file, a folder, or a pattern."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from nmt.errors import DataError
from nmt.files.read import check_regular, reading


class Found(NamedTuple):
    """A file that a path leads to."""

    path: Path
    name: str
    """Its name below the folder that the path names; empty if the path or a pattern names the file itself."""


def natural(name: str) -> tuple[list[list[str | tuple[int, str]]], str]:
    """Return a key to sort file names by, part by part, with numbers by their value: `file.2` before `file.10`."""
    parts = [re.split("([0-9]+)", part) for part in name.split("/")]
    return [[_number(text) if n % 2 else text for n, text in enumerate(part)] for part in parts], name


def _number(digits: str) -> tuple[int, str]:  # of any length, unlike int()
    significant = digits.lstrip("0")
    return len(significant), significant


def matches(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern, in which `*` is any text and `?` any character."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def is_hidden(name: str) -> bool:
    """Whether a part of a name is hidden: it begins with a dot, or is the folder that macOS adds to archives."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))


def find_files(path: str, root: Path) -> tuple[list[Found], Counter[str]]:
    """Find the files under a path in natural order, and count what is left out by its kind in words.

    A folder gives all that is below it. In a pattern, `*` and `?` stand for text within a name, and `**` for any
    folders. Hidden files are found only by name, and links to folders are followed only where the path names them.
    Raises DataError if there are none, or a folder cannot be read.
    """
    full, left_out = root / path, Counter[str]()
    with reading(full):
        if not _exists(full):
            found = [Found(file, "") for file in _matching(full, left_out)]
        elif full.is_dir():
            found = [Found(file, str(file.relative_to(full))) for file in _below(full, left_out)]
        else:
            check_regular(full)
            found = [Found(full, "")]
    found.sort(key=lambda file: natural(str(file.path)))
    if not found:
        what = "no file matches" if re.search(r"[*?]", path) else "no files in it" if full.is_dir() else "nothing there"
        under = "" if Path(path).is_absolute() else f" under {root}"
        raise DataError(f"{path}: {what}{under}; check path and data.root in the config")
    return found, left_out


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last for NUL in the name
        return False
    return True


def _below(folder: Path, left_out: Counter[str]) -> Iterator[Path]:
    """Yield the files below a folder."""
    for each in _folders(folder):
        yield from _files_in(each, "*", left_out)


def _folders(folder: Path) -> Iterator[Path]:
    """Yield a folder and all below it, without following links, which could lead around in circles."""
    folders = [folder]
    while folders:
        each = folders.pop()
        yield each
        folders += [Path(entry) for entry in _entries(each) if entry.is_dir(follow_symlinks=False)]


def _entries(folder: Path, pattern: str = "*") -> list[os.DirEntry[str]]:
    """Return the entries of a folder that match a pattern, hidden ones only if it begins with a dot itself."""
    with os.scandir(folder) as entries:
        return [e for e in entries if matches(e.name, pattern) and (pattern[0] == "." or not is_hidden(e.name))]


def _files_in(folder: Path, pattern: str, left_out: Counter[str]) -> Iterator[Path]:
    for path in map(Path, _entries(folder, pattern)):
        if path.is_file():
            yield path
        elif path.is_dir():
            left_out["links to folders"] += path.is_symlink()
        else:
            left_out["special files" if path.exists() else "links that lead nowhere"] += 1


def _matching(pattern: Path, left_out: Counter[str]) -> Iterator[Path]:
    """Yield the files that match a pattern."""
    if "\0" in str(pattern):
        return
    *parts, last = pattern.parts
    folders = [Path()]
    for part in parts:
        folders = list(dict.fromkeys(inner for folder in folders for inner in _step(folder, part)))
    if last == "**":
        folders, last = list(dict.fromkeys(inner for folder in folders for inner in _folders(folder))), "*"
    for folder in folders:
        yield from _files_in(folder, last, left_out)


def _step(folder: Path, part: str) -> Iterator[Path]:
    """Yield the folders that a part of a pattern leads to."""
    if part == "**":
        yield from _folders(folder)
    elif re.search(r"[*?]", part):
        yield from filter(Path.is_dir, map(Path, _entries(folder, part)))
    elif (folder / part).is_dir():
        yield folder / part
