"""The cases: what is run, from the tables beside this module.

A table of commands (`*.tsv`) has three columns: the case, `quick` if it is part of the quick form, and a command
without `nmt`, quoted as in a shell. Rows with the same case are its steps, which run one after the other in a folder of
their own. In commands:

* `in/` is the folder of the inputs (`inputs.py`).
* `@train.plain/run` is a copy of what the case train.plain, of a row above, wrote with OLD. Both checkouts read the
  same, so that a difference is reported where it arises, and not in everything that follows.
* `< FILE` gives standard input.
* `PREPARE` and `TRAIN CASE` stand for the commands with the settings of `in/pair.yaml`, `TRAIN` also with the data and
  settings of that row of prepare.tsv. Words such as `training.seed=2` after them are settings.
* `python: CODE` is run as Python, with `nmt.api` as `api`.

A line `NAME = A B C` defines alternatives: rows with `{NAME}` are repeated for each. Their second column may name the
alternatives of the quick form.

`calls.tsv` has calls of functions (`calls.py`), `requests.tsv` requests to servers (`requests.py`).
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
COMMANDS = (
    "prepare", "train", "translate", "documents", "evaluate", "several", "recipes", "models", "interfaces",
)  # fmt: skip
"""Tables of commands, in the order in which they are run: a case refers only to cases above."""

CONFIG = "in/pair.yaml"
REFERENCE = re.compile(r"@([a-z]+\.[\w-]+)")
_SETTING = re.compile(r"[a-z_]+(\.\w+)+=.*", re.S)
_ALTERNATIVES = re.compile(r"([A-Z]+) = (.*)")


@dataclass(frozen=True)
class Command:
    """Arguments of `nmt`, with a file for standard input."""

    words: tuple[str, ...]
    stdin: str | None = None


@dataclass(frozen=True)
class Code:
    """Python code, which may use `api`, `Translator` and `Path`."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call of a function for each of many values.

    names: "module:function" in `nmt`, old and new names; the first that exists is called. over: what the expression is
    evaluated for, such as "lines" (`calls.py`).
    """

    names: tuple[str, ...]
    over: str
    expression: str


@dataclass(frozen=True)
class Request:
    """A request to a server; `body` is text, or a form with files (`requests.py`)."""

    name: str
    method: str
    path: str
    content_type: str
    body: str


@dataclass(frozen=True)
class Serve:
    """A server, with the requests that it gets one after the other."""

    words: tuple[str, ...]
    requests: tuple[Request, ...]


Step = Command | Code | Call | Serve


@dataclass(frozen=True)
class Case:
    """Steps that are run in the same folder."""

    name: str
    steps: tuple[Step, ...]
    is_quick: bool = False

    @property
    def needs(self) -> list[str]:
        """The names of the cases whose files are read."""
        return sorted(set(REFERENCE.findall(repr(self.steps))))

    @property
    def fingerprint(self) -> str:
        """A checksum of the steps, by which recordings of another form of the case are recognised."""
        return hashlib.sha256(repr(self.steps).encode("utf-8", "backslashreplace")).hexdigest()


def read_cases(folder: Path = FOLDER) -> list[Case]:
    """Read the cases of all tables. Raises ValueError if a case refers to one that is not above it."""
    reader = _Reader()
    for name in COMMANDS:
        reader.read_commands(folder / f"{name}.tsv")
    requests = list(rows(folder / "requests.tsv", 6))
    for server, words in reader.servers.items():
        asked = [Request(*row[1:]) for row in requests if row[0] == server]
        reader.add(f"serve.{server}", server == "quick", Serve(tuple(words), tuple(_numbered(asked))))
    for name, quick, names, over, expression in rows(folder / "calls.tsv", 5):
        reader.add(f"calls.{name}", bool(quick), Call(tuple(names.split()), over, expression))
    return reader.cases()


def _numbered(requests: list[Request]) -> Iterator[Request]:
    for i, request in enumerate(requests):
        yield Request(f"{i:03d}-{request.name}", request.method, request.path, request.content_type, request.body)


def rows(path: Path, n_columns: int) -> Iterator[list[str]]:
    """The rows of a table without comments, repeated for the alternatives that they name."""
    alternatives: dict[str, list[str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line or line.startswith("#"):
            continue
        if definition := _ALTERNATIVES.fullmatch(line):
            alternatives[definition[1]] = definition[2].split()
            continue
        if line.count("\t") != n_columns - 1:
            raise ValueError(f"{path.name} line {number}: not {n_columns} columns")
        used = [name for name in alternatives if f"{{{name}}}" in line]
        if not used:
            yield line.split("\t")
        for value in alternatives[used[0]] if used else []:
            row = line.replace(f"{{{used[0]}}}", value).split("\t")
            yield [row[0], "quick" if {"quick", value} & {*row[1].split()} else "", *row[2:]]


class _Reader:
    def __init__(self) -> None:
        self.servers: dict[str, list[str]] = {}
        self._steps: dict[str, list[Step]] = {}
        self._quick: set[str] = set()
        self._settings: dict[str, list[str]] = {}  # of the rows of prepare.tsv

    def add(self, case: str, is_quick: bool, step: Step) -> None:
        self._steps.setdefault(case, []).append(step)
        if is_quick:
            self._quick.add(case)

    def read_commands(self, path: Path) -> None:
        for name, quick, command in rows(path, 3):
            case = f"{path.stem}.{name}"
            if command.startswith("python: "):
                self.add(case, bool(quick), Code(command.removeprefix("python: ")))
            elif command.startswith("SERVE "):
                self.servers[name] = shlex.split(command)[1:]
            else:
                self.add(case, bool(quick), self._command(case, shlex.split(command)))

    def _command(self, case: str, words: list[str]) -> Command:
        stdin = None
        if words[-2:-1] == ["<"]:
            *words, _, stdin = words
        match words:
            case ["PREPARE", *rest]:
                settings = [word for word in rest if _SETTING.fullmatch(word)]
                self._settings.setdefault(case, settings)
                words = ["prepare", "--config", CONFIG, "--workers", "1", *_with_options(rest)]
            case ["TRAIN", prepared, *rest]:
                data = f"prepare.{prepared}"
                words = ["train", "--config", CONFIG, *_with_options(self._settings[data]), *_with_options(rest)]
                if "--data" not in rest:
                    words += ["--data", f"@{data}/data"]
        return Command(tuple(words), stdin)

    def cases(self) -> list[Case]:
        known: set[str] = set()
        cases = []
        for name, steps in self._steps.items():
            case = Case(name, tuple(steps), name in self._quick)
            if unknown := set(case.needs) - known:
                raise ValueError(f"{name} refers to {', '.join(sorted(unknown))}, which is not above it")
            known.add(name)
            cases.append(case)
        return cases


def _with_options(words: list[str]) -> list[str]:
    """The words with `--set` before each setting."""
    return [part for word in words for part in (["--set", word] if _SETTING.fullmatch(word) else [word])]


def with_needs(chosen: list[Case], cases: list[Case]) -> list[Case]:
    """The chosen cases and those that they read the files of, in order."""
    names = {case.name for case in chosen}
    for case in reversed(cases):
        if case.name in names:
            names |= set(case.needs)
    return [case for case in cases if case.name in names]
