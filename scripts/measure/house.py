"""Print measures of the structure of `nmt/`: sizes, density, names, imports, reach, types, settings, tests and walks.

    python -m scripts.measure.house            # of this checkout
    python -m scripts.measure.house ../other   # of another one, for instance of the commit before
    python -m scripts.measure.house --steps    # with the functions of each walk

Takes about a minute and a half on two cores, nearly all of it to trace the walks.

Statements are those of Python (`ast.stmt`) without docstrings; nodes are all of the syntax tree, so that denser lines
gain nothing. An import breaks the layers if its target is not below its own room in the table of docs/architecture.md.
What an import reaches, the names and the walks are described in reach.py, names.py and walks.py.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from scripts.measure.names import print_names, print_places, print_prose, print_records, print_refusals
from scripts.measure.reach import imported, modules, print_reach
from scripts.measure.walks import print_walks

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 6
PRONOUNS = {"each", "found", "own", "how", "both", "rest", "one", "here", "wanted", "others"}
"""Names that say nothing of what they hold."""
QUESTIONS = {
    "files that read `.objective` or `model.kind`": r"(?m)^(?!from|import).*(?:\.objective\b|model\.kind\b)",
    "files that ask for the manifest of several pairs": r"PairsManifest|pairs_manifest|pairs\.is_file",
}


def broken_layers(root: Path, imports: dict[str, set[str]]) -> int | str:
    """The number of imports that the layer table forbids."""
    page = root / "docs" / "architecture.md"
    if not page.is_file():
        return "no table"
    rows = page.read_text(encoding="utf-8").partition("```layers\n")[2].partition("```")[0].splitlines()
    layer = {room: -number for number, row in enumerate(rows) for room in row.partition("#")[0].split()}

    def room(name: str) -> str:
        while name and name not in layer:
            name = name.rpartition(".")[0]
        return name

    pairs = [(room(name), room(other)) for name in imports if name for other in imports[name]]
    return sum(one != other and not layer.get(other, 1) < layer.get(one, 0) for one, other in pairs)


def circles(imports: dict[str, set[str]]) -> int:
    """How many imports have to go until no modules import each other in a circle."""
    imports, n = {name: others - {name} for name, others in imports.items()}, 0
    while True:
        try:
            TopologicalSorter(imports).prepare()
        except CycleError as error:
            last, first = error.args[1][-1], error.args[1][-2]
            imports[last].discard(first)
            imports[first].discard(last)
            n += 1
        else:
            return n


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def n_any(function: Function) -> int:
    """How often `Any` stands in the types of a function's parameters and of its result."""
    given = function.args
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    types = [function.returns, *(parameter.annotation for parameter in parameters if parameter is not None)]
    return sum(isinstance(node, ast.Name) and node.id == "Any" for type_ in types if type_ for node in ast.walk(type_))


def size(tree: ast.AST) -> tuple[int, int]:
    """The numbers of statements and of nodes in a file."""
    nodes = list(ast.walk(tree))
    return sum(isinstance(node, ast.stmt) and not _is_docstring(node) for node in nodes), len(nodes)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def print_sizes(root: Path) -> None:
    """Statements, nodes and files of each package, and of tests/ and scripts/."""
    sizes: dict[str, list[int]] = {}
    for path in (path for top in ("nmt", "tests", "scripts") for path in sorted((root / top).rglob("*.py"))):
        top, *inner = path.relative_to(root).parts[:-1]
        sums = [sizes.setdefault(name, [0, 0, 0]) for name in {top, f"{top}/{inner[0]}" if inner else top}]
        for total in sums:
            for i, n in enumerate((*size(ast.parse(path.read_text(encoding="utf-8"))), 1)):
                total[i] += n
    packages = len({path.parent for path in (root / "nmt").rglob("__init__.py")} - {root / "nmt"})
    print(f"{'':24}statements   nodes  files")
    for name, (statements, nodes, n) in sorted(sizes.items()):
        if not name.startswith(("tests/", "scripts/")):
            print(f"{name:24}{statements:10,}{nodes:9,}{n:6}")
    print(f"{packages:>8}  packages in nmt/")


def body_lines(function: Function) -> int:
    """The lines of a function without its signature and docstring."""
    body = function.body[1:] if _is_docstring(function.body[0]) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def n_parameters(function: Function) -> int:
    given = function.args
    return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)


def n_pronouns(tree: ast.AST) -> int:
    """How many assignments and parameters have a name of `PRONOUNS`."""
    n = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            n += isinstance(node.ctx, ast.Store) and node.id in PRONOUNS
        elif isinstance(node, ast.arg):
            n += node.arg in PRONOUNS
    return n


def n_conditions(tree: ast.AST) -> int:
    """How many conditions read an attribute called `directions`."""
    conditions: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            conditions.append(node.test)
        elif isinstance(node, ast.BoolOp):
            conditions += node.values
        elif isinstance(node, ast.comprehension):
            conditions += node.ifs
    reading = {node for test in conditions for node in ast.walk(test) if isinstance(node, ast.Attribute)}
    return sum(node.attr == "directions" for node in reading)


def print_density(trees: dict[str, ast.Module]) -> None:
    """Nodes a statement, and how often there are comprehensions and conditional expressions."""
    statements, nodes = (sum(numbers) for numbers in zip(*map(size, trees.values()), strict=True))
    every = [node for tree in trees.values() for node in ast.walk(tree)]
    kinds = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    comprehensions, conditionals = (sum(isinstance(node, kind) for node in every) for kind in (kinds, ast.IfExp))
    print(f"{nodes / statements:>8.1f}  nodes a statement")
    print(f"{100 * comprehensions / statements:>8.1f}  comprehensions per 100 statements")
    print(f"{100 * conditionals / statements:>8.1f}  conditional expressions per 100 statements")


def print_settings(root: Path) -> None:
    """Print the number of settings, from a process that imports `nmt` from `root`."""
    script = Path(__file__).with_name("settings.py")
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(root)}
        subprocess.run([sys.executable, str(script)], env=environment, check=True, cwd=folder)


def print_all(root: Path, *, with_steps: bool) -> None:
    """Print everything about a checkout."""
    root = next(folder for folder in (root, *root.parents) if (folder / "pyproject.toml").is_file())
    files = modules(root)
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    imports = {name: imported(tree, files) for name, tree in trees.items()}
    loose = [path.stem for path in files.values() if path.parent == root / "nmt"]
    every = [function for tree in trees.values() for function in functions(tree)]
    library = {name: tree for name, tree in trees.items() if not name.startswith("cli")}
    wide = sum(n_parameters(function) > MAX_PARAMETERS for tree in library.values() for function in functions(tree))
    settings = {name for name in trees if name.startswith("config") or name.endswith(".settings")}
    conditions = sum(n_conditions(trees[name]) for name in trees.keys() - settings)
    print_sizes(root)
    print_density(trees)
    for what, n in (
        ("assignments and parameters with a name that says nothing", sum(map(n_pronouns, trees.values()))),
        ("loose modules in nmt/", len(set(loose) - {"__init__", "__main__"})),
        (
            f"functions of more than {MAX_FUNCTION_LINES} body lines",
            sum(body_lines(function) > MAX_FUNCTION_LINES for function in every),
        ),
        (f"functions of more than {MAX_PARAMETERS} parameters outside cli/", wide),
        ("Any in signatures", sum(map(n_any, every))),
        ("imports that the layer table forbids", broken_layers(root, imports)),
        ("circles of imports", circles(imports)),
        ("conditions on `directions` outside of settings", conditions),
        *((what, sum(bool(re.search(asked, text)) for text in texts.values())) for what, asked in QUESTIONS.items()),
    ):
        print(f"{n:>8}  {what}")
    print_names(trees)
    print_prose(texts, trees)
    print_refusals(trees)
    print_records(trees)
    print_places(root)
    sys.stdout.flush()
    print_settings(root)
    print_reach(imports, trees, texts)
    sys.exit(not print_walks(root, with_steps=with_steps))


def main() -> None:
    """Print everything about the checkout that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__), metavar="CHECKOUT", help="default: this")
    parser.add_argument("--steps", action="store_true", help="print the functions of each walk")
    options = parser.parse_args()
    print_all(options.root.resolve(), with_steps=options.steps)


if __name__ == "__main__":
    main()
