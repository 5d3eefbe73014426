"""Print measures of the structure of `nmt/`: sizes, imports, types, settings, and the files from text to the loss.

    python -m scripts.measure.house            # of this checkout
    python -m scripts.measure.house ../other   # of another one, for instance of the commit before

Statements are those of Python (`ast.stmt`) without docstrings; nodes are all of the syntax tree, so that denser lines
gain nothing.

An import breaks the layers if its target is not below its own room in the table of docs/architecture.md. The path from
raw text to the loss is observed: a small corpus is prepared and one update made, and a file counts if one of its
functions returns or yields the text of the training pairs or, from the prepared corpus on, their arrays, batches or
loss. The network itself (`nmt/model/`) and the ground floor (the terminal, files) are not counted, nor is what only
looks at the text on its way: reports, warnings, and the profile of a language.
"""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import cast, get_args

MAX_FUNCTION_LINES = 60
ELSEWHERE = (
    "model/", "files", "console", "regular", "progress",  # the last two are names of earlier layouts
    "html/", "figures/", "prepare/reporting/", "prepare/suspicions", "text/profile", "text/formats",
)  # fmt: skip
MARK = "zyxwv"  # a word that stands in every training pair and nowhere else


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


def broken_layers(root: Path, imports: dict[str, set[str]]) -> int | str:
    """The number of imports that the layer table forbids."""
    page = root / "docs" / "architecture.md"
    if not page.is_file():
        return "no table"
    rows = page.read_text(encoding="utf-8").partition("```layers\n")[2].partition("```")[0].splitlines()
    layer = {room: -number for number, row in enumerate(rows) for room in row.split()}

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


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def n_any(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How often `Any` stands in the types of a function's parameters and of its result."""
    given = function.args
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    types = [function.returns, *(parameter.annotation for parameter in parameters if parameter is not None)]
    return sum(isinstance(node, ast.Name) and node.id == "Any" for type_ in types if type_ for node in ast.walk(type_))


class Route:
    """The files whose functions return or yield what `matches`, in the order in which they first do."""

    def __init__(self, package: Path, matches: type[object] | tuple[type[object], ...] | str) -> None:
        self.files: dict[str, None] = {}
        self._package, self._matches = f"{package}{os.sep}", matches

    def __enter__(self) -> Route:
        sys.setprofile(self._returned)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _returned(self, frame: FrameType, event: str, result: object) -> None:
        name = frame.f_code.co_filename
        inner = name.removeprefix(self._package)
        if event == "return" and inner != name and not inner.startswith(ELSEWHERE) and self._is_data(result, 3):
            self.files[inner] = None

    def _is_data(self, value: object, depth: int) -> bool:
        if not isinstance(self._matches, str):
            return isinstance(value, self._matches)
        if isinstance(value, str):
            return self._matches in value
        if isinstance(value, bytes):
            return self._matches.encode() in value
        if isinstance(value, (list, tuple)) and depth:
            return any(self._is_data(item, depth - 1) for item in value[:5])
        return False


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


def print_settings() -> None:
    """In a process of its own: the number of settings."""
    from pydantic import BaseModel

    from nmt.config import Config

    def sections(kind: type[BaseModel]) -> set[type[BaseModel]]:
        inner = {one for field in kind.model_fields.values() for one in _classes(field.annotation)}
        return {kind}.union(*(sections(one) for one in inner if issubclass(one, BaseModel)))

    settings = {name: field for one in sections(Config) for name, field in one.model_fields.items()}
    print(f"{len(settings):>8}  settings (distinct names)")


def _classes(annotation: object) -> Iterator[type]:
    """The classes in a type."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for inner in get_args(annotation):
        yield from _classes(inner)


def corpus(folder: Path) -> None:
    """Text of a made-up language pair: 300 pairs for training, each with `MARK`, and 5 for development."""
    words = ["".join(random.Random(n).choices("abcdefghij", k=4)) for n in range(60)]
    for name, n, mark in (("train", 300, f" {MARK}"), ("dev", 5, "")):
        for language, shift in (("aa", 0), ("bb", 7)):
            rng = random.Random(len(name))
            lines = [" ".join(rng.choices(words[shift:], k=3 + i % 9)) + mark for i in range(n)]
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


CONFIG = """
data:
  direction: aa-bb
  root: {folder}
  dir: {folder}/data
  train: [{{files: {{aa: train.aa, bb: train.bb}}}}]
  valid: {{files: {{aa: dev.aa, bb: dev.bb}}}}
tokenizer: {{vocab_size: 340}}
model: {{d_model: 16, n_heads: 2, d_ff: 16, encoder_layers: 1, decoder_layers: 1}}
training:
  run_dir: {folder}/run
  device: cpu
  precision: float32
  max_steps: 10
  warmup_steps: 5
  update_tokens: 500
  max_tokens: 500
"""


def print_route(root: Path, folder: Path) -> None:
    """In a process of its own, in which `nmt` is that of `root`: print the files from raw text to the loss."""
    corpus(folder)
    (folder / "config.yaml").write_text(CONFIG.format(folder=folder), encoding="utf-8")
    settings = _first("nmt.config.load:load_config", "nmt.config_file:load_config")(folder / "config.yaml")
    with Route(root / "nmt", MARK) as text:
        _first("nmt.prepare.prepare:prepare", "nmt.prepare:prepare")(settings, folder / "data", echo=lambda _: None)
    loop, module = import_module("nmt.training.loop"), import_module("nmt.training.loss")
    import numpy as np

    class LossIsThere(BaseException):
        pass

    objective = module.objective

    def until_the_loss(*args: object, **options: object) -> object:
        objective(*args, **options)  # which it returns to the loop
        raise LossIsThere

    vars(module)["objective"] = until_the_loss
    batching, losses = import_module("nmt.data.batching"), import_module("nmt.training.loss")
    arrays = (np.ndarray, batching.PairLengths, batching.Batch, losses.LossSums)
    with Route(root / "nmt", arrays) as ids, suppress(LossIsThere):
        loop.fit(settings, folder / "data", folder / "run")
    print(*dict.fromkeys([*text.files, *ids.files]))


def _first(*names: str) -> Callable[..., object]:
    """The first of these functions (`module:function`) that there is: modules have moved."""
    for name in names:
        module, _, attribute = name.partition(":")
        with suppress(ImportError, AttributeError):
            return cast("Callable[..., object]", getattr(import_module(module), attribute))
    raise ImportError(", ".join(names))


def in_a_process(root: Path, what: str) -> str:
    """Return the output of one of the functions above, run in a process that imports `nmt` from `root`."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, __file__, what, str(root), folder]
        environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True, cwd=folder)
    return done.stdout


def main() -> None:
    if sys.argv[1:2] == ["--route"]:
        print_route(Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:2] == ["--settings"]:
        print_settings()
    else:
        print_all()


def print_all() -> None:
    """Print everything about a checkout."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = next(folder for folder in (root, *root.parents) if (folder / "pyproject.toml").is_file())
    files = modules(root)
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    imports = {name: imported(tree, files) for name, tree in trees.items()}
    loose = [path.stem for path in files.values() if path.parent == root / "nmt"]
    every = [function for tree in trees.values() for function in functions(tree)]
    long = sum((function.end_lineno or 0) - function.lineno + 1 > MAX_FUNCTION_LINES for function in every)
    passed = in_a_process(root, "--route").split()
    print_sizes(root)
    for what, n in (
        ("loose modules in nmt/", len(set(loose) - {"__init__", "__main__"})),
        (f"functions of more than {MAX_FUNCTION_LINES} lines", long),
        ("Any in signatures", sum(map(n_any, every))),
        ("imports that the layer table forbids", broken_layers(root, imports)),
        ("circles of imports", circles(imports)),
        ("files from raw text to the loss", len(passed)),
    ):
        print(f"{n:>8}  {what}")
    print(f"          {' '.join(passed)}")
    print(in_a_process(root, "--settings"), end="")


if __name__ == "__main__":
    main()
