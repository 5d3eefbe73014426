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
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from unicodedata import normalize

from nmt.console import printable_sentence
from nmt.languages.codes import macrolanguage_of, parts_of, rows_of, scripts_of
from nmt.text.reading import COMPOSED, OTHER_SPACE, FormCounts, bare

_ROWS = rows_of("letters.tsv")


def usual_forms(language: str, characters: Counter[str]) -> dict[str, str]:
    """Return how other forms of letters are written, by regular expressions, given the count of each character.

    The usual form is the one whose last letter is the most frequent; the last digit of the table is 1. ASCII is no
    other form: it may belong to links and placeholders.
    """
    names = {language, *scripts_of(language)[:1], parts_of(language)[0], macrolanguage_of(language)}
    usual: dict[str, str] = {}
    for of, not_of, row, where in _ROWS:
        if not names & {*of.split()} or names & {*not_of.split()}:
            continue
        if "%s" not in where:
            usual[where] = row
            continue
        forms = row.split(" ")
        most = max(forms, key=lambda form: characters[form[-1]])
        for form in forms:
            if len(form) != len(most):
                usual[where % form] = most
            elif form != most and not form.isascii():
                usual[where % f"[{form}]"] = f"{form}>{most}"
    return usual


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


def forms_notes(language: str, translations: Sequence[str], references: Sequence[str]) -> Iterator[str]:
    """Yield a note for each form of letters and of Unicode in which references differ from most translations, which
    lowers scores."""
    text = "\n".join(translations)
    pattern = re.compile("|".join(usual_forms(language, Counter(text))) or "(?!)")
    other = pattern.findall("\n".join(references))
    if len(other) > 10 + 2 * len(pattern.findall(text)):
        yield (
            f"the references have other forms of letters than most translations, such as "
            f"{printable_sentence(other[0])} ({len(other):,} in all): these scores are too low"
        )
    counts, of_references = FormCounts(translations), FormCounts(references)
    for form in sorted({*counts.unlike(of_references), *of_references.unlike(counts)} - {COMPOSED, OTHER_SPACE}):
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
    """Return the forms that are equal in comparisons; see `usual_forms`. Whole words in another script are not."""
    forms = dict[str, str]()
    for name in (language, "*"):
        for pattern, form in usual_forms(name, Counter()).items():
            is_letter = 0 < len(form.partition(">")[0]) <= 12
            if is_letter or name == "*":  # marks of direction and the like are invisible
                forms[pattern] = form
    return forms
