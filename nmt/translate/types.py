"""The input and output types of a translator, and what it knows of its model.

A `Line` is the input: text, and constraints on its translation. It becomes one or several `Sentence`s, which are
searched, and their `Hypothesis`es become its `Translation`s.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple, TypeVar

from nmt.errors import ConfigError
from nmt.languages.directions import choose_direction, sides_of
from nmt.search.settings import SearchConfig
from nmt.text.constraints import Glossary
from nmt.text.translated import Translated
from nmt.translate.memory import MATCH_KINDS, Match, MatchKind, TranslationMemory

_Ranked = TypeVar("_Ranked")
WINDOW = 4096
"""Number of lines, or pairs of lines, that are read ahead and sorted by length together."""

MAX_PARTS = 2**24
"""Upper bound of the number of sentences of a line."""


@dataclass(frozen=True)
class Conventions:
    """The languages of a translator, and what the lines that its model was trained on contain besides text."""

    direction: str
    """Source and target language, such as `de-en`."""
    max_pieces: int
    """Maximum number of pieces of a line in training."""
    choices: Sequence[str] = ()
    """The directions of a model with several, of which one must be chosen before lines are translated."""
    language_tag: Sequence[str] = ()
    """The tag of the target language, which is before every source; none if the model has one direction."""
    tag_names: Sequence[str] = ()
    """The tags of the training corpora of this direction."""
    joins: bool = False
    """Whether lines may consist of several sentences with separators between them (training.modifiers.join)."""
    inline_terms: bool = False
    """Whether sources may contain translations of their terms (training.modifiers.terms)."""
    fuzzy_threshold: float | None = None
    """The least similarity of a text whose translation is read beside the source (training.modifiers.fuzzy); None: the
    model reads none."""

    @property
    def src(self) -> str:
        """The source language."""
        return sides_of(self.direction)[0]

    @property
    def tgt(self) -> str:
        """The target language."""
        return sides_of(self.direction)[1]

    def check_chosen(self) -> None:
        """Raise ConfigError if the model has several directions and none was chosen."""
        if self.choices:
            choose_direction(self.choices, self.direction, None, None)


@dataclass(frozen=True)
class Line:
    """A line of text and the constraints on its translation."""

    text: str
    prefix: str = ""
    """Text at the start of the translation."""
    terms: tuple[str, ...] = ()
    """Texts that the translation must contain."""
    glossary: Glossary | None = None
    """Terms with their translations; if a term occurs in the text, its translation must occur in the translation."""
    tm: TranslationMemory | None = None
    """Translation memory. Exact matches are not used for a line with `prefix` or `terms`."""
    similar: str = ""
    """The translation of a similar text, which a model trained with `training.modifiers.fuzzy` reads beside the line.
    Without it, the translation of the most similar segment of `tm`."""
    is_first: bool = False
    """Whether a document begins with this line, so that its context is only `before`; see `search.context`."""
    before: tuple[tuple[str, str], ...] = ()
    """The sentences before a line with `is_first`, with their translations."""
    flag: str = ""
    """The flag of gettext, one of the `GRAMMARS`, if the line belongs to a format string."""


@dataclass(frozen=True)
class Sentence:
    """A source sentence, the input of the search; a long line has several."""

    text: str
    separator: str
    """White space after the sentence in its line."""
    src_ids: Sequence[int]
    """Token ids without `</s>`; empty for a blank sentence."""
    key: int
    """Line number (from 0) * MAX_PARTS + index in the line; the seed of its random numbers."""
    max_length: int
    """Maximum length of the translation in pieces, including `</s>`."""
    given: Sequence[int] = ()
    """Target tokens before the translation, which are not part of it: the translation of the context."""
    n_joined: int = 1
    """The number of sentences that it consists of, with separators between them."""
    prefix: Sequence[int] = ()
    """Token ids with which the translation starts."""
    phrases: tuple[tuple[int, ...], ...] = ()
    """Token ids of each required term."""
    n_ordered: int = 0
    """Number of leading phrases that must occur in their order."""
    cut: bool = False
    """True if the sentence was truncated because it has more pieces than the model supports."""
    whole: bool = False
    """True if the sentence is a long line that was not split because of its terms."""
    match: Match | None = None
    """The translation in the translation memory, or a copy of a sentence without letters; such a sentence has no token
    ids and is not searched."""


@dataclass(frozen=True)
class Part:
    """A source sentence, and the sentence and its translation as token ids without special tokens."""

    text: str
    """The sentence as in the line, without a tag."""
    src_ids: Sequence[int]
    tgt_ids: Sequence[int]
    match: MatchKind | None = None
    """How the sentence matches a translation memory, or whether it was copied; None if the model has translated it."""


class Confidence(NamedTuple):
    """The expected quality of a translation, see `nmt.translate.confidence`."""

    chrf: float
    """The expected chrF, 0-100."""
    is_low: bool
    """Whether it is lower than for three quarters of the translations with which the run was calibrated."""


@dataclass(frozen=True, slots=True)
class Translation(Translated):
    """One translation of one line."""

    score: float = 0.0
    """The ranking criterion: log_prob divided by the length penalty, plus the coverage penalty."""
    log_prob: float = 0.0
    """Log-probability of all pieces and ends of sentence (nats)."""
    confidence: Confidence | None = None
    """None if it was not estimated, or there is nothing that the model has translated."""
    match: MatchKind | None = None
    """How the line matches a translation memory, or whether it was copied; None if the model has translated a part."""
    finished: bool = True
    """False if the translation, or a part of it, was cut off at the length limit."""
    cut: bool = False
    """True if only the start of the line was translated because it has more pieces than the model supports."""
    whole: bool = False
    """True if a long line was not split because it is unknown which part its terms belong to."""
    lost: tuple[str, ...] = ()
    """Placeholders, addresses and tags of the text that the translation lacks; a server finds them for the best one."""
    parts: tuple[Part, ...] = field(default=(), repr=False)
    """The part for each sentence of the line."""

    @property
    def searched(self) -> list[Part]:
        """The parts that the model has translated: neither copied nor taken from a translation memory."""
        return [part for part in self.parts if part.match in (None, "fuzzy")]


ESTIMATED = 64
"""Number of lines whose confidence is estimated together, so that a server need not wait for many."""


@dataclass(frozen=True)
class Options:
    """Options of a translation; lines with the same `key` may share a batch."""

    search: SearchConfig
    n_best: int = 1
    align: bool = False
    """Whether to align words, which requires `Translator.aligns`."""
    confidence: bool = False
    n_estimated: int = ESTIMATED
    """Number of lines whose confidence is estimated together."""

    @cached_property
    def key(self) -> str:
        """Hash of the options of a translation."""
        options = f"{self.n_best} {self.align} {self.confidence} {self.search.model_dump_json()}"
        return sha256(options.encode()).hexdigest()


def by_rank(by_text: Sequence[Sequence[_Ranked]]) -> list[list[_Ranked]]:
    """Return the best results of all texts, then the second-best ones, and so on, at least one of each.

    A text with fewer results than others has its last one.
    """
    n_ranks = max(map(len, by_text), default=1)
    return [[ranked[min(rank, len(ranked) - 1)] for ranked in by_text] for rank in range(n_ranks)]


def joint_match(kinds: Collection[MatchKind | None]) -> MatchKind | None:
    """Return how a text matches a translation memory, given how its parts do; None unless all of them do.

    Copied parts make no difference, unless all are.
    """
    return None if None in kinds else next((kind for kind in (*MATCH_KINDS, "copied") if kind in kinds), None)


BLANK_TRANSLATION = Translation("")
"""The translation of a blank line."""

NOT_INLINE = "search.inline_terms: the model was not trained with training.modifiers.terms"
NO_TERMS = "terms need plain beam search, without search.sample, diversity_groups or no_repeat_ngram"


def check_search(search: SearchConfig, n_best: int) -> None:
    """Raise ConfigError if search settings are incompatible with each other or with `n_best`."""
    problems = []
    if not 1 <= n_best <= 100_000:
        problems.append(f"n_best: must be from 1 to 100,000, found {n_best}")
    if n_best > search.beam and not search.sample:
        problems.append(f"n_best: {n_best} needs a beam of at least {n_best}, found search.beam {search.beam}")
    if search.mbr != "none" and n_best > 1:
        problems.append(f"n_best: search.mbr chooses one translation, found n_best {n_best}")
    if search.mbr != "none" and search.beam == 1:
        problems.append(f"search.mbr: {search.mbr} chooses among several translations; set search.beam above 1")
    if search.protect and not takes_terms(search):
        problems.append(f"search.protect: {NO_TERMS}")
    if problems:
        raise ConfigError(*problems)


def unprotected(search: SearchConfig) -> SearchConfig:
    """Return search settings without the default protection of placeholders."""
    return search.model_copy(update={"protect": False}) if search.protect == "placeholders" else search


def takes_terms(search: SearchConfig) -> bool:
    """Return whether a search with these settings supports terms."""
    return not (search.sample or search.diversity_groups > 1 or search.no_repeat_ngram)
