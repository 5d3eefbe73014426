"""Contrasts: a line, its true translation, and translations that are wrong in a known way; made from parallel text."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nmt.evaluate.contrasts.english import ENGLISH
from nmt.evaluate.contrasts.french import FRENCH
from nmt.evaluate.contrasts.german import GERMAN
from nmt.evaluate.contrasts.language import Language, names
from nmt.evaluate.contrasts.spanish import SPANISH


@dataclass(frozen=True)
class Contrast:
    """A true translation and wrong ones, each of which the model should find less probable."""

    kind: str
    source: str
    reference: str
    changed: tuple[str, ...]
    """One; several only in sets such as ContraPro, where a line counts once."""
    origin: str
    """The line in the test set."""


def language_of(code: str) -> Language:
    """Return the rules of a language by its code, such as de or de-CH."""
    match code.lower().replace("_", "-").split("-")[0]:
        case "de":
            return GERMAN
        case "en":
            return ENGLISH
        case "es":
            return SPANISH
        case "fr":
            return FRENCH
        case _:
            return Language()


def kinds_of(language: Language) -> tuple[str, ...]:
    """Return the kinds of contrasts that can be made in this language."""
    return "name", *language.changes()


def make_contrasts(lines: Iterable[tuple[str, str]], name: str, language: Language, seed: int) -> Iterator[Contrast]:
    """Yield one contrast for each line of source and reference and each kind of change that it allows.

    Which one of several is a function of the seed and the line, so that parts of a test set have the same contrasts as
    the whole. `name` is that of the test set, `language` that of the references.
    """
    changes = language.changes()
    for number, (source, reference) in enumerate(lines, start=1):
        by_kind = {"name": names(source, reference), **{kind: change(reference) for kind, change in changes.items()}}
        for kind, edits in by_kind.items():
            if candidates := list(edits):
                edit = random.Random(f"{seed}\n{kind}\n{source}\n{reference}").choice(candidates)
                yield Contrast(kind, source, reference, (edit.apply(reference),), f"{name}.{number}")
