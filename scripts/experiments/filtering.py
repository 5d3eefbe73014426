"""How much of damaged text `nmt filter` finds: precision and recall at several shares kept, by kind of damage.

    python -m scripts.experiments.filtering FOLDER --run RUN --reverse RUN [--pairs N] [--keep 0.9 0.75 0.5 0.25]

Of FOLDER, `train.SRC` and `train.TGT` in the languages of the run are read, and half of the pairs are damaged, an equal
part in each way of `scripts.measure.damage`. Both runs score all pairs; train them on other text, or on other pairs of
it. Scoring takes as long as `nmt score` with each run.

Recall of a kind is the share of its pairs that is dropped, precision the share of all that is dropped which is damaged.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from nmt.cli.exits import user_errors
from nmt.console import Progress
from nmt.translate.filter import Floats, best, check_opposite, collect_scores, dual_cross_entropy
from nmt.translate.translator import Translator
from scripts.measure.damage import GOOD, KINDS, Made, damaged, read

RATE = 0.5


def main() -> int:
    """Score damaged text and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--reverse", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=20_000, help="read so many; 0: all")
    parser.add_argument("--keep", type=float, nargs="+", default=[0.9, 0.75, 0.5, 0.25])
    parser.add_argument("--seed", type=int, default=1, help="of the damage")
    options = parser.parse_args()
    forward, reverse = Translator.load(options.run), Translator.load(options.reverse)
    check_opposite(forward, reverse, options.reverse)
    languages = forward.config.data.src, forward.config.data.tgt
    made = damaged(read(options.folder, languages, options.pairs), RATE, options.seed)
    with Progress("scoring", 2 * len(made), "scores") as progress:
        scores = collect_scores(dual_cross_entropy(forward, reverse, (item.pair for item in made), progress))
    print(*scores.lines(), "", *table(made, np.asarray(scores.values), options.keep), sep="\n")
    return 0


def table(made: Sequence[Made], scores: Floats, shares: Sequence[float]) -> Iterator[str]:
    """Yield a line for each kind of damage, then recall and precision of all, with a column for each share kept."""
    kinds = np.array([item.kind for item in made])
    is_damaged = kinds != GOOD
    dropped = [~best(scores, share) for share in shares]
    yield f"| kept | pairs | median score | {' | '.join(f'{share:.0%}' for share in shares)} |"
    yield f"|---|---|---|{'---|' * len(shares)}"
    for kind in [*KINDS, GOOD]:
        rows = kinds == kind
        if rows.any():
            cells = " | ".join(f"{drop[rows].mean():.1%}" for drop in dropped)
            name = kind if kind != GOOD else "good pairs lost"
            yield f"| {name} | {rows.sum():,} | {np.median(scores[rows]):.3g} | {cells} |"
    recall = " | ".join(f"{drop[is_damaged].mean():.1%}" for drop in dropped)
    precision = " | ".join(f"{is_damaged[drop].mean():.1%}" if drop.any() else "-" for drop in dropped)
    yield f"| recall of damaged pairs | {is_damaged.sum():,} | | {recall} |"
    yield f"| precision | | | {precision} |"


if __name__ == "__main__":
    with user_errors():
        raise SystemExit(main())
