"""The configuration of the training that follows a recipe: that of a run, with other corpora."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmt.config import Config, DataConfig, Source
from nmt.config.load import changed_config, check_config, load_saved_config
from nmt.config.source import is_url, joint_license
from nmt.data.corpus import read_manifest
from nmt.errors import ConfigError, DataError
from nmt.layout import DataDir, RunDir
from nmt.prepare.sources import text_folder
from nmt.recipes.directory import RecipeDir
from nmt.runs.info import check_is_run, read_info


def run_config(run: Path) -> Config:
    """Load the configuration of a run that translates, without the settings of its start.

    The next training does not inherit training.init_from, freeze and both_directions. Raises CheckpointError if there
    is no run, ConfigError if it has learned something else.
    """
    check_is_run(run)
    config = load_saved_config(RunDir(run).config)
    if config.training.objective != "translation":
        raise ConfigError([f"{run}: has learned training.objective: {config.training.objective}, not to translate"])
    start: dict[str, object] = {"init_from": None, "freeze": [], "both_directions": False}
    training = config.training.model_copy(update=start)
    return config.model_copy(update={"training": training})


def data_directory(run: Path) -> Path:
    """Return the data directory that a run was trained on, relative to the working directory if it is below that."""
    path = Path(read_info(RunDir(run)).data_dir)
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def rooted(config: Config, prepared: Path | None = None) -> Config:
    """Return `config` with `data.root` prepended to every file name, so that corpora in other directories can be added.

    If the development set was split off the training text, both are replaced by those of the data directory `prepared`
    (default: the config's), since the original files still hold the pairs that were dropped for sharing a side with the
    development set. All corpora are one then, with the `repeat` of the first. Raises DataError if they are missing.
    """
    data, folder = config.data, text_folder(config.data.root)

    def name_in_folder(name: str) -> str:
        return name if is_url(name) else str(folder / name)

    def moved(source: Source) -> Source:
        files = {language: name_in_folder(name) for language, name in (source.files or {}).items()}
        path = None if source.path is None else name_in_folder(source.path)
        score = str(folder / source.score) if source.score and files else source.score
        return source.model_copy(update={"files": files or None, "path": path, "score": score})

    if isinstance(data.valid, Source):
        train, valid = [moved(source) for source in data.train], moved(data.valid)
    else:
        train, valid = _split_off(data, DataDir(prepared or data.directory))
    test = {name: moved(source) for name, source in data.test.items()}
    mono = {language: [moved(source) for source in sources] for language, sources in data.mono.items()}
    changes = {"root": ".", "train": train, "valid": valid, "test": test, "mono": mono}
    return config.model_copy(update={"data": data.model_copy(update=changes)})


def _split_off(data: DataConfig, directory: DataDir) -> tuple[list[Source], Source]:
    """Return the prepared training text and development set: another training text would give another one.

    Raises DataError if they are missing.
    """
    shards = read_manifest(directory).splits["train"].shards if directory.manifest.is_file() else None
    # the text of one file repeats its pairs already, but prepare drops duplicates
    origins = {"train": data.train}
    if shards is not None:
        origins = {shard.name: [data.train[int(shard.source.removeprefix("train."))]] for shard in shards}
    texts = {
        split: {language: str(directory.text(split, language)) for language in data.languages}
        for split in (*origins, "valid")
    }
    if not all(Path(name).is_file() for files in texts.values() for name in files.values()):
        raise DataError(
            f"{directory.path}: no development set here yet; data.valid splits it off the training text, so run nmt "
            "prepare first"
        )
    train = [
        Source(
            files=texts[split],
            name="authentic" if shards is None else split,
            repeat=sources[0].repeat,
            license=joint_license(sources),
        )
        for split, sources in origins.items()
    ]
    return train, Source(files=texts["valid"], name="split off", license=joint_license(data.train))


def next_config(
    config: Config, directory: RecipeDir, train: Sequence[Source], run_dir: str, overrides: Sequence[str]
) -> Config:
    """Return `config` (see `rooted`) with the training corpora `train`, the recipe's data directory and `run_dir`, then
    changed by `overrides`. Raises ConfigError."""
    tree = config.model_dump()
    tree["data"] |= {"train": [source.model_dump() for source in train], "dir": str(directory.prepared)}
    tree["training"]["run_dir"] = run_dir
    return changed_config(check_config(tree, "config"), overrides)
