"""What distil.py and back_translate.py have in common: a text that is translated in chunks, and what follows.

The folder of a recipe:

settings.json    what it is made from; called with other settings, the recipe refuses to go on
lock             held while a process works here
chunks/          translations of CHUNK lines each, until all are there
PART.LANG        the translations, line n that of line n; a line without a finished translation is blank
report.json      counts; it comes last
config.yaml      of the training that follows
"""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from nmt.config import Config, DataConfig, SearchConfig, Source
from nmt.config.load import changed_config, check_config, dump_config, load_config
from nmt.console import say, show
from nmt.errors import CheckpointError, DataError
from nmt.files.write import Lock, open_output, replace_file
from nmt.layout import DataDir, RunDir
from nmt.prepare.sources import text_folder
from nmt.process import SIGNALS
from nmt.runs.info import read_info, read_selected

if TYPE_CHECKING:
    from nmt.translate.translator import Translator  # which takes a second to import

CHUNK = 4096  # lines; those of one window of the translator, so that the same lines always stand in the same batches

Row = TypeVar("Row")


@dataclass(frozen=True)
class Recipe:
    """A folder, and what is asked for in it."""

    folder: Path
    asked: dict[str, Any]
    """Plain values that tell this recipe from every other."""
    runs: Sequence[Path]
    """What translates; several are an ensemble."""

    @property
    def _settings(self) -> Path:
        return self.folder / "settings.json"

    @property
    def _report(self) -> Path:
        return self.folder / "report.json"

    @property
    def _chunks(self) -> Path:
        return self.folder / "chunks"

    def make(
        self,
        name: str,
        rows: Iterable[Row],
        n_rows: int,
        translate: Callable[[Translator, Sequence[Row], int], Iterable[str]],
        count: Callable[[Path], dict[str, int]],
    ) -> dict[str, int]:
        """Make the file `name` with a line for every row, or go on with it; the counts of the report.

        `translate` gives the lines of some rows, the first of which has this number; `count` looks at the finished
        file. Where all is done, nothing is. Raises DataError for a folder of something else or of other settings.
        """
        self._check_folder()
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = Lock(self.folder / "lock", "works")
        try:
            if self._report.is_file():
                say(f"{self.folder / name}: all {n_rows:,} lines are there, nothing to translate")
                return dict(json.loads(self._report.read_text(encoding="utf-8")))
            if not (self.folder / name).is_file():
                self._translate(rows, n_rows, translate)
                self._join(name, n_rows)
            shutil.rmtree(self._chunks, ignore_errors=True)
            counts = count(self.folder / name)
            replace_file(self._report, json.dumps(counts, indent=1) + "\n")
            return counts
        finally:
            lock.release()

    def _check_folder(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError(f"{self.folder}: a file, where a folder is to be written; name another with --output")
        if self._settings.is_file():
            before = json.loads(self._settings.read_text(encoding="utf-8"))
            keys = [key for key in {**before, **self.asked} if before.get(key) != self.asked.get(key)]
            if keys:
                changes = "; ".join(f"{key} was {before.get(key)}, is {self.asked.get(key)}" for key in keys)
                raise DataError(f"{self.folder}: begun with other settings: {changes}; name another --output")
        elif self.folder.is_dir() and {path.name for path in self.folder.iterdir()} - {"lock", "settings.json.part"}:
            raise DataError(f"{self.folder}: holds other files; name a folder that is empty or new with --output")

    def _translate(
        self,
        rows: Iterable[Row],
        n_rows: int,
        translate: Callable[[Translator, Sequence[Row], int], Iterable[str]],
    ) -> None:
        """Write the chunks that are not there yet."""
        translator = load_translator(self.runs)
        replace_file(self._settings, json.dumps(self.asked, indent=1) + "\n")
        self._chunks.mkdir(exist_ok=True)
        waiting, begin, n_new = iter(rows), time.monotonic(), 0
        for first in range(0, n_rows, CHUNK):
            chunk = list(islice(waiting, CHUNK))
            path = self._chunk(first)
            if path.is_file():
                continue
            replace_file(path, "".join(f"{line}\n" for line in translate(translator, chunk, first)))
            n_new += len(chunk)
            rate = n_new / (time.monotonic() - begin)
            n_left = n_rows - first - len(chunk)
            say(f"{n_rows - n_left:,} of {n_rows:,} lines, {rate:.0f} a second, {n_left / rate / 60:.0f} minutes left")

    def _chunk(self, first: int) -> Path:
        return self._chunks / f"{first:012d}"

    def _join(self, name: str, n_rows: int) -> None:
        """Put the chunks together."""
        with open_output(self.folder / name) as out:
            for first in range(0, n_rows, CHUNK):
                content, wanted = self._chunk(first).read_bytes(), min(CHUNK, n_rows - first)
                if content.count(b"\n") != wanted:
                    raise DataError(
                        f"{self._chunk(first)}: damaged: {content.count(bytes([10]))} lines, there must be {wanted}; "
                        "remove it and start again"
                    )
                out.write(content)


def settings_of(runs: Sequence[Path], search: SearchConfig) -> dict[str, Any]:
    """What translates, and how, as plain values: the selected weights of each run, which change when it trains on."""
    selected = [read_selected(RunDir(run)) for run in runs]
    return {
        "runs": [str(run) for run in runs],
        "weights": [
            [each.average_steps if each.weights == "average" else each.best_step, each.weights] for each in selected
        ],
        **{f"search.{key}": value for key, value in search.model_dump(mode="json").items()},
    }


def load_translator(runs: Sequence[Path]) -> Translator:
    """The translator of a run, or of several."""
    from nmt.translate.translator import Translator

    return Translator.load(runs)


def config_of(run: Path) -> Config:
    """The configuration of a run. Raises CheckpointError if there is none."""
    if not RunDir(run).config.is_file():
        raise CheckpointError(f"{run}: not a run directory, it has no config.yaml; make one with nmt train")
    config = load_config(RunDir(run).config)
    # what one stage began with, froze or learned besides is not what the next one does
    training = config.training.model_copy(update={"init_from": None, "freeze": [], "both_directions": False})
    return config.model_copy(update={"training": training})


def rooted(config: Config, prepared: Path | None = None) -> Config:
    """The same with `data.root` put before every file name, so that more files can be named beside them.

    Where the development set was split off the training text, both are those of the data directory `prepared`, by
    default the config's: the files of the training text still hold what was left out because it shares a side with the
    development set. All corpora are one then, which repeats as the first. Raises DataError if they are not there.
    """
    data, folder = config.data, text_folder(config.data.root)

    def moved(source: Source) -> Source:
        files = {language: str(folder / name) for language, name in (source.files or {}).items()}
        return source.model_copy(update={"files": files or None})

    places: dict[str, Any] = {"root": ".", "test": {name: moved(source) for name, source in data.test.items()}}
    if isinstance(data.valid, Source):
        places |= {"train": [moved(source) for source in data.train], "valid": moved(data.valid)}
    else:
        train, valid = _split_off(data, DataDir(prepared or data.directory))
        places |= {"train": [train], "valid": valid}
    return config.model_copy(update={"data": data.model_copy(update=places)})


def _split_off(data: DataConfig, directory: DataDir) -> tuple[Source, Source]:
    """The training text and the development set that prepare has split off it: another text would give another one."""
    train, valid = (
        {language: str(directory.text(split, language)) for language in data.languages} for split in ("train", "valid")
    )
    if not all(Path(name).is_file() for name in (*train.values(), *valid.values())):
        raise DataError(
            f"{directory.path}: no development set is here yet, and data.valid says to split it off the training text; "
            "run nmt prepare first"
        )
    repeat = data.train[0].repeat  # its pairs stand there so often already, but prepare counts equal ones once
    return Source(files=train, name="authentic", repeat=repeat), Source(files=valid, name="split off")


def next_config(
    config: Config, recipe: Recipe, train: Sequence[Source], run_dir: str, overrides: Sequence[str]
) -> Config:
    """`config` (rooted) with other training corpora and places, then `overrides`. Raises ConfigError."""
    tree = config.model_dump()
    tree["data"] |= {"train": [source.model_dump() for source in train], "dir": str(recipe.folder / "prepared")}
    tree["training"]["run_dir"] = run_dir
    return changed_config(check_config(tree, "config"), overrides)


def follow(recipe: Recipe, counts: dict[str, int], config: Config, run_them: bool) -> int:
    """Write config.yaml, print counts and the commands that follow, and with `run_them` run these; the exit status of
    the first that fails."""
    path, run = str(recipe.folder / "config.yaml"), str(config.run_directory)
    replace_file(Path(path), dump_config(config))
    for what, n in counts.items():
        show(f"{n:>12,}  {what}")
    # a run that is there goes on only if this config is its own
    resumed = ["--resume"] if RunDir(config.run_directory).info.is_file() else []
    train = ["train", *resumed, "--config", path, "--run", run]
    commands = [
        ["prepare", "--config", path, "--tokenizer-from", str(recipe.runs[0])],
        train,
        *(["evaluate", "--run", run, "--split", split] for split in config.data.test),
    ]
    for command in commands:
        show(shlex.join(["nmt", *command]))
        if run_them:
            status = run_to_its_end([sys.executable, "-m", "nmt", *command])
            if status:
                return status
    return 0


def run_to_its_end(command: Sequence[str]) -> int:
    """The exit status of a command, which may take its time when it is asked to stop, as `nmt train` does to save."""
    child = subprocess.Popen(command)

    def pass_on(number: int, _: FrameType | None) -> None:
        if number != signal.SIGINT:  # which a terminal sends to both: a second one would end the command at once
            child.send_signal(number)

    heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, pass_on) for number in heard}
    try:
        status = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status  # of one that a signal has killed, as shells report it


def data_of(run: Path) -> Path:
    """The data directory that a run was trained on, as seen from the working directory, where it is below that."""
    path = Path(read_info(RunDir(run)).data_dir)
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
