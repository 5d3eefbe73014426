"""Translate a file with a run on a GPU, by nmt and by Hugging Face transformers: lines per second and BLEU.

    python -m scripts.gpu.search --run DIR --src FILE --ref FILE [--device cuda] [--seconds 15] [--batches 4096 16384]

Each search takes the whole file if it can be done in SECONDS, else as much of it as can, in batches of lines of similar
length; loading and a warm-up are not in the rates. Both have the same weights, in bf16, and the same limit of length.
Prints a JSON line for each way. BLEU is of the text as it stands (tok:none), for text that is tokenised.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from nmt.evaluate.metrics import corpus_score
from nmt.model.device import pick_device
from nmt.process import set_up
from nmt.share.export import Request, export
from nmt.text.lines import read_aligned
from nmt.translate.translator import Translator

LIMIT = 160
"""The maximum length of a translation in pieces."""


def main(arguments: list[str] | None = None) -> None:
    """Measure both, one search after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--batches", type=int, nargs="+", default=[4096, 16_384, 65_536], help="of nmt, in tokens")
    parser.add_argument("--lines", type=int, nargs="+", default=[64, 256], help="in a batch of transformers")
    options = parser.parse_args(arguments)
    pairs = list(read_aligned(options.src, options.ref))
    random.Random(1).shuffle(pairs)
    device = pick_device(options.device)
    ours = Translator.load(options.run, device=options.device, precision="bf16")
    language = ours.config.data.tgt
    with tempfile.TemporaryDirectory() as scratch:
        export(Request(options.run), Path(scratch) / "out", "transformers")
        theirs = Transformers(Path(scratch) / "out", device)
    for beam in (5, 1):
        for n_tokens in options.batches:

            def search(lines: Sequence[str], n_tokens: int = n_tokens, beam: int = beam) -> list[str]:
                found: list[str] = ours.translate(
                    lines, beam=beam, batch_tokens=n_tokens, max_length_ratio=0.0, max_length_offset=LIMIT
                )
                return found

            report(f"nmt, {n_tokens:,} tokens", beam, measured(search, pairs, options.seconds, language))
        for n_lines in options.lines:

            def other(lines: Sequence[str], n_lines: int = n_lines, beam: int = beam) -> list[str]:
                return theirs.translate(lines, n_lines, beam)

            report(f"transformers, {n_lines} lines", beam, measured(other, pairs, options.seconds, language))


def report(way: str, beam: int, found: dict[str, object]) -> None:
    """Print a line."""
    print(json.dumps({"way": way, "beam": beam, **found}), flush=True)


def measured(
    search: Callable[[Sequence[str]], list[str]], pairs: Sequence[tuple[str, str]], seconds: float, language: str
) -> dict[str, object]:
    """Return the rate and BLEU of the lines done in about so many seconds."""
    sources = [source for source, _ in pairs]
    search(sources[:200])
    start = time.monotonic()
    found = search(sources[:1000])
    spent = time.monotonic() - start
    n = min(len(pairs), int(1000 * seconds / spent))
    if n > 1000:
        start = time.monotonic()
        found = search(sources[:n])
        spent = time.monotonic() - start
    score = corpus_score("bleu", found, [reference for _, reference in pairs[: len(found)]], language, tokenize="none")
    return {"lines_per_s": round(len(found) / spent, 1), "lines": len(found), "bleu": round(score.value, 2)}


class Transformers:
    """An exported model in Hugging Face transformers."""

    def __init__(self, path: Path, device: torch.device) -> None:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        self.device, self.tokenizer = device, AutoTokenizer.from_pretrained(path)
        self.model = AutoModelForSeq2SeqLM.from_pretrained(path, dtype=torch.bfloat16).to(device).eval()

    def translate(self, lines: Sequence[str], n_lines: int, beam: int) -> list[str]:
        """Translate batches of so many lines of similar length, as the documentation of transformers recommends."""
        order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
        found = [""] * len(lines)
        for first in range(0, len(order), n_lines):
            batch = order[first : first + n_lines]
            inputs = self.tokenizer([lines[i] for i in batch], padding=True, return_tensors="pt").to(self.device)
            with torch.inference_mode():
                ids = self.model.generate(**inputs, num_beams=beam, do_sample=False, max_new_tokens=LIMIT)
            for i, text in zip(batch, self.tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True):
                found[i] = text
        return found


if __name__ == "__main__":
    set_up()
    main()
