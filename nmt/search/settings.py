"""Settings of the search for translations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from nmt.section import Section, raise_together
from nmt.text.patterns import pattern_problem


@dataclass(frozen=True)
class BatchSize:
    """Maximum size of a batch in `sentences` and in source `tokens` (rows x longest row)."""

    sentences: int
    tokens: int


AUTO = {"cpu": BatchSize(128, 4096), "cuda": BatchSize(512, 16_384)}
CPU_HYPOTHESES = 320
"""Number of hypotheses in a batch beyond which translation on a CPU does not become faster."""


def _check_tags(tags: list[str]) -> list[str]:
    """Return tags in the order in which training has them."""
    names = [tag.partition("=")[0] for tag in tags]
    for tag in tags:
        if "=" not in tag:
            raise ValueError(f"must have the form NAME=VALUE, such as domain=help; found {tag!r}")
    if "to" in names:
        raise ValueError(f"the target language is chosen by --to; found {', '.join(tags)}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"must have one value of {twice[0]}, found {', '.join(tags)}")
    return sorted(tags)


class SearchConfig(Section):
    """Settings of the search for translations."""

    beam: int = Field(5, ge=1, le=1000)
    """Beam size: number of hypotheses kept per sentence. 1 is greedy search."""
    length_penalty: float = Field(1.0, ge=-10.0, le=10.0)
    """Exponent A of the length penalty, by which the log-probability of a hypothesis is divided; 0: no penalty."""
    length_penalty_kind: Literal["power", "gnmt"] = "power"
    """power: length^A. gnmt: ((5 + length) / 6)^A (Wu et al., 2016). Lengths are in pieces, end of sentence
    included."""
    coverage_penalty: float = Field(0.0, ge=0.0, le=10.0)
    """Weight of the coverage penalty for source pieces that received little attention (Wu et al., 2016, equation 15):
    the sum of ln(min(attention received, 1)), added to the score. Attention is taken from the second-to-last layer."""
    patience: float = Field(1.5, ge=0.0, le=1000.0)
    """Stop when patience * beam hypotheses of a sentence have finished, or no unfinished one can become better; 0: only
    the latter. 1, the behaviour of many toolkits, is slightly faster but may stop before the best hypothesis."""
    diversity_groups: int = Field(1, ge=1)
    """Number of groups into which the beam is divided. Each group is penalized for pieces that earlier groups chose at
    the same step (diverse beam search; Vijayakumar et al., 2016)."""
    diversity: float = Field(0.5, ge=0.0, le=1000.0)
    """Penalty, in nats, on a piece for each time that earlier groups chose it. It has no effect with one group."""
    sample: bool = False
    """Whether to sample translations from the model instead of searching for the best; n_best samples are drawn."""
    temperature: float = Field(1.0, gt=0.0, le=1000.0)
    """Sampling: the logits are divided by this. Values below 1 sharpen the distribution, values above 1 flatten it."""
    top_k: int = Field(0, ge=0, le=1_000_000)
    """Sampling: draw only from this many most probable pieces; 0: from all."""
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    """Sampling: draw only from the smallest set of most probable pieces whose probabilities add up to at least this
    (nucleus sampling; Holtzman et al., 2020)."""
    seed: int = Field(1, ge=0)
    """Random seed of sampling. The samples of line n depend only on the seed and n (with CTranslate2 also on nearby
    lines)."""
    mbr: Literal["none", "chrf"] = "none"
    """Minimum Bayes risk decoding: of as many translations as the beam size (the best of the beam, or samples), choose
    the one with the highest mean sentence-level chrF against the others."""
    lm: str | None = None
    """Run of a language model of the target language with the same tokenizer. Its log-probabilities are added to those
    of the translation model at every step (shallow fusion; Gulcehre et al., 2015)."""
    lm_weight: float = Field(0.1, ge=0.0, le=10.0)
    """Weight of the language model's log-probabilities."""
    min_length: int = Field(0, ge=0, le=1000)
    """Minimum length of a translation in pieces, excluding the end of sentence. In lines that are split it applies to
    each part."""
    max_length_ratio: float = Field(2.0, ge=0.0, le=100.0)
    """A translation has at most max_length_ratio * source length + max_length_offset pieces, including the end of
    sentence; with ratio 0, all have the same limit. The ratio is at most 1 if the pieces of a source occur 8 times each
    on average, because models tend to repeat repetitive text endlessly."""
    max_length_offset: int = Field(10, ge=1, le=10_000)
    """Constant term of the maximum length, in pieces; see max_length_ratio."""
    no_repeat_ngram: int = Field(0, ge=0, le=1000)
    """Length, in pieces, of n-grams that may occur only once in a translation; 0: no restriction."""
    split: Literal["auto", "long", "always", "never"] = "auto"
    """When to translate the sentences of a line separately and join the translations. long: lines longer than
    data.max_pieces. always: all lines, for models trained on single sentences, which tend to omit text if a line has
    several. never: no lines. auto: always if less than 2% of the training pairs have several sentences, unless
    training.modifiers.join is given, otherwise long; chosen when training starts, and recorded in the run. Imported
    models have always. A sentence that is still too long is split further."""
    context: int = Field(0, ge=0, le=10)
    """Number of sentences before each sentence that are read with it; their translations, already found, are read
    before its own begins. For models trained with training.modifiers.join, which learn up to 3. Sentences with terms or
    protected text are translated without it. A document ends at a blank line, after 4,096 lines, or where input that
    arrives slowly pauses. Line n of all documents is translated at the same time, so a single document takes several
    times as long. In validations during training, the context is the line before, or as many as this says."""
    to: str | None = None
    """Target language of an imported model that has several, as its tags name it: deu for >>deu<<. null: the one chosen
    by nmt import --to, or else that of the tag at the start of each line. Set by `--to`."""
    tags: Annotated[list[str], AfterValidator(_check_tags)] | None = None
    """Tags of the text, such as [domain=help], of those that the training corpora have (`data.train.0.tags`). null: a
    test set is translated with its own, other text without any. Set by `--tag`."""
    protect: Literal["placeholders"] | bool | list[str] = False
    """Copy these from the source to the translation unchanged, as constraints of the search: URLs (https://example.org,
    www.example.org), e-mail addresses, XML and HTML tags (<b>, </b>, <br/>, in the order of the source) and entities
    (&amp;), placeholders ({name}, {0:.2f}, {{ name }}, {% if x %}, ${name}, $NAME, %s, %1$d, %(name)s, %%, __NAME__)
    and numbers (7, 3.5, 1,000, 12:30, 2026-11-20, -5, 50%). Numbers are copied even if the target language writes them
    differently; `placeholders` protects everything except numbers, as far as this does not take too long: about ten
    short ones in a sentence, or one URL of about 100 characters; [placeholders] has no such limit. A list has regular
    expressions (Python's re module, case-sensitive) whose matches are copied, such as '[A-Z]{2,}-[0-9]+' for AB-123;
    the entries `placeholders` and `numbers` stand for the above. The longest of overlapping matches is used. A
    pattern that takes longer than 2 seconds on a line ends the translation: use possessive quantifiers, such as a++b,
    instead of (a+)+b, which backtracks for hours on some lines."""
    inline_terms: bool = False
    """Insert the translations of glossary terms into the source instead of constraining the search, for models trained
    with training.modifiers.terms. The model may inflect terms, or ignore some. Search is as fast as without a glossary
    and supports all other settings."""
    exact_matches: bool = True
    """Return translations of a translation memory (--tm) as they are where a text occurs in it. false: also translate
    these texts, with the translation of the memory beside them, for models trained with training.modifiers.fuzzy."""
    batch_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | Literal["auto"] = "auto"
    """Maximum number of source tokens in a batch including padding (rows x longest row). auto: 16,384 on a GPU, 4,096
    on a CPU. Lower it if memory runs out."""

    @property
    def group_size(self) -> int:
        """Number of hypotheses per group; the whole beam unless diverse beam search is used."""
        return self.beam // self.diversity_groups

    def batch_size(self, device: str) -> BatchSize:
        """Return the maximum size of a batch on a device ("cpu", "cuda")."""
        auto = AUTO[device]
        sentences = auto.sentences
        tokens = self.batch_tokens
        if device == "cpu":
            sentences = min(sentences, max(1, CPU_HYPOTHESES // self.beam))
        if tokens == "auto":
            tokens = auto.tokens
        return BatchSize(sentences, tokens)

    def with_tags(self, tags: list[str]) -> SearchConfig:
        """Return these settings with the tags of a text, unless they have tags already."""
        return self.model_copy(update={"tags": tags}) if self.tags is None and tags else self

    @property
    def protected(self) -> list[str]:
        """The value of `protect` as a list."""
        if isinstance(self.protect, list):
            return self.protect
        return ["placeholders", "numbers"][: {False: 0, "placeholders": 1, True: 2}[self.protect]]

    @model_validator(mode="after")
    def _check_search_settings(self) -> SearchConfig:
        problems = []
        if self.beam % self.diversity_groups:
            problems.append(
                f"diversity_groups: a beam of {self.beam} cannot be divided into {self.diversity_groups} equal groups"
            )
        for i, pattern in enumerate(self.protected):
            if problem := pattern_problem(pattern):
                problems.append(f"protect.{i}: {problem}, found {pattern!r}")
        raise_together(problems)
        return self
