"""Compare Marian and M2M-100 models made by transformers and SentencePiece with the runs that `nmt import` makes.

    python -m scripts.measure.public_models [--lines 200] [--updates 200] [--size]

Eight kinds of Marian models ({swish, relu}, {one vocabulary, two}, {bias or none}) are made from the sample corpus and
trained by transformers, and each is saved in four ways ({float32, bf16}, {safetensors, pickle}). Prints a table: the
largest difference of logits, lines with equal ids, translations by beam 4 that equal those of transformers' `generate`
(at most 64 pieces, the same rule for stopping, no unknown pieces), whether import, export and import again give equal
tensors, and translations that CTranslate2's own converter and our export have in common. Translations that transformers
cuts off at the limit are left out. A model with the vocabulary of M2M-100 and one with that of NLLB follow; of these,
the last column has the difference of the scores of our export to CTranslate2. Exits with status 1 if a bound is missed.
On two cores about ten minutes.

--size imports a model of 75 million parameters instead, with random weights, and prints seconds and memory. It then
trains and translates with it, in turn with an own model of that shape, and prints the ratio of the times. Leave the
machine alone meanwhile: five minutes on two cores.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from nmt.data.batching import Pairs, epoch_updates
from nmt.data.corpus import lines_of
from nmt.layout import RunDir
from nmt.model.masks import Padded
from nmt.model.precision import pick_precision
from nmt.process import set_up
from nmt.runs.checkpoint import load_weights
from nmt.runs.model import open_saved
from nmt.search.step import padded
from nmt.share.export import Request, export
from nmt.share.public import Request as ImportRequest
from nmt.share.public import import_model
from nmt.text.tokenizer import BOS, EOS, PAD
from nmt.translate.searcher import NativeSearcher
from nmt.translate.translator import Translator
from scripts.measure.m2m import M2M, SPECIAL
from scripts.measure.marian import Marian
from scripts.measure.step_cost import PAIRS, Lines, go_through, make_session
from scripts.measure.transformers_export import odd_lines, same

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
FILES: tuple[Literal["model.safetensors", "pytorch_model.bin"], ...] = ("model.safetensors", "pytorch_model.bin")
BOUNDS = {"logits": 1e-4, "ids": 1.0, "beam": 0.99, "ctranslate2": 0.99}


def main(arguments: list[str] | None = None) -> int:
    """Make all kinds, import them, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--size", action="store_true")
    options = parser.parse_args(arguments)
    sides = [(SAMPLE / f"train.{language}").read_text(encoding="utf-8").splitlines() for language in ("de", "en")]
    if options.size:
        return large(sides)
    from transformers import MarianMTModel

    status = 0
    print(
        "| model | logits | equal ids | beam 4 equal | tensors equal | CTranslate2 equal |\n|---|---|---|---|---|---|"
    )
    kinds = itertools.product(("swish", "relu"), (True, False), (True, False))
    for activation, is_joint, has_bias in kinds:
        kind = Marian(activation, is_joint, has_bias, updates=options.updates, batch=64, d_model=128, vocab_size=1500)
        with tempfile.TemporaryDirectory() as scratch:
            trained = Path(scratch) / "trained"
            kind.write(trained, sides[0][:3000], sides[1][:3000])
            for dtype, file in itertools.product((torch.float32, torch.bfloat16), FILES):
                folder = Path(scratch) / f"{dtype}-{file}"
                shutil.copytree(trained, folder / "model", ignore=shutil.ignore_patterns(*FILES))
                model = MarianMTModel.from_pretrained(trained, dtype=torch.float32)
                replace(kind, dtype=dtype, file=file).save(model, folder / "model")
                cells, is_good = compared(folder, sides, options.lines)
                words = [activation, "joint" if is_joint else "two", "bias" if has_bias else "", str(dtype)[6:], file]
                print(f"| {' '.join(words)} | {' | '.join(cells)} |", flush=True)
                status |= not is_good
    for is_nllb in (False, True):
        with tempfile.TemporaryDirectory() as scratch:
            several = M2M(is_nllb, updates=options.updates, batch=64, d_model=128, vocab_size=1500)
            cells, is_good = compared_m2m(Path(scratch), several, sides, options.lines)
            print(f"| {'NLLB' if is_nllb else 'M2M-100'} | {' | '.join(cells)} |", flush=True)
            status |= not is_good
    return status


def compared_m2m(folder: Path, kind: M2M, sides: Sequence[list[str]], n_lines: int) -> tuple[list[str], bool]:
    """Return the cells of an M2M-100 model that is made in `folder`, and whether all bounds are met."""
    from transformers import M2M100ForConditionalGeneration

    src, tgt = ("deu_Latn", "eng_Latn") if kind.is_nllb else ("de", "en")
    kind.write(folder / "model", {src: sides[0][:3000], tgt: sides[1][:3000]})
    request = ImportRequest(str(folder / "model"), folder / "run", direction=f"{src}-{tgt}")
    import_model(request)
    model: Any = M2M100ForConditionalGeneration.from_pretrained(folder / "model")
    tokenizer = kind.tokenizer(folder / "model", src, tgt)
    sources, targets = (side[3000 : 3000 + n_lines] for side in sides)
    saved = open_saved(folder / "run")
    ours, imported = saved.transformer(), saved.tokenizers.imported
    assert imported is not None and ours.output_bias is not None
    numbers = imported.original_rows(0)
    n_same = n_all = 0
    space = tokenizer.convert_tokens_to_ids("\u2581") if kind.is_nllb else None
    for key, name, lines in (("text", src, sources), ("text_target", tgt, targets)):
        odd = [line for line in odd_lines(lines, 1200) if not any(word in line for word in SPECIAL)]
        rows = saved.tokenizers[name].encode_all(odd)
        for theirs, row in zip(tokenizer(**{key: odd})["input_ids"], rows, strict=True):
            if space is not None and theirs[-2] == space:  # SentencePiece removes it
                theirs = [*theirs[:-2], 2]
            n_same += bool(row) and theirs == [*(numbers[i] for i in row), 2]  # a blank line has no ids, not even a tag
        n_all += sum(map(bool, rows))
    encoded, forced = (saved.tokenizers[name].encode_all(lines) for name, lines in ((src, sources), (tgt, targets)))
    source, target = padded([[*row, EOS] for row in encoded]), padded([[BOS, *row] for row in forced])
    with torch.no_grad():
        hidden = ours(source, Padded(source != PAD), target, Padded(target != PAD))
        logits = hidden @ ours.output_weight.T + ours.output_bias
        inputs = padded([[2, *(numbers[i] or 0 for i in row)] for row in forced])
        batch = tokenizer(sources, padding=True, return_tensors="pt")
        theirs = model(**batch, decoder_input_ids=torch.where(target == PAD, 1, inputs)).logits
        found = model.generate(
            **batch, forced_bos_token_id=numbers[saved.tokenizers[tgt].opening[0]], num_beams=4, max_length=64,
            early_stopping="never", bad_words_ids=[[1], [3]],
        )  # fmt: skip
    ids = [numbers.index(row) for row in range(theirs.size(-1))]
    difference = float((logits[..., ids] - theirs)[target != PAD].abs().max())
    settings: dict[str, Any] = {"beam": 4, "patience": 0.0, "max_length_ratio": 0.0, "max_length_offset": 62}
    translations = Translator.load(folder / "run", precision="float32").translate(sources, **settings)
    both = [(a, b) for a, b, row in zip(
        translations, tokenizer.batch_decode(found, skip_special_tokens=True), found, strict=True,
    ) if 1 in row[1:]]  # fmt: skip
    n_equal = sum(a == b for a, b in both)
    export(Request(folder / "run"), folder / "out", "transformers")
    again: Any = M2M100ForConditionalGeneration.from_pretrained(folder / "out").state_dict()
    is_equal = all(torch.equal(tensor, again[name]) for name, tensor in model.state_dict().items())
    compared = export(Request(folder / "run"), folder / "engine", "ctranslate2").comparison
    assert compared is not None
    cells = [f"{difference:.1e}", f"{n_same:,} of {n_all:,}", f"{n_equal} of {len(both)}", "yes" if is_equal else "NO"]
    cells.append(f"scores within {compared.difference:.1e} of the run's")
    is_good = difference <= BOUNDS["logits"] and n_same == n_all and is_equal
    return cells, is_good and n_equal >= BOUNDS["beam"] * len(both)


def compared(folder: Path, sides: Sequence[list[str]], n_lines: int) -> tuple[list[str], bool]:
    """Return the cells of the model in folder/model, and whether all bounds are met."""
    from transformers import MarianMTModel, MarianTokenizer

    import_model(ImportRequest(str(folder / "model"), folder / "run"))
    model: Any = MarianMTModel.from_pretrained(folder / "model", dtype=torch.float32)
    tokenizer = MarianTokenizer.from_pretrained(folder / "model")
    sources, targets = (side[3000 : 3000 + n_lines] for side in sides)
    difference = logits_difference(folder / "run", model, tokenizer, sources, targets)
    n_same, n_all = equal_ids(folder / "run", tokenizer, sources, targets)
    with torch.no_grad():
        found = model.generate(
            **tokenizer(sources, padding=True, return_tensors="pt"), num_beams=4, max_length=64,
            early_stopping="never", bad_words_ids=[[tokenizer.pad_token_id], [tokenizer.unk_token_id]],
        )  # fmt: skip
    theirs = tokenizer.batch_decode(found, skip_special_tokens=True)
    settings: dict[str, Any] = {"beam": 4, "patience": 0.0, "max_length_ratio": 0.0, "max_length_offset": 63}
    ours = Translator.load(folder / "run", precision="float32").translate(sources, **settings)
    export(Request(folder / "run"), folder / "out", "transformers")
    import_model(ImportRequest(str(folder / "out"), folder / "again"))
    first, second = (load_weights(RunDir(folder / run).step(0)) for run in ("run", "again"))
    is_equal = all(torch.equal(first[name], second[name]) for name in first) and first.keys() == second.keys()
    has_one = open_saved(folder / "run").tokenizers.joint
    engine = both_engines(folder, tokenizer, sources, settings) if has_one else None
    # at the limit of length, transformers prefers unfinished translations
    ended = [i for i, row in enumerate(found) if tokenizer.pad_token_id in row[1:]]
    pairs = [[[texts[i] for i in ended] for texts in pair] for pair in ((ours, theirs), engine) if pair]
    shares = [sum(map(str.__eq__, *pair)) / len(ended) for pair in pairs]
    cells = [f"{difference:.1e}", f"{n_same:,} of {n_all:,}", same(*pairs[0]), "yes" if is_equal else "NO"]
    cells.append(same(*pairs[1]) if engine else "one vocabulary only")
    is_good = difference <= BOUNDS["logits"] and n_same == n_all and is_equal and min(shares) >= BOUNDS["beam"]
    return cells, is_good


def logits_difference(run: Path, model: Any, tokenizer: Any, sources: list[str], targets: list[str]) -> float:
    """Return the largest difference of the logits of all pieces of the references."""
    saved = open_saved(run)
    ours, imported, pad = saved.transformer(), saved.tokenizers.imported, tokenizer.pad_token_id
    assert imported is not None and ours.output_bias is not None
    numbers = imported.original_rows(1)
    largest = 0.0
    for start in range(0, len(sources), 50):
        part = slice(start, start + 50)
        src, tgt = (
            saved.tokenizers[name].encode_all(lines[part]) for name, lines in (("de", sources), ("en", targets))
        )
        source, target = padded([[*row, EOS] for row in src]), padded([[BOS, *row] for row in tgt])
        with torch.no_grad():
            hidden = ours(source, Padded(source != PAD), target, Padded(target != PAD))
            logits = hidden @ ours.output_weight.T + ours.output_bias
            inputs = padded([[pad, *(numbers[i] or 0 for i in row)] for row in tgt])
            batch = tokenizer(sources[part], padding=True, return_tensors="pt")
            theirs = model(**batch, decoder_input_ids=inputs).logits
        ids = [numbers.index(row) for row in range(theirs.size(-1))]
        largest = max(largest, float((logits[..., ids] - theirs)[target != PAD].abs().max()))
    return largest


def equal_ids(run: Path, tokenizer: Any, sources: list[str], targets: list[str]) -> tuple[int, int]:
    """Return how many odd lines of both sides have the same ids, and how many there are."""
    saved, n_same, n_all = open_saved(run), 0, 0
    imported = saved.tokenizers.imported
    assert imported is not None
    for key, name, side, lines in (("text", "de", 0, sources), ("text_target", "en", 1, targets)):
        special = ("</s>", "<s>", "<pad>", "<unk>")  # transformers reads these in text as what they stand for
        odd = [line for line in odd_lines(lines, 1200) if not any(word in line for word in special)]
        odd = [line for line in odd if not line.startswith(">>")][:1000]
        numbers = imported.original_rows(1 if side else 0)
        wanted = [
            [*(numbers[i] for i in row), tokenizer.eos_token_id] for row in saved.tokenizers[name].encode_all(odd)
        ]
        n_same += sum(a == b for a, b in zip(tokenizer(**{key: odd})["input_ids"], wanted, strict=True))
        n_all += len(odd)
    return n_same, n_all


def both_engines(
    folder: Path, tokenizer: Any, sources: list[str], settings: dict[str, Any]
) -> tuple[list[str], list[str]]:
    """Return the translations by CTranslate2 of its own conversion of the model, and of our export of the run."""
    import ctranslate2

    from nmt.share.engine import load_ctranslate2

    ctranslate2.converters.TransformersConverter(str(folder / "model")).convert(str(folder / "theirs"))
    translator = ctranslate2.Translator(str(folder / "theirs"))
    pieces = [tokenizer.convert_ids_to_tokens(row) for row in tokenizer(sources)["input_ids"]]
    options = {"beam_size": 4, "num_hypotheses": 6, "patience": 1.5, "length_penalty": 1, "max_decoding_length": 63}
    results = translator.translate_batch(pieces, **options)
    for i, result in enumerate(results):
        if tokenizer.unk_token in result.hypotheses[0]:  # as our search does
            results[i] = translator.translate_batch([pieces[i]], **options, suppress_sequences=[[tokenizer.unk_token]])[
                0
            ]
    rows = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
    export(Request(folder / "run"), folder / "engine", "ctranslate2")
    ours = load_ctranslate2(folder / "engine").translate(sources, **settings | {"patience": 1.5})
    return tokenizer.batch_decode(rows, skip_special_tokens=True), ours


def large(sides: Sequence[list[str]]) -> int:
    """Import a model of the size of OPUS-MT's from each kind of file, and print seconds and peak memory."""
    status = 0
    with tempfile.TemporaryDirectory() as scratch:
        idle = peak_of("import nmt.share.public")
        for file in FILES:
            folder, run = (Path(scratch) / f"{name}-{file}" for name in ("model", "run"))
            Marian(d_model=512, n_layers=6, extra_pieces=58_101 - 700, vocab_size=400, file=file).write(folder, *sides)
            start = time.perf_counter()
            call = f"import_model(Request({str(folder)!r}, Path({str(run)!r})))"
            peak = peak_of(f"from pathlib import Path; from nmt.share.public import Request, import_model; {call}")
            seconds = time.perf_counter() - start
            size = sum(tensor.nbytes for tensor in open_saved(run).weights.tensors.values()) / 2**20
            above = (peak - idle) / 1024
            shares = f"{above:.0f} above the imports: {above / size:.2f} times the {size:.0f} MiB of the weights"
            print(f"{file}: {seconds:.1f} s; peak {peak / 1024:.0f} MiB, {shares}", flush=True)
            status |= int(seconds > 20 or above > 1.5 * size)
        for line in rates(run, sides[0][:100]):
            print(line, flush=True)
    return status


ROUNDS = 7


def rates(run: Path, lines: list[str]) -> Iterator[str]:
    """Yield the times of training and translating with an imported model and with an own model of its shape, which has
    no output bias and no zero start. All translations have 24 pieces, since the weights are random."""
    saved, device = open_saved(run), torch.device("cpu")
    precision = pick_precision("auto", device)
    model = saved.config.model.model_copy(update={"output_bias": False, "start_embedding": "learned"})
    tensors = {name: tensor for name, tensor in saved.weights.tensors.items() if name != "output_bias"}
    config = saved.config.model_copy(update={"model": model})
    own = replace(saved, config=config, weights=replace(saved.weights, tensors=tensors))
    pairs = Pairs(lines_of(Lines(), "de"), lines_of(Lines(), "en"))
    updates = epoch_updates(pairs.lengths, 2048, seed=1, epoch=0, pool_pairs=PAIRS)[:2]
    n_pieces, target = max(saved.tokenizers.sizes.values()), saved.tokenizers[saved.config.data.tgt]
    sessions = [make_session(each.config, pairs, updates, precision, vocabulary=n_pieces) for each in (saved, own)]
    yield ratio(f"an update, {precision}", [partial(go_through, each, updates) for each in sessions])
    settings = {"beam": 4, "min_length": 24, "max_length_ratio": 0.0, "max_length_offset": 24}
    translators = [
        Translator(NativeSearcher([each.transformer()], target, device, precision), each.tokenizers, each.config, [])
        for each in (saved, own)
    ]
    yield ratio("translating", [partial(each.translate, lines, **settings) for each in translators])


def ratio(name: str, works: Sequence[Callable[[], object]]) -> str:
    """Do two works in turn, and return the median of the ratios of their times with its quartiles."""
    seconds: list[list[float]] = [[], []]
    for _ in range(ROUNDS + 1):  # the first is not counted
        for work, found in zip(works, seconds, strict=True):
            start = time.perf_counter()
            work()
            found.append(time.perf_counter() - start)
    shares = [a / b for a, b in zip(*(found[1:] for found in seconds), strict=True)]
    low, middle, high = statistics.quantiles(shares, n=4)
    return f"{name}: {middle:.3f} of the time of an own model of that shape ({low:.3f} to {high:.3f})"


def peak_of(code: str) -> int:
    """Return the peak memory of a process that runs Python code, in KiB; `ru_maxrss` would count the parent's."""
    found = f"{code}; print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    return int(subprocess.run([sys.executable, "-c", found], capture_output=True, check=True, text=True).stdout)


if __name__ == "__main__":
    set_up()
    sys.exit(main())
