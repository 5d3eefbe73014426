"""Tests of the names of translated files."""

from __future__ import annotations

import pytest

from nmt.documents.names import target_names


@pytest.mark.parametrize(
    ("source", "target", "path", "expected"),
    [
        ("de", "en", "de/h.html", "en/h.html"),
        ("de", "en", "site/de/blog/h.html", "site/en/blog/h.html"),
        ("de", "en", "de.json", "en.json"),
        ("de", "en", "locales/de_DE.json", "locales/en.json"),
        ("de", "en", "app.de.yml", "app.en.yml"),
        ("de", "en", "app_de.ts", "app_en.ts"),
        ("de", "en", "Resources.de.resx", "Resources.en.resx"),
        ("de", "en", "messages_de.properties", "messages_en.properties"),
        ("de", "en", "strings_de_DE.arb", "strings_en.arb"),
        ("de", "en", "my_app_de_AT.arb", "my_app_en.arb"),
        ("de", "en", "de/LC_MESSAGES/a.po", "en/LC_MESSAGES/a.po"),
        ("de", "en", "de/app_de.json", "en/app_en.json"),
        ("de", "en", "de.lproj/Localizable.strings", "en.lproj/Localizable.strings"),
        ("de", "en", "Base.lproj/Localizable.strings", "en.lproj/Localizable.strings"),
        ("de", "en", "res/values-de/strings.xml", "res/values-en/strings.xml"),
        ("de", "en", "res/values-de-rAT-land/strings.xml", "res/values-en-land/strings.xml"),
        ("de", "en", "res/values/strings.xml", "res/values-en/strings.xml"),
        ("de", "en", "values-night/strings.xml", "values-en-night/strings.xml"),
        ("de", "pt_BR", "values-de/strings.xml", "values-pt-rBR/strings.xml"),
        ("de", "sr_Latn", "values-de/strings.xml", "values-b+sr+Latn/strings.xml"),
        ("sr_Latn", "de", "values-b+sr+Latn/strings.xml", "values-de/strings.xml"),
        ("pt_BR", "de", "values-pt-rBR/strings.xml", "values-de/strings.xml"),
        ("id", "de", "values-in/strings.xml", "values-de/strings.xml"),
        ("de", "pt_BR", "de.lproj/a.strings", "pt-BR.lproj/a.strings"),
        ("de", "pt_BR", "de-DE/a.json", "pt-BR/a.json"),
        ("de", "pt_BR", "messages_de.properties", "messages_pt_BR.properties"),
        ("deu_Latn", "en", "de.json", "en.json"),
        *[
            ("de", "en", path, path)
            for path in (
                "letter.docx", "in.html", "it/a.html", "dein.html", "de_score.json", "letter-de.docx", "modern.de",
                "der/a.po", "my_de/a.html", "values/letter.docx", "app_en_DE.json", "fr/a.html", "corpus.ts", ".de",
            )
        ],
        ("de", "", "de/h.html", "de/h.html"),
        ("*", "en", "values/strings.xml", "values/strings.xml"),
        ("pt_BR", "de", "pt-PT/a.json", "pt-PT/a.json"),
    ],
)  # fmt: skip
def test_code_of_source_becomes_that_of_target(source: str, target: str, path: str, expected: str) -> None:
    assert target_names([path], source, target) == [expected]


def test_other_languages_are_left_out_where_the_source_has_a_place() -> None:
    names = {
        "de/h.html": "en/h.html",
        "fr/h.html": "",
        "en/h.html": "",
        "de-AT/h.html": "",
        "zh_CN/h.html": "",
        "app/h.html": "app/h.html",  # Apma
        "js/h.html": "js/h.html",
        "old/fr/h.html": "old/fr/h.html",
        "res/values/a.xml": "",
        "res/values-de/a.xml": "res/values-en/a.xml",
        "res/values-fr/a.xml": "",
        "b_de.json": "b_en.json",
        "b_fr.json": "",
        "c_fr.json": "c_fr.json",
    }
    assert dict(zip(names, target_names([*names], "de", "en"), strict=True)) == names


def test_default_folder_is_the_source_where_no_other_is() -> None:
    names = ["values/a.xml", "values-fr/a.xml", "Base.lproj/a.strings", "fr.lproj/a.strings"]
    assert target_names(names, "de", "en") == ["values-en/a.xml", "", "en.lproj/a.strings", ""]
