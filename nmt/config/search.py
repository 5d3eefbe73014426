"""Settings of the search for translations."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, model_validator

from nmt.config.section import Section, raise_together


@dataclass(frozen=True)
class BatchSize:
    """The most `sentences` of a batch, and the most source `tokens` (rows x longest row)."""

    sentences: int
    tokens: int


AUTO = {"cpu": BatchSize(64, 4096), "cuda": BatchSize(512, 16_384)}


class SearchConfig(Section):
    """How translations are searched for."""

    beam: int = Field(5, ge=1)
    """Hypotheses kept per sentence; 1 is greedy search."""
    length_penalty: float = Field(1.0, ge=-10.0, le=10.0)
    """Exponent A of the length penalty by which a hypothesis's log-probability is divided; 0 does not divide."""
    length_penalty_kind: Literal["power", "gnmt"] = "power"
    """power: length^A; gnmt: ((5 + length) / 6)^A (Wu et al., 2016). Length is in pieces, end of sentence counted."""
    coverage_penalty: float = Field(0.0, ge=0.0, le=10.0)
    """Weight of what is added to the score for source pieces that little attention went to (Wu et al., 2016,
    equation 15): the sum of ln(min(attention received, 1)). Attention is that of the layer before the last."""
    patience: float = Field(1.5, ge=0.0)
    """A sentence is done when patience * beam hypotheses have ended, or when none can still become better; 0 waits for
    the latter alone. With 1, as many toolkits have it, search is a little faster and stops too early for the best."""
    diversity_groups: int = Field(1, ge=1)
    """Groups into which the beam is divided; each is kept from the pieces that those before it took at the same step
    (Vijayakumar et al., 2016)."""
    diversity: float = Field(0.5, ge=0.0)
    """What a piece costs a group for each time that groups before it took it (nats); without effect in one group."""
    sample: bool = False
    """Draw translations at random from the model instead of searching for the best; n_best says how many."""
    temperature: float = Field(1.0, gt=0.0)
    """With sample, logits are divided by it before drawing: below 1 sharper, above 1 flatter."""
    top_k: int = Field(0, ge=0)
    """With sample, draw from so many likeliest pieces; 0 from all."""
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    """With sample, draw from the fewest likeliest pieces that have this probability together (Holtzman et al.,
    2020)."""
    seed: int = Field(1, ge=0)
    """The draws for line n of a text depend on this and n alone (by CTranslate2 on the lines beside it, too)."""
    mbr: Literal["none", "chrf", "bleu"] = "none"
    """Minimum Bayes risk: of mbr_candidates translations (the beam's best, or samples) take that which is most like
    all others by this metric."""
    mbr_candidates: int = Field(16, ge=1)
    """See mbr; a beam gives at most as many as it is wide."""
    min_length: int = Field(0, ge=0)
    """Least number of pieces of a translation (of each part of a line that is split), end of sentence not counted."""
    max_length: int = Field(0, ge=0)
    """Greatest number of pieces, end of sentence not counted; 0 sets none beside the next two."""
    max_length_ratio: float = Field(2.0, ge=0.0)
    """A translation has at most max_length_ratio * source length + max_length_offset pieces."""
    max_length_offset: int = Field(10, ge=1)
    """See max_length_ratio (pieces)."""
    no_repeat_ngram: int = Field(0, ge=0)
    """No sequence of so many pieces stands twice in a translation; 0 allows all."""
    split: Literal["long", "always", "never"] = "long"
    """Translate the sentences of a line one by one and join them: of lines longer than data.max_pieces, or of all. A
    model that has learned from single sentences leaves out most of several; one that is too long is cut further."""
    protect: bool = False
    """Copy from the source to the translation, unchanged and as constraints: URLs (https://example.org,
    www.example.org), e-mail addresses, XML and HTML tags (<b>, </b>, <br/>, in the order of the source) and entities
    (&amp;), placeholders ({name}, {0:.2f}, {{name}}, ${name}, $NAME, %s, %1$d, %(name)s, __NAME__) and numbers (7, 3.5,
    1,000, 12:30, 2026-11-20, -5, 50%). A number that should change its form is copied, too."""
    protect_patterns: list[str] = Field([])
    """Regular expressions (of Python's re module, case-sensitive); what they match in the source is copied to the
    translation as well, with or without protect: '[A-Z]{2,}-[0-9]+' for AB-123. Of overlapping matches the longest is
    taken. There is no time limit: a pattern that can match the same text in many ways, as (a+)+b can, takes for ever
    on some lines; write possessive quantifiers, a++b."""
    batch_sentences: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """Most sentences of a batch; auto: 64 on a CPU, 512 on a GPU, which is as fast with many as with few."""
    batch_tokens: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """Most source tokens of a batch, rows x longest row; auto: 4,096 on a CPU, 16,384 on a GPU. Lower it where memory
    does not suffice."""

    @property
    def group_size(self) -> int:
        """Hypotheses of a group; the whole beam unless search is diverse."""
        return self.beam // self.diversity_groups

    def batch_size(self, device: str) -> BatchSize:
        """The maximum size of a batch on a device ("cpu", "cuda")."""
        auto = AUTO[device]
        return BatchSize(
            auto.sentences if self.batch_sentences == "auto" else self.batch_sentences,
            auto.tokens if self.batch_tokens == "auto" else self.batch_tokens,
        )

    @model_validator(mode="after")
    def _check(self) -> SearchConfig:
        problems = []
        if self.beam % self.diversity_groups:
            problems.append(
                f"diversity_groups: a beam of {self.beam} cannot be divided into {self.diversity_groups} equal groups"
            )
        if self.max_length and self.min_length > self.max_length:
            problems.append(f"min_length: {self.min_length} is more than max_length, {self.max_length}")
        if self.sample and (self.diversity_groups > 1 or self.coverage_penalty):
            problems.append("sample: diversity_groups and coverage_penalty belong to a beam, nothing is searched here")
        for place, pattern in enumerate(self.protect_patterns):
            if problem := _pattern_problem(pattern):
                problems.append(f"protect_patterns.{place}: {problem}, found {pattern!r}")
        raise_together(problems)
        return self


def _pattern_problem(pattern: str) -> str | None:
    """What is wrong with a regular expression, in words."""
    try:
        with warnings.catch_warnings(action="error"):  # of what other versions of Python will read differently
            matches_empty = re.compile(pattern).search("") is not None
    except (re.error, ValueError, OverflowError, RecursionError, Warning) as error:
        return f"not a regular expression: {error}"
    return "matches the empty text" if matches_empty else None
