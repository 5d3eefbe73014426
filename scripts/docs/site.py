"""A hook of MkDocs that replaces links to files outside of docs/, which exist only in a checkout, by their paths."""

from __future__ import annotations

import re


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace links and pictures outside of docs/ by their text and path."""
    return re.sub(r"!?\[([^]]*)\]\(\.\./([^)]*)\)", r"\1 (`\2`)", markdown)
