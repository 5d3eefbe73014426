"""Text that a translation must copy from the source: addresses, numbers, tags, placeholders."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_L = r"0-9A-Za-z\u00c0-\u052f"  # letters of scripts with spaces between words; digits, too
_NEW = rf"(?<![{_L}_])"  # not within a word
_START = rf"(?<![{_L}])(?<![0-9][.,])"  # nor within a number

_URL = r"""(?:(?:https?|ftps?|file|ssh|git|wss?)://|www\.(?=\w))[^\s<>"„“”«»‹›\u3000-\u9fff\uff00-\uffef]++"""
_EMAIL = rf"{_NEW}[{_L}][{_L}_.+-]{{0,63}}+@[{_L}-]++(?:\.[{_L}-]++)++"
_TAG = (
    r"</?[A-Za-z][\w:.-]*+(?:\s[^<>=]*+=[^<>]*+|\s*+/?)>"
    r"|&(?:[A-Za-z][A-Za-z0-9]{1,31}|\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6});"
)
_PLACEHOLDER = (
    r"\{\{[^{}]*+\}\}|[$%\#]?\{[^{}\s]*+\}"
    rf"|{_NEW}(?:\$[A-Za-z_][A-Za-z0-9_]*+|__[A-Za-z0-9_]+?__(?![{_L}_]))"
    rf"|(?<!%){_NEW}%(?:\(\w+\)|[0-9]+\$)?[-+0\#]*[0-9]*(?:\.[0-9]+)?(?:l{{1,2}}|h|z)?[sdifuxXeEgGc@](?![{_L}_])"
)
# a sign belongs to a number unless it is between two; a separator of digits may also end a sentence
_NUMBER = rf"(?:{_NEW}(?<![)\]}}%.,/+-])[-+−])?{_START}[0-9]++(?:[.,:/'’\u00a0\u202f-][0-9]++)*+%?"

_KINDS = {"url": _URL, "email": _EMAIL, "tag": _TAG, "placeholder": _PLACEHOLDER, "number": _NUMBER}
_PATTERN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))

_ENDS_A_SENTENCE = ".,;:!?…'’*_"
_BRACKETS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` of a line, and the text that its translation must contain for them."""

    start: int
    end: int
    kind: str
    """url, email, tag, placeholder or number; pattern if one of the user's own matched; term if a glossary has it."""
    wanted: str


def protected(text: str) -> list[str]:
    """Return the URLs, e-mail addresses, numbers, tags and placeholders of a line, in order and not nested."""
    return [span.wanted for span in spans(text)]


def find(text: str) -> Iterator[tuple[str, str]]:
    """Return the kind (url, email, tag, placeholder or number) and text of each, in order."""
    return ((span.kind, span.wanted) for span in spans(text))


def spans(text: str) -> Iterator[Span]:
    """Yield the spans of `protected`, in order."""
    position = 0
    while match := _PATTERN.search(text, position):
        kind, wanted = str(match.lastgroup), match[0]
        if kind == "url":
            wanted = _without_punctuation(wanted)
        position = match.start() + len(wanted)
        yield Span(match.start(), position, kind, wanted)


def _without_punctuation(url: str) -> str:
    """Strip what belongs to the sentence: marks, and brackets that the URL does not open itself."""
    unopened = {right: url.count(right) - url.count(left) for right, left in _BRACKETS.items()}
    end = len(url)
    while url[end - 1] in _ENDS_A_SENTENCE or unopened.get(url[end - 1], 0) > 0:
        end -= 1
        if url[end] in unopened:
            unopened[url[end]] -= 1
    return url[:end]


def survival(source: str, translation: str) -> tuple[int, int]:
    """Return how many protected texts of the source are unchanged in the translation, and how many there are.

    Each counts as often as it occurs in the source.
    """
    counts = survival_by_kind(source, translation).values()
    return sum(n_kept for n_kept, _ in counts), sum(n_all for _, n_all in counts)


def survival_by_kind(source: str, translation: str) -> dict[str, tuple[int, int]]:
    """Like `survival`, for each kind separately."""
    wanted = Counter(find(source))
    counts = dict.fromkeys(_KINDS, (0, 0))
    for (kind, text), n in sorted(wanted.items(), key=lambda item: -len(item[0][1])):
        # matches are removed, so that a number within an address is not counted again
        translation, n_found = alone(text).subn(" ", translation, count=n)
        n_kept, n_all = counts[kind]
        counts[kind] = n_kept + n_found, n_all + n
    return counts


def alone(text: str) -> re.Pattern[str]:
    """Return a pattern for a text, but not within a longer number, nor within a word of a script with spaces."""
    before = _START if re.match(f"[{_L}]", text) else ""
    after = r"(?![.,:]?[0-9])" if text[-1].isdigit() else "" if text[-1] in ")]}>;%" else rf"(?![{_L}])"
    return re.compile(before + re.escape(text) + after)
