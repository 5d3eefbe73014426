"""Labels as files have them: text, or numbers that may stand for names."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence


def is_label(value: object) -> bool:
    """Whether a value is text, a number, a truth value, or null, which is no label."""
    return value is None or isinstance(value, str | int | float)


def label_text(value: object, names: Sequence[str] = ()) -> str | None:
    """Return a label as text, None if it `is_label` no more than null.

    A whole number is that of one of the `names`, if there are some; below 0 it stands for no label, as in test sets
    whose labels are secret.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int() if names:
            return names[value] if 0 <= value < len(names) else None
        case int():
            return str(value)
        case float():
            return f"{value:g}" if math.isfinite(value) else None
        case _:
            return value if isinstance(value, str) else None


def class_names(metadata: Mapping[bytes, bytes] | None) -> dict[str, list[str]]:
    """Return the names of classes by column, of the columns for which the library `datasets` recorded them in the
    metadata of a schema."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        classes = {name: feature["names"] for name, feature in features.items() if "names" in feature}
        return {name: names for name, names in classes.items() if all(isinstance(one, str) for one in names)}
    except (KeyError, ValueError, TypeError, AttributeError):  # someone else's metadata
        return {}
