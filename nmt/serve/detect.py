"""Which language a text is in: py3langid, which knows 97 languages and needs no network."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from nmt.errors import ConfigError
from nmt.text.language_names import normalized

CHARACTERS = 1000
"""Of a text that are looked at: at most 2 ms of work, and more would change nothing."""


class Detected(NamedTuple):
    """A language and how sure it is, from 0 to 100, as in LibreTranslate's interface."""

    language: str
    confidence: float


class Identifier(Protocol):
    """`py3langid.langid.LanguageIdentifier`."""

    def rank(self, text: str) -> list[tuple[str, float]]:
        """Return all languages with their probabilities, the likeliest first."""


@functools.cache
def identifier() -> Identifier:
    """Return py3langid's model, which takes half a second to load."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model: Identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    return model


class Detector:
    """Tells the languages of the models apart.

    The confidence is the probability among all languages that py3langid knows, so that it is low for a text in a
    language that no model reads, even where there is only one that does.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        """languages: the codes that may be found. Raises ConfigError without py3langid."""
        try:
            import py3langid  # noqa: F401  (an extra)
        except ImportError as error:
            raise ConfigError(
                ["py3langid is not installed; pip install py3langid installs it, and so does nmt's extra serve"]
            ) from error
        self._languages = languages
        self._by_code: dict[str, list[str]] = {}
        for code in languages:
            self._by_code.setdefault(normalized(code).partition("_")[0], []).append(code)

    def detect(self, text: str) -> list[Detected]:
        """Return all languages, the likeliest first; those that py3langid does not know come last."""
        found = [
            Detected(language, round(100 * float(probability), 2))
            for code, probability in identifier().rank(text[:CHARACTERS])
            for language in self._by_code.get(code, ())
        ]
        known = {detected.language for detected in found}
        return [*found, *(Detected(language, 0.0) for language in self._languages if language not in known)]
