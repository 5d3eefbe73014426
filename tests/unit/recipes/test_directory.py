"""Tests of the directory of a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from nmt.recipes.directory import RecipeDir
from nmt.runs.model import ModelRef
from nmt.translate.translator import Translator
from recipe_folder import lines_of


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

    monkeypatch.setattr(Translator, "load", lambda *_: None)
    recipe = RecipeDir(Path("out"), {}, ModelRef())
    recipe.write("all", rows(), 100, translate, lambda path: {"lines": len(lines_of(path))})
    assert lines_of(Path("out/all")) == [f"t{number}" for number in range(100)]
