"""Count names with several meanings, refusals, kinds of records, odd sentences, and tests that are elsewhere."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

NAMES = ("_check", "choose", "fingerprint", "run", "Report", "Plan", "BLANK")
"""Names that meant several things on 2026-11-29."""
ODD = {
    'sentences that begin with "Of"': r"(?:^|[.:!?]\s+|\n\s*\n\s*)Of\b",
    '"that of", "those of"': r"\b(?:[Tt]hat|[Tt]hose)\s+of\b",
}


def definitions(tree: ast.Module) -> Iterator[str]:
    """The names of functions, classes, methods and constants of a module, each as often as it is defined."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield method.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def print_names(trees: dict[str, ast.Module]) -> None:
    """How many public names several modules define, and how often some are defined."""
    n_definitions = Counter(name for tree in trees.values() for name in definitions(tree))
    n_modules = Counter(name for tree in trees.values() for name in set(definitions(tree)))
    public = [name for name in n_modules if not name.startswith("_") and not name.isupper()]
    several = [name for name in public if n_modules[name] > 2]
    most = ", ".join(f"{name} {n_modules[name]}" for name in sorted(several, key=lambda name: -n_modules[name])[:12])
    print(f"{len(several):>8}  public names of functions, classes and methods in more than two modules: {most} …")
    listed = ", ".join(f"{name} {n_definitions[name]}" for name in NAMES)
    print(f"{sum(n_definitions[name] for name in NAMES):>8}  definitions of {listed}")


def comments(text: str, tree: ast.Module) -> Iterator[str]:
    """The docstrings of a module and its comments, those on adjacent lines as one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    block, last = "", 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comment = token.string.lstrip("#").strip()
            if token.start[0] == last + 1:
                block = f"{block} {comment}"
            else:
                yield block
                block = comment
            last = token.start[0]
    yield block


def print_prose(texts: dict[str, str], trees: dict[str, ast.Module]) -> None:
    """How often docstrings and comments have an odd sentence."""
    prose = [comment for name, text in texts.items() for comment in comments(text, trees[name])]
    for what, pattern in ODD.items():
        print(f"{sum(len(re.findall(pattern, comment)) for comment in prose):>8}  {what} in docstrings and comments")


def print_refusals(trees: dict[str, ast.Module]) -> None:
    """How many places refuse something."""
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    raised = [node.exc.func for node in nodes if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    n_raised = sum(isinstance(function, ast.Name) and function.id == "ConfigError" for function in raised)
    problems = [node for node in nodes if isinstance(node, ast.FunctionDef) and "problem" in node.name]
    n_lines = sum(isinstance(node, ast.Yield) for function in problems for node in ast.walk(function))
    for node in nodes:
        if isinstance(node, ast.Call):
            n_lines += ast.unparse(node.func) == "problems.append"
        elif isinstance(node, ast.AugAssign):
            n_lines += isinstance(node.target, ast.Name) and node.target.id == "problems"
    print(f"{n_raised:>8}  raise ConfigError")
    print(f"{n_lines:>8}  lines that yield a problem, or add to `problems`")


def print_records(trees: dict[str, ast.Module]) -> None:
    """The number of types of records, by kind."""
    classes = {
        (module, node.name): node
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    imported = {
        (module, alias.asname or alias.name): (str(node.module).removeprefix("nmt.").removeprefix("nmt"), alias.name)
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def bases(module: str, name: str) -> set[str]:
        """The names of all classes from which a class of the package inherits."""
        module, name = imported.get((module, name), (module, name))
        if (module, name) not in classes:
            return set()
        direct = {ast.unparse(base).partition("[")[0] for base in classes[module, name].bases}
        return direct.union(*(bases(module, base) for base in direct))

    kinds: Counter[str] = Counter()
    for (module, name), node in classes.items():
        kinds["dataclasses"] += any("dataclass" in ast.unparse(mark) for mark in node.decorator_list)
        kinds["named tuples"] += "NamedTuple" in bases(module, name)
        kinds["pydantic models"] += "BaseModel" in bases(module, name)
    print(f"{kinds.total():>8}  types of records: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}")


def print_places(root: Path) -> None:
    """How many modules have their test in its place, tests/unit/ROOM/test_NAME.py."""
    tests = [path.relative_to(root / "tests" / "unit") for path in (root / "tests" / "unit").rglob("test_*.py")]
    names = {path.name for path in (root / "tests").rglob("test_*.py")}
    places: Counter[str] = Counter()
    for path in (root / "nmt").rglob("*.py"):
        if not path.name.startswith("__"):
            test = path.relative_to(root / "nmt").with_name(f"test_{path.name}")
            places["place" if test in tests else "elsewhere" if test.name in names else "none"] += 1
    print(
        f"{places.total():>8}  modules: {places['place']} with tests in tests/unit/ROOM/test_NAME.py, "
        f"{places['elsewhere']} with a file of that name elsewhere, {places['none']} with none"
    )
