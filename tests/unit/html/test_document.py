"""A page: what it allows, and text that stays text."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

from nmt.html.document import document, escaped, escaped_sentence, language_attributes
from parsed_page import ParsedPage


def test_nothing_runs_but_the_script_of_the_page() -> None:
    script = "show('<b>')"
    page = document("A < B", "p {}", ["<p>text</p>"], script)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}';" in page
    assert f"<script>{script}</script>" in page
    without = document("A < B", "p {}", ["<p>text</p>"])
    assert "script-src 'none'" in without and "<script>" not in without
    assert re.search(r"<title>A &lt; B</title>\n<style>.*p \{}</style>", without, re.DOTALL)
    assert ParsedPage(without).text.split() == ["A", "<", "B", "A", "<", "B", "text"]


def test_text_is_escaped() -> None:
    assert escaped("a\u200b<b>\n") == "a\\u200b&lt;b&gt;\\n"
    assert escaped("a\nb", keep_lines=True) == "a\nb"
    assert escaped_sentence("\u202e<i>می\u200cخواهم") == "\\u202e&lt;i&gt;می\u200cخواهم"
    assert "(no text)" in escaped_sentence("")


def test_the_language_of_an_element() -> None:
    assert language_attributes("pt_BR") == ' lang="pt-BR" dir="auto"'
    assert language_attributes('"><script>') == ' lang="&quot;&gt;&lt;script&gt;" dir="auto"'
    assert language_attributes(None) == ' dir="auto"'
