"""The page of a comparison in a browser, with and without its script."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from browser import CHROMIUM, Tab, chromium
from comparisons import group_of, systems, text_of
from nmt.evaluate.compare import compare
from nmt.evaluate.compare.page import page
from sentences import sentence_pairs

pytestmark = [pytest.mark.exhaustive, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")]

READY = "!document.getElementById('controls').hidden"
SHOWN = "[...document.querySelectorAll('#list > li')].map(line => line.id)"
N = 160
SPECIAL = {  # source, reference, and the translations of a and b
    5: ["Umgangssprache", "猫坐在垫子上。", "狗坐在垫子上。", "猫坐在椅子上。"],
    6: ["Umgangssprache", "القطة على السجادة", "القطة على الكرسي", "الكلب على السجادة"],
    7: ["<script>hacked = 1</script>", "</script><script>hacked = 2</script>", "<img src=x onerror='hacked = 3'>",
        "<!--<script>hacked = 4</script> \u2028 \u202e"],
}  # fmt: skip


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    pairs = sentence_pairs(N)
    translations = [[*group.systems[0].translations] for group in systems([pair[1] for pair in pairs], 2)]
    for row, (source, reference, *own) in SPECIAL.items():
        pairs[row] = source, reference
        for lines, line in zip(translations, own, strict=True):
            lines[row] = line
    translations[1][9] = translations[0][9]
    groups = [group_of(name, lines) for name, lines in zip(("a", "b"), translations, strict=True)]
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page(compare(text_of(pairs), groups, trials=10)), encoding="utf-8")
    return path.as_uri()


def set_to(tab: Tab, control: str, value: str) -> None:
    """Set a control as a user would."""
    tab.evaluate(
        f"(c => {{ c.type === 'checkbox' ? c.checked = true : c.value = {value!r}; "
        f"c.dispatchEvent(new Event('input')) }})(document.getElementById({control!r}))"
    )


def test_page_without_script_has_tables_and_charts(tab: Tab, url: str) -> None:
    tab.open(url, script=False)
    assert tab.evaluate("document.querySelectorAll('svg[role=img][aria-label]').length") == 1
    assert tab.evaluate(f"[...{SHOWN}, document.getElementById('controls').checkVisibility()]") == [False]
    assert "JavaScript" in tab.evaluate("document.getElementById('status').textContent")
    assert tab.evaluate("typeof hacked") == "undefined"


def test_differing_words_are_marked_and_text_has_its_direction(tab: Tab, url: str) -> None:
    tab.open(f"{url}#line-7", ready=READY)
    directions = "[...document.querySelectorAll('#line-7 dd')].map(entry => getComputedStyle(entry).direction)"
    assert tab.evaluate(directions) == ["ltr", "rtl", "rtl", "rtl"]
    tab.open(f"{url}#line-6", ready=READY)
    entries = tab.evaluate("[...document.querySelectorAll('#line-6 dd')].map(entry => entry.innerHTML)")
    assert entries[1:] == [
        "猫坐在垫子上。", "<mark>狗</mark>坐在垫子上。", "<u>猫</u>坐在<mark><u>椅</u></mark>子上。",
    ]  # fmt: skip


def test_corpus_text_is_not_executed(tab: Tab, url: str) -> None:
    tab.open(f"{url}#line-8", ready=READY)
    shown = tab.evaluate("[...document.querySelectorAll('#line-8 dd')].map(entry => entry.textContent)")
    assert shown == [text.replace("\u2028", "\\u2028").replace("\u202e", "\\u202e") for text in SPECIAL[7]]
    assert (tab.evaluate("typeof hacked"), tab.complaints) == ("undefined", [])


def test_content_security_policy_blocks_scripts(tab: Tab, url: str) -> None:
    tab.open(url, ready=READY)
    tab.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'hacked = 5'})); "
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"hacked = 6\">')"
    )
    assert tab.evaluate("new Promise(done => setTimeout(() => done(typeof hacked), 50))") == "undefined"
    assert any("Content Security Policy" in complaint for complaint in tab.complaints)


def test_page_searches_sorts_and_paginates(tab: Tab, url: str) -> None:
    tab.open(url, ready=READY)
    assert len(tab.evaluate(SHOWN)) == 50 and tab.evaluate("document.getElementById('previous').disabled")
    tab.evaluate("document.getElementById('next').click()")
    assert tab.evaluate("document.getElementById('page').textContent") == "page 2 of 4"
    set_to(tab, "search", "umgangsSPRACHE")
    assert {*tab.evaluate(SHOWN)} == {"line-6", "line-7"}
    assert tab.evaluate("document.getElementById('status').textContent") == "2 of 160 lines"
    assert tab.evaluate("location.hash") == "#search=umgangsSPRACHE"
    set_to(tab, "search", "")
    set_to(tab, "order", "loss")
    gains = tab.evaluate("[...document.querySelectorAll('#list b')].map(b => b.textContent).filter(Boolean)")
    values = [float(gain.replace("−", "-")) for gain in gains]
    assert values == sorted(values) and values[0] < 0
    set_to(tab, "order", "line")
    set_to(tab, "differ", "")
    assert "line-9" in tab.evaluate(SHOWN) and "line-10" not in tab.evaluate(SHOWN)
    assert tab.evaluate("location.hash") == "#order=line&differ=1"


def test_url_fragment_restores_line_or_filter(tab: Tab, url: str) -> None:
    tab.open(f"{url}#order=reference&differ=1&search=hund", ready=READY)
    values = "['order', 'search'].map(id => document.getElementById(id).value)"
    assert tab.evaluate(f"[...{values}, document.getElementById('differ').checked]") == ["reference", "hund", True]
    tab.evaluate("location.hash = '#line-10'")
    tab.wait("document.querySelector('.target')")
    target = tab.evaluate("[document.querySelector('.target').id, document.getElementById('search').value]")
    assert target == ["line-10", ""], "the line is not among those searched for"
    top, bottom = tab.evaluate(
        "(box => [box.top, box.bottom])(document.getElementById('line-10').getBoundingClientRect())"
    )
    assert 0 <= top < bottom <= tab.evaluate("innerHeight")
    tab.evaluate("location.hash = '#scores'")
    assert tab.evaluate("document.querySelectorAll('#list > li').length") == 50


@pytest.mark.parametrize("width", [1200, 390])
def test_page_fits_window_width(tab: Tab, url: str, width: int) -> None:
    tab.size(width, 900)
    tab.open(url, ready=READY)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
