"""Text that was decoded with the wrong encoding: its repair, and tests for it."""

from __future__ import annotations

import re
from collections.abc import Callable

from nmt.text.language import needs_extra

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
