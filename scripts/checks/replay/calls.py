"""Calls of functions on odd text: rows of calls.tsv.

The columns are a name, `quick`, "module:function" in `nmt` under its old and its new names, what the expression is
evaluated for, and the expression, in which `f` is the function:

* `once`: one call; `lines` is the list of odd lines, `pairs` that of pairs.
* `lines`: each odd line `x` with its number `i`.
* `pairs`: each pair `a`, `b` with its number `i`; `rng` is a random generator of that number.
* `codes`: each code `x` of a language; `settings`: each setting `x` of a config, such as "training.seed=x".

Other functions are `get("module:function", ...)`. Each result, or exception, is a line of the output.
"""

from __future__ import annotations

import hashlib
import importlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.checks.replay import inputs
from scripts.checks.replay.tables import Call

MISSING = "no function of this name"
MAX_CHARACTERS = 2000
"""A longer result is cut, with a checksum of all."""


class MissingError(LookupError):
    """A function that exists under none of its names."""


def get(*names: str) -> Any:
    """Return what "module:name" in `nmt` is, by the first name that exists. Raises MissingError."""
    for name in names:
        module, _, path = name.partition(":")
        try:
            found: Any = importlib.import_module(f"nmt.{module}")
            for part in path.split("."):
                found = getattr(found, part)
            return found
        except (ImportError, AttributeError):
            continue
    raise MissingError(f"{MISSING}: {' '.join(names)}")


def perform(call: Call, folder: Path, log: Path) -> None:
    """Make the calls of a row, and write their results, one in each line."""
    with log.open("w", encoding="utf-8", errors="backslashreplace") as results:
        try:
            function = get(*call.names)
        except MissingError as missing:
            results.write(f"{missing}\n")
            return
        code = compile(call.expression, "<calls.tsv>", "eval")
        known = {
            "f": function,
            "get": get,
            "Counter": Counter,
            "Random": random.Random,
            "Path": Path,
            "written": written,
        }
        for values in _values(call.over, folder):
            results.write(f"{_result(lambda values=values: eval(code, {**known, **values}))}\n")  # type: ignore[misc]


def written(text: str | bytes, suffix: str = ".txt") -> Path:
    """A file of the working directory, with this text."""
    path = Path(f"text{suffix}")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _result(function: Callable[[], object]) -> str:
    try:
        value = function()
        text = repr(list(value) if isinstance(value, Iterator) else value)
    except Exception as problem:
        text = f"!! {type(problem).__name__}: {problem}".replace("\n", "\\n")
    if len(text) > MAX_CHARACTERS:
        checksum = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
        text = f"{text[:MAX_CHARACTERS]}... {checksum}"
    return text.replace("\n", "\\n")


def _values(over: str, folder: Path) -> Iterator[Mapping[str, object]]:
    """The values of the names in an expression, for each call."""
    match over:
        case "once":
            yield {"lines": inputs.odd_lines(folder), "pairs": inputs.odd_pairs(folder)}
        case "lines":
            for i, line in enumerate(inputs.odd_lines(folder)):
                yield {"x": line, "i": i}
        case "pairs":
            for i, (a, b) in enumerate(inputs.odd_pairs(folder)):
                yield {"a": a, "b": b, "i": i, "rng": random.Random(i)}
        case "codes":
            yield from ({"x": code} for code in inputs.CODES)
        case "settings":
            yield from ({"x": setting} for setting in inputs.odd_settings())
        case _:
            raise ValueError(f"unknown values: {over}")
