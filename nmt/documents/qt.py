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

_NUMBERS = "012345"  # of plural forms, of which a language has at most six
_FORMATS = ("qt-format", "qt-plural-format")


def open_ts(name: str, content: bytes, options: DocumentOptions) -> Document:
    """Open a .ts file. Raises DataError if it is malformed, or in other languages."""
    file = XmlFile(name, content)
    translations = []
    units = []
    context = ""
    for element in file.elements("TS", frozenset({"name", "message"})):
        if element.name == "name":
            context = element.text
            check_languages(name, [*map(element.inherited, ("sourcelanguage", "language"))], options)
        source, translation = element.child("source"), element.child("translation")
        if not (source and translation):
            continue
        unit = _unit(file, context, element, source, translation)
        if unit.target or unit.state == "unfinished":
            units.append(unit)
            if not unit.target:
                translations.append(translation)

    def write(units: Sequence[Filled], languages: Languages) -> bytes:
        edits = [_edit(file, *pair, languages[1]) for pair in zip(translations, units, strict=True)]
        if translations and languages[1] and not translations[0].inherited("language"):
            *_, root = translations[0].around()
            edits.append(file.with_attribute(root, "language", languages[1].replace("-", "_")))
        return file.written(edits)

    return open_units(units, write)


def _unit(file: XmlFile, context: str, message: Element, source: Element, translation: Element) -> Unit:
    def tokens(element: Element) -> Sequence[Token[str]]:
        return [*xml_tokens(file, element, lambda text: message_tokens(text, _FORMATS))]

    comment = message.child("comment")
    key = f"{context}: {source.text}{f' ({comment.text})' if comment else ''}"
    forms = dict(zip(_NUMBERS, translation.children("numerusform"), strict=False)) or {"": translation}
    target = {number: tokens(form) for number, form in forms.items()} if translation.text.strip() else {}
    form = "other" if message.attributes.get("numerus") == "yes" else ""
    return Unit(key, {form: tokens(source)}, _FORMATS, None, target, translation.attributes.get("type", ""))


def _edit(file: XmlFile, translation: Element, filled: Filled, language: str) -> Edit:
    """Return the edit that writes a translation. A new one is unfinished, so that Qt Linguist shows it for review."""
    forms = filled.forms
    if "" in forms:
        content = xml_spelled(forms[""])
    else:
        places = [*translation.children("numerusform")]
        n_forms = len(places) if len(places) > 1 else _n_forms(language)
        blank = file.indentation(places[0]) if places else ""
        texts = (xml_spelled(forms.get(number, forms["other"])) for number in _NUMBERS[:n_forms])
        content = "".join(f"{blank}<numerusform>{text}</numerusform>" for text in texts)
        content += file.raw(places[-1].end, translation.inside_end) if places else ""
    is_finished = filled.previous and not filled.previous.state
    tag = "translation" if is_finished else 'translation type="unfinished"'
    return translation.start, translation.end, f"<{tag}>{content}</translation>"


def _n_forms(language: str) -> int:
    """Return the number of plural forms of whole numbers, those that Qt distinguishes."""
    categories = plural_categories(language)
    has_fractions = "many" in categories and "two" not in categories  # a form of fractions or of millions
    return max(1, len(categories) - has_fractions)
