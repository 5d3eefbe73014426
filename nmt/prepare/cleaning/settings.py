"""Settings of cleaning, which repairs text and drops training pairs. All steps are off by default."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from nmt.section import Section

NEAR_DUPLICATES = "near_duplicates"
RepairName = Literal["encoding", "entities", "control", "spaces", "NFC", "NFKC", "letters"]
Reason = Literal[
    "copied", "broken", "shouted", "links", "tags", "numbers", "sentences", "truncated", "language", "near_duplicates"
]


class CleanConfig(Section):
    """Cleaning of the training text. null means that a step is skipped, unless its description states another default.
    `clean` of a training corpus overrides single settings; 0, false or [] switches a step off."""

    repair: list[RepairName] | None = None
    """Repairs of the text. encoding: restore text that was decoded with the wrong encoding (`schÃ¶n`); requires the
    `clean` extra. entities: replace HTML entities (`&amp;`) by the characters they stand for. control: remove control
    characters, for which pairs are dropped otherwise. NFC, NFKC: bring the text to this Unicode normal form; NFKC also
    replaces compatibility characters such as ligatures and full-width letters. spaces: collapse each run of white space
    to one space, and remove zero-width spaces and soft hyphens. letters (only in `data.clean`): write letters that
    stand for one another, such as ي and ی in Persian, in the form that the training text of the language mostly has,
    and remove tatweels from Arabic text and marks of direction from text from right to left; this applies to
    development and test sets, too, and to all text that the model reads."""
    drop: list[Reason] | None = None
    """Reasons to drop a pair. copied: the sides differ only in case, accents, digits, punctuation and white space
    (pairs with equal sides are always dropped). broken: the Unicode replacement character, private-use characters, or
    wrongly decoded text that could not be repaired; requires the `clean` extra. shouted: a side is entirely in
    capitals. links, tags, sentences: the sides have different numbers of web and e-mail addresses, different tags
    (`<b>`) or placeholders (`{0}`, `%s`), or different numbers of sentences. numbers: a number occurs on one side only;
    numbers up to 12, which are often spelled out, and punctuation within numbers are ignored. truncated: one side ends
    with final punctuation and the other breaks off mid-sentence. language: a side is clearly in another language;
    requires the `clean` extra, and takes far longer than all other steps. Reasons that do not apply to a language, such
    as truncated to Thai, or language to one that cannot be identified, are left out with a warning. near_duplicates
    (only in `data.clean`): of several pairs that differ only in case, accents, digits, punctuation and white space,
    keep only the one with the best score, or else the first; exact duplicates are always removed in this way."""
    overlap: Literal["exact", "normal", "either"] | None = None
    """Which training pairs overlap with the development and test sets and are dropped. exact (default): both sides
    occur there. normal: both do if case, accents, digits, punctuation and white space are ignored. either: one of them
    does, compared in the same way."""
    max_words: int | None = Field(None, ge=0)
    """Maximum number of space-separated words of a side, such as 150; longer pairs are dropped."""
    max_word_chars: int | None = Field(None, ge=0)
    """Maximum length of a word in characters, such as 40; pairs with a longer word are dropped. Links and languages
    written without spaces are exempt."""
    min_script: float | None = Field(None, ge=0.0, le=1.0)
    """Minimum share of letters that belong to a script of the side's language, such as 0.5; pairs below it are dropped.
    A script can be part of the language code, as in sr_Latn; if it is unknown, it is that of most of the text."""
    block_lists: dict[str, str] | None = None
    """Language code -> file, relative to `data.root`, with one word or phrase per line. Pairs that contain one of them
    on that side, in any case, are dropped. A line `/.../` is a regular expression; a line that starts with # is a
    comment."""
    misaligned: float | None = Field(None, ge=0.0, lt=1.0)
    """Drop pairs whose sides are not translations of each other, at the cost of losing at most this share of the good
    pairs, such as 0.03. The filter is learned from the corpus itself; a corpus of fewer than 1,000 pairs is left
    as it is."""


class CorpusClean(CleanConfig):
    """Cleaning of one training corpus where it differs from `data.clean`."""

    max_chars: int | None = Field(None, ge=1)
    """Overrides `data.max_chars`."""
    max_ratio: float | None = Field(None, ge=1.0)
    """Overrides `data.max_ratio`."""
    min_score: float | None = None
    """Minimum score of a pair, for a corpus with `score`; pairs with a lower score are dropped."""

    @field_validator("drop", "repair")
    @classmethod
    def _check_own(cls, steps: list[str] | None) -> list[str] | None:
        if of_all := {NEAR_DUPLICATES, "letters"} & {*(steps or ())}:
            raise ValueError(f"{min(of_all)} concerns all corpora: set it in data.clean")
        return steps

    def over(self, shared: CleanConfig) -> CorpusClean:
        """Return a copy in which settings that are None are replaced by those in `others`."""
        given = {name: getattr(shared, name) for name in CleanConfig.model_fields if getattr(self, name) is None}
        return self.model_copy(update=given)
