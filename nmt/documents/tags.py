"""Tags within plain text, as in subtitles and messages: `<i>`, `</font>`, `{\\an8}`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nmt.documents.inline import Mark, Text, Token

TAG = r"</?[A-Za-z][^<>\n]{0,200}>|<[0-9:.]{1,20}>|\{\\[^{}\n]{0,200}\}"
_TAG = re.compile(f"({TAG})")


def tagged(text: str) -> Iterator[Token[str]]:
    """Divide a line into texts and tags."""
    for i, part in enumerate(_TAG.split(text)):
        if i % 2 == 0:
            if part:
                yield Text(part, part)
        elif name := re.match(r"<(/?)([A-Za-z]+)[^>]*(?<!/)>", part):
            yield Mark("close" if name[1] else "open", part, name[2].lower())
        else:
            yield Mark("point", part)
