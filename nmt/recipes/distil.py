"""Sequence-level knowledge distillation (Kim and Rush, 2016): training a student on a teacher's translations."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nmt.config import Config
from nmt.config.load import load_config
from nmt.console import aligned, say
from nmt.data.corpus import Corpus
from nmt.data.settings import DataConfig
from nmt.data.sources import FilesSource, TrainFiles, joint_license
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.evaluate.metrics import corpus_score, default_tokenizer, few_four_grams
from nmt.files.read import checksum
from nmt.layout import DataDir
from nmt.recipes.directory import (
    RecipeDir,
    count_lines,
    data_directory,
    follow,
    license_of,
    next_config,
    rooted,
    rooted_clean,
    run_config,
    translation_settings,
)
from nmt.runs.model import ModelRef, open_saved
from nmt.search.settings import SearchConfig
from nmt.share.export import engine_for
from nmt.text.lines import read_aligned, read_lines
from nmt.text.tokenizer import is_blank
from nmt.translate.loading import Translator
from nmt.translate.types import Options, check_search

DistilMetric = Literal["chrf", "bleu"]
EQUAL = "of these equal to the reference"
UNFINISHED = "left blank: no finished translation, or one of the development set (nmt prepare drops them as empty)"
BLANK_LINES = "blank lines"


@dataclass(frozen=True)
class Distillation:
    """The options of `nmt distil`."""

    teacher: ModelRef
    output: Path
    search: SearchConfig
    """Search settings of the teacher."""
    data: Path | None = None
    """Data directory to translate; by default the teacher's."""
    n_best: int = 1
    nearest: DistilMetric = "chrf"
    """Sentence score by which one of `n_best` translations is chosen."""
    with_originals: bool = False
    mono: Path | None = None
    """Text in the source language to translate instead of a data directory."""
    test: tuple[Path, Path] | None = None
    """Test set of a student of monolingual text: a source and a reference file."""
    student: str | None = None
    """Config with the student's model, training and search settings; by default the teacher's."""
    own_tokenizer: bool = False
    """Whether the student trains a tokenizer by the settings of its config instead of using the teacher's."""
    overrides: Sequence[str] = ()
    """Changes to the student's config, `section.key=value`."""
    run_commands: bool = False
    """Whether to run the commands that follow."""


@dataclass(frozen=True)
class _Text:
    """The text that the teacher translates, and the development and test sets of the student."""

    src: Path
    tgt: Path | None
    """The references; None for monolingual text."""
    n: int
    version: str
    data: DataConfig
    """The data settings of the student, before the recipe replaces its training corpora."""
    held_out: set[str]
    """Translations that training pairs must not contain."""
    license: str | None

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield the lines with their references, empty for monolingual text."""
        if self.tgt is None:
            return ((line, "") for line in read_lines(self.src))
        return iter(read_aligned(self.src, self.tgt))


def distil(request: Distillation) -> int:
    """Translate text with the teacher, and write the config of the student.

    Return the exit status of the first following command that fails, else 0. Raises ConfigError, DataError or
    CheckpointError before anything is written.
    """
    teacher = run_config(request.teacher)
    student = load_config(request.student) if request.student else teacher
    text = _monolingual(request, teacher) if request.mono else _parallel(request, teacher, student)
    check_search(request.search, request.n_best)
    recipe = RecipeDir(request.output, _settings(request, text.version), request.teacher)
    src, tgt = teacher.data.sides
    name = f"distilled.{tgt}"
    files = {src: str(text.src), tgt: str(recipe.path / name)}
    licenses = dict.fromkeys(filter(None, (text.license, license_of(request.teacher.paths))))
    corpora = [TrainFiles(files=files, name="distilled", license=", ".join(licenses) or None)]
    if request.with_originals:
        originals = {src: str(text.src), tgt: str(text.tgt)}
        corpora.insert(0, TrainFiles(files=originals, name="originals", license=text.license))
    # every pair is translated once, so the mixture of the teacher's corpora is gone
    data = text.data.model_copy(update={"temperature": None})
    watch = [name for name in student.training.watch if name in data.test]
    changes: dict[str, object] = {
        "data": data,
        "training": student.training.model_copy(update={"watch": watch}),
        "search": student.search.model_copy(update={"tags": None}),
    }
    if not request.own_tokenizer:
        changes["tokenizer"] = teacher.tokenizer
    run_dir = f"runs/distilled-{recipe.path.name}-{{direction}}"
    original = student.model_copy(update={"data": teacher.data})
    config = next_config(student.model_copy(update=changes), original, recipe, corpora, run_dir, request.overrides)

    def translate(translator: Translator, rows: Sequence[tuple[str, str]], first: int) -> Iterator[str]:
        lines = [line for line, _ in rows]
        n_best_lists = translator.translate_window(lines, Options(request.search, request.n_best), first)
        for (_, reference), n_best in zip(rows, n_best_lists, strict=True):
            texts = [best.text for best in n_best if best.finished and best.text.strip() not in text.held_out]
            yield nearest(texts, reference, request.nearest, tgt)

    counts = recipe.write(name, text.rows(), text.n, translate, lambda path: _count(path, text))
    if counts[UNFINISHED] > counts["translations"]:
        say("warning: most lines have no finished translation; the teacher may need more training")
    tokenizer_from = None if request.own_tokenizer else request.teacher.path
    return follow(recipe, counts, config, tokenizer_from, run_commands=request.run_commands)


def _parallel(request: Distillation, teacher: Config, student: Config) -> _Text:
    """Return the training text of the teacher's data directory. Raises ConfigError or DataError."""
    if request.data is None and any(source.repeat > 1 for source in teacher.data.train):
        raise ConfigError(
            f"{request.teacher.path}: trained with data.train.N.repeat above 1, but the student would learn each pair "
            "once; prepare the text without repeat, and give its data directory with --data"
        )
    data = DataDir(
        request.data or data_directory(request.teacher.path, teacher.data, "one with --data, or text with --mono")
    )
    corpus = Corpus.open(data)
    src, tgt = teacher.data.sides
    if set(corpus.languages) != {src, tgt}:
        raise DataError(
            f"{data.path}: contains {' and '.join(corpus.languages)}, but the teacher translates {src}-{tgt}"
        )
    teacher_data = teacher.data
    text_license = joint_license(teacher.data.train)
    if request.data is not None:  # its licences are unknown
        text_license = None
        teacher_data = teacher_data.model_copy(update={"train": teacher_data.without("license").train})
    teacher_data = teacher_data.without("tags")  # the student's text has none
    student_data = rooted(student.model_copy(update={"data": teacher_data}), data.path).data
    n_lines = corpus.in_one_file("train").n
    held_out = _split_off_lines(teacher.data, data)
    return _Text(
        data.text("train", src),
        data.text("train", tgt),
        n_lines,
        corpus.fingerprint,
        student_data,
        held_out,
        text_license,
    )


def _monolingual(request: Distillation, teacher: Config) -> _Text:
    """Return the text of --mono. Raises DataError."""
    assert request.mono is not None
    n_lines = count_lines(request.mono)
    src, tgt = teacher.data.sides
    test = {}
    if request.test is not None:
        list(read_aligned(*request.test))  # errors before hours of translation
        test["test"] = FilesSource(files=dict(zip((src, tgt), map(str, request.test), strict=True)))
    placeholder = TrainFiles(files={src: str(request.mono), tgt: str(request.mono)})
    changes: dict[str, object] = {
        "root": ".",
        "train": [placeholder],
        "valid": min(1000, max(1, n_lines // 20)),
        "test": test,
        "mono": {},
        "clean": rooted_clean(teacher.data.clean, teacher.data.root),
    }
    return _Text(
        request.mono, None, n_lines, checksum(request.mono), teacher.data.model_copy(update=changes), set(), None
    )


def nearest(texts: Sequence[str], reference: str, metric: DistilMetric, language: str) -> str:
    """Return the text with the best sentence score against the reference, or the first of several.

    Empty if there are no texts.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if len(texts) < 2:
        return texts[0] if texts else ""
    scorer: CHRF | BLEU = CHRF()
    if metric == "bleu":
        scorer = BLEU(tokenize=default_tokenizer(language), effective_order=True)
    return max(texts, key=lambda text: scorer.sentence_score(text, [reference]).score)


def _settings(request: Distillation, version: str) -> dict[str, object]:
    return {
        "recipe": "distil",
        "text": version,
        "n_best": request.n_best,
        "nearest": request.nearest if request.n_best > 1 else None,
        **translation_settings(request.teacher, request.search),
    }


def _split_off_lines(config: DataConfig, data: DataDir) -> set[str]:
    """Return the target lines of the sets that were split off, which training pairs must not contain."""
    held_out = set()
    for name in config.drawn:
        held_out |= {line.strip() for line in read_lines(data.text(name, config.tgt))}
    return held_out


def _count(translations: Path, text: _Text) -> dict[str, int]:
    is_mono = text.tgt is None
    counts = dict.fromkeys(["lines", "translations", BLANK_LINES if is_mono else EQUAL, UNFINISHED], 0)
    for translation, (line, reference) in zip(read_lines(translations), text.rows(), strict=True):
        counts["lines"] += 1
        if translation.strip():
            counts["translations"] += 1
        elif is_mono and is_blank(line):
            counts[BLANK_LINES] += 1
        else:
            counts[UNFINISHED] += 1
        if not is_mono and translation == reference:
            counts[EQUAL] += 1
    return counts


TIMED = 300
"""Number of lines whose translation is timed, three times after a first time."""


def compared(teacher: ModelRef, student: Path, data: DataDir, search: SearchConfig) -> Iterator[str]:
    """Yield the lines of a table that compares a student with its teacher on a test set of the student's data.

    Without a test set, it is the development set, whose references are translations by the teacher. Both are also
    measured as CTranslate2 models in int8, if that package is installed. search: the settings of the teacher.
    """
    corpus = Corpus.open(data)
    split = corpus.split([*corpus.tests, "valid"][0])
    where = f"test set, {split.n:,} lines"
    if not corpus.tests:
        where = f"{split.n:,} held-out lines, as the teacher translates them"
    rows = [["", "BLEU", "chrF", "million parameters", "MB", "sentences/s"]]
    signatures = set()
    for name, model in (("teacher", teacher), ("student", ModelRef((student,)))):
        n_parameters = 0
        for path in model.paths:
            n_parameters += sum(tensor.numel() for tensor in open_saved(path).weights.tensors.values())
        translator = Translator.load(model.undirected).towards(model.to, model.source)
        if name == "student":
            search = translator.config.search
        systems = [(name, translator, 4 * n_parameters)]
        try:
            engine = engine_for(model.undirected, int8=True).towards(model.to, model.source)
            engine.check(search, 1)
            assert engine.origin is not None, "loaded from a directory"
            systems.append((f"{name}, int8", engine, (engine.origin.run / "model.bin").stat().st_size))
        except (CheckpointError, ConfigError) as error:  # such as a model that differs too much, as on some old CPUs
            say(f"{name}: without int8: {error}")
        for label, system, n_bytes in systems:
            src, tgt = system.config.data.sides
            lines = split.text(src)
            references = split.text(tgt)
            texts = [best.text for best, *_ in system.translate_lines(lines, search)]
            scores = [corpus_score(metric, texts, references, tgt) for metric in ("bleu", "chrf")]
            signatures |= {score.signature for score in scores}
            sizes = f"{n_parameters / 1e6:.1f}", f"{n_bytes / 1e6:.1f}"
            speed = _speed(system, lines[:TIMED], search)
            rows.append([label, *(f"{score.value:.2f}" for score in scores), *sizes, f"{speed:.1f}"])
    yield f"on the {where}; {', '.join(sorted(signatures))}"
    yield from aligned(rows, range(1, 6))
    yield from filter(None, [few_four_grams(references, tgt)])


def _speed(translator: Translator, lines: Sequence[str], search: SearchConfig) -> float:
    """Return the number of lines translated per second, the median of three times."""
    seconds = timeit.repeat(lambda: [*translator.translate_lines(lines, search)], number=1, repeat=3)
    return len(lines) / statistics.median(seconds)
