"""Fixtures of the recipes: a trained run, which is created once."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipe_folder import make_folder, small_chunks


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that `make_folder` creates."""
    return make_folder(tmp_path_factory.mktemp("recipes"))


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use chunks of 16 lines, and a separate working directory for each test."""
    small_chunks(monkeypatch)
