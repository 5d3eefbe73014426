"""What the tests of runs share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def stride(pytestconfig: pytest.Config) -> int:
    """Of how many moments one is tried."""
    return 1 if pytestconfig.getoption("--exhaustive") else 6


@pytest.fixture(scope="session")
def text(tiny_data: Path) -> Path:
    """The text of `tiny_data`."""
    return tiny_data.parent / "text"
