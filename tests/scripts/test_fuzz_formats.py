"""Reading damaged files: that the check runs, and that it finds what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.checks.fuzz_formats import OUTCOMES, outcome
from scripts.checks.fuzz_formats_files import FORMATS


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files_are_read_or_rejected(kind: str, tmp_path: Path) -> None:
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert outcome(kind, number, 1, folder) in OUTCOMES
