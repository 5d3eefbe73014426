"""The recipe of a data directory: the settings that determine its content, and whether it has to be made again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from pydantic import BaseModel, ValidationError

from nmt.config import Config, DataConfig, Section, TokenizerConfig
from nmt.config.clean import CleanConfig
from nmt.config.load import load_saved_config
from nmt.config.messages import differences
from nmt.config.old import without_old
from nmt.config.source import KINDS, FilesSource, PathSource, Source, is_url, kind_of, score_of
from nmt.data.corpus import ADVICE, Corpus, Manifest, read_manifest
from nmt.errors import CheckpointError, DataError
from nmt.files.read import checksum, read_text
from nmt.layout import DataDir, RunDir, hub_note
from nmt.prepare.inputs import find_inputs, fingerprints
from nmt.prepare.sources import text_folder, wanted_checksums
from nmt.runs.info import read_info
from nmt.text.tokenizer import Tokenizers

Recipe: TypeAlias = dict[str, object]
"""Plain values, as they stand in the manifest."""

# not part of a recipe: one directory serves both directions, may be moved, and is mixed by the training
_LOCATIONS = {"direction", "dir", "root", "temperature", "weight"}

_CHECKS = {"sha256", "pairs", "license", "weight"}
"""Settings of a source that do not determine what is prepared."""


def recipe(config: Config, reused: Tokenizers | None = None) -> Recipe:
    """Return the settings that a data directory is made from; the content of the source files is not part of them, but
    that of block lists is.

    reused: the tokenizers, where they are taken from another directory and not learned.
    """
    data = config.data.model_dump(mode="json", exclude=_LOCATIONS)
    mono = list(chain.from_iterable(data["mono"].values()))
    if not mono:  # manifests older than this setting lack it
        del data["mono"]
    for source in (*data["train"], data["valid"], *data["test"].values(), *mono):
        if isinstance(source, dict):
            for name in _CHECKS & source.keys():
                del source[name]
    for section in (data, *data["train"]):  # as above
        section["clean"] = {name: value for name, value in (section["clean"] or {}).items() if value is not None}
        if not section["clean"]:
            del section["clean"]
    tokenizer: dict[str, object] = config.tokenizer.model_dump(mode="json")
    if reused is not None:
        tokenizer = {"joint": reused.joint, "reused": reused.fingerprint}
    made_from: Recipe = {"languages": list(config.data.languages), "data": data, "tokenizer": tokenizer}
    if lists := block_lists(config.data):
        made_from["block_lists"] = lists
    return made_from


def block_lists(data: DataConfig) -> dict[str, object]:
    """Return the checksum of each block list; without those that are not here, such as on a machine that trains."""
    root, steps = text_folder(data.root), [data.clean, *(source.clean for source in data.train)]
    names = {name for clean in steps if clean is not None for name in (clean.block_lists or {}).values()}
    return {name: checksum(root / name) for name in sorted(names) if (root / name).is_file()}


def changes(old: Recipe, new: Recipe) -> Iterator[str]:
    """Describe each difference between two recipes. `old` may lack settings, which then had their defaults."""
    old, new = _completed(old), _completed(new)
    if is_reused(old) != is_reused(new):
        taken, trained = "taken from elsewhere (--tokenizer-from)", "trained on this text"
        yield f"the tokenizer was {taken if is_reused(old) else trained}, is {taken if is_reused(new) else trained}"
        new = {**new, "tokenizer": old["tokenizer"]}
    was, now = old.pop("block_lists", None), new.pop("block_lists", None)
    if isinstance(was, dict) and isinstance(now, dict):
        yield from (f"{name} has changed" for name in was if now.get(name, "") not in ("", was[name]))
    for key, was, wanted in differences(old, new):
        if was is None or wanted is None:
            yield f"{key} was {'added' if was is None else 'removed'}"
        else:
            yield f"{key} was {was}, is {wanted}"


def is_reused(made_from: Recipe) -> bool:
    """Whether the tokenizer was taken from another directory."""
    tokenizer = made_from.get("tokenizer")
    return isinstance(tokenizer, dict) and "reused" in tokenizer


def _completed(made_from: Recipe) -> Recipe:
    """Fill in defaults for missing settings, and drop invalid ones."""
    made_from, _ = without_old(made_from)
    data, tokenizer = _with_defaults(made_from.get("data"), DataConfig), made_from.get("tokenizer")
    if not is_reused(made_from):
        tokenizer = _with_defaults(tokenizer, TokenizerConfig)
    if isinstance(data, dict):
        train, test = data.get("train"), data.get("test")
        data["clean"] = _with_defaults(data["clean"] if isinstance(data["clean"], dict) else {}, CleanConfig)
        data["valid"] = _completed_source(data.get("valid"))
        if isinstance(train, list):
            data["train"] = [_completed_source(source) for source in train]
        if isinstance(mono := data.get("mono"), dict):
            data["mono"] = {
                language: [_completed_source(source) for source in own] if isinstance(own, list) else own
                for language, own in mono.items()
            }
        if isinstance(test, dict):
            data["test"] = {name: _completed_source(source) for name, source in test.items()}
    return {**made_from, "data": data, "tokenizer": tokenizer}


def _completed_source(values: object) -> object:
    """Fill in defaults of a source, and drop settings of other kinds, which earlier versions wrote."""
    if not isinstance(values, dict) or (kind := kind_of(values)) is None:
        return values
    section = KINDS[kind]
    return _with_defaults({name: value for name, value in values.items() if name in section.model_fields}, section)


def _with_defaults(values: object, section: type[Section]) -> object:
    if not isinstance(values, dict):
        return values
    fields = section.model_fields.items()
    defaults = {name: field.default for name, field in fields if not field.is_required() and name not in _LOCATIONS}
    return values | {name: default for name, default in defaults.items() if name not in values}


def changes_since(directory: DataDir, wanted: Recipe, config: Config) -> list[str] | None:
    """Describe what has changed since the directory was written. Returns None if there is no directory yet."""
    if not directory.manifest.is_file():
        return None
    try:
        manifest = Corpus.open(directory).manifest
    except DataError as error:
        return [str(error).removesuffix(ADVICE).removesuffix("; run nmt prepare again")]
    if manifest.config is None or manifest.sources is None:
        return [f"{directory.manifest} does not record what it was made from"]
    if described := list(changes(manifest.config, wanted)):
        return described
    root = text_folder(config.data.root)
    sources = [*config.data.sources(), *((key, source) for key, _, source in config.data.mono_sources())]
    return [change for key, source in sources for change in _changed_files(manifest, key, source, root)]


def unlike(directory: DataDir, manifest: Manifest, config: Config) -> str | None:
    """Return a warning if the config differs from the one that `directory` was prepared with, else None."""
    if not manifest.config:
        return None
    wanted = recipe(config)
    if is_reused(manifest.config):
        wanted["tokenizer"] = manifest.config["tokenizer"]
    described = list(changes(manifest.config, wanted))
    if not described:
        return None
    more = f", and {len(described) - 1} more" if len(described) > 1 else ""
    change = f"{described[0]} in the config{more}"
    return f"warning: {directory.path} is used as it was prepared: {change}; nmt prepare updates it"


def _changed_files(manifest: Manifest, key: str, source: Source, root: Path) -> Iterator[str]:
    """Describe each file of a source that is not as the manifest has it; nothing elsewhere is asked for."""
    record = (manifest.sources or {}).get(key)
    recorded = {name: file.sha256 for name, file in record.files.items()} if record is not None else {}
    if isinstance(source, PathSource) and not is_url(source.path):
        present = fingerprints(find_inputs(source, root, is_quiet=True), root)
        for name in sorted(present.keys() | recorded.keys()):
            if name not in present or name not in recorded:
                yield f"{name} was {'added' if name in present else 'removed'}"
            elif present[name] != recorded[name]:
                yield f"{name} has changed"
    if isinstance(source, FilesSource):
        score = score_of(source)
        for language, name in {**source.files, **({"score": score} if score else {})}.items():
            if not is_url(name) and checksum(root / name) != recorded.get(language):
                yield f"{root / name} has changed"
    if record is not None:
        for name, digest in wanted_checksums(source, record).items():
            if recorded.get(name) != digest:
                yield f"data.{key}.sha256 is not that of what was read"
        if record.read is not None and source.pairs not in (None, record.read):
            yield f"data.{key}.pairs is {source.pairs:,}, and {record.read:,} were read"


class _Owned(BaseModel, strict=True):
    """The part of a manifest, of whatever format, that names the files of `prepare`."""

    format: int
    files: dict[str, object]


def check_replaceable(directory: DataDir) -> None:
    """Raise DataError if the directory contains anything that `prepare` did not write."""
    path = directory.path
    whole, home = path.resolve(), Path(os.environ.get("HOME", "/"))
    if Path.cwd().is_relative_to(whole) or whole == home or path.parts[0].startswith("~"):
        raise DataError(f"{path}: cannot be a data directory; name a new one with --data, such as data/mine")
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise DataError(f"{path}: a file, where a data directory is to be written; name another with --data")
    present = {item.relative_to(path).as_posix() for item in path.rglob("*") if not item.is_dir() or item.is_symlink()}
    if not present:
        return
    ours = set()
    if directory.manifest.is_file():
        try:
            ours = {*_Owned.model_validate_json(read_text(directory.manifest)).files, directory.manifest.name}
            ours |= {directory.report.name, directory.report_page.name}
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            raise DataError(
                f"{directory.manifest}: damaged or not written by nmt, so nothing here is replaced; "
                "remove the directory or name another with --data"
            ) from error
    if others := present - ours:
        raise DataError(
            f"{path}: contains {min(others)}, which prepare did not write, so it is not replaced; "
            "name another directory with --data or move it away"
        )


def check_unneeded(directory: DataDir, config: Config, reasons: Sequence[str]) -> None:
    """Raise DataError if the directory has other languages than the config, or if a run was trained on it.

    reasons: why it is to be prepared again. Runs are looked for where the config puts its own.
    """
    try:
        manifest = Corpus.open(directory).manifest
    except DataError:  # damaged or of another version: no run can read it
        return
    run = next((path for path in config.run_directory.parent.glob("*") if _is_trained_on(path, manifest)), None)
    if manifest.languages == config.data.languages and run is None:
        return
    content = f"{manifest.splits['train'].pairs:,} training pairs of {' and '.join(manifest.languages)}"
    needed = "" if run is None else f", which {run} was trained on"
    raise DataError(
        f"{directory.path}: not prepared again ({'; '.join(reasons)}), since it has {content}{needed}; "
        "name another directory with --data, or replace this one with --force"
    )


def _is_trained_on(run: Path, manifest: Manifest) -> bool:
    try:
        return read_info(RunDir(run)).corpus == manifest.fingerprint
    except (CheckpointError, OSError):
        return False


def reused_tokenizers(path: Path, config: Config) -> Tokenizers:
    """Load the tokenizers of a run or data directory.

    Raises DataError if there are none or they do not match the config.
    """
    run, data = RunDir(path), DataDir(path)
    if not run.tokenizer.path.is_dir():
        raise DataError(f"{path}: neither a run nor a data directory: it has no tokenizer/{hub_note(path)}")
    wanted = config.data.languages
    if data.manifest.is_file():
        languages = read_manifest(data).languages
    elif run.config.is_file():
        languages = load_saved_config(run.config).data.languages
    else:
        raise DataError(f"{path}: has neither manifest.json nor config.yaml, which name the languages of its tokenizer")
    if config.data.has_labels:  # its vocabulary is of the text alone, and may be that of any run with its language
        if config.data.src not in languages:
            raise DataError(f"{path}: its tokenizer is for {' and '.join(languages)}, the texts are {config.data.src}")
        tokenizer = Tokenizers.load(run.tokenizer, languages)[config.data.src]
        return Tokenizers({config.data.src: tokenizer}, config.tokenizer.joint)
    if languages != wanted:
        raise DataError(
            f"{path}: its tokenizer is for {' and '.join(languages)}, the config is for {' and '.join(wanted)}"
        )
    tokenizers = Tokenizers.load(run.tokenizer, wanted)
    if tokenizers.joint != config.tokenizer.joint:
        kinds = {True: "one joint vocabulary", False: "one vocabulary for each language"}
        raise DataError(
            f"{path}: has {kinds[tokenizers.joint]}, but tokenizer.joint is {str(config.tokenizer.joint).lower()}; "
            f"set tokenizer.joint={str(tokenizers.joint).lower()}"
        )
    return tokenizers
