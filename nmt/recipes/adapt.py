"""Adapting a run to a few thousand pairs of other text: a configuration, the commands that follow, and a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.config.load import load_saved_config, overridden, read_tree
from nmt.console import show
from nmt.data.sources import is_url
from nmt.errors import CheckpointError, ConfigError
from nmt.files.read import shipped
from nmt.files.write import replace_file
from nmt.files.yaml12 import dump_yaml
from nmt.layout import RunDir
from nmt.recipes.directory import resume_option, run_shown
from nmt.runs.info import check_is_run


def adapt(
    start: str,
    text: Sequence[str],
    output: Path | None,
    minutes: float,
    beside: Sequence[str],
    general: Sequence[str],
    like: Sequence[str],
    overrides: Sequence[str],
) -> int:
    """Write the configuration, and run the commands that prepare the text, train, and compare before and after.

    Args:
        start: the run to adapt.
        text: a path, as in `data.train`, or files whose names end in their languages.
        output: the run directory; by default runs/RUN-adapted.
        beside, general: other text to train on, and other text to score, likewise.
        like: new languages, each with a related one that the run has: `NEW=KNOWN`.
        overrides: changes to the settings, `section.key=value`.

    Return the exit status of the first command that fails, else 0. Raises ConfigError or CheckpointError.
    """
    base = RunDir(Path(start))
    check_is_run(base.path)
    run = RunDir(output or Path("runs", f"{base.path.name}-adapted"))
    file, prepared = (str(run.adapt / name) for name in ("config.yaml", "prepared"))
    new = dict(pair.partition("=")[::2] for pair in like)
    if not all(new.values()):
        raise ConfigError(f"--like {' '.join(like)}: must be a new language and a related one, as in tyv_Cyrl=kaz_Cyrl")
    tree = _settings(load_saved_config(base.config), text, beside, general, new)
    tree["data"]["dir"] = prepared
    # Training leaves out validations that would take too much of the time, which the user has chosen.
    tree["training"] |= {
        "run_dir": str(run.path), "init_from": start, "max_minutes": minutes, "validate_every_steps": 100,
        "patience": None,
    }  # fmt: skip
    overridden(tree, "adapt", overrides)
    if (run.path.exists() and not run.adapt.is_dir()) or (run.info.is_file() and read_tree(file)[1] != tree):
        raise CheckpointError(
            f"{run.path}: exists already, and was not written by this command (its settings are in {file}); repeat the "
            "one that wrote it, or choose another directory with --output"
        )
    run.adapt.mkdir(parents=True, exist_ok=True)
    replace_file(Path(file), dump_yaml(tree))
    show(f"{file}:", *dump_yaml(tree).splitlines())
    # a resumed run keeps its own configuration, which has the settings of the run that it started from
    options = ["--config", file]
    commands = [
        ["prepare", *options, "--tokenizer-from", start],
        ["train", *(resume_option(run) or options), "--run", str(run.path)],
    ]
    sources = {"mine": tree["data"]["train"][0], **tree["data"].get("test", {})}
    for name, source in sources.items():  # before, the run cannot translate a new language
        scoring = ["evaluate", "--run"] if new.keys() & source.get("files", new) else ["compare", start]
        commands.append([*scoring, str(run.path), "--data", prepared, "--split", name])
    if not (status := run_shown(commands)):
        show(f"the adapted model is in {run.path}; to translate: nmt translate --run {run.path} letter.docx")
    return status


def _settings(
    known: Config, text: Sequence[str], beside: Sequence[str], general: Sequence[str], new: Mapping[str, str]
) -> dict[str, Any]:
    """Return the settings of adapt.yaml, with other text. Raises ConfigError.

    known: the configuration of the run to adapt. new: new languages, each with a related one.
    """
    tree: dict[str, Any] = read_tree(shipped("configs") / "adapt.yaml")[1]
    languages = [*known.data.all_languages, *new]
    train = []
    directions = dict[str, None]()
    for source, paths in zip(tree["data"]["train"], (text, beside), strict=True):
        if paths:
            del source["files"]
            train.append(_source(paths, languages) | source)
            for pair in permutations(train[-1].get("files", languages), 2):
                if "-".join(pair) in known.data.directions or new.keys() & pair:
                    directions["-".join(pair)] = None
    if new or not beside:  # weights are shares within a direction
        for source in train:
            del source["weight"]
    data: dict[str, Any] = {"directions": [*directions]} if directions else {"direction": known.data.direction}
    tree["data"] = data | {"train": train}
    if general:
        tree["data"]["test"] = {"general": _source(general, languages)}
        tree["training"]["watch"] = ["general"]
    if new:
        tree["tokenizer"] = {"like": new}
    tree["model"]["kind"] = known.model.kind
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
            f"each language with its code in the name, as in mine.de; the run has {', '.join(languages)}; "
            "--like names a new one"
        )
    return {"files": files}
