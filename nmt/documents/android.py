"""Resources of Android: the texts of `strings.xml`.

https://developer.android.com/guide/topics/resources/string-resource
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nmt.documents.inline import Mark, Text, Token
from nmt.documents.keyed import unescaped
from nmt.documents.types import Document, DocumentOptions, Languages
from nmt.documents.units import Filled, Unit, message_tokens, open_units
from nmt.documents.xml import Edit, Element, XmlFile, xml_spelled, xml_tokens
from nmt.text.message_formats import formats_of

_REFERENCE = re.compile(r"\s*[@?][\w.:+*/]+\s*")
_SIGN = re.compile(r'(\\u[0-9A-Fa-f]{4}|\\.|")')
_APART = ("\\n", "\\t", '"')
"""A line break, a tab, and a quote, around which white space counts."""


def open_resources(name: str, content: bytes, _: DocumentOptions) -> Document:
    """Open a file of Android resources. Raises DataError if it is malformed."""
    file = XmlFile(name, content)
    items: list[Mapping[str, Element]] = []
    units = []
    for element in file.elements("resources", frozenset({"string", "string-array", "plurals"})):
        if element.inherited("translatable") == "false":
            continue
        key = "/".join(filter(None, map(element.attributes.get, ("name", "product"))))
        for in_list, forms in _forms(element):
            if not all(_REFERENCE.fullmatch(item.text) for item in forms.values()):
                items.append(forms)
                units.append(_unit(file, key + in_list, forms))

    def write(units: Sequence[Filled], _: Languages) -> bytes:
        return file.written(
            edit for forms, filled in zip(items, units, strict=True) for edit in _edits(file, forms, filled)
        )

    return open_units(units, write)


def _forms(element: Element) -> Iterator[tuple[str, Mapping[str, Element]]]:
    """Yield the end of the key of each text, and the elements with its plural forms."""
    if element.name == "string":
        yield "", {"": element}
    elif element.name == "plurals":
        yield "", {item.attributes.get("quantity", ""): item for item in element.children("item")}
    else:
        for number, item in enumerate(element.children("item")):
            yield f"[{number}]", {"": item}


def _unit(file: XmlFile, key: str, forms: Mapping[str, Element]) -> Unit:
    formats = formats_of("".join(item.text for item in forms.values()))

    def text_tokens(text: str) -> Iterator[Token[str]]:
        for token in message_tokens(re.sub(r"\s", " ", text), formats):
            yield from [token] if isinstance(token, Mark) else _unescaped(token.text)

    # xliff:g is not to be translated
    source = {form: [*xml_tokens(file, item, text_tokens, lambda it: it.name == "g")] for form, item in forms.items()}
    return Unit(key, source, formats)


def _unescaped(text: str) -> Iterator[Token[str]]:
    """Divide a text at line breaks, tabs and quotes."""
    for part in _SIGN.split(text):
        if part in _APART:
            yield Mark("point" if part == '"' else "break", part)
        else:
            yield Text(unescaped(part))


def _spelled(tokens: Sequence[Token[str]]) -> str:
    """Return the tokens of a text, also of one in a CDATA section, with backslashes before quotes."""
    written = [
        Text(re.sub(r"[\\'\"]", r"\\\g<0>", token.text)) if isinstance(token, Text) else token for token in tokens
    ]
    return re.sub(r"\A(\s*)([@?])", r"\1\\\2", xml_spelled(written))


def _edits(file: XmlFile, forms: Mapping[str, Element], filled: Filled) -> Iterator[Edit]:
    """Yield the edits that write the changed plural forms of a text, and add the missing ones after the last."""
    *_, last = forms.values()
    added = ""
    for category, tokens in filled.forms.items():
        if category not in forms:
            added += f'{file.indentation(last)}<item quantity="{category}">{_spelled(tokens)}</item>'
        elif category in filled.changed:
            yield file.with_content(forms[category], _spelled(tokens))
    yield last.end, last.end, added
