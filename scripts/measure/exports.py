"""Measure size, speed and quality of the exports of a run.

    python -m scripts.measure.exports --run RUN --src FILE --ref FILE [--timed 50] [--keep DIR]

Each export translates all lines of FILE; the first `--timed` of them one at a time, each program with the search that
it uses by default: beam search with the run's settings, but greedy search with ONNX. Prints Markdown with the size, the
median time of a line and the range of its middle half, and BLEU. `--keep` writes translations to DIR/FORMAT.txt, for
`nmt compare --hyp`. transformers.js and browsers are measured by scripts/checks/web_page.py.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from nmt.evaluate.metrics import corpus_score
from nmt.runs.kinds import Kind, Quantization
from nmt.runs.model import open_saved
from nmt.share.engine import load_ctranslate2
from nmt.share.export import ExportOptions, export, export_argos
from nmt.share.onnx import OnnxSearcher
from nmt.text.lines import read_lines
from nmt.translate.loading import Translator

Translate = Callable[[list[str]], list[str]]
N_WARM = 5
BATCH = 32
FORMATS: list[tuple[Kind, Quantization | None]] = [
    ("folder", None), ("ctranslate2", "float32"), ("ctranslate2", "int8"), ("transformers", None), ("argos", "int8"),
    ("onnx", "float32"), ("onnx", "int8"),
]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Export, translate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--timed", type=int, default=50)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args(arguments)
    lines, refs = [*read_lines(options.src)], [*read_lines(options.ref)]
    print("| format | MB | median ms a line | middle half | BLEU |\n|---|---|---|---|---|")
    signature = ""
    for kind, quantization in FORMATS:
        name = f"{kind} {quantization or 'float32'}"
        with TemporaryDirectory() as scratch:
            size, translate = exported(options.run, kind, quantization, Path(scratch))
            hyps = translate(lines)
            seconds = [*timed(translate, lines[: options.timed + N_WARM])][N_WARM:]
        if options.keep:
            options.keep.mkdir(exist_ok=True, parents=True)
            (options.keep / f"{name.replace(' ', '-')}.txt").write_text("".join(f"{hyp}\n" for hyp in hyps), "utf-8")
        low, middle, high = (1000 * value for value in statistics.quantiles(seconds, n=4))
        score = corpus_score("bleu", hyps, refs, open_saved(options.run).config.data.tgt)
        signature = score.signature
        print(f"| {name} | {size / 1e6:.1f} | {middle:.0f} | {low:.0f} to {high:.0f} | {score.value:.2f} |", flush=True)
    print(f"\n{len(lines):,} lines, {torch.get_num_threads()} threads, {signature}")


def exported(run: Path, kind: Kind, quantization: Quantization | None, scratch: Path) -> tuple[int, Translate]:
    """Return the size of an export, and a function that translates with it."""
    folder = scratch / "export"
    request = ExportOptions(run)
    if kind == "argos":
        package = export_argos(request, scratch / "x.argosmodel", quantization).path
        return package.stat().st_size, with_argos(package, scratch)
    export(request, folder, kind, quantization)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    saved = open_saved(run)
    match kind:
        case "transformers":
            return size, with_transformers(folder)
        case "ctranslate2":
            translator = load_ctranslate2(folder)
        case "onnx":
            never_written = saved.tokenizers[saved.config.data.tgt].never_written(saved.config.joins_sentences)
            searcher = OnnxSearcher(folder, quantization or "float32", never_written)
            translator = Translator.configured(searcher, saved.tokenizers, saved.config)
        case _:
            translator = Translator.load(folder, device="cpu")
    translator = translator.by_direction()[0]
    changes: dict[str, Any] = {"beam": 1} if kind == "onnx" else {}
    search = translator.search.model_copy(update=changes)

    def translate(lines: list[str]) -> list[str]:
        return [best.text for best, *_ in translator.translate_lines(lines, search)]

    return size, translate


def with_transformers(folder: Path) -> Translate:
    """Return a function that translates with Hugging Face transformers, in batches of similar lengths."""
    import transformers  # optional

    transformers.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)

    def translate(lines: list[str]) -> list[str]:
        order = iter(sorted(range(len(lines)), key=lambda i: len(lines[i])))
        hyps = [""] * len(lines)
        while rows := [*islice(order, BATCH)]:
            inputs = tokenizer([lines[i] for i in rows], padding=True, truncation=True, return_tensors="pt")
            texts = tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True)
            for i, text in zip(rows, texts, strict=True):
                hyps[i] = text
        return hyps

    return translate


def with_argos(package: Path, scratch: Path) -> Translate:
    """Return a function that translates with Argos Translate, which has all its files in `scratch`."""
    os.environ |= {"XDG_DATA_HOME": str(scratch), "XDG_CONFIG_HOME": str(scratch), "XDG_CACHE_HOME": str(scratch)}
    os.environ["ARGOS_CHUNK_TYPE"] = "MINISBD"
    from argostranslate import package as packages  # optional
    from argostranslate import translate as argos

    packages.install_from_path(str(package))
    [installed] = packages.get_installed_packages()
    codes = installed.from_code, installed.to_code
    return lambda lines: [argos.translate(line, *codes) for line in lines]


def timed(translate: Translate, lines: Sequence[str]) -> Iterator[float]:
    """Yield the seconds for each line."""
    for line in lines:
        began = time.perf_counter()
        translate([line])
        yield time.perf_counter() - began


if __name__ == "__main__":
    main()
