"""Resources of .NET: the texts of `.resx` files.

https://learn.microsoft.com/en-us/dotnet/core/extensions/work-with-resx-files-programmatically
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nmt.documents.types import Document, DocumentOptions, Languages
from nmt.documents.units import Filled, Unit, message_tokens, open_units
from nmt.documents.xml import Element, XmlFile, xml_spelled, xml_tokens
from nmt.text.message_formats import formats_of


def open_resx(name: str, content: bytes, _: DocumentOptions) -> Document:
    """Open a .resx file. Raises DataError if it is malformed."""
    file = XmlFile(name, content)
    values = []
    units = []
    for data in file.elements("root", frozenset({"data"})):
        value, comment = data.child("value"), data.child("comment")
        key = data.attributes.get("name", "")
        is_text = not {"type", "mimetype"} & data.attributes.keys() and not key.startswith(">>")  # of a form's layout
        if value is not None and is_text and not (comment and "{Locked}" in comment.text):
            values.append(value)
            units.append(_unit(file, key, value))

    def write(units: Sequence[Filled], _: Languages) -> bytes:
        changed = (pair for pair in zip(values, units, strict=True) if pair[1].changed)
        return file.written(file.with_content(value, xml_spelled(filled.forms[""])) for value, filled in changed)

    return open_units(units, write)


def _unit(file: XmlFile, key: str, value: Element) -> Unit:
    flags = frozenset({"csharp-format"} if re.search(r"\{\d", value.text) else ())
    formats = formats_of(value.text, flags)
    return Unit(key, {"": [*xml_tokens(file, value, lambda text: message_tokens(text, formats))]}, formats)
