"""Files of words whose pairs are dropped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.prepare.cleaning.block_lists import block_list


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_block_list_that_is_no_file_is_refused_with_its_setting(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "words"
    if kind == "folder":
        path.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(DataError, match="block_lists"):
        block_list(path, "de")
