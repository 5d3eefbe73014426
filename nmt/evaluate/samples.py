"""Some translations beside their sources and references, as lines to print."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.console import printable_sentence
from nmt.evaluate.metrics import References, Texts, as_tuple


def sample_lines(sources: Texts, references: References, translations: Texts, n: int) -> Iterator[str]:
    """Yield `n` evenly spread sentences with their references and translations, as lines to print."""
    for row in sorted({i * len(sources) // n for i in range(n)}):
        yield f"line {row + 1}"
        yield f"  source       {printable_sentence(sources[row])}"
        for text in as_tuple(references[row]):
            yield f"  reference    {printable_sentence(text)}"
        yield f"  translation  {printable_sentence(translations[row])}"
