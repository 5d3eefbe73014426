"""Identification of the language of a text, with py3langid, an extra."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from nmt.errors import DataError
from nmt.languages.codes import macrolanguage_of, script_of, script_of_text, scripts_of, tag_of
from nmt.text.letters import usual_forms, write

CHARACTERS = 1000
"""Number of characters at the beginning of a text that are used for language detection: up to 2 ms."""
LEAST_CONFIDENCE = 0.1  # a language with less is improbable: each has 0.7 before the text is read


class Detected(NamedTuple):
    """A detected language with a confidence from 0 to 100, as in LibreTranslate."""

    language: str
    confidence: float


@cache
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
    detected = []
    for code in languages:
        language = tag_of(code).language
        macrolanguage = macrolanguage_of(code)
        members = []
        for known, p in ranked:
            if macrolanguage_of(known) == macrolanguage:
                members.append(p if tag_of(known).language == language else p / 2)
        probability = sum(members) if members else float(in_script == [code])
        if script and written.isdisjoint(scripts_of(code)):
            probability = 0.0
        detected.append(Detected(code, float(f"{100 * probability:.4g}")))
    return sorted(detected, key=lambda detected: detected.confidence, reverse=True)


def share_of_others(texts: Sequence[str], language: str, languages: Sequence[str]) -> float:
    """Return the share of the texts that are most probably in another of the languages; 0 if there is no text.

    Regional variants of a language are one language. Raises DataError if py3langid does not know the language.
    """
    if not dict(detect("", languages))[language]:
        raise _unknown(language)
    expected = tag_of(language).language
    n_texts = n_others = 0
    for text in texts:
        if text.strip():
            n_texts += 1
            if tag_of(detect(text, languages)[0].language).language != expected:
                n_others += 1
    return n_others / max(1, n_texts)


def _unknown(language: str) -> DataError:
    return DataError(f"py3langid does not know {language}")


_MARGIN = 5.0
_MARGIN_CHARS = 50.0
"""Another language must be more probable by `_MARGIN + _MARGIN_CHARS / characters` nats: short and ambiguous texts are
kept."""
_CHARS = 128
"""The number of characters that are classified; more would take time and change little."""
_NO_LANGUAGE = "zxx"  # markup, code, numbers
_ALIKE = {"da": "no", "fil": "tl", "grc": "el"}
"""Languages of different macrolanguages that are too similar to distinguish."""


def identified_as(language: str) -> set[str]:
    """Return the codes by which py3langid identifies text in a language: its own, and the codes of languages in
    the same script and macrolanguage, which are too similar to distinguish; none if py3langid knows no such language.

    Raises DataError if py3langid is not installed.
    """
    try:
        from py3langid import rank
    except ImportError as error:
        raise needs_extra("drop: language", "py3langid") from error
    family = _family(language)
    written = set(scripts_of(language))
    alike = set()
    for code, _ in rank(""):
        # py3langid knows only these in several scripts, and the others in the usual one
        known = scripts_of(code)[: 2 if code in ("ku", "sr", "uz") else 1]
        if _family(code) == family and (not written or written & {*known}):
            alike.add(code)
    return alike


def needs_extra(setting: str, package: str) -> DataError:
    """Return the error for a missing package of the extra `clean`."""
    return DataError(
        f"clean.{setting} needs the package {package}; install it with pip install {package}, or with nmt-train[clean]"
    )


def _family(code: str) -> str:
    """Return the code of the macrolanguage of a language, or else its own."""
    family = macrolanguage_of(code)
    return _ALIKE.get(family, family)


def in_other_language(language: str, counts: dict[str, int]) -> Callable[[str], bool]:
    """Return a test for texts that are clearly not in a language, given by its code, such as `de` or `pt_BR`.

    The test counts texts in `counts` by identified language, or as `unclear`. Raises DataError if py3langid is not
    installed, or does not know the language.
    """
    accepted = identified_as(language)
    if not accepted:
        raise _unknown(language)
    from py3langid import classify, rank

    respelled = dict.fromkeys(usual_forms(language, Counter()), "")

    def test(text: str) -> bool:
        text = text[:_CHARS]
        best, score = classify(text)
        is_other = False
        if best in accepted:
            best = language
        else:
            expected = next(score for code, score in rank(text) if code in accepted)
            is_other = best != _NO_LANGUAGE and score - expected > _MARGIN + _MARGIN_CHARS / max(1, len(text))
            if not is_other:
                best = "unclear"
            elif (bare := write(text, respelled)) != text:
                return test(bare)  # ي instead of ی makes Persian look like Pashto or Arabic
        counts[best] = counts.get(best, 0) + 1
        return is_other

    return test
