"""Readers of Scripture, whose sides are paired by book, chapter and verse: USFM, and lines with a file that names their
verses.

The verses of both sides are in memory, since files may have books in any order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from nmt.data.sources import FilesSource
from nmt.errors import DataError
from nmt.languages.directions import LanguagePair
from nmt.prepare.formats.tables import shown
from nmt.prepare.inputs import find_usfm, is_usfm
from nmt.prepare.pairs import Row, Units
from nmt.text.lines import bounded_list, lines_in, read_aligned
from nmt.text.segments import one_line
from nmt.text.words import UNSPACED

Reference: TypeAlias = tuple[str, int, int]
"""The code of a book, such as MRK, the chapter and the verse."""
Verses: TypeAlias = Iterator[tuple[Reference, str | None]]
"""Verses with their texts, whose paragraphs end at line feeds; None if the text of the verse before it is for both."""
_BREAKS = re.compile(rf"(?<=[{UNSPACED}])[ \t]*+\n\s*+(?=[{UNSPACED}])")


def read_verses(source: FilesSource, languages: LanguagePair, root: Path, units: Units) -> Iterator[Row]:
    """Yield the pairs of verses, ordered by the codes of their books. Each chapter is a document.

    Verses that one side has together are joined on the other side. A side that lacks one of them is blank. Verses that
    occur again on a side are counted as skipped. Raises DataError if a file is not in its format, or if there are no
    verses of a book that is requested.
    """
    sides = []
    for language in languages:
        path = root / source.files[language]
        if is_usfm(path):
            verses = _read_usfm(path, language, units)
        elif source.vref is not None:
            verses = _read_lines(root / source.vref, path)
        else:
            raise DataError(f"{path}: not named .usfm or .sfm; verses in lines need vref, a file with their references")
        side = dict[Reference, str | None]()
        for reference, text in verses:
            if reference in side:
                units.skip(f"verse that occurs again in {language}")
            side.setdefault(reference, text)
        sides.append(side)
    groups = defaultdict[Reference, list[list[str | None]]](list)
    first = ("", 0, 0)
    for reference in sorted(set().union(*sides)):
        texts = [side.get(reference, "") for side in sides]
        if None not in texts:
            first = reference
        groups[first].append(texts)
    present = {book for book, _, _ in groups}
    books = {*(source.books or present)}
    if absent := books - present:
        raise DataError(f"{source.label}: no verses of {min(absent)}; see books in the config")
    for (book, chapter, _), together in groups.items():
        if book in books:
            units.enter((book, chapter))
            src, tgt = map(_joined, zip(*together, strict=True))
            yield src, tgt, None


def _joined(texts: Sequence[str | None]) -> str:
    """Return the text of verses that follow one another on one line; "" if one of them is missing."""
    return "" if "" in texts else one_line(_BREAKS.sub("", "\n".join(filter(None, texts))))


def _read_lines(names: Path, text: Path) -> Verses:
    """Yield the verses of a text; line n of `names` is the reference of line n. Raises DataError."""
    for number, (name, line) in enumerate(read_aligned(names, text), start=1):
        match = re.fullmatch(r"\s*([A-Z0-9]{3}) (\d{1,3}):(\d{1,3})\s*", name)
        if match is None:
            raise DataError(f"{names}: line {number}: {shown([name])}, where a verse is needed, such as MRK 1:1")
        line = line.strip()
        yield (match[1], int(match[2]), int(match[3])), None if line == "<range>" else line


# --- USFM -----------------------------------------------------------------------------------------

_TEXTS = (  # paragraphs, lines and cells with text of verses, and further parts of a verse, such as 1b
    r"(?:(?:m|mi|nb|p|p[bchior]|pm[cor]?|cls|b|q[rcm]?|li|lim|l[hf]|tr|t[hc][rc]?)[-\d]*+|v\s+\d+[b-z])(?![\w*-])"
)
_REMOVED = re.compile(
    r"\\esb\b(?:[^\\]++|\\(?!esbe?\b))*+\\esbe\b"  # sidebars of study Bibles
    # notes, figures, and alternate numbers
    r"|\\\+?(fe?|ef|e?x|fig|[cv]a|vp|cat|pro|rq)\s(?:[^\\]++|\\(?!\1[*\s]|[cv]\s))*+\\\+?\1\*"
    r"|\\[A-Za-z][\w-]*+\s*+(?:\|[^\\]*+)?\\\*"  # milestones
)
_VERSES = re.compile(  # in text from right to left, marks of direction may be around the hyphen of a range
    r"\\id\s+(\w{3})|\\c\s+(\d{1,3})|\\v\s+(\d{1,3})a?"
    r"(?:[\u200e\u200f]?[-\u2010-\u2013][\u200e\u200f]?(\d{1,3})[a-z]?)?[\u200e\u200f]?(?![^\s\\])"
    r"((?:[^\\]++|\\(?!(?:id|c)\s|v\s+\d{1,3}a?(?!\w)))*+)"
)
"""Matches the beginning of a book, of a chapter, or a verse with its text."""
_LEFT_OUT = re.compile(
    rf"\\(?!{_TEXTS}"
    # spans of text, such as names of God
    r"|\+?(?:add|addpn|bd|bdit|bk|dc|em|it|jmp|k|lik|litl|liv|nd|ndx|no|ord|png?|q[st]|qac|rb|s[cl]s?|sig|sup|tl|w[aghj]?"
    r"|xt)\d*+(?![\w-]))"
    # headings and the like
    r"(?:(?:[dhrs]|mte?|toca?|[ms][rs]|s[pd]|q[ad]|c[lpd]|rem|sts|restore|periph|lit|ts|i\w*)\d*+(?![\w*-])"
    r"|\+?([A-Za-z][\w-]{0,19}+)(?!\*)(?!(?:[^\\]|\\(?!\+?\1\*)){0,1000}+\\\+?\1\*))"
    rf"(?:[^\\]++|\\(?!{_TEXTS}))*+"
)
"""Matches text within a verse that does not belong to it; its marker is in group 1 if it is unknown, and nothing ends
it."""
_CODES = re.compile(
    rf"\|[^\\]{{0,1000}}+(?=\\\+?[\w-]+\*)|\\{_TEXTS}|\\\+?[A-Za-z][\w-]*+(?:\*|\s)?|[ \t](?=[ \t]|\\{_TEXTS})"
)
"""Matches attributes, markers, and spaces beside what was removed."""


def _read_usfm(path: Path, language: str, units: Units) -> Verses:
    """Yield the verses of USFM files, without headings, introductions, notes, cross-references and figures.

    Texts after unknown markers that nothing closes, and notes without an end, are counted as skipped. Raises DataError
    if a file is not USFM.
    """
    for file in find_usfm(path):
        with file.open() as stream:
            content = "\n".join(bounded_list(lines_in(stream, file.name), file.name))
        if not content.lstrip().startswith("\\id"):
            raise DataError(
                f"{file.name}: does not begin with \\id and the code of a book, such as \\id MRK; is it USFM?"
            )
        content = _REMOVED.sub("", content).replace("~", "\xa0").replace("//", " ")
        book = ""
        chapter = 0
        for new_book, new_chapter, first, last, body in _VERSES.findall(content):
            book, chapter = new_book.upper() or book, int(new_chapter or chapter)
            for marker in filter(None, _LEFT_OUT.findall(body)):
                units.skip(f"text after \\{marker} in {language}", "text after other markers")
            text: str | None = _CODES.sub("", _LEFT_OUT.sub("", body)).strip()
            for verse in range(int(first or 1), int(last or first or 0) + 1):
                yield (book, chapter, verse), text
                text = None
