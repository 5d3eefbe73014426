"""Score mixtures of the weights that a run started with and those that it learned, by the share of the start.

    python -m scripts.experiments.shares RUN FILE.SRC FILE.TGT [FILE.SRC FILE.TGT ...]

RUN was trained with `training.start_share`, so that it has kept its start; the learned weights are those of its best
checkpoint. Prints BLEU on each pair of files for each share, in markdown. `training.start_share` is chosen by such a
table, on text that is not the test set.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from nmt.evaluate.metrics import corpus_score
from nmt.layout import RunDir
from nmt.process import set_up
from nmt.runs.checkpoint import assign, load_ema, load_weights
from nmt.runs.info import read_info
from nmt.runs.model import open_saved
from nmt.runs.state import load_state
from nmt.translate.searcher import NativeSearcher
from nmt.translate.translator import Translator

SHARES = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 1.0)


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    run, files = Path(arguments[0]), [*map(Path, arguments[1:])]
    directory = RunDir(run)
    saved = open_saved(run)
    best = directory.step(saved.weights.step)
    learned = (load_ema if load_state(best).best_weights == "ema" else load_weights)(best)
    start, model, data = load_weights(directory.start), saved.transformer(), saved.config.data
    lines = [path.read_text(encoding="utf-8").splitlines() for path in files]
    print(f"| share of the start | {' | '.join(path.stem for path in files[::2])} |")
    print(f"|{'---|' * (len(files) // 2 + 1)}")
    for share in SHARES:
        assign(model, {name: tensor.lerp(start[name], share) for name, tensor in learned.items()}, str(run))
        device, precision = torch.device("cpu"), read_info(directory).precision
        searcher = NativeSearcher([model], saved.tokenizers[data.tgt], device, precision)
        translator = Translator(searcher, saved.tokenizers, saved.config, [saved.origin])
        scores = [
            corpus_score("bleu", translator.translate(sources), references, data.tgt).value
            for sources, references in zip(lines[::2], lines[1::2], strict=True)
        ]
        print(f"| {share:.1f} | {' | '.join(f'{score:.2f}' for score in scores)} |", flush=True)


if __name__ == "__main__":
    set_up()
    main(sys.argv[1:])
