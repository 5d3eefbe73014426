"""Settings of earlier versions that were removed, and their replacements. Only this module knows them.

A saved file with such a setting was written before 0.2.0 and is not read, unless the setting had no effect or is in
`SINCE_0_2_0`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from nmt.config.modes import places


def _gone() -> Iterator[tuple[str, tuple[object, str]]]:
    for row in (Path(__file__).parent / "old.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        settings, neutral, message = row.split("\t")
        for setting in settings.split():
            yield setting, (json.loads(neutral), message)


GONE = dict(_gone())
"""Removed setting -> its value without effect, and a message. `*` stands for any list index or name; of a setting with
`=` and a value, only this value has been removed."""
SINCE_0_2_0 = ("training.both_directions",)
"""The settings that were removed since 0.2.0: a note says that they are not read."""


def without_old(tree: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a copy of a tree without removed settings, and a message about each that had an effect."""
    kept = deepcopy(dict(tree))
    match kept:
        case {"search": {"sample": True, "mbr": "chrf", "mbr_candidates": 16} as search}:
            search["beam"] = 16  # whose default is smaller; it is the number of candidates now
    lines = []
    for setting, (neutral, message) in GONE.items():
        key, is_value, value = setting.partition("=")
        for where, section, name in places(kept, key):
            if is_value and section[name] != json.loads(value):
                continue
            if section.pop(name) != neutral:
                lines.append(f"{where}: {message}")
    return kept, lines
