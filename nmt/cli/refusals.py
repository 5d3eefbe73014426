"""Combinations of options that the commands refuse; refusals.tsv lists them with their messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from nmt.errors import ConfigError

_NAMES = {
    # options with which runs translate, so that they have no effect on translations in a file
    "RUNS": "--data|--output|--samples|--from|--via|--beam|--length-penalty|--set|--checkpoint|--weights|--precision",
    "CHAT": "--teacher-model|--prompt|--lines-per-request|--candidates|--scorer|--request|--parallel|--price"
    "|--max-tokens|--max-cost|--unchecked|--dry-run",
    "LINES": "--prefix|--constraints|--alignments|--attention",
    "REVIEW": "--overwrite|--set|--lm|--lm-weight|--tag|--glossary|--tm|--beam|--length-penalty|--via",
}
"""Names of several options in refusals.tsv."""


@cache
def refusals(command: str) -> dict[str, list[str]]:
    """Return the messages of a command, and the conditions under which they are shown, of which one must be met.

    A condition in refusals.tsv lists options that are given, joined by `with`, and after `without` those that are not.
    `A|B` stands for any of several; `--format=json` is an option with a value, RUN an argument. A word in lower case,
    such as `documents`, is a mode that the command finds out and passes to `refuse`. A message can contain the values
    of parameters, and as `options` the given ones of the last `A|B`.
    """
    table = (Path(__file__).parent / "refusals.tsv").read_text(encoding="utf-8")
    for name, options in _NAMES.items():
        table = re.sub(rf"\b{name}\b", options, table)
    rows = (row.split("\t") for row in table.splitlines()[1:])
    return {message: conditions.split("; ") for of, message, conditions in rows if of == command}


def refuse(context: Any, mode: str = "", **facts: object) -> None:
    """Raise ConfigError for the first refused combination of options in the context of a command.

    mode: a word for what the command has found out, which conditions name. facts: values for the messages besides those
    of parameters. An option with its default value counts as not given.
    """
    given = {*_given(context), mode}
    for message, conditions in refusals(context.command.name).items():
        for condition in conditions:
            if (options := _met(condition, given)) is not None:
                shown = ", ".join(option.replace("=", " ") for option in options)
                raise ConfigError(message.format(**context.params, **facts, options=shown))


def _met(condition: str, given: Collection[str]) -> list[str] | None:
    """Return the given options of the last `A|B` if a condition is met, else None."""
    options = list[str]()
    is_wanted = True
    for word in condition.split():
        if word in ("with", "without"):
            is_wanted = word == "with"
            continue
        named = [name for name in word.split("|") if name in given]
        if bool(named) != is_wanted:
            return None
        options = named or options
    return options


def _given(context: Any) -> Iterator[str]:
    """Yield the names of the given options and arguments, and `--name=value` for each option."""
    for param in context.command.params:
        value = context.params.get(param.name)
        if value not in (None, (), [], param.default):
            name = param.opts[0]
            if param.param_type_name == "argument":
                name = param.metavar
            yield name
            values = value if isinstance(value, (list, tuple)) else [value]
            for part in values:
                yield f"{name}={part}"
