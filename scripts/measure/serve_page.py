"""Measure the size and the translation time of the page of `nmt serve` in headless Chromium.

    nmt serve --run RUN --port 5000
    python -m scripts.measure.serve_page http://127.0.0.1:5000 "Ein Text." [--times 10]

Each time the page is opened without a cache and the text is put into its field, as by pasting. Times are medians in
milliseconds: of the first paint and of a complete page from the start of loading, and of the translation from the
pasting, with and without Ctrl+Enter, which does not wait for further typing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from browser import Tab
    from translation_page import Page

HELPERS = Path(__file__).parents[2] / "tests" / "helpers"
SHOWN = "document.getElementById('result').textContent.trim()"
CTRL = 2
WEIGHT = """(() => {
  const files = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
  const own = files.filter(file => !file.name.includes('/v1/') && !file.name.includes('/frontend/'));
  const bytes = own.reduce((sum, file) => sum + file.transferSize, 0);
  return {files: own.length, requests: files.length, kilobytes: bytes / 1000,
          paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
          complete: files[0].loadEventEnd};
})()"""


def translated_after(tab: Tab, page: Page, text: str, *, presses: bool) -> float:
    """Milliseconds from the pasting of a text until its translation is shown."""
    tab.evaluate("window.seen = 0")
    tab.evaluate(
        "window.watching = new MutationObserver(() => { if (!window.seen && "
        + SHOWN
        + ") window.seen = performance.now() })"
    )
    tab.evaluate("watching.observe(document.getElementById('result'), {childList: true, subtree: true})")
    began = tab.evaluate("performance.now()")
    page.write(text)
    if presses:
        page.press("Enter", CTRL, 13)
    page.wait("window.seen")
    return float(tab.evaluate("window.seen")) - float(began)


def main() -> None:
    """Measure and print."""
    sys.path.append(str(HELPERS))
    from browser import CHROMIUM, chromium
    from translation_page import Page

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url", help="of the server")
    parser.add_argument("text", help="in a language that it translates")
    parser.add_argument("--times", type=int, default=10, metavar="N", help="how often; default: 10")
    options = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("serve_page: no Chromium on PATH")
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, chromium(Path(profile)) as tab:
        tab.call("Network.enable")
        tab.call("Network.setCacheDisabled", cacheDisabled=True)
        page = Page(tab)
        for number in range(options.times + 1):
            for presses in (False, True):
                page.open(options.url)
                tab.wait("performance.getEntriesByName('first-contentful-paint').length")
                weight = tab.evaluate(WEIGHT)
                key = "translated ms, Ctrl+Enter" if presses else "translated ms, by waiting"
                weight[key] = translated_after(tab, page, f"{options.text} {number} {presses:d}", presses=presses)
                for name, value in weight.items() if number else ():  # the first time warms
                    found.setdefault(name, []).append(value)
    for name, values in found.items():
        print(f"{name:<28}{statistics.median(values):>9.1f}   ({min(values):.1f} to {max(values):.1f})")


if __name__ == "__main__":
    main()
