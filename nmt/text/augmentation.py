"""Augmentation of training pairs: pure functions of a pair of lines and random numbers, which return a changed pair.

A number, an address or a name that occurs exactly once on each side is assumed to be translated by itself, so that no
word alignment is needed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple, TypeVar

from nmt.languages.directions import LanguagePair
from nmt.search.settings import SearchConfig
from nmt.text.case import lower, upper
from nmt.text.constraints import Glossary, Span, alone, constraint_spans, mark_terms, spans
from nmt.text.lines import TextPair
from nmt.text.split import SENTENCE_MARKS
from nmt.text.words import replaced

T = TypeVar("T")


def below(rng: Random, n: int) -> int:
    """Return a random integer from 0 to n - 1."""
    return int(rng.random() * n)


def pick(rng: Random, items: Sequence[T]) -> T:
    """Return a random item."""
    return items[below(rng, len(items))]


def some(rng: Random, items: Sequence[T], share: float) -> list[T]:
    """Return some of the items, in order: a random one, and each of the others with probability `share`."""
    certain = below(rng, len(items))
    return [item for i, item in enumerate(items) if rng.random() < share or i == certain]


# a letter that begins a word, also of one with an apostrophe or written with combining marks
_INITIAL = re.compile(r"(?<![\w'’\u0300-\u036f])[^\W\d_]")


def upper_case(src: str, tgt: str, _: Random, languages: LanguagePair = ("", "")) -> TextPair:
    """Return both sides in upper case."""
    if not _has_case(src):
        return src, tgt
    return _outside_spans(src, upper(languages[0])), _outside_spans(tgt, upper(languages[1]))


def title_case(src: str, tgt: str, _: Random, languages: LanguagePair = ("", "")) -> TextPair:
    """Return both sides with a capital at the start of each word."""
    if not _has_case(src):
        return src, tgt
    return _titled(src, languages[0]), _titled(tgt, languages[1])


def lower_case(src: str, tgt: str, _: Random, languages: LanguagePair = ("", "")) -> TextPair:
    """Return the source in lower case, and the target unchanged."""
    return _outside_spans(src, lower(languages[0])), tgt


def drop_end_punctuation(src: str, tgt: str, _: Random) -> TextPair:
    """Return both sides without sentence-final punctuation, if both have it."""
    shorter_src = _without_end_marks(src)
    shorter_tgt = _without_end_marks(tgt)
    if shorter_src == src or shorter_tgt == tgt:
        return src, tgt
    return shorter_src, shorter_tgt


def _without_end_marks(text: str) -> str:
    kept = text.rstrip()
    shorter = kept.rstrip(SENTENCE_MARKS)
    is_within = any(span.end > len(shorter) for span in spans(text))
    if shorter == kept or not shorter.strip() or is_within:
        return text
    return shorter.rstrip()


def _has_case(text: str) -> bool:
    """Return whether most letters belong to a script with case, so that a Latin name alone is ignored."""
    letters = [*filter(str.isalpha, text)]
    return 2 * sum(map(str.__ne__, map(str.lower, letters), map(str.upper, letters))) > len(letters)


def _titled(text: str, language: str) -> str:
    to_upper = upper(language)
    inside = _inside_spans(text)

    def capital(match: re.Match[str]) -> str:
        letter = match[0]
        if match.start() in inside:
            return letter
        return to_upper(letter) if letter == "i" else letter.title()

    return _INITIAL.sub(capital, text)


def _inside_spans(text: str) -> set[int]:
    """Return the indices of the characters of protected spans."""
    return set[int]().union(*(range(span.start, span.end) for span in spans(text)))


def _outside_spans(text: str, change: Callable[[str], str]) -> str:
    """Apply a change to the text outside protected spans."""
    parts = list[str]()
    end = 0
    for span in spans(text):
        parts += change(text[end : span.start]), text[span.start : span.end]
        end = span.end
    return "".join([*parts, change(text[end:])])


SHARE = 0.1
"""Share of the words of a line that get a typo, in addition to one word that always gets one."""

# Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic, Georgian
_LETTER = (
    r"A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0386-\u03ff\u0400-\u0481\u048a-\u052f\u0531-\u0556\u0561-\u0587"
    r"\u05d0-\u05ea\u0621-\u064a\u0671-\u06d3\u10d0-\u10fa\u1e00-\u1fff"
)
_WORD = re.compile(rf"(?<![\w\u0300-\u036f])[{_LETTER}]{{4,}}(?![\w\u0300-\u036f])")
_ROWS = (
    "qwertyuiop", "asdfghjkl", "zxcvbnm",
    "йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю",
    "ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ",
)  # fmt: skip
_NEIGHBOURS = dict[str, str]()
for _row in _ROWS:
    for _i, _letter in enumerate(_row):
        _NEIGHBOURS[_letter] = _row[max(_i - 1, 0) : _i] + _row[_i + 1 : _i + 2]


def typos(src: str, tgt: str, rng: Random) -> TextPair:
    """Return the source with typos in some words of at least four letters, and the target unchanged."""
    matches = words(src)
    if not matches:
        return src, tgt
    mistyped = {match.span(): _mistyped(match[0], rng) for match in some(rng, matches, SHARE)}
    return replaced(src, mistyped), tgt


def words(line: str) -> list[re.Match[str]]:
    """Return the words of at least four letters, except in text that a translation must copy."""
    inside = _inside_spans(line)
    return [match for match in _WORD.finditer(line) if inside.isdisjoint(range(*match.span()))]


def _mistyped(word: str, rng: Random) -> str:
    """Return the word with one typo, but never in its first letter."""
    i = 1 + below(rng, len(word) - 2)
    return word[:i] + typo(word[i], word[i + 1], rng) + word[i + 2 :]


def typo(first: str, second: str, rng: Random) -> str:
    """Return two letters with a typo: swapped, or the first omitted, doubled or replaced by its keyboard neighbour."""
    kind = pick(rng, ("swapped", "left out", "doubled", "neighbour"))
    if kind == "swapped" and first != second:
        return second + first
    if kind == "doubled":
        return first + first + second
    if kind == "neighbour" and (neighbours := _NEIGHBOURS.get(first.lower())):
        if first.isupper():
            neighbours = neighbours.upper()
        return pick(rng, neighbours) + second
    return second


MAX_NOISE = 40
"""Maximum number of symbols of a line of noise."""

# code points of first and last characters; all between them are assigned and visible
_BLOCKS = [
    (int(first, 16), int(last, 16))
    for first, last in re.findall(
        r"(\w+)-(\w+)",
        "21-7E A1-AC C0-17F 3A3-3CE 410-44F 561-586 5D0-5EA 627-63A 905-939 E01-E30 10D0-10F0 2190-21FF 2200-22FF "
        "25A0-25FF 3041-3096 30A1-30FA 4E00-9FA5 AC00-D7A3 1F600-1F64F",
    )
]
_NAME = re.compile(r"(?<![\w\u0300-\u036f])[^\W\d_]{4,}(?![\w\u0300-\u036f])")
_PLACEHOLDERS = (
    "{{{}}}", "{{{{{}}}}}", "${{{}}}", "%({})s", "__{}__", "${}", "{{0}}", "{{1}}", "%s", "%d", "%1$s", "%2$s",
)  # fmt: skip
_WORDS = ("name", "user", "count", "file", "value", "item", "date", "page", "city", "price")
_TAGS = ("b", "i", "u", "em", "strong", "p", "span", "code", 'a href="#{}"', 'g id="{}"', 'span class="c{}"')
_EMPTY_TAGS = ("br", "hr", 'x id="{}"', 'ph id="{}"')


Place = tuple[int, int]
"""The start and end of a substring."""


class _Copied(NamedTuple):
    src: Place
    tgt: Place


def noise(src: str, _: str, rng: Random) -> TextPair:
    """Return one line of random symbols as both sides, with about as many pieces as the source."""
    n_left = min(max(len(src) // 4, 3), MAX_NOISE)
    words = []
    while n_left > 0:
        (first, last), size = pick(rng, _BLOCKS), 1 + below(rng, min(n_left, 6))
        words.append("".join(chr(first + below(rng, last - first + 1)) for _ in range(size)))
        n_left -= size
    line = " ".join(words)
    return line, line


def placeholders(src: str, tgt: str, rng: Random) -> TextPair:
    """Return both sides with some of the text that they share replaced by placeholders."""
    copied = _copied(src, tgt)
    if not copied:
        return src, tgt
    places: dict[str, _Copied] = {}
    for shared in some(rng, copied, 0.3):
        form = pick(rng, _PLACEHOLDERS)
        word = pick(rng, _WORDS)
        if "$" in form or "__" in form:
            word = word.upper()
        places.setdefault(form.format(word), shared)
    of_src = {shared.src: text for text, shared in places.items()}
    of_tgt = {shared.tgt: text for text, shared in places.items()}
    return replaced(src, of_src), replaced(tgt, of_tgt)


def tags(src: str, tgt: str, rng: Random) -> TextPair:
    """Return both sides with tags around the whole line, or around a text that they share."""
    where = pick(rng, [_Copied((0, len(src)), (0, len(tgt))), *_copied(src, tgt)])
    if below(rng, 4):
        tag = pick(rng, _TAGS).format(below(rng, 10))
        before = f"<{tag}>"
        after = f"</{tag.split()[0]}>"
    else:
        before = f"<{pick(rng, _EMPTY_TAGS).format(below(rng, 10))}/>"
        after = ""
    return _surrounded(src, where.src, before, after), _surrounded(tgt, where.tgt, before, after)


def _surrounded(text: str, place: Place, before: str, after: str) -> str:
    start, end = place
    return text[:start] + before + text[start:end] + after + text[end:]


def _copied(src: str, tgt: str) -> list[_Copied]:
    """Return the positions of the texts that occur exactly once on each side, in source order."""
    of_src = _places(src)
    of_tgt = _places(tgt)
    copied = []
    for text, places in of_src.items():
        if len(places) == len(of_tgt.get(text, ())) == 1:
            copied.append(_Copied(places[0], of_tgt[text][0]))
    return copied


def _places(text: str) -> dict[str, list[Place]]:
    """Return the positions of numbers, addresses and capitalized words of four or more letters except the first."""
    inside = _inside_spans(text)
    all_places = [(span.start, span.end) for span in spans(text) if span.kind in ("number", "url", "email")]
    for match in _NAME.finditer(text):
        if match.start() > 0 and match[0][0].isupper() and match.start() not in inside:
            all_places.append(match.span())
    places = defaultdict(list)
    for start, end in sorted(all_places):
        places[text[start:end]].append((start, end))
    return places


TERM_SHARE = 0.7
"""Share of the terms of a pair that are marked, in addition to one that is always marked."""
OTHER = 0.5
"""Share of the pairs whose marked terms get the translation of another term or a made-up word, in the marks and in the
target: the model cannot guess it, so it learns to read the marks."""
MADE_UP = 0.5
"""Share of made-up words among these other translations."""

_ANY = SearchConfig()


def terms(src: str, tgt: str, rng: Random, glossary: Glossary) -> TextPair:
    """Mark some of the source terms that the target translates as in the glossary; the target is unchanged."""
    translated = []
    remaining = tgt
    for span in sorted(constraint_spans(src, _ANY, glossary), key=lambda span: -len(span.wanted)):
        # matches are removed, so that a translation within another is not counted again
        remaining, n = alone(span.wanted).subn(" ", remaining, count=1)
        translated += [span] * n
    if not translated:
        return src, tgt
    chosen = some(rng, sorted(translated, key=lambda span: span.start), TERM_SHARE)
    if rng.random() < OTHER:
        chosen, tgt = _with_others(chosen, tgt, rng, glossary)
    return mark_terms(src, chosen), tgt


def _with_others(spans: Sequence[Span], tgt: str, rng: Random, glossary: Glossary) -> tuple[list[Span], str]:
    """Return the spans and the target with other translations, except for a translation that occurs twice."""
    changed = []
    for span in spans:
        other = pick(rng, glossary.translations)
        matches = list(alone(span.wanted).finditer(tgt))
        if rng.random() < MADE_UP:
            other = _made_up(other, rng)
        if len(matches) == 1:
            span = replace(span, wanted=other)
            tgt = tgt[: matches[0].start()] + other + tgt[matches[0].end() :]
        changed.append(span)
    return changed, tgt


def _made_up(word: str, rng: Random) -> str:
    """Return a word with its letters in random order except for the first, so that a name still looks like one."""
    left = list(word[1:])
    letters = [word[:1]]
    while left:
        letters.append(left.pop(below(rng, len(left))))
    return " ".join("".join(letters).split())
