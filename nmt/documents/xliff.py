"""XLIFF 1.0 to 2.2, with the dialects of Trados, memoQ and Phrase. Texts without a translation are translated.

https://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html
https://docs.oasis-open.org/xliff/xliff-core/v2.1/xliff-core-v2.1.html
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from nmt.console import printable
from nmt.documents.inline import Mark, Token
from nmt.documents.types import Document, DocumentOptions, Languages, check_languages, spliced
from nmt.documents.units import Filled, Unit, message_tokens, open_units, plain
from nmt.documents.xml import Edit, Element, XmlFile, xml_spelled, xml_tokens
from nmt.errors import DataError
from nmt.text.message_formats import formats_of
from nmt.text.states import FINAL, FLAWED, MACHINE, UNTRANSLATED, state_of

_LANGUAGES = {"source-language": "target-language", "srcLang": "trgLang"}
"""The attributes with the languages of source and target, in version 1 and 2."""
_PAIRED = ("bpt", "bx", "sc", "sm", "ept", "ex", "ec", "em")
"""Elements that begin a span, and those that end it; both have the same last letter, and one identifier."""


class _Text(NamedTuple):
    """A text of a unit."""

    unit: Element
    source: Element
    """The element with the text: a source, a marked segment of it, or a source with segments, which are translated
    separately."""
    target: Element | None
    """The element for the translation; None if it is to be added after the source."""
    holders: Sequence[Element]
    """The elements with its state."""
    frame: tuple[Element, Element | None] | None = None
    """The source with segments that it is one of, and the empty target of this source, if its segments have none."""

    @property
    def has_target(self) -> bool:
        """Whether it has a translation."""
        return self.target is not None and bool(self.target.text.strip())

    @property
    def is_missing(self) -> bool:
        """Whether it is to be translated, and has no translation, or one that does not count."""
        states = [state for holder in self.holders for state in holder.attributes.items()]
        if not self.source.text.strip() or self.unit.inherited("translate") == "no" or state_of(states, FINAL):
            return False
        return not self.has_target or bool(state_of(states, UNTRANSLATED))


def open_xliff(name: str, content: bytes, options: DocumentOptions) -> Document:
    """Open an XLIFF file. Raises DataError if it is malformed, of an unknown version, or in other languages."""
    file = XmlFile(name, content)
    texts: list[_Text] = []
    stated: dict[Element, str] = {}
    for unit in file.elements("xliff", frozenset({"trans-unit", "unit"})):
        texts += (text for text in _texts(unit) if text.is_missing or text.has_target)
        *_, root = unit.around()
        if not re.fullmatch(r"[12]\..*", version := root.attributes.get("version", "1.2")):
            raise DataError(f"{name}: XLIFF {printable(version)}, where 1.0 to 2.2 are supported")
        for element, names in product(unit.around(), _LANGUAGES.items()):
            if names[0] in element.attributes:
                stated[element] = names[1]
                check_languages(name, [element.attributes.get(side, "") for side in names], options)

    def write(filled: Sequence[Filled], languages: Languages) -> bytes:
        missing = [text for text in texts if text.is_missing]
        edits: list[Edit] = []
        framed = defaultdict[object, list[tuple[_Text, Filled, str]]](list)
        for text, of_text in zip(missing, filled, strict=True):
            edits += _state_edits(file, text, of_text)
            content = file.raw(text.source.inside, text.source.inside_end)
            framed[text.frame or id(text)].append(
                (text, of_text, xml_spelled(of_text.forms[""]) if of_text.changed else content)
            )
        for parts in framed.values():
            text, of_text, content = parts[0]
            if text.frame:
                source, target = text.frame
                segments = [(part.source, written) for part, _, written in parts]
                text, content = text._replace(source=source, target=target), _with_segments(file, source, segments)
            edits.append(_target_edit(file, text, of_text, content))
        for element, attribute in stated.items():
            if languages[1] and not element.attributes.get(attribute):
                edits.append(file.with_attribute(element, attribute, languages[1].replace("_", "-")))
        return file.written(dict.fromkeys(edits))  # the texts of a unit may have the same state

    return open_units([_unit(file, text) for text in texts], write, fills_forms=False)


def _texts(unit: Element) -> Iterator[_Text]:
    """Yield the texts of a unit."""
    states = _identified(unit.child("seg-defs"), "id")
    for part in [*unit.children("segment")] or [unit]:
        source, divided, target = map(part.child, ("source", "seg-source", "target"))
        sources, targets = _identified(divided, "mid"), _identified(target, "mid")
        holders = [part, *part.children("target")] if part is unit else [part]
        if sources and sources.keys() == targets.keys():
            for mid, segment in sources.items():
                yield _Text(unit, segment, targets[mid], [states[mid]] if mid in states else holders)
        elif divided and sources and not (target and target.text.strip()):
            for mid, segment in sources.items():
                yield _Text(unit, segment, None, [states[mid]] if mid in states else holders, (divided, target))
        elif whole := divided if sources else source:
            yield _Text(unit, whole, target, holders)


def _identified(element: Element | None, attribute: str) -> dict[str, Element]:
    """Return the elements inside an element, but not inside each other, by their identifiers."""
    identified: dict[str, Element] = {}
    for item in element.items if element else ():
        if isinstance(item, Element):
            if attribute in item.attributes:
                identified[item.attributes[attribute]] = item
            else:
                identified |= _identified(item, attribute)
    return identified


def _unit(file: XmlFile, text: _Text) -> Unit:
    attributes = text.unit.attributes
    formats = formats_of(text.source.text)
    tokens = [*_tokens(file, text.source, formats)]
    width = re.fullmatch(r"(\d{1,9})char", attributes.get("maxwidth", "") + attributes.get("size-unit", ""))
    # without marks, which a translation has, too
    limit = int(width[1]) + len(plain(tokens)) - len(text.source.text) if width else None
    file_name = re.sub(r".*[/\\]", "", text.unit.inherited("original"))
    names = (file_name, attributes.get("resname") or attributes.get("id"), text.source.attributes.get("mid"))
    target = {} if text.is_missing or text.target is None else {"": [*_tokens(file, text.target, formats)]}
    states = (f"{key}={value}" for holder in text.holders for key, value in holder.attributes.items())
    return Unit("/".join(filter(None, names)), {"": tokens}, formats, limit, target, "\n".join(states))


def _is_opaque(element: Element) -> bool:
    is_protected = element.attributes.get("mtype", element.attributes.get("translate")) in ("protected", "no")
    return is_protected or element.name in ("bpt", "ept", "it", "ph")


def _tokens(file: XmlFile, source: Element, formats: Sequence[str]) -> Iterator[Token[str]]:
    """Divide a text at tags and marked segments, and at line breaks if they are preserved."""
    spaced = " " if source.inherited("space") == "preserve" else r"[\r\n\t]"
    for token in xml_tokens(file, source, lambda text: message_tokens(re.sub(spaced, " ", text), formats), _is_opaque):
        if isinstance(token, Mark) and isinstance(element := token.key, Element):
            ids = element.attributes
            if "mid" in ids:
                token = Mark("break", token.markup)
            elif element.name in _PAIRED:
                key = element.name[-1], ids.get("startRef") or ids.get("rid") or ids.get("id")
                token = Mark("open" if element.name in _PAIRED[:4] else "close", token.markup, key)
        yield token


def _with_segments(file: XmlFile, source: Element, segments: Iterable[tuple[Element, str]]) -> str:
    """Return the content of a source with other segments."""
    start = source.inside
    edits = [(segment.inside - start, segment.inside_end - start, text.encode()) for segment, text in segments]
    return spliced(file.data[start : source.inside_end], edits).decode()


def _state_edits(file: XmlFile, text: _Text, filled: Filled) -> Iterator[Edit]:
    """Yield the edits that write the state of a translation."""
    for holder in text.holders:
        for key, value in _states(holder.name, filled).items():
            if key in holder.attributes or holder.name != "trans-unit":
                yield file.with_attribute(holder, key, value)


def _target_edit(file: XmlFile, text: _Text, filled: Filled, content: str) -> Edit:
    """Return the edit that writes a translation, into its target or a new one after the source."""
    source = text.source
    if text.target:
        return file.with_content(text.target, content)
    tag = re.sub(r"(?s)(seg-)?source.*", "target", file.raw(source.start + 1, source.inside))  # with its prefix
    added = _states("target", filled).items() if text.unit in text.holders else ()
    attributes = "".join(f' {key}="{value}"' for key, value in added)
    return source.end, source.end, f"{file.indentation(source)}<{tag}{attributes}>{content}</{tag}>"


def _states(name: str, filled: Filled) -> dict[str, str]:
    """Return the states of a translation that an element with a name has: those that it had before, if it is kept."""
    states = FLAWED if filled.problems and name == "segment" else MACHINE.get(name, {})
    if filled.previous is None:
        return states
    before = dict(state.split("=", 1) for state in filled.previous.state.splitlines() if "=" in state)
    return {key: before.get(key, "translated") for key in states if key in before or key == "state"}
