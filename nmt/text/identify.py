"""Identification of the language of a text with py3langid, an extra."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from nmt.errors import DataError
from nmt.languages.codes import normalized

CHARACTERS = 1000
"""Number of characters at the beginning of a text that are used for language detection: up to 2 ms."""


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
    no model translates.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        """Create a detector. languages: the codes of the languages to choose from."""
        self._languages = languages
        self._by_code: dict[str, list[str]] = {}
        for code in languages:
            self._by_code.setdefault(normalized(code).partition("_")[0], []).append(code)

    def detect(self, text: str) -> list[Detected]:
        """Return all languages, most probable first; languages unknown to py3langid come last."""
        found = [
            Detected(language, round(100 * float(probability), 2))
            for code, probability in identifier().rank(text[:CHARACTERS])
            for language in self._by_code.get(code, ())
        ]
        known = {detected.language for detected in found}
        return [*found, *(Detected(language, 0.0) for language in self._languages if language not in known)]

    def share_of_others(self, texts: Sequence[str], language: str) -> float:
        """Return the share of the texts that are most probably in another of the languages; 0 if there is no text.

        Regional variants of a language are one language. Raises DataError if py3langid does not know the language.
        """
        code, own = next((code, names) for code, names in self._by_code.items() if language in names)
        if code not in dict(identifier().rank("")):
            raise DataError(f"py3langid does not know {language}")
        found = [self.detect(text)[0].language for text in texts if text.strip()]
        return sum(name not in own for name in found) / max(1, len(found))
