"""Print random docstrings, messages, test names and sentences of the documentation for a reader to judge.

    python -m scripts.measure.prose          # 150 of each, numbered
    python -m scripts.measure.prose 2 --n 50

A docstring is drawn with its first sentence only. A message is the text of an exception that is raised, or of a call
of `say` or `echo`; a value in it is shown as {expression}. Results: scripts/results/prose.md.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

GENERATED = {"settings.md", "commands.md"}
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\[])")


def first_sentence(text: str) -> str:
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s+(?=[A-Z`])", paragraph)[0]


def docstrings(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            yield f"{path}, {getattr(node, 'name', 'module')}: {first_sentence(text)}"


def texts(node: ast.expr) -> Iterator[str]:
    """The string literals of an expression; an f-string is one, with its values as source code."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}"
            for part in cast("list[ast.Constant | ast.FormattedValue]", node.values)
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from texts(child)


def messages(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            call = node.exc
        elif isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            call = node
            if (node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id) not in {"say", "echo"}:
                continue
        else:
            continue
        for text in (text for argument in call.args for text in texts(argument)):
            if " " in text.strip():
                yield f"{path}:{node.lineno}: {text}"


def sentences(page: Path) -> Iterator[str]:
    """The sentences of a page: no code blocks, tables or headings."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", prose):
        text = " ".join(block.split())
        if text and text[0] not in "|#<":
            yield from (f"{page}: {sentence}" for sentence in SENTENCE.split(text) if " " in sentence)


def kinds() -> dict[str, list[str]]:
    package = [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(Path("nmt").rglob("*.py"))]
    tests = [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(Path("tests").rglob("test_*.py"))]
    return {
        "docstrings": [text for path, tree in package for text in docstrings(path, tree)],
        "messages": [text for path, tree in package for text in messages(path, tree)],
        "names of tests": [
            f"{path}: {node.name}"
            for path, tree in tests
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        ],
        "sentences of docs": [
            text for page in sorted(Path("docs").glob("*.md")) if page.name not in GENERATED for text in sentences(page)
        ],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--n", type=int, default=150)
    arguments = parser.parse_args()
    for kind, all_texts in kinds().items():
        print(f"\n{kind}: {arguments.n} of {len(all_texts)}")
        for number, text in enumerate(random.Random(arguments.seed).sample(all_texts, arguments.n), 1):
            print(f"{number:4} {text}")
