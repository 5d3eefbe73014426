"""The recipe of a data directory: the settings that determine its content, and whether it must be prepared again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from pydantic import ValidationError

from nmt.config import Config
from nmt.config.load import load_saved_config
from nmt.config.messages import differences
from nmt.config.old import without_old
from nmt.data.corpus import Corpora, Corpus
from nmt.data.manifest import Manifest, Recipe, owned_files, read_contents
from nmt.data.settings import DataConfig
from nmt.data.sources import KINDS, FilesSource, PathSource, Source, is_url, score_of
from nmt.errors import CheckpointError, DataError
from nmt.files.read import checksum
from nmt.languages.directions import LABEL, TO
from nmt.layout import DataDir, RunDir, not_usable
from nmt.prepare.inputs import find_inputs, fingerprints, side_checksum
from nmt.prepare.sources import text_folder, wanted_checksums
from nmt.runs.info import read_info
from nmt.section import Section
from nmt.text.growth import with_languages
from nmt.text.imported import ImportedVocabulary
from nmt.text.settings import TokenizerConfig
from nmt.text.tokenizer import read_model
from nmt.text.vocabularies import Tokenizers

_CHECKS = {"sha256", "pairs", "license", "weight", "to", "tags"}
"""Settings of a source that do not determine what is prepared."""
_EXCLUDED: Any = {
    # one directory serves both directions, may be moved, and is mixed by the training
    **dict.fromkeys(
        ("direction", "directions", "languages", "direction_temperature", "dir", "root", "temperature", "documents"),
        True,
    ),
    "train": {"__all__": _CHECKS},
    "valid": _CHECKS,
    "test": {"__all__": _CHECKS},
    "mono": {"__all__": {"__all__": _CHECKS}},
}
"""Settings of `data` that are not part of a recipe."""


class _Sections(Section):
    """The sections of a configuration that a recipe is made from."""

    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()


@dataclass(frozen=True)
class NewPieces:
    """How a reused vocabulary grows."""

    languages: Sequence[str] = ()
    """Those that it does not have, from whose text pieces are learned."""
    n: int = 0
    """The number of new pieces; an imported vocabulary gets all letters of new languages in any case."""

    def __bool__(self) -> bool:
        return self.n > 0 or bool(self.languages)


def recipe(
    data: DataConfig, tokenizer: TokenizerConfig, reused: Tokenizers | None = None, new: NewPieces | None = None
) -> Recipe:
    """Return the settings that a data directory is made from, with the content of block lists, but not of source files.

    reused: the tokenizers if they are taken from another directory instead of being trained; new: see `NewPieces`.
    """
    if len(data.pairs) == 1:
        data = data.towards(data.direction)
    made_from: Recipe = {
        "languages": [*data.all_languages],
        "data": data.model_dump(mode="json", exclude=_EXCLUDED, exclude_none=True),
        "tokenizer": tokenizer.model_dump(mode="json", exclude={"like"}),
    }
    if len(data.pairs) > 1:
        made_from["pairs"] = sorted(data.pairs)
    if reused is not None:
        more = {"new_pieces": new.n} if new is not None and new.n else {}
        made_from["tokenizer"] = {"joint": reused.joint, "reused": reused.fingerprint, **more}
    if data.documents:
        made_from["documents"] = True
    if data.tag_names:
        made_from["tags"] = list(data.tag_names)
    if lists := block_lists(data):
        made_from["block_lists"] = lists
    return made_from


def block_lists(data: DataConfig) -> dict[str, str]:
    """Return the checksum of each block list on this machine; a machine that only trains may have none."""
    root = text_folder(data.root)
    names = set[str]()
    for _, clean in data.cleanings():
        names.update((clean.block_lists or {}).values())
    return {name: checksum(root / name) for name in sorted(names) if (root / name).is_file()}


def changes(old: Recipe, new: Recipe) -> Iterator[str]:
    """Describe each difference between two recipes. Settings missing in a recipe have their defaults."""
    for line in without_old(old)[1]:
        yield f"{line.partition(':')[0]} was removed in 0.2.0"
    old, new = _completed(old), _completed(new)
    if is_reused(old) != is_reused(new):
        origins = {True: "taken from elsewhere (--tokenizer-from, tokenizer.model)", False: "trained on this text"}
        yield f"the tokenizer was {origins[is_reused(old)]}, is {origins[is_reused(new)]}"
        new["tokenizer"] = old["tokenizer"]
    was = old.pop("block_lists", None)
    now = new.pop("block_lists", None)
    if isinstance(was, dict) and isinstance(now, dict):
        for name in was:
            if name in now and now[name] != was[name]:
                yield f"{name} has changed"
    for key, was, value in differences(old, new):
        if was is None:
            yield f"{key} was added"
        elif value is None:
            yield f"{key} was removed"
        else:
            yield f"{key} was {was}, is {value}"


def changes_in_config(made_from: Recipe, data: DataConfig, tokenizer: TokenizerConfig) -> list[str]:
    """Describe the settings of a config that differ from a recipe; the tokenizer may be reused in both.

    An empty recipe was not recorded, and differs from none.
    """
    if not made_from:
        return []
    settings = recipe(data, tokenizer)
    if is_reused(made_from):
        settings["tokenizer"] = made_from["tokenizer"]
    return list(changes(made_from, settings))


def is_reused(made_from: Recipe) -> bool:
    """Return whether a recipe reuses the tokenizer of another directory."""
    tokenizer = made_from.get("tokenizer")
    return isinstance(tokenizer, dict) and "reused" in tokenizer


def _completed(made_from: Recipe) -> Recipe:
    """Return a recipe, possibly of an earlier version, with defaults for missing settings and without removed ones.

    A recipe that is not valid in this version is returned without defaults.
    """
    tree = without_old(made_from)[0]
    tokenizer = {} if is_reused(tree) else tree.get("tokenizer")
    try:
        direction = "-".join(sorted(tree["languages"], key=lambda language: language == LABEL))
        directions = {"directions": tree["pairs"]} if "pairs" in tree else {"direction": direction}
        known = _known({"data": {**tree["data"], **directions}, "tokenizer": tokenizer})
        completed = recipe(known.data, known.tokenizer)
    except (KeyError, TypeError, ValidationError):
        return tree
    kept_names = "block_lists", "tags", *(["tokenizer"] if is_reused(tree) else [])
    kept = {name: tree[name] for name in kept_names if name in tree}
    completed.pop("block_lists", None)
    return completed | {"documents": tree.get("documents", False)} | kept  # recorded only if true


def _known(settings: dict[str, Any]) -> _Sections:
    """Validate settings, without those that a source had before 0.2.0, but that only other kinds of sources need.

    Raises ValidationError.
    """
    try:
        # not as a Config, whose other sections have defaults that need not suit these two
        return _Sections.model_validate(settings)
    except ValidationError as error:
        for problem in error.errors():
            if problem["type"] == "extra_forbidden":
                *path, name = problem["loc"]
                section: Any = settings
                for key in path:
                    section = section if str(key).startswith("<") else section[key]  # the tag of a kind of source
                if any(name in kind.model_fields for kind in KINDS.values()):
                    del section[name]
    return _Sections.model_validate(settings)


def changes_since(directory: DataDir, settings: Recipe, data: DataConfig) -> list[str]:
    """Describe what has changed since the directory was prepared with other settings than these."""
    try:
        contents = read_contents(directory)
        if contents.config is not None and (described := list(changes(contents.config, settings))):
            return described
        corpora = Corpora.open(directory, data)
    except DataError as error:
        return error.problems
    if contents.config is None or any(corpus.manifest.sources is None for corpus in corpora.distinct):
        return [f"{directory.path} does not record the settings and sources"]
    root = text_folder(data.root)
    described = []
    for direction in data.pairs.values():
        view = data.towards(direction)
        manifest = corpora.by_direction[direction].manifest
        for key, source in [*view.sources(), *((key, source) for key, _, source in view.mono_sources())]:
            described += _changed_files(manifest, key, source, root)
    return list(dict.fromkeys(described))


def unlike(directory: DataDir, config: Config) -> str | None:
    """Return a warning if the config differs from the settings that `directory` was prepared with, else None."""
    described = changes_in_config(read_contents(directory).config or {}, config.data, config.tokenizer)
    if not described:
        return None
    more = f", and {len(described) - 1} more" if len(described) > 1 else ""
    change = f"{described[0]}{more}"
    return f"warning: {directory.path} is used as it was prepared, unlike the config: {change}; nmt prepare updates it"


def _changed_files(manifest: Manifest, key: str, source: Source, root: Path) -> Iterator[str]:
    """Describe each local file of a source that differs from the manifest, and unmet expectations of its content."""
    record = (manifest.sources or {}).get(key)
    files = {} if record is None else record.files
    present = {}
    match source:
        case FilesSource():
            for name, file in {**source.files, "score": score_of(source), "vref": source.vref}.items():
                if file and not is_url(file):
                    present[name] = side_checksum(root / file)
        case PathSource() if not is_url(source.path):
            present = fingerprints(find_inputs(source, root, is_quiet=True), root)
    for name, digest in present.items():
        if name not in files:
            yield f"{name} was added"
        elif files[name].sha256 != digest:
            yield f"{files[name].name or name} has changed"
    if isinstance(source, PathSource) and present:
        for name in files.keys() - present.keys():
            yield f"{name} was removed"
    if record is not None:
        for name, digest in wanted_checksums(source, record).items():
            if files[name].sha256 != digest:
                yield f"data.{key}.sha256 is not the checksum of the file that was read"
        if record.read is not None and source.pairs not in (None, record.read):
            yield f"data.{key}.pairs is {source.pairs:,}, but {record.read:,} were read"


def check_replaceable(directory: DataDir) -> None:
    """Raise DataError if the directory contains anything that `prepare` did not write."""
    path = directory.path
    whole = path.resolve()
    home = Path(os.environ.get("HOME", "/"))
    if Path.cwd().is_relative_to(whole) or whole == home or path.parts[0].startswith("~"):
        raise DataError(f"{path}: cannot be a data directory; choose a new one with --data, such as data/mine")
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise DataError(f"{path}: is a file, not a data directory; choose another directory with --data")
    present = {item.relative_to(path).as_posix() for item in path.rglob("*") if not item.is_dir() or item.is_symlink()}
    if present and (foreign := present - owned_files(directory)):
        raise DataError(
            f"{path}: contains {min(foreign)}, which prepare did not write, so it is not replaced; "
            "choose another directory with --data or move it away"
        )


def check_unneeded(directory: DataDir, languages: Sequence[str], runs: Path, reasons: Sequence[str]) -> None:
    """Raise DataError if the directory is for other languages, or if a run in the folder `runs` was trained on it.

    `reasons`, for the message, say why the directory must be prepared again.
    """
    try:
        contents = read_contents(directory)
        n_pairs = sum(Corpus.of(contents, pair).split("train").n for pair in contents.manifests)
    except DataError:  # damaged or of another version, so that no run can read it
        return
    run = next((path for path in runs.glob("*") if _is_trained_on(path, contents.fingerprint)), None)
    if contents.languages == languages and run is None:
        return
    use = "" if run is None else f", the text that {run} was trained on"
    raise DataError(
        f"{directory.path}: would be prepared again ({'; '.join(reasons)}), but contains {n_pairs:,} training pairs of "
        f"{', '.join(contents.manifests)}{use}; choose another directory with --data, or replace this one with --force"
    )


def _is_trained_on(run: Path, fingerprint: str) -> bool:
    try:
        return read_info(RunDir(run)).corpus == fingerprint
    except (CheckpointError, OSError):
        return False


def reused_tokenizers(
    path: Path | None, data: DataConfig, tokenizer: TokenizerConfig
) -> tuple[Tokenizers | None, NewPieces]:
    """Load the tokenizers of a run or data directory, or else of `tokenizer.model`, if one is given.

    With several pairs of languages, or a public model of several languages, a language may be new; the vocabulary then
    grows to `tokenizer.vocab_size` pieces. Raises DataError if there are none or they do not match the config.
    """
    if path is None:
        if tokenizer.like:
            raise DataError(
                "tokenizer.like: is for a language that is new to a model; name its run by --tokenizer-from"
            )
        return _given(data, tokenizer), NewPieces()
    tokenizers = _of_directory(path)
    if bool(tokenizers.letters) != ("letters" in (data.clean.repair or ())):
        change = "add" if tokenizers.letters else "remove"
        raise DataError(
            f"data.clean.repair: {change} letters: the vocabulary of {path} was "
            "learned that way, and may lack other forms of letters"
        )
    if data.has_labels:
        return _of_text(path, tokenizers, data.src, tokenizer.joint), NewPieces()
    languages = data.all_languages
    known = (tokenizers.imported and tokenizers.imported.languages) or tokenizers.languages
    new_languages = [language for language in languages if language not in known]
    if unused := tokenizer.like.keys() - {*new_languages}:
        raise DataError(f"tokenizer.like: {min(unused)} is not a language of the config that is new to {path}")
    is_multilingual = tokenizers.is_public and tokenizers.only_direction is None
    if is_multilingual:  # any other language has another name in the model, or is refused
        new_languages = [language for language in new_languages if language in tokenizer.like]
    elif unknown := {*tokenizer.like.values()} - {tag.removeprefix(TO) for tag in tokenizers.tags}:
        raise DataError(f"tokenizer.like: {min(unknown)} is not a target language of {path}, whose tag could be copied")
    new = NewPieces()
    if tokenizers.is_public or len(data.pairs) > 1:
        new = _new_pieces(tokenizers, new_languages, tokenizer.vocab_size)
    if data.has_language_tags:
        tokenizers.check_directions(path)
    if is_multilingual:
        return with_languages(tokenizers, languages, tokenizer.like), new
    if data.has_language_tags:
        return tokenizers.of_languages(languages), new
    if tokenizers.languages != languages:
        if not tokenizers.joint or not {*tokenizers.languages} >= {*languages}:
            raise DataError(
                f"{path}: its tokenizer is for {' and '.join(tokenizers.languages)}, but the config is for "
                f"{' and '.join(languages)}"
            )
        tokenizers = tokenizers.of_languages(languages)
    if tokenizers.only_direction not in (None, data.direction):
        raise DataError(
            f"{path}: was imported for {tokenizers.only_direction}, and its tokenizer serves no other direction; "
            f"data.direction is {data.direction}"
        )
    if tokenizers.joint != tokenizer.joint:
        kind = "one joint vocabulary" if tokenizers.joint else "one vocabulary for each language"
        raise DataError(
            f"{path}: has {kind}, but tokenizer.joint is {str(tokenizer.joint).lower()}; "
            f"set tokenizer.joint={str(tokenizers.joint).lower()}"
        )
    return tokenizers, new


def _of_directory(path: Path) -> Tokenizers:
    """Load the tokenizers of a run or data directory. Raises DataError if there are none."""
    run = RunDir(path)
    data = DataDir(path)
    folder = run.tokenizer
    languages = None
    if data.is_prepared:
        contents = read_contents(data)
        folder = next(iter(contents.folders.values())).tokenizer
        languages = contents.languages
    if not folder.path.is_dir():
        raise DataError(not_usable(path, "neither a run nor a data directory, since it has no tokenizer/"))
    if languages is None and run.config.is_file():
        languages = load_saved_config(run.config).data.all_languages
    if languages is None:
        raise DataError(f"{path}: has neither manifest.json nor config.yaml, which list the languages of its tokenizer")
    return Tokenizers.load(folder, languages)


def _of_text(path: Path, tokenizers: Tokenizers, language: str, joint: bool) -> Tokenizers:
    """Return the tokenizer of the texts of a corpus with labels, which any run with their language can provide."""
    if language not in tokenizers.languages:
        raise DataError(
            f"{path}: its tokenizer is for {' and '.join(tokenizers.languages)}, but the texts are in {language}"
        )
    if tokenizers.is_public:
        raise DataError(f"{path}: its tokenizer was imported for translation and is not available for labels")
    return replace(tokenizers, by_language={language: tokenizers.by_language[language]}, joint=joint, labels=None)


def _new_pieces(tokenizers: Tokenizers, languages: Sequence[str], vocab_size: int) -> NewPieces:
    """Return the pieces that a vocabulary needs for languages that it does not have."""
    if tokenizers.imported is not None:
        n_pieces = max(300, *map(len, tokenizers.imported.pieces))  # as in the configuration of an imported run
        return NewPieces(languages, max(0, vocab_size - n_pieces))
    n = vocab_size - tokenizers[tokenizers.languages[0]].n_pieces
    return NewPieces(languages, n) if languages and n > 0 else NewPieces()


def _given(data: DataConfig, tokenizer: TokenizerConfig) -> Tokenizers | None:
    """Return the tokenizers of the languages with the given `tokenizer.model`, if any. Raises DataError."""
    if tokenizer.model is None:
        return None
    path = text_folder(data.root) / tokenizer.model
    model = read_model(path)
    try:
        vocabulary = ImportedVocabulary.of_model(model)
        return Tokenizers.of_import(vocabulary, dict.fromkeys({*data.all_languages} - {LABEL}, model))
    except (DataError, DecodeError) as error:
        raise DataError(f"tokenizer.model: {path}: not a SentencePiece model") from error
