r"""Terms inline: a term and its required translation marked in a source line, for models that were trained with such.

Three reserved ids of the vocabulary are the marks. In text, control characters stand for them, which no line has once
the tokenizer has replaced those by spaces: `a \1 dog\2 Hund\3 barks` is read as
`▁a <reserved_0> ▁dog <reserved_1> ▁Hund <reserved_2> ▁barks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nmt.text.constraints import Span
from nmt.text.tokenizer import CONTROL, FIRST_RESERVED, Tokenizer

MARKS = TERM, TRANSLATION, END = "\x01", "\x02", "\x03"
"""Before a term, between it and its translation, and after that."""

_IDS = {mark: FIRST_RESERVED + i for i, mark in enumerate(MARKS)}
_SPLIT = re.compile(f"([{''.join(MARKS)}])")


def mark_terms(text: str, terms: Iterable[Span]) -> str:
    """Mark terms with their translations; they are in order and do not overlap."""
    text = CONTROL.sub(" ", text)
    parts, end = list[str](), 0
    for term in terms:
        start = term.start - (term.start > end and text[term.start - 1] == " ")  # the space is part of a word's pieces
        parts += text[end:start], TERM, text[start : term.end], TRANSLATION, " ", CONTROL.sub(" ", term.wanted), END
        end = term.end
    return "".join([*parts, text[end:]])


def encode_marked(tokenizer: Tokenizer, text: str) -> list[int]:
    """Encode a line of `mark_terms`."""
    line = f"{TERM} {text[1:]}" if text.startswith(TERM) else f" {text}"  # the first word as within a line
    ids: list[int] = []
    for part in _SPLIT.split(line):
        ids += [_IDS[part]] if part in _IDS else tokenizer.encode_parts([part])[0]
    return ids


def marked(ids: Sequence[int]) -> list[tuple[slice, slice]]:
    """Return where in the ids of a line each marked term is, and its translation; the last may be cut off."""
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
    """Return a line of `mark_terms` with the names of the reserved ids in place of the marks."""
    return _SPLIT.sub(lambda match: f" <reserved_{_IDS[match[0]] - FIRST_RESERVED}>", text).lstrip()
