"""What is made on first use and kept: a folder is there as a whole, or it is made again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

MARK = "made.txt"


def once(folder: Path, recipe: str, make: Callable[[], None]) -> None:
    """Make the folder anew unless it was made to its end from the same recipe. `make` finds it empty."""
    mark = folder / MARK
    if mark.is_file() and mark.read_text(encoding="utf-8") == recipe:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make()
    mark.write_text(recipe, encoding="utf-8")
