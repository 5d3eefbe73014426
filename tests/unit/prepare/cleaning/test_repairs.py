"""Repairs of training text: the changes of each, and their counts."""

from __future__ import annotations

from typing import Literal

import pytest

from held_out import held_out_of
from nmt.data.settings import DataConfig
from nmt.data.sources import TrainFiles
from nmt.prepare.cleaning.cleaner import Cleaner
from nmt.prepare.cleaning.counts import REPAIRS, CleanReport, total
from nmt.prepare.cleaning.settings import CleanConfig
from nmt.prepare.pairs import SentencePair

FILES = TrainFiles(files={"de": "a.de", "en": "a.en"})
ALL = CleanConfig(repair=["encoding", "entities", "control", "spaces", "NFC"])  # fmt: skip


def cleaner_of(clean: CleanConfig) -> Cleaner:
    return Cleaner(DataConfig(direction="de-en", train=[FILES], clean=clean), "train.0", held_out_of(()))


def repaired(text: str, clean: CleanConfig) -> tuple[str, list[str]]:
    """Return a repaired text, and the kinds of repair that are counted."""
    cleaner = cleaner_of(clean)
    pair = cleaner.clean(SentencePair("other side", f" {text}", ""))
    assert pair is not None and pair.src == "other side"
    return pair.tgt, list(cleaner.report.repaired)


@pytest.mark.parametrize(
    ("kind", "clean", "text", "expected"),
    [
        ("encoding", CleanConfig(repair=["encoding"]), "schÃ¶ne GrÃ¼ÃŸe", "schöne Grüße"),
        ("encoding", CleanConfig(repair=["encoding"]), "Ð¿Ñ€Ð¸Ð²ÐµÑ‚ Ð¼Ð¸Ñ€", "привет мир"),
        ("encoding", CleanConfig(repair=["encoding"]), "â€œgoodâ€\x9d", "“good”"),
        ("encoding", CleanConfig(repair=["encoding"]), "voilÃ  tout", "voilà tout"),
        ("encoding", CleanConfig(repair=["encoding"]), "“quotes” &amp; ﬁ … １２ schöne Grüße é\u0301", None),
        ("encoding", CleanConfig(repair=["encoding"]), "«AMANHÃ», “ĐÃ”, MANHÃ— CAFÉ¹ »Übermorgen«", None),
        ("encoding", CleanConfig(repair=["encoding"]), "中文 العربية हिन्दी русский Ελληνικά", None),
        ("entities", CleanConfig(repair=["entities"]), "a &amp; b &lt; &#228; &#xe4; &nbsp;d", "a & b < ä ä \u00a0d"),
        ("entities", CleanConfig(repair=["entities"]), "a &amp;amp;amp;lt; b", "a < b"),
        ("entities", CleanConfig(repair=["entities"]), "AT&T; R&D &unknown; &amp b & c;", None),
        ("control", CleanConfig(repair=["control"]), "a\x00b\x0cc\u0085d\te", "ab c d\te"),
        ("unicode", CleanConfig(repair=["NFC"]), "scho\u0308n ﬁ", "schön ﬁ"),
        ("unicode", CleanConfig(repair=["NFKC"]), "ﬁ １２", "fi 12"),
        ("unicode", CleanConfig(), "scho\u0308n", None),
        ("spaces", CleanConfig(repair=["spaces"]), "a  b\u00a0c\u2009\td\u200b\ufeff e\u00adf", "a b c d ef"),
        ("spaces", CleanConfig(repair=["spaces"]), "می\u200cخواهم क्\u200dष a\u200eb", None),
    ],
)  # fmt: skip
def test_repair_changes_text_as_expected(kind: str, clean: CleanConfig, text: str, expected: str | None) -> None:
    wanted = (text, []) if expected is None else (expected, [kind])
    assert repaired(text, clean) == wanted
    assert kind in REPAIRS


@pytest.mark.parametrize("overlap", ["exact", "normal", "either"])
def test_pairs_overlap_with_held_out_pairs_as_they_are_and_as_repaired(
    overlap: Literal["exact", "normal", "either"],
) -> None:
    data = DataConfig(direction="de-en", train=[FILES], clean=ALL.model_copy(update={"overlap": overlap}))
    raw, clean = ("Öl &amp;  Fett", "oil &amp; fat"), ("Öl & Fett", "oil & fat")
    cleaner = Cleaner(data, "train.0", held_out_of([raw]))
    for src, tgt in (raw, clean, ("O\u0308l & Fett", "oil &  fat")):
        assert cleaner.clean(SentencePair(src, tgt, "")) is None
    assert cleaner.report.dropped == {"overlap": 3}
    without_repairs = Cleaner(data.model_copy(update={"clean": CleanConfig()}), "train.0", held_out_of([raw]))
    assert without_repairs.clean(SentencePair(*clean, "")) is not None
    assert without_repairs.clean(SentencePair(*raw, "")) is None


def test_repairs_are_applied_in_order_before_pairs_are_judged() -> None:
    assert repaired("GrÃ¼ÃŸe\x00 &amp;  o\u0308\u00a0", ALL) == ("Grüße & ö", [*REPAIRS][:-1])
    cleaner = cleaner_of(ALL)
    assert cleaner.clean(SentencePair("\u200b&nbsp;", "text", "")) is None
    assert cleaner.clean(SentencePair("a &amp; b", "a & b", "")) is None
    assert cleaner.report.dropped == {"empty": 1, "copied": 1}


def test_repairs_are_counted_by_kind_with_samples() -> None:
    cleaner = cleaner_of(CleanConfig(repair=["entities", "spaces"]))
    far = "x" * 200
    for pair in [
        ("a", "b"),
        ("a &lt; c", "b &lt; d"),
        ("c", f"{far} &gt;"),
        ("a  b", "c"),
        ("d", "e  &gt;f"),
        ("&gt;", "x"),
    ]:
        cleaner.clean(SentencePair(*pair, ""))
    assert cleaner.report.repaired == {"entities": 4, "spaces": 2}
    assert cleaner.report.repaired_samples == {
        "entities": [(2, "a &lt; c", "a < c"), (3, f"{'x' * 39} &gt;", f"{'x' * 39} >"), (5, "e  &gt;f", "e  >f")],
        "spaces": [(4, "a  b", "a b"), (5, "e  >f", "e >f")],
    }


def test_repair_counts_of_parts_add_up() -> None:
    first, second = CleanReport(), CleanReport()
    for report, line in ((first, 1), (first, 2), (second, 3), (second, 4)):
        report.repair("spaces", line, "a  b", "a b")
    second.repair("control", 4, "\x00a", "a")
    first.add(CleanReport.from_json(second.to_json()))
    assert first.repaired == total([first]).repaired == {"spaces": 4, "control": 1}
    assert [line for line, *_ in first.repaired_samples["spaces"]] == [1, 2, 3]
    assert first.repaired_samples["control"] == [(4, "\x00a", "a")]
