"""The table of languages, and the parts of language codes."""

from __future__ import annotations

import pytest

from nmt.languages.codes import (
    is_right_to_left,
    is_spaced,
    language_name,
    language_of,
    normalized,
    related_codes,
    rows_of,
    scripts,
    scripts_of,
    tag_of,
    usual_script,
)


def test_every_code_belongs_to_one_language() -> None:
    codes = [code for row in rows_of("languages.tsv") for code in (row[0], *row[1].split())]
    assert len(codes) == len(set(codes)) > 7500


def test_scripts_and_macrolanguages_of_all_languages_are_in_the_tables() -> None:
    names, codes = set(), set()
    for row in rows_of("languages.tsv"):
        language = language_of(row[0])
        assert language is not None
        names |= {*language.scripts, *language.scripts_by_region.values()}
        codes |= {language.macrolanguage} - {None}
    assert names <= scripts().keys()
    assert {code for code in codes if language_of(str(code)) is None} == set()


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ("de deu ger DE_at de-AT", ("Latn",)), ("ja jpn jpn_Jpan zh zho_Hans zh-TW cmn yue wuu lzh gan", ("Hani",)),
        ("sr srp", ("Cyrl", "Latn")), ("sr_Latn srp_Latn sr-ME", ("Latn",)), ("ckb ckb_Arab ks_Arab pa_PK", ("Arab",)),
        ("ko kor kor_Hang", ("Hang",)), ("xx_cyrl", ("Cyrl",)), ("xx de_Xxxx", ()), ("my shn mnw", ("Mymr",)),
    ],
)  # fmt: skip
def test_language_has_expected_scripts(codes: str, expected: tuple[str, ...]) -> None:
    assert {scripts_of(code) for code in codes.split()} == {expected}


def test_language_without_spaces_is_known_by_any_code() -> None:
    codes = ["zh", "ja", "jpn", "tha_Thai", "my", "km", "khm", "lo", "bo", "dz", "yue", "shn", "mnw", "xx_Hant"]
    assert [code for code in [*codes, "de", "ko", "hi", "xx", "vie", "zh_Latn", "am"] if not is_spaced(code)] == codes


def test_language_from_right_to_left_is_known_by_any_code() -> None:
    codes = [
        "ar",
        "arb_Arab",
        "he",
        "heb",
        "iw",
        "fa",
        "pes",
        "ur",
        "ckb",
        "yi",
        "ydd",
        "dv",
        "ug",
        "ps",
        "sd",
        "pa_PK",
        "ku_Arab",
    ]
    assert [code for code in [*codes, "de", "ku", "hi", "xx", "az"] if is_right_to_left(code)] == codes


def test_members_of_macrolanguage_are_separate_if_scripts_differ() -> None:
    kurdish = [language_of(code) for code in ("ku", "kmr", "ckb")]
    assert [language.code for language in kurdish if language] == ["ku", "kmr", "ckb"]
    assert {language.macrolanguage for language in kurdish[1:] if language} == {"ku"}
    assert language_of("arb") == language_of("ar") != language_of("arz")


def test_script_is_dense_where_texts_are_short() -> None:
    assert [code for code in ("jpn", "yue", "ko", "tir", "th", "ru", "xx") if usual_script(code).density > 1.5] == [
        "jpn", "yue", "ko", "tir",
    ]  # fmt: skip


def test_language_name_has_script_and_region_of_code() -> None:
    names = {code: language_name(code) for code in ("deu", "pt_BR", "zho-Hant", "ckb", "x1")}
    assert names == {
        "deu": "German", "pt_BR": "Portuguese (BR)", "zho-Hant": "Chinese (Hant)", "ckb": "Central Kurdish", "x1": "x1"
    }  # fmt: skip


def test_codes_are_normalized_for_comparison() -> None:
    assert {normalized(code) for code in (" pt-BR", "pt_br", "PT_BR")} == {"pt_br"}
    assert tag_of("zh-hans-cn")[1:] == ("Hans", "CN")


@pytest.mark.parametrize(
    ("code", "some", "others"),
    [
        ("no", {"no", "nor", "nb", "nob", "nn"}, {"da"}),
        ("nb", {"nb", "nob", "no", "nor"}, {"nn"}),
        ("ckb", {"ckb", "ku", "kur"}, {"kmr"}),
        ("he", {"he", "heb", "iw"}, {"yi"}),
        ("zh", {"zh", "chi", "cmn", "yue"}, {"ja"}),
    ],
)
def test_codes_of_macrolanguage_and_members_are_related(code: str, some: set[str], others: set[str]) -> None:
    codes = {*related_codes(code).split("|")}
    assert some <= codes and not others & codes
