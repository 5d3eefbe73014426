"""Settings of earlier versions that have been removed, and what to use instead. No other module knows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

_FILTER = "score pairs with nmt filter --classifier RUN, and read its scores with score and clean.min_score"
GONE: dict[str, tuple[object, str]] = {
    f"data.{where}clean.{name}": (None, _FILTER)
    for where in ("", "train.*.")
    for name in ("classifier", "min_classifier_score")
}
"""Removed setting -> its value without effect, and what to use instead. `*` stands for any list index."""
GONE_VALUES: dict[tuple[str, str], tuple[object, str]] = {
    ("training.optimizer", "schedule_free"): ("adamw", "take adamw, with training.cooldown or training.ema"),
}
"""Setting and removed value -> the value that replaces it, and what to use instead."""


def without_old(tree: Mapping[str, object]) -> tuple[dict[str, Any], list[str]]:
    """Return a copy of a tree of settings without removed settings, and a message about each that had an effect."""
    kept, lines = deepcopy(dict(tree)), []
    for key, (neutral, advice) in GONE.items():
        for where, section, name in _places(kept, key.split(".")):
            value = section.pop(name)
            if value != neutral:
                lines.append(f"{where}: this setting has been removed; {advice}")
    for (key, value), (replacement, advice) in GONE_VALUES.items():
        for where, section, name in _places(kept, key.split(".")):
            if section[name] == value:
                section[name] = replacement
                lines.append(f"{where}: {value} has been removed; {advice}")
    return kept, lines


def _places(node: Any, keys: list[str], where: str = "") -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each occurrence of a key in a tree: its dotted key, the mapping that contains it, and its name there."""
    key, *inner = keys
    if isinstance(node, list) and key == "*":
        for i, item in enumerate(node):
            yield from _places(item, inner, f"{where}{i}.")
    elif isinstance(node, dict) and key in node:
        if inner:
            yield from _places(node[key], inner, f"{where}{key}.")
        else:
            yield f"{where}{key}", node, key
