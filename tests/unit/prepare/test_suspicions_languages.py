"""Corpora whose sides are swapped or not of their languages: which are told, and which must not be."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest

from command import Command
from folders import PAIRS, TEST, TRAIN, VALID, Folder, files
from nmt.config.load import dump_config
from nmt.prepare.suspicions import suspicions
from nmt.text.pairing import N_PAIRS, Sample
from sentences import sentence_pairs

RUSSIAN = [(f"Собака номер {n} видит поезд", f"Dog number {n} sees the train") for n in range(40)]
GREEK = [(f"Ο σκύλος βλέπει {n} τρένα", f"The dog sees {n} trains") for n in range(40)]
Pairs = list[tuple[str, str]]


def told(languages: tuple[str, str] = ("de", "en"), **corpora: Pairs) -> list[str]:
    """The warnings about swapped sides, scripts and codes of corpora named train_0, train_1, valid, test_x."""
    samples = {name.replace("_", "."): Sample.of(pairs) for name, pairs in corpora.items()}
    held_out = [key for key in samples if not key.startswith("train")]
    warnings = suspicions(samples, held_out, languages, {key: f"{key}.txt" for key in samples})
    return [warning for warning in warnings if re.search("swapped|letters|scripts|ISO 639", warning)]


def other_way_round(pairs: Pairs) -> Pairs:
    return [(second, first) for first, second in pairs]


def test_language_sample_is_spread() -> None:
    for n in (0, 5, N_PAIRS, N_PAIRS + 1, 7 * N_PAIRS):
        pairs = Sample.of((str(i), "x" * 1000) for i in range(n)).pairs
        assert min(n, N_PAIRS // 2) <= len(pairs) <= N_PAIRS
        steps = {int(after[0]) - int(before[0]) for before, after in itertools.pairwise(pairs)}
        assert len(steps) <= 1
        assert not pairs or (pairs[0][0] == "0" and int(pairs[-1][0]) > 0.99 * n - max(steps, default=1))
        assert all(len(tgt) == 300 for _, tgt in pairs)


@pytest.mark.parametrize(
    "corpora",
    [
        {"train_0": TRAIN, "valid": VALID, "test_a": TEST},
        {"train_0": TRAIN, "train_1": sentence_pairs(300, seed=9)},
        {"train_0": TRAIN},
        {"train_0": TRAIN, "valid": []},
        {"train_0": TRAIN, "valid": [(f"{n}", f"{n}") for n in range(50)]},
        {"train_0": [(a, a + "!") for a, _ in TRAIN], "valid": [(a, a + "?") for a, _ in VALID]},
    ],
)
def test_unswapped_corpora_give_no_warning(corpora: dict[str, Pairs]) -> None:
    assert told(**corpora) == []


def test_swapped_corpus_warning_mentions_reference() -> None:
    (warning,) = told(train_0=TRAIN, train_1=other_way_round(TRAIN), valid=VALID, test_a=TEST)
    assert warning == (
        "data.train.1 (train.1.txt): de and en look swapped: 100% of its pairs fit data.valid (valid.txt) better the "
        "other way round; check the files of both"
    )
    (warning,) = told(train_0=TRAIN, valid=VALID, test_a=other_way_round(TEST))
    assert warning.startswith("data.test.a (test.a.txt): de and en look swapped: 100% of its pairs fit data.valid")
    (warning,) = told(train_0=TRAIN, train_1=other_way_round(PAIRS))
    assert "data.train.1 (train.1.txt): de and en look swapped: 100% of its pairs fit data.train.0 " in warning


def test_swapped_development_set_warns_for_all_corpora() -> None:
    found = told(train_0=TRAIN[:120], train_1=TRAIN[120:], valid=other_way_round(VALID), test_a=TEST)
    assert len(found) == 3 and all("fit data.valid (valid.txt) better the other way round" in each for each in found)


def test_unexpected_script_warns() -> None:
    warnings = told(train_0=TRAIN, train_1=RUSSIAN, valid=VALID)
    several = "Latin (100% of the lines of data.train.0) and Cyrillic (100% of the lines of data.train.1)"
    assert warnings[0] == f"de is written in several scripts: {several}; keep one, see docs/data.md"
    assert warnings[1] == (
        "data.train.1 (train.1.txt): most letters of the de side are Cyrillic, where Latin is expected; check its files"
    )
    assert told(("en", "ru"), train_0=other_way_round(RUSSIAN)) == []
    assert told(("en", "sr"), train_0=other_way_round(RUSSIAN)) == []  # written in both
    (warning,) = told(("en", "ru"), train_0=RUSSIAN)
    assert warning == "data.train.0 (train.0.txt): en and ru look swapped, by their scripts; check its files"
    unknown = told(("xx", "yy"), train_0=GREEK, train_1=RUSSIAN)  # nobody knows which script is right
    assert [warning.partition(" is ")[0] for warning in unknown] == ["data.direction: xx", "xx", "data.direction: yy"]
    assert "Greek (100% of the lines of data.train.0)" in unknown[1] and "Cyrillic (100%" in unknown[1]


def sides(*texts: str, n: int = 100) -> Pairs:
    """Return pairs of an English line and each of the texts in turn."""
    return [(f"the dog sees {i} trains", texts[i % len(texts)].format(i)) for i in range(n)]


CYRILLIC, LATIN = "пас види {} возова", "pas vidi {} vozova"


@pytest.mark.parametrize(
    ("code", "texts", "names"),
    [
        ("sr", (CYRILLIC, LATIN), "Cyrillic (50% of the lines of data.train.0) and Latin (50%"),
        ("be", (LATIN, *[CYRILLIC] * 6), "Cyrillic (85% of the lines of data.train.0) and Latin (15%"),
        ("kk", ("ит {} пойызды көреді", "يت {} پويىزدى كورەدى"), "Cyrillic (50% of the lines"),
        ("hi", ("कुत्ता {} रेलगाड़ियाँ देखता है", "kutta {} relgadiyan dekhta hai"), "Devanagari (50%"),
        ("pa", ("ਕੁੱਤਾ {} ਰੇਲਾਂ ਵੇਖਦਾ ਹੈ", "کتا {} ریلاں ویکھدا اے"), "Gurmukhi (50%"),
        ("zh", ("狗看见{}列火车，说很长 Ж", "狗看見{}列火車，說很長"), "simplified Chinese (50%"),
        ("zh_TW", ("狗看見{}列火車，說很長", "狗看见{}列火车，说很长"), "traditional Chinese (50%"),
        ("sr_Latn", (LATIN, LATIN, CYRILLIC), "Latin (67% of the lines"),
    ],
)
def test_side_in_several_scripts_warns_with_shares(code: str, texts: tuple[str, ...], names: str) -> None:
    (warning,) = told(("en", code), train_0=sides(*texts))
    assert warning.startswith(f"{code} is written in several scripts: {names}")


def test_sets_in_several_scripts_warn() -> None:
    cyrillic, latin = sides(CYRILLIC), sides(LATIN)
    (warning,) = told(("en", "uz"), train_0=cyrillic, train_1=latin[:50])
    assert "Cyrillic (100% of the lines of data.train.0) and Latin (100% of the lines of data.tr" in warning
    (warning,) = told(("en", "sr"), train_0=cyrillic, valid=latin, test_a=cyrillic)
    assert "Cyrillic (100% of the lines of data.train.0) and Latin (100% of the lines of data.valid)" in warning


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        ("sr", (*[CYRILLIC] * 10, LATIN)),
        ("ja", ("犬が{}本の列車を見る", "イヌ", "東京都", "Windows XP を使う人は{}人です")),
        ("ko", ("개가 기차 {}대를 본다", "Microsoft Windows 11에서 개가 기차를 {}번 본다", "1234")),
        ("ru", ("собака видит {} поездов", "iPhone 15 Pro Max и собака", "{} %", "the dog sees {} trains")),
        ("zh", ("狗看见{}列火车", "中文一二三", "上海市")),
        ("ar", ("الكلب يرى {} قطارات", "{}", "😀")),
    ],
)
def test_text_in_one_script_with_names_and_copies_gives_no_warning(code: str, texts: tuple[str, ...]) -> None:
    assert told(("en", code), train_0=sides(*texts)) == []


@pytest.mark.parametrize(
    ("code", "meant"), [("cz", "cs"), ("jp_JP", "ja"), ("czech", "cs"), ("German", "de"), ("xx", None)]
)
def test_unknown_language_code_warns(code: str, meant: str | None) -> None:
    (warning,) = told(("en", code), train_0=TRAIN)
    assert code in warning and (meant is None or f"did you mean {meant}?" in warning)


def test_unchanged_prepare_repeats_warnings(tmp_path: Path, nmt: Command) -> None:
    place = Folder(tmp_path)
    place.write(more=other_way_round(sentence_pairs(600)[300:]), none=[("ja", "ja")] * 30)
    changes = {"data__train": [files("train"), files("more"), files("none")]}
    (place.folder / "c.yaml").write_text(dump_config(place.config(**changes)), encoding="utf-8")
    command = ("prepare", "--config", place.folder / "c.yaml", "--data", place.data)
    first, second = nmt(*command), nmt(*command)
    assert first.status == second.status == 0
    warnings = [line.removeprefix("warning: ") for line in first.out.split("\n") if line.startswith("warning: ")]
    assert [warning.partition(": ")[0] for warning in warnings] == [
        "data.train.2 (none.de)", "data.train.1 (more.de)",
    ]  # fmt: skip
    assert warnings[0].endswith(
        "none of its pairs is kept: copied source 30; both sides are identical: is this one file with both languages?"
    )
    assert warnings[1].startswith("data.train.1 (more.de): de and en look swapped: ")
    assert json.loads((place.data / "manifest.json").read_text(encoding="utf-8"))["warnings"] == warnings
    assert second.out.count("warning: ") == 2 and "nothing to do" in second.out
