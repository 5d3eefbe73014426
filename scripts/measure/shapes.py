"""Measure how fast models of different shapes translate, and how well.

    python -m scripts.measure.shapes --src FILE --ref FILE [--lines 500] [--rounds 3] RUN...

Each run translates FILE with PyTorch and with CTranslate2 in float32 and int8, with one thread, by greedy search and
with beam 5, in batches and, for CTranslate2, line by line. In each round, all runs take turns. The table has the median
number of lines per CPU second, the median ratio to the first run with its range, and BLEU.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from nmt.console import aligned
from nmt.evaluate.metrics import corpus_score
from nmt.share.engine import load_ctranslate2
from nmt.share.export import Request, export
from nmt.text.lines import read_lines
from nmt.translate.translator import Translator

ENGINES = "PyTorch", "CTranslate2 float32", "CTranslate2 int8"


def translators_of(run: Path, scratch: Path) -> Iterator[Translator]:
    """Yield the translators of a run, in the order of `ENGINES`."""
    yield Translator.load(run)
    for quantization in ("float32", "int8"):
        export(Request(run), scratch / quantization, "ctranslate2", quantization)
        yield load_ctranslate2(scratch / quantization)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run directories; the first is the baseline")
    parser.add_argument("--src", type=Path, required=True, help="text to translate")
    parser.add_argument("--ref", type=Path, required=True, help="its translation")
    parser.add_argument("--lines", type=int, default=500, metavar="N", help="number of lines; default: 500")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default: 3")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines, refs = (list(read_lines(path))[: options.lines] for path in (options.src, options.ref))
    rows = [["run", "engine", "search", "lines per CPU second", "ratio", "BLEU"]]
    with tempfile.TemporaryDirectory() as scratch:
        loaded = [[*translators_of(run, Path(scratch, str(number)))] for number, run in enumerate(options.runs)]
        for number, engine in enumerate(ENGINES):
            for beam in (5, 1):
                for kind, tokens in [("batches", "auto"), ("single lines", 1)][: 2 if number else 1]:
                    rates: list[list[float]] = [[] for _ in loaded]
                    for _ in range(options.rounds):
                        for of_run, rate in zip(loaded, rates, strict=True):
                            search = of_run[number].search_settings({"beam": beam, "batch_tokens": tokens})
                            began = time.process_time()
                            found = [best.text for best, *_ in of_run[number].translate_lines(lines, search)]
                            rate.append(len(lines) / (time.process_time() - began))
                            if len(rate) == options.rounds:
                                bleu = corpus_score("bleu", found, refs, of_run[number].config.data.tgt)
                                ratios = [own / first for own, first in zip(rate, rates[0], strict=True)]
                                ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                                name = options.runs[loaded.index(of_run)].name
                                mode = f"beam {beam}, {kind}"
                                rate_of = f"{statistics.median(rate):.0f}"
                                rows.append([name, engine, mode, rate_of, ratio, f"{bleu.value:.2f}"])
    print("\n".join(aligned(rows, (3, 5))))
    print(bleu.signature)


if __name__ == "__main__":
    main()
