"""Sequence-level knowledge distillation (Kim and Rush, 2016): a student learns from a teacher's translations.

A teacher (a run, or several as an ensemble) translates the training text of its data directory. What it says is more
regular than what people wrote, so a smaller or faster student can learn nearly all of it. With --n-best K above 1 that
of the teacher's K best translations is taken which is most like the reference (sequence-level interpolation).

    python scripts/distil.py --teacher runs/big-de-en --output data/distilled/small \\
        --set model.encoder_layers=3 --set model.decoder_layers=2 --set model.d_model=256
    python scripts/distil.py --teacher runs/a --teacher runs/b --n-best 5 --with-originals --output data/distilled/ab

DIR gets the translations, a config for the student (the teacher's, with the same development and test data, changed
by --config and --set) and the counts; the commands that follow are printed, or run with --run. It may be stopped at any
moment: the same command goes on with the chunk of 4,096 lines it was at, and does nothing where all is done.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nmt.cli.exits import errors_for_people
from nmt.config import Config, DataConfig, SearchConfig, Source
from nmt.config.load import load_config
from nmt.data.corpus import Corpus
from nmt.errors import ConfigError, DataError
from nmt.layout import DataDir
from nmt.text.lines import read_aligned, read_lines
from recipe import Recipe, config_of, data_of, follow, next_config, rooted, settings_of

if TYPE_CHECKING:
    from nmt.translate.translator import Translator


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = found.add_argument
    add("--teacher", type=Path, action="append", required=True, metavar="RUN", help="run; several are an ensemble")
    add("--output", type=Path, required=True, metavar="DIR", help="folder to write")
    add("--data", type=Path, metavar="DIR", help="data directory to translate (default: that of the teacher)")
    add("--n-best", type=int, default=1, metavar="K", help="of K translations take that nearest to the reference")
    add("--nearest", choices=("chrf", "bleu"), default="chrf", help="by which sentence score (default: chrf)")
    add("--with-originals", action="store_true", help="the student learns from the references, too")
    add("--beam", type=int, metavar="N", help="beam of the teacher (default: its config's)")
    add("--search", action="append", default=[], metavar="KEY=VALUE", help="another search setting of the teacher")
    add("--config", metavar="FILE", help="model, training and search settings of the student (default: the teacher's)")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the student")
    add("--run", action="store_true", help="run the commands that follow")
    return found


def nearest(texts: Sequence[str], reference: str, metric: Literal["chrf", "bleu"], language: str) -> str:
    """The text with the best sentence score against the reference; of equals the first. Blank if there is none."""
    from nmt.translate.mbr import pairwise

    if len(texts) < 2:
        return texts[0] if texts else ""
    scores = pairwise([*texts, reference], metric, language)[:-1, -1]
    return texts[int(scores.argmax())]


def distil(options: argparse.Namespace) -> int:
    """Do it; the exit status."""
    teacher = config_of(options.teacher[0])
    if options.data is None and any(source.repeat > 1 for source in teacher.data.train):
        raise ConfigError([
            f"{options.teacher[0]}: its training text has corpora that repeat (data.train.N.repeat), of which the "
            "student would get each pair once; nmt prepare it without that, and name the data directory with --data"
        ])  # fmt: skip
    data = DataDir(options.data or data_of(options.teacher[0]))
    corpus = Corpus.open(data)
    src, tgt = teacher.data.src, teacher.data.tgt
    if set(corpus.languages) != {src, tgt}:
        raise DataError(f"{data.path}: is {' and '.join(corpus.languages)}, the teacher translates {src}-{tgt}")
    search = _search(teacher, options)
    asked: dict[str, Any] = {
        "recipe": "distil",
        "text": corpus.fingerprint,
        "n_best": options.n_best,
        "nearest": options.nearest if options.n_best > 1 else None,
        **settings_of(options.teacher, search),
    }
    recipe = Recipe(options.output, asked, options.teacher)
    texts = data.text("train", src), data.text("train", tgt)
    held_out = _split_off_lines(teacher.data, data)

    def translate(translator: Translator, rows: Sequence[tuple[str, str]], first: int) -> Iterator[str]:
        found = translator.translate_window([line for line, _ in rows], search, options.n_best, first)
        for (_, reference), translations in zip(rows, found, strict=True):
            finished = [each.text for each in translations if each.finished and each.text.strip() not in held_out]
            yield nearest(finished, reference, options.nearest, tgt)

    def count(path: Path) -> dict[str, int]:
        counts = dict.fromkeys(("lines", "translations", "of these equal to the reference", UNFINISHED), 0)
        for translation, reference in read_aligned(path, texts[1]):
            kind = "translations" if translation.strip() else UNFINISHED
            counts["lines"] += 1
            counts[kind] += 1
            counts["of these equal to the reference"] += translation == reference
        return counts

    name = f"distilled.{tgt}"
    originals = Source(files={src: str(texts[0]), tgt: str(texts[1])}, name="originals")
    distilled = Source(files={src: str(texts[0]), tgt: str(recipe.folder / name)}, name="distilled")
    corpora = [originals, distilled] if options.with_originals else [distilled]
    run_dir = f"runs/distilled-{recipe.folder.name}-{{direction}}"
    config = next_config(_student(teacher, options.config, data.path), recipe, corpora, run_dir, options.set)
    counts = recipe.make(name, read_aligned(*texts), corpus.split("train").n, translate, count)
    return follow(recipe, counts, config, options.run)


UNFINISHED = "without a finished translation that is not in the development set (nmt prepare drops them as empty)"


def _split_off_lines(config: DataConfig, data: DataDir) -> set[str]:
    """The target lines of a development set that was split off: no training pair has a side in common with it."""
    if isinstance(config.valid, Source):
        return set()
    return {line.strip() for line in read_lines(data.text("valid", config.tgt))}


def _search(teacher: Config, options: argparse.Namespace) -> SearchConfig:
    """Of the teacher. Raises ConfigError."""
    from nmt.cli.defaults import search_settings
    from nmt.translate.types import check_search

    if options.n_best < 1:
        raise ConfigError([f"--n-best {options.n_best}: must be at least 1"])
    search = search_settings(teacher, options.beam, None, [f"search.{setting}" for setting in options.search])
    check_search(search, options.n_best)
    return search


def _student(teacher: Config, name: str | None, prepared: Path) -> Config:
    """The student's settings, with the data and the tokenizer of the teacher. Raises ConfigError or DataError."""
    student = load_config(name) if name else teacher
    return rooted(student.model_copy(update={"data": teacher.data, "tokenizer": teacher.tokenizer}), prepared)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options and do it."""
    options = parser().parse_args(arguments)
    with errors_for_people():
        return distil(options)


if __name__ == "__main__":
    sys.exit(main())
