"""A hook of MkDocs for links to files outside of docs/, which are in the repository but not on the site.

SOURCE_URL is the address of the repository's files; without it, links are replaced by their text and path.
"""

from __future__ import annotations

import os
import re


def on_page_markdown(markdown: str, **_: object) -> str:
    """Point links outside of docs/ to the repository."""
    source = os.environ.get("SOURCE_URL")
    return re.sub(r"\[([^]]*)\]\(\.\./([^)]*)\)", rf"[\1]({source}/\2)" if source else r"\1 (`\2`)", markdown)
