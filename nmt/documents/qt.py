"""Translations of Qt Linguist, `.ts` files, in which only messages without a translation are translated.

https://doc.qt.io/qt-6/linguist-ts-file-format.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nmt.documents.types import Document, DocumentOptions, Languages, check_languages
from nmt.documents.units import Filled, Unit, message_tokens, open_units
from nmt.documents.xml import Edit, Element, XmlFile, xml_spelled, xml_tokens
from nmt.languages.codes import plural_categories

_FORMATS = ("qt-format", "qt-plural-format")


def open_ts(name: str, content: bytes, options: DocumentOptions) -> Document:
    """Open a .ts file. Raises DataError if it is malformed, or in other languages."""
    file = XmlFile(name, content)
    translations = []
    units = []
    root = None
    context = ""
    for element in file.elements("TS", frozenset({"name", "message"})):
        *_, root = element.around()
        if element.name == "name":
            context = element.text
            continue
        source, translation = element.child("source"), element.child("translation")
        if source is None or translation is None or translation.attributes.get("type") != "unfinished":
            continue
        if not translation.text.strip():
            translations.append(translation)
            units.append(_unit(file, context, element, source))
    if root is not None:
        check_languages(name, [root.attributes.get(key, "") for key in ("sourcelanguage", "language")], options)

    def write(units: Sequence[Filled], languages: Languages) -> bytes:
        edits: list[Edit] = []
        for translation, filled in zip(translations, units, strict=True):
            edits += _edits(file, translation, filled, languages[1])
        if root is not None and languages[1] and not root.attributes.get("language"):
            edits.append(file.with_attribute(root, "language", languages[1].replace("-", "_")))
        return file.written(edits)

    return open_units(units, write)


def _unit(file: XmlFile, context: str, message: Element, source: Element) -> Unit:
    is_plural = message.attributes.get("numerus") == "yes"
    formats = _FORMATS[: 1 + is_plural]
    tokens = [*xml_tokens(file, source, lambda text: message_tokens(text, formats))]
    comment = message.child("comment")
    key = f"{context}: {message.attributes.get('id') or source.text}{f' ({comment.text})' if comment else ''}"
    return Unit(key, {"other" if is_plural else "": tokens}, formats)


def _edits(file: XmlFile, translation: Element, filled: Filled, language: str) -> Iterator[Edit]:
    """Yield the edits that write a translation. It stays unfinished, so that Qt Linguist shows it for review."""
    text = xml_spelled([*filled.forms.values()][-1])
    if "" in filled.forms:
        yield file.with_content(translation, text)
        return
    forms = [*translation.children("numerusform")]
    missing = f"<numerusform>{text}</numerusform>"
    n_missing = max(0, _n_forms(language) - len(forms)) if len(forms) < 2 else 0
    for form in forms:
        yield file.with_content(form, text)
    if forms:
        yield forms[-1].end, forms[-1].end, n_missing * (file.indentation(forms[0]) + missing)
    else:
        yield file.with_content(translation, n_missing * missing)


def _n_forms(language: str) -> int:
    """Return the number of plural forms of whole numbers, those that Qt distinguishes."""
    categories = plural_categories(language)
    of_fractions = categories in (("one", "few", "many", "other"), ("one", "many", "other"))
    return max(1, len(categories) - of_fractions)
