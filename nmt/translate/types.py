"""What is asked of a translator, and what it answers.

A `Line` is what a user gives: text, and what its translation must be like. It becomes one or several `Sentence`s, which
are searched for, and their hypotheses become its `Translation`s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from nmt.config import BatchSize, SearchConfig
from nmt.errors import ConfigError
from nmt.search.phrases import n_within, term_ids, width
from nmt.text.asked import asked_of
from nmt.text.glossary import Glossary
from nmt.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Line:
    """A line of text and what is asked of its translation."""

    text: str
    prefix: str = ""
    """The text that the translation starts with."""
    terms: tuple[str, ...] = ()
    """Texts that the translation must hold."""
    glossary: Glossary | None = None
    """The translation must hold the translations of those of its terms that the text has."""


@dataclass(frozen=True)
class Sentence:
    """A source sentence as search takes it; a long line has several."""

    text: str
    separator: str
    """The white space that follows it in its line."""
    src_ids: Sequence[int]
    """Without `</s>`; none for a blank one."""
    key: int
    """What its random draws depend on."""
    prefix: Sequence[int] = ()
    phrases: tuple[tuple[int, ...], ...] = ()
    """The terms."""
    n_ordered: int = 0
    """So many of these, the first, must stand in their order."""
    cut: bool = False
    """True if the line had more ids than the model can make anything of."""
    whole: bool = False
    """True if it is a line that would have been split, but for its terms."""


@dataclass(frozen=True)
class Part:
    """A source sentence and its translation, as ids without special ones."""

    src_ids: Sequence[int]
    tgt_ids: Sequence[int]


@dataclass(frozen=True)
class Translation:
    """One translation of one line."""

    text: str
    score: float
    """What is ranked: log_prob divided by the length penalty, and the coverage penalty."""
    log_prob: float
    """The sum over all pieces and ends of sentence (nats)."""
    finished: bool = True
    """False if it, or a part of it, was ended by the length limit."""
    cut: bool = False
    """True if only the start of the line was read: it has more pieces than the model can make anything of."""
    whole: bool = False
    """True if the line would have been split, but for its terms, of which nobody knows the part."""
    parts: tuple[Part, ...] = field(default=(), repr=False)
    """One for each sentence into which the line was split."""


NO_TERMS = "terms go with plain beam search alone, without search.sample, diversity_groups, no_repeat_ngram"

BLANK = Translation("", 0.0, 0.0)
"""That of a blank line."""


def check_search(search: SearchConfig, n_best: int) -> None:
    """Raises ConfigError for settings of one request that do not go together."""
    problems = []
    if n_best < 1:
        problems.append(f"n_best: must be at least 1, found {n_best}")
    if n_best > search.beam and not search.sample:
        problems.append(f"n_best: {n_best} needs a beam of at least {n_best}, found search.beam {search.beam}")
    if search.mbr != "none" and n_best > 1:
        problems.append(f"n_best: search.mbr chooses one translation, found n_best {n_best}")
    if search.mbr != "none" and not search.sample and min(search.beam, search.mbr_candidates) == 1:
        problems.append(f"search.mbr: {search.mbr} chooses among several translations; take search.sample or a beam")
    for name in ("protect", "protect_patterns"):
        if getattr(search, name) and not takes_terms(search):
            problems.append(f"search.{name}: {NO_TERMS}")
    if problems:
        raise ConfigError(problems)


def takes_terms(search: SearchConfig) -> bool:
    """Whether translations found so can be made to hold terms."""
    return not (search.sample or search.diversity_groups > 1 or search.no_repeat_ngram)


def phrases_of(
    line: Line, text: str, search: SearchConfig, tokenizer: Tokenizer
) -> tuple[tuple[tuple[int, ...], ...], int]:
    """The phrases that the translation of a line must hold, or of a part of it, `text`: first the tags in their order;
    and how many these are. What the text asks for is asked for once more for each time that it stands within something
    else that the text asks for. Raises ConfigError if translations found so cannot be made to hold terms."""
    asked = asked_of(text, search, line.glossary)
    if (line.terms or asked) and not takes_terms(search):
        raise ConfigError([NO_TERMS])
    wanted = Counter(span.wanted for span in asked)
    tags = [span.wanted for span in asked if span.kind == "tag" and span.wanted.startswith("<")]
    ids = {term: tuple(term_ids(tokenizer, term)) for term in {*wanted, *line.terms}}
    others = wanted - Counter(tags)
    for term in others:
        others[term] += sum(n * n_within(ids[term], ids[other], tokenizer) for other, n in wanted.items())
    # what the line's own terms and its text both ask for stands once
    terms = [*tags, *(Counter(line.terms) | others).elements()]
    phrases = [ids[term] for term in terms]
    return tuple(filter(None, phrases)), sum(map(bool, phrases[: len(tags)]))


def n_wanted_of(search: SearchConfig, n_best: int) -> int:
    """How many hypotheses of each sentence are needed."""
    n = n_best if search.mbr == "none" else search.mbr_candidates
    return n if search.sample else min(n, search.beam)


def make_batches(
    sentences: Sequence[Sentence], search: SearchConfig, n_wanted: int, size: BatchSize
) -> list[list[int]]:
    """Rows of similar lengths together: at most size.sentences of at most size.tokens source tokens (rows x longest,
    end of sentence counted), or one row; those that need a wider beam apart and fewer.

    Blank rows are in none. Batches are in the order of their first rows, so that the first rows are done early.
    """
    beam = n_wanted if search.sample else search.beam
    widths = [width(sentence.phrases, beam) for sentence in sentences]
    rows = [row for row, sentence in enumerate(sentences) if sentence.src_ids]
    batches: list[list[int]] = []
    for row in sorted(rows, key=lambda row: (widths[row], len(sentences[row].src_ids))):
        n_rows = len(batches[-1]) + 1 if batches else 0
        fits = (
            batches
            and widths[batches[-1][0]] == widths[row]
            and n_rows <= size.sentences
            and n_rows * widths[row] <= size.sentences * search.beam
            and n_rows * (len(sentences[row].src_ids) + 1) <= size.tokens
        )
        if fits:
            batches[-1].append(row)
        else:
            batches.append([row])
    return sorted(batches, key=min)
