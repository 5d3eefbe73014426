"""Damaged files of every format are read, or refused with one line that names the file, and pairs never shift.

Good small files are damaged in one to four places, before or after they are compressed or put into an archive. Aligned
text, TSV and JSON Lines that are read must give the pairs that Python's own `split` and `json` find in them; what is
damaged after it was compressed, or packed with checksums, must be refused or give what is in it undamaged; in all other
formats, at most two pairs per damage that removes or repeats parts may consist of texts that did not belong together.
"""

from __future__ import annotations

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
KNOWN = [{" ".join(texts[side].replace(":", ",").split()): i for i, texts in enumerate(PAIRS)} for side in (0, 1)]


def check_pairs(kind: str, case: Case, pairs: Pairs) -> None:
    """Check that the pairs that were read can be right."""
    if case.expected is not None:
        assert _words(pairs) == _words(case.expected)
    numbers = [(_number(0, one), _number(1, two)) for one, two in _words(pairs)]
    good = [number for number in range(len(PAIRS)) if (kind, number) != ("po", 4)]  # which is fuzzy
    whole = [one for one, two in numbers if one is not None and one == two]
    assert not case.is_damaged_outside or whole[: len(PAIRS)] == good, "damage was not noticed"
    mixed = [pair for pair in numbers if None not in pair and pair[0] != pair[1]]
    assert kind == "aligned" or len(mixed) <= 2 * case.n_moves, "texts that did not belong together"


def _words(pairs: Pairs) -> Pairs:
    return [(" ".join(one.split()), " ".join(two.split())) for one, two in pairs]


def _number(side: int, text: str) -> int | None:
    """Return the number of the pair that a text is of, None if it is damaged."""
    return KNOWN[side].get(text.replace(":", ",").removesuffix(' "quoted"').removesuffix(" next line"))


def check_message(message: str, folder: Path) -> None:
    """Check that a message is one line of reasonable length that names the file."""
    assert not {"\n", "\r"} & {*message} and len(message) <= 2000 and "file" in message.replace(str(folder), "")


def check_ranges(source: Source, folder: Path, pairs: Pairs | None) -> None:
    """Check that aligned files, cut into ranges as `nmt prepare` does, give the same; None: an error."""
    if not isinstance(source, TrainFiles) or any(name.endswith(tuple(COMPRESSIONS)) for name in source.files.values()):
        return
    first, second = (folder / source.files[language] for language in LANGUAGES)
    in_ranges: Pairs | None = None
    try:
        in_ranges = [pair for part in cut_aligned([first, second], 5) for pair in read_range(part)]
    except DataError as error:
        check_message(str(error), folder)
    assert pairs is None or in_ranges == pairs


@contextmanager
def limited() -> Iterator[None]:
    """Fail where the block takes too much time, by what no `except Exception` on the way takes for damage."""
    signal.signal(signal.SIGPROF, lambda *_: pytest.fail(f"more than {SECONDS:.0f} s"))
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
        case, pairs = make_case(kind, number, 1, folder), None
        try:
            with limited():
                pairs = [(pair.src, pair.tgt) for pair in open_source(case.source, LANGUAGES, folder).pairs()]
            check_pairs(kind, case, pairs)
        except (DataError, ConfigError) as error:
            check_message(str(error), folder)
        check_ranges(case.source, folder, pairs)
