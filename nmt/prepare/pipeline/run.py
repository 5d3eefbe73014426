"""The stages one after the other: from the sources to the training text, and from it to the data directory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from pydantic import BaseModel

from nmt.config import Config, DataConfig, Source, TokenizerConfig
from nmt.config.data import LABEL
from nmt.console import Progress
from nmt.data.corpus import ShardRecord
from nmt.errors import DataError
from nmt.layout import MONO, DataDir, TokenizerDir
from nmt.prepare.cleaning.counts import CleanReport, Lengths, refuse_empty, total
from nmt.prepare.pairs import OpenSource, SentencePair
from nmt.prepare.pipeline.clean import clean_parts, group_parts, judge_parts, write_held_out_lines
from nmt.prepare.pipeline.encode import EncodeSummary, encode_parts, join_in_order, join_shards, link_files
from nmt.prepare.pipeline.mono import CleanedMono, mono_folder, read_cleaned
from nmt.prepare.pipeline.read import Part, training_parts
from nmt.prepare.pipeline.settle import Earlier, read_labels, recall_parts, settle_parts, split_off, write_split_off
from nmt.prepare.pipeline.work import Work, part_folder, read_side
from nmt.prepare.recipe import block_lists
from nmt.prepare.records import TextRecord, added
from nmt.prepare.suspicions import Place, Sample
from nmt.tasks.perform import Done, Json, Task
from nmt.text.labels import Labels
from nmt.text.tokenizer import Tokenizer, Tokenizers, train_tokenizer

_MOST_LINES = 2_000_000  # SentencePiece holds its training text in memory, and a vocabulary needs no more


class _Arguments(BaseModel):
    config: TokenizerConfig
    languages: tuple[str, str]
    work: str
    counts: list[int]
    """The number of pairs of each part."""
    mono: dict[str, int]
    """The number of lines of monolingual text, by language."""
    labels: list[str] | None = None


def learn_vocabulary(
    work: Work,
    config: TokenizerConfig,
    languages: tuple[str, str],
    counts: Sequence[int],
    mono: Mapping[str, int],
    labels: Labels | None = None,
) -> Tokenizers:
    """Learn the vocabulary or vocabularies from the text of all parts, and from `mono` lines of monolingual text, by
    language. `labels`: those of the text, if one of the `languages` stands for them."""
    arguments = _Arguments(
        config=config, languages=languages, work=str(work.folder), counts=list(counts), mono=dict(mono),
        labels=None if labels is None else labels.names,
    )  # fmt: skip
    version = work.version("settle", *([MONO] if mono else []))
    task = Task("tokenizer/00000", learn, arguments.model_dump(mode="json", exclude_none=True), version)
    with Progress("learning a vocabulary") as progress:
        names = " and ".join(language for language in languages if language != LABEL)
        progress.say(f"learning a vocabulary for {names} …")  # SentencePiece reports no progress
        done = work.stage("tokenizer", "", [task], lambda _done: 0)[0]
    return Tokenizers.load(TokenizerDir(done.folder), languages)


def learn(folder: Path, arguments: Json) -> Json:
    """Learn and write the vocabulary or vocabularies."""
    task = _Arguments.model_validate(arguments)

    def train(*sides: int) -> Tokenizer:
        lines = chain.from_iterable(_lines(task, side) for side in sides)
        n_lines = sum(sum(task.counts) + task.mono.get(task.languages[side], 0) for side in sides)
        stride = -(-n_lines // _MOST_LINES)
        return train_tokenizer(islice(lines, 0, None, stride), task.config.vocab_size, _alphabet(task, sides))

    sides = {language: side for side, language in enumerate(task.languages) if language != LABEL}
    labels = None if task.labels is None else Labels(task.labels)
    if task.config.joint:
        tokenizers = Tokenizers(dict.fromkeys(sides, train(*sides.values())), True, labels)
    else:
        tokenizers = Tokenizers({language: train(side) for language, side in sides.items()}, False, labels)
    tokenizers.save(TokenizerDir(folder))
    return {"fingerprint": tokenizers.fingerprint}


def _lines(task: _Arguments, side: int) -> Iterator[str]:
    for part in range(len(task.counts)):
        yield from read_side(part_folder(task.work, "settle", part), side)
    if (language := task.languages[side]) in task.mono:
        yield from read_cleaned(mono_folder(task.work, language))


def _alphabet(task: _Arguments, sides: Sequence[int]) -> Counter[str]:
    alphabet = Counter[str]()
    folders = [part_folder(task.work, "settle", part) for part in range(len(task.counts))]
    paths = [folder / f"characters.{side}.json" for folder in folders for side in sides]
    languages = [task.languages[side] for side in sides if task.languages[side] in task.mono]
    for path in [*paths, *(mono_folder(task.work, language) / "characters.json" for language in languages)]:
        alphabet.update(json.loads(path.read_bytes()))
    return alphabet


@dataclass(frozen=True)
class TrainingText:
    """The cleaned training text, in parts."""

    parts: list[Part]
    settled: list[Done]
    reports: list[CleanReport]
    """By source."""
    skipped: list[dict[str, int]]
    """Units that are no pair, by source and reason."""
    split_off: list[SentencePair] | None
    """The development set, if it was split off."""
    n_offered: int
    """Pairs before it was."""
    warnings: list[str]
    labels: Labels | None = None
    """Those of the text, if it has labels in place of translations."""

    def samples(self) -> dict[str, Sample]:
        """Return a sample of each source, by its key."""
        samples: dict[str, Sample] = {}
        for part, done in zip(self.parts, self.settled, strict=True):
            sample = samples.setdefault(part.key, Sample())
            for (src, tgt), place in zip(*json.loads((done.folder / "samples.json").read_bytes()), strict=True):
                sample.add(src, tgt, Place(*place))
        return samples


@dataclass(frozen=True)
class EncodedText:
    """The training text as files of a data directory."""

    files: list[Done]
    pairs: int
    reports: list[CleanReport]
    """By source: counts from reading to encoding."""
    text: dict[str, TextRecord]
    """By language."""
    shards: list[ShardRecord] | None
    classes: Counter[str]
    """Number of pairs by label; empty if there are none."""

    def put_into(self, directory: DataDir) -> None:
        """Put the files into a data directory."""
        link_files(self.files, directory.path)


def settle_text(
    work: Work,
    config: DataConfig,
    sources: Mapping[str, OpenSource],
    held_out: Sequence[SentencePair],
    earlier: Earlier | None = None,
) -> TrainingText:
    """Read and clean training corpora, given by key. `earlier`: what they are added to.

    Raises DataError, also if nothing is left.
    """
    try:
        return _settle_text(work, config, sources, held_out, earlier)
    except DataError:
        if not work.do_again():
            raise
    return _settle_text(work, config, sources, held_out, earlier)


def _settle_text(
    work: Work,
    config: DataConfig,
    sources: Mapping[str, OpenSource],
    held_out: Sequence[SentencePair],
    earlier: Earlier | None,
) -> TrainingText:
    parts, skipped, read = training_parts(work, config, sources)
    text = settle_read(work, config, parts, skipped, held_out, earlier)
    work.remove("read", read)
    return text


def settle_read(
    work: Work,
    config: DataConfig,
    parts: list[Part],
    skipped: list[dict[str, int]],
    held_out: Sequence[SentencePair],
    earlier: Earlier | None = None,
) -> TrainingText:
    """Clean training corpora that have been read into parts; `skipped`: see `TrainingText`. Raises DataError."""
    folder = write_held_out_lines(work, held_out)
    work.versions["block lists"] = json.dumps(block_lists(config))
    cleaned = clean_parts(work, config, parts, folder)
    recalled = recall_parts(work, config, earlier, len(parts)) if earlier is not None else []
    drops, warnings = judge_parts(work, config, parts, cleaned, group_parts(work, config, [*cleaned, *recalled]))
    chosen, n_offered = None, 0
    if isinstance(config.valid, Source):
        pass
    elif earlier is not None:
        chosen = write_split_off(work, earlier.valid)
    else:
        chosen, n_offered = split_off(work, cleaned, drops, config.valid)
    settled = settle_parts(work, cleaned, drops, chosen is not None, config.label_side)
    reports = _by_source(config, parts, [CleanReport.from_json(done.summary) for done in settled])
    refuse_empty(total(reports))
    labels, conflicts = read_labels(work.folder, config, len(settled)) or (None, [])
    work.remove("clean", cleaned)
    return TrainingText(parts, settled, reports, skipped, chosen, n_offered, warnings + conflicts, labels)


def make_vocabulary(
    work: Work,
    config: Config,
    text: TrainingText,
    reused: Tokenizers | None,
    mono: Mapping[str, CleanedMono],
) -> Tokenizers:
    """Learn the vocabulary from the training and the monolingual text, unless one is given; write it for the next
    stage. Labels are those of the training text in either case."""
    if reused is None:
        counts = [CleanReport.from_json(done.summary).kept for done in text.settled]
        n_mono = {language: each.lines for language, each in mono.items()}
        return learn_vocabulary(work, config.tokenizer, config.data.languages, counts, n_mono, text.labels)
    reused = replace(reused, labels=text.labels)
    work.versions["tokenizer"] = reused.fingerprint
    reused.save(_vocabulary(work))
    return reused


def encode_text(work: Work, config: DataConfig, text: TrainingText, is_added: bool = False) -> EncodedText:
    """Encode the training text and divide it into shards if it is large, or is added to shards.

    Raises DataError if nothing is left.
    """
    repeats = [source.repeat for source in config.train]
    n_pairs = sum(report.kept * repeat for report, repeat in zip(text.reports, repeats, strict=True))
    is_large = is_added or n_pairs > work.sizes.shard_pairs
    encoded = encode_parts(work, config, text.parts, _vocabulary(work), is_large, n_pairs)
    summaries = [EncodeSummary.model_validate(done.summary) for done in encoded]
    reports = [CleanReport.from_json(report.to_json()) for report in text.reports]  # a copy
    for report, more in zip(reports, _by_source(config, text.parts, [each.report for each in summaries]), strict=True):
        report.kept_lengths, report.kept_samples = Lengths(), []  # those of encoding are without what that drops
        report.add(more)
    refuse_empty(total(reports))
    shards = None
    if is_large:
        files, shards = join_shards(work, config.languages, text.parts, encoded)
    else:
        files = join_in_order(work, config.languages, encoded)
    counts = {language: added(each.text[language] for each in summaries) for language in config.text_languages}
    classes = sum((Counter(each.classes) for each in summaries), Counter[str]())
    n = sum(report.kept * repeat for report, repeat in zip(reports, repeats, strict=True))
    return EncodedText(files, n, reports, counts, shards, classes)


def _vocabulary(work: Work) -> TokenizerDir:
    return TokenizerDir(work.folder / "tokenizer" / "00000")


def _by_source(config: DataConfig, parts: Sequence[Part], reports: Sequence[CleanReport]) -> list[CleanReport]:
    """Add up the reports of the parts of each source."""
    totals = {f"train.{i}": CleanReport() for i in range(len(config.train))}
    for part, report in zip(parts, reports, strict=True):
        totals[part.key].add(report)
    return list(totals.values())
