"""Adapting a run to a few thousand pairs of other text: a configuration, the commands that follow, and a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.config.load import load_config, overridden, read_tree
from nmt.console import show
from nmt.data.manifest import read_contents
from nmt.data.sources import is_url
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.files.read import shipped
from nmt.files.write import replace_file
from nmt.files.yaml12 import dump_yaml
from nmt.layout import DataDir, RunDir
from nmt.recipes.directory import RecipeDir, resume_option, run_shown, translating_config
from nmt.runs.model import ModelRef

MIN_HELD_OUT = 10
"""Number of test pairs below which scores say nothing."""


@dataclass(frozen=True)
class Adaptation:
    """The options of `nmt adapt` that determine the result, as JSON values."""

    start: str
    """The run to adapt."""
    text: Sequence[str]
    """A path, as in `data.train`, or files whose names end in their languages."""
    minutes: float
    beside: Sequence[str]
    """Other text to train on, likewise."""
    general: Sequence[str]
    """Other text to score, likewise."""
    like: Sequence[str]
    """New languages, each with a related one that the run has: `NEW=KNOWN`."""
    overrides: Sequence[str]
    """Changes to the settings, `section.key=value`."""


def adapt(request: Adaptation, output: Path | None = None) -> int:
    """Write the configuration, and run the commands that prepare the text, train, and compare before and after.

    output: the run directory; by default runs/RUN-adapted. Return the exit status of the first command that fails, else
    0. Raises ConfigError, CheckpointError or DataError.
    """
    start = Path(request.start)
    known = translating_config(start)
    run = RunDir(output or Path("runs", f"{start.name}-adapted"))
    recipe = RecipeDir(run.adapt, asdict(request), ModelRef((start,)))
    if run.path.exists() and not run.adapt.is_dir():
        raise CheckpointError(
            f"{run.path}: exists already, but nmt adapt did not write it; choose another directory with --output"
        )
    if run.info.is_file():
        recipe.check()
    else:
        settings = dump_yaml(_settings(request, known, run))
        run.adapt.mkdir(parents=True, exist_ok=True)
        recipe.record()
        replace_file(recipe.config, f"# Written by nmt adapt; other settings are those of {start}.\n{settings}")
    config = load_config(recipe.config)
    show(f"{recipe.config}:", *dump_yaml({"data": read_tree(recipe.config)[1]["data"]}).splitlines())
    options = ["--config", str(recipe.config)]
    if status := run_shown([["prepare", *options, "--tokenizer-from", request.start]]):
        return status
    for manifest in read_contents(DataDir(recipe.prepared)).manifests.values():
        if "mine" in manifest.splits and manifest.splits["mine"].pairs < MIN_HELD_OUT:
            raise DataError(
                f"{' '.join(request.text)}: too few pairs are left after cleaning for a test set of {MIN_HELD_OUT}, "
                "a tenth of them; give hundreds of pairs, better thousands"
            )
    # a resumed run keeps its own configuration, which has the settings of the run that it started from
    commands = [["train", *(resume_option(run) or options), "--run", str(run.path)]]
    common = [name.split("-") for name in config.data.all_directions if name in known.data.all_directions]
    for name, source in {"mine": config.data.train[0], **config.data.test}.items():
        is_known = any(map(source.has_languages, common))  # else a language is new
        scoring = ["compare", request.start] if is_known else ["evaluate", "--run"]
        commands.append([*scoring, str(run.path), "--data", str(recipe.prepared), "--split", name])
    if not (status := run_shown(commands)):
        show(f"the adapted model is in {run.path}; to translate: nmt translate --run {run.path} letter.docx")
    return status


def _settings(request: Adaptation, known: Config, run: RunDir) -> dict[str, Any]:
    """Return the settings of adapt.yaml with the text and the time of a request. Raises ConfigError.

    known: the configuration of the run to adapt.
    """
    tree: dict[str, Any] = read_tree(shipped("configs") / "adapt.yaml")[1]
    like = dict(pair.partition("=")[::2] for pair in request.like)
    languages = [*known.data.all_languages, *like]
    train = []
    directions = dict[str, None]()
    for source, paths in zip(tree["data"]["train"], (request.text, request.beside), strict=True):
        if paths:
            del source["files"]
            train.append(_source(paths, languages) | source)
            for pair in permutations(train[-1].get("files", languages), 2):
                directions["-".join(pair)] = None
    data: dict[str, Any] = {"direction": known.data.direction}
    if like or known.data.has_language_tags:
        data = {"directions": []}
        for name in directions:
            if name in known.data.all_directions or like.keys() & {*name.split("-")}:
                data["directions"].append(name)
    tree["data"] = data | {"dir": str(run.adapt / "prepared"), "train": train}
    if not request.beside:
        del train[0]["weight"]
    if request.general:
        tree["data"]["test"] = {"general": _source(request.general, languages)}
        tree["training"]["watch"] = ["general"]
    if like:
        tree["tokenizer"] = {"like": like}
    tree["model"]["kind"] = known.model.kind
    tree["training"] |= {"run_dir": str(run.path), "init_from": request.start, "max_minutes": request.minutes}
    # Training leaves out validations that would take too much of the time, which the user has chosen.
    tree["training"] |= {"validate_every_steps": 100, "patience": None}
    overridden(tree, "adapt", request.overrides)
    return tree


def _source(paths: Sequence[str], languages: Sequence[str]) -> dict[str, Any]:
    """Return a source with all languages in one path, or of files whose names have languages. Raises ConfigError."""
    files = {}
    for path in paths:
        if not (Path(path).exists() or is_url(path) or "*" in path):
            raise ConfigError(f"{path}: no such file")
        for language in languages:
            if f".{language}" in Path(path).suffixes:
                files[language] = path
    if len(paths) == 1:
        return {"path": paths[0]}
    if len(files) < len(paths):
        raise ConfigError(
            f"{' '.join(paths)}: must be a file, a folder or a pattern in quotes with both languages, or a file for "
            f"each language with its code in the name, as in mine.de and mine.en; the run has {', '.join(languages)}"
        )
    return {"files": files}
