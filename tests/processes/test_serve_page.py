"""Tests of the page of `nmt serve` in a browser, with a fake server."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import CHROMIUM, chromium
from translation_page import CTRL, MESSAGE, SHIFT, SHOWN, Page
from translation_server import Phrase, Stand, serve_translations

pytestmark = [pytest.mark.exhaustive, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")]

AXE = os.environ.get("AXE_CORE")
"""Path of the file axe.min.js of the npm package axe-core."""

INFO: dict[str, Any] = {
    "directions": [
        {"source": "de", "target": "en", "via": []},
        {"source": "en", "target": "de", "via": []},
        {"source": "en", "target": "ar", "via": []},
        {"source": "de", "target": "ar", "via": ["en"]},
    ],
    "languages": [
        {"code": "ar", "name": "Arabic"},
        {"code": "de", "name": "German"},
        {"code": "en", "name": "English"},
    ],
    "limits": {"characters": 200, "items": 5, "bytes": 65536, "file_bytes": 1000},
    "features": {"alignment": True, "terms": True, "alternatives": 2},
    "key_required": False,
    "file_formats": [".txt", ".srt"],
}
HORSE = "Das 🐴 sieht Öl."
PHRASES = {
    HORSE: Phrase("The 🐴 sees oil.", ("A 🐴 sees oil.", "The 🐴 looks at oil."), ((0, 0), (1, 1), (2, 2), (3, 3))),
    "Nichts.": Phrase("Nothing.", ("Not a thing.",)),
    "Guten Tag": Phrase("مرحبا بكم", links=((0, 0), (1, 1))),
}
LANGUAGE = "document.getElementById('source-language').selectedOptions[0].textContent"
OPENED = "for (const each of document.querySelectorAll('details')) each.open = true; "
"""Opens what is folded."""
IDLE = "document.getElementById('result').ariaBusy === 'false'"
MARKED = "[...document.querySelectorAll('.word.on')].map(word => word.textContent)"
CHOICES = "[...document.querySelectorAll('#choices button')].map(button => button.textContent)"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("profile")) as tab:
        tab.size(1000, 800)
        yield Page(tab)


@pytest.fixture
def resized(page: Page) -> Iterator[None]:
    """Lets a test change the size of the window."""
    yield
    page.tab.size(1000, 800)


@pytest.fixture
def stand(page: Page) -> Iterator[Stand]:
    with serve_translations(Stand(INFO | {}, dict(PHRASES))) as opened:
        page.open(opened.url)
        yield opened


def test_text_is_translated_after_pause_in_typing(page: Page, stand: Stand) -> None:
    assert page.tab.evaluate("document.activeElement.id") == "text"
    for letter in HORSE:
        page.tab.call("Input.insertText", text=letter)
    page.shows("The 🐴 sees oil.")
    assert stand.questions == [{"text": [HORSE], "source": "auto", "target": "en", "n_best": 3, "alignment": True}], (
        "one request, not one per letter"
    )
    assert page.get("count", "textContent") == f"{len(HORSE)} / 200 characters", "counts code points, not UTF-16"
    shown = page.tab.evaluate(f"[{LANGUAGE}, document.getElementById('text').closest('[lang]').lang, result.lang]")
    assert shown == ["German (detected)", "de", "en"]
    assert not any("Das" in path or "?" in path for path in stand.paths), "no URL contains the text"
    page.write("")
    page.shows()
    assert page.get("copy", "disabled") and page.get("alternatives", "hidden") and len(stand.questions) == 1
    assert page.tab.complaints == []


def test_languages_of_several_lines_are_shown(page: Page, stand: Stand) -> None:
    stand.languages["Nothing."] = "en"
    page.translate(f"{HORSE}\nNothing.", "The 🐴 sees oil.", "NOTHING.")
    assert page.tab.evaluate(LANGUAGE) == "German, English (detected)" and page.get("swap", "disabled")


def test_line_breaks_are_kept(page: Page, stand: Stand) -> None:
    page.translate(f"\n{HORSE}\n \nNichts.", "", "The 🐴 sees oil.", "", "Nothing.")
    assert stand.questions[-1]["text"] == [HORSE, "Nichts."]


def test_stale_answer_is_discarded(page: Page, stand: Stand) -> None:
    stand.held["alt"] = threading.Event()
    page.tab.evaluate(
        "window.signals = []; const real = fetch; window.fetch = (url, options) => { signals.push(options.signal); "
        f"return real(url, options); }}; window.seen = []; "
        f"new MutationObserver(() => seen.push(...{SHOWN})).observe(result, {{childList: true, subtree: true}})"
    )
    page.write("alt")
    page.wait("window.signals.length === 1")
    assert page.get("result", "ariaBusy") == "true"
    page.write("neu")
    assert page.tab.evaluate("signals[0].aborted"), "the old request is aborted before the new one is sent"
    page.shows("NEU")
    stand.held["alt"].set()
    page.translate("zuletzt", "ZULETZT")
    assert page.tab.evaluate("seen") == ["NEU", "ZULETZT"]


@pytest.mark.usefixtures("stand")
def test_linked_words_are_highlighted(page: Page) -> None:
    page.translate(f"Nichts.\n{HORSE}", "Nothing.", "The 🐴 sees oil.")
    assert page.tab.evaluate("document.getElementById('mirror').textContent").startswith(f"Nichts.\n{HORSE}\n")
    for hovered, marked in (
        ("#mirror .word:nth-of-type(3)", ["sieht", "sees"]),
        ("#result .word:nth-of-type(4)", ["Öl.", "oil."]),
        ("h1", []),
    ):
        page.hover(hovered)
        assert page.tab.evaluate(MARKED) == marked
    page.tab.evaluate("document.getElementById('text').setSelectionRange(12, 12)")  # before the emoji
    page.press("ArrowRight", code=39)
    page.wait(f"{MARKED}.join() === '🐴,🐴'")
    page.write(f"Nichts. {HORSE}")
    assert page.tab.evaluate("[...document.querySelectorAll('#mirror .word')].length") == 0, "old links are removed"


@pytest.mark.usefixtures("stand")
def test_highlights_align_with_text(page: Page) -> None:
    page.write(f"{HORSE} {HORSE} {HORSE} {HORSE} {HORSE} {HORSE}\n\n{HORSE}")
    page.wait("document.querySelectorAll('.word').length > 20")
    box = "(({x, y, width, height}) => [x, y, width, height])(document.getElementById('%s').getBoundingClientRect())"
    style = "(s => ['font', 'padding', 'lineHeight', 'whiteSpace', 'wordBreak', 'overflowWrap', 'letterSpacing']" \
        ".map(name => s[name]))(getComputedStyle(document.getElementById('%s')))"  # fmt: skip
    for looks in (box, style):
        assert page.tab.evaluate(looks % "mirror") == page.tab.evaluate(looks % "text")
    assert page.get("text", "scrollHeight") <= page.get("text", "clientHeight"), "the text area does not scroll"


def test_alternative_replaces_line(page: Page, stand: Stand) -> None:
    page.translate(f"{HORSE}\nNichts.", "The 🐴 sees oil.", "Nothing.")
    assert page.tab.evaluate(CHOICES) == ["A 🐴 sees oil.", "The 🐴 looks at oil.", "Not a thing."]
    page.tab.evaluate("document.querySelector('#choices button').focus()")
    page.press("Enter", code=13)
    page.click("#choices button")
    page.shows("A 🐴 sees oil.", "Nothing.")
    assert page.tab.evaluate(CHOICES)[0] == "The 🐴 sees oil."
    assert page.tab.evaluate("document.activeElement.textContent") == "The 🐴 sees oil.", "the focus stays on the line"
    assert page.tab.evaluate("document.querySelectorAll('#result .word').length") == 0, "its links are removed"
    page.click("#choices button")
    page.shows("The 🐴 sees oil.", "Nothing.")
    assert page.tab.evaluate("document.querySelectorAll('#result .word').length") == 4
    assert len(stand.questions) == 1
    stand.held["neu"] = threading.Event()
    page.write("neu")
    page.click("#choices button")
    assert page.get("mirror", "textContent") == "neu\n", "choosing an alternative of an old text has no effect"


def test_lost_placeholder_is_named_until_an_alternative_has_it(page: Page, stand: Stand) -> None:
    stand.phrases["Hallo {a}, {b}!"] = Phrase("Hello {b}!", ("Hello {a}, {b}!",), lost=("{a}",))
    page.translate("Hallo {a}, {b}!", "Hello {b}!")
    page.wait(f"({MESSAGE} || '').includes('{{a}}')")
    page.tab.evaluate("document.querySelector('#choices button').click()")
    page.wait(f"!({MESSAGE})")
    page.translate("Nichts.", "Nothing.")
    assert not page.tab.evaluate(MESSAGE)


def test_language_menus_and_swap(page: Page, stand: Stand) -> None:
    assert page.get("swap", "disabled"), "swapping needs a detected source language"
    page.translate("Guten Tag", "مرحبا بكم")
    page.choose("target-language", "ar")
    page.wait("document.getElementById('route').textContent === 'by way of English'")
    page.wait(IDLE)
    assert page.tab.evaluate("getComputedStyle(document.querySelector('#result > span')).direction") == "rtl"
    assert page.get("swap", "disabled"), "swapping needs a model for the opposite direction"
    page.choose("target-language", "en")
    page.choose("source-language", "de")
    page.wait(IDLE)
    stand.phrases["مرحبا بكم"] = Phrase("Guten Tag")
    page.press("S", CTRL | SHIFT, 83)
    page.shows("Guten Tag")
    assert page.tab.evaluate("getComputedStyle(document.getElementById('text')).direction") == "rtl"
    values = [page.get(name, "value") for name in ("text", "source-language", "target-language")]
    assert values == ["مرحبا بكم", "en", "de"]
    assert (stand.questions[-1]["source"], stand.questions[-1]["target"]) == ("en", "de")


def test_terms_are_sent_with_text(page: Page, stand: Stand) -> None:
    page.click("#terms summary")
    for source, target in (("Öl", "petrol"), ("Wein", "")):
        page.click("#add-term")
        page.tab.call("Input.insertText", text=source)
        page.tab.evaluate("document.activeElement.closest('tr').querySelectorAll('input')[1].focus()")
        page.tab.call("Input.insertText", text=target)
    page.translate(HORSE, "The 🐴 sees oil.")
    assert stand.questions[-1]["terms"] == {"Öl": "petrol"}, "a term without a translation is ignored"
    page.click("#term-rows button")
    page.wait(IDLE)
    assert "terms" not in stand.questions[-1] and len(stand.questions) == 2


@pytest.mark.usefixtures("stand")
def test_copy_button_and_ctrl_enter(page: Page) -> None:
    page.tab.evaluate("navigator.clipboard.writeText = async text => { window.copied = text }")
    page.write("Nichts.")
    page.press("Enter", CTRL, 13)
    page.shows("Nothing.")
    page.press("Enter", CTRL | SHIFT, 13)
    page.wait("window.copied === 'Nothing.'")
    page.wait("document.getElementById('copied').textContent === 'Copied'")
    assert page.get("text", "value") == "Nichts.", "no line break is inserted"


def test_oversized_input_is_not_sent(page: Page, stand: Stand) -> None:
    page.write("ä" * 201)
    page.wait(f"({MESSAGE} || '').startsWith('The text exceeds the limit of 200 characters by 1: ')")
    page.write("a\n" * 6)
    page.wait(f"({MESSAGE} || '').startsWith('The text has 6 lines, but this server accepts 5 at once.')")
    page.translate("Nichts.", "Nothing.")
    assert page.tab.evaluate(MESSAGE) is False and len(stand.questions) == 1


FAILURES: list[tuple[int, dict[str, str], str, str, bool]] = [
    (400, {}, "no such direction", "The server cannot translate this. It reports: no such direction", False),
    (
        400, {}, "text 1 is probably in no language of this server; set source",
        "The language of the text was not recognized: select it above, under “From”. It reports: text 1 is probably in "
        "no language of this server; set source", False,
    ),
    (413, {}, "", "This is too large for the server. Translate it in parts.", False),
    (429, {"Retry-After": "30"}, "", "You have sent too many requests to this server. Retrying in 30 s.", True),
    (503, {}, "", "The server is busy. Retrying in 5 s.", True),
    (504, {}, "", "The translation took too long. Try again, or translate less at once.", True),
    (500, {}, "", "The server failed. Try again, and contact its operator if the problem persists.", True),
]  # fmt: skip
"""Cases: status, headers, error, message on the page, and whether the page offers a retry."""


def test_errors_are_explained(page: Page, stand: Stand) -> None:
    for status, headers, said, told, can_retry in FAILURES:
        page.translate("Nichts.", "Nothing.")
        stand.failures.append((status, headers, said))
        page.write("Nichts")
        page.press("Enter", CTRL, 13)
        page.wait(MESSAGE)
        assert page.tab.evaluate(MESSAGE) == told and page.tab.evaluate(SHOWN) == []
        assert page.get("retry", "checkVisibility()") is can_retry
        if can_retry:
            page.click("#retry")
            page.shows("NICHTS")
            assert page.tab.evaluate(MESSAGE) is False


def test_retry_after_is_respected(page: Page, stand: Stand) -> None:
    stand.failures.append((503, {"Retry-After": "1"}, "busy"))
    page.write("Nichts")
    page.wait(MESSAGE)
    at = page.tab.evaluate("performance.now()")
    page.translate("Nichts.", "Nothing.")
    assert len(stand.questions) == 2 and page.tab.evaluate("performance.now()") - at > 800


def test_unreachable_server_is_reported(page: Page) -> None:
    with serve_translations(Stand(INFO)) as stand:
        stand.failures.append((503, {"Retry-After": "1"}, "starting"))
        page.open(stand.url)
        page.wait("document.getElementById('count').textContent")  # when the server has started
        page.tab.call("Network.enable")
        speed = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        page.tab.call("Network.emulateNetworkConditions", offline=True, **speed)
        page.write("Nichts.")
        page.wait(f"({MESSAGE} || '').startsWith('The server does not answer.')")
        page.tab.call("Network.emulateNetworkConditions", offline=False, **speed)
        page.click("#retry")
        page.shows("NICHTS.")


def test_api_key_is_requested_and_stored(page: Page) -> None:
    with serve_translations(Stand(INFO, dict(PHRASES), key="k-1")) as stand:
        page.open(stand.url)
        assert page.get("key-form", "hidden")
        page.write("Nichts.")
        page.wait(f"({MESSAGE} || '').includes('enter it above. It reports: the key is not known')")
        page.tab.evaluate("document.getElementById('key').focus()")
        page.tab.call("Input.insertText", text="k-1")
        page.click("#key-form button")
        page.shows("Nothing.")
        kept = page.tab.evaluate("[localStorage.length, {...sessionStorage}, document.cookie]")
        assert kept == [0, {"api-key": "k-1"}, ""], "only the key is stored, not the text"
        assert not any("k-1" in path for path in stand.paths)
        page.tab.evaluate("sessionStorage.clear()")


def test_uploaded_file_is_translated_and_downloaded(page: Page, stand: Stand, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Nichts.\n", encoding="utf-8")
    (tmp_path / "large.txt").write_bytes(b"x" * 1001)
    page.tab.evaluate(OPENED)
    state = "document.getElementById('file-state').textContent"

    def send(name: str) -> None:
        document = page.tab.call("DOM.getDocument")["root"]["nodeId"]
        field = page.tab.call("DOM.querySelector", nodeId=document, selector="#file")["nodeId"]
        page.tab.call("DOM.setFileInputFiles", nodeId=field, files=[str(tmp_path / name)])
        page.click("#send-file")

    assert page.get("file", "accept") == ".txt,.srt"
    page.click("#send-file")
    page.wait(f"{state} === 'Choose a file first.'")
    send("large.txt")
    page.wait(f"{state}.startsWith('The file is too large')")
    for status, headers, said, told in (
        (400, {}, "not a text", "The server cannot translate this. It reports: not a text"),
        (429, {"Retry-After": "7"}, "", "You have sent too many requests to this server. Try again in 7 s."),
    ):
        stand.failures.append((status, headers, said))
        send("letter.txt")
        page.wait(f"{state} === '{told}'")
    assert not page.get("send-file", "disabled") and page.get("file-progress", "hidden")
    page.tab.evaluate("document.getElementById('key').value = 'k-2'")
    send("letter.txt")
    page.wait(f"{state} === 'The file has been translated.'")
    page.tab.evaluate("document.getElementById('key').value = ''")
    assert stand.file_keys[-2:] == [None, "Bearer k-2"]
    assert stand.forms[-1] == {"file": b"Nichts.\n", "source": b"auto", "target": b"en"}
    assert page.get("download", "textContent") == "Download letter.en.txt"
    assert page.get("download", "href") == f"{stand.url}/download_file/1", "the host is that of the page"
    assert page.tab.evaluate("fetch(document.getElementById('download').href).then(r => r.text())") == "NICHTS.\n"


@pytest.mark.usefixtures("stand")
def test_keyboard_focus_is_visible(page: Page) -> None:
    page.translate("Nichts.", "Nothing.")
    page.tab.evaluate(f"{OPENED} document.getElementById('source-language').focus()")
    expected = page.tab.evaluate(
        "[...document.querySelectorAll('button, select, input, textarea, summary, a')]"
        ".filter(each => each.checkVisibility() && !each.disabled).map(each => each.id || each.textContent)"
    )
    for name in expected:
        assert page.tab.evaluate("document.activeElement.id || document.activeElement.textContent") == name
        page.press("Tab", code=9)
        assert (
            name == expected[-1]
            or page.tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        )
    assert len(expected) >= 12


@pytest.mark.skipif(AXE is None, reason="AXE_CORE does not name the axe.min.js of the npm package axe-core")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1100, 320])
@pytest.mark.usefixtures("stand", "resized")
def test_axe_finds_no_accessibility_violations(page: Page, width: int, dark: bool) -> None:
    page.tab.size(width, 900, dark)
    page.translate(f"{HORSE}\nNichts.", "The 🐴 sees oil.", "Nothing.")
    page.hover("#result .word")
    page.tab.evaluate(
        f"{OPENED} for (const each of document.querySelectorAll('main [hidden]')) each.hidden = false; "
        "document.querySelector('#add-term').click()"
    )
    page.tab.evaluate(Path(str(AXE)).read_text(encoding="utf-8"))
    rules = "{rules: {'target-size': {enabled: true}}}"
    found = page.tab.evaluate(f"axe.run({rules}).then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))")
    assert found == []


@pytest.mark.usefixtures("stand", "resized")
def test_page_adapts_to_narrow_windows_and_reduced_motion(page: Page) -> None:
    page.tab.size(320, 800)
    page.write("Donaudampfschifffahrtsgesellschaftskapitänsmützenfabrik")
    page.wait(f"{SHOWN}.length")
    page.click("#add-term")
    page.tab.evaluate(OPENED)
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 320
    small = page.tab.evaluate(
        "[...document.querySelectorAll('button, select, input, summary')].filter(each => each.checkVisibility())"
        ".filter(each => each.getBoundingClientRect().height < 24).map(each => each.outerHTML)"
    )
    assert small == []
    motion = "getComputedStyle(document.getElementById('result'), '::after').animationName"
    page.tab.evaluate("document.getElementById('result').ariaBusy = 'true'")
    assert page.tab.evaluate(motion) == "slide"
    page.tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    assert page.tab.evaluate(motion) == "none"
