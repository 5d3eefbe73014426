"""Reader of PO files."""

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

    Fuzzy, obsolete and untranslated messages are skipped. A message with a plural gives two pairs if its translation
    has two forms, one pair (of the plural) if it has one form, and is skipped if it has more forms, since none of them
    translates only the plural. `layout.columns`, such as `{en: msgid, de: msgstr}`, names the languages. Without it,
    the header's `Language` is the language of `msgstr`, and `X-Source-Language`, or else English, that of `msgid`.
    """
    side = side_in_columns(file.name, layout, "msgid", "msgstr")
    headers: Mapping[str, str] = {}
    for message in po_messages(file.name, _lines(file)):
        texts = message.texts
        if not texts["msgid"] and "msgctxt" not in texts:
            headers = headers or _headers(texts.get("msgstr", ""))
        elif message.is_obsolete or "fuzzy" in message.flags:
            units.skip("obsolete" if message.is_obsolete else "fuzzy")
        elif side is not None or (side := _side_of_msgid(file.name, headers, layout, units)) is not None:
            for source, target in _pairs(texts, units):
                pair = one_line(source), one_line(target)
                yield pair[side], pair[1 - side], None


def _pairs(texts: Mapping[str, str], units: Units) -> list[tuple[str, str]]:
    """Return the text pairs of a message."""
    if "msgstr" in texts:
        return [(texts["msgid"], texts["msgstr"])]
    forms = [texts[key] for key in texts if key.startswith("msgstr")]
    if len(forms) > 2:
        units.skip("plural")
        return []
    return list(zip([texts["msgid"], texts["msgid_plural"]][-len(forms) :], forms, strict=True))


def _side_of_msgid(name: str, headers: Mapping[str, str], layout: Layout, units: Units) -> int | None:
    """Return the index of the language of `msgid`. A message in other languages is counted, and None returned."""
    source, target = headers.get("x-source-language") or "en", headers.get("language", "")
    if not target:
        first, second = layout.languages
        raise DataError(
            f"{name}: no Language in its header; state the languages with columns: {{{first}: msgid, "
            f"{second}: msgstr}} or the reverse"
        )
    return side_of_source(source, target, layout, units)


def _headers(text: str) -> dict[str, str]:
    lines = (line.partition(":") for line in text.split("\n"))
    return {name.strip().lower(): value.strip() for name, _, value in lines}


def _lines(file: Input) -> Iterator[str]:
    """Yield the lines of a file, decoded with the charset given in its header."""
    with file.open() as stream:
        raw = stream.read(DOCUMENT_BYTES + 1)
    if len(raw) > DOCUMENT_BYTES:
        raise DataError(f"{file.name}: is larger than {DOCUMENT_BYTES >> 20} MB; split it")
    yield from po_lines(file.name, raw)
