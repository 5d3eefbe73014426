"""Contrasts that others have made: aligned files, and the JSON of LingEval97 and ContraPro."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import AliasChoices, BaseModel, Field, TypeAdapter, ValidationError

from nmt.challenge.contrasts import Contrast
from nmt.errors import DataError
from nmt.files.read import read_regular, reading
from nmt.text.lines import bounded_list, read_aligned

GIVEN = "contrastive"
"""The kind of a pair from files that name none."""


class _Error(BaseModel):
    contrastive: str
    type: str = GIVEN


class _Entry(BaseModel):
    """A line of LingEval97 (Sennrich, 2017), or of ContraPro (Müller et al., 2018), which calls some keys otherwise."""

    source: str = Field(validation_alias=AliasChoices("source", "src segment"))
    reference: str = Field(validation_alias=AliasChoices("reference", "ref segment"))
    errors: list[_Error]
    origin: str | None = None
    src_pronoun: str | None = Field(None, validation_alias="src pronoun")
    ref_pronoun: str | None = Field(None, validation_alias="ref pronoun")

    def contrasts(self, origin: str) -> list[Contrast]:
        """Return one contrast for each error, as LingEval97 counts; of ContraPro one for all, named by its pronouns."""
        origin = self.origin or origin
        if self.src_pronoun is not None and self.ref_pronoun is not None:
            kind = f"{self.src_pronoun.lower()}:{self.ref_pronoun.lower()}"
            changed = tuple(error.contrastive for error in self.errors)
            return [Contrast(kind, self.source, self.reference, changed, origin)] if changed else []
        return [
            Contrast(error.type, self.source, self.reference, (error.contrastive,), origin) for error in self.errors
        ]


_ENTRIES = TypeAdapter(list[_Entry])


def read_published(path: Path) -> tuple[list[Contrast], int]:
    """Read contrasts from JSON of LingEval97 or ContraPro; return them and the number of entries.

    Raises DataError if the file is missing or is something else.
    """
    with reading(path):
        content = read_regular(path)
    try:
        entries = _ENTRIES.validate_json(content)
    except ValidationError as error:
        problem = error.errors()[0]
        where, *key = problem["loc"] or ("",)
        place = f"entry {where + 1}" if isinstance(where, int) else "the document"
        what = ", ".join([place, *([".".join(map(str, key))] if key else [])])
        message = problem["msg"].lower()
        raise DataError(f"{path}: {what}: {message}; it must be the JSON of LingEval97 or ContraPro") from None
    return [
        contrast
        for number, entry in enumerate(entries, start=1)
        for contrast in entry.contrasts(f"{path.name}.{number}")
    ], len(entries)


def read_text(source: Path, reference: Path) -> list[tuple[str, str]]:
    """Read a parallel text. Raises DataError if a file is missing, is no text, or has more lines than the other."""
    for path in (source, reference):
        if not path.exists():
            raise DataError(f"{path}: no such file")
    return bounded_list(read_aligned(source, reference), str(source))


def read_contrastive(source: Path, reference: Path, changed: Path) -> list[Contrast]:
    """Read contrasts from three aligned files. Raises DataError as `read_text` does."""
    lines, others = read_text(source, reference), [other for _, other in read_text(source, changed)]
    return [
        Contrast(GIVEN, source_line, reference_line, (other,), f"{reference.name}.{number}")
        for number, ((source_line, reference_line), other) in enumerate(zip(lines, others, strict=True), start=1)
    ]


def without_equal(contrasts: Sequence[Contrast]) -> tuple[list[Contrast], int]:
    """Return the contrasts that differ from their reference, and the number of the others."""
    different = [contrast for contrast in contrasts if contrast.reference not in contrast.changed]
    return different, len(contrasts) - len(different)
