"""Constraints that a source line puts on its translation: protected spans, and the terms of a glossary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from nmt.config import SearchConfig
from nmt.text.glossary import Glossary
from nmt.text.protect import Span, spans

_RANK = {"term": 0, "pattern": 2}  # of equally long spans; others 1: a tag that a pattern matches stays a tag


def constraint_spans(text: str, search: SearchConfig, glossary: Glossary | None = None) -> list[Span]:
    """Return the spans of a line whose translation is prescribed, in order.

    Of overlapping spans the longest is taken; of equally long ones first a term of the glossary, last a pattern of the
    user. No term begins or ends within a URL, e-mail address, number, tag or placeholder, protected or not.
    """
    if glossary is None and not search.protect and not search.protect_patterns:
        return []
    known = list(spans(text))
    inside = {i for span in known for i in range(span.start + 1, span.end)}
    occurrences = [] if glossary is None else glossary.spans(text)
    terms = [span for span in occurrences if span.start not in inside and span.end not in inside]
    copied = [span for span in known if search.protect is True or (search.protect and span.kind != "number")]
    return _longest([*terms, *_matches(text, search.protect_patterns), *copied])


def _matches(text: str, patterns: Sequence[str]) -> Iterator[Span]:
    for pattern in patterns:
        for match in re.finditer(pattern, text):
            if match[0]:
                yield Span(match.start(), match.end(), "pattern", match[0])


def _longest(spans: Iterable[Span]) -> list[Span]:
    """Select non-overlapping spans greedily, the longest first; returns them in order."""
    taken: set[int] = set()
    chosen = []
    for span in sorted(spans, key=lambda span: (span.start - span.end, _RANK.get(span.kind, 1), span.start)):
        characters = range(span.start, span.end)
        if taken.isdisjoint(characters):
            taken.update(characters)
            chosen.append(span)
    return sorted(chosen, key=lambda span: span.start)
