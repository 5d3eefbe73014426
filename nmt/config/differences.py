"""What differs between two configurations, or between two trees of plain values."""

from __future__ import annotations

import json
from collections.abc import Iterator

from nmt.config import Config


def changed_settings(old: Config, new: Config) -> Iterator[tuple[str, object, object]]:
    """Yield `section.name` and the plain values (as in JSON) of every setting that differs."""
    before, now = old.model_dump(mode="json"), new.model_dump(mode="json")
    for section, values in now.items():
        for name, value in values.items():
            if before[section][name] != value:
                yield f"{section}.{name}", before[section][name], value


def differences(old: object, new: object, key: str = "") -> Iterator[str]:
    """Yield `KEY was OLD, is NEW` (or `was added`, `was removed`) for each place where two trees differ."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        old, new = dict(enumerate(old)), dict(enumerate(new))
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*old, *new]):
            path = f"{key}.{name}" if key else str(name)
            if name in old and name in new:
                yield from differences(old[name], new[name], path)
            else:
                yield f"{path} was {'removed' if name in old else 'added'}"
    elif old != new:
        yield f"{key} was {shown(old)}, is {shown(new)}"


def shown(value: object) -> str:
    """A plain value as JSON of at most 60 characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
