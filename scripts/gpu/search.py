"""Translate a file with a run on a GPU, by nmt, Hugging Face transformers and CTranslate2: lines per second and BLEU.

    python -m scripts.gpu.search --run DIR --src FILE --ref FILE [--device cuda] [--seconds 15] [--batches 4096 16384]

Each search takes the whole file if it can be done in SECONDS, else as much of it as can, in batches of lines of similar
length; loading and a warm-up are not in the rates. All have the same weights, in bf16, and the same limit of length.
Prints a JSON line for each way. BLEU is of the text as it stands (tok:none), for text that is tokenised. CTranslate2 is
left out where it cannot be loaded: its wheels need cuBLAS 12.
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

from nmt.errors import ConfigError
from nmt.evaluate.metrics import corpus_score
from nmt.model.device import pick_device
from nmt.process import set_up
from nmt.share.export import ExportOptions, export
from nmt.text.lines import read_aligned
from nmt.text.vocabularies import Tokenizers
from nmt.translate.loading import Translator

Search = Callable[[Sequence[str], int, int], list[str]]
"""Translates lines in batches of a size, with a beam."""

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
        export(ExportOptions(options.run), Path(scratch) / "out", "transformers")
        theirs = Transformers(Path(scratch) / "out", device)
        engine = CTranslate2.load(options.run, Path(scratch) / "engine", ours, device)

    def search(lines: Sequence[str], n_tokens: int, beam: int) -> list[str]:
        found: list[str] = ours.translate(
            lines, beam=beam, batch_tokens=n_tokens, max_length_ratio=0.0, max_length_offset=LIMIT
        )
        return found

    ways: list[tuple[str, Search, list[int]]] = [
        ("nmt, {:,} tokens", search, options.batches),
        ("transformers, {:,} lines", theirs.translate, options.lines),
        *([("CTranslate2, {:,} tokens", engine.translate, options.batches)] if engine is not None else []),
    ]
    for beam in (5, 1):
        for name, way, sizes in ways:
            for size in sizes:
                found = measured(lambda lines: way(lines, size, beam), pairs, options.seconds, language)  # noqa: B023
                report(name.format(size), beam, found)


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


class CTranslate2:
    """An exported model in CTranslate2, which nmt itself uses on CPUs only."""

    def __init__(self, path: Path, tokenizers: Tokenizers, sides: tuple[str, str], device: str) -> None:
        import ctranslate2

        self.src, self.tgt = (tokenizers[side] for side in sides)
        self.model = ctranslate2.Translator(
            str(path), device=device, compute_type="bfloat16" if device == "cuda" else "float32"
        )
        self.ids = {piece: i for i, piece in enumerate(self.tgt.pieces(range(len(self.tgt))))}

    @classmethod
    def load(cls, run: Path, path: Path, ours: Translator, device: torch.device) -> CTranslate2 | None:
        """Return the exported model, or None after printing why it cannot be loaded."""
        try:
            export(ExportOptions(run), path, "ctranslate2")
            engine = cls(path, ours.tokenizers, ours.config.data.sides, device.type)
            engine.translate(["a"], 1024, 1)
        except (ConfigError, RuntimeError, ValueError) as error:
            print(json.dumps({"way": "CTranslate2", "left_out": " ".join(f"{error}".split())}), flush=True)
            return None
        return engine

    def translate(self, lines: Sequence[str], n_tokens: int, beam: int) -> list[str]:
        """Translate lines in batches of so many source tokens, which CTranslate2 forms of lines of similar length."""
        texts = [self.src.pieces(ids) for ids in self.src.encode_all(lines)]
        results = self.model.translate_batch(
            texts, beam_size=beam, max_batch_size=n_tokens, batch_type="tokens", max_decoding_length=LIMIT
        )
        return [self.tgt.decode([self.ids[piece] for piece in result.hypotheses[0]]) for result in results]


if __name__ == "__main__":
    set_up()
    main()
