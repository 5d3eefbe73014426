"""The table of languages, and the parts of language codes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nmt.languages.codes import (
    by_language,
    is_other_language,
    is_right_to_left,
    is_spaced,
    language_name,
    language_of,
    normalized,
    related_codes,
    rows_of,
    scripts,
    scripts_of,
    side_of,
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
        ("uz@cyrillic sr@cyrillic", ("Cyrl",)),
        ("oj oji ojs crk cr", ("Cans", "Latn")), ("kaa", ("Cyrl", "Latn")), ("ha hau min bjn", ("Latn", "Arab")),
        ("mn", ("Cyrl", "Mong")), ("lad", ("Hebr", "Latn")), ("bs", ("Latn", "Cyrl")), ("pa", ("Guru", "Arab")),
    ],
)  # fmt: skip
def test_language_has_expected_scripts(codes: str, expected: tuple[str, ...]) -> None:
    assert {scripts_of(code) for code in codes.split()} == {expected}


@pytest.mark.parametrize(
    ("is_so", "codes", "others"),
    [
        (is_spaced, "de ko hi xx vie zh_Latn am bbc bug bug_Bugi su_Sund cjm",
         "zh ja jpn tha_Thai my km khm lo bo dz yue shn mnw xx_Hant ii iii bbc_Batk btk_Batk jv_Java ban_Bali"),
        (is_right_to_left, "ar arb_Arab he heb iw fa pes ur ckb yi ydd dv ug ps sd pa_PK ku_Arab", "de ku hi xx az"),
    ],
)  # fmt: skip
def test_spaces_and_direction_are_known_by_any_code(is_so: Callable[[str], bool], codes: str, others: str) -> None:
    assert [code for code in f"{codes} {others}".split() if is_so(code)] == codes.split()


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
    assert tag_of("zh-hans-cn")[1:] == ("Hans", "CN", ())


@pytest.mark.parametrize(
    ("code", "script", "variants"),
    [
        ("sr@latin", "Latn", ()), ("sr_RS@Latn", "Latn", ()), ("uz-UZ@cyrillic", "Cyrl", ()), ("en@shaw", "Shaw", ()),
        ("ks@devanagari", "Deva", ()), ("sr@ijekavianlatin", "Latn", ()), ("tt_RU@iqtelif", "Latn", ()),
        ("mn@mongolian", "Mong", ()), ("ca@quot", None, ()), ("de_AT@euro", None, ()),
        ("ca-valencia", None, ("valencia",)),
        ("de-Latn-1996", "Latn", ("1996",)),
    ],
)  # fmt: skip
def test_modifier_of_locale_may_name_a_script(code: str, script: str | None, variants: tuple[str, ...]) -> None:
    assert (tag_of(code).script, tag_of(code).variants) == (script, variants)


@pytest.mark.parametrize(
    ("code", "belonging", "others"),
    [
        ("de", "de DE deu ger de-AT de_Latn de_AT@euro de-1996", "den en de-Cyrl gsw"),
        ("pt_BR", "pt-br por_BR pt-Latn-BR", "pt pt-PT"),
        ("ca_valencia", "ca-valencia ca-ES-valencia", "ca ca-ES"),
        ("sr", "sr srp sr-RS sr_Cyrl sr@ijekavian", "sr@latin sr-Latn-RS sr_ME hr"),
        ("sr_Latn", "sr@latin sr_RS@latin srp_Latn sr-Latn-RS sr_ME sr@ijekavianlatin", "sr sr-RS sr_Cyrl"),
        ("zh", "zh zho zh-CN cmn_Hans zh-SG cmn_Hani", "zh-TW zh_Hant zh-HK yue"),
        ("zh_Hans", "zh-CN zh zho-Hans-CN", "zh-TW zh-Hant zh_MO"),
        ("zh_Hant", "zh-TW zh-HK zho_Hant zh-Hant-TW", "zh zh-CN zh_Hans yue"),
        ("zh_TW", "zh-TW zh-Hant-TW", "zh-CN zh zh-HK"),
        ("uz_Latn", "uz uz-UZ uzn_Latn uz@Latn", "uz@cyrillic uz-Cyrl-UZ uz_AF uzs"),
        ("az", "az aze az-AZ azj-Latn azj", "az-Arab az_IR azb az-Cyrl-AZ"),
        ("azj_Latn", "az az-AZ azj", "azb az_Arab"),
        ("az_Arab", "azb az-IR azb_Arab", "az azj"),
        ("ku", "kmr kmr_Latn ku-TR", "ckb ku-IQ ku_Arab"),
        ("ckb", "ckb_Arab ku-Arab-IQ", "ku kmr sdh"),
        ("no", "no nb nb-NO nob_Latn", "nn nn-NO da"),
        ("mn", "mn khk mn-MN", "mn-Mong mn-CN mvf mn@mongolian"),
        ("be", "be be-BY be@tarask", "be@latin"),
        ("en", "en-GB en@quot", "en@shaw"),
        ("pa", "pa-IN pan_Guru", "pa-PK pa@arabic"),
        ("tt", "tt tt-RU", "tt@iqtelif tt_Latn"),
        ("ko", "ko ko-KR kor_Kore kor_Hang", "ko-Hani"),
        ("ja", "ja jpn_Jpan ja-JP", "ja-Latn"),
        ("ur", "ur-PK ur-Aran", "ur-Deva"),
        ("German", "german German-AT", "de ger"),
        ("xx", "xx xx-Cyrl", "xxx"),
    ],
)  # fmt: skip
def test_tag_belongs_to_code_of_its_language_and_script(code: str, belonging: str, others: str) -> None:
    tags = [*belonging.split(), *others.split()]
    assert [tag for tag in tags if side_of(tag, ["x-none", code]) == 1] == belonging.split()


@pytest.mark.parametrize(
    ("tag", "codes", "chosen"),
    [
        ("pt-BR", ["pt", "pt_BR"], "pt_BR"), ("pt-PT", ["pt", "pt_BR"], "pt"), ("de-AT-1996", ["de", "de_AT"], "de_AT"),
        ("zh-Hans-CN", ["zh_Hant", "zh_Hans"], "zh_Hans"), ("sr@latin", ["sr", "sr_Latn"], "sr_Latn"),
        ("nb", ["no", "nb"], "nb"), ("az", ["azj", "az"], "az"), ("kk-Arab-CN", ["kk", "kk_Arab"], "kk_Arab"),
        ("gsw", ["de", "en"], None),
    ],
)  # fmt: skip
def test_tag_belongs_to_most_similar_code(tag: str, codes: list[str], chosen: str | None) -> None:
    for order in (codes, codes[::-1]):
        side = side_of(tag, order)
        assert (None if side is None else order[side]) == chosen


def test_texts_of_most_similar_tag_are_chosen() -> None:
    texts = [(tag, tag) for tag in ("de-AT", "sr@latin", "sr_ME", "de-CH", "sr-Latn", "uz@cyrillic", "de_Latn", "sr")]
    assert by_language(texts, ("de", "sr_Latn", "uz")) == [["de_Latn"], ["sr-Latn"], []]
    assert by_language(texts[:4], ("de", "sr_Latn")) == [["de-AT", "de-CH"], ["sr@latin"]]


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
    assert [tag for tag in sorted(some | others) if is_other_language(f"{tag}-AT", code)] == sorted(others)
    assert not any(is_other_language(*pair) for pair in (("", code), ("none", code), ("fr", ""), ("fr", "auto")))
