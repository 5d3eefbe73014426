"""Back-translation (Sennrich et al., 2016), which turns monolingual target text into training pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from nmt.chat.dry_run import is_dry_run
from nmt.config import Config
from nmt.config.load import Override, changed_config, load_config
from nmt.console import Progress, say
from nmt.data.settings import DataConfig
from nmt.data.sources import AnyTrainSource, TrainFiles
from nmt.errors import ConfigError
from nmt.files.read import checksum
from nmt.layout import DataDir, RunDir
from nmt.prepare.cleaning.cleaner import LineCleaner
from nmt.prepare.cleaning.counts import REASONS
from nmt.prepare.cleaning.settings import CleanConfig
from nmt.prepare.recipe import unlike
from nmt.prepare.sources import open_source
from nmt.recipes.directory import (
    RecipeDir,
    count_lines,
    follow,
    is_of_text,
    next_config,
    rooted,
)
from nmt.recipes.teachers import Teacher
from nmt.text.lines import read_aligned, read_lines

UNFINISHED = "left blank: no finished translation outside the development and test sets (nmt prepare drops them)"
SEARCHES: dict[str, list[Override]] = {
    "sample": [("search.sample", True)],
    "beam": [("search.sample", False)],
    "greedy": [("search.sample", False), ("search.beam", 1)],
}
"""Search settings for each value of `--how`."""


@dataclass(frozen=True)
class BackTranslation:
    """The options of `nmt back-translate`."""

    reverse: Teacher
    """The teacher that translates from target to source."""
    reverse_config: Config | None
    """The configuration of the reverse run, if it is one."""
    mono: Path
    """Text in the target language, one sentence per line."""
    output: Path
    config: str | None
    """Config of the authentic corpora; by default the reverse run's, in the opposite direction."""
    overrides: Sequence[str]
    """Changes to the config of the next run, `section.key=value`."""
    upsample: int
    """Number of times that authentic pairs are repeated in the training text, or factor of their weights."""
    run_commands: bool
    """Whether to run the commands that follow."""


def back_translate(request: BackTranslation) -> int:
    """Translate monolingual target text, and write the config of the next run.

    Return the exit status of the first following command that fails, else 0. Raises ConfigError, DataError, HubError or
    CheckpointError before anything is written.
    """
    run = None if request.reverse_config is None else Path(request.reverse.name)
    of_text = [override for override in request.overrides if is_of_text(override)]
    overrides = [override for override in request.overrides if not is_of_text(override)]
    original, config = _forward(request, of_text)
    rules = LineRules(config.data, *_held_out(config.data))
    n_lines = count_lines(request.mono)
    if is_dry_run(request.reverse, ("" if rules.skip_reason(line) else line for line in read_lines(request.mono))):
        return 0
    recipe = RecipeDir(request.output, _settings(request, config.data, rules), request.reverse)

    def translate(lines: Sequence[str], first: int, progress: Progress) -> Iterator[str]:
        kept = ["" if rules.skip_reason(line) else line for line in lines]
        for texts in request.reverse.translations(kept, first, progress):
            yield next((text for text in texts if text.strip() not in rules.held_out_sources), "")

    def count(path: Path) -> dict[str, int]:
        counts = {"lines": 0, "pairs": 0}
        for translation, line in read_aligned(path, request.mono):
            kind = rules.skip_reason(line)
            if kind is None:
                kind = "pairs" if translation.strip() else request.reverse.reason(line) or UNFINISHED
            counts["lines"] += 1
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    src, tgt = config.data.sides
    name = f"synthetic.{src}"
    files = {src: str(recipe.path / name), tgt: str(request.mono)}
    synthetic = TrainFiles(
        files=files,
        name=f"{request.mono.name}, back-translated",
        to=tgt,
        license=request.reverse.license,
        # half of the examples; the authentic corpora have weights whose scale is the user's
        weight=math.fsum(source.weight or 0 for source in config.data.train) or None,
    )
    corpora = [*(_upsampled(source, request.upsample) for source in config.data.train), synthetic]
    run_dir = f"runs/back-{recipe.path.name}-{{direction}}"
    following = next_config(config, original, recipe, corpora, run_dir, overrides)
    if (weight := following.data.train[-1].weight) is not None:
        say(f"{synthetic.label}: data.train.{len(corpora) - 1}.weight is {weight:g}, which --set can change")
    counts = recipe.write(name, read_lines(request.mono), n_lines, translate, count)
    tokenizer_from = run
    if run is not None and RunDir(run).tokenizer.imported.exists():  # it serves only the other direction
        start = following.training.init_from
        tokenizer_from = Path(start) if isinstance(start, str) else None
    return follow(recipe, counts, following, tokenizer_from, run_commands=request.run_commands)


def _upsampled(source: AnyTrainSource, factor: int) -> AnyTrainSource:
    """Return a corpus whose pairs are learned `factor` times as often; one with a weight cannot be repeated."""
    if source.weight is None:
        return source.model_copy(update={"repeat": source.repeat * factor})
    return source.model_copy(update={"weight": source.weight * factor})


class LineRules:
    """Rules that decide which lines are translated, and which translations are kept."""

    def __init__(self, data: DataConfig, held_out: Sequence[str], held_out_sources: Iterable[str] = ()) -> None:
        """Set up the rules.

        `held_out` and `held_out_sources` are the target and the source lines of the development and test sets.
        """
        self._cleaner = LineCleaner(data.model_copy(update={"clean": CleanConfig()}), data.tgt, held_out)
        self.held_out_sources = {line.strip() for line in held_out_sources}
        lines = sorted({line.strip() for line in held_out})
        self.held_out = sha256("\n".join(lines).encode()).hexdigest()
        """Checksum of the target lines of the development and test sets."""

    def skip_reason(self, line: str) -> str | None:
        """Return the reason why a line of the text is not translated; None if it is translated."""
        reason = self._cleaner.reason(line.strip())
        return reason and f"not translated: {REASONS[reason]}"


def _settings(request: BackTranslation, data: DataConfig, rules: LineRules) -> dict[str, object]:
    return {
        "recipe": "back_translate",
        "text": checksum(request.mono),
        "max_chars": data.max_chars,
        "dev_and_test_lines": rules.held_out,
    }


def _forward(request: BackTranslation, overrides: Sequence[str]) -> tuple[Config, Config]:
    """Return the config of the authentic corpora, in the direction opposite to the reverse run's; as it is, and
    `rooted`.

    overrides: changes to the config of the request, or to the run's. Raises ConfigError or DataError.
    """
    run = request.reverse.name
    name = request.config
    reverse = request.reverse_config
    direction = "" if reverse is None else f"{reverse.data.tgt}-{reverse.data.src}"
    if name:
        config = load_config(name, overrides)
    else:
        assert reverse is not None, "a language model needs --config"
        config = changed_config(reverse, [f"data.direction={direction}", *overrides])
    if reverse is not None and config.data.direction != direction:
        raise ConfigError(
            f"{name or '--set'}: data.direction is {config.data.direction}, but --reverse {run} translates "
            f"{reverse.data.direction}; set data.direction to {direction}"
        )
    if config.data.drawn and len({source.repeat for source in config.data.train}) > 1:
        raise ConfigError(
            f"{name or run}: data.train.N.repeat differs between the corpora, but the development set was split "
            "off the prepared text, a single corpus; use the same repeat for all, or set data.valid to files"
        )
    directory = DataDir(config.data.directory)
    if reverse is not None and not name:
        directory = DataDir(request.reverse.data_directory(reverse.data, "the text with --config"))
    result = rooted(config, directory.path)
    if config.data.drawn and (line := unlike(directory, config)):
        say(f"warning: {line}")
    return config, result


def _held_out(data: DataConfig) -> tuple[list[str], list[str]]:
    """Read the target and the source lines of the development and test sets. Raises DataError or HubError."""
    lines: dict[str, list[str]] = {language: [] for language in data.pair}
    for key, source in data.sources():
        if key in data.train_sources:
            continue
        for pair in open_source(source, data.pair, Path(data.root)).pairs():
            for language, line in zip(data.pair, (pair.src, pair.tgt), strict=True):
                lines[language].append(line)
    return lines[data.tgt], lines[data.src]
