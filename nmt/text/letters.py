"""Letters that stand for one another, as ی and ي do in Persian, and marks that stand for nothing.

The table letters.tsv lists the forms of letters by script or language; `*` is for all languages, in comparisons only.
`where` is a regular expression of the places at which a form, `%s`, is replaced; for example only between letters, so
that quotation marks stay. Without `%s`, what it matches is written as nothing, in the normal form NFKC, or with other
letters, as by `aceo>асео`, for Latin letters in Cyrillic words. Several letters are written letter by letter if all
forms of the row are as long, such as digits.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from unicodedata import normalize

from nmt.console import printable_sentence
from nmt.languages.codes import macrolanguage_of, parts_of, rows_of, scripts_of
from nmt.text.reading import COMPOSED, OTHER_SPACE, form_shares, plain, unusual_forms

_ROWS = rows_of("letters.tsv")


def usual_forms(language: str, counts: dict[str, int]) -> dict[str, str]:
    """Return how other forms of letters are written, by regular expressions, given their counts; see `count_forms`.

    The usual form is the most frequent one. ASCII is no other form: it may belong to links and placeholders.
    """
    names = {language, *scripts_of(language)[:1], parts_of(language)[0], macrolanguage_of(language)}
    usual = {}
    for of, not_of, row, where in _ROWS:
        if not names & {*of.split()} or names & {*not_of.split()}:
            continue
        if "%s" not in where:
            usual[where] = row
            continue
        forms = row.split(" ")
        counted = -1 if len({*map(len, forms)}) == 1 else 0  # of digits only the last one, 1
        most = max(forms, key=lambda form: counts[where % form[counted:]])
        for form in forms:
            if len(form) != len(most):
                usual[where % form] = most
            elif form != most and not form.isascii():
                usual[where % f"[{form}]"] = f"{form}>{most}"
    return usual


def count_forms(language: str, lines: Iterable[str]) -> Counter[str]:
    """Count the forms of letters of a language in lines, by regular expressions."""
    expressions = defaultdict[str, int](int)
    usual_forms(language, expressions)  # adds those whose counts it needs
    text = "\n".join(lines)
    return Counter({expression: len(re.findall(expression, text)) for expression in expressions})


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
            f"translations and references differ in {form}: equal words count as different, and these scores are too "
            "low; bring both into one form, such as the Unicode normal form NFC without invisible characters"
        )


def comparable(text: str, language: str) -> str:
    """Return a text, or several lines, for comparisons: with one form of each letter of the language, in NFC, without
    invisible characters, and with single spaces between words. Line breaks are kept."""
    return re.sub("(?m)^ | $", "", write(plain(text), _compared(language)))


@cache
def _compared(language: str) -> dict[str, str]:
    """Return the forms that are equal in comparisons; see `usual_forms`."""
    of_language = usual_forms(language, Counter()).items()
    # marks of direction are invisible; words with letters of another script, whose patterns look behind, stay
    forms = {pattern: form for pattern, form in of_language if form and not pattern.startswith("(?")}
    return forms | usual_forms("*", Counter())
