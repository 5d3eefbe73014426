"""The directory of a recipe that translates a text: a chunk at a time, so that it can be stopped at any moment."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nmt.config import SearchConfig
from nmt.console import say
from nmt.errors import DataError
from nmt.files.write import Lock, open_output, replace_file
from nmt.layout import RunDir
from nmt.runs.info import Selected, read_selected

if TYPE_CHECKING:
    from nmt.translate.translator import Translator  # which takes a second to import

CHUNK = 4096  # lines; the translator's window, so that the same lines always share their batches

Row = TypeVar("Row")


@dataclass(frozen=True)
class RecipeDir:
    """The directory of a recipe.

    settings.json    what it is made from; with other settings the recipe refuses to continue
    lock             held while a process works here
    chunks/          translations of CHUNK lines each, until all are there
    PART.LANG        the translations, line n that of line n; a line without a finished translation is blank
    report.json      counts; written last
    config.yaml      configuration of the training that follows
    prepared/        its data directory
    """

    path: Path
    settings: Mapping[str, object]
    """JSON values that identify the result; see `translation_settings`."""
    runs: Sequence[Path]
    """The runs that translate; several are an ensemble."""

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def prepared(self) -> Path:
        return self.path / "prepared"

    @property
    def _settings(self) -> Path:
        return self.path / "settings.json"

    @property
    def _report(self) -> Path:
        return self.path / "report.json"

    @property
    def _chunks(self) -> Path:
        return self.path / "chunks"

    def write(
        self,
        name: str,
        rows: Iterable[Row],
        n_rows: int,
        translate: Callable[[Translator, Sequence[Row], int], Iterable[str]],
        count: Callable[[Path], dict[str, int]],
    ) -> dict[str, int]:
        """Write the file `name`, a line for each row, or resume writing it. Return the counts of the report.

        `translate(translator, rows, first)` returns the lines of a chunk whose first row has the number `first`;
        `count` counts what is in the finished file. Does nothing if all is done. Raises DataError if the directory
        contains other files or was started with other settings.
        """
        self._check()
        self.path.mkdir(parents=True, exist_ok=True)
        lock = Lock(self.path / "lock", "works")
        try:
            if self._report.is_file():
                say(f"{self.path / name}: all {n_rows:,} lines are translated already: nothing to do")
                return dict(json.loads(self._report.read_text(encoding="utf-8")))
            if not (self.path / name).is_file():
                self._translate(rows, n_rows, translate)
                self._join(name, n_rows)
            shutil.rmtree(self._chunks, ignore_errors=True)
            counts = count(self.path / name)
            replace_file(self._report, json.dumps(counts, indent=1) + "\n")
            return counts
        finally:
            lock.release()

    def _check(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise DataError(f"{self.path}: a file, where a directory is to be written; name another with --output")
        if self._settings.is_file():
            before = json.loads(self._settings.read_text(encoding="utf-8"))
            keys = [key for key in {**before, **self.settings} if before.get(key) != self.settings.get(key)]
            if keys:
                changes = "; ".join(f"{key} was {before.get(key)}, is {self.settings.get(key)}" for key in keys)
                raise DataError(f"{self.path}: started with other settings: {changes}; name another with --output")
        elif self.path.is_dir():
            others = {path.name for path in self.path.iterdir()} - {"lock", "settings.json.part"}
            if others:
                raise DataError(
                    f"{self.path}: contains {min(others)}, which this recipe did not write; name another with --output"
                )

    def _translate(
        self,
        rows: Iterable[Row],
        n_rows: int,
        translate: Callable[[Translator, Sequence[Row], int], Iterable[str]],
    ) -> None:
        """Write the chunks that are missing."""
        translator = load_translator(self.runs)
        replace_file(self._settings, json.dumps(self.settings, indent=1) + "\n")
        self._chunks.mkdir(exist_ok=True)
        remaining, start, n_new = iter(rows), time.monotonic(), 0
        for first in range(0, n_rows, CHUNK):
            chunk = list(islice(remaining, CHUNK))
            path = self._chunk(first)
            if path.is_file():
                continue
            replace_file(path, "".join(f"{line}\n" for line in translate(translator, chunk, first)))
            n_new += len(chunk)
            rate = n_new / (time.monotonic() - start)
            n_left = n_rows - first - len(chunk)
            left = f"{n_left / rate / 60:.1f} min left"
            say(f"{n_rows - n_left:,} of {n_rows:,} lines, {rate:.0f} lines/s, {left}")

    def _chunk(self, first: int) -> Path:
        return self._chunks / f"{first:012d}"

    def _join(self, name: str, n_rows: int) -> None:
        """Concatenate the chunks."""
        with open_output(self.path / name) as out:
            for first in range(0, n_rows, CHUNK):
                content, expected = self._chunk(first).read_bytes(), min(CHUNK, n_rows - first)
                n_lines = content.count(b"\n")
                if n_lines != expected:
                    raise DataError(
                        f"{self._chunk(first)}: damaged: has {n_lines} lines, expected {expected}; remove it and run "
                        "the same command again"
                    )
                out.write(content)


def translation_settings(runs: Sequence[Path], search: SearchConfig) -> dict[str, object]:
    """Return as JSON values the runs, their selected weights and the search settings.

    The selected weights change if a run is trained further.
    """
    selected = [read_selected(RunDir(run)) for run in runs]
    return {
        "runs": [str(run) for run in runs],
        "weights": [_identity(choice) for choice in selected],
        **{f"search.{key}": value for key, value in search.model_dump(mode="json").items()},
    }


def _identity(selected: Selected) -> list[object]:
    """Return step and kind of the selected weights; both None where no validation has selected any."""
    if not selected.model_fields_set:
        return [None, None]
    return [selected.average_steps if selected.weights == "average" else selected.best_step, selected.weights]


def load_translator(runs: Sequence[Path]) -> Translator:
    """Load the translator of a run, or of an ensemble of runs."""
    from nmt.translate.translator import Translator

    return Translator.load(runs)
