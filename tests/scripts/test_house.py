"""The scripts that measure the structure of the code: what imports reach, and walks."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from scripts.measure.names import definitions
from scripts.measure.reach import imported, is_read, modules, reached
from scripts.measure.walks import Function, Settings, Text, Thing, Tracer, leaves, moves

TEXT = Text(("lo", "mi"), "abaabba")
SETTINGS = Settings({"model": {"dropout": 0.0123, "rate": 0.0234}})
FILES = {
    "nmt/__init__.py": "from nmt.c import f\n",
    "nmt/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nmt.room.b import g\n",
    "nmt/c.py": '"""Read by nobody but the lazy package."""\nf = 1\n',
    "nmt/room/__init__.py": '"""Only a docstring."""\n',
    "nmt/room/b.py": "def g():\n    from nmt.hall import d\n",
    "nmt/hall/__init__.py": '"""More than a docstring."""\nfrom nmt.hall.e import h\n',
    "nmt/hall/d.py": "x = 1\n",
    "nmt/hall/e.py": "h = 1\n",
}
WALKED = {
    "made/__init__.py": "",
    "made/first.py": """
from threading import Thread
from made.second import Kept, is_long, ids_of, words_of
def begin(text):
    if is_long(text):
        return None
    kept = Kept(text)
    answers = []
    worker = Thread(target=lambda: answers.append(kept.joined(list(words_of(kept.text)))))
    worker.start()
    worker.join()
    ids_of(answers[0])
def apart(number):
    return number + 1
def main(text):
    apart(1)
    begin(text)
""",
    "made/second.py": """
import numpy as np
class Kept:
    def __init__(self, text):
        self._text = text
    @property
    def text(self):
        return self._text
    def joined(self, words):
        return " ".join(word for word in words)
def is_long(text):
    return len(text) > 1000
def words_of(text):
    yield from (text,)
def ids_of(text):
    return np.array([{"lo": 7, "mi": 5}[word] for word in text.split()])
""",
}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The first module of a made package."""
    write(tmp_path, WALKED)
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("made.first")
    for name in [name for name in sys.modules if name.partition(".")[0] == "made"]:
        del sys.modules[name]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_reach_has_imports_in_functions_and_for_types_and_packages(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    files = modules(tmp_path)
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in files.items()}
    imports = {name: imported(tree, files) for name, tree in trees.items()}
    assert reached("a", imports) == {"a", "room", "room.b", "hall", "hall.d", "hall.e"}
    assert reached("c", imports) == {"c"}
    assert [is_read(trees[name]) for name in ("room", "hall")] == [False, True]


def test_walk_has_functions_that_pass_a_text_on(made: ModuleType) -> None:
    tracer = Tracer(Path(str(made.__file__)).parent, {"text": TEXT})
    tracer.run(lambda: made.main(str(TEXT)))
    steps = tracer.walks["text"].steps()
    assert steps == [
        Function("first", "main"),
        Function("first", "begin"),
        Function("second", "Kept.__init__"),
        Function("second", "words_of"),
        Function("second", "Kept.joined"),
        Function("second", "ids_of"),
    ]
    assert moves(steps) == (1, 0)


def test_walk_of_another_text_is_empty(made: ModuleType) -> None:
    tracer = Tracer(Path(str(made.__file__)).parent, {"text": TEXT})
    tracer.run(lambda: made.main("lo mi lo"))
    assert not tracer.walks["text"].steps()


def test_moves_into_a_file_left_before_go_back_up() -> None:
    assert moves([Function(module, "f") for module in "aabacb"]) == (4, 2)


@pytest.mark.parametrize(
    ("thing", "value", "is_in"),
    [
        (TEXT, {"texts": ["", b"a lo mi lo lo mi mi lo b"]}, True),
        (TEXT, ["\u2581l", "o\u2581mi", "\u2581lo\u2581lo", "\u2581mi\u2581mi\u2581lo"], True),
        (TEXT, np.array([1, 70, 8, 5, 70, 8, 70, 8, 5, 5, 70, 8, 2]), True),  # lo has two pieces
        (TEXT, [7, 5, 7, 7, 5, 5, 5], False),
        (TEXT, [7] * 20, False),
        (TEXT, np.zeros(9), False),
        (TEXT, "lo mi", False),
        (SETTINGS, {"model": {"dropout": 0.0123, "rate": 0.0234}}, True),
        (SETTINGS, "dropout: 0.0123\nrate: 0.0234\n", True),
        (SETTINGS, 0.0123, False),
        (SETTINGS, {"dropout": 0.0123}, False),
    ],
)
def test_things_are_recognised_by_content(thing: Thing, value: object, is_in: bool) -> None:
    assert thing.is_in(leaves(value)) is is_in


def test_definitions_are_functions_classes_methods_and_constants() -> None:
    tree = ast.parse("A = 1\nb: int = 2\ndef c():\n    d = 1\nclass E:\n    f = 1\n    def g(self): ...\n")
    assert list(definitions(tree)) == ["A", "b", "c", "E", "g"]
