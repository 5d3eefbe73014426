"""Options shared by several commands, and shell completion of their values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.config.load import shipped_configs
from nmt.config.messages import field_paths


def settings(typed: str) -> Iterator[str]:
    """Complete settings for --set KEY=VALUE."""
    return (f"{path}=" for path in field_paths() if "*" not in path and path.startswith(typed))


def search_settings(typed: str) -> Iterator[str]:
    """Complete search settings for --set search.KEY=VALUE."""
    return (setting for setting in settings(typed) if setting.startswith("search."))


def search_keys(typed: str) -> Iterator[str]:
    """Complete search settings without the prefix `search.`, for --search KEY=VALUE."""
    return (setting.removeprefix("search.") for setting in search_settings(f"search.{typed}"))


def configs(typed: str) -> list[str]:
    """Complete names of configs in the working directory, in configs/, and among the shipped ones."""
    folders = [Path(), Path("configs"), shipped_configs()]
    return sorted({path.name for folder in folders for path in folder.glob("*.yaml") if path.name.startswith(typed)})


def runs(typed: str) -> list[str]:
    """Complete run directories in runs/ or in the directory typed so far."""
    from nmt.runs.listing import is_run

    parent = Path(typed if typed.endswith("/") else Path(typed).parent)
    folders = [parent, *([Path("runs")] if parent == Path() else [])]
    try:
        paths = sorted(str(path) for folder in folders if folder.is_dir() for path in folder.iterdir() if is_run(path))
    except OSError:
        return []
    return [path for path in paths if path.startswith(typed)]


Weights = Literal["auto", "raw", "ema", "average"]
ConfigOption = Annotated[
    str,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Config file: a path, a name in configs/, or a shipped config.",
        autocompletion=configs,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting, such as training.seed=2; may be repeated.",
        autocompletion=settings,
    ),
]
LicenseOption = Annotated[
    str | None,
    typer.Option(
        "--license", metavar="ID", help="Licence of the model for its card, as a Hub identifier such as cc-by-4.0."
    ),
]
DataOption = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Data directory.  [default: the config's data.dir]")
]
RunOption = Annotated[
    Path | None,
    typer.Option("--run", metavar="DIR", help="Run directory.  [default: the newest in runs/]", autocompletion=runs),
]
RunsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--run",
        metavar="DIR",
        help="Run directory; repeat for an ensemble.  [default: the newest in runs/]",
        autocompletion=runs,
    ),
]
ReverseOption = Annotated[
    Path,
    typer.Option(
        "--reverse",
        metavar="RUN",
        help="Run that translates from target to source.",
        show_default=False,
        autocompletion=runs,
    ),
]
ModelOption = Annotated[
    Path | None,
    typer.Option("--model", metavar="DIR", help="Exported directory or hf://OWNER/NAME, instead of a run."),
]
BeamOption = Annotated[
    int | None,
    typer.Option("--beam", metavar="N", min=1, help="Beam size; 1 is greedy search.  [default: the config's]"),
]
PenaltyOption = Annotated[
    float | None,
    typer.Option(
        "--length-penalty", metavar="A", help="Exponent; higher favours longer output.  [default: the config's]"
    ),
]
SearchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="search.KEY=VALUE",
        help="Change a search setting; may be repeated.",
        autocompletion=search_settings,
    ),
]
LmOption = Annotated[
    Path | None,
    typer.Option(
        "--lm",
        metavar="DIR",
        help="Language model whose scores are added at each step (search.lm).  [default: the config's]",
        autocompletion=runs,
    ),
]
LmWeightOption = Annotated[
    float | None,
    typer.Option("--lm-weight", metavar="W", min=0.0, help="Weight of --lm.  [default: the config's]"),
]
PrecisionOption = Annotated[
    Literal["auto", "float32", "bf16", "fp16"],
    typer.Option("--precision", help="Precision of matrix products; auto: as in training, if fast on this device."),
]
CheckpointOption = Annotated[str, typer.Option("--checkpoint", metavar="best|last|STEP", help="Checkpoint to use.")]
WeightsOption = Annotated[
    Weights,
    typer.Option(
        "--weights", help="Weights as trained (raw), averaged (ema, average), or those that score best (auto)."
    ),
]
RecipeOutput = Annotated[Path, typer.Option("--output", metavar="DIR", help="Directory to write.", show_default=False)]
TranslatingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--search",
        metavar="KEY=VALUE",
        help="Change a search setting of the translating run; may be repeated.",
        autocompletion=search_keys,
    ),
]
FollowOption = Annotated[
    bool, typer.Option("--train", help="Also run the commands that follow: prepare, train, evaluate.")
]
TasksOption = Annotated[
    Literal["local", "ray"],
    typer.Option("--engine", help="Where to run: processes on this machine, or a Ray cluster (an extra)."),
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", metavar="N", min=1, help="Number of processes.  [default: one per core]")
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="HOST:PORT", help="Address of the Ray cluster.  [default: RAY_ADDRESS, or a local one]"
    ),
]
SplitOption = Annotated[
    str | None, typer.Option("--split", metavar="NAME", help="Split to translate.  [default: the only test set]")
]
RunDataOption = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Data directory.  [default: that of the run]")
]
LowercaseOption = Annotated[bool, typer.Option("--lowercase", help="Ignore case, to compare with papers that do.")]
TokenizeOption = Annotated[
    str | None, typer.Option("--tokenize", metavar="NAME", help="BLEU's tokenizer: 13a, intl, zh, char or none.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
CometOption = Annotated[
    list[str] | None,
    typer.Option(
        "--comet",
        metavar="MODEL",
        help="Also score with this COMET model, such as Unbabel/wmt22-comet-da; may be repeated.",
    ),
]
CometCommandOption = Annotated[
    str | None,
    typer.Option(
        "--comet-command",
        metavar="CMD",
        help="Command that runs COMET, perhaps in another environment.  [default: comet-score]",
    ),
]
LowerIsBetterOption = Annotated[
    list[str] | None,
    typer.Option("--lower-is-better", metavar="NAME", help="For the segment scores NAME, lower is better."),
]
