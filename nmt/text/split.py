"""Splitting of long lines into sentences, and of long sentences at weaker boundaries; joining of translated parts.

A part is a substring of the line. Only white space is between two parts, so that parts and separators restore the line.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import ceil
from typing import cast

import regex

from nmt.languages.codes import character_class, scripts
from nmt.text.message_formats import masked
from nmt.text.reading import GRAPHEME
from nmt.text.words import CLUSTER, UNSPACED

CountPieces = Callable[[list[str]], list[int]]
"""A function that returns the number of pieces of each text."""

Extent = tuple[int, int]
"""Start and end of a substring of the line."""

CLOSING = "\"'”“’‘»«›‹)]}」』）】》〉｣〕］｝〗〙〛〞〟״\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
"""Closing quotes and brackets, with which some languages open, and invisible marks."""
_CLOSING = re.escape(CLOSING)
_SPACE = r"[^\S\u00a0\u2007\u202f]"  # white space, except that which forbids a break
_SPACES = rf"[\u00a0\u2007\u202f]*+{_SPACE}++"
# also quotes after a space, as in French and at the end of tokenised text, and invisible marks that stand alone
_CLOSE = rf"""[{_CLOSING}]*+(?:\s*+[»›\u200b-\u200f\u2060\ufeff]++(?!\S)|\s*+["'”’]++\s*\Z)?+"""
_OPEN = re.compile(r"""["'„”“‚’‘»«›‹(\[{¿¡–—-]*+""")

SENTENCE_MARKS = "".join(
    # without the semicolon, which ends sentences in Greek only, and the one dot leader, the semicolon of Armenian
    sorted({mark for script in scripts().values() for mark in script.sentence_ends} - {";", "\u2024"})
)
"""Marks that end a sentence."""
SEMICOLONS = ";؛；፤"
CLAUSE_MARKS = f"{SEMICOLONS}:：፥"
COMMAS = ",،，、､፣၊"


# A letter after a question or exclamation mark in Ethiopic, Khmer, Burmese, Chinese or Japanese text, or after a mark
# that does nothing but end sentences, such as a danda. „ stands for an opening quotation mark: see `_prepared`.
_NEXT = (
    rf"(?<=[?!])[„「『]*+[^\W\d_](?<=[{character_class(['Ethi', 'Khmr', 'Mymr', 'Hani'])}])"
    rf"|(?<=[{SENTENCE_MARKS}])(?<![.!?…․‼‽⁇⁈⁉．۔])[„「『]*+[^\W\d_]"
)


def _after(mark: str) -> re.Pattern[str]:
    """Return a pattern for marks followed by white space, or marks of a script without spaces.

    Group 1 is the marks with closing quotes and brackets, group 2 the white space. Matching takes time linear in the
    number of consecutive marks. `mark`: a pattern of one mark. Ethiopic marks need no space, either.
    """
    return re.compile(
        rf"([^\w\s](?<={mark})(?<!{mark}{mark})(?!(?<=\d．)\d)"  # U+FF0E may be a decimal point
        rf"(?:{mark}*?(?<=[{UNSPACED}\u1361-\u1368]){mark}*+{_CLOSE}(?:{mark}++{_CLOSE})*+"
        rf"|{mark}*+{_CLOSE}(?={_SPACES}|{_NEXT}))"
        rf")((?:{_SPACES})?+)"
    )


# two Ethiopic word separators are a full stop
_SENTENCE = _after(rf"(?:[{SENTENCE_MARKS}]|(?<=[{character_class(['Grek'])}][^\s)]);|(?<=[።፡])፡)")
_CLAUSE = _after(f"[.!?…{CLAUSE_MARKS}]")
_COMMA = _after(f"[{COMMAS}–—]")
# after a closing quote or bracket, the sentence around it continues with a particle: 「はい。」と言った
_CONTINUES = re.compile(rf"(?<![{SENTENCE_MARKS}\s\u200b-\u200f\u2060\ufeff])[とっのをがにへや{COMMAS}]")
_WORD = re.compile(rf"()({_SPACE}++)")
_WEAKER = (_CLAUSE, _COMMA, _WORD)

# "z. B.", "J. Smith", "3. Mai", "Dr. Smith", "bzw. die": a letter, a short number, or a word without a vowel; combining
# marks and joiners before it belong to a longer word. The vowel of other words is l, r or w: "krv", "vlk", "cwm".
_ABBREVIATION = re.compile(
    r"(?<![^\W_]|[\u00ad\u0300-\u1fff\u200c\u200d\ua800-\uabff])"
    r"(?!(?!(?:bldg?|blvd|blz|brl|dr[ds]|fr[kz]|gld|hrsg?|hrv|ml[dn]|mlrd|mr[dk]|p?plk|srl|tl[fr]|twp|vlgs|wlk|wrt|yrs)$)"
    r"[b-z]+[lrw][b-z])"
    r"(?:[^\W\d_]|\d{1,2}|[B-DF-HJ-NP-TV-XZb-df-hj-np-tv-xz][b-df-hj-np-tv-xz]{1,3})$"
)
_VOWELS = "aeiouyæøœɔɛеёєиіїюя"
"""Lower-case letters that are words in some languages, also with marks."""
_STOPS = ("", *".:;!?")  # before the first word of a sentence
_ANOTHER = re.compile(r"[^\W_]\.|\d")  # the next part of an abbreviation, or the number that follows it


def split(text: str, n_pieces: CountPieces, longest: int, whole: int | None = None) -> list[tuple[str, str]]:
    """Split a line into parts, each with the white space that follows it; their concatenation is the line.

    A line of at most `whole` pieces, by default `longest`, is one part. Otherwise each sentence is a part, however
    short: a model trained on sentences omits most of a longer text. A sentence of more than `longest` pieces is cut
    into parts that are as long as possible. No part has more than `longest` pieces, unless a single character does. If
    the line begins with white space, the first part is empty.
    """
    if whole is None:
        whole = longest
    if n_pieces([text])[0] <= whole:
        return [(text, "")]
    begin = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    if begin >= end:
        return [("", text)]
    parts = _pack(text, _sentences(text, (begin, end), n_pieces, longest), n_pieces, longest)
    ends = [*(start for start, _ in parts[1:]), len(text)]
    result = [("", text[:begin])] if begin else []
    for (start, stop), after in zip(parts, ends, strict=True):
        part = text[start:stop].strip()  # a cut within a word may be at a no-break space
        left = text.index(part, start)
        if left > start or not part:
            last, space = result[-1]
            result[-1] = (last, space + text[start : left if part else after])
        if part:
            result.append((part, text[left + len(part) : after]))
    return result


def sentences(text: str) -> list[str]:
    """Return the sentences of a line, without white space around them; none if the line is blank."""
    parts = [text[start:stop].strip() for start, stop in pairwise(sentence_edges(text))]
    return [*filter(None, parts)]


def sentence_edges(text: str) -> list[int]:
    """Return the offsets at which the sentences of a line end, after 0, at which the first begins."""
    return [0, *(stop for _, stop in _between(_prepared(text), (0, len(text)), _SENTENCE))]


def n_sentences(text: str) -> int:
    """Count the sentences of a line, at least one."""
    return len(sentence_edges(text)) - 1


# "etc." in Khmer
_ETC = re.compile(r"។\s?ល\s?។")
# a bar for a danda: after a letter of a script of India
_BAR = rf"(?<=[{character_class(['Beng', 'Deva', 'Gujr', 'Guru', 'Knda', 'Mlym', 'Orya', 'Taml', 'Telu'])}])(?<!\d)"
_BAR_BEFORE_SPACE = re.compile(rf"{_BAR}\|+(?!\S)")
_ANY_BAR = re.compile(rf"{_BAR} ?\|+")
_LAST_MARK = re.compile(rf"(?:{_BAR} ?\||[{SENTENCE_MARKS}])[|{_CLOSING}]*+\s*\Z")
# pictures between sentences, which belong to neither of them
_PICTURES = regex.compile(
    rf"(?=\p{{Emoji}})(?<=[{SENTENCE_MARKS}{_CLOSING}]\s{{1,9}})"
    r"(?:(?:(?=\p{Emoji_Presentation}|\p{Extended_Pictographic}\ufe0f)" + GRAPHEME + r")++(?:\s++|\Z))++"
)
# what may open a quotation, unless a word contains it; group 1 is a character that follows it directly
_QUOTE = re.compile(
    rf"""(?:["„“‚‘«‹]|'(?!(?<=[^\W_{UNSPACED}]')[^\W_{UNSPACED}]))(?=([{_CLOSING}]{{0,4}}+[^\s{_CLOSING}])?)"""
)
_OPENED_BY = {'"': '"', "'": "'", "“": "„", "‘": "‚"}
"""The mark that has opened the quotation that a mark closes, for marks that may also open one."""


def _prepared(text: str) -> str:
    """Return a text of the same length in which the patterns of this module find the ends of sentences.

    Templates are masked, and pictures between sentences become marks. Bars that stand for a danda are replaced by one,
    though not in a table, and „ replaces every quotation mark that opens and directly precedes other text.
    """
    text = masked(text)
    if text.isascii():
        return text
    text = _PICTURES.sub(lambda pictures: ("!" * len(pictures[0].rstrip())).ljust(len(pictures[0])), text)
    text = _ETC.sub(lambda etc: "។" * len(etc[0]), text)
    if "|" in text and not text.lstrip().startswith("|"):
        bar = _ANY_BAR if _LAST_MARK.search(text) else _BAR_BEFORE_SPACE
        text = bar.sub(lambda bars: bars[0].replace("|", "।"), text)
    opened = set[str]()

    def replaced(quote: re.Match[str]) -> str:
        opening = _OPENED_BY.get(quote[0], "")
        if opening in opened:
            opened.remove(opening)
            return quote[0]
        opened.add(quote[0])
        return "„" if quote[1] else quote[0]

    return _QUOTE.sub(replaced, text)


Fragment = tuple[Extent, int, int]
"""A span, its number of pieces, and the start of its sentence."""


def _sentences(text: str, line: Extent, n_pieces: CountPieces, longest: int) -> list[Fragment]:
    """Return the sentences; a sentence of more than `longest` pieces is cut into shorter fragments."""

    def counted(spans: list[Extent]) -> list[int]:
        return n_pieces([text[slice(*span)] for span in spans])

    def cut(fragment: Fragment, level: int) -> list[Extent]:
        span, n, _ = fragment
        if level < len(_WEAKER):
            return list(_between(outside, span, _WEAKER[level]))
        return _evenly(text, span, ceil(1.1 * n / longest))  # a little finer: pieces are not spread evenly

    outside = _prepared(text)
    spans = list(_between(outside, line, _SENTENCE))
    done = [(span, n, span[0]) for span, n in zip(spans, counted(spans), strict=True)]
    level = 0
    while any(n > longest for _, n, _ in done):
        cuts = [cut(fragment, level) if fragment[1] > longest else [fragment[0]] for fragment in done]
        if level >= len(_WEAKER) and all(len(spans) == 1 for spans in cuts):
            break  # single characters
        counts = iter(counted([span for spans in cuts if len(spans) > 1 for span in spans]))
        shorter = []
        for (_, n, start), spans in zip(done, cuts, strict=True):
            if len(spans) > 1:
                shorter += [(span, next(counts), start) for span in spans]
            else:
                shorter.append((spans[0], n, start))
        done = shorter
        level += 1
    return done


def _between(text: str, span: Extent, breaks: re.Pattern[str]) -> Iterator[Extent]:
    """Yield the spans between the breaks within a span."""
    start, stop = span
    for match in breaks.finditer(text, start, stop):
        left, right = match.span(2)
        if right < stop and not (
            _is_abbreviated(text, match)
            or (breaks is _SENTENCE and (_continues_in_lowercase(text, match) or _CONTINUES.match(text, right)))
            or (left == right and _within_cluster(text, right))
        ):
            yield start, left
            start = right
    yield start, stop


def _is_abbreviated(text: str, mark: re.Match[str]) -> bool:
    if mark[1] not in (".", "．"):
        return False
    before = unicodedata.normalize("NFC", text[max(0, mark.start() - 12) : mark.start()])
    if not _ABBREVIATION.search(before):
        return False
    letter = before[-1]
    if unicodedata.normalize("NFD", letter)[0] in _VOWELS:
        return not _is_word(text, mark)
    # scripts from left to right without case, such as Sinhala, have words of one letter, but also ዓ.ም.
    is_word = (unicodedata.category(letter), unicodedata.bidirectional(letter)) == ("Lo", "L")
    return not is_word or before.endswith(".", 0, -1)


def _is_word(text: str, mark: re.Match[str]) -> bool:
    """Return whether the vowel before a mark is a word, rather than an abbreviation or the number of an item."""
    if _ANOTHER.match(text, mark.end()):
        return False
    before = unicodedata.normalize("NFC", text[max(0, mark.start() - 40) : mark.start()])
    *others, previous, last = "", "", *before.split()
    if len(last) > 1:
        return last[-2] in "'’-"
    is_after_name = last.isascii() and previous[:1].isupper() and others[-1][-1:] not in _STOPS
    return not (
        last == "u" or is_after_name or previous[-1:] in _STOPS
    )  # "s. o.", "in Frankfurt a. Main", "Alt u. Neu"


def _continues_in_lowercase(text: str, mark: re.Match[str]) -> bool:
    opened = cast(re.Match[str], _OPEN.match(text, mark.end()))  # which may be empty
    letter = text[opened.end() : opened.end() + 1]
    # Georgian sentences begin with letters that are lower case but have no title case
    return mark[1][0] in ".!?…" and letter.islower() and letter.title() != letter


def _evenly(text: str, span: Extent, n: int) -> list[Extent]:
    """Return about `n` spans of equal length, which consist of whole clusters."""
    start, stop = span
    edges = [cluster.start() for cluster in CLUSTER.finditer(text, start, stop)]
    cuts = [start]
    for i in range(1, n):
        following = bisect(edges, start + i * (stop - start) // n)
        cuts += [edge for edge in edges[following - 1 : following + 1] if edge > cuts[-1]][:1]
    return list(pairwise([*cuts, stop]))


def _within_cluster(text: str, index: int) -> bool:
    """Return whether the character at `index` belongs to the same cluster as the one before it."""
    cluster = CLUSTER.match(text, index - 1)
    return cluster is not None and cluster.end() > index


def _pack(text: str, fragments: Sequence[Fragment], n_pieces: CountPieces, longest: int) -> list[Extent]:
    """Join consecutive fragments of a sentence into fragments of at most `longest` pieces."""
    groups: list[list[Extent]] = []
    used = 0
    for span, n, sentence in fragments:
        if groups and used + n <= longest and span[0] != sentence:
            groups[-1].append(span)
            used += n
        else:
            groups.append([span])
            used = n
    # Joined, they can have more pieces than separately, as with two spaces between them.
    while True:
        together = [group for group in groups if len(group) > 1]
        counts = n_pieces([text[group[0][0] : group[-1][1]] for group in together])
        too_long = {group[0] for group, n in zip(together, counts, strict=True) if n > longest}
        if not too_long:
            return [(group[0][0], group[-1][1]) for group in groups]
        halved: list[list[Extent]] = []
        for group in groups:
            if group[0] in too_long:
                middle = len(group) // 2
                halved += group[:middle], group[middle:]
            else:
                halved.append(group)
        groups = halved


_WIDE = re.compile(rf"[\uff01-\uff60\uffe0-\uffe6{character_class(['Hani', 'Kits', 'Nshu', 'Tang', 'Yiii'])}]")
"""Matches characters of scripts without spaces between sentences."""
_UNSPACED = re.compile(f"[{UNSPACED}]")
# an end by a mark that does nothing else; others are in addresses, too, which may be cut anywhere
_ENDED = re.compile(rf"(?:[{SENTENCE_MARKS}](?<![.!?…․‼‽⁇⁈⁉．۔])|{_BAR} ?\|)[{_CLOSING}]*+\Z")
_GLUED = re.compile(f"[{UNSPACED}{character_class(['Ethi'])}]")
_QUOTES = "\"'“”‘’"


def join(parts: Sequence[tuple[str, str]], translations: Sequence[str]) -> str:
    """Join the translations of the parts of a line that `split` returned.

    Two translations are separated by a space if the source has white space there or the end of a sentence, or if its
    script has no spaces; never in Chinese and Japanese, nor within a sentence in other scripts without spaces.
    """
    joined: list[str] = []
    gap = ""
    before = ""
    for (source, after), translation in zip(parts, translations, strict=True):
        if translation:
            if joined:
                joined.append(_separator(joined[-1], translation, gap, (before, source)))
            joined.append(translation)
            gap = ""
        gap += after
        before = source
    return "".join(joined)


def _separator(first: str, second: str, gap: str, sources: tuple[str, str]) -> str:
    """Return the separator of two translations, given their sources and what separates these."""
    last = first.rstrip(_QUOTES)[-1:]
    if _WIDE.match(last) and (not last.isalnum() or _WIDE.match(second.lstrip(_QUOTES))):
        return ""
    before, after = sources[0][-1:], sources[1][:1]
    if gap or _ENDED.search(sources[0]):
        return " "
    is_within_sentence = before in "\u0f0b\u0f0c" or unicodedata.category(before)[0] in "LMN"
    is_glued = _GLUED.search(before + after) and not (is_within_sentence and _UNSPACED.search(first[-1] + second[0]))
    return " " if is_glued else ""
