"""Notes on what makes the scores of translations misleading, besides their quality."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from nmt.evaluate.metrics import References, Texts, as_tuple, looks_tokenized, reference_lines
from nmt.text.letters import forms_notes
from nmt.text.pairing import Sample, unaligned


def line_notes(translations: Texts, refs: References, tgt_lang: str | None, are_files: bool) -> Iterator[str]:
    """Yield notes on blank translations, on references in other forms of letters and, for files of 100 lines or more,
    on translations of other lines, unless most are blank or the same."""
    pairs = [*zip(translations, (as_tuple(reference)[0] for reference in refs), strict=True)]
    n_blank = sum(bool(reference.strip()) and not line.strip() for line, reference in pairs)
    if n_blank:
        yield f"{n_blank:,} of {len(pairs):,} translations are blank"
    if are_files and 2 * len({*filter(str.strip, translations)}) >= len({reference for _, reference in pairs}):
        yield from unaligned("translations and references", Sample.of(pairs), "reference")
    yield from forms_notes(tgt_lang or "", translations, reference_lines(refs))


def style_notes(translations: Texts, refs: References, lowercase: bool) -> dict[Literal["tokenisation", "case"], str]:
    """Return a note if only the translations or only the references look tokenised and, unless it is ignored, on case:
    if at least a tenth of the lines of one have capitals, and at most a tenth as many of the other.

    Translations that repeat a single word, as a poorly trained model makes them, have no case.
    """
    notes: dict[Literal["tokenisation", "case"], str] = {}
    texts = translations, reference_lines(refs)
    is_tokenized, are_refs_tokenized = map(looks_tokenized, texts)
    if is_tokenized != are_refs_tokenized:
        which = "translations" if is_tokenized else "references"
        notes["tokenisation"] = f"only the {which} look tokenised: detokenise them, these scores are misleading"
    shares = [sum(line != line.lower() for line in lines) / len(lines) for lines in texts]
    if not lowercase and 10 * min(shares) <= max(shares) >= 0.1 and len({*" ".join(translations).split()}) > 1:
        notes["case"] = (
            f"{shares[0]:.0%} of the translations and {shares[1]:.0%} of the references have capitals: restore case, "
            "or ignore it with --lowercase"
        )
    return notes
