"""Reading damaged files: that the check runs, and that it finds what it should."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from nmt.config import Source
from nmt.prepare.formats.tables import _pairs
from nmt.prepare.pairs import Row
from scripts.checks import fuzz_formats
from scripts.checks.fuzz_formats import OUTCOMES, FindingError, check_message, check_pairs, outcome
from scripts.checks.fuzz_formats_cases import Case
from scripts.checks.fuzz_formats_files import FORMATS, PAIRS


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files_are_read_or_refused(kind: str, tmp_path: Path) -> None:
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert outcome(kind, number, 1, folder) in OUTCOMES


def test_a_shift_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(*arguments: object) -> Iterator[Row]:
        rows = list(_pairs(*arguments))  # type: ignore[arg-type]
        return ((one[0], two[1], one[2]) for one, two in itertools.pairwise(rows))

    monkeypatch.setattr("nmt.prepare.formats.tables._pairs", shifted)
    n_found = 0
    for number in range(30):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            outcome("tsv", number, 1, folder)
        except FindingError:
            n_found += 1
    assert n_found > 5


def test_pairs_that_cannot_be_right() -> None:
    shifted = [(one[0], two[1]) for one, two in itertools.pairwise(PAIRS)]
    check_pairs("tmx", Case(Source(path="file.tmx"), 1), PAIRS)
    with pytest.raises(FindingError, match="11 pairs of texts that did not belong together"):
        check_pairs("tmx", Case(Source(path="file.tmx"), 1), shifted)
    with pytest.raises(FindingError, match="damage was not noticed"):
        check_pairs("tmx", Case(Source(path="file.tmx.gz"), 1, is_damaged_outside=True), PAIRS[1:])


def test_messages_that_are_none(tmp_path: Path) -> None:
    check_message(f"{tmp_path}/file.po: line 1: broken", tmp_path)
    for message in ("file.po: one\ntwo", "broken", f"file.po: {'x' * 3000}"):
        with pytest.raises(FindingError):
            check_message(message, tmp_path)


def test_too_much_time_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_formats, "SECONDS", 0.05)
    with pytest.raises(fuzz_formats.TooSlowError), fuzz_formats.limited():
        while True:
            pass
