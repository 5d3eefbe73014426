"""Settings of the modifiers, which augment training pairs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from nmt.config.section import Section, raise_together

Rate = Annotated[float, Field(ge=0.0, le=1.0)]


class ModifiersConfig(Section):
    """Data augmentation: the share of training pairs to which each modifier is applied. Pairs are drawn anew in every
    epoch, and at most one modifier is applied to a pair."""

    upper_case: Rate = 0.0
    """Convert both sides to upper case, if the script of the source has case; typically 0.07."""
    title_case: Rate = 0.0
    """Capitalize Each Word on both sides, if the script of the source has case; typically 0.05."""
    lower_case: Rate = 0.0
    """Convert the source to lower case; the target keeps its capitals. Typically 0.05."""
    typos: Rate = 0.0
    """Swap, omit or double some letters of the source or replace them by neighbours on the keyboard (alphabetic scripts
    only); typically 0.05."""
    drop_end_punctuation: Rate = 0.0
    """Remove sentence-final punctuation from both sides, if both have it; typically 0.2."""
    noise: Rate = 0.0
    """Replace both sides by the same line of random symbols of many scripts, so that the model learns to copy unknown
    text; typically 0.0005."""
    placeholders: Rate = 0.0
    """Replace numbers, addresses and names that are the same on both sides by placeholders such as {name} or %s, so
    that the model learns to copy placeholders; typically 0.01."""
    tags: Rate = 0.0
    """Put tags such as <b> and </b> around both sides, or around a number, an address or a name that is the same on
    both, so that the model learns to copy tags; typically 0.005."""
    terms: Rate = 0.0
    """Insert the glossary's translation, between marks, after terms of the source that the target translates as the
    glossary says, so that the model learns to follow a glossary (search.inline_terms); typically 0.1."""
    glossary: str | None = None
    """The glossary for `terms`, in data.direction, with a source term, a tab and its translation per line, as for nmt
    translate --glossary. It should cover as many words of the training text as possible."""

    @property
    def rates(self) -> dict[str, float]:
        """The modifiers with a rate above 0, with their rates."""
        return {name: value for name, value in self if isinstance(value, float | int) and value > 0}

    @model_validator(mode="after")
    def _check(self) -> ModifiersConfig:
        problems = []
        if (total := sum(self.rates.values())) > 1 + 1e-9:
            problems.append(f"the rates add up to {total:g}, but must be at most 1: a pair is modified at most once")
        if self.terms and self.glossary is None:
            problems.append("terms: needs a glossary, a file with terms and their translations")
        if self.glossary is not None and not self.terms:
            problems.append("glossary: has no effect unless terms is above 0")
        raise_together(problems)
        return self
