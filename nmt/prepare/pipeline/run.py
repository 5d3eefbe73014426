"""The stages one after the other: from the sources to the training text, and from it to the data directory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nmt.config import Config, DataConfig, Source
from nmt.data.manifest import ShardRecord
from nmt.errors import DataError
from nmt.layout import DataDir, TokenizerDir
from nmt.prepare.cleaning.counts import CleanReport, refuse_empty, total
from nmt.prepare.cleaning.lengths import Lengths
from nmt.prepare.languages import Place, Sample
from nmt.prepare.pairs import OpenSource, SentencePair
from nmt.prepare.pipeline.clean import clean_parts, write_held_out_lines
from nmt.prepare.pipeline.encode import EncodeSummary, encode_parts
from nmt.prepare.pipeline.group import group_parts
from nmt.prepare.pipeline.join import join_in_order, join_shards, link_files
from nmt.prepare.pipeline.judge import judge_parts
from nmt.prepare.pipeline.labels import read_labels
from nmt.prepare.pipeline.mono import CleanedMono
from nmt.prepare.pipeline.read import Part, training_parts
from nmt.prepare.pipeline.recall import Earlier, recall_parts
from nmt.prepare.pipeline.settle import settle_parts, split_off, write_split_off
from nmt.prepare.pipeline.vocabulary import learn_vocabulary
from nmt.prepare.pipeline.work import Work
from nmt.prepare.recipe import block_lists
from nmt.prepare.records import TextRecord, added
from nmt.tasks.task import Done
from nmt.text.labels import Labels
from nmt.text.tokenizer import Tokenizers


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
