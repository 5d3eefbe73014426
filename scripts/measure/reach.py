"""What a reader must have to read a module: the modules of the package that an import reaches, and their lines.

All imports count, also those inside functions and under `TYPE_CHECKING`. The `__init__.py` of a package counts if it
has more than its docstring; nmt/__init__.py, which imports lazily, does not.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

READ = (
    "model.transformer", "data.batching", "search.beam", "training.loss", "training.loop", "translate.translator",
    "prepare.cleaning.filters", "runs.checkpoint", "evaluate.metrics",
)  # fmt: skip
CORE = (
    "model", "search", "data.batching", "data.rows", "data.windows", "data.mixing", "training.loss", "training.optim",
    "training.loop", "training.saving", "translate.translator", "translate.segment", "translate.search",
    "evaluate.metrics", "evaluate.samples", "evaluate.ter",
)  # fmt: skip
"""The packages and modules of the core."""
OUTER = {
    "__main__", "api", "cli", "config", "documents", "evaluate", "figures", "prepare", "recipes", "serve", "share",
    "tasks",
}  # fmt: skip
"""The rooms that the core does not need; modules of the core that lie in them are not meant."""


def modules(root: Path) -> dict[str, Path]:
    """The files of the package by dotted name without the leading `nmt.`; the package itself is the empty name."""
    named = {}
    for path in sorted((root / "nmt").rglob("*.py")):
        parts = path.relative_to(root / "nmt").with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imported(tree: ast.AST, names: dict[str, Path]) -> set[str]:
    """The modules of the package that a file imports, anywhere in it."""
    dotted = [
        f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    ]
    targets = set()
    for name in dotted:
        package, _, inner = name.partition(".")
        while package == "nmt" and inner and inner not in names:
            inner = inner.rpartition(".")[0]
        if package == "nmt" and inner:
            targets.add(inner)
    return targets


def reached(name: str, imports: dict[str, set[str]]) -> set[str]:
    """The modules that importing `name` reaches, itself included."""
    modules_reached: set[str] = set()
    waiting = [name]
    while waiting:
        module = waiting.pop()
        if not module or module in modules_reached:
            continue
        modules_reached.add(module)
        waiting.extend([module.rpartition(".")[0], *imports[module]])
    return modules_reached


def is_read(tree: ast.Module) -> bool:
    """Whether a module has more than its docstring."""
    return len(tree.body) > (ast.get_docstring(tree) is not None)


def in_core(name: str) -> bool:
    return any(name == entry or name.startswith(f"{entry}.") for entry in CORE)


def print_reach(imports: dict[str, set[str]], trees: dict[str, ast.Module], texts: dict[str, str]) -> None:
    """Print the reach of some modules and of the core, and which other rooms the core imports."""
    n_lines = {name: texts[name].count("\n") for name, tree in trees.items() if is_read(tree)}

    def print_row(title: str, names: set[str]) -> None:
        counted = names & n_lines.keys()
        print(f"{title:<32}{len(counted):>8}{sum(n_lines[name] for name in counted):>8,}")

    print(f"{'an import reaches':<32}{'modules':>8}{'lines':>8}")
    for name in READ:
        if name in imports:
            print_row(name, reached(name, imports))
    core = {name for name in imports if in_core(name)}
    print_row("the core", set().union(*(reached(name, imports) for name in core)))
    print_row("the core's own modules", core)
    rooms = Counter(other.partition(".")[0] for name in core for other in imports[name] - core)
    outer = {room: n for room, n in rooms.items() if room in OUTER}
    print(f"{sum(outer.values()):>8}  imports from the core to outer rooms{_listed(outer)}")
    lower = {room: n for room, n in rooms.items() if room not in OUTER}
    print(f"{sum(lower.values()):>8}  imports from the core to others{_listed(lower)}")


def _listed(counts: dict[str, int]) -> str:
    words = [f"{name} {n}" for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    return f": {', '.join(words)}" if words else ""
