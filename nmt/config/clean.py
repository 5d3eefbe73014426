"""Settings of cleaning: what is repaired, and which training pairs are dropped. By default nothing of this is done."""

from __future__ import annotations

from typing import Literal, TypeVar

from pydantic import Field

from nmt.config.section import Section

_Steps = TypeVar("_Steps", bound="CleanSteps")


class CleanSteps(Section):
    """Steps of cleaning that may differ between corpora."""

    # None: as for all corpora, or else not done; 0, false and none switch a step off for one corpus
    repair_encoding: bool | None = None
    """Whether text that was decoded with the wrong encoding (`schÃ¶n`) is restored. Needs the extra `clean`."""
    repair_entities: bool | None = None
    """Whether HTML entities (`&amp;`) are replaced by their characters."""
    repair_control: bool | None = None
    """Whether control characters are removed; otherwise their pairs are dropped."""
    unicode_form: Literal["none", "NFC", "NFKC"] | None = None
    """The Unicode normal form that text is brought into; NFKC also replaces ligatures, full-width letters and such."""
    repair_spaces: bool | None = None
    """Whether each run of white space of any kind becomes one space, and zero-width spaces and soft hyphens are
    removed."""
    overlap: Literal["exact", "normal"] | None = None
    """How training pairs are compared with the development and test sets: by their exact text (default), or without
    case, accents, digits, punctuation and white space."""
    overlap_sides: Literal["both", "either"] | None = None
    """Whether both sides of a pair (default) or either must be in a development or test set for it to be dropped."""
    copied: Literal["exact", "normal"] | None = None
    """Which pairs count as copied source: those with exactly the same text on both sides (default), or the same without
    case, accents, digits, punctuation and white space."""
    broken: bool | None = None
    """Whether pairs are dropped that contain the replacement character, a private one, or text decoded with the wrong
    encoding that could not be repaired. Needs the extra `clean`."""
    max_words: int | None = Field(None, ge=0)
    """Maximum number of words of a side, separated by spaces, such as 150; longer pairs are dropped."""
    max_word_chars: int | None = Field(None, ge=0)
    """Maximum length of a word in characters, such as 40, in languages that are written with spaces; links do not
    count. Pairs with a longer one are dropped."""
    shouted: bool | None = None
    """Whether pairs are dropped with a side all in capitals."""
    min_script: float | None = Field(None, ge=0.0, le=1.0)
    """Minimum share of the letters of a side that are in a script of its language, such as 0.5; other pairs are
    dropped."""
    block_lists: dict[str, str] | None = None
    """Language code -> file under `data.root` with a word or expression in each line; pairs with one of them on that
    side are dropped, whatever its case. A line `/.../` is a regular expression, a line that begins with # a comment."""
    same_links: bool | None = None
    """Whether pairs are dropped that do not have as many web and e-mail addresses on both sides."""
    same_tags: bool | None = None
    """Whether pairs are dropped that do not have the same tags (`<b>`) and placeholders (`{0}`, `%s`) on both sides."""
    same_numbers: bool | None = None
    """Whether pairs are dropped with a number on one side that is not on the other. Numbers up to 12, which are often
    written as words, and marks within numbers do not count."""
    same_sentences: bool | None = None
    """Whether pairs are dropped that do not have as many sentences on both sides."""
    truncated: bool | None = None
    """Whether pairs are dropped with a side that ends within a sentence, where the other ends with its punctuation."""
    language: bool | None = None
    """Whether pairs are dropped with a side that is clearly in another language. Needs the extra `clean`, and far more
    time than all other steps."""
    max_ratio_spread: float | None = Field(None, ge=0.0)
    """Maximum distance of the length ratio of a pair from the median of its corpus, in median absolute deviations, such
    as 6; other pairs are dropped."""
    misaligned: float | None = Field(None, ge=0.0, lt=1.0)
    """Maximum share of good pairs that may be lost, such as 0.03, in order to drop those whose sides do not translate
    each other; which do is learned from the corpus itself. Nothing is dropped of a corpus of less than 1,000 pairs."""

    def over(self: _Steps, others: CleanSteps) -> _Steps:
        """Return these steps, with those of `others` that are not given here."""
        given = {name: getattr(others, name) for name in CleanSteps.model_fields if getattr(self, name) is None}
        return self.model_copy(update=given)


class CleanConfig(CleanSteps):
    """Cleaning of the training text. Null: not done, unless the description says otherwise. `clean` of a training
    corpus changes single steps for it; there 0, false and none switch a step off."""

    near_duplicates: bool | None = None
    """Whether of pairs that differ only in case, accents, digits, punctuation and white space one is kept: that with
    the best score, or else the first. Of exact duplicates this is always so."""
    max_targets: int | None = Field(None, ge=1)
    """Maximum number of targets kept for one source: those with the best scores, or else the first."""
    max_sources: int | None = Field(None, ge=1)
    """Maximum number of sources kept for one target, as above."""


class CorpusClean(CleanSteps):
    """Cleaning of one training corpus: what differs from `data.clean`."""

    max_chars: int | None = Field(None, ge=1)
    """In place of `data.max_chars`."""
    max_ratio: float | None = Field(None, ge=1.0)
    """In place of `data.max_ratio`."""
    min_score: float | None = None
    """Minimum score of a pair, in a corpus with `score`; pairs with a lower one are dropped."""
