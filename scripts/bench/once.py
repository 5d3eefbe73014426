"""Folders that are made on first use and kept; an incomplete folder is made again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

MARK = "made.txt"


def once(folder: Path, recipe: str, make: Callable[[], None]) -> None:
    """Make the folder unless it is complete and of the same recipe. `make` is called with the folder empty."""
    mark = folder / MARK
    if mark.is_file() and mark.read_text(encoding="utf-8") == recipe:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make()
    mark.write_text(recipe, encoding="utf-8")
