"""Input and output of a translator.

A `Line` is the input: text, and constraints on its translation. It becomes one or several `Sentence`s, which
are searched, and their hypotheses become its `Translation`s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nmt.config import SearchConfig
from nmt.errors import ConfigError
from nmt.text.constraints import Glossary

WINDOW = 4096
"""Lines, or pairs of lines, that are read ahead and sorted by length together."""

MAX_PARTS = 2**24
"""Upper bound of the number of sentences of a line."""


@dataclass(frozen=True)
class Line:
    """A line of text and the constraints on its translation."""

    text: str
    prefix: str = ""
    """Text that the translation starts with."""
    terms: tuple[str, ...] = ()
    """Texts that the translation must contain."""
    glossary: Glossary | None = None
    """The translation must contain the translations of its terms that occur in the text."""


@dataclass(frozen=True)
class Sentence:
    """A source sentence as search takes it; a long line has several."""

    text: str
    separator: str
    """The white space that follows it in its line."""
    src_ids: Sequence[int]
    """Without `</s>`; empty for a blank sentence."""
    key: int
    """Line number (from 0) * MAX_PARTS + index in the line; seeds its random draws."""
    max_length: int
    """Maximum length of its translation in pieces, `</s>` counted."""
    prefix: Sequence[int] = ()
    phrases: tuple[tuple[int, ...], ...] = ()
    """The terms, as ids."""
    n_ordered: int = 0
    """Number of phrases, the first ones, that must occur in their order."""
    cut: bool = False
    """True if the line had more ids than the model can take."""
    whole: bool = False
    """True if it is a line that would have been split without its terms."""


@dataclass(frozen=True)
class Part:
    """A source sentence and its translation, as ids without special tokens."""

    src_ids: Sequence[int]
    tgt_ids: Sequence[int]


@dataclass(frozen=True)
class Translation:
    """One translation of one line."""

    text: str
    score: float
    """The ranking criterion: log_prob divided by the length penalty, plus the coverage penalty."""
    log_prob: float
    """Sum over all pieces and ends of sentence (nats)."""
    finished: bool = True
    """False if it, or a part of it, was ended by the length limit."""
    cut: bool = False
    """True if only the start of the line was translated: it has more pieces than the model can take."""
    whole: bool = False
    """True if the line would have been split without its terms, whose part is unknown."""
    parts: tuple[Part, ...] = field(default=(), repr=False)
    """One for each sentence of the line."""


BLANK = Translation("", 0.0, 0.0)
"""The translation of a blank line."""

NOT_INLINE = "search.inline_terms: the model was not trained with training.modifiers.terms"
NO_TERMS = "terms need plain beam search, without search.sample, diversity_groups or no_repeat_ngram"


def check_search(search: SearchConfig, n_best: int) -> None:
    """Raise ConfigError for settings of a request that are incompatible."""
    problems = []
    if n_best < 1:
        problems.append(f"n_best: must be at least 1, found {n_best}")
    if n_best > search.beam and not search.sample:
        problems.append(f"n_best: {n_best} needs a beam of at least {n_best}, found search.beam {search.beam}")
    if search.mbr != "none" and n_best > 1:
        problems.append(f"n_best: search.mbr chooses one translation, found n_best {n_best}")
    if search.mbr != "none" and search.beam == 1:
        problems.append(f"search.mbr: {search.mbr} chooses among several translations; take a beam above 1")
    if search.protect and not takes_terms(search):
        problems.append(f"search.protect: {NO_TERMS}")
    if problems:
        raise ConfigError(problems)


def takes_terms(search: SearchConfig) -> bool:
    """Whether this kind of search supports terms."""
    return not (search.sample or search.diversity_groups > 1 or search.no_repeat_ngram)
