"""Does every letter come back if a text's language is added to an imported model of several languages?

    python -m scripts.measure.letters RUN TEXT...

For each text: the letters that become pieces, the lines with an unknown piece, the lines that are not decoded as the
segmenter normalises them, and the share of lines that are decoded as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from nmt.runs.model import open_saved
from nmt.text.growth import grown, with_languages
from nmt.text.ids import UNK
from nmt.text.imported import ImportedTokenizer

NAME = "new"
"""The code of every text's language."""


def main(arguments: Sequence[str]) -> None:
    """Print a table."""
    run, *paths = map(Path, arguments)
    start = open_saved(run).tokenizers
    known = start.languages[0]
    added_tag = with_languages(start, [NAME, known], {NAME: known})
    print("| text | lines | new letters | with unknown pieces | not as normalised | exact |\n|---|---|---|---|---|---|")
    for path in paths:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        texts = {NAME: lines, known: []}
        tokenizers, _ = grown(added_tag, [NAME], texts.__getitem__, 0, "bpe")
        tokenizer = tokenizers[NAME]
        assert isinstance(tokenizer, ImportedTokenizer)
        n_new = tokenizer.n_pieces - added_tag[NAME].n_pieces
        encoded = tokenizer.encode_all(lines)
        decoded = [*map(tokenizer.decode, encoded)]
        n_unknown = sum(UNK in ids for ids in encoded)
        n_other = sum(line != tokenizer.normalized(text) for line, text in zip(decoded, lines, strict=True))
        exact = sum(line == text.strip() for line, text in zip(decoded, lines, strict=True)) / len(lines)
        print(f"| {path.stem} | {len(lines)} | {n_new} | {n_unknown} | {n_other} | {exact:.0%} |")


if __name__ == "__main__":
    main(sys.argv[1:])
