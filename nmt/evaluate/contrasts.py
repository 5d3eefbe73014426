"""Contrasts of challenge sets: a correct translation and one with a known error, made from any parallel text.

The words and rules of languages are in contrasts.yaml.
"""

from __future__ import annotations

import random
import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any

import yaml

from nmt.languages.codes import parts_of
from nmt.text.split import COMMAS, SEMICOLONS, SENTENCE_MARKS
from nmt.text.words import UNSPACED

WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Edit:
    """A replacement of some characters of a line."""

    start: int
    end: int
    text: str

    def apply(self, line: str) -> str:
        """Return the line with the replacement."""
        return line[: self.start] + self.text + line[self.end :]


Rule = tuple[re.Pattern[str], str]
"""A pattern and its replacement, a template of `re.Match.expand`."""


def rewritten(line: str, rules: Sequence[Rule]) -> Iterator[Edit]:
    """Yield an edit for each match of each rewriting rule."""
    for pattern, replacement in rules:
        for match in pattern.finditer(line):
            yield replaced(line, match, match.expand(replacement))


def exchanged(line: str, table: Mapping[str, Sequence[str]]) -> Iterator[Edit]:
    """Yield edits that replace one word of the line by each of its alternatives in `table`.

    A word is looked up in lower case, then as it is written.
    """
    for match in WORD.finditer(line):
        for word in table.get(match[0].lower()) or table.get(match[0], ()):
            if len(match[0]) > 1 and match[0].isupper():
                word = word.upper()
            yield replaced(line, match, word)


def replaced(line: str, match: re.Match[str], by: str) -> Edit:
    """Return the edit that replaces a match. If the match is capitalised, so is the replacement."""
    end = match.end()
    if match[0][:1].isupper():
        if not by:
            by = line[end : end + 1]
            end += 1
        by = by[:1].upper() + by[1:]
    return Edit(match.start(), end, by)


def alternatives(*groups: str) -> dict[str, list[str]]:
    """Return for each word the other words of its group; a group is a string of words separated by spaces."""
    others_of = dict[str, list[str]]()
    for group in groups:
        words = group.split()
        for word in words:
            others_of[word] = [other for other in words if other != word]
    return others_of


SHORTEST = 3
"""Minimum number of words of a dropped clause, and of the rest of its sentence."""
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"[^\W\d_]{3,}")
_COMMA = re.compile(rf"(?!,[^ ])[{COMMAS}{SEMICOLONS}]")
_SENTENCE_END = re.compile(rf"[{SENTENCE_MARKS}]+(?=[\s\"“”»«')]|$)")
_PAIRED = re.compile('["“”„«»()\\[\\]{}]')
_COUNTED = re.compile(rf"[{UNSPACED}]|\w+")


def digits(line: str) -> Iterator[Edit]:
    """Yield edits that change one digit. No number becomes 1 or is changed from 1, as the noun would not agree."""
    for number in _NUMBER.finditer(line):
        if number[0] == "1":
            continue
        for place in range(number.start(), number.end()):
            digit = int(line[place])
            lowest = 0
            zero = ord(line[place]) - digit  # the zero of its script
            if place == number.start():
                lowest = 2 if len(number[0]) == 1 else 1  # no "0" or "1" for "2", and no "02" for "12"
            for other in range(lowest, 10):
                if other != digit:
                    yield Edit(place, place + 1, chr(zero + other))


def names(source: str, reference: str) -> Iterator[Edit]:
    """Yield edits that swap two adjacent letters in a capitalised word that is also in the source."""
    known = set(_NAME.findall(source))
    for word in _NAME.finditer(reference):
        if word[0] not in known or not word[0][0].isupper():
            continue
        for place in range(word.start() + 1, word.end() - 1):
            first = reference[place]
            second = reference[place + 1]
            if first.lower() != second.lower():
                yield Edit(place, place + 2, second + first)


def clauses(line: str, conjunctions: str) -> Iterator[Edit]:
    """Yield edits that drop the end of a sentence, starting at a comma or a conjunction.

    `conjunctions` are separated by `|`.
    """
    starts = {match.start() for match in _COMMA.finditer(line)}
    if conjunctions:
        starts |= {match.start() for match in re.finditer(rf"(?<![,;]) (?:{conjunctions})\b", line)}
    ends = list(_SENTENCE_END.finditer(line))
    stops = [match.start() for match in ends]
    resumes = [0, *(match.end() for match in ends)]
    for start in sorted(starts):
        sentence = bisect(stops, start)
        stop = stops[sentence] if sentence < len(stops) else len(line)
        kept = line[resumes[sentence] : start]
        dropped = line[start:stop]
        if not _PAIRED.search(dropped) and min(map(n_words, (kept, dropped))) >= SHORTEST:
            yield Edit(start, stop, "")


def n_words(text: str) -> int:
    """Count the words of a text; in scripts without spaces between words, each character counts as a word."""
    return len(_COUNTED.findall(text))


_NEVER = re.compile(r"(?!)")


@dataclass(frozen=True)
class ContrastLanguage:
    """The words and rules of a language, see contrasts.yaml; they are empty for languages that are not in it."""

    numbers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    conjunctions: str = ""
    removals: Sequence[Rule] = ()
    insertions: Sequence[Rule] = ()
    negated: re.Pattern[str] = _NEVER
    verbs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    either_number: re.Pattern[str] = _NEVER
    articles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    article: re.Pattern[str] = _NEVER
    either_gender: re.Pattern[str] = _NEVER
    pronouns: Sequence[str] = ()

    @classmethod
    def read(cls, rules: dict[str, Any]) -> ContrastLanguage:
        """Return a language, given its part of contrasts.yaml."""
        parts = rules.pop("parts")

        def compiled(pattern: str) -> re.Pattern[str]:
            while (filled := re.sub(r"\{([A-Z_]+)\}", lambda name: parts[name[1]], pattern)) != pattern:
                pattern = filled
            return re.compile(pattern.replace("'", "['’]"), re.IGNORECASE)

        for name in ("numbers", "verbs"):
            rules[name] = alternatives(*rules[name])
        for name in ("removals", "insertions"):
            rules[name] = [(compiled(pattern), replacement) for pattern, replacement in rules[name]]
        for name in {"negated", "either_number", "article", "either_gender"} & rules.keys():
            rules[name] = compiled(rules[name])
        return cls(**rules)

    def edits(self, line: str) -> dict[str, Iterable[Edit]]:
        """Return all edits that make a translation wrong, by kind of change."""
        kinds: dict[str, Iterable[Edit]] = {
            "number": chain(digits(line), exchanged(line, self.numbers)),
            "clause dropped": clauses(line, self.conjunctions),
        }
        if self.removals:
            removals = self.removals
            insertions = self.insertions if self.negated.search(line) is None else ()
            if "?" in line:  # a negated question often asks the same as a plain one
                removals = insertions = ()
            kinds["negation removed"] = rewritten(line, removals)
            kinds["negation inserted"] = rewritten(line, insertions)
        if self.articles:
            kinds["article"] = self._other_articles(line)
        if self.verbs:
            kinds["verb number"] = ()
            if self.either_number.search(line) is None:
                kinds["verb number"] = exchanged(line, self.verbs)
        return kinds

    def _other_articles(self, line: str) -> Iterator[Edit]:
        """Yield edits that change the gender of an article."""
        for match in self.article.finditer(line):
            if not self.either_gender.search(match["noun"]):
                for article in self.articles[match[0].lower()]:
                    yield replaced(line, match, article)


@dataclass(frozen=True)
class Contrast:
    """A correct translation and wrong ones, each of which the model should find less probable."""

    kind: str
    source: str
    reference: str
    changed: tuple[str, ...]
    """The wrong translations: several only in sets such as ContraPro, where a line counts once."""
    origin: str
    """The test set and the number of the line, as in newstest2009.1."""
    context: tuple[tuple[str, str], ...] = ()
    """The pairs of lines before it in its document, with which it is scored."""


@cache
def language_of(code: str) -> ContrastLanguage:
    """Return the words and rules of a language by its code, such as de or de-CH."""
    text = files("nmt.evaluate").joinpath("contrasts.yaml").read_text(encoding="utf-8")
    rules = yaml.safe_load(text).get(parts_of(code)[0])
    return ContrastLanguage.read(rules) if rules else ContrastLanguage()


def kinds_of(language: ContrastLanguage) -> tuple[str, ...]:
    """Return the kinds of errors that can be inserted into references in a language."""
    kinds = ["name", *language.edits("")]
    if language.pronouns:
        kinds.append("pronoun")
    return tuple(kinds)


def make_contrasts(
    lines: Iterable[tuple[str, str]], name: str, language: ContrastLanguage, seed: int
) -> Iterator[Contrast]:
    """Insert errors into references: yield one contrast for each line and each kind of change that the line allows.

    The choice between several edits depends only on the seed and the line, so that a part of a test set has the same
    contrasts as the whole. `name` is the name of the test set, `language` the language of the references.
    """
    for number, (source, reference) in enumerate(lines, start=1):
        for kind, edits in {"name": names(source, reference), **language.edits(reference)}.items():
            if candidates := list(edits):
                edit = random.Random(f"{seed}\n{kind}\n{source}\n{reference}").choice(candidates)
                yield Contrast(kind, source, reference, (edit.apply(reference),), f"{name}.{number}")
        pronoun, _, following = reference.partition(" ")
        if pronoun in language.pronouns and source.startswith("It "):
            changed = tuple(f"{other} {following}" for other in language.pronouns if other != pronoun)
            yield Contrast("pronoun", source, reference, changed, f"{name}.{number}")
