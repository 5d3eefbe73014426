"""Several test sets as one table, and what a run's earlier scores can be compared with."""

from __future__ import annotations

import json
from dataclasses import replace

from nmt.evaluate.metrics import Score
from nmt.evaluate.report import History, Report, Subject, evaluate, render_json, render_table, render_text
from nmt.runs.info import EnsembleMember
from scored_run import record

REFS = ["Ein Hund läuft durch den Schnee.", "Zwei Frauen sitzen auf einer Bank."]


def report(split: str, n: int = 1, **options: bool) -> Report:
    subject = Subject(run="runs/\x1ba", split=split, step=4000, weights="average", search="beam 5", precision="bf16")
    return evaluate(REFS * n, REFS * n, subject, "de", **options)


def test_table_has_one_row_per_split() -> None:
    lines = render_table([report("a"), report("a_longer_\x1bname", 600)]).splitlines()
    assert lines[:3] == [
        "split                BLEU    chrF   TER  lines",
        "a                  100.00  100.00  0.00      2",
        "a_longer_\\x1bname  100.00  100.00  0.00  1,200",
    ]
    assert [line.split("|")[0] for line in lines[3:6]] == ["BLEU: BLEU", "chrF: chrF2", "TER: TER"]
    assert lines[5].endswith("  (lower is better)")
    assert lines[6:] == ["run runs/\\x1ba, step 4000, weights average, search beam 5, precision bf16"]


def test_notes_of_some_splits_name_them() -> None:
    first, second = report("a", lowercase=True), report("b")
    more = Score("bleu", 3.0, "another|version:1", higher_is_better=True)
    second = replace(second, scores=(*second.scores[1:], replace(more, metric="co\x1bmet")))
    text = render_table([first, second])
    header, row, other = (line.split() for line in text.splitlines()[:3])
    assert header == ["split", "BLEU", "chrF", "TER", "co\\x1bmet", "lines"]
    assert (row[4], other[1], other[4]) == ("-", "-", "3.0000")
    assert "co\\x1bmet: another|version:1 (b)" in text
    assert "case:lc" in text and "case:mixed" in text
    assert "note: lowercased: not comparable with cased scores (a)" in text


def test_json_of_one_or_several_splits() -> None:
    first, second = report("a"), report("b")
    assert json.loads(render_json(first, second)) == [json.loads(render_json(each)) for each in (first, second)]
    assert json.loads(render_json(first))["split"] == "a"
    assert render_text(first).count("\n") == 3


# --- history --------------------------------------------------------------------------------------


def marks(history: History) -> list[list[bool]]:
    return [[score["comparable"] for score in each["scores"]] for each in json.loads(history.json())]


def test_scores_comparable_with_newest_of_split() -> None:
    history = History([
        record("a", version="2.5.0"), record("b", version="2.5.0"), record("a", text="other"), record("a"),
        record("a", bleu=40.0, step=None, weights=None, ensemble=[EnsembleMember(run="x", step=1, weights="raw")] * 2),
    ])  # fmt: skip
    assert marks(history) == [[False] * 3, [True] * 3, [False] * 3, [True] * 3, [True] * 3]
    odd, old = record("a", notes=["lowercased"], version="lc"), record("a", version="2.5.0")
    assert marks(History([old, record("a"), odd])) == [[False] * 3, [True] * 3, [False] * 3]
    assert marks(History([record("a", version="2.5.0", notes=["tokenize"]), odd])) == [[False] * 3, [True] * 3]
    one = record("a").scores
    assert marks(History([record(version="2.5.0"), record(scores=one[:1])])) == [[False, True, True], [True]]


def test_history_marks_incomparable_scores() -> None:
    old = record("test_a", bleu=9.5, version="2.5.0", lines=12_345, search="beam 1\x1b", step=12_000)
    member = EnsembleMember(run="x", step=1, weights="raw")
    both = record("test_a", step=None, weights=None, ensemble=[member, member], scores=record().scores[:2])
    lines = History([old, record("test_a"), both]).text().splitlines()
    assert lines[:4] == [
        "date (UTC)        split    lines    step  weights         BLEU    chrF     TER   precision  search",
        "2026-03-04 05:06  test_a  12,345  12,000  raw             9.50*  19.00*  90.50*  bf16       beam 1\\x1b",
        "2026-03-04 05:06  test_a   1,000     400  raw            31.25   62.50   68.75   bf16       beam 5, length "
        "penalty power 1",
        "2026-03-04 05:06  test_a   1,000       -  ensemble of 2  31.25   62.50       -   bf16       beam 5, length "
        "penalty power 1",
    ]
    assert lines[4:] == [
        "BLEU: BLEU|nrefs:1|case:mixed|version:2.6.0",
        "chrF: chrF2|nrefs:1|case:mixed|version:2.6.0",
        "TER: TER|nrefs:1|case:mixed|version:2.6.0  (lower is better)",
        "* not comparable with the other scores of the split: another signature, or another text",
        "* BLEU: BLEU|nrefs:1|case:mixed|version:2.5.0",
        "* chrF: chrF2|nrefs:1|case:mixed|version:2.5.0",
        "* TER: TER|nrefs:1|case:mixed|version:2.5.0  (lower is better)",
    ]
    assert "*" not in History([record(), record("b")]).text()
    text = History([record(text="before"), record(), record("b", version="2.5.0")]).text()
    assert text.count("*") == 3 + 1 + 3, "scores, explanation, signatures"
    assert "BLEU: BLEU|nrefs:1|case:mixed|version:2.5.0 (b)" in text
