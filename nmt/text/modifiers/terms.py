"""Terms inline, as `nmt.text.inline` marks them: a model learns to translate them as it is told."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from nmt.config import SearchConfig
from nmt.text.constraints import constraint_spans
from nmt.text.glossary import Glossary
from nmt.text.inline import mark_terms
from nmt.text.modifiers.draw import below, pick, some
from nmt.text.protect import Span, alone

SHARE = 0.7
"""Share of the terms of a pair that are marked, besides the one that is for certain."""
OTHER = 0.3
"""Share of the pairs in which one term has, in its mark and in the target, the translation of another term: what the
model cannot guess, it has to read."""

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
    i, other = below(rng, len(chosen)), pick(rng, glossary.translations)
    pattern = alone(chosen[i].wanted)
    if rng.random() < OTHER and len(pattern.findall(tgt)) == 1:
        chosen[i], tgt = replace(chosen[i], wanted=other), pattern.sub(lambda _: other, tgt)
    return mark_terms(src, chosen), tgt
