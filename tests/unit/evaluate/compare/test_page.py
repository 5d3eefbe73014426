"""The page of a comparison: content, self-containment and escaping."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from comparisons import comparison, group_of, systems, text_of
from logged_run import make_run, valid
from nmt.evaluate.comet import SegmentScores
from nmt.evaluate.compare import Comparison, compare
from nmt.evaluate.compare.page import page
from nmt.evaluate.compare.systems import Group, System
from nmt.evaluate.metrics import METRIC_FACTS, MetricName
from nmt.pages import asset
from parsed_page import ParsedPage
from sentences import sentence_pairs

EVIL = "</script><script>alert('1')</script>&amp;\"\u202e\u2028<!--"


def data_of(text: str) -> dict[str, Any]:
    """Return the data that the script reads."""
    [packed] = re.findall(r'<script type="application/gzip" id="data">([A-Za-z0-9+/=]*)</script>', text)
    return dict(json.loads(gzip.decompress(b64decode(packed))))


def test_page_has_scores_verdicts_and_notes() -> None:
    found = comparison()
    parsed = ParsedPage(page(found))
    for result in found.results:
        assert result.metric.signature in parsed.text
        for score in (entry.score for entry in result.entries):
            assert f"{score.value:.2f}" in parsed.text
    assert "b is better than a by BLEU" in parsed.text and "neither in a training text" not in parsed.text
    charts = [attributes for tag, attributes in parsed.seen if tag == "svg" and attributes.get("aria-label")]
    assert len(charts) == 1, "a histogram"
    assert all(note in parsed.text for note in found.notes)


def test_page_is_self_contained() -> None:
    text = page(comparison())
    assert not re.search(r"https?:|url\(|@import|\bon\w+=|src=", text.partition("<body>")[2].partition("<script")[0])
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _ in ParsedPage(text).seen}
    assert "</script" not in asset("nmt.evaluate.compare", "page.js")
    assert not re.search(r"innerHTML|insertAdjacentHTML|outerHTML|document\.write|eval\(",
                         asset("nmt.evaluate.compare", "page.js"))  # fmt: skip


def test_script_data_has_all_lines() -> None:
    found = comparison(40)
    data = data_of(page(found))
    assert (data["names"], data["baseline"], data["languages"]) == (["a", "b", "c"], 0, ["de", "en"])
    assert data["references"] == [*found.text.references] and data["sources"] == [*(found.text.sources or ())]
    assert data["translations"] == [[*group.systems[0].translations] for group in found.groups]
    (metric,) = data["metrics"]
    chrf = next(result for result in found.results if result.metric.name == "chrf")
    assert metric["scores"][1] == pytest.approx(chrf.entries[1].counts[0].line_scores().tolist(), abs=0.006)
    assert metric["higher"] and metric["digits"] == 2


def test_script_data_has_line_scores_of_segment_metrics() -> None:
    pairs = sentence_pairs(4)
    lines = tuple(pair[1] for pair in pairs)
    values = {"a": (0.1, 0.2, 0.3, 0.4), "b": (0.2, 0.2, 0.3, 0.4)}
    comet = {name: SegmentScores(own, "wmt22-comet-da") for name, own in values.items()}
    groups = [Group(name, (System(name, lines, segment_scores={"comet": comet[name]}),)) for name in values]
    text = page(compare(text_of(pairs), groups, trials=10))
    assert [metric["digits"] for metric in data_of(text)["metrics"]] == [2, 4]
    assert data_of(text)["metrics"][1]["scores"] == [[*values["a"]], [*values["b"]]]
    assert '<option value="1">comet</option>' in text


@pytest.mark.parametrize("metric", METRIC_FACTS)
def test_page_shows_line_scores_of_a_single_metric(metric: MetricName) -> None:
    pairs = sentence_pairs(12)
    found = compare(text_of(pairs), systems([pair[1] for pair in pairs], 2), trials=10, metrics=[metric])
    (of_lines,) = data_of(page(found))["metrics"]
    counts = found.results[0].entries[1].counts[0]
    assert of_lines["scores"][1] == pytest.approx(counts.line_scores().tolist(), abs=0.006)
    assert of_lines["higher"] == counts.metric.higher_is_better


def evil_comparison(text: str) -> Comparison:
    pairs = [*sentence_pairs(8), (text, text), (text, text)]
    groups = systems([pair[1] for pair in pairs], 2)
    groups = [group_of(f"{group.name} {text}", [*group.systems[0].translations[:-1], text]) for group in groups]
    return replace(compare(text_of(pairs), groups, trials=10), notes=(text,))


def test_corpus_text_is_escaped_on_page() -> None:
    text = page(evil_comparison(EVIL))
    parsed = ParsedPage(text)
    assert [tag for tag, _ in parsed.seen].count("script") == 2, "the data and the script"
    assert "alert" not in {name for _, attributes in parsed.seen for name in attributes}
    assert parsed.text.count("</script><script>alert('1')</script>") >= 5
    assert "\u202e" not in text and "\u2028" not in text
    assert data_of(text)["references"][-1] == EVIL.replace("\u202e", "\\u202e").replace("\u2028", "\\u2028")


def test_page_of_blank_lines_is_well_formed() -> None:
    ParsedPage(page(compare(text_of([("", ""), ("", "")]), systems(["", ""]), trials=10)))


def test_page_of_run_groups_shows_median_run_and_training(tmp_path: Path) -> None:
    pairs = sentence_pairs(20)
    references = [pair[1] for pair in pairs]
    runs = [make_run(tmp_path / name, [valid(100, 20.0), valid(200, 30.0)]) for name in "abcdef"]
    worst, median, best = ([*references[:n], *["x"] * (20 - n)] for n in (5, 10, 15))
    groups = [
        group_of("plain", best, worst, median, runs=[run.path for run in runs[:3]]),
        group_of("other", worst, best, median, runs=[run.path for run in runs[3:]]),
    ]
    text = page(compare(replace(text_of(pairs), seen=frozenset({3, 5})), groups, trials=50))
    parsed = ParsedPage(text)
    for expected in (
        "No setting differs.", "BLEU on the development set", "the one whose BLEU is the median", "over seeds",
        "source or reference in a training text",
    ):  # fmt: skip
        assert expected in parsed.text, expected
    data = data_of(text)
    assert data["translations"] == [median, median] and data["seen"] == [3, 5]
    assert 'id="seen"' in text
