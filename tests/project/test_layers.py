"""Which module imports which, held against the table of layers in docs/architecture.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from places import ROOT

pytestmark = pytest.mark.usefixtures("no_coverage")

PACKAGE = ROOT / "nmt"
MODULES = sorted(PACKAGE.rglob("*.py"))

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("```layers\n")[2].partition("```")[0]
LAYER = {room: -number for number, row in enumerate(TABLE.splitlines()) for room in row.partition("#")[0].split()}
"""The number of the row of each room in the table of layers; higher rooms import from lower ones."""
GROUND = ["config", *TABLE.partition("# settings")[2].partition("\n")[2].split()]
"""Rooms that commands import when they start."""
HEAVY = {
    "torch",
    "safetensors",
    "pyarrow",
    "huggingface_hub",
    "tensorboard",
    "matplotlib",
    "sentencepiece",
    "sacrebleu",
    "numpy",
}


def module_name(path: Path) -> str:
    """Return the dotted name of a module below `nmt`; __init__.py has the name of its package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path): path for path in MODULES}


def room_of(name: str) -> str | None:
    """Return the room of a module by the longest matching name in the table; None if there is none."""
    while name and name not in LAYER:
        name = name.rpartition(".")[0]
    return name or None


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room they come from"
            # `from nmt import cli` names the room last
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def modules_imported(path: Path) -> set[str]:
    """Return the modules of this package that a file imports anywhere."""
    found = set()
    for name in imports(tree_of(path)):
        package, _, name = name.partition(".")
        while package == "nmt" and name and name not in NAMES:
            name = name.rpartition(".")[0]
        if package == "nmt" and name:
            found.add(name)
    return found


def test_imports_follow_layers() -> None:
    rooms = {name: room_of(name) for name in NAMES if name}
    assert None not in rooms.values(), "modules without a place in the table of docs/architecture.md"
    for name, room in rooms.items():
        for imported in modules_imported(NAMES[name]):
            other = rooms[imported]
            assert other == room or LAYER[other] < LAYER[room], f"nmt.{name} may not import nmt.{imported}"


def test_core_lies_below_config() -> None:
    lines = PAGE.partition("```core\n")[2].partition("```")[0].splitlines()
    core = [line.split()[0].replace("/", ".") for line in lines]
    assert {"model.transformer", "training.loop", "search.beam", "translate.translator"} <= {*core} <= NAMES.keys()
    for name in core:
        room = room_of(name)
        assert room is not None and LAYER[room] < LAYER["config"], name


def test_imports_are_not_circular() -> None:
    TopologicalSorter({name: modules_imported(path) - {name} for name, path in NAMES.items()}).prepare()


def test_modules_keep_to_what_they_may_see() -> None:
    for name, path in NAMES.items():
        outside = {imported.split(".")[0] for imported in imports(tree_of(path))}
        if room_of(name) in GROUND:
            assert not outside & HEAVY, name
        if name == "evaluate.metrics":
            assert "torch" not in outside, "metrics sees strings only"
        if room_of(name) == "search" and name not in ("search.step", "search.forced"):
            seen = {imported.split(".")[0] for imported in modules_imported(path)}
            assert "model" not in seen, f"{name}: search sees the model step by step, or whole in forced decoding"


def imported_at_once(first: str) -> dict[str, set[str]]:
    """Return what the import of a module imports, without what functions do: by the name of each module of nmt."""
    waiting, found = [first], dict[str, set[str]]()
    while waiting:
        name = waiting.pop()
        body = [node for node in tree_of(NAMES[name]).body if isinstance(node, (ast.Import, ast.ImportFrom))]
        found[name] = {*imports(ast.Module(body, []))}
        inner = [f"{imported.removeprefix('nmt.')}." for imported in found[name] if imported.startswith("nmt.")]
        waiting += {name for name in NAMES if name and any(other.startswith(f"{name}.") for other in inner)} - {*found}
    return found


def test_command_line_imports_stages_lazily() -> None:
    """Otherwise `nmt --help` would wait for slow imports."""
    found = imported_at_once("cli")
    slow = [name for name, names in found.items() if {imported.split(".")[0] for imported in names} & HEAVY]
    assert slow == [] and {"cli.train", "config.load", "console"} <= found.keys()


def test_training_imports_modules_only_at_start() -> None:
    """A run goes on if nmt is installed anew meanwhile."""
    seen = {*imported_at_once("training.start")}
    trained = [name for name in seen if room_of(name) != "prepare"]
    assert not {late for name in trained for late in modules_imported(NAMES[name])} - seen


def test_import_scan_finds_imports() -> None:
    assert "text.vocabularies" in modules_imported(PACKAGE / "data" / "corpus.py")
    assert room_of("training.loop") == "training.loop" and room_of("training.loss") == "training"
    assert set(imports(ast.parse("import a.b\nfrom nmt import cli\nfrom c.d import e"))) == {"a.b", "nmt.cli", "c.d.e"}


def test_directories_are_packages() -> None:
    """Of others setup.py would install nothing."""
    assert {path.parent for path in MODULES} == {path.parent for path in PACKAGE.rglob("__init__.py")}
