"""Compare translations by PyTorch and CTranslate2: one text through both engines, in float32 and in int8.

    python -m scripts.checks.compare_engines --run DIR --src FILE --ref FILE [--set K=V] [--quantization float32,int8]

Prints how many translations are identical, the largest difference between their scores, BLEU of each engine with its
signature, and the translations that differ.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from nmt.config.load import load_config
from nmt.evaluate.metrics import corpus_score
from nmt.layout import RunDir
from nmt.process import set_up
from nmt.runs.folder import load_folder
from nmt.share.engine import Engine, compare, engine_translator
from nmt.share.export import ExportOptions, export
from nmt.text.lines import read_aligned
from nmt.translate.loading import Translator
from nmt.translate.types import Translation


def main(arguments: list[str] | None = None) -> None:
    """Export, translate and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--quantization", default="float32,int8")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--show", type=int, default=3, help="of the translations that differ")
    options = parser.parse_args(arguments)
    sources, references = zip(*read_aligned(options.src, options.ref), strict=True)
    search = load_config(RunDir(options.run).config, options.overrides).search
    native = Translator.load(options.run, device="cpu", precision="float32")
    wanted = [found[0] for found in native.translate_lines(sources, search)]
    language = native.config.data.tgt
    print(f"native float32: {bleu(wanted, references, language)}")
    for quantization in options.quantization.split(","):
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / quantization
            export(ExportOptions(options.run), path, "ctranslate2", quantization)
            engine = Engine(load_folder(path))
        found = [each[0] for each in engine_translator(engine).translate_lines(sources, search)]
        print(f"ctranslate2 {quantization}: {bleu(found, references, language)}")
        print(f"ctranslate2 {quantization}: {compare(native, engine, sources, search)}")
        differing = [i for i, (a, b) in enumerate(zip(wanted, found, strict=True)) if a.text != b.text]
        for i in differing[: options.show]:
            print(f"  line {i + 1}")
            for name, each in (("native", wanted[i]), ("ctranslate2", found[i])):
                print(f"    {name:<12} {each.score:9.5f}  {each.text}")


def bleu(found: list[Translation], references: tuple[str, ...], language: str) -> str:
    """BLEU with its signature."""
    score = corpus_score("bleu", [each.text for each in found], references, language)
    return f"{score.value:.2f} {score.signature}"


if __name__ == "__main__":
    set_up()
    main()
