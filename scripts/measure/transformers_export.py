"""Compare the logits, translations and token ids of a run with its export to Hugging Face transformers.

    python -m scripts.measure.transformers_export --run DIR --src FILE --ref FILE [--odd 2000] [--beams 1,5]

Prints a table: the largest difference of logits, identical translations by greedy and by beam search, BLEU of both with
its signature, and of how many odd lines the tokenizer makes the same ids. On two cores about five minutes for 1,000
lines and a model of 1.5 million parameters.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from nmt.evaluate.metrics import corpus_score
from nmt.model.masks import Padded
from nmt.process import set_up
from nmt.runs.model import open_saved
from nmt.share.export import Request, export
from nmt.text.lines import read_aligned
from nmt.text.tokenizer import BOS, EOS
from nmt.translate.translator import Translator

BATCH = 100
LIMIT = 100
"""The maximum length of all translations in pieces, `</s>` counted."""
ODD = [
    "</s>", "<s>", "<pad>", "<unk>", "<reserved_3>", "<0x41>", ">>fr<<", "\u2581", "\u2585", "\t", "\x00", "\x85",
    "\u2028", "\u00a0", "  ", "\U0001f600", "\U0001f469\u200d\U0001f4bb", "e\u0301", "\ufeff", "\ufffd", "\u0645",
    "\u4f60\u597d", "\x1b[0m",
]  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Export, load and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--odd", type=int, default=2000)
    parser.add_argument("--beams", default="1,5")
    options = parser.parse_args(arguments)
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, __version__

    pairs = sorted(read_aligned(options.src, options.ref), key=lambda pair: len(pair[0]))  # for less padding
    sources, references = zip(*pairs, strict=True)
    native = Translator.load(options.run, device="cpu", precision="float32")
    data = native.config.data
    with tempfile.TemporaryDirectory() as scratch:
        export(Request(options.run), Path(scratch) / "out", "transformers")
        model = AutoModelForSeq2SeqLM.from_pretrained(Path(scratch) / "out")
        tokenizer = AutoTokenizer.from_pretrained(Path(scratch) / "out")
    print(f"| {type(model).__name__}, transformers {__version__} | |\n|---|---|")
    odd = odd_lines(sources, options.odd)
    wanted = [[*ids, EOS] for ids in native.tokenizers[data.src].encode_all(odd)]
    print(f"| odd lines with the same ids | {same(tokenizer(odd).input_ids, wanted)} |")
    largest, size = logits_difference(options.run, model, tokenizer, sources, references)
    print(f"| largest difference of logits, of at most {size:.1f} | {largest:.1e} |")
    for beam in map(int, options.beams.split(",")):
        ours = native.translate(list(sources), beam=beam, max_length_ratio=0.0, max_length_offset=LIMIT)
        theirs = translate(model, tokenizer, sources, num_beams=beam)
        score, other = (corpus_score("bleu", found, references, data.tgt) for found in (ours, theirs))
        print(f"| beam {beam}: BLEU of nmt, of transformers | {score.value:.2f}, {other.value:.2f} |")
        print(f"| beam {beam}: translations identical | {same(theirs, ours)} |", flush=True)
    print(f"\n{score.signature}")


def odd_lines(lines: Sequence[str], n: int) -> list[str]:
    """Return n lines with odd characters at random places, a quarter of them of nothing else."""
    rng = random.Random(1)
    found = []
    for i in range(n):
        words = rng.choice(lines).split(" ") if i % 4 else []
        for _ in range(rng.randint(0, 6)):
            words.insert(rng.randint(0, len(words)), rng.choice(ODD))
        found.append(rng.choice(["", " "]).join(words) if i % 3 == 0 else " ".join(words))
    return found


def batches(lines: Sequence[str]) -> Iterator[slice]:
    """Yield slices of a batch each."""
    for first in range(0, len(lines), BATCH):
        yield slice(first, first + BATCH)


def translate(model: Any, tokenizer: Any, lines: Sequence[str], **settings: object) -> list[str]:
    """Translate by transformers as its documentation tells."""
    found: list[str] = []
    for batch in batches(lines):
        inputs = tokenizer(list(lines[batch]), padding=True, return_tensors="pt")
        with torch.no_grad():
            ids = model.generate(**inputs, max_length=LIMIT + 1, **settings)  # `<s>` is counted
            found += tokenizer.batch_decode(ids, skip_special_tokens=True)
    return found


def logits_difference(
    run: Path, model: Any, tokenizer: Any, sources: Sequence[str], references: Sequence[str]
) -> tuple[float, float]:
    """Return the largest difference of the logits of all pieces of the references, and the largest logit."""
    saved = open_saved(run)
    own, largest, size = saved.transformer(), 0.0, 0.0
    target = saved.tokenizers[saved.config.data.tgt]
    for batch in batches(sources):
        inputs = tokenizer(list(sources[batch]), padding=True, return_tensors="pt")
        rows = [torch.tensor([BOS, *ids]) for ids in target.encode_all(references[batch])]
        decoded = pad_sequence(rows, batch_first=True)
        kept = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True).bool()
        with torch.no_grad():
            hidden = own(inputs.input_ids, Padded(inputs.attention_mask.bool()), decoded, Padded(kept))
            ours, theirs = hidden @ own.output_weight.T, model(**inputs, decoder_input_ids=decoded).logits
        largest = max(largest, (ours - theirs)[kept].abs().max().item())
        size = max(size, ours[kept].abs().max().item())
    return largest, size


def same(found: Sequence[object], wanted: Sequence[object]) -> str:
    """How many are equal."""
    n = sum(a == b for a, b in zip(found, wanted, strict=True))
    return f"{n:,} of {len(wanted):,} ({n / len(wanted):.1%})"


if __name__ == "__main__":
    set_up()
    main()
