"""Tests of the directory of a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nmt.recipes import directory
from nmt.recipes.directory import RecipeDir
from recipe_folder import lines_of

if TYPE_CHECKING:
    from nmt.translate.translator import Translator


def test_text_is_read_lazily_while_translating(monkeypatch: pytest.MonkeyPatch) -> None:
    n_read = 0

    def rows() -> Iterator[str]:
        nonlocal n_read
        for number in range(100):
            n_read += 1
            yield str(number)

    def translate(_: Translator, chunk: Sequence[str], first: int) -> list[str]:
        assert n_read == min(first + 16, 100) and chunk[0] == str(first)
        return [f"t{line}" for line in chunk]

    monkeypatch.setattr(directory, "load_translator", lambda *_: None)
    recipe = RecipeDir(Path("out"), {}, [])
    recipe.write("all", rows(), 100, translate, lambda path: {"lines": len(lines_of(path))})
    assert lines_of(Path("out/all")) == [f"t{number}" for number in range(100)]
