"""Text that was decoded with the wrong encoding: `schÃ¶n` for `schön`. ftfy, an extra, restores it."""

from __future__ import annotations

import re
from collections.abc import Callable

from nmt.errors import DataError

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
        raise needs_extra("repair_encoding", "ftfy") from error

    def repair(text: str) -> str:
        return text if text.isascii() or not _SUSPECT.search(text) else fix_encoding(text)

    return repair


def is_broken() -> Callable[[str], bool]:
    """Return a test for what is not text: U+FFFD, private characters and text decoded with the wrong encoding.

    Raises DataError without ftfy.
    """
    try:
        from ftfy.badness import is_bad
    except ImportError as error:
        raise needs_extra("broken", "ftfy") from error

    def broken(text: str) -> bool:
        if text.isascii():
            return False
        return bool(_NO_TEXT.search(text)) or bool(_SUSPECT.search(text) and is_bad(text))

    return broken
