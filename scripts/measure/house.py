"""Print measures of the structure of `nmt/`: sizes, density, names, imports, types, settings, and walks.

    python -m scripts.measure.house            # of this checkout
    python -m scripts.measure.house ../other   # of another one, for instance of the commit before

Statements are those of Python (`ast.stmt`) without docstrings; nodes are all of the syntax tree, so that denser lines
gain nothing. An import breaks the layers if its target is not below its own room in the table of docs/architecture.md.

A walk is the list of functions that a thing passes, in the order in which it first enters them, without properties and
functions that only look at it. A move is a step into another file, and goes back up if that file was left before.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias, get_args

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 6
PRONOUNS = {"each", "found", "own", "how", "both", "rest", "one", "here", "wanted", "others"}
"""Names that say nothing of what they hold."""
QUESTIONS = {
    "files that read `.objective` or `model.kind`": r"\.objective\b|model\.kind\b",
    "files that ask for the manifest of several pairs": r"PairsManifest|pairs_manifest|pairs\.is_file",
}
WALKS = {
    "a config, from `nmt train` to the first update": """
        cli.train:train cli.train:resolve config.load:load_config config.load:overridden config.load:check_config
        training.plan:Plan.of config.load:adopting config.load:load_saved_config training.loop:fit
        training.setup.start:start training.setup.inputs:read_inputs training.setup.inputs:with_split
        training.objectives.__init__:make_objective training.objectives.translation:Translation.__init__
        training.objectives.__init__:Objective.__init__ data.windows:Windows.__init__ data.mixing:make_mix
        model.transformer:make_model prepare.recipe:unlike prepare.recipe:changes_in_config
        translate.configured:source_lines config.load:dump_config translate.segment:Segmenter.__init__
    """,
    "a line, from `nmt translate` to its translation": """
        cli.translate:translate translate.files:translate_file translate.files:input_windows
        translate.files:translate_into translate.translator:LineTranslator.translate_window
        translate.translator:LineTranslator._searched
        translate.segment:Segmenter.split_lines translate.segment:Segmenter._sentence
        translate.search:NativeSearcher.search translate.search:search_batches search.__init__:search
        translate.segment:Segmenter.join_hypotheses translate.files:Rows.add
    """,
    "a request, through the server": """
        serve.app:Edge.__call__ serve.admission:Admission.reading serve.handlers:Handlers.translate_v1
        serve.service:Service.translate serve.service:Service._one_way serve.worker:Worker.submit
        serve.worker:Worker._translate translate.translator:LineTranslator.translate_window serve.service:joined
        serve.handlers:_answer_v1
    """,
    "a pair, from raw text to the loss": """
        prepare.prepare:prepare prepare.pipeline.read:write_lines prepare.sources:read_part
        prepare.pipeline.clean:clean_part prepare.pipeline.encode:encode_part prepare.pipeline.encode:join_shard
        data.corpus:Corpora.open data.windows:Windows.load data.batching:epoch_updates
        training.objectives.__init__:Objective.examples training.objectives.__init__:Objective.learned
        data.batching:Pairs.batch training.objectives.__init__:Objective.loss training.loss:token_loss
    """,
}
"""The functions of each walk, as `module:function`; each is named in a file before it, by its own name, its class's or
its module's."""


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


def print_walks(trees: dict[str, ast.Module], texts: dict[str, str]) -> bool:
    """Print the moves of each walk, or what is wrong with it; returns whether all are right."""
    are_right = True
    for title, walk in WALKS.items():
        steps = [step.split(":") for step in walk.split()]
        if problem := _problem(steps, trees, texts):
            print(f"{'-':>8}  moves of {title}: {problem}")
            are_right = False
            continue
        files = [module for module, _ in steps]
        moves = [(before, after) for before, after in pairwise(files) if before != after]
        left: set[str] = set()
        n_back = 0
        for before, after in moves:
            left.add(before)
            n_back += after in left
        print(f"{len(moves):>8}  moves of {title}, {n_back} of them back up")
    return are_right


def _problem(steps: list[list[str]], trees: dict[str, ast.Module], texts: dict[str, str]) -> str:
    """Return which function of a walk is missing, or is named in no file before it; an empty string if none is."""
    read = ""
    for module, qualified_name in steps:
        name = module.removesuffix(".__init__")
        *owners, function = qualified_name.split(".")
        if name not in trees or not _defines(trees[name], [*owners, function]):
            return f"{module} has no {qualified_name}"
        words = (function, *owners, name.rpartition(".")[2])
        if read and not any(re.search(rf"\b{word}\b", read) for word in words):
            return f"no file before names {module}:{qualified_name}"
        read += texts[name]
    return ""


def _defines(tree: ast.AST, names: list[str]) -> bool:
    """Whether a module has a function by this path, such as class and method."""
    for node in ast.iter_child_nodes(tree):
        if getattr(node, "name", None) == names[0]:
            return len(names) == 1 or _defines(node, names[1:])
    return False


def in_a_process(root: Path, what: str) -> str:
    """Return the output of one of the functions above, run in a process that imports `nmt` from `root`."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, __file__, what]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True, cwd=folder)
    return done.stdout


def main() -> None:
    if sys.argv[1:2] == ["--settings"]:
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
    library = {name: tree for name, tree in trees.items() if not name.startswith("cli")}
    wide = sum(n_parameters(function) > MAX_PARAMETERS for tree in library.values() for function in functions(tree))
    conditions = sum(n_conditions(tree) for name, tree in trees.items() if not name.startswith("config"))
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
        ("conditions on `directions` outside config/", conditions),
        *((what, sum(bool(re.search(asked, text)) for text in texts.values())) for what, asked in QUESTIONS.items()),
    ):
        print(f"{n:>8}  {what}")
    are_right = print_walks(trees, texts)
    print(in_a_process(root, "--settings"), end="")
    sys.exit(not are_right)


if __name__ == "__main__":
    main()
