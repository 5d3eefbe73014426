"""Optional steps of cleaning: each at its boundary, the order of steps, and settings of single corpora."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from held_out import held_out_of
from nmt.data.settings import DataConfig
from nmt.data.sources import TrainFiles
from nmt.errors import DataError
from nmt.prepare.cleaning.cleaner import Cleaner
from nmt.prepare.cleaning.counts import REASONS
from nmt.prepare.cleaning.filters import UNSUPPORTED, other_script, supports
from nmt.prepare.cleaning.settings import CleanConfig, CorpusClean
from nmt.prepare.pairs import SentencePair

HELD_OUT = held_out_of([SentencePair("Guten Tag, Welt.", "Good day, world.", ""), SentencePair("Öl.", "Oil.", "")])


def config(clean: CleanConfig, languages: str = "de-en", own: CorpusClean | None = None) -> DataConfig:
    files = dict.fromkeys(languages.split("-"), "a")
    return DataConfig(
        direction=languages, train=[TrainFiles(files=files), TrainFiles(files=files, clean=own)], clean=clean
    )


def reason(src: str, tgt: str, clean: CleanConfig, languages: str = "de-en") -> str | None:
    """Return why a pair is dropped, or None if it is kept."""
    cleaner = Cleaner(config(clean, languages), "train.0", HELD_OUT)
    cleaner.clean(SentencePair(src, tgt, ""))
    return next(iter(cleaner.report.dropped), None)


NORMAL, EITHER = CleanConfig(overlap="normal"), CleanConfig(overlap="either")


@pytest.mark.parametrize(
    ("src", "tgt", "clean", "expected"),
    [
        ("guten tag welt", "GOOD DAY - World 2", CleanConfig(), None),
        ("guten tag welt", "GOOD DAY - World 2", NORMAL, "overlap"),
        ("guten tag welt", "Hello, world.", NORMAL, None),
        ("guten tag welt", "Hello, world.", EITHER, "overlap"),
        ("Guten Tag, Welt.", "Hello, world.", CleanConfig(), None),
        ("Guten Tag, Welt.", "Hello, world.", EITHER, "overlap"),
        ("Hallo Welt.", "Good day, world.", EITHER, "overlap"),
        ("Hallo Welt.", "good day, world.", EITHER, "overlap"),
        ("Hallo Welt.", "Good night, world.", EITHER, None),
    ],
)
def test_overlap_with_held_out_sets_is_dropped(src: str, tgt: str, clean: CleanConfig, expected: str | None) -> None:
    assert reason(src, tgt, clean) == expected


@pytest.mark.parametrize(
    ("clean", "src", "tgt", "expected"),
    [
        (CleanConfig(drop=["copied"]), "Hôtel 3!", "HOTEL", "copied"),
        (CleanConfig(drop=["copied"]), "Hotels", "HOTEL", None),
        (CleanConfig(), "Hôtel 3!", "HOTEL", None),
        (CleanConfig(drop=["copied"]), "12 + 3", "12 + 4", None),
        (CleanConfig(drop=["broken"]), "Preis: \ufffd 5", "price: 5", "broken"),
        (CleanConfig(drop=["broken"]), "Preis: 5", "price: \ue001 5", "broken"),
        (CleanConfig(drop=["broken"]), "schÃ¶ne GrÃ¼ÃŸe", "kind regards", "broken"),
        (CleanConfig(drop=["broken"]), "schöne Grüße – „ja“", "kind regards", None),
        (CleanConfig(drop=["broken"]), "»Übermorgen« heißt «AMANHÃ»", "CAFÉ¹, “AMANHÃ”", None),
        (CleanConfig(max_words=3), "eins zwei drei", "one two three", None),
        (CleanConfig(max_words=3), "eins zwei drei", "one two three four", "words"),
        (CleanConfig(max_words=3), "eins  zwei  drei", "one two three", None),
        (CleanConfig(max_words=0), "eins zwei drei vier", "one two three four", None),
        (CleanConfig(max_word_chars=9), "abcdefghi j", "abcdefghi j", "copied"),
        (CleanConfig(max_word_chars=9), "abcdefghi ja", "abcdefghi j", None),
        (CleanConfig(max_word_chars=9), "abcdefghij ja", "abcdefghi j", "word"),
        (CleanConfig(max_word_chars=9), "auf https://a.example/bcd", "abcdefghi j", None),
        (CleanConfig(drop=["shouted"]), "DAS IST ALLES GUT", "this is all good", "shouted"),
        (CleanConfig(drop=["shouted"]), "das ist alles gut", "THIS IS ALL GOOD!", "shouted"),
        (CleanConfig(drop=["shouted"]), "UNESCO UND NATO", "UNESCO and NATO", "shouted"),
        (CleanConfig(drop=["shouted"]), "ABCDEFGHIJKL", "abc def ghi jkl", None),
        (CleanConfig(drop=["shouted"]), "ABCDEFGHIJKLM", "abc def ghi jkl", "shouted"),
        (CleanConfig(drop=["shouted"]), "DAS IST ALLEs GUT", "this is all good", None),
        (CleanConfig(min_script=0.5), "ab вг", "ab", None),
        (CleanConfig(min_script=0.5), "ab вгд", "ab", "script"),
        (CleanConfig(min_script=0.5), "ab", "ab вгд", "script"),
        (CleanConfig(min_script=0.5), "12 – 34", "12 - 34", None),
        (CleanConfig(drop=["links"]), "siehe www.a.example", "see http://b.example/c", None),
        (CleanConfig(drop=["links"]), "siehe www.a.example", "see there", "links"),
        (CleanConfig(drop=["links"]), "an a@b.example", "to a@b.example and c@d.example", "links"),
        (CleanConfig(drop=["links"]), "3 @ 4", "three @ four", None),
        (CleanConfig(drop=["tags"]), '<a href="x">ja</a>', '<a href="y">yes</a>', None),
        (CleanConfig(drop=["tags"]), "<b>ja</b>", "<b>yes<b>", "tags"),
        (CleanConfig(drop=["tags"]), "3 < 4 und 5 > 4", "3 < 4 and five", None),
        (CleanConfig(drop=["tags"]), "%s von {0}", "{0} of %s", None),
        (CleanConfig(drop=["tags"]), "%s von %d", "%2$d of %1$s", None),
        (CleanConfig(drop=["tags"]), "%s von {0}", "%s of {1}", "tags"),
        (CleanConfig(drop=["tags"]), "5% des Ganzen, 3%ig", "5% of the whole", None),
        (CleanConfig(drop=["tags"]), "100 % sicher", "100 % certain", None),
        (CleanConfig(drop=["tags"]), "$[name] und ${x}", "$[nam] and ${x}", "tags"),
        (CleanConfig(drop=["tags"]), "50 $", "$50", None),
        (CleanConfig(drop=["numbers"]), "1.234,50 Euro", "1,234.50 euros", None),
        (CleanConfig(drop=["numbers"]), "1 234 567", "1,234,567 in all", None),
        (CleanConfig(drop=["numbers"]), "10.000 Euro", "10000 euros", None),
        (CleanConfig(drop=["numbers"]), "1050 Euro", "1.050 euros", None),
        (CleanConfig(drop=["numbers"]), "2,000 Euro", "2000 euros", None),
        (CleanConfig(drop=["numbers"]), "10.000 Euro", "1000 euros", "numbers"),
        (CleanConfig(drop=["numbers"]), "am 05.01.2003", "on 5.1.2003", None),
        (CleanConfig(drop=["numbers"]), "im Jahr 1990", "in the year 1991", "numbers"),
        (CleanConfig(drop=["numbers"]), "im Jahr", "in 1991", "numbers"),
        (CleanConfig(drop=["numbers"]), "12 Hunde", "twelve dogs", None),
        (CleanConfig(drop=["numbers"]), "13 Hunde", "thirteen dogs", "numbers"),
        (CleanConfig(drop=["numbers"]), "007 und 012", "7 and twelve", None),
        (CleanConfig(drop=["numbers"]), "Seite 21", "page 12", "numbers"),
        (CleanConfig(drop=["numbers"]), "9" * 500, "9" * 499 + "8", "numbers"),
        (CleanConfig(drop=["sentences"]), "Ja. Nein.", "Yes. No.", None),
        (CleanConfig(drop=["sentences"]), "Ja. Nein.", "Yes, no.", "sentences"),
        (CleanConfig(drop=["sentences"]), "Dr. Ott kommt z. B. heute.", "Dr. Ott comes today.", None),
        (CleanConfig(drop=["truncated"]), "Das ist gut.", "This is", "truncated"),
        (CleanConfig(drop=["truncated"]), "Das ist", "This is good!", "truncated"),
        (CleanConfig(drop=["truncated"]), "Das ist gut", "This is good", None),
        (CleanConfig(drop=["truncated"]), "Das ist gut.", "This is good?", None),
        (CleanConfig(drop=["truncated"]), "Das ist so:", "This is how.", None),
        (CleanConfig(drop=["truncated"]), "Das ist so.", "This is how:", None),
        (CleanConfig(drop=["truncated"]), "Das ist so –", "This is how.", None),
        (CleanConfig(drop=["truncated"]), "„Das ist gut.“", 'This is "good".', None),
    ],
)  # fmt: skip
def test_filter_result_changes_at_boundary(clean: CleanConfig, src: str, tgt: str, expected: str | None) -> None:
    assert reason(src, tgt, clean) == expected


@pytest.mark.parametrize(
    ("languages", "clean", "src", "tgt", "expected"),
    [
        ("en-zh", CleanConfig(max_word_chars=9), "this is long", "这是一个没有空格的句子", None),
        (
            "en-zh",
            CleanConfig(drop=["shouted"]),
            "the IBM company grew",
            "他们和MICROSOFTSAPS合作开发了很多新的技术",
            None,
        ),
        ("en-zh", CleanConfig(drop=["truncated"]), "This is good.", "这很好。", None),
        ("en-zh", CleanConfig(drop=["truncated"]), "This is good.", "这很", "truncated"),
        ("en-zh", CleanConfig(min_script=0.6), "this is good", "これはペンです", None),
        ("en-zh", CleanConfig(min_script=0.6), "this is good", "this is good too", "script"),
        ("en-zh", CleanConfig(drop=["sentences"]), "Good. Fine.", "好。很好。", None),
        ("ar-en", CleanConfig(drop=["numbers"]), "في عام ١٩٩٠", "in the year 1990", None),
        ("ar-en", CleanConfig(drop=["numbers"]), "في عام ١٩٩١", "in the year 1990", "numbers"),
        ("ar-en", CleanConfig(drop=["truncated"]), "هل هذا جيد؟", "is this good", "truncated"),
        ("ar-en", CleanConfig(min_script=0.6), "هذا جيد", "this is good", None),
        ("ar-en", CleanConfig(drop=["shouted"]), "هذه جملة عربية طويلة", "an Arabic sentence", None),
        ("en-hi", CleanConfig(drop=["numbers"]), "in the year 1990", "वर्ष १९९० में", None),
        ("en-hi", CleanConfig(drop=["truncated"]), "This is good.", "यह अच्छा है।", None),
        (
            "de-ell",
            CleanConfig(drop=["truncated"]),
            "Das ist gut.",
            "\u0391\u03c5\u03c4\u03cc \u03b5\u03af\u03bd\u03b1\u03b9 \u03ba\u03b1\u03bb\u03cc\u037e",
            None,
        ),
        ("en-km", CleanConfig(drop=["truncated"]), "It is.", "នេះ៕", None),
        ("en-sat", CleanConfig(drop=["truncated"]), "It is.", "ᱠᱟᱱᱟ᱾", None),
        ("en-yi", CleanConfig(drop=["truncated"]), "It is.", "איז׃", None),
        ("en-ja", CleanConfig(drop=["truncated"]), "It is.", "です．", None),
        ("en-ti", CleanConfig(drop=["truncated"]), "It is.", "ነው፡፡", None),
        ("bo-en", CleanConfig(drop=["truncated"]), "ཡིན༎", "It is.", None),
        ("bo-en", CleanConfig(drop=["truncated"]), "ཡིན", "It is.", "truncated"),
        ("dz-en", CleanConfig(drop=["truncated"]), "ཡིན།", "It is", "truncated"),
        ("dz-en", CleanConfig(drop=["truncated"]), "ཡོག", "It is.", None),
        ("bo-en", CleanConfig(drop=["sentences"]), "ཡིན། ཡིན།", "It is.", None),
        ("ja-sv", CleanConfig(max_words=3), "これ は よい 。 よい", "Det är bra.", None),
        ("ja-sv", CleanConfig(max_words=3, drop=["shouted"]), "これはよい。", "DETTA MÅSTE VARA BRA", "words"),
        ("en-fr", CleanConfig(drop=["truncated"]), "It is.", "\xab Oui.\xa0\xbb", None),
        ("en-he", CleanConfig(drop=["truncated"]), "It is.", "\u05db\u05df.\u200f", None),
        ("en-my", CleanConfig(drop=["truncated"]), "It is,", "က၊", None),
        ("en-km", CleanConfig(drop=["truncated"]), "It is.", "នេះ", "truncated"),
        ("en-my", CleanConfig(drop=["truncated"]), "It is", "က၊", None),
        ("en-hi", CleanConfig(min_script=0.6), "this is good", "यह अच्छा है", None),
        ("en-hi", CleanConfig(min_script=0.6), "this is good", "это хорошо", "script"),
        ("en-ru", CleanConfig(drop=["shouted"]), "this is all good", "ЭТО ОЧЕНЬ ХОРОШО", "shouted"),
        ("chr-en", CleanConfig(drop=["shouted"]), "ᏂᎦᏓ ᎠᏂᏴᏫ ᎤᎾᏕᏅ ᎤᏂᏍᎦᎸᏗ", "all people are born", None),
        ("chr-en", CleanConfig(drop=["shouted"]), "ᏂᎦᏓ ᎠᏂᏴᏫ NATO UNESCO", "ALL PEOPLE ARE BORN", "shouted"),
        ("en-ka", CleanConfig(drop=["shouted"]), "all people are born", "ყველა ადამიანი იბადება", None),
        ("en-ka", CleanConfig(drop=["shouted"]), "all people are born", "ᲧᲕᲔᲚᲐ ᲐᲓᲐᲛᲘᲐᲜᲘ ᲘᲑᲐᲓᲔᲑᲐ", "shouted"),
        ("en-hy", CleanConfig(drop=["shouted"]), "all people are born", "ԲՈԼՈՐ ՄԱՐԴԻԿ ԾՆՎՈՒՄ ԵՆ", "shouted"),
        ("en-oj", CleanConfig(min_script=0.6), "this is good", "mii gwayak", None),
        ("en-oj", CleanConfig(min_script=0.6), "this is good", "ᒦ ᑿᔭᒃ", None),
        ("en-kaa", CleanConfig(min_script=0.6), "this is good", "bul jaqsı", None),
        ("en-iu_Cans", CleanConfig(min_script=0.6), "this is good", "piujuq", "script"),
        ("en-sr_Latn", CleanConfig(min_script=0.6), "this is good", "ово је добро", "script"),
        ("en-sr", CleanConfig(min_script=0.6), "this is good", "ово је dobro", None),
        ("am-en", CleanConfig(max_word_chars=9), "የሰው፡ልጅ፡ሁሉ፡ሲወለድ፡ነጻ", "all are born free", None),
        ("en-jpn", CleanConfig(max_word_chars=9), "this is long", "これは空白のない長い文です", None),
        ("eng_Latn-tha_Thai", CleanConfig(min_script=0.6), "this is good", "สิ่งนี้ดี", None),
    ],
)
def test_filters_work_in_several_scripts(
    languages: str, clean: CleanConfig, src: str, tgt: str, expected: str | None
) -> None:
    assert reason(src, tgt, clean, languages) == expected


ALL = CleanConfig(
    drop=["copied", "broken", "shouted", "links", "tags", "numbers", "sentences", "truncated"],
    overlap="exact",
    max_words=9,
    max_word_chars=20,
    min_script=0.5,
)


def test_pair_is_counted_under_first_reason() -> None:
    """Each pair has a flaw and all flaws of the following pairs, except those that exclude each other."""
    worst = "\ufffd ONE TWO THREE FOUR FIVE SIX SEVEN EIGHT NINE TEN SUPERCALIFRAGILISTICEXPIALI"
    flaws = [
        (worst, "broken"),
        (worst.replace("\ufffd ", ""), "words"),
        ("ONE TWO SUPERCALIFRAGILISTICEXPIALI", "word"),
        ("ONE TWO THREE FOUR. FIVE", "shouted"),
        ("вгдежзийклмнопрстуф www.a.example <b> 77. Five.", "script"),
        ("www.a.example <b> 77. Five.", "links"),
        ("five <b> 77. Five.", "tags"),
        ("five 77. Five.", "numbers"),
        ("Five. Five.", "sentences"),
        ("Five five.", "truncated"),
        ("Five five", None),
    ]
    for src, expected in flaws:
        assert reason(src, "One more Line here", ALL) == expected, src
    found = [expected for _, expected in flaws if expected is not None]
    assert found == sorted(found, key=[*REASONS].index)


def test_pairs_below_min_score_are_dropped() -> None:
    scored = TrainFiles(files=dict.fromkeys(("de", "en"), "a"), score="a.scores", clean=CorpusClean(min_score=-0.5))
    data = config(CleanConfig())
    data = data.model_copy(update={"train": [*data.train[:1], scored]})
    for key, dropped in (("train.0", {}), ("train.1", {"score": 2})):
        cleaner = Cleaner(data, key, HELD_OUT)
        for score in (-0.5, 0.0, -0.51, None):
            cleaner.clean(SentencePair("ja", "yes", "", score))
        assert cleaner.report.dropped == dropped


def test_corpus_settings_override_common_settings() -> None:
    clean = CleanConfig(drop=["shouted", "numbers"], max_words=3)
    own = CorpusClean(drop=["truncated", "numbers"], max_words=0, max_chars=40, max_ratio=1.5)
    data = config(clean, own=own)
    pairs = [("DAS IST ALLES GUT", "all good"), ("1990", "1991"), ("Ja.", "yes"), ("x" * 41, "y" * 41),
             ("a" * 16, "b" * 6)]  # fmt: skip
    for key, dropped in (
        ("train.0", {"words": 1, "numbers": 1}),
        ("train.1", {"numbers": 1, "truncated": 1, "long": 1}),
    ):
        cleaner = Cleaner(data, key, HELD_OUT)
        for pair in pairs:
            cleaner.clean(SentencePair(*pair, ""))
        assert cleaner.report.dropped == dropped
    strict = Cleaner(config(CleanConfig(), own=CorpusClean(max_ratio=1.4)), "train.1", HELD_OUT)
    assert strict.clean(SentencePair("a" * 16, "b" * 6, "")) is None
    assert data.clean_of("train.0").max_chars == data.max_chars


def test_identified_languages_are_counted() -> None:
    english = "The children play in the garden behind the house."
    cleaner = Cleaner(config(CleanConfig(drop=["language"])), "train.0", HELD_OUT)
    assert cleaner.clean(SentencePair("Die Kinder spielen im Garten.", english, "")) is not None
    assert cleaner.clean(SentencePair("Les enfants jouent dans le jardin derrière la maison.", english, "")) is None
    assert cleaner.clean(SentencePair("12", "14", "")) is not None
    assert cleaner.report.mix == {"de": {"de": 1, "fr": 1, "unclear": 1}, "en": {"en": 1, "unclear": 1}}
    assert cleaner.report.dropped == {"language": 1}


LABELS = CleanConfig(drop=["copied", "shouted", "numbers", "truncated"], max_words=3, overlap="either")
SEVERAL = CleanConfig(drop=["sentences", "truncated", "language"], min_script=0.5)


@pytest.mark.parametrize(
    ("src", "tgt", "clean", "languages", "expected"),
    [
        ("This is good.", "นี่คือ", SEVERAL, "en-th", None),
        ("This is good.", "דאָס איז גוט.", SEVERAL, "en-yi", None),
        ("Das sind die Kinder im Garten.", "דאָס איז גוט.", SEVERAL, "en-yi", "language"),
        ("Es ist gut.", "VIEL SCHLECHTER ALS 1990", LABELS, "de-label", None),
        ("VIEL SCHLECHTER ALS 1990", "gut", LABELS, "de-label", "words"),
    ],
)
def test_steps_that_a_language_does_not_support_or_labels_drop_nothing(
    src: str, tgt: str, clean: CleanConfig, languages: str, expected: str | None
) -> None:
    assert reason(src, tgt, clean, languages) == expected


def test_steps_that_a_language_does_not_support_are_known() -> None:
    marks, identified = ["sentences", "truncated"], ["language"]
    other_scripts = ["az_Arab", "kk_Arab", "pa_Arab", "tt_Latn", "mn_Mong", "min_Arab", "crh_Cyrl"]
    left_out = {
        "th": marks, "lo": marks, "bo": ["sentences", "language"],
        **dict.fromkeys(["yi", "azb", *other_scripts], identified),
        **{code: [] for code in ("sr_Latn", "uz_Cyrl", "ku_Arab", "deu", "ckb", "nb")},
    }  # fmt: skip
    for language, expected in left_out.items():
        assert [reason for reason in UNSUPPORTED if not supports(language, reason)] == expected


def test_unknown_script_is_that_of_most_text() -> None:
    cleaner = Cleaner(config(CleanConfig(min_script=0.5), "de-xx"), "train.0", HELD_OUT)
    for text in ("ეს არის სტრიქონი", "12", "კიდევ ერთი"):
        assert cleaner.clean(SentencePair("Zeile", text, "")) is not None
    assert cleaner.clean(SentencePair("Zeile", "this is a line", "")) is None
    assert cleaner.report.dropped == {"script": 1}


@pytest.mark.parametrize(
    ("clean", "package"),
    [
        (CleanConfig(repair=["encoding"]), "ftfy"),
        (CleanConfig(drop=["broken"]), "ftfy"),
        (CleanConfig(drop=["language"]), "py3langid"),
    ],
)
def test_missing_package_raises(clean: CleanConfig, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(DataError, match=rf"needs the package {package}; .*nmt-train\[clean"):
        Cleaner(config(clean), "train.0", HELD_OUT)


@pytest.mark.parametrize(
    ("languages", "src", "tgt", "is_kept"),
    [
        ("en-zh", "oh darn that", "好", True), ("en-zh", "Hecklers shout", "好", True),
        ("en-zh", "heck", "坏人说话", False), ("en-zh", "12-3456", "一二", True),
        ("en-zh", "c and ac++", "好", True), ("en-zh", "a $$ b", "好", True),
        ("en-zh", "in C++, say", "好", False), ("en-zh", "a$$$b", "好", False), ("en-zh", "DARN  it!", "好", False),
        ("en-zh", "what the Heck.", "好", False), ("en-zh", "call 555-1234 now", "好", False),
        ("en-zh", "fine", "他说坏话了", False), ("en-hi", "for us", "यह हमें मिला", True),
        ("en-hi", "we are here", "यहाँ हम हैं।", False),
        *(("az-en", text, "good", False) for text in ("İnsan burada", "bu, İNSAN", "IŞIK var", "Işık", "I\u0307nsan")),
        *(("az-en", text, "good", True) for text in ("ınsan", "İŞİK", "isik")),
        *(("az-en", text, "good", False) for text in ("i\u00adnsan", "is\u0327i\u0307k is\u0327iq", "I\u015fIq")),
        ("en-kk_Latn", "good", "ISSY QALA, ISSY", False), ("en-kk_Latn", "good", "İSSY", True),
    ],
)  # fmt: skip
def test_texts_with_blocked_words_are_dropped(
    languages: str, src: str, tgt: str, is_kept: bool, tmp_path: Path
) -> None:
    lists = {"en": "# words\nDarn it\nheck\n/\\d{3}-\\d{4}/\n\nc++\n$$$\n", "zh": "坏话\n", "hi": "हम\n"}
    lists |= {"az": "insan\nışık\nişiq\nışıq\n", "kk_Latn": "ıssy\n"}
    for language, words in lists.items():
        (tmp_path / f"bad.{language}").write_text(words, encoding="utf-8")
    block_lists = {language: f"bad.{language}" for language in languages.split("-")}
    data = config(CleanConfig(block_lists=block_lists), languages).model_copy(update={"root": str(tmp_path)})
    cleaner = Cleaner(data, "train.0", HELD_OUT)
    assert (cleaner.clean(SentencePair(src, tgt, "")) is not None) == is_kept
    assert cleaner.report.dropped == ({} if is_kept else {"blocked": 1})


def test_script_filter_compares_share_of_letters() -> None:
    test = other_script("hi", 0.5)
    assert [text for text in ("हिन्दी", "हम ab", "हम abc", "abc", "12", "") if test(text)] == ["हम abc", "abc"]
