"""Mutate `nmt/` in many places, one at a time, and print how many mutants the unit tests that reach them kill.

    python -m scripts.measure.mutants             # this checkout
    python -m scripts.measure.mutants ../other    # another one, for instance a commit before, with its own tests

As many mutants are drawn from each group of packages, the same ones each time. A mutant is run against the files of
unit tests that execute its line, for a minute at most; it is killed if one of them fails or the time is up.
"""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

PACKAGES = {
    "model": ["model"],
    "data": ["data"],
    "training": ["training"],
    "search": ["search"],
    "translate": ["translate"],
    "evaluate": ["evaluate", "compare", "significance", "challenge", "robustness"],
    "prepare": ["prepare"],
}
"""By group, the packages of `nmt/`, of those that there are."""
PER_GROUP = (12, 12, 12, 11, 11, 11, 11)
SECONDS = 60
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def places(tree: ast.Module) -> list[ast.expr | ast.stmt]:
    """The nodes inside of functions that can be mutated."""
    found: list[ast.expr | ast.stmt] = []
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = [node for statement in function.body for node in ast.walk(statement)]
            found += [node for node in inside if isinstance(node, (ast.expr, ast.stmt)) and _is_mutable(node)]
    return sorted(dict.fromkeys(found), key=lambda node: (node.lineno, node.col_offset))


def _is_mutable(node: ast.AST) -> bool:
    match node:
        case ast.Compare(ops=[op]) | ast.BinOp(op=op) | ast.BoolOp(op=op):
            return type(op) in SWAPS
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Constant(value=value):
            return isinstance(value, (int, float))  # True and False, too
        case ast.Return(value=value):
            return value is not None and not isinstance(value, ast.Constant)
    return False


def mutate(node: ast.expr | ast.stmt) -> None:
    """Change a node in its tree."""
    match node:
        case ast.Compare(ops=[op]):
            node.ops = [SWAPS[type(op)]()]  # type: ignore[list-item]
        case ast.BinOp(op=op) | ast.BoolOp(op=op):
            node.op = SWAPS[type(op)]()  # type: ignore[assignment]
        case ast.UnaryOp():
            node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
        case ast.Constant(value=bool() as value):
            node.value = not value
        case ast.Constant(value=int() | float() as value):
            node.value = value + 1
        case ast.Return():
            node.value = ast.Constant(None)


def contexts(root: Path) -> dict[tuple[str, int], set[str]]:
    """By file of `nmt/` and line, the files of unit tests that execute it."""
    print("which tests reach which lines …", file=sys.stderr, flush=True)
    options = ["--cov=nmt", "--cov-context=test", "--cov-report=json:reached.json", "--cov-branch"]
    (root / "contexts.ini").write_text("[run]\nbranch = true\n[json]\nshow_contexts = true\n", encoding="utf-8")
    if not _pytest(root, ["tests/unit", "--cov-config=contexts.ini", "--cov-fail-under=0", *options], None):
        raise SystemExit("the unit tests of the code as it is do not pass")
    reached = json.loads((root / "reached.json").read_text(encoding="utf-8"))
    tests: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for path, file in reached["files"].items():
        for line, names in file["contexts"].items():
            tests[path, int(line)] |= {name.partition("::")[0] for name in names if name}
    return tests


def _pytest(root: Path, arguments: list[str], seconds: float | None) -> bool:
    """Whether tests pass within a time."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return not subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return False


def main() -> None:
    """Draw the mutants, run each, and print a table."""
    given = Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    given = next(folder for folder in (given, *given.parents) if (folder / "pyproject.toml").is_file())
    with TemporaryDirectory() as temporary:
        root = Path(temporary) / "nmt"
        unneeded = {given: [".git", ".venv", "runs"]}  # not the packages `runs` further down
        shutil.copytree(given, root, ignore=lambda folder, _: unneeded.get(Path(folder), []), symlinks=True)
        tests, killed, drawn = contexts(root), 0, 0
        for (group, packages), n in zip(PACKAGES.items(), PER_GROUP, strict=True):
            files = [path for package in packages for path in sorted((root / "nmt" / package).rglob("*.py"))]
            texts = {path: path.read_text(encoding="utf-8") for path in files}
            candidates = [(path, i) for path in files for i in range(len(places(ast.parse(texts[path]))))]
            n_killed = 0
            for path, i in random.Random(group).sample(candidates, n):
                tree = ast.parse(texts[path])
                node = places(tree)[i]
                before = ast.unparse(node)
                mutate(node)
                reached = sorted(tests[str(path.relative_to(root)), node.lineno])
                path.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
                is_killed = bool(reached) and not _pytest(root, reached, SECONDS)
                path.write_text(texts[path], encoding="utf-8")
                n_killed += is_killed
                where = f"{path.relative_to(root)}:{node.lineno}"
                change = f"{before} -> {ast.unparse(node)}".replace("\n", " ")
                print(f"  {'killed' if is_killed else 'LIVES '} {where}: {change[:100]}", flush=True)
            print(f"{group}: {n_killed} of {n} killed", flush=True)
            killed, drawn = killed + n_killed, drawn + n
    print(f"{killed} of {drawn} killed ({killed / drawn:.0%})")


if __name__ == "__main__":
    main()
