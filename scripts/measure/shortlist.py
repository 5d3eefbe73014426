"""Measure how much faster CTranslate2 translates with a shortlist (`nmt export --shortlist`), and with what BLEU.

    python -m scripts.measure.shortlist --run RUN --src FILE --ref FILE [--quantization int8] [--rounds 5]

RUN is exported with and without a shortlist. One thread translates FILE with both in turn, in each round in batches of
64 lines and line by line, by greedy search and with beam 5. The table has the median ratio of CPU seconds, the smallest
and the largest one, and BLEU.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch

from nmt.evaluate.metrics import corpus_score
from nmt.share.engine import load_ctranslate2
from nmt.share.export import ExportOptions, export
from nmt.text.lines import read_lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", type=Path, required=True, help="run directory, whose data directory is there")
    parser.add_argument("--src", type=Path, required=True, help="text to translate")
    parser.add_argument("--ref", type=Path, required=True, help="its translation")
    parser.add_argument("--quantization", default="int8", choices=("float32", "float16", "int8"))
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default: 5")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines, refs = list(read_lines(options.src)), list(read_lines(options.ref))
    with tempfile.TemporaryDirectory() as scratch:
        translators = []
        for has_shortlist in (False, True):
            path = Path(scratch) / f"shortlist-{has_shortlist}"
            exported = export(
                ExportOptions(options.run, shortlist=has_shortlist), path, "ctranslate2", options.quantization
            )
            print(f"{'with' if has_shortlist else 'without'} a shortlist: {exported.comparison}")
            translators.append(load_ctranslate2(path))
        for beam in (1, 5):
            for name, tokens in (("batches", "auto"), ("single lines", 1)):
                search = translators[0].search_settings({"beam": beam, "batch_tokens": tokens})
                ratios, bleu = [], {}
                for _ in range(options.rounds):
                    seconds = []
                    for number, translator in enumerate(translators):
                        began = time.process_time()
                        found = [best.text for best, *_ in translator.translate_lines(lines, search)]
                        seconds.append(time.process_time() - began)
                        bleu[number] = corpus_score("bleu", found, refs, translator.config.data.tgt)
                    ratios.append(seconds[0] / seconds[1])
                ratio = f"{statistics.median(ratios):.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f})"
                print(f"beam {beam}, {name}: {ratio}, BLEU {bleu[0].value:.2f} without, {bleu[1].value:.2f} with")
        print(bleu[1].signature)


if __name__ == "__main__":
    main()
