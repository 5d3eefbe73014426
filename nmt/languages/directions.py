"""Directions of translation, such as de-en, and the tags of their target languages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from nmt.errors import ConfigError
from nmt.spelling import did_you_mean

DIRECTION = re.compile(r"^([A-Za-z][A-Za-z0-9_]*)-([A-Za-z][A-Za-z0-9_]*)$")

TO = "to="
"""Begins the name of the tag of a target language: `to=de`."""

LABEL = "label"
"""The target "language" of texts with class labels."""


def sides_of(direction: str) -> tuple[str, str]:
    """Return the source and the target language of a direction."""
    src, tgt = direction.split("-")
    return src, tgt


def pair_of(direction: str) -> str:
    """Return the pair of languages of a direction, in alphabetical order: de-en for en-de."""
    return "-".join(sorted(direction.split("-")))


ANY = "*"
"""Stands for any source language, where it makes no difference."""


def check_language(option: str, name: str, known: Collection[str]) -> None:
    """Raise ConfigError unless the language that an option names is known."""
    if name not in known:
        near = did_you_mean(difflib.get_close_matches(name, known, cutoff=0.5))
        raise ConfigError(f"{option} {name}: not a language of this model{near or '; choose ' + ', '.join(known)}")
