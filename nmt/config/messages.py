"""Messages about configurations: validation errors in terms of YAML, suggestions of keys, and differences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, NamedTuple, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nmt.config import Config
from nmt.config.foreign import advice_on, equivalent_settings, nearest_value, with_remarks
from nmt.data.settings import LINES, SHARE, SOURCE
from nmt.data.sources import KINDS
from nmt.files.yaml12 import shown
from nmt.section import Section
from nmt.spelling import did_you_mean, matching_words, misspelt, plain


def field_paths(section: type[Section] = Config, prefix: str = "") -> Iterator[str]:
    """Yield every dotted key of the configuration; `*` stands for a list index or a mapping key."""
    for name, field in section.model_fields.items():
        models, middle = _sections_of(field.annotation)
        paths = list[str]()
        for model in models:
            paths += field_paths(model, f"{prefix}{name}.{middle}")
        yield from dict.fromkeys(paths or [f"{prefix}{name}"])


def _sections_of(annotation: object) -> tuple[list[type[Section]], str]:
    """Return the sections that a type annotation allows, and the wildcards in their keys."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation], ""
    if get_origin(annotation) is Annotated:
        return _sections_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        alternatives = [_sections_of(alternative) for alternative in get_args(annotation)]
        models = []
        for of_alternative, _ in alternatives:
            models += of_alternative
        return models, alternatives[0][1]
    if get_origin(annotation) in (list, dict):
        models, middle = _sections_of(get_args(annotation)[-1])
        return models, f"*.{middle}"
    return [], ""


# Replacements for messages of pydantic that use terms of Python, by error type.
_EXPECTED = {
    "missing": "be given",
    "extra_forbidden": "have only documented fields",
    "int_type": "be a whole number",
    "int_from_float": "be a whole number",
    "float_type": "be a number",
    "bool_type": "be true or false",
    "string_type": "be text",
    "list_type": "be a list",
    "dict_type": "be a mapping",
    "model_type": "be a mapping",
    "too_short": "have at least one entry",
}
# Labels that pydantic inserts into the location of an error in a union or a mapping's key.
_LABEL = re.compile(
    rf"{SOURCE}|{LINES}|{SHARE}|<\w+>|constrained-\w+|(literal|dict|list|function-before)\[.*\]|\[key\]"
)
_ALTERNATIVES = [("str",), ("bool",), ("int",)]


def problems_in(error: ValidationError, section: type[Section] = Config) -> list[str]:
    """Return the problems of a validation error, each a line that begins with a dotted key.

    section: has the keys that are suggested.
    """
    by_key: dict[str, list[ErrorDetails]] = {}
    for details in error.errors():
        by_key.setdefault(_key(details), []).append(details)
    # All alternatives of a union fail together; the one with the more deeply nested error was meant.
    inner = set()
    for key, errors in by_key.items():
        if any(_LABEL.fullmatch(str(part)) for part in errors[0]["loc"]):
            inner.add(key.rpartition(".")[0])
    lines: list[str] = []
    for key, errors in by_key.items():
        if key not in inner:
            lines += _describe(key, errors, section)
    return lines


def _key(details: ErrorDetails) -> str:
    parts = [str(part) for part in details["loc"] if not _LABEL.fullmatch(str(part))]
    if details["loc"][-1:] in _ALTERNATIVES:
        del parts[-1:]
    return ".".join(parts)


def requirement(errors: Sequence[ErrorDetails]) -> str:
    """Return the requirement that a value violates, such as `must be text or a list`.

    found: the errors of the value, one for each alternative of its type.
    """
    expected = [_EXPECTED.get(error["type"], error["msg"].removeprefix("Input should ")) for error in errors]
    text = f"must {' or '.join(dict.fromkeys(expected))}".replace(" or be ", " or ").replace("'", "")
    return text.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")


def _describe(key: str, errors: Sequence[ErrorDetails], section: type[Section]) -> Iterator[str]:
    details = errors[0]
    match details["type"]:
        case "extra_forbidden" if "." in str(details["loc"][-1]):
            yield f"{key}: dotted keys are only for --set; in a file, nest keys by indentation"
        case "extra_forbidden":
            yield f"{key}: {_only_of_others(key, details) or f'no such setting{nearest(key, section)}'}"
        case "missing":
            yield f"{key}: must be given"
        case "value_error":
            for problem in str(details["ctx"]["error"]).split("\n"):
                yield _below(key, problem)
        case kind:
            choices = []
            meant = []
            if kind == "literal_error":
                choices = re.findall("'([^']*)'", details["ctx"]["expected"])
            if isinstance(details["input"], str):  # another value may be huge
                meant = nearest_value(details["input"], choices)
            must = "" if meant and len(choices) > 5 else f"{requirement(errors)}, "
            yield f"{key}: {must}found {shown(details['input'])}{_did_you_mean(meant)}"


def _below(key: str, problem: str) -> str:
    """Return a problem of the section at a key; it may begin with the rest of its own key."""
    if not key:
        return problem
    return f"{key}.{problem}" if ":" in problem.split(" ")[0] else f"{key}: {problem}"


def _only_of_others(key: str, details: ErrorDetails) -> str | None:
    """Return the message about a setting that exists only for other kinds of sources; None for other keys."""
    parts = [str(part).strip("<>") for part in details["loc"]]
    tags = [part for part in parts if part in KINDS]
    name = key.rpartition(".")[2]
    kinds = [kind for kind, section in KINDS.items() if name in section.model_fields]
    if not tags or not kinds:
        return None
    if tags[0] in kinds:
        return "only available for training corpora"
    return f"only available with {' and '.join(kinds)}"


class TreeDifference(NamedTuple):
    """A key with different values in two trees, and both formatted values; None if a tree lacks the key."""

    key: str
    old: str | None
    new: str | None


def differences(old: object, new: object, key: str = "") -> Iterator[TreeDifference]:
    """Yield the differences between two trees of plain values, with keys as specific as possible.

    Lists of different lengths are compared as a whole.
    """
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        old = dict(enumerate(old))
        new = dict(enumerate(new))
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*old, *new]):
            path = f"{key}.{name}" if key else str(name)
            if name in old and name in new:
                yield from differences(old[name], new[name], path)
            else:
                before = shown(old[name]) if name in old else None
                after = shown(new[name]) if name in new else None
                yield TreeDifference(path, before, after)
    elif old != new:
        yield TreeDifference(key, shown(old), shown(new))


def nearest(key: str, root: type[Section] = Config) -> str:
    """Return `; did you mean X?` for a misspelt key of `root`, preferably in the same section, or for a key of another
    toolkit, which has equivalents only in a configuration."""
    section, _, name = key.rpartition(".")
    paths = [_like(path, key.split(".")) for path in field_paths(root)]
    by_name = {path.rpartition(".")[2]: path for path in paths}
    siblings = {}
    for path in paths if section else root.model_fields:
        before, _, last = path.rpartition(".")
        if before == section:
            siblings[last] = path
    meant = equivalent_settings(name, section) if root is Config else []
    if any(path.startswith(f"{section}.") for path in meant):
        return _did_you_mean(meant)
    if not meant and (near := misspelt(name, siblings)):
        return _did_you_mean([siblings[near[0]]])
    # Not the fields of a stage, some of which have the same names as training's own.
    elsewhere = []
    for path in paths:
        if path.rpartition(".")[2] == plain(name) and not path.startswith("training.stages."):
            elsewhere.append(path)
    if elsewhere or meant:
        return _did_you_mean([*elsewhere, *meant])
    if root is Config and (note := advice_on(name)):
        return f"; {note}"
    if alike := matching_words(name, siblings):
        return _did_you_mean([siblings[word] for word in alike])
    return _did_you_mean([by_name[word] for word in misspelt(name, by_name, cutoff=0.8)])


def _did_you_mean(settings: Sequence[str]) -> str:
    return did_you_mean(with_remarks(settings))


def _like(path: str, parts: Sequence[str]) -> str:
    """Return `path` with each `*` replaced by the element of `parts` at that position."""
    pattern = path.split(".")
    for i, part in enumerate(parts[: len(pattern)]):
        if pattern[i] == "*":
            pattern[i] = part
    return ".".join(pattern)
