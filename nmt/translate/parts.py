"""Translation of a large file in parts, by several workers, which can be resumed after an interruption.

A part is one window of `translate_file`, whose lines are sorted and batched together, so translations do not depend on
which worker translates which part. Parts and their translations are stored in a folder next to the output file until
it is complete.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from pydantic import BaseModel, TypeAdapter

from nmt.config import SearchConfig
from nmt.console import Progress, say
from nmt.errors import ConfigError, DataError
from nmt.files.write import open_output, refuse_overwriting, work_directory, writing
from nmt.layout import RunDir
from nmt.model.device import pick_device
from nmt.model.precision import float32_library, use_float32_library
from nmt.runs.folder import fingerprint
from nmt.runs.model import ModelRef, Saved, choose_precision, open_ensemble
from nmt.tasks.perform import TEXT, Json, Task, TaskRunner, join, run_all
from nmt.text.language import Profiles, checked
from nmt.translate.files import Warnings, input_windows, output_row
from nmt.translate.translator import Translator
from nmt.translate.types import Line, Options, check_search


class Arithmetic(BaseModel):
    """The device, precision and library of matrix products, chosen once because machines may choose differently."""

    device: str
    precision: str
    library: str


class Models(BaseModel, frozen=True):
    """The models of a translation, described so that every worker opens the same models."""

    model: ModelRef
    precision: str
    """The requested precision: `auto`, float32, bf16 or fp16."""
    fingerprints: tuple[str, ...]
    language: str
    """Language of the text to translate."""

    @classmethod
    def of(cls, model: ModelRef, saved: Sequence[Saved], precision: str = "auto") -> Models:
        """Return the description of a model that `open_ensemble` has read."""
        return cls(
            model=replace(model, paths=tuple(path.resolve() for path in model.paths)),
            precision=precision,
            fingerprints=tuple(fingerprint(member.weights.tensors) for member in saved),
            language=saved[0].config.data.src,
        )

    def open(self) -> list[Saved]:
        """Read the models. Raises DataError if their weights have changed, and what `open_ensemble` raises."""
        saved = open_ensemble(self.model)
        if tuple(fingerprint(each.weights.tensors) for each in saved) != self.fingerprints:
            paths = ", ".join(map(str, self.model.paths))
            raise DataError(f"{paths}: the weights have changed since the start; run the command again")
        return saved


class _Request(BaseModel):
    """The settings that all parts share."""

    models: Models
    arithmetic: Arithmetic
    search: SearchConfig
    n_best: int
    scores: bool


def translate_in_parts(
    engine: TaskRunner,
    models: Models,
    source: Path,
    target: Path,
    options: Options,
    scores: bool = False,
) -> None:
    """Translate a file into a file as `translate_file` does, on an engine, in parts of `WINDOW` lines.

    Parts that an interrupted earlier call has translated with the same models and settings are read from TARGET.work
    instead of translated again. Raises LockedError if another process writes there, and what `translate_file` raises.
    """
    search, n_best = options.search, options.n_best
    check_search(search, n_best)
    refuse_overwriting((target,), (source,))
    if target.is_dir() or not target.parent.is_dir():
        with open_output(target):  # raises an error that names the problem
            pass
    with work_directory(target.with_name(f"{target.name}.work"), "translates") as work:
        of_models: Json = {"models": models.model_dump(mode="json")}
        [choice] = run_all(engine, work, [Task("arithmetic", choose_arithmetic, of_models)])
        arithmetic = Arithmetic.model_validate(choice.summary)
        request = _Request(
            models=models, arithmetic=arithmetic, search=search, n_best=n_best, scores=scores or n_best > 1
        ).model_dump(mode="json")
        tasks = _write_parts(work, source, models, request)
        with Progress("translating", len(tasks), "parts") as progress:
            results = run_all(engine, work, tasks, lambda _: progress.add())
        warnings = Warnings()
        for done in results:
            warnings.merge(TypeAdapter(Warnings).validate_python(done.summary["warnings"]))
        join(results, target)
    for message in warnings.lines():
        say(message)


def _write_parts(work: Path, source: Path, models: Models, request: Json) -> list[Task]:
    """Divide the text into files of `WINDOW` lines, and return a task for each.

    Raises DataError if the text cannot be read or is not UTF-8.
    """
    folder, tasks, first = work / "source", list[Task](), 0
    # runs and exported folders have their tokenizer in the same place
    profiles = Profiles.load(RunDir(models.model.path).tokenizer.profiles)
    with writing(folder):
        folder.mkdir(exist_ok=True)
        for window in checked(input_windows(source), profiles, models.language):
            content, path = "".join(f"{line}\n" for line in window).encode(), folder / f"{len(tasks):06d}"
            if not (path.is_file() and path.read_bytes() == content):  # an old worker may still read it
                path.write_bytes(content)
            arguments, version = {"first": first, "request": request}, hashlib.sha256(content).hexdigest()
            tasks.append(Task(f"translated/{path.name}", translate_part, arguments, version))
            first += len(window)
    return tasks


def choose_arithmetic(folder: Path, arguments: Json) -> Json:  # noqa: ARG001 (the signature of tasks)
    """Choose the precision and the library of matrix products on the device that runs the models (a task)."""
    models, device = Models.model_validate(arguments["models"]), pick_device("auto")
    saved = models.open()
    precision = choose_precision(saved[0], models.precision, device)
    return Arithmetic(device=device.type, precision=precision, library=float32_library()).model_dump()


def translate_part(folder: Path, arguments: Json) -> Json:
    """Translate a part of the text (a task)."""
    first, request = int(str(arguments["first"])), _Request.model_validate(arguments["request"])
    translator = _translator(request.models, request.arithmetic.device, request.arithmetic.precision)
    use_float32_library(request.arithmetic.library)
    translator.check(request.search, request.n_best)
    # not `read_lines`, which would strip a byte order mark from the first line and \r from the end of lines
    source = folder.parents[1] / "source" / folder.name.partition(".")[0]
    lines = source.read_bytes().decode().split("\n")[:-1]
    warnings, n_rows = Warnings(), 0
    with (folder / TEXT).open("wb") as out:
        by_line = translator.translate_window(lines, Options(request.search, request.n_best), first)
        for number, (line, translations) in enumerate(zip(lines, by_line, strict=True), start=first + 1):
            warnings.add(number, Line(line), translations)
            out.writelines(output_row(number, translation, request.scores) for translation in translations)
            n_rows += len(translations)
    return {"rows": n_rows, "warnings": asdict(warnings)}


@functools.lru_cache(maxsize=1)
def _translator(models: Models, device: str, precision: str) -> Translator:
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "the translation was started with a GPU, and none is available now; remove OUTPUT.work to start again"
        )
    return Translator.of(models.open(), pick_device(device), precision)
