"""Upper and lower case by language."""

from __future__ import annotations

import unicodedata

import pytest

from nmt.text.case import lower, upper


@pytest.mark.parametrize(
    "language", ["tr", "tur_Latn", "az", "azj_Latn", "aze", "crh", "gag", "kk_Latn", "tt@iqtelif", "kaa_Latn", "diq"]
)
def test_i_has_two_letters(language: str) -> None:
    assert upper(language)("iyi ılık") == "İYİ ILIK"
    assert {lower(language)(unicodedata.normalize(form, "İYİ ILIK")) for form in ("NFC", "NFD")} == {"iyi ılık"}


@pytest.mark.parametrize("language", ["de", "ku", "kk", "tt", "az_Cyrl", "az-IR", "azb", "uz", "tk", "xx", ""])
def test_i_has_one_letter(language: str) -> None:
    assert upper(language)("iyi straße") == "IYI STRASSE"
    assert lower(language)("IYI STRASSE") == "iyi strasse"
