"""Measure how much damaged text `nmt filter` finds: precision and recall by the share of kept pairs and kind of damage.

    python -m scripts.experiments.filtering FOLDER --run RUN --reverse RUN [--pairs N] [--keep 0.9 0.75 0.5 0.25]
    python -m scripts.experiments.filtering FOLDER --classifier RUN [--skip N] [--pairs N] [--keep 0.9 0.75 0.5 0.25]
    python -m scripts.experiments.filtering FOLDER --write DIR [--skip N] [--pairs N]

Of FOLDER, `train.SRC` and `train.TGT` in the languages of the run are read, and half of the pairs are damaged, an equal
part in each way of `scripts.measure.damage`. The runs score all pairs; train them on other text, or on other pairs of
it. With a classifier and both runs, the score is the mean rank. Scoring takes as long as `nmt score` with each run.

--write writes the text, with or without runs that score it: `damaged`, and `original`, as it was before, in both
languages, and `kinds`, a line for each pair.

Recall of a kind is the share of its pairs that is dropped, precision the share of all that is dropped which is damaged.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from nmt.cli.exits import user_errors
from nmt.console import Progress
from nmt.files.write import replace_file
from nmt.runs.model import open_saved
from nmt.translate.filter import Floats, agreed, best, collect_scores, load_scorers
from scripts.measure.damage import GOOD, KINDS, Made, damaged, read

RATE = 0.5


def main() -> int:
    """Damage text, write it, score it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--reverse", type=Path)
    parser.add_argument("--classifier", type=Path)
    parser.add_argument("--write", type=Path, metavar="DIR")
    parser.add_argument("--src", default="de", help="without runs, the languages are these")
    parser.add_argument("--tgt", default="en")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many at the beginning")
    parser.add_argument("--pairs", type=int, default=20_000, help="read so many; 0: all")
    parser.add_argument("--keep", type=float, nargs="+", default=[0.9, 0.75, 0.5, 0.25])
    parser.add_argument("--seed", type=int, default=1, help="of the damage")
    options = parser.parse_args()
    if (options.run is None) != (options.reverse is None):
        parser.error("--run and --reverse: give both or neither")
    if options.run is None and options.classifier is None and options.write is None:
        parser.error("nothing to do: give --run and --reverse, --classifier, or --write")
    run = options.run or options.classifier
    data = open_saved(run).config.data if run else None
    languages = (data.src, data.tgt) if data else (options.src, options.tgt)
    pairs = read(options.folder, languages, options.skip + options.pairs if options.pairs else 0)[options.skip :]
    made = damaged(pairs, RATE, options.seed)
    if options.write is not None:
        write(made, languages, options.write)
    if run is not None:
        scorers = load_scorers(options.run, options.reverse, options.classifier, "best", "auto", "auto")
        with Progress("scoring", (len(scorers) + bool(options.run)) * len(made), "scores") as bar:
            found = [collect_scores(score((item.pair for item in made), bar)) for score in scorers]
        scores = agreed(found[0], found[1]) if len(found) > 1 else found[0]
        print(*scores.lines(), "", *table(made, np.asarray(scores.values), options.keep), sep="\n")
    return 0


def write(made: Sequence[Made], languages: tuple[str, str], folder: Path) -> None:
    """Write the damaged text, the undamaged one, and the kind of each pair."""
    folder.mkdir(parents=True, exist_ok=True)
    for side, language in enumerate(languages):
        replace_file(folder / f"damaged.{language}", "".join(f"{item.pair[side]}\n" for item in made))
        replace_file(folder / f"original.{language}", "".join(f"{item.original[side]}\n" for item in made))
    replace_file(folder / "kinds", "".join(f"{item.kind}\n" for item in made))


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
