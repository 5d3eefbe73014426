"""Options shared by several commands, and shell completion of their values."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from nmt.config.messages import field_paths
from nmt.errors import ConfigError
from nmt.files.read import shipped
from nmt.spelling import did_you_mean, misspelt
from nmt.tables import Format

_Name = TypeVar("_Name", bound=str)


def option(name: str, text: str | None, metavar: str | None = None, **settings: Any) -> Any:
    """Return the declaration of an option with a help text. settings: further arguments of `typer.Option`."""
    return typer.Option(name, help=text, metavar=metavar, **settings)


def keys(typed: str) -> Iterator[str]:
    """Return completions of settings for --explain KEY."""
    return (path for path in field_paths() if "*" not in path and path.startswith(typed))


def settings(typed: str) -> Iterator[str]:
    """Return completions of settings for --set KEY=VALUE."""
    return (f"{key}=" for key in keys(typed))


def search_settings(typed: str) -> Iterator[str]:
    """Return completions of search settings for --set search.KEY=VALUE."""
    return (setting for setting in settings(typed) if setting.startswith("search."))


def search_keys(typed: str) -> Iterator[str]:
    """Return completions of search settings without the prefix `search.`, for --search KEY=VALUE."""
    return (setting.removeprefix("search.") for setting in search_settings(f"search.{typed}"))


def configs(typed: str) -> list[str]:
    """Return completions of configs in the working directory, in configs/ and among the shipped configs."""
    names = set()
    for folder in (Path(), Path("configs"), shipped("configs")):
        names |= {path.name for path in folder.glob("*.yaml")}
    return sorted(name for name in names if name.startswith(typed))


def runs(typed: str) -> list[str]:
    """Return completions of run directories in runs/ or in the directory typed so far."""
    from nmt.runs.listing import is_run

    parent = Path(typed) if typed.endswith("/") else Path(typed).parent
    folders = [parent]
    if parent == Path():
        folders.append(Path("runs"))
    paths = []
    try:
        for folder in folders:
            if folder.is_dir():
                paths += [str(path) for path in folder.iterdir() if is_run(path)]
    except OSError:
        return []
    return sorted(path for path in paths if path.startswith(typed))


def names_in(name: str, value: str | None, choices: Collection[_Name], kind: str) -> list[_Name]:
    """Return the choices that are in a comma-separated value of an option, in their usual order; none without a value.

    Raises ConfigError for another name.
    """
    given = [] if value is None else [*map(str.strip, value.split(","))]
    for word in given:
        if word not in choices:
            meant = did_you_mean(misspelt(word, choices)) or f"; choose from {', '.join(choices)}"
            raise ConfigError(f"{name} {value}: no such {kind}: {word!r}{meant}")
    return [choice for choice in choices if choice in given]


Weights = Literal["auto", "raw", "ema", "average"]
ConfigOption = Annotated[
    str,
    option("--config", "Config file: a path, a name in configs/, or a shipped config.", "FILE", autocompletion=configs),
]
SetOption = Annotated[
    list[str],
    option(
        "--set", "Change a setting, such as training.seed=2; may be repeated.", "KEY=VALUE", autocompletion=settings
    ),
]
LicenseOption = Annotated[
    str | None,
    option("--license", "Licence of the model for its card, as a Hub identifier such as cc-by-4.0.", "ID"),
]
DataOption = Annotated[Path | None, option("--data", "Data directory.  [default: the config's data.dir]", "DIR")]
RunOption = Annotated[
    Path | None,
    option("--run", "Run directory.  [default: the newest usable one in runs/]", "DIR", autocompletion=runs),
]
RunsOption = Annotated[
    list[Path],
    option(
        "--run",
        "Run directory; repeat for an ensemble.  [default: the newest usable one in runs/]",
        "DIR",
        autocompletion=runs,
    ),
]
ReverseOption = Annotated[
    Path,
    option("--reverse", "Run that translates from target to source.", "RUN", autocompletion=runs),
]
ModelOption = Annotated[
    Path | None,
    option("--model", "Exported directory or hf://OWNER/NAME, instead of a run.", "DIR"),
]
BeamOption = Annotated[
    int | None,
    option("--beam", "Beam size; 1 is greedy search.  [default: the config's]", "N", min=1),
]
PenaltyOption = Annotated[
    float | None,
    option("--length-penalty", "Exponent; higher favours longer output.  [default: the config's]", "A"),
]
ToOption = Annotated[
    str | None,
    option("--to", "Target language, for models with several.", "LANG"),
]
ViaOption = Annotated[
    str | None,
    option("--via", "Translate into this language first, then into the target language (pivot).", "LANG"),
]
FromOption = Annotated[
    str | None,
    option("--from", "Source language, for models with several.", "LANG"),
]
TagOption = Annotated[
    list[str],
    option("--tag", "Tag of the text, such as domain=help; may be repeated.", "NAME=VALUE"),
]
SearchOption = Annotated[
    list[str],
    option("--set", "Change a search setting; may be repeated.", "search.KEY=VALUE", autocompletion=search_settings),
]
LmOption = Annotated[
    Path | None,
    option(
        "--lm",
        "Language model whose scores are added at each step (search.lm).  [default: the config's]",
        "DIR",
        autocompletion=runs,
    ),
]
LmWeightOption = Annotated[
    float | None,
    option("--lm-weight", "Weight of --lm.  [default: the config's]", "W", min=0.0),
]
PrecisionOption = Annotated[
    Literal["auto", "float32", "bf16", "fp16"],
    option("--precision", "Precision of matrix products; auto: as in training, if fast on this device."),
]
CheckpointOption = Annotated[str, option("--checkpoint", "Checkpoint to use.", "best|last|STEP")]
WeightsOption = Annotated[
    Weights,
    option("--weights", "Weights as trained (raw), averaged (ema, average), or those that score best (auto)."),
]
RecipeOutput = Annotated[Path, option("--output", "Directory to write.", "DIR")]
TranslatingOption = Annotated[
    list[str],
    option(
        "--search",
        "Change a search setting of the translating run; may be repeated.",
        "KEY=VALUE",
        autocompletion=search_keys,
    ),
]
FollowOption = Annotated[bool, option("--train", "Also run the commands that follow: prepare, train, evaluate.")]
TasksOption = Annotated[
    Literal["local", "ray"],
    option("--engine", "Where to run: processes on this machine, or a Ray cluster (an extra)."),
]
WorkersOption = Annotated[int | None, option("--workers", "Number of processes.  [default: one per core]", "N", min=1)]
AddressOption = Annotated[
    str | None,
    option("--address", "Address of the Ray cluster.  [default: RAY_ADDRESS, or a local one]", "HOST:PORT"),
]
SourceOption = Annotated[Path | None, option("--src", "Or use these files: the source …", "F")]
ReferenceOption = Annotated[Path | None, option("--ref", "… and its references.", "F")]
SplitOption = Annotated[str | None, option("--split", "Split to translate.  [default: the only test set]", "NAME")]
RunDataOption = Annotated[Path | None, option("--data", "Data directory.  [default: the run's]", "DIR")]
LowercaseOption = Annotated[bool, option("--lowercase", "Ignore case, to compare with papers that do.")]
TokenizeOption = Annotated[str | None, option("--tokenize", "BLEU's tokenizer: 13a, intl, zh, char or none.", "NAME")]
FormatOption = Annotated[
    Format, option("--format", "Format of the table: latex needs booktabs; csv and json have all digits.")
]
MetricsOption = Annotated[
    str | None, option("--metrics", "Metrics: bleu, chrf, chrf++, ter.  [default: bleu,chrf,ter]", "A,B")
]
CometOption = Annotated[
    list[str],
    option("--comet", "Also score with this COMET model, such as Unbabel/wmt22-comet-da; may be repeated.", "MODEL"),
]
CometCommandOption = Annotated[
    str | None,
    option(
        "--comet-command", "Command that runs COMET, perhaps in another environment.  [default: comet-score]", "CMD"
    ),
]
LowerIsBetterOption = Annotated[
    list[str],
    option("--lower-is-better", "For the segment scores NAME, lower is better.", "NAME"),
]
