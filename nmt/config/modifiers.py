"""Settings of the modifiers of training pairs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from nmt.config.section import Section, raise_together

Rate = Annotated[float, Field(ge=0.0, le=1.0)]


class ModifiersConfig(Section):
    """Shares of the training pairs that are modified, drawn again in every epoch; a pair is modified at most once."""

    upper_case: Rate = 0.0
    """Both sides in upper case, if the script of the source has case; 0.07 is usual."""
    title_case: Rate = 0.0
    """Each Word Of Both Sides Begins With A Capital, if the script of the source has case; 0.05 is usual."""
    lower_case: Rate = 0.0
    """The source in lower case; the target keeps its capitals. 0.05 is usual."""
    typos: Rate = 0.0
    """Some letters of the source swapped, left out, doubled or replaced by their neighbours on the keyboard, in words
    of alphabets; 0.05 is usual."""
    drop_end_punctuation: Rate = 0.0
    """Both sides without the marks that end the sentence, if both have some; 0.2 is usual."""
    noise: Rate = 0.0
    """A line of random symbols of many scripts in place of both sides, which teaches to copy what is not known; 0.0005
    is usual."""
    placeholders: Rate = 0.0
    """Numbers, addresses and names that are the same on both sides become placeholders such as {name} or %s, which
    teaches to copy these; 0.01 is usual."""
    tags: Rate = 0.0
    """Tags such as <b> and </b> around the whole of both sides, or around a number, an address or a name that is the
    same on both, which teaches to copy these; 0.005 is usual."""
    terms: Rate = 0.0
    """Terms of `glossary` that the target translates as it says are followed by their translation in the source,
    between marks, which teaches to obey a glossary with search.inline_terms; 0.1 is usual."""
    glossary: str | None = None
    """The file for `terms`, in data.direction: a source term, a tab and its translation per line, as for nmt translate
    --glossary. The more of the training text's words it has, the better."""

    @property
    def rates(self) -> dict[str, float]:
        """The modifiers that are on, with their rates."""
        return {name: value for name, value in self if isinstance(value, float | int) and value > 0}

    @model_validator(mode="after")
    def _check(self) -> ModifiersConfig:
        problems = []
        if (total := sum(self.rates.values())) > 1 + 1e-9:
            problems.append(f"the rates add up to {total:g}, but a pair has at most one modification: at most 1")
        if self.terms and self.glossary is None:
            problems.append("terms: needs a glossary, the file with the terms and their translations")
        if self.glossary is not None and not self.terms:
            problems.append("glossary: has no effect without a rate in terms")
        raise_together(problems)
        return self
