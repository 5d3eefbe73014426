"""A hook of MkDocs: links that leave docs/ lead somewhere in a checkout only, so the site shows the path instead."""

from __future__ import annotations

import re


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace links and pictures outside of docs/ by their text and path."""
    return re.sub(r"!?\[([^]]*)\]\(\.\./([^)]*)\)", r"\1 (`\2`)", markdown)
