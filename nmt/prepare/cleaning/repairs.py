"""Repairs of training text: each is a function of one side that returns it unchanged if there is nothing to repair."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from typing import Literal

from nmt.config.clean import CorpusClean
from nmt.errors import DataError
from nmt.text.tokenizer import CONTROL

# what UTF-8 becomes in an 8-bit encoding: two characters beyond ASCII side by side, not both small letters, or one and
# a lost no-break space; ftfy takes far longer to see that a line has none
_SUSPECT = re.compile(r"[\x80-\x9f]|(?![ß-öø-ÿ]{2})[^\x00-\x7f]{2}|[ÂÃ] ")
_NO_TEXT = re.compile("[\ufffd\ue000-\uf8ff]")


def needs_extra(setting: str, package: str) -> DataError:
    """Return the error that a package of the extra `clean` is not installed."""
    return DataError(
        f"clean.{setting} needs the package {package}; install it with pip install {package}, or with nmt's extra clean"
    )


def repair_encoding() -> Callable[[str], str]:
    """Return a repair that restores text decoded with the wrong encoding. Raises DataError without ftfy."""
    try:
        from ftfy import fix_encoding
    except ImportError as error:
        raise needs_extra("repair: encoding", "ftfy") from error

    def repair(text: str) -> str:
        return text if text.isascii() or not _SUSPECT.search(text) else fix_encoding(text)

    return repair


def is_broken() -> Callable[[str], bool]:
    """Return a test for broken text: U+FFFD, private characters and text decoded with the wrong encoding.

    Raises DataError without ftfy.
    """
    try:
        from ftfy.badness import is_bad
    except ImportError as error:
        raise needs_extra("drop: broken", "ftfy") from error

    def broken(text: str) -> bool:
        if text.isascii():
            return False
        return bool(_NO_TEXT.search(text)) or bool(_SUSPECT.search(text) and is_bad(text))

    return broken


Repair = Callable[[str], str]

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_ZERO_WIDTH = re.compile("[\u00ad\u200b\u2060\ufeff]")  # not the joiners, which Persian and Hindi need


def repairs(clean: CorpusClean) -> list[tuple[str, Repair]]:
    """Return the repairs of a corpus by their names in `REPAIRS`, in the order in which they are made."""
    made: list[tuple[str, Repair]] = []
    wanted = clean.repair or ()
    if "encoding" in wanted:
        made.append(("encoding", repair_encoding()))
    if "entities" in wanted:
        made.append(("entities", decode_entities))
    if "control" in wanted:
        made.append(("control", remove_control))
    if "NFC" in wanted:
        made.append(("unicode", partial(to_unicode_form, "NFC")))
    if "NFKC" in wanted:
        made.append(("unicode", partial(to_unicode_form, "NFKC")))
    if "spaces" in wanted:
        made.append(("spaces", plain_spaces))
    return made


def decode_entities(text: str) -> str:
    """Replace HTML entities that end in a semicolon by their characters, also those of entities: `&amp;lt;`."""
    while _ENTITY.search(text) and (decoded := _ENTITY.sub(lambda match: html.unescape(match[0]), text)) != text:
        text = decoded
    return text


def remove_control(text: str) -> str:
    """Remove control characters; those that separate lines or pages become spaces."""
    if text.isprintable() or not CONTROL.search(text):
        return text
    return CONTROL.sub(lambda match: " " if match[0].isspace() else "", text)


def to_unicode_form(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Bring a text into a Unicode normal form."""
    return text if text.isascii() else unicodedata.normalize(form, text)


def plain_spaces(text: str) -> str:
    """Replace each run of white space by a space, and remove zero-width spaces and soft hyphens."""
    if text.isprintable() and "  " not in text:  # a space is the only white space that is printable
        return text
    return " ".join(_ZERO_WIDTH.sub("", text).split())
