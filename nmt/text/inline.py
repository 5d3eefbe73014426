r"""Inline terms: source lines in which terms are marked with their translations, for models trained with such lines.

The marks are three reserved ids of the vocabulary. In text they are written as control characters, which no other line
has, since the tokenizer replaces them by spaces: `a \1 dog\2 Hund\3 barks` is encoded as
`▁a <reserved_0> ▁dog <reserved_1> ▁Hund <reserved_2> ▁barks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nmt.text.constraints import Span
from nmt.text.tokenizer import CONTROL, FIRST_RESERVED, Tokenizer

MARKS = TERM, TRANSLATION, END = "\x01", "\x02", "\x03"
"""Marks before a term, between the term and its translation, and after the translation."""

_IDS = {mark: FIRST_RESERVED + i for i, mark in enumerate(MARKS)}
_SPLIT = re.compile(f"([{''.join(MARKS)}])")


def mark_terms(text: str, terms: Iterable[Span]) -> str:
    """Mark terms with their translations. Terms must be in order and not overlap."""
    text = CONTROL.sub(" ", text)
    parts, end = list[str](), 0
    for term in terms:
        start = term.start - (term.start > end and text[term.start - 1] == " ")  # the space is part of a word's pieces
        parts += text[end:start], TERM, text[start : term.end], TRANSLATION, " ", CONTROL.sub(" ", term.wanted), END
        end = term.end
    return "".join([*parts, text[end:]])


def encode_marked(tokenizer: Tokenizer, text: str) -> list[int]:
    """Encode a line that `mark_terms` returned."""
    line = f"{TERM} {text[1:]}" if text.startswith(TERM) else f" {text}"  # the first word as within a line
    ids: list[int] = []
    for part in _SPLIT.split(line):
        ids += [_IDS[part]] if part in _IDS else tokenizer.encode_parts([part])[0]
    return ids


def marked(ids: Sequence[int]) -> list[tuple[slice, slice]]:
    """Return the slices of each marked term and its translation in the ids of a line; the line may be truncated."""
    found = []
    start = middle = 0
    for i, token in enumerate([*ids, _IDS[END]]):
        if token == _IDS[TERM]:
            start = i
        elif token == _IDS[TRANSLATION]:
            middle = i
        elif token == _IDS[END] and middle:
            found.append((slice(start, middle), slice(middle, i)))
            middle = 0
    return found


def without_translations(ids: Sequence[int]) -> list[int]:
    """Return the ids of a line without the translations of its terms."""
    left = list(ids)
    for _, translation in reversed(marked(ids)):
        del left[translation]
    return left


def shown(text: str) -> str:
    """Return a line from `mark_terms` with its marks replaced by the names of the reserved ids."""
    return _SPLIT.sub(lambda match: f" <reserved_{_IDS[match[0]] - FIRST_RESERVED}>", text).lstrip()
