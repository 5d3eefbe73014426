"""Notes on what makes the scores of translations misleading, besides their quality."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.evaluate.metrics import References, Texts, as_tuple, looks_tokenized, reference_lines
from nmt.prepare.suspicions import Sample, unaligned
from nmt.text.letters import forms_notes


def line_notes(translations: Texts, refs: References, tgt_lang: str | None) -> Iterator[str]:
    """Yield notes on blank translations, on references in other forms of letters and, for 100 lines or more, on
    translations of other lines."""
    pairs = [*zip(translations, (as_tuple(reference)[0] for reference in refs), strict=True)]
    n_blank = sum(bool(reference.strip()) and not line.strip() for line, reference in pairs)
    if n_blank:
        yield f"{n_blank:,} of {len(pairs):,} translations are blank"
    yield from unaligned("translations and references", Sample.of(pairs), "reference", is_training=False)
    yield from forms_notes(tgt_lang or "", translations, reference_lines(refs))


def style_notes(translations: Texts, refs: References, lowercase: bool = False) -> Iterator[str]:
    """Yield a note if only the translations or only the references look tokenised and, unless it is ignored, on case:
    if at least a tenth of the lines of one have capitals, and at most a tenth as many of the other.

    Translations that repeat a single word, as a poorly trained model makes them, have no case.
    """
    texts = translations, reference_lines(refs)
    is_tokenized, are_refs_tokenized = map(looks_tokenized, texts)
    if is_tokenized != are_refs_tokenized:
        which = "translations" if is_tokenized else "references"
        yield f"only the {which} look tokenised: detokenise them, these scores are misleading"
    shares = [sum(line != line.lower() for line in lines) / len(lines) for lines in texts]
    if not lowercase and 10 * min(shares) <= max(shares) >= 0.1 and len({*" ".join(translations).split()}) > 1:
        yield (
            f"{shares[0]:.0%} of the translations and {shares[1]:.0%} of the references have capitals: restore case, "
            "or ignore it with --lowercase"
        )
