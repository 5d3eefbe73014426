"""Settings that have no effect with some values of others, which are called modes here.

modes.tsv lists them with these values; a mode may have a pattern of values, such as `*-label`. A setting without a row
is read in all modes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from nmt.data.settings import DataConfig
from nmt.model.settings import ModelConfig
from nmt.search.settings import SearchConfig
from nmt.text.settings import TokenizerConfig
from nmt.training.settings import TrainingConfig


class Unread(NamedTuple):
    """A setting in a tree of settings that has no effect there."""

    key: str
    section: Any
    """The mapping that contains it under `name`."""
    name: str
    reason: str

    @property
    def is_off(self) -> bool:
        """Whether its value switches something off, so that it need not have an effect."""
        return self.section[self.name] in (0, None, [], {}, "none")

    @property
    def is_default(self) -> bool:
        """Whether it has its default value, which is no error, since complete files contain all settings."""
        return bool(self.section[self.name] == _values(_DEFAULTS, self.key)[0])


def unread(tree: Mapping[str, Any]) -> Iterator[Unread]:
    """Yield the settings that have no effect in a tree of plain values, which may be invalid."""
    for settings, modes, reason in _ROWS:
        if all(_has(tree, mode, values) for mode, values in modes.items()):
            for setting in settings:
                for place in places(tree, setting):
                    yield Unread(*place, reason)


def leave_out(tree: Mapping[str, Any], kept: Collection[str] = ()) -> list[str]:
    """Remove the settings that have no effect from a tree, except `kept` ones, and return notes on those that differ
    from their defaults."""
    reasons = dict[str, str]()
    before = -1
    while before < len(reasons):  # without one setting, another may have no effect
        before = len(reasons)
        for setting in [*unread(tree)]:
            if setting.name in setting.section and not any(_overlap(setting.key, key) for key in kept):
                if not setting.is_default:
                    reasons[setting.key] = setting.reason
                del setting.section[setting.name]
    keys = dict[str, list[str]]()
    for key, reason in reasons.items():
        keys.setdefault(reason, []).append(key)
    return [f"{', '.join(keys[reason])}: {reason}" for reason in keys]


def _overlap(key: str, other: str) -> bool:
    return f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.")


def places(node: Any, key: str, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted key, the containing mapping or list, and the last part of each occurrence of a key in a tree.

    `*` in the key stands for any list index or name.
    """
    first, _, inner = key.partition(".")
    names: Iterable[Any] = ()
    if isinstance(node, dict):
        names = node if first == "*" else node.keys() & {first}
    elif first == "*" and isinstance(node, list | tuple):
        names = range(len(node))
    for name in [*names]:
        if inner:
            yield from places(node[name], inner, f"{where}{name}.")
        else:
            yield f"{where}{name}", node, name


def _has(tree: Mapping[str, Any], mode: str, values: Sequence[Any]) -> bool:
    """Return whether a mode has one of these values, in all places if there are several."""
    for value in _values(tree, mode):
        if value not in values and not (isinstance(value, str) and fnmatchcase(value, str(values[0]))):
            return False
    return True


def _values(tree: Mapping[str, Any], key: str) -> list[Any]:
    """Return the values of a setting in a tree, or else its default value; null if it has none."""
    given = [section[name] for _, section, name in places(tree, key)]
    return given or [section[name] for _, section, name in places(_DEFAULTS, key)] or [None]


def _read_rows() -> Iterator[tuple[list[str], dict[str, list[Any]], str]]:
    for row in Path(__file__).with_name("modes.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        settings, modes, reason = row.split("\t")
        yield settings.split(), json.loads(modes), reason


_ROWS = [*_read_rows()]
_SECTIONS: dict[str, Any] = {
    "data": DataConfig,
    "tokenizer": TokenizerConfig,
    "model": ModelConfig,
    "training": TrainingConfig,
    "search": SearchConfig,
}
_DEFAULTS = {name: section.model_construct(train=[]).model_dump() for name, section in _SECTIONS.items()}
