"""Identification of the language of a text with py3langid, an extra."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from nmt.errors import DataError
from nmt.languages.codes import macrolanguage_of, scripts_of, tag_of
from nmt.languages.scripts import script_of, script_of_text

CHARACTERS = 1000
"""Number of characters at the beginning of a text that are used for language detection: up to 2 ms."""
LEAST_CONFIDENCE = 0.1  # a language with less is improbable: each has 0.7 before the text is read


class Detected(NamedTuple):
    """A detected language with a confidence from 0 to 100, as in LibreTranslate."""

    language: str
    confidence: float


@functools.cache
def identifier() -> Any:
    """Return py3langid's model, which is loaded only once."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def detect(text: str, languages: Sequence[str]) -> list[Detected]:
    """Return all of `languages`, given by their codes, most probable first.

    The confidence is the probability among all languages of py3langid, so that it is low for a text in another
    language. It is 0 for languages that are not written in the script of any letter of the text. The other members of
    the macrolanguage count half: a text that is identified as Southern Kurdish may be in Central Kurdish, which
    py3langid does not know. A language without known members has 100 if it alone has the script of most letters, and
    else 0. Equally probable languages keep their order.
    """
    text = text[:CHARACTERS]
    script = script_of_text([text], 0)
    written = {script_of(letter) for letter in set(text)}
    in_script = [code for code in languages if script in (None, *scripts_of(code))]
    ranked = identifier().rank(text)
    found = []
    for code in languages:
        language, macrolanguage = tag_of(code).language, macrolanguage_of(code)
        shares = [
            p if tag_of(known).language == language else p / 2
            for known, p in ranked
            if macrolanguage_of(known) == macrolanguage
        ]
        probability = sum(shares) if shares else in_script == [code]
        if script and written.isdisjoint(scripts_of(code)):
            probability = 0
        found.append(Detected(code, float(f"{100 * probability:.4g}")))
    return sorted(found, key=lambda detected: detected.confidence, reverse=True)


def share_of_others(texts: Sequence[str], language: str, languages: Sequence[str]) -> float:
    """Return the share of the texts that are most probably in another of the languages; 0 if there is no text.

    Regional variants of a language are one language. Raises DataError if py3langid does not know the language.
    """
    if not dict(detect("", languages))[language]:
        raise DataError(f"py3langid does not know {language}")
    found = [tag_of(detect(text, languages)[0].language).language for text in texts if text.strip()]
    return sum(other != tag_of(language).language for other in found) / max(1, len(found))
