"""Compare translations of Argos Translate, with an exported package, and of `nmt translate` with CTranslate2.

    python -m scripts.checks.argos --run R --src F [--lines N] [--quantization Q]

Both use the same search (beam 4, length penalty 0.2); `nmt` divides each line into sentences (search.split=always), and
once more as it does by default, where a line stays whole. Differences are counted by cause. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from nmt.evaluate.metrics import corpus_score
from nmt.runs.kinds import Quantization
from nmt.search.settings import SearchConfig
from nmt.share.engine import load_ctranslate2
from nmt.share.export import ExportOptions, export, export_argos
from nmt.text.lines import read_lines
from nmt.text.split import n_sentences
from nmt.translate.loading import Translator
from nmt.translate.types import Translation

SEARCH = {"beam": 4, "length_penalty": 0.2, "max_length_ratio": 0.0, "max_length_offset": 256}
"""Argos Translate's search, which ends at 256 pieces, `</s>` counted."""


def main(args: Sequence[str] | None = None) -> None:
    """Print the shares of equal translations, the causes of differences, and both times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--quantization", choices=get_args(Quantization), default="int8")
    options = parser.parse_args(args)
    lines = list(islice(read_lines(options.src), options.lines))
    with TemporaryDirectory() as scratch:
        isolate(scratch, options.quantization)
        package = export_argos(ExportOptions(options.run), Path(scratch) / "x.argosmodel", options.quantization).path
        folder = export(ExportOptions(options.run), Path(scratch) / "export", "ctranslate2", options.quantization).path
        print(f"package: {package.stat().st_size / 1e6:.2f} MB, export: {size(folder) / 1e6:.2f} MB")
        translator = load_ctranslate2(folder)
        start = time.perf_counter()
        theirs = argos_translations(package, lines)
        print(f"Argos Translate: {time.perf_counter() - start:.1f} s, line by line")
        languages = translator.config.data
        for split in ("always", "long"):
            start = time.perf_counter()
            search = SearchConfig.model_validate(SEARCH | {"split": split})
            ours = [best for best, *_ in translator.translate_lines(lines, search)]
            print(f"nmt, search.split={split}: {time.perf_counter() - start:.1f} s, in batches")
            alone = partial(translate_alone, translator, search)
            causes = Counter(cause(*texts, alone) for texts in zip(lines, ours, theirs, strict=True))
            print("  " + ", ".join(f"{name}: {n}" for name, n in causes.most_common()))
            bleu = corpus_score("bleu", theirs, [best.text for best in ours], languages.tgt)
            print(f"  BLEU between them {bleu.value:.2f}")


def isolate(folder: str, compute_type: str) -> None:
    """Make Argos Translate work in a folder of its own; call this before it is imported."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "ARGOS_PACKAGES_DIR"):
        os.environ[name] = f"{folder}/{name}"
    os.environ["ARGOS_COMPUTE_TYPE"] = compute_type


def argos_translations(package: Path, lines: Sequence[str]) -> list[str]:
    """Install a package and translate line by line, including what loading the model takes."""
    from argostranslate import package as packages
    from argostranslate import translate

    packages.install_from_path(package)
    [installed] = packages.get_installed_packages()
    translation: Any = translate.get_translation_from_codes(installed.from_code, installed.to_code)
    return [translation.translate(line) for line in lines]


def translate_alone(translator: Translator, search: SearchConfig, line: str) -> str:
    """Translate one line in a batch of its own."""
    return next(iter(translator.translate_lines([line], search)))[0].text


def cause(line: str, ours: Translation, theirs: str, alone: Callable[[str], str]) -> str:
    """Name why two translations of a line differ."""
    if ours.text == theirs:
        return "equal"
    if "_" in ours.text and ours.text.replace("_", " ").strip() == theirs.strip():
        return "underscore"
    if ours.text.strip() == theirs.strip() or line != line.strip():
        return "outer spaces"
    if not ours.finished:
        return "cut at the maximum length"
    if n_sentences(line) > 1 and len(ours.parts) <= 1:
        return "several sentences"
    return "another batch" if alone(line) == theirs else "other"


def size(folder: Path) -> int:
    """Return the size of all files in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
