"""Language identification with py3langid, an extra: it works without a network and does not judge what it cannot."""

from __future__ import annotations

from collections.abc import Callable

from nmt.errors import DataError
from nmt.prepare.cleaning.encoding import needs_extra

_MARGIN, _MARGIN_CHARS = 5.0, 50.0
"""Nats by which another language must be more probable, and what is added to them, divided by the characters. So short
text and text alike in many languages is kept."""
_CHARS = 128
"""Characters that are judged; more would take time and change little."""
_NO_LANGUAGE = "zxx"  # markup, code, numbers
_ALIKE = [
    codes.split()
    for codes in ("no nb nn da", "hr bs sr sh cnr", "id ms", "zh wuu yue", "ar ary arz", "fa prs", "he iw", "tl fil")
]
"""Codes of languages that are not told apart."""


def in_other_language(language: str, counts: dict[str, int]) -> Callable[[str], bool]:
    """Return a test whether a text is clearly in another language than this one, by its code `de` or `pt_BR`.

    counts: the texts that are tested are counted here by language, or as `unclear`.
    Raises DataError without py3langid, or if it does not know the language.
    """
    try:
        from py3langid import classify, rank
    except ImportError as error:
        raise needs_extra("language", "py3langid") from error
    code = language.split("_")[0].lower()
    known = dict(rank(""))
    own = {code}.union(*(codes for codes in _ALIKE if code in codes)) & known.keys()
    if not own:
        raise DataError(f"clean.language needs a model of {language}, which py3langid does not have; set it to false")

    def test(text: str) -> bool:
        text = text[:_CHARS]
        best, score = classify(text)
        is_other = False
        if best in own:
            best = language
        else:
            expected = next(own_score for code, own_score in rank(text) if code in own)
            is_other = best != _NO_LANGUAGE and score - expected > _MARGIN + _MARGIN_CHARS / max(1, len(text))
            best = best if is_other else "unclear"
        counts[best] = counts.get(best, 0) + 1
        return is_other

    return test
