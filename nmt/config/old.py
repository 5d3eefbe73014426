"""Settings of earlier versions that are gone, and what to write instead. No other module knows them."""

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
"""By setting, the value that had no effect, and what to write instead. `*` stands for any place in a list."""
GONE_VALUES: dict[tuple[str, str], tuple[object, str]] = {
    ("training.optimizer", "schedule_free"): ("adamw", "take adamw, with training.cooldown or training.ema"),
}
"""By setting and value, the value that takes its place, and what to write instead."""


def without_old(tree: Mapping[str, object]) -> tuple[dict[str, Any], list[str]]:
    """Return a copy of a tree of settings without what is gone, and a line about each setting that had an effect."""
    kept, lines = deepcopy(dict(tree)), []
    for key, (neutral, advice) in GONE.items():
        for where, section, name in _places(kept, key.split(".")):
            value = section.pop(name)
            if value != neutral:
                lines.append(f"{where}: no longer a setting; {advice}")
    for (key, value), (replacement, advice) in GONE_VALUES.items():
        for where, section, name in _places(kept, key.split(".")):
            if section[name] == value:
                section[name] = replacement
                lines.append(f"{where}: {value} is no longer there; {advice}")
    return kept, lines


def _places(node: Any, keys: list[str], where: str = "") -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the dotted key, the mapping and the name in it of each place in a tree that has a key."""
    key, *inner = keys
    if isinstance(node, list) and key == "*":
        for i, item in enumerate(node):
            yield from _places(item, inner, f"{where}{i}.")
    elif isinstance(node, dict) and key in node:
        if inner:
            yield from _places(node[key], inner, f"{where}{key}.")
        else:
            yield f"{where}{key}", node, key
