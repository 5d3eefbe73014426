"""The report as a page and on the screen: complete, readable, and safe for any text."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pytest

from nmt.data.manifest import SourceRecord, TextRecord
from nmt.prepare.cleaning.counts import REASONS, CleanReport
from nmt.prepare.report import PreparationReport, TokenizerReport, corpus_reports, screen
from nmt.prepare.report_page import report_page
from nmt.text.pairing import Sample
from parsed_page import ParsedPage

EVIL = "<script>alert('1')</script>&amp;\"\u202e\u0007\x1b[31m"


def counts(text: str = "ein Satz", n: int = 12_345, kept: int = 9) -> CleanReport:
    report = CleanReport(read=n, kept=kept, mix={"de": {"de": 8, "fr": 2}})
    for line in range(7):
        report.repair("encoding", line, "davor", text)
    for line, reason in enumerate(REASONS, start=1):
        for again in (0, 100):
            report.drop(reason, line + again, text, text)
    report.read_lengths.count([len(text)] * kept, [2 * len(text)] * kept)
    report.keep(np.arange(1, kept + 1), [text] * kept, [f"kept {line}" for line in range(1, kept + 1)])
    return report


def report(text: str = "ein Satz", *, n_corpora: int = 2, **changes: object) -> PreparationReport:
    sample = Sample.of([(text, "жук")] * 30)
    keys = [f"train.{i}" for i in range(n_corpora)]
    records = {key: SourceRecord(corpus=f"{text} {i}", files={}, skipped={text: 3}) for i, key in enumerate(keys)}
    corpora = corpus_reports({key: counts(text) for key in keys}, records, dict.fromkeys(keys, sample), ("de", "en"))
    plain = TextRecord(words=10, characters=50, pieces=20, bytes=1, unknown=0)
    whole = PreparationReport(
        kind="prepared", sample=None, languages=("de", "en"), corpora=corpora, held_out={"valid": 30},
        warnings=[f"look at {text}"], settings={"data": {"name": text}},
        tokenizer=TokenizerReport(joint=True, pieces={"de": 4000, "en": 4000}, text={"de": plain, "en": plain}),
    )  # fmt: skip
    return whole.model_copy(update=changes)


@pytest.mark.parametrize("n_corpora", [1, 2])
def test_report_page_shows_all_sections(n_corpora: int) -> None:
    page = ParsedPage(report_page(report(n_corpora=n_corpora)))
    read, kept = 12_345 * n_corpora, 9 * n_corpora
    for text in (
        f"{read:,} pairs were read from {'2 corpora' if n_corpora == 2 else 'one corpus'}. {kept} (0.1%) are kept",
        "look at ein Satz", "ein Satz 0 train.0", "valid 30", *REASONS.values(), "Latin 100.0%", "Cyrillic 100.0%",
        "identified as de 80.0%, fr 20.0%", f"wrong encoding, {7 * n_corpora} pairs", "davor", "kept 9",
        "copied source (2), pair 7", "units that are not one pair: ein Satz 3", "4,000 pieces for de (one vocabulary)",
        "2.00 pieces per word", "de: characters a line", "length of en in lengths of de", "name: ein Satz",
    ):  # fmt: skip
        assert text in page.text, text
    assert "dry run" not in page.text and [tag for tag, _ in page.seen].count("svg") == 3


def test_report_page_is_self_contained() -> None:
    page = report_page(report())
    tags = {tag for tag, _ in ParsedPage(page).seen}
    assert not tags & {"script", "link", "img", "iframe", "object", "form", "a"}
    assert not re.search(r"https?:|url\(|@import|javascript|\bon\w+=", page)


def test_report_page_escapes_text() -> None:
    harmless, evil = ParsedPage(report_page(report("e" * len(EVIL)))), ParsedPage(report_page(report(EVIL)))
    assert [tag for tag, _ in evil.seen] == [tag for tag, _ in harmless.seen]
    assert {name for _, attributes in evil.seen for name in attributes} == {
        name for _, attributes in harmless.seen for name in attributes
    }
    assert evil.text.count("<script>alert('1')</script>&amp;\"\\u202e\\x07\\x1b[31m") > 10
    assert not [character for character in evil.text if unicodedata.category(character) in ("Cf", "Cc")
                and character != "\n"]  # fmt: skip


def test_repairs_of_invisible_marks_are_visible() -> None:
    changed = counts()
    changed.repair("spaces", 1, "ein\u200b\u00adSatz\u00a0!", "einSatz !")
    record = SourceRecord(corpus="c", files={})
    corpora = corpus_reports({"train.0": changed}, {"train.0": record}, {"train.0": Sample()}, ("de", "en"))
    page = report_page(report().model_copy(update={"corpora": corpora}))
    assert r"<bdi>ein\u200b\xadSatz\xa0!</bdi>" in page and "<bdi>einSatz !</bdi>" in page


@pytest.mark.parametrize("text", ["ein Satz", "a-b" * 100, EVIL * 9])
def test_screen_report_fits_its_width(text: str) -> None:
    dry = report("kurz", kind="dry run", sample=1000)
    corpora = [corpus.model_copy(update={"dropped_samples": {"ratio": [{"line": 12, "de": text, "en": "b"}]}})
               for corpus in dry.corpora]  # fmt: skip
    lines = list(screen(dry.model_copy(update={"corpora": corpora})))
    assert max(map(len, lines)) <= 100
    assert "  kurz 0, pair 12" in lines and "    en  b" in lines
