"""Where tests are: those of a module in a file found by its name, and others by what they need.

The unit tests of `nmt/ROOM/NAME.py` are in `tests/unit/ROOM/test_NAME.py`; if they are many, they have further files
`test_NAME_ASPECT.py`. The tests of a package itself, its `__init__.py`, are in its room under the name of its folder.
Tests that train models are in `tests/runs`, and tests that start processes are in `tests/processes`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from places import ROOT

pytestmark = pytest.mark.usefixtures("no_coverage")

PACKAGE = ROOT / "nmt"
UNIT = ROOT / "tests" / "unit"
UNIT_TESTS = sorted(UNIT.rglob("test_*.py"))
COSTLY = re.compile(r"^\s*(?:import|from) (subprocess|multiprocessing|fitting)\b", re.MULTILINE)
"""What starts processes, and the helper that trains."""


def modules_of(test: Path) -> list[str]:
    """Return the modules whose tests are in a file by its folder and name, without an aspect."""
    room = PACKAGE / test.parent.relative_to(UNIT)
    names = {room.name, *(path.stem for path in room.glob("*.py"))}
    parts = test.stem.removeprefix("test_").split("_")
    return [name for end in range(1, len(parts) + 1) if (name := "_".join(parts[:end])) in names]


def test_unit_tests_are_named_after_a_module_of_their_room() -> None:
    assert [str(test.relative_to(UNIT)) for test in UNIT_TESTS if not modules_of(test)] == []


def test_unit_tests_neither_start_processes_nor_train() -> None:
    texts = {test: test.read_text(encoding="utf-8") for test in UNIT_TESTS}
    assert {str(test.relative_to(UNIT)): names for test, text in texts.items() if (names := COSTLY.findall(text))} == {}


def test_names_of_files_lead_to_modules() -> None:
    expected = {
        "model/test_attention.py": ["attention"], "recipes/test_sweep_plan_more.py": ["sweep", "sweep_plan"],
        "documents/test_documents.py": ["documents"], "evaluate/test_attention.py": [], "test_attention.py": [],
    }  # fmt: skip
    assert {name: modules_of(UNIT / name) for name in expected} == expected
