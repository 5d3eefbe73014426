"""A comparison as text and as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from nmt.evaluate.compare import Comparison, Difference, Entry, GroupScore, MetricResult
from nmt.evaluate.compare.screen import UNDECIDED, ComparisonReport, agreement, verdicts
from nmt.evaluate.compare.systems import Group, System, TextToTranslate
from nmt.evaluate.metrics import Metric
from nmt.evaluate.significance import Interval
from nmt.tables import Cell, render

BLEU = Metric("bleu", "bleu", "BLEU|nrefs:1", higher_is_better=True)
CHRF = Metric("chrf", "chrf", "chrF2|nrefs:1", higher_is_better=True)
TER = Metric("ter", "ter", "TER|nrefs:1", higher_is_better=False)
COMET = Metric("wmt22-comet-da", "mean", "COMET|wmt22-comet-da|2.2.7", higher_is_better=True)


def score(value: float, deviation: float | None = None) -> GroupScore:
    return GroupScore(value, Interval(value - 1, value + 1), (value,), deviation)


def difference(value: float, p: float | None, p_holm: float | None = None) -> Difference:
    return Difference(value, Interval(value - 1, value + 1), p, p if p_holm is None else p_holm, 0.5, None, None, None)


def of(results: list[tuple[Metric, list[Difference | None]]], names: tuple[str, ...], baseline: int = 0) -> Comparison:
    groups = tuple(Group(name, (System(name, ("x",)),)) for name in names)
    scores = tuple(score(30 + i) for i in range(len(names)))
    return Comparison(
        TextToTranslate("test", ("x",) * 1000, languages=("de", "en")), groups, baseline,
        tuple(MetricResult(metric, tuple(map(Entry, groups, scores, each))) for metric, each in results),
        10_000, ("these tests know nothing",),
    )  # fmt: skip


def text_of(comparison: Comparison) -> str:
    return render("text", [ComparisonReport(comparison).as_table()], None)


def test_comparison_text_has_table_and_verdicts() -> None:
    told = text_of(of(
        [
            (BLEU, [None, difference(1.5, 0.0004)]),
            (CHRF, [None, difference(-0.5, 0.31)]),
            (TER, [None, difference(2.0, 0.02)]),
        ],
        ("base", "mine"),
    )).split("\n")  # fmt: skip
    assert told[:5] == [
        "test: de-en, 1,000 lines, compared with base",
        "",
        "BLEU                   score   95 % interval  diff.   95 % interval       p  people agree",
        "base                   30.00  29.00 to 31.00",
        "mine                   31.00  30.00 to 32.00  +1.50  +0.50 to +2.50  0.0004    65 to 80 %",
    ]
    assert told[8].endswith("-0.50  -1.50 to +0.50  0.3100    under 65 %")
    assert told[10].startswith("TER (lower is better)  score")
    assert told[12].endswith("0.0200"), "no threshold is published for TER"
    text = "\n".join(told).replace("\n  ", " ")
    for part in (
        "mine is better than base by BLEU, worse than base by TER, not significantly different from base by chrF.",
        "No significant difference does not mean equal", "Kocmi et al., 2024", "note: these tests know nothing",
        "approximate randomization, two-sided; 10,000 trials, seed 12345; not",
    ):  # fmt: skip
        assert part in text
    assert "Holm" not in text, "there is one comparison"
    assert text.count("not corrected for several") == 2, "intervals and p"
    assert told[-3:] == ["BLEU|nrefs:1", "chrF2|nrefs:1", "TER|nrefs:1"]


def test_system_has_no_verdict_where_test_and_interval_disagree() -> None:
    undecided = replace(difference(0.08, 0.039), interval=Interval(-0.18, 0.33))
    comparison = of([(BLEU, [None, undecided]), (CHRF, [None, difference(1.5, 0.01)])], ("base", "mine"))
    verdict, why = verdicts(comparison)
    assert verdict == "mine is better than base by chrF."
    assert "BLEU" in why and "chrF" not in why and "disagree" in why
    _, (_, *cells) = ComparisonReport(comparison).as_table().rows
    assert [isinstance(cell, Cell) and cell.is_significant for cell in cells] == [False, True]


@pytest.mark.parametrize(
    ("value", "p", "p_holm", "interval", "verdict"),
    [
        (0.4, 0.06, 0.06, (0.1, 0.7), f"mine has no verdict by BLEU: {UNDECIDED}"),
        (0.4, 0.03, 0.06, (0.1, 0.7), f"mine has no verdict by BLEU: {UNDECIDED}"),
        (0.4, 0.03, 0.06, (-0.1, 0.9), "mine is not significantly different from base by BLEU."),
        (0.0, 1.0, 1.0, (0.0, 0.0), "mine is not significantly different from base by BLEU."),
    ],
)
def test_verdict_needs_test_and_interval(
    value: float, p: float, p_holm: float, interval: tuple[float, float], verdict: str
) -> None:
    told = replace(difference(value, p, p_holm), interval=Interval(*interval))
    assert next(iter(verdicts(of([(BLEU, [None, told])], ("base", "mine"))))) == verdict


def test_metric_that_says_little_gives_no_verdict() -> None:
    comparison = of([(BLEU, [None, difference(1.5, 0.01)]), (CHRF, [None, difference(1.5, 0.01)])], ("base", "mine"))
    bleu, chrf = comparison.results
    short = replace(comparison, results=(replace(bleu, caution="few"), chrf))
    assert [*verdicts(short)] == ["mine is better than base by chrF.", "mine has no verdict by BLEU: few"]
    _, (_, *cells) = ComparisonReport(short).as_table().rows
    assert [isinstance(cell, Cell) and cell.is_significant for cell in cells] == [False, True]


def test_verdict_on_learned_lines_says_so_everywhere() -> None:
    comparison = of([(BLEU, [None, difference(1.5, 0.01)])], ("base", "mine"))
    text = replace(comparison.text, seen=frozenset(range(400)), fair="Use other data.")
    learned = replace(comparison, text=text)
    verdict, fair = verdicts(learned)
    assert verdict.startswith("mine is better than base by BLEU, on lines of which 400 of 1,000 are in a training text")
    assert fair == text.fair
    assert fair in text_of(learned) and ComparisonReport(learned).as_json()["verdicts"] == [verdict, fair]
    few = replace(comparison, text=replace(comparison.text, seen=frozenset(range(3))))
    assert [*verdicts(few)] == ["mine is better than base by BLEU."]


def of_groups(n: int, difference: Difference) -> Comparison:
    """Two groups of n systems, compared by BLEU."""
    groups = tuple(Group(name, (System(name, ("x",)),) * n) for name in ("plain", "better"))
    entries = (Entry(groups[0], score(30.0, 0.3)), Entry(groups[1], score(31.0, 0.4), difference))
    return replace(of([], ("plain", "better")), groups=groups, results=(MetricResult(BLEU, entries),))


def test_comparison_text_of_groups_has_errors_and_advice() -> None:
    over_seeds = replace(
        difference(1.0, 0.2), seed_error=0.25, degrees_of_freedom=math.inf, advice="more runs would help most: much"
    )
    text = text_of(of_groups(3, over_seeds))
    for part in (
        "better (3)  31.00  30.00 to 32.00  0.40  +1.00", "95 % intervals of scores: bootstrap",
        "  better: standard error of the difference 0.50 over lines, 0.25 over seeds; more runs",
        "t test over seeds and lines",
    ):  # fmt: skip
        assert part in text
    assert "randomization" not in text
    without_p = replace(over_seeds, p=None, p_holm=None, degrees_of_freedom=None, advice=None)
    text = text_of(of_groups(3, without_p))
    assert "0.50 over lines, 0.25 over seeds\n" in text
    assert "p: " not in text and " is " not in text.partition("95 % intervals: ")[0].replace("(lower is", "")


def test_paper_table_marks_best_and_significant_scores() -> None:
    results: list[tuple[Metric, list[Difference | None]]] = [
        (BLEU, [None, difference(1.1, 0.01, 0.03), difference(2.0, 0.03, 0.06)]),
        (TER, [None, difference(1.1, 0.01, 0.02), difference(2.0, None)]),
    ]
    comparison = of(results, ("base", "a_1", "b"))
    table = ComparisonReport(comparison).as_table()
    assert table.header == ("", "BLEU", "TER (lower is better)")
    assert [str(row[0]) for row in table.rows] == ["base", "a_1", "b"]
    assert [(cell.is_best, cell.is_significant) for row in table.rows for cell in row if isinstance(cell, Cell)] == [
        (False, False), (True, False), (False, True), (False, True), (True, False), (False, False),
    ]  # fmt: skip
    latex = render("latex", [table], None)
    assert r"a\_1 & 31.00$^{\dagger}$ & 31.00$^{\dagger}$ \\" in latex and r"b & \textbf{32.00} & 32.00 \\" in latex
    assert ". BLEU\\textbar{}\\allowbreak{}nrefs:1. TER" in latex and "corrected for 2 comparisons" in latex
    assert latex.startswith("% note: these tests know nothing\n")
    values = [record["value"] for record in table.records]
    assert values == [30, 31, 32] * 2 and render("csv", [table], None).count("\n") == 6


def test_paper_table_of_groups_has_deviations_and_no_test_without_p() -> None:
    table = ComparisonReport(of_groups(2, difference(1.0, None))).as_table()
    assert table.rows[1] == ("better (2)", Cell("31.00 ± 0.40", is_best=True))
    assert "±: standard deviation over seeds" in table.notes and not any("†" in note for note in table.notes)


def test_table_escapes_control_characters_of_names() -> None:
    text = text_of(of([(BLEU, [None, difference(-10.5, 0.00001)])], ("\x1b[31m", "b")))
    assert "<0.0001" in text and "\x1b" not in text and "\\x1b[31m" in text


def test_agreement_follows_published_thresholds() -> None:
    assert [agreement(BLEU, value) for value in (0.0, -1.05, 1.06, -2.33, 2.34)] == [
        "under 65 %", "under 65 %", "65 to 80 %", "65 to 80 %", "over 80 %",
    ]  # fmt: skip
    assert [agreement(CHRF, value) for value in (0.75, 0.76, 1.63)] == ["under 65 %", "65 to 80 %", "over 80 %"]
    assert [agreement(COMET, value) for value in (0.0025, 0.0026, 0.0056)] == ["under 65 %", "65 to 80 %", "over 80 %"]
    assert agreement(TER, 1.0) is agreement(replace(CHRF, name="chrf++"), 1.0) is None
    assert agreement(replace(COMET, signature="another"), 1.0) is None


def test_json_has_results_without_text_lines() -> None:
    comparison = of(
        [(BLEU, [None, replace(difference(1.5, 0.01, 0.02), degrees_of_freedom=math.inf)])], ("base", "mine")
    )
    told = json.loads(render("json", [], ComparisonReport(comparison).as_json()), parse_constant=pytest.fail)
    system = {"run": None, "step": None, "weights": None, "search": None, "precision": None}
    assert list(told.items()) == [
        ("text", "test"), ("lines", 1000), ("languages", ["de", "en"]), ("baseline", "base"),
        ("groups", [{"name": name, "systems": [{"name": name, **system}]} for name in ("base", "mine")]),
        ("results", [{
            "metric": "bleu", "signature": "BLEU|nrefs:1", "higher_is_better": True,
            "scores": [
                {"group": "base", "value": 30, "interval": [29, 31], "by_system": [30], "seed_deviation": None},
                {"group": "mine", "value": 31, "interval": [30, 32], "by_system": [31], "seed_deviation": None},
            ],
            "differences": [
                {
                    "group": "mine", "value": 1.5, "interval": [0.5, 2.5], "p": 0.01, "p_holm": 0.02, "line_error": 0.5,
                    "seed_error": None, "degrees_of_freedom": None, "advice": None, "people_agree": "65 to 80 %",
                }
            ],
        }]),
        ("trials", 10_000), ("seed", 12345), ("notes", ["these tests know nothing"]),
        ("verdicts", ["mine is better than base by BLEU."]),
    ]  # fmt: skip
