"""Terms inline, as `nmt.text.inline` marks them: a model learns to translate them as it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from nmt.config import SearchConfig
from nmt.text.constraints import Glossary, Span, alone, constraint_spans
from nmt.text.inline import mark_terms
from nmt.text.modifiers.draw import below, pick, some

SHARE = 0.7
"""Share of the terms of a pair that are marked, besides the one that is for certain."""
OTHER = 0.5
"""Share of the pairs whose marked terms have, in their marks and in the target, the translation of another term or a
made-up word: what the model cannot guess, it has to read."""
MADE_UP = 0.5
"""Share of made-up words among those."""

_ANY = SearchConfig()


def terms(src: str, tgt: str, rng: Random, glossary: Glossary) -> tuple[str, str]:
    """Return the source with marks on some of its terms, of those that the target translates so, and the target."""
    translated, rest = list[Span](), tgt
    for span in sorted(constraint_spans(src, _ANY, glossary), key=lambda span: -len(span.wanted)):
        # matches are removed, so that a translation within another is not counted again
        rest, n = alone(span.wanted).subn(" ", rest, count=1)
        translated += [span] * n
    if not translated:
        return src, tgt
    chosen = some(rng, sorted(translated, key=lambda span: span.start), SHARE)
    if rng.random() < OTHER:
        chosen, tgt = _with_others(chosen, tgt, rng, glossary)
    return mark_terms(src, chosen), tgt


def _with_others(spans: Sequence[Span], tgt: str, rng: Random, glossary: Glossary) -> tuple[list[Span], str]:
    """Return the spans with other translations and the target that has these; one that it has twice stays."""
    changed = []
    for span in spans:
        other, found = pick(rng, glossary.translations), list(alone(span.wanted).finditer(tgt))
        if rng.random() < MADE_UP:
            other = _made_up(other, rng)
        if len(found) == 1:
            span, tgt = replace(span, wanted=other), tgt[: found[0].start()] + other + tgt[found[0].end() :]
        changed.append(span)
    return changed, tgt


def _made_up(word: str, rng: Random) -> str:
    """Return the letters of a word in another order; the first stays, so that a name is still one."""
    left, letters = list(word[1:]), [word[:1]]
    while left:
        letters.append(left.pop(below(rng, len(left))))
    return " ".join("".join(letters).split())
