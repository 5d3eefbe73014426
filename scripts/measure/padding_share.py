"""Print the share of padding on both sides in an epoch of a data directory, for several update sizes.

python -m scripts.measure.padding_share data/prepared/multi30k de en
"""

from __future__ import annotations

import sys
from pathlib import Path

from nmt.data.batching import Pairs, epoch_updates
from nmt.data.corpus import Corpus, lines_of
from nmt.layout import DataDir


def padding_share(pairs: Pairs, update_tokens: int) -> float:
    """Return the share of padding among all positions of an epoch's micro-batches."""
    positions = 0
    for update in epoch_updates(pairs.lengths, update_tokens, seed=1, epoch=0):
        for rows in pairs.lengths.split(update.rows, 2 * update_tokens):
            positions += len(rows) * int(pairs.lengths.src[rows].max() + pairs.lengths.tgt[rows].max())
    return 1 - int(pairs.lengths.src.sum() + pairs.lengths.tgt.sum()) / positions


if __name__ == "__main__":
    directory, src, tgt = sys.argv[1:]
    split = Corpus.open(DataDir(Path(directory))).split("train")
    pairs = Pairs(lines_of(split, src), lines_of(split, tgt))
    for update_tokens in (2048, 4096, 8192):
        print(f"update_tokens {update_tokens}: {100 * padding_share(pairs, update_tokens):.1f} % padding")
