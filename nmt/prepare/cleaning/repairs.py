"""Repairs of training text. Each repair is a function that returns a side unchanged if there is nothing to repair."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from typing import Literal

from nmt.prepare.cleaning.settings import CorpusClean
from nmt.text.language import needs_extra
from nmt.text.tokenizer import CONTROL

# UTF-8 decoded with an 8-bit encoding: two adjacent characters beyond ASCII, not both small letters, or one and a lost
# no-break space; ftfy takes far longer to see that a line has none
_SUSPECT = re.compile(r"[\x80-\x9f]|(?![ß-öø-ÿ]{2})[^\x00-\x7f]{2}|[ÂÃ] ")
# capitals beside a quote or another mark, which can look like one wrongly decoded letter: »ÜBER«, «AMANHÃ»
_BESIDE_MARK = re.compile(r"(?<!\S)[»›”](?=\w)|[^\W\d_¹²³]{2,}(?=[«»‹›“”„‘’‚…–—·•®™©°§¹²³](?!\w))")
_NO_TEXT = re.compile("[\ufffd\ue000-\uf8ff]")


def repair_encoding() -> Callable[[str], str]:
    """Return a repair of text that was decoded with the wrong encoding. Raises DataError if ftfy is not installed."""
    try:
        from ftfy import fix_encoding
        from ftfy.badness import is_bad
    except ImportError as error:
        raise needs_extra("repair: encoding", "ftfy") from error

    def repair(text: str) -> str:
        if text.isascii() or not _is_misread(text, is_bad):
            return text
        return fix_encoding(text)

    return repair


def _is_misread(text: str, is_bad: Callable[[str], bool]) -> bool:
    """Return whether a text looks decoded with the wrong encoding; `is_bad`: ftfy's opinion."""
    return bool(_SUSPECT.search(text)) and is_bad(text) and is_bad(without_marked_capitals(text))


def without_marked_capitals(text: str) -> str:
    """Replace words in capitals that a quote or another mark follows, and quotes before words, with the letter Z."""
    return _BESIDE_MARK.sub(lambda match: "Z" if match[0] == match[0].upper() else match[0], text)


def is_broken() -> Callable[[str], bool]:
    """Return a test for text that has U+FFFD or private-use characters, or was decoded with the wrong encoding.

    Raises DataError if ftfy is not installed.
    """
    try:
        from ftfy.badness import is_bad
    except ImportError as error:
        raise needs_extra("drop: broken", "ftfy") from error

    return lambda text: not text.isascii() and (_NO_TEXT.search(text) is not None or _is_misread(text, is_bad))


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
