"""Which language a text is in: py3langid, which knows 97 languages and needs no network."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from nmt.errors import ConfigError
from nmt.serve.languages import normalized

CHARACTERS = 2000
"""Of a text that are looked at; more would take time and change nothing."""


class Detected(NamedTuple):
    """A language and how sure it is, from 0 to 100, as in LibreTranslate's interface."""

    language: str
    confidence: float


class Detector:
    """Tells the languages of the models apart.

    The confidence is the probability among all languages that py3langid knows, so that it is low for a text in a
    language that no model reads, even where there is only one that does.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        """languages: the codes that may be found. Raises ConfigError without py3langid."""
        try:
            import py3langid  # noqa: F401  (an extra; its model takes half a second to load, which comes later)
        except ImportError as error:
            raise ConfigError(
                ["py3langid is not installed; pip install py3langid installs it, and so does nmt's extra serve"]
            ) from error
        self._languages = languages
        self._loading = threading.Lock()
        self._by_code: dict[str, list[str]] = {}
        for code in languages:
            self._by_code.setdefault(normalized(code).partition("_")[0], []).append(code)

    def load(self) -> None:
        """Load the model, if that has not been done yet."""
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        with self._loading:
            if not hasattr(self, "_identifier"):
                self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)

    def detect(self, text: str) -> list[Detected]:
        """Return all languages, the likeliest first; those that py3langid does not know last, with a confidence of 0.
        """
        self.load()
        ranked = self._identifier.rank(text[:CHARACTERS])
        found = [
            Detected(language, round(100 * float(probability), 2))
            for code, probability in ranked
            for language in self._by_code.get(code, ())
        ]
        known = {detected.language for detected in found}
        return [*found, *(Detected(language, 0.0) for language in self._languages if language not in known)]
