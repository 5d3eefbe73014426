"""Files of words whose pairs are dropped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.prepare.cleaning.block_lists import block_list


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such file.*block_lists"),  # noqa: ARG005
        (Path.mkdir, "block_lists"),
        (os.mkfifo, "block_lists"),
        (lambda path: path.write_text("# none\n"), "no words"),
        (lambda path: path.write_text("a\n/(/\n"), "words:2: not a regular expression"),
    ],
    ids=["missing", "folder", "pipe", "empty", "pattern"],
)
def test_block_list_that_is_no_list_is_refused(make: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    make(tmp_path / "words")
    with pytest.raises(DataError, match=message):
        block_list(tmp_path / "words", "de")
