"""Upper and lower case by language: in Turkish and its like, İ is the capital of i, and I is the capital of ı."""

from __future__ import annotations

from collections.abc import Callable

from nmt.languages.codes import parts_of

# Turkish, Azerbaijani, Crimean Tatar, Gagauz, Karakalpak, Kazakh, Talysh, Tatar, Zaza
_CODES = ("tr", "az", "azj", "crh", "gag", "kaa", "kk", "tly", "tt", "zza", "kiu")
_DOTTED = {(code, "Latn") for code in _CODES}


def upper(language: str) -> Callable[[str], str]:
    """Return the function that returns texts of a language in upper case."""
    if _is_dotted(language):
        return lambda text: text.replace("i", "İ").upper()
    return str.upper


def lower(language: str) -> Callable[[str], str]:
    """Return the function that returns texts of a language in lower case."""
    if _is_dotted(language):
        return lambda text: text.replace("I\u0307", "i").replace("I", "ı").replace("İ", "i").lower()
    return str.lower


def _is_dotted(language: str) -> bool:
    return parts_of(language)[:2] in _DOTTED
