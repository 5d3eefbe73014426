"""Modifiers that teach to copy: noise, placeholders and tags.

Where something is the same on both sides and occurs once on each (a number, an address, a name), the two are
translations of each other, without an alignment of words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from nmt.text.constraints import spans
from nmt.text.modifiers.draw import below, pick, some

MAX_NOISE = 40
"""Maximum number of symbols of noise."""

# first and last characters; all between them are assigned and visible
_BLOCKS = (
    (0x21, 0x7E), (0xA1, 0xAC), (0xC0, 0x17F), (0x3A3, 0x3CE), (0x410, 0x44F), (0x561, 0x586), (0x5D0, 0x5EA),
    (0x627, 0x63A), (0x905, 0x939), (0xE01, 0xE30), (0x10D0, 0x10F0), (0x2190, 0x21FF), (0x2200, 0x22FF),
    (0x25A0, 0x25FF), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1F600, 0x1F64F),
)  # fmt: skip
_NAME = re.compile(r"(?<![\w\u0300-\u036f])[^\W\d_]{4,}(?![\w\u0300-\u036f])")
_PLACEHOLDERS = (
    "{{{}}}", "{{{{{}}}}}", "${{{}}}", "%({})s", "__{}__", "${}", "{{0}}", "{{1}}", "%s", "%d", "%1$s", "%2$s",
)  # fmt: skip
_WORDS = ("name", "user", "count", "file", "value", "item", "date", "page", "city", "price")
_TAGS = ("b", "i", "u", "em", "strong", "p", "span", "code", 'a href="#{}"', 'g id="{}"', 'span class="c{}"')
_EMPTY_TAGS = ("br", "hr", 'x id="{}"', 'ph id="{}"')


Place = tuple[int, int]
"""The first character, and the one after the last."""


class _Copied(NamedTuple):
    src: Place
    tgt: Place


def noise(src: str, _: str, rng: Random) -> tuple[str, str]:
    """Return a line of random symbols, in number about the pieces of the source, as both sides."""
    n_left, words = min(max(len(src) // 4, 3), MAX_NOISE), []
    while n_left > 0:
        (first, last), size = pick(rng, _BLOCKS), 1 + below(rng, min(n_left, 6))
        words.append("".join(chr(first + below(rng, last - first + 1)) for _ in range(size)))
        n_left -= size
    line = " ".join(words)
    return line, line


def placeholders(src: str, tgt: str, rng: Random) -> tuple[str, str]:
    """Return both sides with different placeholders in place of some of what is the same on both."""
    copied = _copied(src, tgt)
    if not copied:
        return src, tgt
    places: dict[str, _Copied] = {}
    for each in some(rng, copied, 0.3):
        form, word = pick(rng, _PLACEHOLDERS), pick(rng, _WORDS)
        places.setdefault(form.format(word.upper() if "$" in form or "__" in form else word), each)
    return (
        _replaced(src, {each.src: text for text, each in places.items()}),
        _replaced(tgt, {each.tgt: text for text, each in places.items()}),
    )


def tags(src: str, tgt: str, rng: Random) -> tuple[str, str]:
    """Return both sides with tags around the whole, or around something that is the same on both."""
    where = pick(rng, [_Copied((0, len(src)), (0, len(tgt))), *_copied(src, tgt)])
    if below(rng, 4):
        tag = pick(rng, _TAGS).format(below(rng, 10))
        before, after = f"<{tag}>", f"</{tag.split()[0]}>"
    else:
        before, after = f"<{pick(rng, _EMPTY_TAGS).format(below(rng, 10))}/>", ""
    sides = ((text, place, text[slice(*place)]) for text, place in ((src, where.src), (tgt, where.tgt)))
    tagged_src, tagged_tgt = (_replaced(text, {place: before + inner + after}) for text, place, inner in sides)
    return tagged_src, tagged_tgt


def _copied(src: str, tgt: str) -> list[_Copied]:
    """Return what is the same on both sides and occurs once on each, in the order of the source."""
    of_src, of_tgt = _places(src), _places(tgt)
    return [
        _Copied(places[0], of_tgt[text][0])
        for text, places in of_src.items()
        if len(places) == 1 and len(of_tgt.get(text, ())) == 1
    ]


def _places(text: str) -> dict[str, list[Place]]:
    """Return where numbers and addresses are, and words of four or more letters with a capital, but not the first."""
    protected = list(spans(text))
    inside = {i for span in protected for i in range(span.start, span.end)}
    found = [(span.start, span.end) for span in protected if span.kind in ("number", "url", "email")]
    names = (match for match in _NAME.finditer(text) if match.start() > 0 and match[0][0].isupper())
    found += [match.span() for match in names if match.start() not in inside]
    places: defaultdict[str, list[Place]] = defaultdict(list)
    for start, end in sorted(found):
        places[text[start:end]].append((start, end))
    return places


def _replaced(text: str, new: Mapping[Place, str]) -> str:
    """Return the text with other texts in these places, which do not overlap."""
    parts, position = list[str](), 0
    for (start, end), other in sorted(new.items()):
        parts += text[position:start], other
        position = end
    return "".join([*parts, text[position:]])
