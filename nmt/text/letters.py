"""Letters that stand for one another, as ی and ي do in Persian, and marks that stand for nothing.

The table letters.tsv lists the forms of letters by script or language; `*` has those that are equal in comparisons.
`where` is a regular expression of the places at which a form, `%s`, is replaced; for example only between letters, so
that quotation marks stay. Without `%s`, what it matches is written as nothing, in the normal form NFKC, or with other
letters, as by `aceo>асео`, for Latin letters in Cyrillic words. Several letters are written letter by letter if all
forms of the row are as long, such as digits.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from unicodedata import normalize

from nmt.console import printable_sentence
from nmt.languages.codes import macrolanguage_of, parts_of, rows_of, scripts_of

_ROWS = rows_of("letters.tsv")


def usual_forms(language: str, counts: dict[str, int]) -> dict[str, str]:
    """Return how other forms of letters are written, by regular expressions, given their counts; see `count_forms`.

    The usual form is the most frequent one. ASCII is no other form: it may belong to links and placeholders.
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


def forms_notes(language: str, translations: str, references: str) -> Iterator[str]:
    """Yield a note if references have many letters in other forms than most translations, which lowers scores."""
    pattern = re.compile("|".join(usual_forms(language, count_forms(language, [translations]))) or "(?!)")
    other = pattern.findall(references)
    if len(other) > 10 + 2 * len(pattern.findall(translations)):
        yield (
            f"the references have other forms of letters than most translations, such as "
            f"{printable_sentence(other[0])} ({len(other):,} in all): these scores are too low"
        )


_ONE_FORM = usual_forms("*", Counter())
_OTHERS, (_SIGN,) = re.compile("|".join(_ONE_FORM)), usual_forms("'", Counter())
_one_form = cache(partial(write, forms=_ONE_FORM))


def comparable(text: str) -> str:
    """Return a text for comparisons, with one form of each letter, whatever the language, and no invisible marks."""
    return text if text.isascii() else re.sub(_SIGN, "'", _OTHERS.sub(lambda match: _one_form(match[0]), text))
