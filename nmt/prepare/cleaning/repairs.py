"""Repairs of training text. Each repair is a function that returns a side unchanged if there is nothing to repair."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from typing import Literal

from nmt.prepare.cleaning.encoding import repair_encoding
from nmt.prepare.cleaning.settings import CorpusClean
from nmt.text.tokenizer import CONTROL

Repair = Callable[[str], str]

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_ZERO_WIDTH = re.compile("[\u00ad\u200b\u2060\ufeff]")  # not the joiners, which Persian and Hindi need


def repairs(clean: CorpusClean) -> list[tuple[str, Repair]]:
    """Return the repairs for a corpus with their names in `REPAIRS`, in the order in which they are applied."""
    chosen = clean.repair or ()
    plain: dict[str, tuple[str, Repair]] = {
        "entities": ("entities", decode_entities),
        "control": ("control", remove_control),
        "NFC": ("unicode", partial(to_unicode_form, "NFC")),
        "NFKC": ("unicode", partial(to_unicode_form, "NFKC")),
        "spaces": ("spaces", plain_spaces),
    }
    encoding = [("encoding", repair_encoding())] if "encoding" in chosen else []
    return encoding + [repair for name, repair in plain.items() if name in chosen]


def decode_entities(text: str) -> str:
    """Replace HTML entities that end in a semicolon with their characters, including nested ones such as `&amp;lt;`."""
    while _ENTITY.search(text) and (decoded := _ENTITY.sub(lambda match: html.unescape(match[0]), text)) != text:
        text = decoded
    return text


def has_control(text: str) -> bool:
    """Return whether a text has a control character other than the tab."""
    return not text.isprintable() and CONTROL.search(text) is not None


def remove_control(text: str) -> str:
    """Remove control characters, or replace them with spaces if they separate lines or pages."""
    if not has_control(text):
        return text
    return CONTROL.sub(lambda match: " " if match[0].isspace() else "", text)


def to_unicode_form(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Normalise a text to a Unicode normalisation form."""
    return text if text.isascii() else unicodedata.normalize(form, text)


def plain_spaces(text: str) -> str:
    """Replace each run of white space with a single space, and remove zero-width spaces and soft hyphens."""
    if text.isprintable() and "  " not in text:  # a space is the only white space that is printable
        return text
    return " ".join(_ZERO_WIDTH.sub("", text).split())
