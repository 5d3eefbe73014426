"""Teachers, which translate the text of a recipe: runs, ensembles of runs, and language models (`nmt.chat`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nmt.config import Config
from nmt.config.load import load_saved_config
from nmt.console import Progress
from nmt.data.manifest import folder_of
from nmt.data.settings import DataConfig
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.files.write import lock_holder
from nmt.layout import DataDir, RunDir
from nmt.runs.info import check_is_run, read_info
from nmt.search.settings import SearchConfig

if TYPE_CHECKING:  # these import torch, which `nmt bidirectional` does not need
    from nmt.chat.teacher import ChatTeacher
    from nmt.runs.model import AnyModel, ModelRef
    from nmt.translate.loading import Translator


@dataclass(frozen=True)
class RunTeacher:
    """A run, or an ensemble."""

    model: ModelRef
    search: SearchConfig
    n_best: int = 1
    """Number of translations of each line."""

    def __post_init__(self) -> None:
        """Raise ConfigError if the search settings are incompatible."""
        from nmt.translate.types import check_search

        check_search(self.search, self.n_best)

    @property
    def name(self) -> str:
        """The run."""
        return str(self.model.path)

    @property
    def settings(self) -> dict[str, object]:
        """The runs, their selected weights, the languages asked for and the search settings as JSON values.

        The selected weights change if a run is trained further, or anew.
        """
        model = self.model
        settings: dict[str, object] = {"runs": [*map(str, model.paths)], "weights": [*map(_identity, model.paths)]}
        for name, language in (("to", model.to), ("from", model.source)):
            if language is not None:
                settings[name] = language
        return settings | {f"search.{key}": value for key, value in self.search.model_dump(mode="json").items()}

    @property
    def license(self) -> str | None:
        """The licences of the public models from which the runs were imported or adapted; None if there are none."""
        licenses = []
        for run in self.model.paths:
            public = read_info(RunDir(run)).public
            if public is not None and public.license:
                licenses.append(public.license)
        return ", ".join(dict.fromkeys(licenses)) or None

    def data_directory(self, data: DataConfig, otherwise: str) -> Path:
        """Return the data directory that the run was trained on, as a relative path if it is in the working directory.

        data: the settings with the direction, if there are several. Raises DataError if the run was imported.
        """
        recorded = read_info(RunDir(self.model.path)).data_dir
        if not recorded:
            raise DataError(f"{self.name}: was imported and has no data directory; give {otherwise}")
        path = folder_of(DataDir(Path(recorded)), "-".join(data.pair)).path
        return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path

    def opened(self, recipe: Path, n_lines: int) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context; the weights are loaded when it translates."""
        return nullcontext()

    def record(self, recipe: Path, n_lines: int) -> None:
        """Return None: a run is recorded by its licence."""

    @cached_property
    def _translator(self) -> Translator:
        from nmt.translate.loading import Translator

        return Translator.load(self.model)

    def translations(self, lines: Sequence[str], first: int, progress: Progress) -> Iterator[list[str]]:
        """Yield the finished translations of each line."""
        from nmt.translate.types import Options

        options = Options(self.search, self.n_best)
        for n_best in self._translator.translate_window(lines, options, first, progress):
            yield [translation.text for translation in n_best if translation.finished]

    def reason(self, line: str) -> None:
        """Return None: a line without a translation has no finished one."""


Teacher: TypeAlias = "RunTeacher | ChatTeacher"
"""What translates the text of a recipe. Within `opened`, `translations` yields the usable translations of each line,
best first, and `reason` says why a line has none, if that is known."""


def run_config(model: AnyModel) -> Config:
    """Load the configuration with which a run translates, without the settings that say how it was initialized.

    The next training does not inherit training.init_from, start_share and freeze, and what needs several directions.
    Raises CheckpointError if there is no run, or if it is still training, ConfigError if it has learned something else.
    """
    from nmt.runs.model import ModelRef

    model = ModelRef.of(model)
    run = model.path
    check_is_run(run)
    if lock_holder(RunDir(run).lock) is not None:
        raise CheckpointError(
            f"{run}: is still training; wait for its end, because a recipe translates all text with the same weights"
        )
    config = load_saved_config(RunDir(run).config)
    if not config.training.facts.translates:
        raise ConfigError(f"{run}: trained for {config.training.facts.name}, so it cannot translate")
    if config.data.has_language_tags or model.to is not None or model.source is not None:
        config = config.choose_languages(model.to, model.source)
    changes: dict[str, object] = {"init_from": None, "freeze": [], "start_share": 0.0}
    if config.training.consistency == "crossconst":
        changes["consistency"] = "none"  # it needs several directions
    training = config.training.model_copy(update=changes)
    train = [source.model_copy(update={"to": None}) for source in config.data.train]
    data = config.data.without_language_tags().model_copy(update={"train": train})
    return config.model_copy(update={"training": training, "data": data})


def _identity(run: Path) -> list[object]:
    """Return the step, kind and checksum of the selected weights."""
    from nmt.model.weights import weights_fingerprint
    from nmt.runs.model import open_saved

    selected = open_saved(run).weights
    return [selected.step, selected.kind, weights_fingerprint(selected.tensors)]
