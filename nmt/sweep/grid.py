"""Parse `--grid KEY=A,B`, and name the combinations."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.errors import ConfigError

LONGEST_VALUE, LONGEST_NAME = 40, 160  # characters; file systems take names of 255 bytes


@dataclass(frozen=True)
class Axis:
    """A setting and its values as given on the command line."""

    key: str
    values: tuple[str, ...]
    label: str
    """The last part of the key, or the whole key if another axis has the same last part."""


def parse_grid(options: Sequence[str]) -> list[Axis]:
    """Parse the `--grid` options. Raises ConfigError with all problems."""
    problems: list[str] = []
    values_of: dict[str, tuple[str, ...]] = {}
    for option in options:
        key, equals, text = option.partition("=")
        values = tuple(split_values(text))
        if not equals or not all(key.split(".")) or "." not in key:
            problems.append(f"--grid {option}: write it as section.key=A,B")
        elif key == "training.run_dir":
            problems.append(f"--grid {key}: every training has a run directory of its own anyway; --dir says where")
        elif key in values_of:
            problems.append(f"--grid {key} is given twice; write all its values in one")
        elif not all(values):
            problems.append(f"--grid {option}: a value is empty; write null where none is meant")
        elif len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            problems.append(f"--grid {option}: {twice} is given twice")
        else:
            values_of[key] = values
    if problems:
        raise ConfigError(problems)
    ends = [_end(key) for key in values_of]
    return [Axis(key, values, key if ends.count(_end(key)) > 1 else _end(key)) for key, values in values_of.items()]


def _end(key: str) -> str:
    return key.rpartition(".")[2]


def split_values(text: str) -> list[str]:
    """Split `text` at commas outside the quotes, brackets and braces of YAML."""
    values, depth, quote = [""], 0, ""
    for character in text:
        before = values[-1]
        if quote:
            is_escaped = quote == '"' and before.endswith("\\")
            quote = "" if character == quote and not is_escaped else quote
        elif character in "\"'":
            # only at the start of a value or after a doubled quote: the apostrophe of `it's` is not a quote
            starts = before.rstrip()[-1:] in ("", "[", "{", ",", ":") or before.endswith(character)
            quote = character if starts else ""
        else:
            depth += (character in "[{") - (character in "]}")
        if character == "," and depth <= 0 and not quote:
            values.append("")
        else:
            values[-1] += character
    return [value.strip() for value in values]


def name_of(labels: Sequence[str], values: Sequence[str]) -> str:
    """Return the name of a combination, safe on any file system: `dropout=0.1,seed=2`.

    Other characters are replaced by _, with a short checksum to keep different values apart.
    """
    pairs = zip(labels, values, strict=True)
    name = ",".join(f"{_safe(label)}={_safe(value)}" for label, value in pairs)
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}-{_checksum(name)}"


def _safe(text: str) -> str:
    safe = re.sub("[^A-Za-z0-9_.+-]+", "_", text)
    if safe == text and len(text) <= LONGEST_VALUE:
        return text
    return f"{safe.strip('_')[:LONGEST_VALUE]}-{_checksum(text)}"


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:6]
