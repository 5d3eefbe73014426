"""Translations of Qt Linguist, `.ts` files, in which only messages without a translation are translated.

https://doc.qt.io/qt-6/linguist-ts-file-format.html
"""

from __future__ import annotations

from collections.abc import Sequence

from nmt.documents.inline import Token
from nmt.documents.types import Document, DocumentOptions, Languages, check_languages
from nmt.documents.units import Filled, Unit, message_tokens, open_units
from nmt.documents.xml import Edit, Element, XmlFile, xml_spelled, xml_tokens
from nmt.languages.codes import plural_categories

_FORMATS = ("qt-format", "qt-plural-format")


def open_ts(name: str, content: bytes, options: DocumentOptions) -> Document:
    """Open a .ts file. Raises DataError if it is malformed, or in other languages."""
    file = XmlFile(name, content)
    translations: list[Element] = []
    units = []
    root = None
    context = ""
    for element in file.elements("TS", frozenset({"name", "message"})):
        *_, root = element.around()
        if element.name == "name":
            context = element.text
            continue
        source, translation = element.child("source"), element.child("translation")
        if source is None or translation is None:
            continue
        unit = _unit(file, context, element, source, translation)
        if unit.target or unit.state == "unfinished":
            units.append(unit)
            translations += [translation] * (not unit.target)
    if root is not None:
        check_languages(name, [root.attributes.get(key, "") for key in ("sourcelanguage", "language")], options)

    def write(units: Sequence[Filled], languages: Languages) -> bytes:
        edits = [_edit(file, *pair, languages[1]) for pair in zip(translations, units, strict=True)]
        if root is not None and languages[1] and not root.attributes.get("language"):
            edits.append(file.with_attribute(root, "language", languages[1].replace("-", "_")))
        return file.written(edits)

    return open_units(units, write)


def _unit(file: XmlFile, context: str, message: Element, source: Element, translation: Element) -> Unit:
    is_plural = message.attributes.get("numerus") == "yes"
    formats = _FORMATS[: 1 + is_plural]

    def tokens(element: Element) -> Sequence[Token[str]]:
        return [*xml_tokens(file, element, lambda text: message_tokens(text, formats))]

    comment = message.child("comment")
    key = f"{context}: {message.attributes.get('id') or source.text}{f' ({comment.text})' if comment else ''}"
    forms = {str(number): form for number, form in enumerate(translation.children("numerusform"))} or {"": translation}
    target = {number: tokens(form) for number, form in forms.items()} if translation.text.strip() else {}
    form = {"other" if is_plural else "": tokens(source)}
    return Unit(key, form, formats, None, target, translation.attributes.get("type", ""))


def _edit(file: XmlFile, translation: Element, filled: Filled, language: str) -> Edit:
    """Return the edit that writes a translation. A new one is unfinished, so that Qt Linguist shows it for review."""
    state = filled.previous.state if filled.previous else "unfinished"
    forms = filled.forms
    if "" in forms:
        content = xml_spelled(forms[""])
    else:
        places = [*translation.children("numerusform")]
        indentation = file.indentation(places[0]) if places else ""
        n_forms = len(places) if len(places) > 1 else _n_forms(language)
        texts = (xml_spelled(forms.get(str(number), forms["other"])) for number in range(n_forms))
        content = "".join(f"{indentation}<numerusform>{text}</numerusform>" for text in texts)
        if places:
            content += file.raw(places[-1].end, translation.inside_end)
    attributes = f' type="{state}"' if state else ""
    return translation.start, translation.end, f"<translation{attributes}>{content}</translation>"


def _n_forms(language: str) -> int:
    """Return the number of plural forms of whole numbers, those that Qt distinguishes."""
    categories = plural_categories(language)
    of_fractions = categories in (("one", "few", "many", "other"), ("one", "many", "other"))
    return max(1, len(categories) - of_fractions)
