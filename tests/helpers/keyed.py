"""A small format with keys, for tests of what all such formats have in common: lines such as `greeting=Hello`, and
`files[one]=a file` for plurals."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from types import ModuleType

import pytest

from nmt.documents import formats
from nmt.documents.formats import DocumentFormat
from nmt.documents.inline import Text
from nmt.documents.types import Document, DocumentOptions, Languages
from nmt.documents.units import Filled, Unit, open_units, plain

SUFFIX = ".keyed"
LINE = re.compile(r"(\w+)(?:\[(\w+)\])?=(.*)")


def open_keyed(_: str, content: bytes, __: DocumentOptions) -> Document:
    texts: dict[str, dict[str, str]] = {}
    for match in LINE.finditer(content.decode()):
        texts.setdefault(match[1], {})[match[2] or ""] = match[3]
    units = [Unit(key, {name: [Text(text)] for name, text in forms.items()}) for key, forms in texts.items()]

    def write(filled: Sequence[Filled], _: Languages) -> bytes:
        lines = []
        for unit in filled:
            for category, tokens in unit.forms.items():
                name = f"{unit.unit.key}[{category}]" if category else unit.unit.key
                lines.append(f"{name}={plain(tokens)}\n")
        return "".join(lines).encode()

    return open_units(units, write)


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the format to those of documents."""
    module = ModuleType("nmt.documents.keyed")
    module.__dict__["open_keyed"] = open_keyed
    row = DocumentFormat("keyed text", (SUFFIX,), "keyed.open_keyed")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(formats, "_ROWS", (*formats._ROWS, row))
    monkeypatch.setitem(formats.FORMATS, SUFFIX, row)
