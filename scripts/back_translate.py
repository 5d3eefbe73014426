"""Back-translation (Sennrich et al., 2016): text in the target language alone becomes training pairs.

A run of the other direction translates monolingual target text; the model that follows learns to translate these
translations into what people wrote, beside the authentic pairs.

    nmt train --config mine.yaml --set data.direction=en-de
    python scripts/back_translate.py --reverse runs/mine-en-de --mono news.en --output data/back/news --config mine.yaml

--how sample, the default, draws each translation at random from the run: more varied sources teach more (Edunov et al.,
2018). That holds where the reverse run is good. With little authentic text samples have too many errors, and beam or
greedy search is better; greedy is the faster of the two.

Line n of the synthetic source belongs to line n of the text. Not translated, but blank and counted, are lines that
are blank, too long (data.max_chars), with control characters, or in a development or test set; a translation that is
in one is left out, too. Where the development set was split off the training text (a number in data.valid), the
authentic pairs are those of the prepared text, which shares no side with it. Translations that nmt
prepare will drop (length ratio, copies …) are counted, too; duplicates only it can find. An authentic pair and a
synthetic one weigh the same: take as many lines (head -n, shuf -n) as suits the authentic text, at first as many as
there are pairs, or of more lines give the authentic text the same weight by --upsample (data.train.N.repeat).

DIR gets the translations, a config with all corpora and the counts; the commands that follow are printed, or run with
--run. It may be stopped at any moment: the same command goes on with the chunk of 4,096 lines it was at, and does
nothing where all is done.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.cli.exits import errors_for_people
from nmt.config import Config, DataConfig, SearchConfig, Source
from nmt.config.load import changed_config, load_config
from nmt.console import say
from nmt.data.corpus import read_manifest
from nmt.errors import ConfigError, DataError
from nmt.files.read import checksum
from nmt.layout import DataDir
from nmt.prepare.checks import unlike
from nmt.prepare.clean import REASONS, Cleaner
from nmt.prepare.pairs import SentencePair
from nmt.prepare.sources import open_source
from nmt.text.lines import read_aligned, read_lines
from recipe import Recipe, config_of, data_of, follow, next_config, rooted, settings_of

if TYPE_CHECKING:
    from nmt.translate.translator import Translator

UNFINISHED = "without a finished translation that is in no dev or test set"
HOW = {"sample": ["sample=true"], "beam": ["sample=false"], "greedy": ["sample=false", "beam=1"]}


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = found.add_argument
    add("--reverse", type=Path, required=True, metavar="RUN", help="run that translates from target to source")
    add("--mono", type=Path, required=True, metavar="FILE", help="target text, a sentence a line; .gz is decompressed")
    add("--output", type=Path, required=True, metavar="DIR", help="folder to write")
    add("--how", choices=tuple(HOW), default="sample", help="see above (default: sample)")
    add("--search", action="append", default=[], metavar="KEY=VALUE", help="another search setting of the reverse run")
    add("--config", metavar="FILE", help="config of the authentic corpora (default: the reverse run's, turned round)")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the training that follows")
    add("--upsample", type=int, default=1, metavar="N", help="authentic pairs stand N times in the training text")
    add("--run", action="store_true", help="run the commands that follow")
    return found


class Rules:
    """Which lines are worth translating, and which pairs `nmt prepare` will take."""

    def __init__(self, data: DataConfig, held_out: Collection[str], held_out_sources: Collection[str] = ()) -> None:
        """`held_out`, `held_out_sources`: the target and the source lines of the development and test sets."""
        self._data = data
        self._held_out_sources = {line.strip() for line in held_out_sources}
        self._held_out = {line.strip() for line in held_out}
        self.held_out = sha256("\n".join(sorted(self._held_out)).encode()).hexdigest()
        """Their checksum."""

    def of_line(self, line: str) -> str | None:
        """Why a line of the text is not translated; None if it is."""
        if not line.strip():
            return "not translated: blank"
        if line.strip() in self._held_out:
            return f"not translated: {REASONS['overlap']}"
        reason = self._reason(line, line)  # "copied" if nothing else is wrong
        return f"not translated: {REASONS[reason]}" if reason is not None and reason != "copied" else None

    def may_be_source(self, translation: str) -> bool:
        """Whether a translation is in no development or test set."""
        return translation.strip() not in self._held_out_sources

    def of_pair(self, translation: str, line: str) -> str | None:
        """Why a pair will not be learned from; None if it will be, unless it is a duplicate or has too many pieces."""
        if (why := self.of_line(line)) is not None:
            return why
        if not translation.strip():
            return UNFINISHED
        reason = self._reason(translation, line)
        return None if reason is None else f"nmt prepare will drop: {REASONS[reason]}"

    def _reason(self, src: str, tgt: str) -> str | None:
        cleaner = Cleaner(self._data, (), ())  # a new one for each, since it remembers all pairs
        cleaner.clean(SentencePair(src, tgt, ""))
        return next(iter(cleaner.report.dropped), None)


def back_translate(options: argparse.Namespace) -> int:
    """Do it; the exit status."""
    reverse = config_of(options.reverse)
    config = _forward(options.reverse, reverse, options.config)
    src, tgt = config.data.src, config.data.tgt
    rules = Rules(config.data, *_held_out(config.data))
    search = _search(reverse, options)
    if not options.mono.exists():
        raise DataError(f"{options.mono}: no such file")
    n_lines = sum(1 for _ in read_lines(options.mono))  # which also finds what is no text before hours have passed
    if n_lines == 0:
        raise DataError(f"{options.mono}: is empty")
    asked: dict[str, Any] = {
        "recipe": "back_translate",
        "text": checksum(options.mono),
        "max_chars": config.data.max_chars,
        "dev_and_test_lines": rules.held_out,
        **settings_of([options.reverse], search),
    }
    recipe = Recipe(options.output, asked, [options.reverse])

    def translate(translator: Translator, lines: Sequence[str], first: int) -> Iterator[str]:
        wanted = ["" if rules.of_line(line) else line for line in lines]
        for best, *_ in translator.translate_window(wanted, search, 1, first):
            yield best.text if best.finished and rules.may_be_source(best.text) else ""

    def count(path: Path) -> dict[str, int]:
        counts = {"lines": 0, "pairs": 0}
        for translation, line in read_aligned(path, options.mono):
            what = rules.of_pair(translation, line) or "pairs"
            counts["lines"] += 1
            counts[what] = counts.get(what, 0) + 1
        return counts

    name = f"synthetic.{src}"
    files = {src: str(recipe.folder / name), tgt: str(options.mono)}
    authentic = [source.model_copy(update={"repeat": source.repeat * options.upsample}) for source in config.data.train]
    corpora = [*authentic, Source(files=files, name=f"{options.mono.name}, back-translated")]
    run_dir = f"runs/back-{recipe.folder.name}-{{direction}}"
    following = next_config(config, recipe, corpora, run_dir, options.set)
    counts = recipe.make(name, read_lines(options.mono), n_lines, translate, count)
    return follow(recipe, counts, following, options.run)


def _forward(run: Path, reverse: Config, name: str | None) -> Config:
    """The config of the authentic corpora, in the other direction than `reverse`. Raises ConfigError or DataError."""
    direction = f"{reverse.data.tgt}-{reverse.data.src}"
    config = load_config(name) if name else changed_config(reverse, [f"data.direction={direction}"])
    if config.data.direction != direction:
        raise ConfigError(
            [f"{name}: data.direction is {config.data.direction}; what follows a {reverse.data.direction} run is "
             f"{direction}"]
        )  # fmt: skip
    if not isinstance(config.data.valid, Source) and len({source.repeat for source in config.data.train}) > 1:
        raise ConfigError(
            [f"{name or run}: corpora repeat differently (data.train.N.repeat), but the prepared text, off which the "
             "development set was split, does not tell them apart; repeat all alike, or name files in data.valid"]
        )  # fmt: skip
    directory = DataDir(config.data.directory if name else data_of(run))
    found = rooted(config, directory.path)
    if not isinstance(config.data.valid, Source) and (why := unlike(directory, read_manifest(directory), config)):
        say(f"warning: {why}")
    return found


def _held_out(data: DataConfig) -> tuple[list[str], list[str]]:
    """The target lines of the development and test sets, and the source lines. Raises DataError or HubError."""
    lines: dict[str, list[str]] = {language: [] for language in data.languages}
    for source in (source for key, source in data.sources() if not key.startswith("train.")):
        for pair in open_source(source, data.languages, Path(data.root)).pairs():
            for language, line in zip(data.languages, pair, strict=False):  # a pair also names its corpus
                lines[language].append(line)
    return lines[data.tgt], lines[data.src]


def _search(reverse: Config, options: argparse.Namespace) -> SearchConfig:
    """Of the reverse run. Raises ConfigError."""
    from nmt.cli.defaults import search_settings
    from nmt.translate.types import check_search

    settings = [*HOW[options.how], *options.search]
    search = search_settings(reverse, None, None, [f"search.{setting}" for setting in settings])
    check_search(search, 1)
    return search


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options and do it."""
    options = parser().parse_args(arguments)
    with errors_for_people():
        return back_translate(options)


if __name__ == "__main__":
    sys.exit(main())
