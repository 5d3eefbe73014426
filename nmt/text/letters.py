"""Letters that stand for one another, as ی and ي do in Persian, and marks that stand for nothing.

The table letters.tsv lists the forms of letters by script or language; `*` has those of all languages in comparisons.
`where` is a regular expression of the places at which a form, `%s`, is replaced; for example only between letters, so
that quotation marks stay. Without `%s`, what it matches is written as nothing, in the normal form NFKC, or with other
letters, as by `aceo>асео`, for Latin letters in Cyrillic words. Several letters are written letter by letter if all
forms of the row are as long, such as digits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from unicodedata import normalize

from nmt.console import printable_sentence
from nmt.languages.codes import macrolanguage_of, parts_of, rows_of, scripts_of
from nmt.text.reading import COMPOSED, OTHER_SPACE, bare, form_shares, unusual_forms

_ROWS = rows_of("letters.tsv")
_LINES = 1 << 10  # counted at a time


def usual_forms(language: str, counts: Counter[str]) -> dict[str, str]:
    """Return how other forms of letters are written, by regular expressions, given their counts; see `count_forms`.

    The usual form is the most frequent one. ASCII is no other form: it may belong to links and placeholders.
    """
    usual: dict[str, str] = {}
    for row, where, patterns in _rows_of(language):
        if not patterns:
            usual[where] = row
            continue
        most = max(patterns, key=lambda form: counts[patterns[form]])
        for form, pattern in patterns.items():
            if len(form) != len(most):
                usual[pattern] = most
            elif form != most and not form.isascii():
                usual[pattern] = f"{form}>{most}"
    return usual


def count_forms(language: str, lines: Iterable[str]) -> Counter[str]:
    """Count the forms of letters of a language in lines, by their regular expressions; of digits, only 1, which is the
    last in the table."""
    counts = Counter[str]()
    lines = iter(lines)
    while block := [*islice(lines, _LINES)]:
        text = "\n".join(block)
        for _, where, patterns in _rows_of(language):
            for form, pattern in patterns.items():
                if where == "%s":  # faster than an expression
                    counts[pattern] += text.count(form if pattern == form else form[-1])
                else:
                    counts[pattern] += len(re.findall(pattern, text))
    return counts


def _rows_of(language: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the forms and the `where` of each row for a language, and the regular expression of each form."""
    names = {language, *scripts_of(language)[:1], parts_of(language)[0], macrolanguage_of(language)}
    for of, not_of, row, where in _ROWS:
        if names & {*of.split()} and not names & {*not_of.split()}:
            forms = row.split(" ") if "%s" in where else []
            is_letterwise = len({*map(len, forms)}) == 1
            yield row, where, {form: where % (f"[{form}]" if is_letterwise else form) for form in forms}


def write(text: str, forms: Mapping[str, str]) -> str:
    """Return a text with the usual forms of letters; see `usual_forms`."""
    if text.isascii():
        return text
    for form, usual in forms.items():
        text = re.sub(form, partial(_written, usual), text)
    return text


def _written(usual: str, match: re.Match[str]) -> str:
    if usual == "NFKC":
        return normalize("NFKC", match[0])
    return match[0].translate(str.maketrans(*usual.split(">"))) if ">" in usual else usual


def western_digits(text: str) -> str:
    """Return a text with 0 to 9 for the decimal digits of all scripts. Every character keeps its place."""
    return text if text.isascii() else re.sub(r"[^\D0-9]", lambda digit: str(int(digit[0])), text)


def forms_notes(language: str, translations: Sequence[str], references: Sequence[str]) -> Iterator[str]:
    """Yield a note for each form of letters and of Unicode in which references differ from most translations, which
    lowers scores."""
    pattern = re.compile("|".join(usual_forms(language, count_forms(language, translations))) or "(?!)")
    other = pattern.findall("\n".join(references))
    if len(other) > 10 + 2 * len(pattern.findall("\n".join(translations))):
        yield (
            f"the references have other forms of letters than most translations, such as "
            f"{printable_sentence(other[0])} ({len(other):,} in all): these scores are too low"
        )
    sides = form_shares(translations), form_shares(references)
    for form in sorted({*unusual_forms(*sides), *unusual_forms(*sides[::-1])} - {COMPOSED, OTHER_SPACE}):
        yield (
            f"only translations or only references have {form}: equal words count as different, and these scores are "
            "too low; bring both into one form, such as the Unicode normal form NFC without invisible characters"
        )


def comparable(text: str, language: str) -> str:
    """Return a text, or several lines, for comparisons: with one form of each letter of the language, in NFC, without
    invisible characters, and with single spaces between words. The number of lines stays."""
    text = bare(text if text.isascii() else write(normalize("NFC", text), _compared(language)))
    return "\n".join(line.strip(" ") for line in text.split("\n")) if _SPACE_AT_END.search(text) else text


_SPACE_AT_END = re.compile("(?m: $)|(?m:^ )")


@cache
def _compared(language: str) -> dict[str, str]:
    """Return the forms that are equal in comparisons; see `usual_forms`."""
    # not those of words with letters of another script; marks of direction are invisible
    others = {where for row, where, patterns in _rows_of(language) if not patterns and row != "NFKC"}
    forms = {pattern: form for pattern, form in usual_forms(language, Counter()).items() if pattern not in others}
    return forms | usual_forms("*", Counter())
