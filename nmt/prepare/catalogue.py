"""Corpora that people ask for by name and that OPUS does not have, from the shipped configs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A corpus with its development and test sets."""

    name: str
    languages: tuple[str, str]
    """In alphabetical order."""
    description: str
    config: str
    """The shipped config whose `data` says where its parts are."""
    pairs: Mapping[str, int]
    """Published number of sentence pairs by part: `train`, `valid` and `test`."""
    licence: str | None
    """None if it is not known."""
    citation: str


CATALOGUE = (
    Entry(
        name="IWSLT14",
        languages=("de", "en"),
        description="TED talks as in the published benchmark: lower-cased and tokenised by its authors",
        config="iwslt14.yaml",
        pairs={"train": 160_239, "valid": 7_283, "test": 6_750},
        licence=None,
        citation="M. Cettolo, J. Niehues, S. Stüker, L. Bentivogli, M. Federico, 2014: Report on the 11th IWSLT "
        "Evaluation Campaign",
    ),
    Entry(
        name="IWSLT17",
        languages=("de", "en"),
        description="TED talks, cased and not tokenised",
        config="base.yaml",
        pairs={"train": 206_112, "valid": 888, "test": 8_079},
        licence="CC BY-NC-ND 4.0, by the card of the dataset on the hub",
        citation="M. Cettolo, M. Federico, L. Bentivogli, J. Niehues, S. Stüker, K. Sudoh, K. Yoshino, C. Federmann, "
        "2017: Overview of the IWSLT 2017 Evaluation Campaign, https://aclanthology.org/2017.iwslt-1.1",
    ),
)


def entries_of(languages: tuple[str, str]) -> list[Entry]:
    """Return the entries for a language pair, in any order."""
    return [entry for entry in CATALOGUE if sorted(entry.languages) == sorted(languages)]


def find_entry(name: str, languages: tuple[str, str]) -> Entry | None:
    """Return the entry of this name for a language pair in any order; None if there is none. `IWSLT14` may be written
    `iwslt-14` or `iwslt2014`, too."""
    return next((entry for entry in entries_of(languages) if _plain(entry.name) == _plain(name)), None)


def _plain(name: str) -> str:
    return re.sub(r"[-_ ]|20(?=\d\d$)", "", name.casefold())
