"""Defaults and checks of command-line options that depend on files, such as the newest run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmt.config import Config
from nmt.config.load import Override, changed_search, key_of, load_saved_config
from nmt.config.messages import nearest
from nmt.console import say
from nmt.errors import CheckpointError, ConfigError
from nmt.layout import ExportDir, RunDir, not_usable
from nmt.runs.info import check_is_run
from nmt.runs.listing import newest_run
from nmt.search.settings import SearchConfig
from nmt.share.hub import local_model


def run_or_newest(run: Path | None, objectives: Sequence[str] = ("translation",)) -> Path:
    """Return `run`, or by default the newest run for one of these objectives (see `newest_run`), after printing its
    name to standard error.

    Raises CheckpointError if there is no run.
    """
    if run is None:
        run = newest_run(objectives)
        say(f"using {run}, the newest run that this command can use")
    return run


def check_runs(runs: Path | Sequence[Path] | None, overrides: Sequence[str] | None, beam: int | None) -> None:
    """Check --run, --set and --beam before a command imports PyTorch, because the import takes seconds.

    Raises CheckpointError if there is no such run, ConfigError if its configuration or a search setting is invalid.
    """
    searching = [override for override in overrides or () if override.startswith("search.")]
    if isinstance(runs, Path):
        runs = [runs]
    for run in runs or ():
        check_is_run(run)
        # other options of the command may choose the modes of the search
        changed_search(load_saved_config(RunDir(run).config), _given(beam=beam), searching, is_checked=False)


def resolve_models(
    runs: Sequence[Path], model: Path | None, objectives: Sequence[str] = ("translation",)
) -> tuple[Path, ...]:
    """Return the runs (--run) or the exported folder (--model), by default the newest run for one of the objectives.

    A model of the Hub, hf://OWNER/NAME, is downloaded. Raises ConfigError if a run is given twice,
    CheckpointError if there is no such folder, and the errors of `local_model`.
    """
    resolved: dict[Path, Path] = {}
    for run in runs:
        if (first := resolved.setdefault(run.resolve(), run)) is not run:
            raise ConfigError(f"--run {first} and --run {run} are the same run; an ensemble needs different runs")
    if model is None:
        return tuple(runs or [run_or_newest(None, objectives)])
    path = local_model(model)
    if not (ExportDir(path).info.is_file() or RunDir(path).config.is_file()):
        raise CheckpointError(not_usable(path, "not an exported model", "; make one with nmt export"))
    return (path,)


def search_settings(
    config: Config, beam: int | None, length_penalty: float | None, overrides: Sequence[Override] = ()
) -> SearchConfig:
    """Return a run's search settings, changed by the options and overrides of a command.

    Raises ConfigError.
    """
    problems = []
    for override in overrides:
        key = key_of(override)
        if not key.startswith("search."):
            advice = "" if "." in key else nearest(key)
            problems.append(f"--set {override}: only search.* settings can be changed here{advice}")
    if problems:
        raise ConfigError(*problems)
    return changed_search(config, _given(beam=beam, length_penalty=length_penalty), overrides)


def _given(**options: object) -> dict[str, object]:
    """Return the options that are given."""
    return {name: value for name, value in options.items() if value is not None}


def searching(**options: object) -> list[Override]:
    """Return the changes of search settings by the given options, which are named like the settings."""
    return [(f"search.{name}", value) for name, value in options.items() if value is not None]
