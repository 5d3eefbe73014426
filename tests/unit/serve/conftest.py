"""Fixtures of the tests of the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nmt.serve.parsing import DocumentProcess


@pytest.fixture
def no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read and write documents in this process, which saves the start of another; `test_parsing` has tests of that."""

    def run_in_place(_: DocumentProcess, __: Callable[[], bool], work: Callable[..., Any], *arguments: object) -> Any:
        return work(*arguments)

    monkeypatch.setattr(DocumentProcess, "run_in_child", run_in_place)
