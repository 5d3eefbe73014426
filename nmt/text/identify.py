"""Identification of the language of a text with py3langid, an extra."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from nmt.errors import DataError
from nmt.languages.codes import scripts_of, tag_of
from nmt.languages.scripts import script_of_text

CHARACTERS = 1000
"""Number of characters at the beginning of a text that are used for language detection: up to 2 ms."""
LEAST_CONFIDENCE = 0.5
"""Confidence below which a text is in another language: each language has more before the text is read."""


class Detected(NamedTuple):
    """A detected language with a confidence from 0 to 100, as in LibreTranslate."""

    language: str
    confidence: float


@functools.cache
def identifier() -> Any:
    """Return py3langid's model, which is loaded only once."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


class Detector:
    """A detector of the language of a text among the languages of the models.

    The confidence is the probability among all languages of py3langid, so that it is low for a text in a language that
    no model translates, and 0 for languages in another script than most letters of the text. A language that py3langid
    does not know has the probability of other members of its macrolanguage, such as Southern Kurdish for Central
    Kurdish. If there are none, its confidence is 100 if no other language has the script of the text, and else 0.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        """Create a detector. languages: the codes of the languages to choose from."""
        self._languages = languages
        self._by_key: dict[str, list[str]] = {}
        for code in languages:
            for key in _keys(code):
                self._by_key.setdefault(key, []).append(code)

    def detect(self, text: str) -> list[Detected]:
        """Return all languages, most probable first; languages in another script than the text come last."""
        text = text[:CHARACTERS]
        probabilities: dict[str, float] = defaultdict(float)
        for known, probability in identifier().rank(text):
            language, macrolanguage = _keys(known)
            for code in self._by_key.get(language) or self._by_key.get(macrolanguage, ()):
                probabilities[code] += float(probability)
        script = script_of_text([text], 0)
        written = [code for code in self._languages if script is None or script in scripts_of(code)]
        if len(written) == 1:
            probabilities.setdefault(written[0], 1.0)
        ranked = sorted(self._languages, key=lambda code: (code in written, probabilities[code]), reverse=True)
        return [Detected(code, round(100 * probabilities[code] * (code in written), 2)) for code in ranked]

    def share_of_others(self, texts: Sequence[str], language: str) -> float:
        """Return the share of the texts that are most probably in another of the languages; 0 if there is no text.

        Regional variants of a language are one language. Raises DataError if py3langid does not know the language.
        """
        if not dict(self.detect(""))[language]:
            raise DataError(f"py3langid does not know {language}")
        variants = self._by_key[_keys(language)[0]]
        found = [self.detect(text)[0].language for text in texts if text.strip()]
        return sum(name not in variants for name in found) / max(1, len(found))


def _keys(code: str) -> tuple[str, str]:
    """Return two keys: the first is equal for codes of one language, the second for those of one macrolanguage."""
    language = tag_of(code).language
    return (code, code) if language is None else (language.code, f"of {language.macrolanguage or language.code}")
