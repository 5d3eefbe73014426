"""Sequence-level knowledge distillation (Kim and Rush, 2016): training a student on a teacher's translations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nmt.config import Config, DataConfig, SearchConfig, Source
from nmt.config.load import load_config
from nmt.config.source import TrainFiles, joint_license
from nmt.console import say
from nmt.data.corpus import Corpus
from nmt.errors import ConfigError, DataError
from nmt.layout import DataDir
from nmt.recipes.directory import (
    RecipeDir,
    data_directory,
    follow,
    next_config,
    rooted,
    run_config,
    translation_settings,
)
from nmt.text.lines import read_aligned, read_lines

if TYPE_CHECKING:
    from nmt.translate.translator import Translator

Metric = Literal["chrf", "bleu"]
UNFINISHED = "left blank: no finished translation outside the development set (nmt prepare drops them as empty)"


@dataclass(frozen=True)
class Distillation:
    """The options of `nmt distil`."""

    teachers: Sequence[Path]
    """Run directories of the teacher; several runs form an ensemble."""
    output: Path
    search: SearchConfig
    """Search settings of the teacher."""
    data: Path | None = None
    """Data directory to translate; by default the teacher's."""
    n_best: int = 1
    nearest: Metric = "chrf"
    """Sentence score by which one of `n_best` translations is chosen."""
    with_originals: bool = False
    student: str | None = None
    """Config with the student's model, training and search settings; by default the teacher's."""
    overrides: Sequence[str] = ()
    """Changes to the student's config, `section.key=value`."""
    run_commands: bool = False
    """Whether to run the commands that follow."""


def distil(request: Distillation) -> int:
    """Translate the training text of the teacher's data directory, and write the config of the student.

    Return the exit status of the first following command that fails, else 0. Raises ConfigError, DataError or
    CheckpointError before anything is written.
    """
    from nmt.translate.types import check_search  # imports torch

    teacher = run_config(request.teachers[0])
    if request.data is None and any(source.repeat > 1 for source in teacher.data.train):
        raise ConfigError([
            f"{request.teachers[0]}: trained with data.train.N.repeat above 1, but the student would learn each pair "
            "once; prepare the text without repeat, and give its data directory with --data"
        ])  # fmt: skip
    data = DataDir(request.data or data_directory(request.teachers[0]))
    corpus = Corpus.open(data)
    src, tgt = teacher.data.sides
    if set(corpus.languages) != {src, tgt}:
        raise DataError(
            f"{data.path}: contains {' and '.join(corpus.languages)}, but the teacher translates {src}-{tgt}"
        )
    check_search(request.search, request.n_best)
    n_lines = corpus.in_one_file("train").n
    recipe = RecipeDir(request.output, _settings(request, corpus), request.teachers)
    name = f"distilled.{tgt}"
    texts = data.text("train", src), data.text("train", tgt)
    joint = None if request.data is not None else joint_license(teacher.data.train)
    originals = TrainFiles(files={src: str(texts[0]), tgt: str(texts[1])}, name="originals", license=joint)
    distilled = TrainFiles(files={src: str(texts[0]), tgt: str(recipe.path / name)}, name="distilled", license=joint)
    corpora = [originals, distilled] if request.with_originals else [distilled]
    run_dir = f"runs/distilled-{recipe.path.name}-{{direction}}"
    config = next_config(_student(request, teacher, data.path), recipe, corpora, run_dir, request.overrides)
    held_out = _split_off_lines(teacher.data, data)

    def translate(translator: Translator, rows: Sequence[tuple[str, str]], first: int) -> Iterator[str]:
        lines = [line for line, _ in rows]
        n_best_lists = translator.translate_window(lines, request.search, request.n_best, first)
        for (_, reference), n_best in zip(rows, n_best_lists, strict=True):
            texts = [best.text for best in n_best if best.finished and best.text.strip() not in held_out]
            yield nearest(texts, reference, request.nearest, tgt)

    def count(path: Path) -> dict[str, int]:
        return _count(path, texts[1])

    counts = recipe.write(name, read_aligned(*texts), n_lines, translate, count)
    if counts[UNFINISHED] > counts["translations"]:
        say("warning: most lines have no finished translation; the teacher may need more training")
    return follow(recipe, counts, config, request.run_commands)


def nearest(texts: Sequence[str], reference: str, metric: Metric, language: str) -> str:
    """Return the text with the best sentence score against the reference, or the first of several.

    Empty if there are no texts.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    from nmt.evaluate.metrics import default_tokenizer

    if len(texts) < 2:
        return texts[0] if texts else ""
    scorer = CHRF() if metric == "chrf" else BLEU(tokenize=default_tokenizer(language), effective_order=True)
    return max(texts, key=lambda text: scorer.sentence_score(text, [reference]).score)


def _settings(request: Distillation, corpus: Corpus) -> dict[str, object]:
    return {
        "recipe": "distil",
        "text": corpus.fingerprint,
        "n_best": request.n_best,
        "nearest": request.nearest if request.n_best > 1 else None,
        **translation_settings(request.teachers, request.search),
    }


def _split_off_lines(config: DataConfig, data: DataDir) -> set[str]:
    """Return the target lines of the split-off development set, which training pairs must not contain."""
    if isinstance(config.valid, Source):
        return set()
    return {line.strip() for line in read_lines(data.text("valid", config.tgt))}


def _count(translations: Path, references: Path) -> dict[str, int]:
    counts = dict.fromkeys(("lines", "translations", "of these equal to the reference", UNFINISHED), 0)
    for translation, reference in read_aligned(translations, references):
        kind = "translations" if translation.strip() else UNFINISHED
        counts["lines"] += 1
        counts[kind] += 1
        counts["of these equal to the reference"] += translation == reference
    return counts


def _student(request: Distillation, teacher: Config, prepared: Path) -> Config:
    """Return the student's settings, with the teacher's data and tokenizer. Raises ConfigError or DataError."""
    student = load_config(request.student) if request.student else teacher
    data = teacher.data
    if request.data is not None:  # its licences are unknown
        data = data.model_copy(update={"train": data.without_licenses().train})
    return rooted(student.model_copy(update={"data": data, "tokenizer": teacher.tokenizer}), prepared)
