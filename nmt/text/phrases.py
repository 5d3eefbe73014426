"""Ids of terms that a translation must contain, in the middle of a sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nmt.text.tokenizer import CONTROL, Tokenizer
from nmt.text.words import UNSPACED

_FOLLOWS_DIRECTLY = re.compile(rf"[{UNSPACED},;!?)\]}}…]|\.(?!\d)|:(?!\w)|%(?![\w({{])|[-'’](?=[^\W\d_])")
"""Matches the start of a term that no space separates from the word before it."""
_ANCHOR = "a"


def term_ids(tokenizer: Tokenizer, term: str) -> list[int]:
    """Return the ids of a term in the middle of a sentence, without special ids; a blank term has none.

    Surrounding white space is stripped. A space precedes the term, unless it begins with punctuation.
    """
    tokenizer = tokenizer.exactly()
    text = CONTROL.sub(" ", term).strip()
    if _FOLLOWS_DIRECTLY.match(text):
        anchor = tokenizer.encode(_ANCHOR)
        ids = tokenizer.encode(_ANCHOR + text)
        if ids[: len(anchor)] == anchor:
            return ids[len(anchor) :]
    return tokenizer.encode(text)


def word_parts(tokenizer: Tokenizer) -> list[bool]:
    """Return for each id whether its piece continues the word before it: it starts with a digit or a cased letter.

    Letters without case belong to scripts that may write words without spaces.
    """
    return [_continues_word(piece) for piece in tokenizer.pieces(range(len(tokenizer)))]


def _continues_word(piece: str) -> bool:
    start = re.sub(f"[{UNSPACED}]", "", piece[:1])
    return start.isdecimal() or start.lower() != start.upper()


def n_within(phrase: Sequence[int], other: Sequence[int], tokenizer: Tokenizer) -> int:
    """Count the occurrences of a phrase in a longer phrase that do not overlap and are not continued by the next
    token."""
    n = 0
    start = 0
    while phrase and len(phrase) < len(other) and start + len(phrase) <= len(other):
        end = start + len(phrase)
        occurs = list(other[start:end]) == list(phrase)
        if occurs and not any(map(_continues_word, tokenizer.pieces(other[end : end + 1]))):
            n += 1
            start = end
        else:
            start += 1
    return n
