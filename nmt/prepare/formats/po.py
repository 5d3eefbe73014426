"""Pairs of PO files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nmt.errors import DataError
from nmt.files.read import DOCUMENT_BYTES
from nmt.prepare.formats.language import side_in_columns, side_of_source
from nmt.prepare.inputs import Input
from nmt.prepare.pairs import Layout, Row, Units, one_line
from nmt.text.po import po_lines, po_messages


def read_po(file: Input, layout: Layout, units: Units) -> Iterator[Row]:
    """Yield the pairs of a PO file.

    Fuzzy, obsolete and untranslated messages are skipped. A message with a plural gives a pair for the singular and one
    for the plural if the translation has two forms, one for the plural if it has one form, and is skipped if it has
    more: none of them is the translation of the plural alone. The languages are those of `layout.columns`, such as
    `{en: msgid, de: msgstr}`; without it the header's `Language` is that of `msgstr`, and its `X-Source-Language`, else
    English, that of `msgid`.
    """
    side = side_in_columns(file.name, layout, "msgid", "msgstr")
    headers: Mapping[str, str] = {}
    for message in po_messages(file.name, _lines(file)):
        texts = message.texts
        if not texts["msgid"] and "msgctxt" not in texts:
            headers = headers or _headers(texts.get("msgstr", ""))
        elif message.is_obsolete or message.is_fuzzy:
            units.skip("obsolete" if message.is_obsolete else "fuzzy")
        elif side is not None or (side := _side_of_msgid(file.name, headers, layout, units)) is not None:
            for source, target in _pairs(texts, units):
                if target:
                    pair = one_line(source), one_line(target)
                    yield pair[side], pair[1 - side], None
                else:
                    units.skip(f"no text in {layout.languages[1 - side]}")


def _pairs(texts: Mapping[str, str], units: Units) -> list[tuple[str, str]]:
    """Return the texts of a message that translate each other."""
    if "msgstr" in texts:
        return [(texts["msgid"], texts["msgstr"])]
    forms = [texts[key] for key in texts if key.startswith("msgstr")]
    if len(forms) > 2:
        units.skip("plural")
        return []
    return list(zip([texts["msgid"], texts["msgid_plural"]][-len(forms) :], forms, strict=True))


def _side_of_msgid(name: str, headers: Mapping[str, str], layout: Layout, units: Units) -> int | None:
    """Return the index of the language of `msgid` by the header; None, and count the message, for other languages."""
    source, target = headers.get("x-source-language") or "en", headers.get("language", "")
    if not target:
        first, second = layout.languages
        raise DataError(
            f"{name}: no Language in its header; name the side of each language: columns: {{{first}: msgid, "
            f"{second}: msgstr}} or the reverse"
        )
    return side_of_source(source, target, layout, units)


def _headers(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.split("\n"))
    return {name.strip().lower(): value.strip() for name, _, value in lines}


def _lines(file: Input) -> Iterator[str]:
    """Yield the lines of a file, in the charset of its header."""
    with file.open() as stream:
        raw = stream.read(DOCUMENT_BYTES + 1)
    if len(raw) > DOCUMENT_BYTES:
        raise DataError(f"{file.name}: more than {DOCUMENT_BYTES >> 20} MB; split it")
    yield from po_lines(file.name, raw)
