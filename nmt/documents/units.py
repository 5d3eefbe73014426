"""Documents that consist of texts with keys, such as message catalogues and files of software strings.

A format reads its file as units, and writes those that are filled. Which texts are translated, and what is checked
afterwards, is the same for all of these formats.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from nmt.documents.inline import Mark, Passage, Text, Token, tagged
from nmt.documents.types import Document, Languages, Results
from nmt.languages.codes import plural_categories
from nmt.text.constraints import spans
from nmt.text.letters import western_digits
from nmt.text.message_formats import directives

OTHER_PLACEHOLDERS = "with other placeholders, tags or numbers than in the source"
TOO_LONG = "longer than the limit in the file"
FORMS_FILLED = "with plural forms that are filled from the form `other`; check them"

_ACCELERATOR = re.compile(r"[&_](?=\w)")
"""The sign before the accelerator key of a menu item, as in `&File` or `_File`."""
_BRANCHES = (
    r"(\{\s*+[\w.-]++\s*+(?:,\s*+(?!(?:plural|select|selectordinal|choice)\b)[^{}]*+)?\})"
    r"|([\n\t\#]|\{\s*+[\w.-]++\s*+,[^{}]*+[{}]|\}\s*+\}|\}\s*+[\w=-]*+\s*+\{)"
)
"""Matches simple arguments of ICU messages, as one group, and as the other what divides texts: line breaks, tabs, and
what is around branches, such as `{n, plural, one {`."""


Forms: TypeAlias = "Mapping[str, Sequence[Token[str]]]"
"""The tokens of a text by plural category."""


@dataclass(frozen=True)
class Unit:
    """A text of software or of a bilingual file, which is to be translated."""

    key: str
    """What identifies it in its file."""
    source: Forms
    """The tokens of its text by plural category, such as `one` and `other`; by "" if it has no plural."""
    formats: Sequence[str] = ("",)
    """The `GRAMMARS` of format strings that it follows; at least one."""
    limit: int | None = None
    """The maximum number of characters of a translation."""
    target: Forms | None = None
    """The tokens of the translation that the file has, in formats with source and target; empty: to be translated."""
    state: str = ""
    """How the file marks its translation, in formats that do so."""

    @property
    def translation(self) -> Forms:
        """The tokens of its text in the target language, if its file is the output of a translation."""
        return self.source if self.target is None else self.target


@dataclass(frozen=True)
class Filled:
    """A unit with its translation."""

    unit: Unit
    forms: Forms
    """The tokens of the translation, by the plural categories of the source."""
    changed: frozenset[str]
    """The categories whose translation differs from the source. Others are best written as they are."""
    problems: Sequence[str]
    """What is wrong with the translation, by which formats with states mark it for review."""
    previous: Unit | None = None
    """The unit of the previous output whose translation is kept; formats with states keep its state, too."""


def plain(tokens: Iterable[Token[str]]) -> str:
    """Return the text of tokens, including their marks."""
    return "".join(token.text if isinstance(token, Text) else token.markup for token in tokens)


def spelled(tokens: Iterable[Token[str]], escape: Callable[[str], str]) -> str:
    """Return tokens as they are written in a file. escape: spells the texts that are not as in the source."""
    return "".join(token.markup if isinstance(token, Mark) else token.raw or escape(token.text) for token in tokens)


def message_tokens(text: str, formats: Sequence[str], *, by_branch: bool = False) -> Iterator[Token[str]]:
    """Divide a message at line breaks, tabs and tags. formats: the `GRAMMARS` that it follows.

    by_branch: whether an `icu-format` is also divided at its branches. Formats without states do so: nobody would see
    that a translation is broken, and branches on their own cannot be.
    """
    breaks = _BRANCHES if by_branch and "icu-format" in formats else r"((?!))|([\n\t])"
    inner = " ".join(directive[1:] for flag in formats for directive in directives(text, flag))
    for token in tagged(text, inner):
        if isinstance(token, Mark):
            yield token
            continue
        for i, part in enumerate(re.split(breaks, token.text)):
            if part:
                yield Mark("point" if part == "#" else "break", part) if i % 3 == 2 else Text(part, part)


def open_units(
    units: Sequence[Unit], write: Callable[[Sequence[Filled], Languages], bytes], *, fills_forms: bool = True
) -> Document:
    """Return a document whose texts are those of the units without a translation.

    write: returns the content of the document, given those units, in order, with their translations; fills_forms:
    whether plural categories that only the target has are given the form `other`.
    """
    units = [*_distinct(units)]
    missing = [unit for unit in units if not unit.target]
    passages = [{category: Passage(tokens) for category, tokens in unit.source.items()} for unit in missing]
    texts, flags, keys = [], [], []
    for unit, of_unit in zip(missing, passages, strict=True):
        for passage in of_unit.values():
            texts += passage.texts
            flags += [unit.formats[0]] * len(passage.texts)
            keys += [unit.key] * len(passage.texts)

    def write_document(results: Results, languages: Languages) -> bytes:
        filled = []
        for unit, of_unit in zip(missing, passages, strict=True):
            previous = document.kept.get(unit.key)
            if previous is not None:
                *_, last = previous.translation.values()
                kept = dict.fromkeys(unit.source, previous.translation.get("other", last))
                if ("" in kept) == ("" in previous.translation):  # both have a plural, or neither
                    kept |= previous.translation
                same = {form for form, tokens in unit.source.items() if plain(tokens) == plain(kept[form])}
                filled.append(Filled(unit, kept, frozenset(kept) - same, (), previous))
                continue
            translated = {category: passage.translated(results) for category, passage in of_unit.items()}
            forms = {category: tokens for category, (_, tokens) in translated.items()}
            changed = frozenset(category for category, (is_changed, _) in translated.items() if is_changed)
            problems = _problems(unit, forms)
            if fills_forms and "other" in forms:
                added = dict.fromkeys(plural_categories(languages[1]), forms["other"]) | forms
                if len(added) > len(forms):
                    results.problems[FORMS_FILLED].append(unit.key)
                    changed |= added.keys() - forms.keys()
                    forms = added
            for problem in problems:
                results.problems[problem].append(unit.key)
            filled.append(Filled(unit, forms, changed, problems))
        return write(filled, languages)

    document = Document(texts, write_document, flags=flags, keys=keys)
    document.units = {unit.key: unit for unit in units}
    return document


def _distinct(units: Iterable[Unit]) -> Iterator[Unit]:
    """Yield units of which no two have the same key: a file may repeat one."""
    numbers = Counter[str]()
    for unit in units:
        numbers[unit.key] += 1
        yield unit if numbers[unit.key] == 1 else replace(unit, key=f"{unit.key}#{numbers[unit.key]}")


def _problems(unit: Unit, forms: Forms) -> list[str]:
    """Return what is wrong with the translation of a unit."""
    problems = dict[str, None]()
    for category, tokens in forms.items():
        text, form = map(_without_marks, (unit.source[category], tokens))
        if _has_other_placeholders(text, form, unit.formats):
            problems[OTHER_PLACEHOLDERS] = None
        if unit.limit is not None and len(plain(tokens)) > unit.limit:
            problems[TOO_LONG] = None
    return [*problems]


def _without_marks(tokens: Iterable[Token[str]]) -> str:
    """Return the text of tokens with a line break for each mark, none of which a translation loses."""
    return "".join(token.text if isinstance(token, Text) else "\n" for token in tokens)


def _has_other_placeholders(text: str, form: str, formats: Sequence[str]) -> bool:
    """Return whether a translation lacks a number, or has other placeholders, tags, addresses or accelerators."""
    if any(directives(text, flag) != directives(form, flag) for flag in formats):
        return True
    exact, numbers = _checked(text, formats[0])
    translated_exact, translated_numbers = _checked(form, formats[0])
    return exact != translated_exact or not numbers <= translated_numbers


def _checked(text: str, flag: str) -> tuple[Counter[str], Counter[str]]:
    """Return the placeholders, tags, addresses and accelerators of a text, and its numbers without separators.

    Digits of other scripts are digits, as in `١٥` for 15.
    """
    exact = Counter(_ACCELERATOR.findall(text))
    numbers = Counter[str]()
    for span in spans(western_digits(text), flag):
        if span.kind == "number":
            numbers[re.sub(r"\D", "", span.wanted)] += 1
        else:
            exact[text[span.start : span.end]] += 1
    return exact, numbers
