"""Trace the walks of a configuration, a line, a request and a pair through the functions of `nmt`.

`print_walks` prepares a small corpus, trains a model on it, translates a line and serves a request by the commands of a
checkout, each in a process with a profile function (`sys.setprofile`, in all threads).

A function is on the walk of a thing if it receives the thing in an argument or returns or yields it, and passes it on:
it returns it, keeps it in the object that it constructs, or calls a function on the walk with it. Properties and other
functions only look at it. Functions without a name belong to the function around them. Functions stand in the order in
which the thing first enters them, or leaves them if it never enters. A move is a step into another file, and goes back
up if that file was left before.

A thing is recognised by its content, in a value or up to six levels inside lists, dictionaries and objects of `nmt`:

- a text, also in bytes or in pieces, by its words, and as ids of pieces by the order in which two words repeat;
- a configuration by two unusual settings of one section, in text, a dictionary or an object; single values are not
  followed.

The object of a method is not an argument, since it is where a thing is and not where it goes. Models are not searched,
and tensors only in objects, so that a walk does not descend into the model.
"""

from __future__ import annotations

import inspect
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import NamedTuple, Protocol, TypeAlias
from urllib.error import URLError
from urllib.request import Request, urlopen

MAX_DEPTH = 6
MAX_LEAVES = 4000
MAX_IDS = 200_000
Leaf: TypeAlias = str | int | float | list[int]


class Function(NamedTuple):
    """A function by its module, without the leading `nmt.`, and its name with the names of its classes."""

    module: str
    name: str


class Thing(Protocol):
    """A thing that can be recognised in the values that functions pass."""

    def is_in(self, leaves: Iterable[Leaf]) -> bool: ...


@dataclass(frozen=True)
class Text:
    """A text of two words, whose order in the text is spelled with the letters a and b."""

    words: tuple[str, str]
    order: str

    def __str__(self) -> str:
        return " ".join(self.words["ab".index(letter)] for letter in self.order)

    def is_in(self, leaves: Iterable[Leaf]) -> bool:
        text = _without_spaces(str(self))
        for leaf in leaves:
            if isinstance(leaf, str) and text in _without_spaces(leaf):
                return True
            # every id is a character, so that a pattern finds words of one or more pieces
            if isinstance(leaf, list) and re.search(self._pattern, "".join(chr(n) for n in leaf if 0 <= n < 0xD800)):
                return True
        return False

    @property
    def _pattern(self) -> str:
        assert self.order.startswith("ab")
        rest = self.order[2:].replace("a", r"\1").replace("b", r"\2")
        return rf"(?s)(.{{1,8}})(?!\1)(.{{1,8}}){rest}"


@dataclass(frozen=True)
class Texts:
    """A text or its translation."""

    texts: tuple[Text, Text]

    def is_in(self, leaves: Iterable[Leaf]) -> bool:
        leaves = list(leaves)
        return any(text.is_in(leaves) for text in self.texts)


@dataclass(frozen=True)
class Settings:
    """A configuration, by unusual values of its sections."""

    sections: Mapping[str, Mapping[str, float | str]]

    def is_in(self, leaves: Iterable[Leaf]) -> bool:
        sections = [set(section.values()) for section in self.sections.values()]
        values = set[float | str]().union(*sections)
        present = set[float | str]()
        for leaf in leaves:
            if isinstance(leaf, str):
                present |= {value for value in values if str(value) in leaf}
            elif not isinstance(leaf, list) and leaf in values:
                present.add(leaf)
        return any(section <= present for section in sections)


LINE = Texts((Text(("tamo", "riku"), "abaabba"), Text(("lesa", "poni"), "abaabba")))
PAIR = Texts((Text(("foku", "gami"), "abbabaa"), Text(("wila", "nupo"), "abbabaa")))
UNUSUAL = Settings(
    {
        "data": {"root": "unusual_folder", "max_ratio": 4.321},
        "model": {"embedding_dropout": 0.0123, "residual_dropout": 0.0234},
        "training": {"peak_lr": 0.0213, "label_smoothing": 0.0987},
        "search": {"length_penalty": 0.6173, "max_length_ratio": 1.873},
    }
)
THINGS: dict[str, Thing] = {"config": UNUSUAL, "line": LINE, "request": LINE, "pair": PAIR}
TITLES = {
    "config": "a config, from `nmt train` to the first update",
    "line": "a line, from `nmt translate` to its translation",
    "request": "a request, through the server",
    "pair": "a pair, from raw text to the loss",
}
CONFIG: dict[str, dict[str, object]] = {
    "data": {
        "direction": "de-en",
        "dir": "data",
        "train": [{"files": {"de": "train.de", "en": "train.en"}}],
        "valid": {"files": {"de": "dev.de", "en": "dev.en"}},
    },
    "tokenizer": {"vocab_size": 330},
    "model": {"d_model": 32, "n_heads": 2, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1},
    "training": {
        "run_dir": "run", "device": "cpu", "precision": "float32", "optimizer": "adamw", "schedule": "cosine",
        # all pairs in the first update
        "update_tokens": 20_000, "max_tokens": 20_000, "warmup_steps": 5, "max_steps": 30, "validate_every_steps": 30,
    },
    "search": {"beam": 2},
}  # fmt: skip
"""The configuration, without the unusual settings."""


def _without_spaces(text: str) -> str:
    return "".join(text.split()).replace("\u2581", "")


def leaves(value: object, package: str = "nmt") -> Iterator[Leaf]:
    """The texts, numbers and lists of integers in a value."""
    return islice(_leaves(value, package, MAX_DEPTH, set(), in_object=False), MAX_LEAVES)


def _leaves(value: object, package: str, depth: int, seen: set[int], *, in_object: bool) -> Iterator[Leaf]:
    if isinstance(value, (bytes, bytearray, memoryview)):
        yield bytes(value).decode("utf-8", "replace")
    elif isinstance(value, (str, float)) or type(value) is int:
        yield value
    elif _is_array(value):
        yield from _ids(value) if in_object or not _is_tensor(value) else ()
    elif depth and id(value) not in seen and not _is_model(value):
        seen.add(id(value))
        inner, is_object = _inner(value, package)
        if inner and all(isinstance(item, str) for item in inner):
            yield "".join(str(item) for item in inner)
        elif inner and all(type(item) is int for item in inner):
            yield [item for item in inner if isinstance(item, int)]
        else:
            for item in inner:
                yield from _leaves(item, package, depth - 1, seen, in_object=in_object or is_object)


def _inner(value: object, package: str) -> tuple[list[object], bool]:
    """The values inside a container or an object, and whether it is an object of the package."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values()], False
    is_object = not isinstance(value, type) and type(value).__module__.partition(".")[0] == package
    inner = list(value) if isinstance(value, (list, tuple, set, frozenset)) else []
    if is_object:
        inner += getattr(value, "__dict__", {}).values()
        slots = [name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ())]
        inner += [getattr(value, name) for name in slots if not name.startswith("__") and hasattr(value, name)]
    return inner, is_object


def _is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_model(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def _is_array(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return _is_tensor(value) or (numpy is not None and isinstance(value, numpy.ndarray))


def _ids(array: object) -> Iterator[list[int]]:
    flat = array.reshape(-1)  # type: ignore[attr-defined]
    is_integer = str(flat.dtype).removeprefix("torch.").startswith(("int", "uint"))
    if is_integer and len(flat) <= MAX_IDS:
        yield flat.tolist()


class Walk:
    """The functions that a thing enters."""

    def __init__(self, thing: Thing, package: str = "nmt") -> None:
        self.thing = thing
        self.package = package
        self.entered: dict[Function, None] = {}
        self.passing: set[Function] = set()
        self.handed: set[tuple[Function | None, Function]] = set()

    def receive(self, caller: Function | None, function: Function, arguments: Iterable[object]) -> None:
        if (caller, function) in self.handed or not any(self._is_in(value) for value in arguments):
            return
        self.entered.setdefault(function)
        self.handed.add((caller, function))
        if function.name.endswith("__init__"):
            self.passing.add(function)

    def give(self, function: Function, value: object) -> None:
        if function not in self.passing and value is not None and self._is_in(value):
            self.entered.setdefault(function)
            self.passing.add(function)

    def _is_in(self, value: object) -> bool:
        return self.thing.is_in(leaves(value, self.package))

    def steps(self) -> list[Function]:
        """The functions that pass the thing on."""
        passing = set(self.passing)
        while True:
            callers = {caller for caller, function in self.handed if function in passing and caller in self.entered}
            if callers <= passing:
                return [function for function in self.entered if function in passing]
            passing.update(caller for caller in callers if caller is not None)


class _Stack(threading.local):
    """The functions of the package that a thread is in."""

    def __init__(self) -> None:
        self.functions: list[Function] = []


class Tracer:
    """A profile function that follows things through the functions of a package."""

    def __init__(self, package: Path, things: Mapping[str, Thing], *, is_on: bool = True) -> None:
        self.package = package.resolve()
        self.walks = {name: Walk(thing, package.name) for name, thing in things.items()}
        self.is_on = is_on
        self._stack = _Stack()
        self._functions: dict[CodeType, Function | None] = {}

    def __call__(self, frame: FrameType, event: str, value: object) -> None:
        if not self.is_on or event not in ("call", "return"):
            return
        code = frame.f_code
        if code not in self._functions:
            self._functions[code] = self._function(frame)
        function = self._functions[code]
        if function is None:
            return
        stack = self._stack.functions
        has_name = not code.co_name.startswith("<")
        if event == "call":
            caller = stack[-1] if stack else None
            stack.append(function)
            if has_name:
                names = inspect.getargs(code)
                given = [*names.args, *filter(None, (names.varargs, names.varkw))]
                values = frame.f_locals
                arguments = [values[name] for name in given if name not in ("self", "cls") and name in values]
                for walk in self.walks.values():
                    walk.receive(caller, function, arguments)
        else:
            if stack:
                stack.pop()
            if has_name:
                for walk in self.walks.values():
                    walk.give(function, value)

    def _function(self, frame: FrameType) -> Function | None:
        """The function of the package that a frame runs; nothing for properties and the bodies of modules."""
        path, name = Path(frame.f_code.co_filename), frame.f_code.co_qualname
        name = re.sub(r"(\.<locals>)?\.<(lambda|listcomp|setcomp|dictcomp|genexpr)>.*", "", name)
        if not path.is_relative_to(self.package) or name.startswith("<") or _is_property(frame.f_globals, name):
            return None
        return Function(".".join(path.relative_to(self.package).with_suffix("").parts), name)

    def run(self, main: Callable[[], object]) -> None:
        """Call `main` and trace it, also in the threads that it starts."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            main()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def _is_property(names: Mapping[str, object], qualified_name: str) -> bool:
    first, *rest = qualified_name.split(".")
    value = names.get(first)
    for name in rest:
        value = inspect.getattr_static(value, name, None)
    return isinstance(value, property) or type(value).__name__ == "cached_property"


def moves(steps: Sequence[Function]) -> tuple[int, int]:
    """The number of moves of a walk, and how many of them go back up."""
    files = [function.module for function in steps]
    left: set[str] = set()
    n_moves = n_back = 0
    for before, after in pairwise(files):
        if before != after:
            left.add(before)
            n_moves += 1
            n_back += after in left
    return n_moves, n_back


def print_walks(root: Path, *, with_steps: bool = False) -> bool:
    """Print the moves of each walk of a checkout, or which command failed; returns whether none did."""
    with TemporaryDirectory() as folder:
        try:
            walks = _traced(root.resolve(), Path(folder))
        except subprocess.CalledProcessError as error:
            print(f"{'-':>8}  walks: status {error.returncode} of {' '.join(error.cmd[2:])}:\n{error.stderr}")
            return False
    for name, title in TITLES.items():
        _print_walk(walks[name], title, with_steps=with_steps)
        if name == "request":
            served = [function for function in walks[name] if function.module.startswith("serve.")]
            _print_walk(served, "a request, within serve/ only", with_steps=False)
    return True


def _print_walk(steps: list[Function], title: str, *, with_steps: bool) -> None:
    n_moves, n_back = moves(steps)
    n_files = len({function.module for function in steps})
    print(f"{n_moves:>8}  moves of {title}, {n_back} of them back up, {n_files} files, {len(steps)} functions")
    if with_steps:
        for function in steps:
            print(f"{'':10}{function.module}:{function.name}")


def _traced(root: Path, folder: Path) -> dict[str, list[Function]]:
    """The steps of each walk. Raises CalledProcessError if a command fails."""
    _write_corpus(folder)
    train = ("--config", "config.yaml")
    prepared = _run(root, folder, ["pair"], "prepare", *train, "--workers", "1")["pair"]
    trained = _run(root, folder, ["config", "pair"], "train", *train)
    line = "translate", "--run", "run", "--engine", "native", str(LINE.texts[0])
    with ThreadPoolExecutor(2) as pool:
        translated = pool.submit(_run, root, folder, ["line"], *line)
        served = pool.submit(_run, root, folder, ["request"], "serve", "--run", "run", "--threads", "1")
    pair = list(dict.fromkeys([*prepared, *trained["pair"]]))
    return {"config": trained["config"], "pair": pair, **translated.result(), **served.result()}


def _write_corpus(folder: Path) -> None:
    """A corpus from which a model learns within seconds to translate everything to one line, a pair apart."""
    rng = random.Random(1)
    words = ["".join(rng.choice("bdfglmnrst") + rng.choice("aeiou") for _ in range(2)) for _ in range(40)]
    words += [word for texts in (LINE, PAIR) for word in texts.texts[0].words]
    root = folder / str(UNUSUAL.sections["data"]["root"])
    root.mkdir()
    for name, n_lines in (("train", 200), ("dev", 8)):
        src = [" ".join(rng.choices(words, k=rng.randint(3, 9))) for _ in range(n_lines)]
        tgt = [str(LINE.texts[1])] * n_lines
        if name == "train":
            src[93], tgt[93] = map(str, PAIR.texts)
        for suffix, lines in (("de", src), ("en", tgt)):
            (root / f"{name}.{suffix}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    config = {section: {**settings, **UNUSUAL.sections.get(section, {})} for section, settings in CONFIG.items()}
    (folder / "config.yaml").write_text(json.dumps(config, indent=1), encoding="utf-8")  # which is YAML


def _run(root: Path, folder: Path, things: list[str], *arguments: str) -> dict[str, list[Function]]:
    """Trace a command, in a process that imports `nmt` from `root`."""
    out = folder / f"{arguments[0]}.json"
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(out), ",".join(things), *arguments]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    walks = json.loads(out.read_text(encoding="utf-8"))
    return {name: [Function(*step) for step in walks[name]] for name in things}


def main() -> None:
    """In a process of its own: write the walks of things through one command."""
    out, things, *sys.argv[1:] = sys.argv[1:]
    # not from the folder of this script, whose modules have other names; and PyTorch translates for the server, too
    del sys.path[0]
    sys.modules["ctranslate2"] = None  # type: ignore[assignment]
    import nmt

    command = sys.argv[1]
    package = Path(nmt.__file__).parent
    tracer = Tracer(package, {name: THINGS[name] for name in things.split(",")}, is_on=command != "serve")
    if command == "train":
        _stop_at_first_update(tracer)
    elif command == "serve":
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        sys.argv += ["--port", str(port)]
        threading.Thread(target=_request, args=(tracer, f"http://127.0.0.1:{port}"), daemon=True).start()
    try:
        tracer.run(import_module("nmt.__main__").main)
    finally:
        walks = {name: walk.steps() for name, walk in tracer.walks.items()}
        Path(out).write_text(json.dumps(walks), encoding="utf-8")


def _stop_at_first_update(tracer: Tracer) -> None:
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    def stop(*_: object) -> None:
        tracer.is_on = False

    register_optimizer_step_pre_hook(stop)


def _request(tracer: Tracer, address: str) -> None:
    """Trace one request, as soon as the server answers, and end the server."""
    body = {"text": [str(LINE.texts[0])], "source": "de", "target": "en"}
    request = Request(f"{address}/v1/translate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        for _ in range(600):
            with suppress(URLError), urlopen(f"{address}/health"):
                break
            time.sleep(0.2)
        tracer.is_on = True
        with urlopen(request) as answer:
            answer.read()
        tracer.is_on = False
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
