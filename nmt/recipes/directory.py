"""The directory of a recipe: text translated in chunks, and the config and commands of the next run."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TypeAlias, TypeVar

from nmt.config import Config
from nmt.config.load import dump_config, load_saved_config, overridden
from nmt.config.messages import TreeDifference, differences
from nmt.console import Progress, say, show
from nmt.data.manifest import read_manifest
from nmt.data.settings import DataConfig
from nmt.data.sources import (
    AnySource,
    AnyTrainSource,
    FilesSource,
    PathSource,
    Source,
    TrainFiles,
    TrainSource,
    is_url,
    joint_license,
    score_of,
)
from nmt.errors import DataError, StoppedError
from nmt.files.write import Lock, replace_file
from nmt.layout import DataDir, File, RunDir
from nmt.prepare.cleaning.settings import CleanConfig
from nmt.prepare.sources import text_folder
from nmt.process import SIGNALS, handling
from nmt.recipes.teachers import Teacher
from nmt.tasks.perform import TEXT, Json, Task, join, run_all
from nmt.tasks.processes import InProcess
from nmt.text.lines import read_lines
from nmt.training.settings import Stage

AnyOf = TypeVar("AnyOf", bound=Source)
CleanOf = TypeVar("CleanOf", bound=CleanConfig)


def count_lines(mono: Path) -> int:
    """Count the lines, and read all of them so that invalid text is detected before hours of translation.

    Raises DataError.
    """
    n_lines = sum(1 for _ in read_lines(mono))
    if n_lines == 0:
        raise DataError(f"{mono}: is empty; there is nothing to translate")
    return n_lines


def is_of_text(override: str) -> bool:
    """Return whether a change to a config is one of the text that is translated, not only of what is learned."""
    return override.startswith(("data.root=", "data.direction="))


def follow(
    directory: RecipeDir, counts: dict[str, int], config: Config, tokenizer_from: Path | None, *, run_commands: bool
) -> int:
    """Write config.yaml with the record of the teacher, print the counts and the commands to run next, and run these if
    `run_commands` is true.

    tokenizer_from: the run whose tokenizer the next run has; None: it trains its own.

    Return the exit status of the first command that fails, else 0.
    """
    n_translations = counts.get("translations", counts.get("pairs", 0))
    *others, translated = config.data.train
    record = directory.teacher.record(directory.path, n_translations)
    data = config.data.model_copy(update={"train": [*others, translated.model_copy(update={"teacher": record})]})
    replace_file(directory.config, dump_config(config.model_copy(update={"data": data})))
    for name, n in counts.items():
        show(f"{n:>12,}  {name}")
    if not n_translations:
        say(f"warning: {directory.path} has no translation that can be used")
    path = str(directory.config)
    run = str(config.run_directory)
    commands = [
        ["prepare", "--config", path],
        ["train", *resume_option(RunDir(config.run_directory)), "--config", path, "--run", run],
        *(["evaluate", "--run", run, "--split", split] for split in config.data.test),
    ]
    if tokenizer_from is not None:
        commands[0] += ["--tokenizer-from", str(tokenizer_from)]
    return run_shown(commands, run_commands)


def run_shown(commands: Sequence[Sequence[str]], run_commands: bool = True) -> int:
    """Print commands of `nmt`, and run each one if `run_commands` is true.

    Return the exit status of the first command that fails, else 0.
    """
    for command in commands:
        show(shlex.join(["nmt", *command]))
        if run_commands and (status := run_nmt(command)):
            return status
    return 0


def resume_option(run: RunDir) -> list[str]:
    """Return `--resume` if the run has started; `nmt train` then rejects changed settings."""
    return ["--resume"] if run.info.is_file() else []


def run_nmt(arguments: Sequence[str]) -> int:
    """Run `nmt` with these arguments in another process, and return its exit status."""
    status = wait_for([sys.executable, "-m", "nmt", *arguments])
    if status == StoppedError.exit_status:
        say("stopped; run the same command again to continue")
    return status


LOCATIONS = {"data.dir", "data.root", "training.run_dir"}
"""Settings that may differ from an existing run, because directories may have been moved."""


def changed_settings(run: RunDir, config: Config) -> list[TreeDifference]:
    """Return the settings that differ between an existing run and `config`, except locations, licences, and what was
    chosen for `search.split: auto`."""
    before = load_saved_config(run.config).without_licenses().model_dump(mode="json")
    after = config.without_licenses().model_dump(mode="json")
    changes = []
    for change in differences(before, after):
        is_split_chosen = change.key == "search.split" and change.new == "'auto'"
        if change.key not in LOCATIONS and not is_split_chosen:
            changes.append(change)
    return changes


def wait_for(command: Sequence[str]) -> int:
    """Run a command and return its exit status, which is 128 + N (as in shells) if signal N killed the command.

    Signals to stop are forwarded to the command, which then has time to save.
    """
    child = subprocess.Popen(command)

    def forward(number: int, _: FrameType | None) -> None:
        if number != signal.SIGINT:  # a terminal sends it to both, and a second one would end the command at once
            child.send_signal(number)

    with handling(SIGNALS, forward):
        status = child.wait()
    return status if status >= 0 else 128 - status


def rooted(config: Config, prepared: Path | None = None) -> Config:
    """Return `config` with `data.root` prepended to every file name, so that corpora in other directories can be added.

    If sets were split off the training text, all are replaced by the text of the data directory `prepared` (default:
    the config's), since the original files still contain the pairs that were dropped for sharing a side with them.
    All corpora are then one, with the `repeat` of the first. Raises DataError if the prepared text is missing.
    """
    data = config.data
    folder = text_folder(config.data.root)

    def name_in_folder(name: str) -> str:
        return name if is_url(name) else str(folder / name)

    def moved(source: AnyOf) -> AnyOf:
        changes: dict[str, object] = {}
        if isinstance(source, FilesSource):
            changes["files"] = {language: name_in_folder(name) for language, name in source.files.items()}
            for setting, name in (("score", score_of(source)), ("vref", source.vref)):
                if name:
                    changes[setting] = str(folder / name)
        elif isinstance(source, PathSource):
            changes["path"] = name_in_folder(source.path)
        if isinstance(source, TrainSource) and source.clean:
            changes["clean"] = rooted_clean(source.clean, data.root)
        return source.model_copy(update=changes)

    train = [moved(source) for source in data.train]
    split_off = dict[str, AnySource]()
    if data.drawn:
        train, split_off = _split_off(data, DataDir(prepared or data.directory))
    valid = moved(data.valid) if isinstance(data.valid, Source) else split_off.pop("valid")
    test = {name: moved(source) for name, source in data.test.items()} | split_off
    mono = {language: [*map(moved, sources)] for language, sources in data.mono.items()}
    clean = rooted_clean(data.clean, data.root)
    changes = {"root": ".", "train": train, "valid": valid, "test": test, "mono": mono, "clean": clean}
    return config.model_copy(update={"data": data.model_copy(update=changes)})


def rooted_clean(clean: CleanOf, root: str) -> CleanOf:
    """Return cleaning settings with `root` prepended to the names of the block lists."""
    if clean.block_lists is None:
        return clean
    lists = {language: str(text_folder(root) / name) for language, name in clean.block_lists.items()}
    return clean.model_copy(update={"block_lists": lists})


def _split_off(data: DataConfig, directory: DataDir) -> tuple[list[AnyTrainSource], dict[str, AnySource]]:
    """Return the prepared training text, and the sets that were split off from it by name, as sources.

    Raises DataError if they are missing.
    """
    shards = read_manifest(directory).splits["train"].shards if directory.manifest.is_file() else None
    if shards is None and len({source.tag_names for source in data.train}) > 1:
        raise DataError(
            f"{directory.path}: does not say which pairs have which tags; set data.valid to files, or remove the tags"
        )

    def files_of(split: str) -> dict[str, str]:
        files = {language: str(directory.text(split, language)) for language in data.pair}
        if not all(Path(name).is_file() for name in files.values()):
            raise DataError(f"{directory.path}: contains no development set yet; run nmt prepare first")
        return files

    def as_source(split: str, name: str, sources: Sequence[AnyTrainSource]) -> TrainFiles:
        first = sources[0]
        return TrainFiles(
            files=files_of(split), name=name, repeat=first.repeat, tags=first.tags, license=joint_license(sources)
        )

    # the text of one file repeats its pairs already, but prepare drops duplicates
    train = [as_source("train", "authentic", data.train)] if shards is None else []
    for shard in shards or ():
        source = data.train_sources[shard.source]
        train.append(as_source(shard.name, shard.name, [source]))
    split_off: dict[str, AnySource] = {}
    for name in data.drawn:
        split_off[name] = FilesSource(files=files_of(name), name="split off", license=joint_license(data.train))
    return [*train], split_off


def next_config(
    config: Config,
    original: Config,
    directory: RecipeDir,
    train: Sequence[AnyTrainSource],
    run_dir: str,
    overrides: Sequence[str],
) -> Config:
    """Return the config of the next run: `config` with other training corpora and directories, changed by `overrides`.

    `config` is a result of `rooted`, of the settings `original`; what it lacks of these is reported. The last corpus in
    `train` is the translations. Raises ConfigError.
    """
    tree = config.model_dump()
    tree["data"] |= {"train": [source.model_dump() for source in train], "dir": str(directory.prepared)}
    tree["training"]["run_dir"] = run_dir
    are_changed = any(override.startswith("training.stages") for override in overrides)
    if not are_changed and not _can_mix(config.training.stages, train):
        tree["training"]["stages"] = []
    # overrides may repair what the other corpora have made invalid
    following = overridden(tree, "config", overrides, is_saved=True)
    lost = {
        "data.train.N.weight": _are_weighted(original) and not _are_weighted(following),
        "data.temperature": original.data.temperature and not following.data.temperature,
        "training.stages": original.training.stages and not following.training.stages,
        "training.watch": {*original.training.watch} - {*following.training.watch},
    }
    left_out = [key for key, is_lost in lost.items() if is_lost]
    if left_out:
        say(f"{directory.config}: without {', '.join(left_out)}, because the corpora are others")
    return following


def _are_weighted(config: Config) -> bool:
    return any(source.weight for source in config.data.train)


def _can_mix(stages: Sequence[Stage], train: Sequence[AnyTrainSource]) -> bool:
    """Return whether stages have only weights of corpora in `train`, and any of them uses the last of these."""
    labels = [source.label for source in train]
    weighted = set[str]().union(*(stage.weights or () for stage in stages))
    is_last_used = labels[-1] in weighted or not all(stage.weights for stage in stages)
    return is_last_used and all(labels.count(name) == 1 for name in weighted)


CHUNK = 4096  # lines; the translator's window, so that the same lines always share their batches

Row = TypeVar("Row")
TranslateRows: TypeAlias = Callable[[Sequence[Row], int, Progress], Iterable[str]]
"""A function that translates rows, given the number of the first one, and counts them."""


@dataclass(frozen=True)
class RecipeDir:
    """The directory of a recipe.

    settings.json    inputs and settings; the recipe does not continue with different ones
    lock             locked while a process works here
    chunks/          translations of CHUNK lines each, until all are finished
    answers.db, …    the answers of a language model; see `nmt.chat.teacher`
    PART.LANG        the translations, one line per source line; blank if there is no finished translation
    report.json      counts; written last
    config.yaml      configuration of the next run
    prepared/        data directory of the next run
    """

    path: Path
    settings: Mapping[str, object]
    """JSON values that determine the result, besides those of the teacher."""
    teacher: Teacher

    config = File("config.yaml")
    prepared = File("prepared")
    _settings = File("settings.json")
    _report = File("report.json")

    def write(
        self,
        name: str,
        rows: Iterable[Row],
        n_rows: int,
        translate: TranslateRows[Row],
        count: Callable[[Path], dict[str, int]],
    ) -> dict[str, int]:
        """Write the file `name` with a line for each row, or resume writing it, and return the counts of the report.

        `count` returns the counts of the finished file. Does nothing if the report exists. Raises DataError if the
        directory contains other files or was started with other settings.
        """
        self._check_output_directory()
        self.path.mkdir(parents=True, exist_ok=True)
        with Lock(self.path / "lock", "works"):
            if self._report.is_file():
                say(f"{self.path / name}: all {n_rows:,} lines are already translated; nothing to do")
                return dict(json.loads(self._report.read_text(encoding="utf-8")))
            replace_file(self._settings, json.dumps(self._all_settings, indent=1) + "\n")
            with self.teacher.opened(self.path, n_rows):
                if not (self.path / name).is_file():
                    self._translate(name, rows, n_rows, translate)
                shutil.rmtree(self.path / "chunks", ignore_errors=True)
                counts = count(self.path / name)
            replace_file(self._report, json.dumps(counts, indent=1) + "\n")
            return counts

    @cached_property
    def _all_settings(self) -> dict[str, object]:
        return {**self.settings, **self.teacher.settings}

    def _check_output_directory(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise DataError(f"{self.path}: is a file; choose a directory with --output")
        if self._settings.is_file():
            before = json.loads(self._settings.read_text(encoding="utf-8"))
            changes = []
            for key in {**before, **self._all_settings}:
                old = before.get(key)
                new = self._all_settings.get(key)
                if old != new:
                    changes.append(f"{key} was {old}, is {new}")
            if changes:
                listed = "; ".join(changes)
                raise DataError(f"{self.path}: started with other settings: {listed}; use another with --output")
        elif self.path.is_dir():
            unknown = {path.name for path in self.path.iterdir()} - {"lock", "settings.json.part"}
            if unknown:
                raise DataError(
                    f"{self.path}: contains {min(unknown)}, which this recipe did not write; use another with --output"
                )

    def _translate(
        self,
        name: str,
        rows: Iterable[Row],
        n_rows: int,
        translate: TranslateRows[Row],
    ) -> None:
        """Translate the missing chunks, and join all chunks."""
        remaining = iter(rows)
        n_read = 0

        def translate_chunk(folder: Path, arguments: Json) -> Json:
            nonlocal n_read
            first = int(str(arguments["first"]))
            progress.add(first - n_read)  # in chunks that were finished before
            chunk = list(islice(remaining, first - n_read, first - n_read + CHUNK))
            n_read = first + len(chunk)
            lines = translate(chunk, first, progress)
            (folder / TEXT).write_bytes("".join(f"{line}\n" for line in lines).encode())
            return {"rows": len(chunk)}

        tasks = [Task(f"chunks/{first:012d}", translate_chunk, {"first": first}) for first in range(0, n_rows, CHUNK)]
        with Progress("translating", n_rows) as progress:
            join(run_all(InProcess(), self.path, tasks), self.path / name)
