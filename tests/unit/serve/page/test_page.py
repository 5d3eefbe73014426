"""Tests of the files of the web page: contrast, labels, identifiers and foreign code."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from nmt.pages import asset

PACKAGE = "nmt.serve.page"
HTML, CSS = asset(PACKAGE, "index.html"), asset(PACKAGE, "page.css")
SCRIPTS = {file.name: file.read_text("utf-8") for file in files(PACKAGE).iterdir() if file.name.endswith(".js")}


def palettes(style: str) -> dict[str, dict[str, str]]:
    """Return the colours of a style sheet by name, for the light and the dark scheme."""
    light, dark = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)[:2]
    colours = re.compile(r"--(\w+): (#[0-9a-f]{6})")
    return {"light": dict(colours.findall(light)), "dark": dict(colours.findall(dark))}


PALETTES = palettes(CSS)
CONTRASTS = {
    4.5: "ink/paper ink/panel ink/warn ink/mark soft/paper soft/panel error/paper error/panel",  # text
    3.0: "focus/paper kept/paper kept/panel",  # outlines of controls, focus and highlighted words
}


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as defined by WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", PALETTES)
def test_colours_have_enough_contrast_and_match_other_pages(scheme: str) -> None:
    colours, others = PALETTES[scheme], palettes(asset("nmt", "pages.css"))[scheme]
    for least, pairs in CONTRASTS.items():
        for pair in pairs.split():
            low, high = sorted(luminance(colours[name]) for name in pair.split("/"))
            assert (high + 0.05) / (low + 0.05) >= least, pair
    assert colours.keys() == set(re.findall(r"var\(--(\w+)\)", CSS))
    shared = dict(colours.items() & others.items())
    assert {"ink", "soft", "line", "paper", "panel", "kept", "warn"} <= shared.keys() == colours.keys() & others.keys()


def test_controls_have_labels() -> None:
    labelled = set(re.findall(r'<label for="([\w-]+)"', HTML))
    for tag, attributes in re.findall(r"<(input|select|textarea|progress)\b([^>]*)>", HTML):
        [name] = re.findall(r'\bid="([\w-]+)"', attributes)
        assert name in labelled or "aria-label=" in attributes, name
        assert tag == "progress" or 'autocomplete="off"' in attributes, f"the browser would keep what is in {name}"
    for attributes, inside in re.findall(r"<button\b([^>]*)>(.*?)</button>", HTML, flags=re.DOTALL):
        assert "aria-label=" in attributes or re.sub("<[^>]*>", "", inside).strip(), attributes


def test_page_has_no_inline_or_foreign_code() -> None:
    """Inline and foreign code would violate the page's policy, default-src 'self'."""
    names = {file.name for file in files(PACKAGE).iterdir()}
    referred = set(re.findall(r'(?:src|href)="([^"]*)"', HTML))
    assert {"page.css", "page.js", "icon.svg"} == referred <= names
    assert not re.search(r"\sstyle=|\son\w+=|<style|<script>", HTML) and not re.search(r"url\(|@import", CSS)
    for name, script in SCRIPTS.items():
        assert set(re.findall(r'from "\./([^"]*)"', script)) <= names
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(|https?://", script), name


def test_script_does_not_store_texts() -> None:
    stored = [line for script in SCRIPTS.values() for line in script.splitlines() if re.search(r"Storage|cookie", line)]
    assert len(stored) == 2 and all("sessionStorage" in line and '"api-key"' in line for line in stored)
    assert not any(re.search(r"indexedDB|caches\.|pushState|replaceState", script) for script in SCRIPTS.values())


def test_script_ids_are_unique() -> None:
    ids = re.findall(r'\bid="([\w-]+)"', HTML)
    assert len(ids) == len(set(ids))
    asked = {name for script in SCRIPTS.values() for name in re.findall(r'(?<!\.)\b(?:get|on)\("([\w-]+)"', script)}
    assert asked <= set(ids) and {"text", "result", "retry"} <= asked
    assert set(re.findall(r"#([a-z-]+)(?=[ >:.,\[{])", CSS)) <= set(ids)
