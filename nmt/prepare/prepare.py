"""`nmt prepare`: sources -> cleaning -> tokenizer -> ids, into a data directory that serves both directions.

Training text goes through the stages of `nmt.prepare.pipeline`, in as many processes as the engine has. A preparation
that was stopped continues where it was when it is repeated. The directory appears only when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from nmt.config import Config
from nmt.console import show
from nmt.data.corpus import Corpora, Corpus
from nmt.data.manifest import (
    CleanRecord,
    SplitRecord,
    added,
    content_fingerprint,
    file_facts,
    read_contents,
    write_index,
    write_manifest,
)
from nmt.data.settings import DataConfig
from nmt.data.sources import train_number
from nmt.errors import DataError
from nmt.files.document import read_document
from nmt.files.write import link, replace_file, writing
from nmt.layout import DataDir
from nmt.prepare.build import open_builds, settle_all
from nmt.prepare.cleaning.counts import REASONS, summed, total
from nmt.prepare.pairs import OpenSource, naming
from nmt.prepare.pipeline.encode import EncodedText, encode_text, link_files, make_tokenizers, use_tokenizers
from nmt.prepare.pipeline.read import training_parts
from nmt.prepare.pipeline.settle import choose_training_text, pairs_of, settle_chosen
from nmt.prepare.pipeline.work import SIZES, Sizes, Work, building
from nmt.prepare.recipe import (
    changes_in_config,
    changes_since,
    check_replaceable,
    check_unneeded,
    recipe,
    reused_tokenizers,
)
from nmt.prepare.report import (
    PreparationReport,
    additions,
    clean_record,
    make_report,
    screen,
    table,
    tokenizer_report,
)
from nmt.prepare.report_page import report_json, report_page, write_report
from nmt.prepare.sources import open_source, text_folder
from nmt.tasks.perform import TaskRunner
from nmt.tasks.processes import InProcess
from nmt.text.settings import TokenizerConfig


def prepare(
    config: Config,
    data_dir: Path,
    tokenizer_from: Path | None = None,
    echo: Callable[[str], None] = show,
    engine: TaskRunner | None = None,
    sizes: Sizes = SIZES,
    force: bool = False,
) -> None:
    """Prepare the data directory of a config, unless it exists and is up to date.

    Args:
        tokenizer_from: a run or data directory whose vocabulary is used, so that none is learned.
        engine: runs the tasks; by default, this process does.
        sizes: how the work is divided.
        force: whether a directory of other languages, or one on which runs were trained, is replaced.

    Raises DataError for bad sources, an empty corpus, or a directory that may not be replaced, HubError if a download
    fails, and LockedError if another process prepares the directory.
    """
    directory = DataDir(data_dir)
    data = config.data
    reused, new = reused_tokenizers(tokenizer_from, data, config.tokenizer)
    settings = recipe(data, config.tokenizer, reused, new)
    check_replaceable(directory)
    if directory.is_prepared:
        reasons = changes_since(directory, settings, data)
        if not reasons:
            _echo_up_to_date(directory, data, echo)
            return
        if not force:
            check_unneeded(directory, data.all_languages, config.run_directory.parent, reasons)
        echo(f"preparing {data_dir} again: {'; '.join(reasons)}")
    if (root := text_folder(data.root)) != Path(data.root):
        echo(f"no {data.root} here: using the sample corpus shipped with nmt, {root}")
    if new.n:
        echo(f"up to {new.n:,} pieces of {' and '.join(new.languages)} are added to the vocabulary of {tokenizer_from}")
    with building(data_dir) as (folder, staged):
        work = Work(folder, engine or InProcess(), sizes)
        builds = open_builds(data, work)
        for build in builds.values():
            build.open_mono()
        settle_all(builds, reused)
        for build in builds.values():
            build.clean_mono()
        texts = {pair: build.prepared_text for pair, build in builds.items()}
        tokenizers = make_tokenizers(work, data, config.tokenizer, texts, reused, new)
        for pair, build in builds.items():
            with naming(build.name):
                folder_of_pair = DataDir(staged.path / build.name)
                build.write(folder_of_pair, tokenizers[pair], recipe(build.data, config.tokenizer, reused, new))
        if len(builds) > 1:
            write_index(staged, {build.name: build.manifest for build in builds.values()}, settings)
    n_asked = None if reused and not new else config.tokenizer.vocab_size
    if reused and new and reused.imported:
        n_asked = 0  # what was added has been said
    for build in builds.values():
        if build.name:
            echo(build.name)
        for line in table(build.outcome, build.splits, n_asked):
            echo(line)
        _echo_end(build.outcome.warnings, DataDir(data_dir / build.name), echo)


def _echo_up_to_date(directory: DataDir, data: DataConfig, echo: Callable[[str], None]) -> None:
    corpora = Corpora.open(directory, data).distinct
    n = sum(corpus.split("train").n for corpus in corpora)
    echo(f"{directory.path} is up to date with {n:,} training pairs: nothing to do")
    for corpus in corpora:
        for warning in corpus.manifest.warnings:
            echo(f"warning: {warning}")


def _echo_end(warnings: Sequence[str], directory: DataDir, echo: Callable[[str], None]) -> None:
    """Print the warnings, and the paths of the data directory and its report."""
    for warning in warnings:
        echo(f"warning: {warning}")
    echo(f"report: {directory.report_page}")
    echo(f"wrote {directory.path}")


def dry_run(
    config: Config,
    sample: int | None = None,
    report: Path | None = None,
    echo: Callable[[str], None] = show,
    engine: TaskRunner | None = None,
    tokenizer_from: Path | None = None,
) -> None:
    """Clean the training text of a config and report on it, without writing anything else.

    Args:
        sample: the maximum number of pairs of each corpus, evenly spread, that are cleaned; None: all pairs.
        report: the file (*.html or *.json), or the directory for both, to write the report to; None: no report.
        engine: the engine that processes the whole text; by default this process.
        tokenizer_from: as for `prepare`.

    Each of several pairs of languages has its own report.

    Raises DataError, also if no pairs are left, or HubError for the Hub.
    """
    reused, new = reused_tokenizers(tokenizer_from, config.data, config.tokenizer)
    if engine is None or sample is not None:  # cleaning a sample takes less time than starting processes
        engine = InProcess()
    with TemporaryDirectory(prefix="nmt-") as folder:
        builds = open_builds(config.data, Work(Path(folder), engine, SIZES), sample)
        settle_all(builds, reused)
    for pair, build in builds.items():
        if build.name:
            echo(build.name)
        pieces = None
        if reused is not None:
            added = pair if new.n else new.languages
            pieces = build.try_tokenizers(reused.of_languages(pair) if build.name else reused, added)
        settings = recipe(build.data, config.tokenizer, reused, new)
        outcome = build.report(build.text.reports, settings, kind="dry run", tokenizer=pieces)
        for line in screen(outcome):
            echo(line)
        if config.data.mono:
            echo("data.mono was not read; a dry run covers only the training pairs")
        if report is not None:
            _write_dry_report(report, outcome)
            echo(f"wrote {report}")


def _write_dry_report(path: Path, report: PreparationReport) -> None:
    renderer = {".html": report_page, ".json": report_json}.get(path.suffix.lower())
    with writing(path):
        if renderer is None:
            path.mkdir(parents=True, exist_ok=True)
            write_report(path, report)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, renderer(report))


def append(
    config: Config,
    data_dir: Path,
    echo: Callable[[str], None] = show,
    engine: TaskRunner | None = None,
    sizes: Sizes = SIZES,
) -> None:
    """Add new corpora, listed at the end of `data.train`, to a data directory. Existing shards stay unchanged.

    The other corpora are not read again, and the vocabulary, development and test sets do not change. Pairs that the
    directory already has are dropped. The arguments are described at `prepare`.

    Raises DataError, also if the directory is not divided into shards, or another setting in the config has changed.
    """
    contents = read_contents(DataDir(data_dir))
    corpus = Corpus.of(contents, next(iter(contents.manifests)))
    if len(contents.manifests) > 1 or corpus.whole != corpus.fingerprint:
        raise DataError(f"{data_dir}: text of several pairs of languages, which takes no additions; run nmt prepare")
    data = config.data.towards(config.data.direction)
    keys = _new_corpora(data, config.tokenizer, corpus)
    root = text_folder(data.root)
    corpora = data.train_sources
    sources = {key: open_source(corpora[key], data.pair, root) for key in keys}
    with building(data_dir) as (folder, staged):
        report = _add(Work(folder, engine or InProcess(), sizes), data, corpus, sources, staged)
    for line in additions(report):
        echo(line)
    _echo_end(report.warnings, DataDir(data_dir), echo)


def _new_corpora(data: DataConfig, tokenizer: TokenizerConfig, corpus: Corpus) -> list[str]:
    """Return the keys of the new corpora. Raises DataError if they cannot be added."""
    directory = corpus.directory
    manifest = corpus.manifest
    train = manifest.splits["train"]
    if data.has_labels:
        raise DataError(
            f"{directory.path}: cannot append to labelled text, because its labels come from all training text; "
            "run nmt prepare instead"
        )
    if train.shards is None:
        raise DataError(
            f"{directory.path}: its training set is not divided into shards, so nothing can be added; run nmt prepare, "
            f"with --tokenizer-from {directory.path} to keep the vocabulary"
        )
    if None in (manifest.config, manifest.sources, train.clean, train.text):
        raise DataError(f"{directory.manifest}: does not record the settings and sources, so nothing can be added")
    assert manifest.config is not None and manifest.sources is not None
    n_before = sum(train_number(key) is not None for key in manifest.sources)
    before = data.model_copy(update={"train": data.train[:n_before]})
    if before.drawn != data.drawn:
        raise DataError(f"{directory.path}: nothing is held out of added corpora; remove their valid and test")
    if described := changes_in_config(manifest.config, before, tokenizer):
        raise DataError(
            f"{directory.path}: only new corpora may be added, but other settings have changed: {'; '.join(described)}"
        )
    if new := {*data.tag_names} - {*corpus.tokenizers.tags}:
        raise DataError(f"{directory.path}: its vocabulary lacks the tag {min(new)}; run nmt prepare instead")
    if n_before == len(data.train):
        raise DataError(f"{directory.path}: no new corpora; append them to the end of data.train")
    return [*data.train_sources][n_before:]


def _add(
    work: Work, data: DataConfig, corpus: Corpus, sources: Mapping[str, OpenSource], staged: DataDir
) -> PreparationReport:
    """Write the data directory with the new corpora into `staged`. Return the report on these."""
    before = corpus.manifest
    reported = corpus.directory.report
    mono = []
    corpora = []
    if reported.exists():
        earlier = read_document(reported, PreparationReport, DataError, "; remove it")
        mono = earlier.mono
        corpora = earlier.corpora
    held_out = {name: pairs_of(corpus, name) for name in before.splits if name != "train"}
    pairs = list(chain.from_iterable(held_out.values()))
    work.letters = corpus.tokenizers.letters
    chosen = choose_training_text(work, data, training_parts(work, data, sources), pairs, corpus)
    chosen.split_off.update({name: held_out[name] for name in data.drawn})
    text = settle_chosen(work, data, chosen)
    use_tokenizers(work, corpus.tokenizers)
    encoded = encode_text(work, data, text, is_added=True)
    for name in before.files:
        target = staged.path / name
        if staged.path.resolve() not in target.resolve().parents:  # the manifest may be someone else's
            raise DataError(f"{corpus.directory.manifest}: damaged: {name} is not in the directory")
        target.parent.mkdir(parents=True, exist_ok=True)
        link(corpus.directory.path / name, target)
    link_files(encoded.files, staged.path)
    files = file_facts(staged.path)
    settings = recipe(data, TokenizerConfig()) | {"tokenizer": (before.config or {})["tokenizer"]}
    train = _with_corpora(before.splits["train"], encoded)
    records = {key: source.record for key, source in sources.items()}
    report = make_report(
        data, text, encoded.reports, records, text.samples(), kind="prepared", sample=None, settings=settings,
        held_out={name: len(sentence_pairs) for name, sentence_pairs in held_out.items()},
        mono=mono, tokenizer=tokenizer_report(corpus.tokenizers, train.text or {}),
    )  # fmt: skip
    several = 1.0  # it stays unknown
    if before.several < 1 and train.clean and before.splits["train"].clean:
        n_several = before.several * before.splits["train"].clean.kept + total(encoded.reports.values()).several
        several = n_several / train.clean.kept
    changed = {
        "config": settings,
        "fingerprint": content_fingerprint(files, corpus.tokenizers.letters),
        "sources": (before.sources or {}) | records,
        "several": several,
        "splits": before.splits | {"train": train},
        "warnings": before.warnings + report.warnings,
        "files": files,
    }
    write_manifest(staged, before.model_copy(update=changed))
    all_corpora = {"corpora": corpora + report.corpora, "warnings": changed["warnings"]}
    write_report(staged.path, report.model_copy(update=all_corpora))
    return report


def _with_corpora(before: SplitRecord, encoded: EncodedText) -> SplitRecord:
    """Return the record of a training set to which corpora have been added."""
    assert before.clean is not None and before.text is not None and before.shards is not None
    new = clean_record(encoded.reports.values())
    clean = CleanRecord(
        read=before.clean.read + new.read,
        kept=before.clean.kept + new.kept,
        dropped=summed([before.clean.dropped, new.dropped], REASONS),
    )
    return SplitRecord(
        pairs=before.pairs + encoded.pairs,
        shards=[*before.shards, *(encoded.shards or [])],
        clean=clean,
        text={language: added([before.text[language], counts]) for language, counts in encoded.text.items()},
    )
