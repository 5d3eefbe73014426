"""Score mixtures of the weights that a run started with and those that it learned, by the share of the start.

    python -m scripts.experiments.shares RUN SPLIT [SPLIT ...]

RUN was trained with `training.start_share`, so that it has kept its start; the learned weights are those of its best
checkpoint. Prints BLEU on each split of its data directory for each share, in markdown. `training.start_share` is
chosen by such a table, on splits that are not the test set.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from nmt.data.corpus import Corpus
from nmt.evaluate.metrics import corpus_score
from nmt.layout import DataDir, RunDir
from nmt.process import set_up
from nmt.runs.checkpoint import assign, load_ema, load_weights
from nmt.runs.info import read_info
from nmt.runs.model import open_saved
from nmt.runs.state import load_state
from nmt.translate.searcher import NativeSearcher
from nmt.translate.translator import Translator

SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    run, names = Path(arguments[0]), arguments[1:]
    directory = RunDir(run)
    saved = open_saved(run)
    best = directory.step(saved.weights.step)
    learned = (load_ema if load_state(best).best_weights == "ema" else load_weights)(best)
    start, model, data = load_weights(directory.start), saved.transformer(), saved.config.data
    splits = {name: Corpus.open(DataDir(Path(read_info(directory).data_dir))).split(name) for name in names}
    print(f"| share of the start | {' | '.join(names)} |")
    print(f"|{'---|' * (len(names) + 1)}")
    for share in SHARES:
        assign(model, {name: tensor.lerp(start[name], share) for name, tensor in learned.items()}, str(run))
        device, precision = torch.device("cpu"), read_info(directory).precision
        searcher = NativeSearcher([model], saved.tokenizers[data.tgt], device, precision)
        translator = Translator(searcher, saved.tokenizers, saved.config, [saved.origin])
        scores = [
            corpus_score(
                "bleu",
                translator.translate(split.text(data.src), tags=data.tags_of(name)),
                split.text(data.tgt),
                data.tgt,
            ).value
            for name, split in splits.items()
        ]
        print(f"| {share:.1f} | {' | '.join(f'{score:.2f}' for score in scores)} |", flush=True)


if __name__ == "__main__":
    set_up()
    main(sys.argv[1:])
