"""The page of `nmt export --format web` in a browser, with a stand-in for the model."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from browser import CHROMIUM, chromium
from loopback import serving
from nmt.share.web import list_files
from nmt.text.vocabularies import Tokenizers
from tiny_run import tiny_config, tiny_tokenizer
from translation_page import CTRL, MESSAGE, SHIFT, SHOWN, Page
from web_folder import make_folder, make_packages, with_directions

pytestmark = [pytest.mark.exhaustive, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")]

OFFERED = "document.getElementById('loader')?.hidden === false"
READY = "document.getElementById('load-state')?.textContent.startsWith('The translator is ready')"
KEPT = "document.getElementById('load-state')?.textContent.includes('offline')"
FOLDER = "/~user/model/"


class Host(SimpleHTTPRequestHandler):
    """A static host that sends no special headers; files in `cut` break off, and those in `slow` take a while."""

    protocol_version = "HTTP/1.1"
    root: Path
    asked: list[str]
    cut: set[str]
    slow: set[str]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, directory=str(self.root))

    def log_message(self, *_: object) -> None:
        """Be silent."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        name = self.path.removeprefix(FOLDER)
        self.asked.append(name)
        content = source.read()
        if name in self.cut:
            outputfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        for start in range(0, len(content), 20_000):
            outputfile.write(content[start : start + 20_000])
            outputfile.flush()
            time.sleep(0.02 * (name in self.slow))


class Site:
    """The folder on a host that can be stopped."""

    def __init__(self, root: Path) -> None:
        self.folder = root / FOLDER.strip("/")
        self.handler = type("Handler", (Host,), {"root": root, "asked": [], "cut": set(), "slow": set()})
        self._port = 0
        self._serving: Any = None

    def start(self) -> None:
        self._serving = serving(self.handler, self._port)
        self.url = f"{self._serving.__enter__()}{FOLDER}"
        self._port = int(re.findall(r":(\d+)/", self.url)[0])

    def stop(self) -> None:
        if self._serving is not None:
            self._serving.__exit__(None, None, None)
        self._serving = None

    def large(self) -> list[str]:
        """Return the requests for the libraries and the model."""
        return [name for name in self.handler.asked if name.startswith(("lib/", "model/"))]


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_packages(tmp_path / "packages", monkeypatch)


@pytest.fixture
def site(tmp_path: Path, packages: Path) -> Iterator[Site]:
    opened = Site(tmp_path / "root")
    opened.folder.mkdir(parents=True)
    config = with_directions(tiny_config(), "de-en", "en-de", "de-fr")
    tokenizers = Tokenizers(dict.fromkeys(("de", "en", "fr"), tiny_tokenizer()), joint=True)
    make_folder(opened.folder, packages, config, tokenizers)
    opened.start()
    yield opened
    opened.stop()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with chromium(tmp_path / "profile", "--lang=en") as tab:
        tab.size(1000, 800)
        yield Page(tab)


def wait(page: Page, condition: str, seconds: float = 20.0) -> None:
    """Wait until an expression is true in the page, which may be reloaded meanwhile."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if page.tab.evaluate(f"Boolean({condition})"):
                return
        except AssertionError:  # the page is being replaced
            pass
        time.sleep(0.02)
    raise AssertionError(f"{condition}: {page.tab.evaluate('document.body.innerText')}")


def visit(page: Page, site: Site, condition: str = OFFERED) -> None:
    page.tab.call("Page.navigate", url="about:blank")
    page.tab.call("Page.navigate", url=site.url)
    wait(page, f"location.href === {site.url!r} && {condition}")


def test_visitor_loads_translates_and_returns_without_network(page: Page, site: Site) -> None:
    site.handler.slow.add("model/onnx/encoder_model.onnx")
    visit(page, site)
    assert page.tab.evaluate("crossOriginIsolated"), "reloaded by way of the service worker"
    assert site.large() == [], "nothing large loads before the visitor asks for it"
    sizes = sum(path.stat().st_size for part in ("lib", "model") for path in (site.folder / part).rglob("*.*"))
    assert page.get("load", "textContent") == f"Load the translator ({sizes / 1e6:.1f} MB)"
    page.click("#load")
    wait(page, "/^0\\.\\d of 0\\.\\d MB$/.test(document.getElementById('loaded').textContent)")
    assert 0 < page.get("progress", "value") < 1
    wait(page, KEPT)
    page.translate("Guten Tag.\n\n12 !\nJa. Nein.", "GUTEN TAG.", "", "12 !", "JA. NEIN.")
    assert sorted(site.large()) == sorted({*site.large()}), "no file is downloaded twice"
    assert page.tab.complaints == []
    site.stop()
    visit(page, site, READY)
    page.translate("Noch einmal.", "NOCH EINMAL.")


def test_typing_loads_and_keys_translate_copy_and_swap(page: Page, site: Site) -> None:
    visit(page, site)
    page.write("hallo")
    wait(page, READY)
    page.shows("HALLO")
    assert page.get("count", "textContent") == "5 characters"
    page.write("slow zuerst")
    page.press("Enter", CTRL)
    page.write("danach")
    page.shows("DANACH")
    page.tab.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page.press("Enter", CTRL | SHIFT)
    page.wait("document.getElementById('copied').textContent === 'Copied'")
    assert page.tab.evaluate("navigator.clipboard.readText()") == "DANACH"
    page.press("S", CTRL | SHIFT)
    page.shows("DANACH")
    assert (page.get("source-language", "value"), page.get("text", "value")) == ("en", "DANACH")
    assert page.tab.evaluate("[text.parentElement.lang, result.lang, document.title]") == [
        "en", "de", "English → German",
    ]  # fmt: skip
    page.click("#clear")
    assert page.tab.evaluate(SHOWN) == [] and page.get("copy", "disabled")


def test_lines_that_are_translated_already_take_no_time(page: Page, site: Site) -> None:
    visit(page, site)
    page.tab.evaluate("text.value = Array.from(Array(2000).keys(), number => `zeile ${number}`).join('\\n')")
    page.press("Enter", CTRL)
    shown = "result.ariaBusy === 'false' && result.children.length"
    wait(page, f"{shown} === 2000", 60)
    begin = time.monotonic()
    page.tab.evaluate("text.value += '\\nende'")
    page.press("Enter", CTRL)
    wait(page, f"{shown} === 2001", 60)
    assert time.monotonic() - begin < 5, "a timer between the lines would take 8 s"


def test_text_from_right_to_left_has_its_direction(page: Page, site: Site) -> None:
    visit(page, site)
    page.write("hello\nمرحبا")
    wait(page, READY)
    page.shows("مرحبا", "HELLO")
    directions = "[...document.querySelectorAll('#result > span')].map(line => getComputedStyle(line).direction)"
    assert page.tab.evaluate(directions) == ["rtl", "ltr"]


def test_interrupted_download_is_reported_and_continues(page: Page, site: Site) -> None:
    site.handler.cut.add("model/onnx/decoder_model_merged.onnx")
    visit(page, site)
    page.write("hallo")
    wait(page, f"{MESSAGE} && !document.getElementById('retry').hidden")
    assert "downloaded" in page.tab.evaluate(MESSAGE) and page.get("load", "hidden") is False
    site.handler.cut.clear()
    page.click("#retry")
    wait(page, READY)
    page.shows("HALLO")
    wait(page, KEPT)
    assert site.large().count("model/onnx/encoder_model.onnx") == 1, "what was complete is kept"
    assert site.large().count("model/onnx/decoder_model_merged.onnx") == 2


def test_file_of_another_version_is_not_kept(page: Page, site: Site) -> None:
    model = site.folder / "model/onnx/encoder_model.onnx"
    model.write_text("x" * model.stat().st_size)
    visit(page, site)
    page.click("#load")
    wait(page, READY)
    addresses = "(await (await caches.open(`nmt ${new URL('./', location)}`)).keys()).map(({ url }) => url).join()"
    for _ in range(100):
        kept = page.tab.evaluate(f"(async () => {addresses})()")
        if "tokenizer_config.json" in kept:  # the last one
            break
        time.sleep(0.05)
    assert "decoder_model_merged.onnx" in kept and "encoder_model.onnx" not in kept


def test_lack_of_memory_is_reported(page: Page, site: Site) -> None:
    visit(page, site)
    page.write("full")
    wait(page, MESSAGE)
    assert "memory" in page.tab.evaluate(MESSAGE) and not page.get("retry", "hidden")
    n_before = len(site.handler.asked)
    page.write("fuller")
    assert len(site.handler.asked) == n_before and page.get("result", "ariaBusy") == "false", (
        "typing does not load again"
    )
    page.write("")
    page.click("#retry")
    wait(page, READY)
    page.translate("wenig", "WENIG")


def test_new_version_replaces_the_old_one_when_complete(page: Page, site: Site) -> None:
    visit(page, site)
    page.click("#load")
    wait(page, KEPT)
    site.handler.asked.clear()
    (site.folder / "model/onnx/encoder_model.onnx").write_text("new" * 100_000)
    list_files(site.folder)
    visit(page, site, READY)
    wait(page, "!document.getElementById('update').hidden")
    assert site.large() == ["model/onnx/encoder_model.onnx"], "only what has changed is downloaded"
    page.tab.evaluate("window.isOld = true")
    page.click("#use-update")
    wait(page, f"!window.isOld && {KEPT}")
    page.translate("neu", "NEU")
    assert page.tab.evaluate(
        "caches.open(`nmt ${new URL('./', location)}`).then(c => c.keys()).then(k => k.length)"
    ) == len(page.tab.evaluate("Object.keys(FILES)"))


@pytest.mark.parametrize(
    "refusal",
    [
        "Object.defineProperty(Navigator.prototype, 'serviceWorker', { get: () => undefined })",
        "ServiceWorkerContainer.prototype.register = async () => { throw new DOMException('x', 'QuotaExceededError') };"
        "for (const name of ['caches', 'sessionStorage']) Object.defineProperty(window, name, "
        "{ get: () => { throw new DOMException('refused', 'SecurityError') } })",
    ],
)
def test_page_works_without_service_worker(page: Page, site: Site, refusal: str) -> None:
    page.tab.call("Page.addScriptToEvaluateOnNewDocument", source=refusal)
    visit(page, site)
    assert not page.tab.evaluate("crossOriginIsolated")
    assert "each visit" in page.get("load-state", "textContent")
    page.write("hallo")
    wait(page, READY)
    page.shows("HALLO")


def test_page_opened_as_a_file_says_what_to_do(page: Page, site: Site) -> None:
    page.tab.open((site.folder / "index.html").as_uri())
    time.sleep(3.2)
    shown = "getComputedStyle(document.getElementById('not-started')).visibility"
    assert page.tab.evaluate(shown) == "visible"


@pytest.mark.parametrize("width", [1100, 390])
def test_page_fits_window(page: Page, site: Site, width: int) -> None:
    page.tab.size(width, 800)
    visit(page, site)
    page.write("Donaudampfschifffahrtsgesellschaft" * 9)
    wait(page, READY)
    page.shows("DONAUDAMPFSCHIFFFAHRTSGESELLSCHAFT" * 9)
    page.tab.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
