"""Adding corpora to a data directory, for `nmt prepare --append`. Existing shards stay unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from nmt.config import Config
from nmt.console import show
from nmt.data.corpus import Corpus, read_pairs_manifest
from nmt.errors import DataError
from nmt.files.document import read_document
from nmt.files.read import read_text
from nmt.files.write import link
from nmt.layout import DataDir
from nmt.prepare.cleaning.counts import REASONS, summed, total
from nmt.prepare.pairs import OpenSource
from nmt.prepare.pipeline.encode import EncodedText, encode_text, link_files, make_tokenizers
from nmt.prepare.pipeline.read import training_parts
from nmt.prepare.pipeline.settle import choose_text, pairs_of, settle_chosen
from nmt.prepare.pipeline.work import SIZES, Sizes, Work, building
from nmt.prepare.prepare import echo_end
from nmt.prepare.recipe import changes_in_config, recipe
from nmt.prepare.records import (
    CleanRecord,
    PreparedManifest,
    PreparedSplit,
    added,
    content_fingerprint,
    file_facts,
    write_manifest,
)
from nmt.prepare.reporting.page import write_report
from nmt.prepare.reporting.report import Report, make_report, tokenizer_report
from nmt.prepare.reporting.screen import additions
from nmt.prepare.sources import open_source, text_folder
from nmt.tasks.perform import TaskRunner
from nmt.tasks.processes import InProcess


def append(
    config: Config,
    data_dir: Path,
    echo: Callable[[str], None] = show,
    engine: TaskRunner | None = None,
    sizes: Sizes = SIZES,
) -> None:
    """Add new corpora, listed at the end of `data.train`, to a data directory.

    The other corpora are not read again, and the vocabulary, development and test sets do not change. Pairs that the
    directory already has are dropped. The arguments are described at `nmt.prepare.prepare.prepare`.

    Raises DataError, also if the directory is not divided into shards, or another setting in the config has changed.
    """
    place = data_dir.resolve()
    parent = DataDir(place.parent)
    is_of_pairs = parent.pairs.is_file() and place.name in read_pairs_manifest(parent).pairs
    if DataDir(place).pairs.is_file() or is_of_pairs:
        raise DataError(f"{data_dir}: text of several pairs of languages, which takes no additions; run nmt prepare")
    corpus = Corpus.open(DataDir(data_dir))
    keys = _new_corpora(config, corpus)
    root = text_folder(config.data.root)
    sources = {key: open_source(config.data.train[int(key[6:])], config.data.pair, root) for key in keys}
    with building(data_dir) as (folder, staged):
        report = _add(Work(folder, engine or InProcess(), sizes), config, corpus, sources, staged)
    for line in additions(report):
        echo(line)
    echo_end(report.warnings, DataDir(data_dir), echo)


def _new_corpora(config: Config, corpus: Corpus) -> list[str]:
    """Return the keys of the new corpora. Raises DataError if they cannot be added."""
    directory, manifest = corpus.directory, corpus.manifest
    if config.data.has_labels:
        raise DataError(
            f"{directory.path}: cannot append to labelled text, because its labels come from all training text; "
            "run nmt prepare instead"
        )
    if manifest.splits["train"].shards is None:
        raise DataError(
            f"{directory.path}: its training set is not divided into shards, so nothing can be added; run nmt prepare, "
            f"with --tokenizer-from {directory.path} to keep the vocabulary"
        )
    if manifest.config is None or manifest.sources is None:
        raise DataError(f"{directory.manifest}: does not record the settings and sources, so nothing can be added")
    n_before = sum(key.startswith("train.") for key in manifest.sources)
    before = config.data.model_copy(update={"train": config.data.train[:n_before]})
    if before.drawn != config.data.drawn:
        raise DataError(f"{directory.path}: nothing is held out of added corpora; remove their valid and test")
    if described := changes_in_config(manifest.config, config.model_copy(update={"data": before})):
        raise DataError(
            f"{directory.path}: only new corpora may be added, but other settings have changed: {'; '.join(described)}"
        )
    if new := {*config.data.tag_names} - {*corpus.tokenizers.tags}:
        raise DataError(f"{directory.path}: its vocabulary lacks the tag {min(new)}; run nmt prepare instead")
    if n_before == len(config.data.train):
        raise DataError(f"{directory.path}: no new corpora; append them to the end of data.train")
    return [f"train.{i}" for i in range(n_before, len(config.data.train))]


def _add(work: Work, config: Config, corpus: Corpus, sources: Mapping[str, OpenSource], staged: DataDir) -> Report:
    """Write the data directory with the new corpora into `staged`. Return the report on these."""
    data, manifest, reported = config.data, corpus.manifest, corpus.directory.report
    earlier = read_document(reported, Report, DataError, "; remove it") if reported.exists() else None
    held_out = {name: pairs_of(corpus, name) for name in manifest.splits if name != "train"}
    pairs = [pair for own in held_out.values() for pair in own]
    work.letters = corpus.tokenizers.letters
    parts, skipped = training_parts(work, data, sources)
    chosen = choose_text(work, data, parts, skipped, pairs, corpus)
    chosen.split_off.update({name: held_out[name] for name in data.drawn})
    text = settle_chosen(work, data, chosen)
    make_tokenizers(work, config, text, corpus.tokenizers, {})
    encoded = encode_text(work, data, text, is_added=True)
    for name in manifest.files:
        target = staged.path / name
        if staged.path.resolve() not in target.resolve().parents:  # the manifest may be someone else's
            raise DataError(f"{corpus.directory.manifest}: damaged: {name} is not in the directory")
        target.parent.mkdir(parents=True, exist_ok=True)
        link(corpus.directory.path / name, target)
    link_files(encoded.files, staged.path)
    files = file_facts(staged.path)
    before = PreparedManifest.model_validate_json(read_text(corpus.directory.manifest), strict=False)
    made_from = recipe(config) | {"tokenizer": (before.config or {})["tokenizer"]}
    train = _with_corpora(before.splits["train"], encoded)
    records = {key: source.record for key, source in sources.items()}
    report = make_report(
        data, text, encoded.reports, records, text.samples(), kind="prepared", sample=None, settings=made_from,
        held_out={name: len(own) for name, own in held_out.items()}, mono=earlier.mono if earlier else [],
        tokenizer=tokenizer_report(corpus.tokenizers, train.text),
    )  # fmt: skip
    n_several = before.several * before.splits["train"].clean.kept + total(encoded.reports.values()).several
    changed = {
        "config": made_from,
        "fingerprint": content_fingerprint(files, corpus.tokenizers.letters),
        "sources": (before.sources or {}) | records,
        "several": n_several / train.clean.kept if before.several < 1 else 1.0,  # it stays unknown
        "splits": before.splits | {"train": train},
        "warnings": before.warnings + report.warnings,
        "files": files,
    }
    write_manifest(staged, before.model_copy(update=changed))
    corpora = [*(earlier.corpora if earlier else []), *report.corpora]
    whole = {"corpora": corpora, "warnings": changed["warnings"]}
    write_report(staged.path, report.model_copy(update=whole))
    return report


def _with_corpora(before: PreparedSplit, encoded: EncodedText) -> PreparedSplit:
    """Return the record of a training set to which corpora have been added."""
    new = CleanRecord.of(encoded.reports.values())
    clean = CleanRecord(
        read=before.clean.read + new.read,
        kept=before.clean.kept + new.kept,
        dropped=summed([before.clean.dropped, new.dropped], REASONS),
    )
    text = {language: added([before.text[language], counts]) for language, counts in encoded.text.items()}
    return PreparedSplit(
        pairs=before.pairs + encoded.pairs,
        shards=[*(before.shards or []), *(encoded.shards or [])],
        clean=clean,
        text=text,
    )
