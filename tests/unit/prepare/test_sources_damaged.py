"""Damaged files of every format are read, or refused with one line that names the file, and pairs never shift.

Good small files are damaged in one to four places, before or after they are compressed or put into an archive. Aligned
text, TSV and JSON Lines that are read must give the pairs that Python's own `split` and `json` find in them; what is
damaged after it was compressed, or packed with checksums, must be refused or give what is in it undamaged; in all other
formats, at most two pairs per damage that removes or repeats parts may consist of texts that did not belong together.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from damaged_formats import COMPRESSIONS, FORMATS, LANGUAGES, PAIRS, Case, Pairs, make_case
from nmt.data.sources import Source, TrainFiles
from nmt.errors import ConfigError, DataError
from nmt.prepare.pipeline.read import cut_aligned, read_range
from nmt.prepare.sources import open_source

SECONDS = 5.0
"""Of CPU time, for one file."""
OUTCOMES = ("read", "read, some skipped", "refused, with the place", "refused")
KNOWN = [{" ".join(texts[side].replace(":", ",").split()): i for i, texts in enumerate(PAIRS)} for side in (0, 1)]
_PLACE = re.compile(r"\b(line|row|byte|character|unit|tu|trans-unit) \d")


class FindingError(Exception):
    """A case was read wrongly, or failed in another way than with a DataError."""


class TooSlowError(BaseException):
    """Too much time; no `except Exception` on the way takes it for damage."""


def check_pairs(kind: str, case: Case, pairs: Pairs) -> None:
    """Raise FindingError if the pairs that were read cannot be right."""
    found = [(" ".join(one.split()), " ".join(two.split())) for one, two in pairs]
    if case.expected is not None:
        expected = [(" ".join(one.split()), " ".join(two.split())) for one, two in case.expected]
        if found != expected:
            raise FindingError(f"other pairs than its lines have: {len(found)} instead of {len(expected)}")
    numbers = [(_number(0, one), _number(1, two)) for one, two in found]
    whole = [one for one, two in numbers if one is not None and one == two]
    if case.is_damaged_outside and whole[: len(PAIRS)] != _good(kind):
        raise FindingError(f"damage was not noticed: it has the pairs {whole}")
    mixed = [pair for pair in numbers if None not in pair and pair[0] != pair[1]]
    if kind != "aligned" and len(mixed) > 2 * case.n_moves:
        raise FindingError(f"{len(mixed)} pairs of texts that did not belong together: {mixed[:5]}")


def _number(side: int, text: str) -> int | None:
    """Return the number of the pair that a text is of, None if it is damaged."""
    in_csv = text.replace(":", ",").removesuffix(' "quoted"').removesuffix(" next line")
    return KNOWN[side].get(in_csv)


def _good(kind: str) -> list[int]:
    return [number for number in range(len(PAIRS)) if kind != "po" or number != 4]  # which is fuzzy


def outcome(kind: str, number: int, seed: int, folder: Path) -> str:
    """Read a case. Returns how it went, in words; raises FindingError."""
    case = make_case(kind, number, seed, folder)
    try:
        with limited():
            opened = open_source(case.source, LANGUAGES, folder)
            pairs = [(pair.src, pair.tgt) for pair in opened.pairs()]
    except (DataError, ConfigError) as error:
        check_message(str(error), folder)
        check_ranges(case.source, folder, None)
        return "refused, with the place" if _PLACE.search(str(error)) else "refused"
    check_pairs(kind, case, pairs)
    check_ranges(case.source, folder, pairs)
    return "read, some skipped" if opened.units.skipped else "read"


def check_message(message: str, folder: Path) -> None:
    """Raise FindingError unless a message is one line of reasonable length that names the file."""
    if "\n" in message or "\r" in message:
        raise FindingError(f"a message of several lines: {message!r}")
    if len(message) > 2000:
        raise FindingError(f"a message of {len(message)} characters: {message[:300]!r}")
    if "file" not in message.replace(str(folder), ""):
        raise FindingError(f"a message without the file: {message!r}")


def check_ranges(source: Source, folder: Path, pairs: Pairs | None) -> None:
    """Raise FindingError unless aligned files, cut into ranges as `nmt prepare` does, give the same; None: an error."""
    if not isinstance(source, TrainFiles) or any(name.endswith(tuple(COMPRESSIONS)) for name in source.files.values()):
        return
    first, second = (folder / source.files[language] for language in LANGUAGES)
    try:
        found = [pair for part in cut_aligned([first, second], 5) for pair in read_range(part)]
    except DataError as error:
        check_message(str(error), folder)
        if pairs is not None:
            raise FindingError(f"read as a whole, but refused in ranges: {error}") from error
        return
    if pairs is not None and found != pairs:
        raise FindingError("other pairs in ranges")


@contextmanager
def limited() -> Iterator[None]:
    """Raise TooSlowError where the block takes too much time; its memory is limited, too."""

    def give_up(*_: object) -> None:
        raise TooSlowError(f"more than {SECONDS:.0f} s")

    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@pytest.mark.parametrize("n_files", [100, pytest.param(1000, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files_are_read_or_rejected(kind: str, n_files: int, tmp_path: Path) -> None:
    for number in range(n_files):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert outcome(kind, number, 1, folder) in OUTCOMES
