"""Settings of search."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, model_validator

from nmt.config.section import Section, raise_together


@dataclass(frozen=True)
class BatchSize:
    """The maximum size of a batch: `sentences`, and source `tokens` (rows x longest row)."""

    sentences: int
    tokens: int


AUTO = {"cpu": BatchSize(128, 4096), "cuda": BatchSize(512, 16_384)}
CPU_HYPOTHESES = 320
"""On a CPU, more hypotheses in a batch gain nothing."""


class SearchConfig(Section):
    """Settings of the search for translations."""

    beam: int = Field(5, ge=1)
    """Hypotheses kept per sentence; 1 is greedy search."""
    length_penalty: float = Field(1.0, ge=-10.0, le=10.0)
    """Exponent A of the length penalty, the divisor of a hypothesis's log-probability; 0 is no penalty."""
    length_penalty_kind: Literal["power", "gnmt"] = "power"
    """power: length^A; gnmt: ((5 + length) / 6)^A (Wu et al., 2016). Length is in pieces, end of sentence counted."""
    coverage_penalty: float = Field(0.0, ge=0.0, le=10.0)
    """Weight of the penalty for source pieces that received little attention (Wu et al., 2016, equation 15): the sum of
    ln(min(attention received, 1)), added to the score. Attention is that of the layer before the last."""
    patience: float = Field(1.5, ge=0.0)
    """A sentence is done when patience * beam hypotheses have finished, or when no live one can become better; 0 waits
    for the latter alone. With 1, as in many toolkits, search is a little faster but may stop before the best."""
    diversity_groups: int = Field(1, ge=1)
    """Groups into which the beam is divided; each is penalized for pieces that earlier groups chose at the same step
    (diverse beam search, Vijayakumar et al., 2016)."""
    diversity: float = Field(0.5, ge=0.0)
    """Penalty on a piece for each time that earlier groups chose it (nats); has no effect with one group."""
    sample: bool = False
    """Sample translations from the model instead of searching for the best; n_best is how many."""
    temperature: float = Field(1.0, gt=0.0)
    """With sample, divides the logits: below 1 sharpens the distribution, above 1 flattens it."""
    top_k: int = Field(0, ge=0)
    """With sample, draw from this many most probable pieces; 0 draws from all."""
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    """With sample, draw from the fewest most probable pieces whose probabilities sum to this (nucleus sampling,
    Holtzman et al., 2020)."""
    seed: int = Field(1, ge=0)
    """Random seed; samples for line n depend on it and n alone (with CTranslate2 also on the lines around it)."""
    mbr: Literal["none", "chrf", "bleu"] = "none"
    """Minimum Bayes risk decoding: of mbr_candidates translations (the beam's best, or samples) choose the one most
    similar to all others by this metric."""
    mbr_candidates: int = Field(16, ge=1)
    """Candidates of mbr; with beam search at most the beam."""
    lm: str | None = None
    """Run of a language model of the target language, with the same tokenizer, whose log-probabilities are added to
    those of the translator at every step (shallow fusion, Gulcehre et al., 2015)."""
    lm_weight: float = Field(0.1, ge=0.0, le=10.0)
    """Weight of the log-probabilities of lm."""
    min_length: int = Field(0, ge=0)
    """Minimum length of a translation (of each part of a line that is split) in pieces, end of sentence not counted."""
    max_length: int = Field(0, ge=0)
    """Maximum length of a translation in pieces, end of sentence not counted; 0: only max_length_ratio and
    max_length_offset limit it."""
    max_length_ratio: float = Field(2.0, ge=0.0)
    """A translation has at most max_length_ratio * source length + max_length_offset pieces. For a source whose pieces
    occur 8 times each on average, a ratio above 1 counts as 1: models tend to translate repetitions without end."""
    max_length_offset: int = Field(10, ge=1)
    """See max_length_ratio (pieces)."""
    no_repeat_ngram: int = Field(0, ge=0)
    """No n-gram of this many pieces occurs twice in a translation; 0 allows all."""
    split: Literal["long", "always", "never"] = "long"
    """Translate the sentences of a line one by one and join them: for lines longer than data.max_pieces (long), or for
    all (always). A model trained on single sentences omits most of several; a sentence that is too long is cut
    further."""
    protect: Literal["placeholders"] | bool = False
    """Copy from the source to the translation, unchanged, as constraints: URLs (https://example.org,
    www.example.org), e-mail addresses, XML and HTML tags (<b>, </b>, <br/>, in the order of the source) and entities
    (&amp;), placeholders ({name}, {0:.2f}, {{name}}, ${name}, $NAME, %s, %1$d, %(name)s, __NAME__) and numbers (7, 3.5,
    1,000, 12:30, 2026-11-20, -5, 50%). Numbers are copied even where their form should change; with `placeholders`,
    numbers are left to the model."""
    protect_patterns: list[str] = Field([])
    """Regular expressions (Python's re module, case-sensitive) whose matches in the source are copied to the
    translation, with or without protect: '[A-Z]{2,}-[0-9]+' for AB-123. Of overlapping matches the longest counts.
    There is no time limit: a pattern with catastrophic backtracking, such as (a+)+b, may not terminate on some lines;
    use possessive quantifiers, a++b."""
    inline_terms: bool = False
    """Give the model the translations of glossary terms in the source instead of requiring them of the search: for
    models trained with training.modifiers.terms, which may inflect them, or ignore some. Search is as fast as without a
    glossary, and all kinds of search support it."""
    batch_sentences: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """Maximum number of sentences in a batch; auto: on a CPU 320 divided by the beam, at most 128; 512 on a GPU."""
    batch_tokens: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """Maximum number of source tokens in a batch, rows x longest row; auto: 4,096 on a CPU, 16,384 on a GPU. Lower it
    if memory runs out."""

    @property
    def group_size(self) -> int:
        """Hypotheses of a group; the whole beam unless search is diverse."""
        return self.beam // self.diversity_groups

    def batch_size(self, device: str) -> BatchSize:
        """Return the maximum size of a batch on a device ("cpu", "cuda")."""
        auto = AUTO[device]
        sentences = min(auto.sentences, max(1, CPU_HYPOTHESES // self.beam)) if device == "cpu" else auto.sentences
        return BatchSize(
            sentences if self.batch_sentences == "auto" else self.batch_sentences,
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
            problems.append("sample: diversity_groups and coverage_penalty belong to beam search, not to sampling")
        for i, pattern in enumerate(self.protect_patterns):
            if problem := _pattern_problem(pattern):
                problems.append(f"protect_patterns.{i}: {problem}, found {pattern!r}")
        raise_together(problems)
        return self


def _pattern_problem(pattern: str) -> str | None:
    """Return the error message for an invalid regular expression, None if it is valid."""
    try:
        with warnings.catch_warnings(action="error"):  # for patterns that other versions of Python read differently
            matches_empty = re.compile(pattern).search("") is not None
    except (re.error, ValueError, OverflowError, RecursionError, Warning) as error:
        return f"not a regular expression: {error}"
    return "matches the empty text" if matches_empty else None
