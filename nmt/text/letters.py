"""Letters that stand for one another, as ی and ي do in Persian, and marks that stand for nothing.

The table letters.tsv lists the forms of letters by script or language. A form of several letters, such as all digits,
is written letter by letter if the others are as long. The first form of a mark is nothing. Letters of another script
that look alike are replaced only in words with letters of both scripts, for which there is a regular expression.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from nmt.languages.codes import parts_of, scripts_of
from nmt.languages.scripts import rows_of


def usual_forms(language: str, characters: Counter[str]) -> dict[str, str]:
    """Return the most frequent form of a letter for its other forms, given the number of each character in a text.

    ASCII is no other form: it may belong to links and placeholders. A form that is a regular expression has letters
    that no text has, so that `aceo>асео`, which says how the letters of its words are replaced, is the usual one.
    """
    names = {*scripts_of(language)[:1], parts_of(language)[0]}
    usual: dict[str, str] = {}
    for of, not_of, row in rows_of("letters.tsv"):
        if names & {*of.split()} and not names & {*not_of.split()}:
            forms = row.split(" ")
            most = max(forms, key=lambda form: min(map(characters.__getitem__, form), default=characters.total()))
            for form in forms:
                if form != most and not form.isascii():
                    usual |= zip(form, most, strict=True) if len(form) == len(most) else [(form, most)]
    return usual


def write(text: str, forms: Mapping[str, str]) -> str:
    """Return a text with the usual forms of letters; see `usual_forms`."""
    if text.isascii():
        return text
    for form, usual in forms.items():
        if ">" in usual:
            for word in re.findall(form, text):
                text = text.replace(word, word.translate(str.maketrans(*usual.split(">"))))
        else:
            text = text.replace(form, usual)
    return text


_FIRST_FORMS = {form: first for form, first in usual_forms("ckb", Counter()).items() if form < "\ufb00"}


def comparable(text: str) -> str:
    """Return a text for comparisons, with one form of each Arabic letter and digit, and without marks of direction."""
    return write(text, _FIRST_FORMS)
