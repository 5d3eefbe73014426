"""What a command takes when an option is left out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from nmt.config import Config, SearchConfig
from nmt.config.load import changed_config, check_config, load_config
from nmt.console import say
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.layout import RunDir
from nmt.runs.info import launch, read_info
from nmt.runs.listing import newest_run


def run_or_newest(run: Path | None) -> Path:
    """`run`, by default the newest one, which is named on standard error. Raises CheckpointError if there is none."""
    if run is None:
        run = newest_run()
        say(f"using the newest run, {run}")
    return run


def what_translates(runs: Sequence[Path] | None, model: Path | None) -> list[Path]:
    """The runs (--run) or the exported folder (--model) to translate with, by default the newest run. Raises
    ConfigError if both are given, or a run twice."""
    if runs and model is not None:
        raise ConfigError(["--run and --model: give one of them"])
    seen: dict[Path, Path] = {}
    for run in runs or ():
        if (first := seen.setdefault(run.resolve(), run)) is not run:
            raise ConfigError([f"--run {first} and --run {run} are one run, and no ensemble: name it once"])
    return [model] if model is not None else list(runs or [run_or_newest(None)])


def what_to_train(
    config: str | None,
    data: Path | None,
    run: Path | None,
    overrides: Sequence[str],
    resume: bool,
    init_from: Path | None = None,
) -> tuple[Config, Path, Path, bool]:
    """Configuration, data directory and run directory of `nmt train`, and whether the run goes on: if that was asked
    for, or if `torchrun` has restarted the processes that began it.

    A resumed run goes on with its own configuration and, if it is still there, its own data directory; with `config`
    the run is the one that it names. `init_from` is `training.init_from`. Raises ConfigError, CheckpointError or
    DataError.
    """
    if init_from is not None:  # in quotes, for a path may look like something else than text
        overrides = [*overrides, f"training.init_from={json.dumps(str(init_from), ensure_ascii=False)}"]
    if config is None and resume:
        run = run_or_newest(run)
        if not RunDir(run).config.is_file():
            raise CheckpointError(f"{run}: no run here to resume; without --resume a new one starts")
        settings = load_config(RunDir(run).config, overrides)
    else:
        settings = load_config(config or "base.yaml", overrides)
    run = run or settings.run_directory
    resume = resume or _was_begun(RunDir(run))
    if data is None and resume and RunDir(run).info.is_file():
        recorded = Path(read_info(RunDir(run)).data_dir)
        data = recorded if recorded.is_dir() else None
        if data is None and not settings.data.directory.is_dir():
            raise DataError(f"{recorded}: no such data directory, {run} was trained on it; name it with --data")
    return settings, data or settings.data.directory, run, resume


def _was_begun(run: RunDir) -> bool:
    """Whether earlier processes of this same call of `torchrun` have made the run."""
    return launch() is not None and run.info.is_file() and read_info(run).launch == launch()


def search_settings(
    config: Config, beam: int | None, length_penalty: float | None, overrides: Sequence[str] = ()
) -> SearchConfig:
    """A run's search settings with those of the command line; `overrides` are `search.key=value`.

    Raises ConfigError.
    """
    others = [override for override in overrides if not override.startswith("search.")]
    if others:
        raise ConfigError([f"--set {other}: only search. settings can be changed here" for other in others])
    options = {"beam": beam, "length_penalty": length_penalty}
    changed = changed_config(config, overrides).model_dump()
    changed["search"] |= {name: value for name, value in options.items() if value is not None}
    return check_config(changed, "command line").search
