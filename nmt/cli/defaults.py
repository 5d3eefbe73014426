"""Defaults and checks of command-line options that depend on files, such as the newest run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from nmt.config import Config, SearchConfig
from nmt.config.load import adopting, keeping_split, load_config, load_saved_config, overridden
from nmt.config.messages import nearest
from nmt.console import say
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.layout import ExportDir, RunDir, not_usable
from nmt.runs.info import check_is_run, check_resumable, launch, read_info
from nmt.runs.listing import newest_run
from nmt.share.hub import local_model
from nmt.training.setup.lock import check_vacant


def run_or_newest(run: Path | None) -> Path:
    """Return `run`, or by default the newest run, after printing its name to standard error.

    Raises CheckpointError if there is no run.
    """
    if run is None:
        run = newest_run()
        say(f"using the newest run, {run}")
    return run


def check_runs(runs: Path | Sequence[Path] | None, overrides: Sequence[str] | None, beam: int | None) -> None:
    """Check --run, --set and --beam before a command imports PyTorch, because the import takes seconds.

    Raises CheckpointError if there is no such run, ConfigError if its configuration or a search setting is invalid.
    """
    searching = [override for override in overrides or () if override.startswith("search.")]
    for run in [runs] if isinstance(runs, Path) else runs or ():
        check_is_run(run)
        _searching(load_saved_config(RunDir(run).config), searching, {"beam": beam})


def resolve_models(runs: Sequence[Path] | None, model: Path | None) -> tuple[Path, ...]:
    """Return the runs (--run) or the exported folder (--model) to translate with, by default the newest run.

    A model of the Hub, hf://OWNER/NAME, is downloaded. Raises ConfigError if both options are given, or a run twice,
    CheckpointError if there is no such folder, and the errors of `local_model`.
    """
    if runs and model is not None:
        raise ConfigError("--run and --model cannot be combined")
    resolved: dict[Path, Path] = {}
    for run in runs or ():
        if (first := resolved.setdefault(run.resolve(), run)) is not run:
            raise ConfigError(f"--run {first} and --run {run} are the same run; an ensemble needs different runs")
    if model is None:
        return tuple(runs or [run_or_newest(None)])
    path = local_model(model)
    if not (ExportDir(path).info.is_file() or RunDir(path).config.is_file()):
        raise CheckpointError(not_usable(path, "not an exported model", "; make one with nmt export"))
    return (path,)


def resolve_training(
    config: str | None,
    data: Path | None,
    run: Path | None,
    overrides: Sequence[str],
    resume: bool,
    init_from: Sequence[str] = (),
) -> tuple[Config, Path, Path, bool]:
    """Return the configuration, data directory and run directory of `nmt train`, and whether to resume the run.

    A run is resumed on request, or if `torchrun` has restarted the processes that started it. It keeps its own
    configuration and, if it still exists, its own data directory; with `config`, it is the run named by the config.
    Raises ConfigError, CheckpointError or DataError.
    """
    if init_from:  # quoted, because YAML could read a path as another type
        overrides = [*overrides, f"training.init_from={json.dumps(_initial(init_from), ensure_ascii=False)}"]
    if config is None and resume:
        run = run_or_newest(run)
        if not RunDir(run).config.is_file():
            raise CheckpointError(f"{run}: no run to resume; leave out --resume to start a new one")
        check_resumable(read_info(RunDir(run)), run)  # before its config, which has no training text
        settings = load_config(RunDir(run).config, overrides)
    else:
        settings = load_config(config or "base.yaml", overrides)
    if not resume and isinstance(settings.training.init_from, str):
        settings = adopting(settings, Path(settings.training.init_from), "--init-from")
    run = run or settings.run_directory
    resume = resume or _is_restarted(RunDir(run))
    if data is None and resume and RunDir(run).info.is_file():
        recorded = Path(read_info(RunDir(run)).data_dir)
        data = recorded if recorded.is_dir() else None
        if data is None and not settings.data.directory.is_dir():
            raise DataError(f"{recorded}: the data directory of {run} does not exist; give its new path with --data")
    if not resume:
        check_vacant(RunDir(run))
    return settings, data or settings.data.directory, run, resume


def _is_restarted(run: RunDir) -> bool:
    """Return whether the run was started by earlier processes of the same torchrun launch."""
    return launch() is not None and run.info.is_file() and read_info(run).launch == launch()


def search_settings(
    config: Config, beam: int | None, length_penalty: float | None, overrides: Sequence[str] | None = None
) -> SearchConfig:
    """Return a run's search settings, changed by the options and overrides (`search.key=value`) of a command.

    Raises ConfigError.
    """
    overrides = overrides or ()
    others = [override for override in overrides if not override.startswith("search.")]
    if others:
        meant = ["" if "." in other.partition("=")[0] else nearest(other.partition("=")[0]) for other in others]
        start = "only search.* settings can be changed here"
        raise ConfigError(*[f"--set {other}: {start}{end}" for other, end in zip(others, meant, strict=True)])
    search = _searching(config, overrides, {"beam": beam, "length_penalty": length_penalty})
    if search.lm is None and any(override.startswith("search.lm_weight=") for override in overrides):
        raise ConfigError(
            "search.lm_weight: has no effect without a language model; give its run with --lm (search.lm)"
        )
    return search


def _searching(config: Config, overrides: Sequence[str], options: Mapping[str, object]) -> SearchConfig:
    """Return search settings changed by overrides, and by options, which precede overrides of the same setting."""
    given, tree = {name: value for name, value in options.items() if value is not None}, config.model_dump()
    tree["search"] |= given
    others = [each for each in overrides if each.partition("=")[0].removeprefix("search.") not in given]
    return keeping_split(config, overridden(tree, "command line", others)).search


def with_language_model(overrides: Sequence[str], lm: Path | None, weight: float | None) -> list[str]:
    """Return `overrides` of search settings with the values of --lm and --lm-weight added."""
    given = {"lm": lm and json.dumps(str(lm), ensure_ascii=False), "lm_weight": weight}
    return [*overrides, *(f"search.{name}={value}" for name, value in given.items() if value is not None)]


def _initial(given: Sequence[str]) -> str | dict[str, str]:
    """Return the value of `training.init_from` for the values of --init-from. Raises ConfigError."""
    by_stack = {stack: run for stack, is_one, run in (each.partition("=") for each in given)
                if is_one and stack in ("encoder", "decoder")}  # fmt: skip
    if len(by_stack) == len(given):
        return by_stack
    if len(given) > 1:
        raise ConfigError("--init-from: give one RUN, or encoder=RUN and decoder=RUN")
    return given[0]
