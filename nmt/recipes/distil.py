"""Sequence-level knowledge distillation (Kim and Rush, 2016): training a student on a teacher's translations."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nmt.chat.dry_run import is_dry_run
from nmt.config import Config
from nmt.config.load import changed_config, load_config
from nmt.console import Progress, aligned, say
from nmt.data.corpus import Corpus
from nmt.data.settings import DataConfig
from nmt.data.sources import AnySource, AnyTrainSource, FilesSource, TrainFiles, joint_license
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.evaluate.compare import compare
from nmt.evaluate.compare.screen import ComparisonReport
from nmt.evaluate.compare.systems import Group, System, TextToTranslate
from nmt.evaluate.metrics import default_tokenizer
from nmt.files.read import checksum
from nmt.layout import DataDir
from nmt.recipes.directory import (
    RecipeDir,
    count_lines,
    follow,
    next_config,
    rooted,
    rooted_clean,
)
from nmt.recipes.teachers import RunTeacher, Teacher
from nmt.runs.model import ModelRef, open_saved
from nmt.search.settings import SearchConfig
from nmt.share.export import engine_for
from nmt.text.lines import read_aligned, read_lines
from nmt.text.tokenizer import is_blank
from nmt.training.settings import Stage
from nmt.translate.loading import Translator

DistilMetric = Literal["chrf", "bleu"]
EQUAL = "of these equal to the reference"
UNFINISHED = "left blank: no finished translation, or one of the development set (nmt prepare drops them as empty)"
BLANK_LINES = "blank lines"


@dataclass(frozen=True)
class Distillation:
    """The options of `nmt distil`."""

    teacher: Teacher
    config: Config
    """The direction and the data settings; also the student's other settings, without `student`."""
    output: Path
    data: Path | None = None
    """Data directory to translate; by default the teacher's."""
    nearest: DistilMetric = "chrf"
    """Sentence score by which one of several translations is chosen."""
    with_originals: bool = False
    """Whether the student also learns the references or, before text in `mono`, the corpora of `config`."""
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
    config = request.config
    student = load_config(request.student) if request.student else config
    text = _monolingual(request) if request.mono else _parallel(request, student)
    if is_dry_run(request.teacher, (line for line, _ in text.rows())):
        return 0
    recipe = RecipeDir(request.output, _settings(request, text.version), request.teacher)
    src, tgt = config.data.sides
    name = f"distilled.{tgt}"
    files = {src: str(text.src), tgt: str(recipe.path / name)}
    licenses = dict.fromkeys(filter(None, (text.license, request.teacher.license)))
    corpora: list[AnyTrainSource] = [TrainFiles(files=files, name="distilled", license=", ".join(licenses) or None)]
    stages = student.training.stages
    if request.with_originals and request.mono:
        corpora = [*text.data.train, *corpora]
        if not (stages or any(override.startswith("training.stages") for override in request.overrides)):
            stages = _in_two_stages(student, request.overrides, corpora)
    elif request.with_originals:
        originals = {src: str(text.src), tgt: str(text.tgt)}
        corpora.insert(0, TrainFiles(files=originals, name="originals", license=text.license))
    # every pair is translated once, so the mixture of the teacher's corpora is gone
    data = text.data.model_copy(update={"temperature": None})
    watch = [name for name in student.training.watch if name in data.test]
    changes: dict[str, object] = {
        "data": data,
        "training": student.training.model_copy(update={"watch": watch, "stages": stages}),
        "search": student.search.model_copy(update={"tags": None}),
    }
    if not request.own_tokenizer:
        changes["tokenizer"] = config.tokenizer
    run_dir = f"runs/distilled-{recipe.path.name}-{{direction}}"
    original = student.model_copy(update={"data": config.data})
    following = next_config(student.model_copy(update=changes), original, recipe, corpora, run_dir, request.overrides)

    def translate(rows: Sequence[tuple[str, str]], first: int, progress: Progress) -> Iterator[str]:
        lines = [line for line, _ in rows]
        for (_, reference), texts in zip(rows, request.teacher.translations(lines, first, progress), strict=True):
            usable = [best for best in texts if best.strip() not in text.held_out]
            yield nearest(usable, reference, request.nearest, tgt)

    counts = recipe.write(name, text.rows(), text.n, translate, lambda path: _count(request.teacher, path, text))
    if counts.get(UNFINISHED, 0) > counts["translations"]:
        say("warning: most lines have no finished translation; the teacher may need more training")
    tokenizer_from = None if request.own_tokenizer else Path(request.teacher.name)
    return follow(recipe, counts, following, tokenizer_from, run_commands=request.run_commands)


def _in_two_stages(student: Config, overrides: Sequence[str], corpora: Sequence[AnyTrainSource]) -> list[Stage]:
    """Return a stage with the corpora of the student's configuration, for half of the training, and one with the
    translations. Raises ConfigError if its length in updates is not known."""
    lengths = [override for override in overrides if override.startswith("training.max_")]
    training = changed_config(student, lengths).training
    if training.max_minutes is not None:
        raise ConfigError(
            "--with-originals with --mono: trains on the corpora of the config first, then on the translations, so its "
            "length in updates must be known: give --set training.max_minutes=null and --set training.max_steps=N, or "
            "--set training.stages"
        )
    originals = {source.label: float(source.weight or 1.0) for source in corpora[:-1]}
    return [Stage(weights=originals, steps=training.max_steps // 2), Stage(weights={corpora[-1].label: 1.0})]


def _parallel(request: Distillation, student: Config) -> _Text:
    """Return the training text of the teacher's data directory. Raises ConfigError or DataError."""
    data = request.config.data
    if request.data is None and any(source.repeat > 1 for source in data.train):
        raise ConfigError(
            f"{request.teacher.name}: its text has data.train.N.repeat above 1, but the student would learn each pair "
            "once; prepare the text without repeat, and give its data directory with --data"
        )
    prepared = DataDir(request.data or request.teacher.data_directory(data, "one with --data, or text with --mono"))
    corpus = Corpus.open(prepared)
    src, tgt = data.sides
    if set(corpus.languages) != {src, tgt}:
        raise DataError(
            f"{prepared.path}: contains {' and '.join(corpus.languages)}, but the teacher translates {src}-{tgt}"
        )
    text_license = joint_license(data.train)
    if request.data is not None:  # its licences are unknown
        text_license = None
        data = data.model_copy(update={"train": data.without("license").train})
    data = data.without("tags")  # the student's text has none
    student_data = rooted(student.model_copy(update={"data": data}), prepared.path).data
    n_lines = corpus.in_one_file("train").n
    held_out = _split_off_lines(data, prepared)
    return _Text(
        prepared.text("train", src),
        prepared.text("train", tgt),
        n_lines,
        corpus.fingerprint,
        student_data,
        held_out,
        text_license,
    )


def _monolingual(request: Distillation) -> _Text:
    """Return the text of --mono. Raises ConfigError or DataError."""
    assert request.mono is not None
    n_lines = count_lines(request.mono)
    config = request.config
    data = config.data
    src, tgt = data.sides
    test = dict[str, AnySource]()
    if request.test is not None:
        list(read_aligned(*request.test))  # errors before hours of translation
        test["test"] = FilesSource(files=dict(zip((src, tgt), map(str, request.test), strict=True)))
    held_out = set[str]()
    mono = TrainFiles(files={src: str(request.mono), tgt: str(request.mono)})
    valid = min(1000, max(1, n_lines // 20))
    if request.with_originals:
        directory = request.data or request.teacher.data_directory(data, "its data directory with --data")
        held_out = _split_off_lines(data, DataDir(directory))
        data = rooted(config, directory).data
        test = {**data.test, **test}
    elif isinstance(request.teacher, RunTeacher):
        clean = rooted_clean(data.clean, data.root)
        data = data.model_copy(update={"root": ".", "train": [mono], "valid": valid, "mono": {}, "clean": clean})
    else:
        sets = data.model_copy(update={"train": [mono], "valid": mono if data.drawn else data.valid, "mono": {}})
        moved = rooted(config.model_copy(update={"data": sets})).data
        data = moved.model_copy(update={"valid": valid if data.drawn else moved.valid})
        test = {**data.test, **test}
    data = data.model_copy(update={"test": test})
    return _Text(request.mono, None, n_lines, checksum(request.mono), data, held_out, None)


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
    teacher = request.teacher
    n_best = teacher.n_best if isinstance(teacher, RunTeacher) else 1
    return {
        "recipe": "distil",
        "text": version,
        "n_best": n_best,
        "nearest": request.nearest if n_best > 1 else None,
    }


def _split_off_lines(config: DataConfig, data: DataDir) -> set[str]:
    """Return the target lines of the sets that were split off, which training pairs must not contain."""
    held_out = set()
    for name in config.drawn:
        held_out |= {line.strip() for line in read_lines(data.text(name, config.tgt))}
    return held_out


def _count(teacher: Teacher, translations: Path, text: _Text) -> dict[str, int]:
    is_mono = text.tgt is None
    counts = dict.fromkeys(["lines", "translations", BLANK_LINES if is_mono else EQUAL], 0)
    if isinstance(teacher, RunTeacher):
        counts[UNFINISHED] = 0
    for translation, (line, reference) in zip(read_lines(translations), text.rows(), strict=True):
        counts["lines"] += 1
        if translation.strip():
            counts["translations"] += 1
        elif is_mono and is_blank(line):
            counts[BLANK_LINES] += 1
        else:
            reason = teacher.reason(line) or UNFINISHED
            counts[reason] = counts.get(reason, 0) + 1
        if not is_mono and translation == reference:
            counts[EQUAL] += 1
    return counts


TIMED = 300
"""Number of lines whose translation is timed, three times after a first time."""


def compared(request: Distillation, student: Path, data: DataDir) -> Iterator[str]:
    """Yield the lines of a comparison of a student with its teacher on a test set of the student's data, and of a table
    with the sizes and speeds of runs.

    Without a test set, it is the development set, whose references are translations by the teacher, and a language
    model is left out. Runs are also measured as CTranslate2 models in int8, if that package is installed.
    """
    corpus = Corpus.open(data)
    split = corpus.split([*corpus.tests, "valid"][0])
    name = split.name if corpus.tests else "held-out lines, as the teacher translates them"
    src, tgt = request.config.data.sides
    lines = split.text(src)
    translations: dict[str, list[str]] = {}
    rows = [["", "million parameters", "MB", "sentences/s"]]
    systems = [*_systems("student", ModelRef((student,)), None)]
    teacher = request.teacher
    if isinstance(teacher, RunTeacher):
        systems = [*_systems("teacher", teacher.model, teacher.search), *systems]
    elif corpus.tests:
        with teacher.opened(request.output, len(lines)), Progress("translating", len(lines)) as progress:
            translations["teacher"] = [next(iter(texts), "") for texts in teacher.translations(lines, 0, progress)]
    for label, system, search, n_parameters, n_bytes in systems:
        translations[label] = [best.text for best, *_ in system.translate_lines(lines, search)]
        speed = _speed(system, lines[:TIMED], search)
        rows.append([label, f"{n_parameters / 1e6:.1f}", f"{n_bytes / 1e6:.1f}", f"{speed:.1f}"])
    groups = [Group(label, (System(label, texts),)) for label, texts in translations.items()]
    text = TextToTranslate(name, split.text(tgt), languages=(src, tgt))
    yield from str(ComparisonReport(compare(text, groups, metrics=("bleu", "chrf"))).as_table().text).split("\n")
    yield from ("", *aligned(rows, range(1, 4)))


def _systems(
    name: str, model: ModelRef, search: SearchConfig | None
) -> Iterator[tuple[str, Translator, SearchConfig, int, int]]:
    """Yield a model, and the model in int8 if that is possible, with label, search settings, and the numbers of its
    parameters and bytes. search: by default the model's."""
    n_parameters = 0
    for path in model.paths:
        n_parameters += sum(tensor.numel() for tensor in open_saved(path).weights.tensors.values())
    translator = Translator.load(model.undirected).towards(model.to, model.source)
    search = search or translator.config.search
    yield name, translator, search, n_parameters, 4 * n_parameters
    try:
        engine = engine_for(model.undirected, int8=True).towards(model.to, model.source)
        engine.check(search, 1)
    except (CheckpointError, ConfigError) as error:  # such as a model that differs too much, as on some old CPUs
        say(f"{name}: without int8: {error}")
        return
    assert engine.origin is not None, "loaded from a directory"
    yield f"{name}, int8", engine, search, n_parameters, (engine.origin.run / "model.bin").stat().st_size


def _speed(translator: Translator, lines: Sequence[str], search: SearchConfig) -> float:
    """Return the number of lines translated per second, the median of three times."""
    seconds = timeit.repeat(lambda: [*translator.translate_lines(lines, search)], number=1, repeat=3)
    return len(lines) / statistics.median(seconds)
