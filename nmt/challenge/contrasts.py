"""Contrasts: a line, its true translation, and translations that are wrong in a known way; made from parallel text."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from nmt.challenge import english, french, general, german, spanish
from nmt.challenge.rewriting import exchanged

Change = Callable[[str, str], Iterator[str]]
"""From a source line and its translation: all wrong translations that a kind of change makes of it."""


@dataclass(frozen=True)
class Contrast:
    """A true translation and wrong ones, of which the model should find each less probable."""

    kind: str
    source: str
    reference: str
    changed: tuple[str, ...]
    """One; several only in sets such as ContraPro, where a line counts once."""
    origin: str
    """The line in the test set."""


def make_contrasts(
    lines: Iterable[tuple[str, str]], name: str, changes: Mapping[str, Change], seed: int
) -> Iterator[Contrast]:
    """Yield for each line of source and reference, and each kind of change that it allows, one contrast.

    Which one of several is a function of the seed and the line, so that parts of a test set have the same contrasts as
    the whole. `name` is that of the test set.
    """
    for number, (source, reference) in enumerate(lines, start=1):
        for kind, change in changes.items():
            candidates = sorted({*change(source, reference)} - {reference})
            if candidates:
                draw = random.Random(f"{seed}\n{kind}\n{source}\n{reference}")
                yield Contrast(kind, source, reference, (draw.choice(candidates),), f"{name}.{number}")


def changes_of(language: str) -> dict[str, Change]:
    """Return the kinds of changes that are known of a target language, by name."""
    match language.lower().replace("_", "-").split("-")[0]:
        case "de":
            return {
                **_general(german.NUMBERS, german.CONJUNCTIONS),
                "negation removed": german.remove_negation,
                "negation inserted": german.insert_negation,
                "article": german.break_article,
                "verb number": german.break_verb,
            }
        case "en":
            return {
                **_general(english.NUMBERS, english.CONJUNCTIONS),
                "negation removed": english.remove_negation,
                "negation inserted": english.insert_negation,
                "verb number": english.break_agreement,
            }
        case "fr":
            return {
                **_general(french.NUMBERS, french.CONJUNCTIONS),
                "negation removed": french.remove_negation,
                "negation inserted": french.insert_negation,
            }
        case "es":
            return {
                **_general(spanish.NUMBERS, spanish.CONJUNCTIONS),
                "negation removed": spanish.remove_negation,
                "negation inserted": spanish.insert_negation,
            }
        case _:
            return _general({}, "")


def has_words(language: str) -> bool:
    """Whether changes are known of this target language that need its words."""
    return len(changes_of(language)) > len(_general({}, ""))


def _general(numbers: Mapping[str, list[str]], conjunctions: str) -> dict[str, Change]:
    """Return the kinds that every language has, with a language's numbers in words and its conjunctions."""

    def number(source: str, reference: str) -> Iterator[str]:
        yield from general.digits(source, reference)
        yield from exchanged(reference, numbers)

    def clause(source: str, reference: str) -> Iterator[str]:
        yield from general.clauses(reference, conjunctions)

    return {"number": number, "name": general.names, "clause dropped": clause, "copied": general.copied}
