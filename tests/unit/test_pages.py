"""HTML pages and charts."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.pages import (
    document,
    escaped,
    escaped_sentence,
    histogram,
    interval_bar,
    language_attributes,
    line_chart,
    round_numbers,
)
from parsed_page import ParsedPage


def test_policy_allows_only_the_script_of_the_page() -> None:
    script = "show('<b>')"
    page = document("A < B", "p {}", ["<p>text</p>"], script)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}';" in page
    assert f"<script>{script}</script>" in page
    without = document("A < B", "p {}", ["<p>text</p>"])
    assert "script-src 'none'" in without and "<script>" not in without
    assert re.search(r"<title>A &lt; B</title>\n<style>.*p \{}</style>", without, re.DOTALL)
    assert ParsedPage(without).text.split() == ["A", "<", "B", "A", "<", "B", "text"]


def test_html_and_invisible_characters_are_escaped() -> None:
    assert escaped("a\u200b<b>\n") == "a\\u200b&lt;b&gt;\\n"
    assert escaped("a\nb", keep_lines=True) == "a\nb"
    assert escaped_sentence("\u202e<i>می\u200cخواهم") == "\\u202e&lt;i&gt;می\u200cخواهم"
    assert "(no text)" in escaped_sentence("")


def test_language_attributes_are_escaped() -> None:
    found = [language_attributes(language) for language in ("pt_BR", '"><script>', None)]
    assert found == [' lang="pt-BR" dir="auto"', ' lang="&quot;&gt;&lt;script&gt;" dir="auto"', ' dir="auto"']


# --- Charts: where things are drawn, and odd numbers ---


NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


def test_histogram_draws_each_layer() -> None:
    drawn = histogram("a & b", {"one": [0, 0, 4, 0, 0, 0], "two": [0, 0, 0, 8, 0, 0]}, {2: "two", 5: "five"}, "lines")
    page = ParsedPage(drawn)
    assert "a & b" in page.text and "highest bar: 8 lines" in page.text
    assert "two" in page.text and "five" in page.text
    paths = {attributes.get("class"): attributes["d"] for tag, attributes in page.seen if tag == "path"}
    one, two = paths["one"], paths["two"]
    assert one and two and one.count("h") == two.count("h") == 4  # the bins in use, and one on either side
    assert one.startswith("M0 168V168.0h85.00V93.0h") and "V18.0h" in two


@settings(max_examples=30)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5))
def test_points_stay_within_chart(points: list[tuple[float, float]]) -> None:
    drawn = line_chart("t", [("g0", points)])
    ParsedPage(drawn)
    width, height = map(int, re.findall(r'viewBox="0 0 (\d+) (\d+)"', drawn)[0])
    dots = " ".join(re.findall(r'class="[^"]*dots[^"]*" d="([^"]+)"', drawn))
    places = [(float(x), float(y)) for x, y in re.findall(r"M([-\d.]+) ([-\d.]+)h0", dots)]
    assert places and all(0 <= x <= width and 0 <= y <= height for x, y in places)


@pytest.mark.parametrize("low, high, expected", [
    (0.0, 100.0, [0, 20, 40, 60, 80, 100]), (1.0, 1.0, [1.0]), (61.2, 68.9, [60, 62, 64, 66, 68]),
    (-0.2, 0.4, [-0.2, 0.0, 0.2, 0.4]), (0.0, 0.3, [0, 0.1, 0.2, 0.3]),
])  # fmt: skip
def test_round_numbers_cover_range(low: float, high: float, expected: list[float]) -> None:
    assert round_numbers(low, high) == expected


def test_interval_bar_is_scaled_to_reach() -> None:
    assert 'd="M60.0 8H118.0"' in interval_bar(1.0, 0.0, 2.0, 2.0) and 'd="M89.0 8h0"' in interval_bar(1, 0, 2, 2)
    ParsedPage(interval_bar(0.0, 0.0, 0.0, 0.0))
