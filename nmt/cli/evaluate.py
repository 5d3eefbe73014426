"""The commands `nmt evaluate`, `nmt compare` and `nmt calibrate`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import (
    BeamOption,
    CheckpointOption,
    CometCommandOption,
    CometOption,
    FormatOption,
    FromOption,
    LowercaseOption,
    LowerIsBetterOption,
    MetricsOption,
    PenaltyOption,
    PrecisionOption,
    ReferenceOption,
    RunDataOption,
    RunOption,
    RunsOption,
    SearchOption,
    SourceOption,
    SplitOption,
    TokenizeOption,
    ToOption,
    ViaOption,
    WeightsOption,
    names_in,
    option,
)
from nmt.cli.options import runs as run_names
from nmt.cli.refusals import refuse
from nmt.console import show
from nmt.errors import CheckpointError, ConfigError
from nmt.tables import Format, rendered

if TYPE_CHECKING:
    from nmt.evaluate.metrics import MetricName
    from nmt.evaluate.report import EvaluationReport
    from nmt.evaluate.run import EvaluationText
    from nmt.runs.info import ScoreRecord
    from nmt.runs.model import ModelRef
    from nmt.translate.loading import Translator


@app.command()
def evaluate(
    context: typer.Context,
    run: RunsOption = [],
    split: Annotated[
        list[str],
        option("--split", "Split to translate; may be repeated.  [default: all test sets]", "NAME"),
    ] = [],
    hyp: Annotated[Path | None, option("--hyp", "File of translations to score …", "F")] = None,
    ref: Annotated[
        list[Path],
        option("--ref", "… against this file of references; may be repeated.", "F"),
    ] = [],
    data: RunDataOption = None,
    to: ToOption = None,
    from_: FromOption = None,
    via: ViaOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    overrides: SearchOption = [],
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
    metrics: MetricsOption = None,
    lowercase: LowercaseOption = False,
    tokenize: TokenizeOption = None,
    src: Annotated[
        Path | None,
        option("--src", "File to translate and score against --ref; or the source of --hyp.", "F"),
    ] = None,
    comet: CometOption = [],
    comet_command: CometCommandOption = None,
    segment_scores: Annotated[
        list[str],
        option(
            "--segment-scores",
            "Also show the mean of the scores in F (one per line) as metric NAME; may be repeated.",
            "NAME=F",
        ),
    ] = [],
    lower_is_better: LowerIsBetterOption = [],
    samples: Annotated[
        int | None,
        option("--samples", "Also show N translations.  [default: 5 on a terminal, otherwise 0]", "N", min=0),
    ] = None,
    output: Annotated[Path | None, option("--output", "Write the translations to F.", "F")] = None,
    history: Annotated[bool, option("--history", "Only show the scores recorded so far.")] = False,
    format_: FormatOption = "text",
) -> None:
    """Score translations with BLEU, chrF and TER (sacrebleu).

    By default, a run or an ensemble of runs translates the test sets of its data directory, or the splits given by
    --split (the name of a test set, valid, train, or all for all test sets). Scores of several splits are shown as a
    table, and --output F is then a directory for the translations, F/SPLIT.LANGUAGE.

    --src F and --ref F score a run on other files: it translates the one and is scored against the other. These scores
    are not recorded. --hyp F and --ref F score a file of translations. With several --ref files, each line has several
    references (nrefs in the signature). Scores depend on the language, since some languages have no spaces between
    words. That of files follows from the script of the text and, for Chinese and Japanese, from a name such as
    ref.ja.txt; --to LANG gives another.

    Scores of a run on its splits are recorded in its scores.jsonl, those of an ensemble in that of the first run.
    --history shows them, oldest first; an asterisk marks scores that are not comparable with the others of their split.

    Scores are case-sensitive and computed on detokenized text. Each has a signature that describes how it was computed;
    scores with different signatures are not comparable. TER is case-sensitive too, unlike the default of the sacrebleu
    command (--ter-case-sensitive). A classifier is scored by accuracy, macro F1, expected calibration error in 15 bins,
    and its confusion matrix.

    \b
    Examples:
      nmt evaluate
      nmt evaluate --run runs/multi30k-de-en --split valid --beam 1
      nmt evaluate --run runs/multi30k-de-en --history
      nmt evaluate --run runs/multi30k-de-en --src news.de --ref news.ref.en --samples 5
      nmt evaluate --hyp news.en --ref news.ref.en --format json
      nmt evaluate --hyp news.en --ref news.ref.en --src news.de --comet Unbabel/wmt22-comet-da
    """
    from nmt.evaluate.comet import SYSTEM, find_metrics
    from nmt.evaluate.report import evaluate_files

    if history:
        if len(run) > 1:
            refuse(context, "several-runs")
        _show_history(run, split, format_)
        return
    chosen = _chosen(metrics, tokenize)
    neural = find_metrics([SYSTEM], comet, comet_command, segment_scores, lower_is_better)
    if hyp is not None and ref:
        evaluation = evaluate_files(hyp, ref, src, to, lowercase, tokenize, chosen)
        print(rendered(format_, [neural.added_to(evaluation)]))
        return

    from nmt.cli.defaults import resolve_models, search_settings
    from nmt.evaluate.run import corpus_of, evaluate_text, read_files, record_scores, texts_of
    from nmt.files.write import open_output
    from nmt.runs.model import ModelRef
    from nmt.translate.loading import Translator

    paths = resolve_models(run, None, ("translation", "classification"))
    model = ModelRef(paths, checkpoint, weights)
    if _is_classifier(paths):
        refuse(context, "classifier", path=paths[0])
        _evaluate_classifier(model, data, split, precision, format_)
        return
    translator = Translator.load(model, precision=precision)
    translators = [translator.towards(to, from_, via)] if src or via else translator.by_direction(to, from_)
    search = search_settings(translators[0].config, beam, length_penalty, overrides)
    if src:
        texts = {str(src): (translators[0], read_files(src, ref, translators[0].config.data.sides))}
    else:
        texts = texts_of(translators, lambda directed: corpus_of(directed, data), split)
    if len(texts) > 1:
        refuse(context, "several-texts", names=", ".join(texts))

    if samples is None:
        samples = 5 if format_ == "text" and sys.stdout.isatty() else 0
    reports = []
    records = []
    for (label, (directed, text)), path in zip(texts.items(), _outputs(output, texts), strict=True):
        with nullcontext() if path is None else open_output(path) as file:
            evaluation = evaluate_text(directed, text, search, src, lowercase, tokenize, chosen)
            if file is not None:
                file.writelines(f"{line}\n".encode() for line in evaluation.translations)
        reports.append(neural.added_to(evaluation))
        if text.corpus is not None:
            records.append(record_scores(reports[-1], translator.origin, text.corpus))
        if samples and len(texts) > 1:
            print(f"split {label}")
        for line in evaluation.samples(samples):
            print(line)
    print(_rendered(reports, records, format_))


def _chosen(metrics: str | None, tokenize: str | None) -> Sequence[MetricName]:
    """Return the metrics in the value of --metrics, by default the usual ones.

    Raises ConfigError for an unknown metric, and for a tokenizer of BLEU without BLEU.
    """
    from nmt.evaluate.metrics import METRIC_FACTS, METRICS

    chosen = names_in("--metrics", metrics, METRIC_FACTS, "metric") or METRICS
    if tokenize is not None and "bleu" not in chosen:
        raise ConfigError(f"--tokenize is for BLEU, which --metrics {metrics} leaves out; omit --tokenize or add bleu")
    return chosen


def _rendered(reports: Sequence[EvaluationReport], records: Sequence[ScoreRecord], format_: Format) -> str:
    """Format the report of one text, or the reports of several with means over directions of the recorded ones."""
    from nmt.evaluate.report import History, Reports, macro_averages

    if len(reports) == 1:
        return rendered(format_, reports)
    means = macro_averages(records)
    text = "\n".join([rendered("text", [History(records)]), *means])
    return rendered(format_, [Reports(reports, text, means)])


def _is_classifier(paths: Sequence[Path]) -> bool:
    """Return whether `paths` is a single run of a classifier."""
    from nmt.config.load import load_saved_config
    from nmt.layout import RunDir

    config = RunDir(paths[0]).config
    return len(paths) == 1 and config.is_file() and load_saved_config(config).training.facts.classifies


def _evaluate_classifier(
    model: ModelRef, data: Path | None, splits: Sequence[str], precision: str, format_: Format
) -> None:
    from nmt.evaluate.classification import Classifier, evaluate_classifier
    from nmt.evaluate.report import Reports
    from nmt.evaluate.run import choose_splits
    from nmt.layout import RunDir
    from nmt.runs.data import open_corpus

    classifier = Classifier.load(model, precision=precision)
    corpus = open_corpus(RunDir(model.path), classifier.config.data.sides, data)
    reports = [evaluate_classifier(classifier, corpus, name) for name in choose_splits(corpus, splits)]
    text = "\n".join(report.as_text() for report in reports)
    print(rendered(format_, reports if len(reports) == 1 else [Reports(reports, text)]))


def _outputs(output: Path | None, texts: Mapping[str, tuple[Translator, EvaluationText]]) -> Iterator[Path | None]:
    """Yield the output file of each text: `output`, or for several texts a file SPLIT.LANGUAGE in that directory.

    Raises DataError if the directory cannot be created.
    """
    from nmt.files.write import writing

    if output is None or len(texts) == 1:
        yield from [output] * len(texts)
        return
    with writing(output, "; a directory is needed for several files"):
        output.mkdir(exist_ok=True)
    for translator, text in texts.values():
        yield output / f"{text.name}.{translator.config.data.translation_suffix}"


def _show_history(runs: Sequence[Path], splits: Sequence[str], format_: Format) -> None:
    from nmt.cli.defaults import run_or_newest
    from nmt.evaluate.report import History
    from nmt.layout import RunDir
    from nmt.runs.info import read_scores

    directory = RunDir(run_or_newest(runs[0] if runs else None, ("translation", "classification")))
    records = [record for record in read_scores(directory) if not splits or record.split in splits]
    if not records:
        scores = f"scores of {', '.join(splits)}" if splits else "scores"
        raise CheckpointError(f"{directory.path}: no {scores} recorded yet; run nmt evaluate first")
    print(rendered(format_, [History(records)]))


@app.command()
def compare(
    context: typer.Context,
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Two or more run directories.", autocompletion=run_names),
    ] = [],
    hyp: Annotated[
        list[Path],
        option("--hyp", "Two or more files of translations to compare …", "F..."),
    ] = [],
    ref: Annotated[
        list[Path],
        option("--ref", "… and their references; several files: several per line.", "F..."),
    ] = [],
    src: Annotated[Path | None, option("--src", "Source text of these files.", "F")] = None,
    group: Annotated[
        list[str],
        option("--group", "Runs or files that differ only in their seed; two or more groups.", "NAME=A,B,C"),
    ] = [],
    baseline: Annotated[
        str | None,
        option("--baseline", "System to compare the others with.  [default: the first]", "NAME"),
    ] = None,
    split: SplitOption = None,
    data: RunDataOption = None,
    to: ToOption = None,
    from_: FromOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    overrides: SearchOption = [],
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
    metrics: MetricsOption = None,
    lowercase: LowercaseOption = False,
    tokenize: TokenizeOption = None,
    comet: CometOption = [],
    comet_command: CometCommandOption = None,
    segment_scores: Annotated[
        list[str],
        option(
            "--segment-scores",
            "Also compare metric NAME, with SYSTEM's scores in F, one per line; give it for each system.",
            "NAME@SYSTEM=F",
        ),
    ] = [],
    lower_is_better: LowerIsBetterOption = [],
    output: Annotated[Path | None, option("--output", "Write the translations of each run into DIR.", "DIR")] = None,
    html: Annotated[Path | None, option("--html", "Also write a web page with all lines to F.", "F")] = None,
    format_: FormatOption = "text",
) -> None:
    """Compare systems, with tests of significance.

    Runs translate the same split of their data directories; files of translations are compared with a file of
    references (--to LANG gives their language, see nmt evaluate). BLEU, chrF and TER are shown with 95 % confidence
    intervals. Differences from the baseline are shown with an interval and a p-value, the probability of a difference
    at least as large between two equal systems. With several systems, p-values are corrected by Holm's method. A
    further column shows how often human judges agree with a difference of this size.

    These tests reflect line sampling only: they generalize to other lines of the same kind. To generalize to other
    training seeds, train at least three runs per system and name them with --group; p-values and intervals then cover
    seeds and lines. In a group, the pattern 'runs/plain-*' stands for all matching runs.

    \b
    Examples:
      nmt compare runs/plain runs/simcut --split test_2016_flickr
      nmt compare --hyp ours.en theirs.en --ref reference.en
      nmt compare --hyp ours.en theirs.en --ref reference.en --src source.de --comet Unbabel/wmt22-comet-da
      nmt compare --group plain=runs/plain-1,runs/plain-2,runs/plain-3 'simcut=runs/simcut-*'
    """
    from nmt.cli.defaults import search_settings
    from nmt.evaluate.comet import find_metrics
    from nmt.evaluate.compare import compare as run_stage
    from nmt.evaluate.compare.screen import reports_of
    from nmt.evaluate.compare.systems import (
        Translating,
        all_paths,
        check_groups,
        distinct_names,
        find_baseline,
        for_directions,
        group_members,
        read_systems,
        single_members,
        translate_runs,
        with_segment_scores,
    )
    from nmt.evaluate.metrics import check_tokenizer
    from nmt.files.write import open_output

    check_tokenizer(tokenize)
    chosen = _chosen(metrics, tokenize)
    members = group_members(group) if group else single_members(runs or hyp)
    if group:
        check_groups(members)
    position = find_baseline(baseline, members)
    names = distinct_names(all_paths(members))
    neural = find_metrics(names, comet, comet_command, segment_scores, lower_is_better)
    if ref:
        compared = iter([read_systems(members, ref, src, to, lowercase)])
    else:
        from nmt.runs.model import ModelRef  # which imports torch

        settings = Translating(
            lambda config: search_settings(config, beam, length_penalty, overrides),
            ModelRef(checkpoint=checkpoint, weights=weights, to=to, source=from_), split, data, precision, output,
            lowercase,
        )  # fmt: skip
        directions = for_directions(members, settings)
        if len(directions) > 1:
            refuse(context, "several-directions")
        compared = (translate_runs(members, direction) for direction in directions)
    comparisons = []
    with nullcontext() if html is None else open_output(html) as page_file:
        for text, groups in compared:
            groups = with_segment_scores(text, groups, neural)
            comparison = run_stage(text, groups, position, lowercase=lowercase, tokenize=tokenize, metrics=chosen)
            if page_file is not None:
                from nmt.evaluate.compare.page import page

                page_file.write(page(comparison).encode())
            comparisons.append(comparison)
    print(rendered(format_, reports_of(comparisons)))


@app.command()
def calibrate(
    run: RunOption = None,
    split: Annotated[str, option("--split", "Split to translate.", "NAME")] = "valid",
    data: RunDataOption = None,
    source: SourceOption = None,
    reference: ReferenceOption = None,
    reverse: Annotated[
        Path | None,
        option("--reverse", "Also use the scores of a run of the opposite direction.", "RUN", autocompletion=run_names),
    ] = None,
    samples: Annotated[int, option("--samples", "Also compare each translation with N sampled ones.", "N", min=0)] = 0,
    plot: Annotated[Path | None, option("--plot", "Plot chrF against confidence.", "F.png")] = None,
    to: ToOption = None,
    from_: FromOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    overrides: SearchOption = [],
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Learn to estimate the quality of translations.

    Translates a text and compares the translations with its references. On half of the lines, a map is fitted from what
    the model knows about a translation (the probabilities of its pieces, its length and that of the source) to the chrF
    that it can expect; the other half measures the map. It is written into the run, for `nmt translate --confidence`.
    Use text that resembles what you will translate, at least 100 lines, which the model was not trained on.

    Prints Spearman's rank correlation of confidence and chrF, the chrF of the half of the lines with the higher
    confidence and of the other half, and the mean chrF of tenths of the lines beside their mean confidence. One map is
    for PyTorch, the other for CTranslate2, which does not report the probability of each piece.

    --reverse and --samples often improve the order, but --confidence then takes longer: it needs the other run, or
    translates each line again N times by sampling.

    \b
    Examples:
      nmt calibrate --run runs/multi30k-de-en
      nmt calibrate --run runs/multi30k-de-en --src letters.de --ref letters.en --plot reliability.png
      nmt calibrate --run runs/multi30k-de-en --reverse runs/multi30k-en-de --samples 5
    """
    if split.partition(".")[0] == "train":
        raise ConfigError(f"--split {split}: the model has learned it; its translations of new text are less good")

    from nmt.cli.defaults import run_or_newest, search_settings
    from nmt.evaluate.calibration import calibrate as run_calibration
    from nmt.evaluate.calibration import draw_reliability
    from nmt.evaluate.run import choose_text
    from nmt.figures.attention import check_picture, save_picture
    from nmt.runs.model import ModelRef
    from nmt.translate.loading import Translator

    if plot is not None:
        check_picture(plot)
    path = run_or_newest(run)
    translator = Translator.load(ModelRef((path,), checkpoint, weights), precision=precision).towards(to, from_)
    search = search_settings(translator.config, beam, length_penalty, overrides)
    opposite = None
    if reverse is not None:
        backwards = "-".join(reversed(translator.config.data.sides))
        opposite = reverse, Translator.load_for(backwards, "--reverse", [reverse], precision)
    text = choose_text(translator, data, split, source, reference)
    search = search.with_tags(translator.config.data.tags_of(text.name))
    calibrated = run_calibration(translator, search, text, opposite, samples)
    show(*calibrated.lines())
    if plot is not None:
        save_picture(draw_reliability(calibrated.by_map["PyTorch"], text.name), plot)
    show(f"wrote {calibrated.path}; nmt translate --confidence uses it")
