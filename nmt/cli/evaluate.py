"""`nmt evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
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
    LowercaseOption,
    LowerIsBetterOption,
    PenaltyOption,
    PrecisionOption,
    RunDataOption,
    RunsOption,
    SearchOption,
    TokenizeOption,
    WeightsOption,
)
from nmt.errors import CheckpointError, ConfigError, DataError

if TYPE_CHECKING:
    from nmt.evaluate.report import Report

HISTORY_ALONE = "--history shows what was measured before: it goes with one --run, --split and --json alone"
FILES_ALONE = (
    "--hyp F and --ref F must be given together, without options of a run: --run, --split, --data, --output, "
    "--samples, --beam, --length-penalty, --set, --checkpoint, --weights, --precision"
)

CLASSIFIER_ALONE = (
    "has learned labels: with it go --split, --data, --checkpoint, --weights, --precision, --json and --history alone; "
    "nmt classify writes the labels of texts"
)


@app.command()
def evaluate(
    run: RunsOption = None,
    split: Annotated[
        list[str] | None,
        typer.Option("--split", metavar="NAME", help="Split to translate; may be repeated.  [default: all test sets]"),
    ] = None,
    hyp: Annotated[Path | None, typer.Option("--hyp", metavar="F", help="Score this file of translations …")] = None,
    ref: Annotated[
        list[Path] | None,
        typer.Option("--ref", metavar="F", help="… against this file of references; may be repeated."),
    ] = None,
    data: RunDataOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    overrides: SearchOption = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
    lowercase: LowercaseOption = False,
    tokenize: TokenizeOption = None,
    src: Annotated[
        Path | None,
        typer.Option("--src", metavar="F", help="File to translate and score against --ref; with --hyp for --comet."),
    ] = None,
    comet: CometOption = None,
    comet_command: CometCommandOption = None,
    segment_scores: Annotated[
        list[str] | None,
        typer.Option(
            "--segment-scores",
            metavar="NAME=F",
            help="Also show the mean of the scores in F, one per line, as metric NAME; may be repeated.",
        ),
    ] = None,
    lower_is_better: LowerIsBetterOption = None,
    samples: Annotated[int, typer.Option("--samples", metavar="N", min=0, help="Also show N translations.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", metavar="F", help="Write the translations to F.")] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Show what was measured before, and translate nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for several splits a list.")] = False,
) -> None:
    """Score translations: BLEU, chrF and TER by sacrebleu.

    Either a run, or an ensemble of several, translates the test sets of its data directory, or the splits that --split
    names (a test set, valid, train, or all for the test sets); or a file of translations is scored against a file of
    references. Several reference files are several references for each line (nrefs in the signature). The scores of
    several splits are shown as a table; --output F is then a directory, with the translations in F/SPLIT.LANGUAGE.

    --src F and --ref F score a run on any pair of files: it translates one, and its translations are scored against the
    other. These scores are not recorded.

    What a run scores on its splits is recorded in its scores.jsonl, for an ensemble in that of the first run. --history
    shows these scores, oldest first; those that cannot be compared with the others of their split are marked with an
    asterisk.

    Scores are cased and on raw text. Each comes with a signature that says how it was computed; scores with different
    signatures cannot be compared. A run that has learned labels is scored by accuracy, macro F1, the expected
    calibration error in 15 bins, and the confusion matrix; it takes --split, --data, --checkpoint, --weights,
    --precision and --json. TER is cased, too: the sacrebleu command ignores case by default
    (--ter-case-sensitive).

    \b
    Examples:
      nmt evaluate
      nmt evaluate --run runs/multi30k-de-en --split valid --beam 1
      nmt evaluate --run runs/multi30k-de-en --history
      nmt evaluate --run runs/multi30k-de-en --src news.de --ref news.ref.en --samples 5
      nmt evaluate --hyp news.en --ref news.ref.en --json
      nmt evaluate --hyp news.en --ref news.ref.en --src news.de --comet Unbabel/wmt22-comet-da
    """
    from nmt.evaluate.comet import NeuralOptions, find_metrics
    from nmt.evaluate.report import SYSTEM, evaluate_files, render_json, render_text, with_neural_metrics

    if history:
        others = (hyp, ref, data, output, samples, beam, length_penalty, overrides, checkpoint, weights, precision)
        neural_too = (src, comet, comet_command, segment_scores, lower_is_better)
        is_alone = all(value in (None, 0, [], "best", "auto") for value in (*others, *neural_too, tokenize))
        if not is_alone or lowercase or len(run or ()) > 1:
            raise ConfigError([HISTORY_ALONE])
        _show_history(run[0] if run else None, split or (), json)
        return
    if comet and hyp and src is None:
        raise ConfigError(["--comet needs the sources of --hyp: --src F"])
    if src and not (comet if hyp else ref):
        raise ConfigError(["--src F goes with --ref F, to be translated and scored, or with --hyp, --ref and --comet"])
    if src and not hyp and (split or data):
        raise ConfigError(["--src F and --ref F take the place of --split and --data: leave those out"])
    options = NeuralOptions(comet or (), comet_command, segment_scores or (), lower_is_better or ())
    neural = find_metrics(options, [SYSTEM])
    if hyp is not None or (ref and src is None):
        of_a_run = (run, split, data, output, samples, beam, length_penalty, overrides, checkpoint, weights, precision)
        if hyp is None or not ref or any(value not in (None, 0, [], "best", "auto") for value in of_a_run):
            raise ConfigError([FILES_ALONE])
        report = evaluate_files(hyp, ref, lowercase, tokenize, src, neural)
        print(render_json(report) if json else render_text(report))
        return
    if json and samples:
        raise ConfigError(["--samples cannot be combined with --json; --output F writes all translations"])

    from nmt.cli.defaults import resolve_models, search_settings
    from nmt.evaluate.report import record_scores, render_table
    from nmt.evaluate.run import choose_splits, corpus_of, evaluate_run, evaluate_run_on_files
    from nmt.files.write import open_output
    from nmt.translate.translator import Translator

    paths = resolve_models(run, None)
    if _is_classifier(paths):
        of_text = (beam, length_penalty, overrides, tokenize, comet, comet_command, segment_scores, lower_is_better)
        if any(value not in (None, []) for value in (*of_text, output, src, ref)) or lowercase or samples:
            raise ConfigError([f"{paths[0]}: {CLASSIFIER_ALONE}"])
        _evaluate_classifier(paths[0], data, split or (), checkpoint, weights, precision, json)
        return
    translator = Translator.load(paths, checkpoint, weights, precision=precision)
    search = search_settings(translator.config, beam, length_penalty, overrides or ())
    corpus = None if src else corpus_of(translator, data)
    splits = [str(src)] if corpus is None else choose_splits(corpus, split or ())
    outputs = _outputs(output, splits, translator.config.data.tgt)
    if segment_scores and len(outputs) > 1:
        raise ConfigError([f"--segment-scores takes one split, found {', '.join(outputs)}; choose one with --split"])
    reports: list[Report] = []
    for name, path in outputs.items():
        with nullcontext() if path is None else open_output(path) as file:
            if corpus is None:
                evaluation = evaluate_run_on_files(translator, Path(name), ref or (), search, lowercase, tokenize)
            else:
                evaluation = evaluate_run(translator, corpus, name, search, lowercase, tokenize)
            if file is not None:
                file.writelines(f"{line}\n".encode() for line in evaluation.translations)
        texts = evaluation.sources, evaluation.references, evaluation.translations
        reports.append(with_neural_metrics(evaluation.report, neural, *texts))
        if corpus is not None:
            record_scores(reports[-1], translator, corpus)
        heading = [f"split {name}"] if samples and len(outputs) > 1 else []
        for line in (*heading, *evaluation.samples(samples)):
            print(line)
    if json:
        print(render_json(*reports))
    else:
        print(render_text(*reports) if len(reports) == 1 else render_table(reports))


def _is_classifier(paths: Sequence[Path]) -> bool:
    """Whether these are a single run that has learned labels."""
    from nmt.config.load import load_saved_config
    from nmt.layout import RunDir

    config = RunDir(paths[0]).config
    return len(paths) == 1 and config.is_file() and load_saved_config(config).training.objective == "classification"


def _evaluate_classifier(
    path: Path, data: Path | None, splits: Sequence[str], checkpoint: str, weights: str, precision: str, json: bool
) -> None:
    from nmt.evaluate.labels import corpus_of_classifier, evaluate_classifier, reports_json
    from nmt.evaluate.run import choose_splits
    from nmt.translate.classification import Classifier

    classifier = Classifier.load(path, checkpoint, weights, precision=precision)
    corpus = corpus_of_classifier(classifier, data)
    reports = [evaluate_classifier(classifier, corpus, name) for name in choose_splits(corpus, splits)]
    if json:
        print(reports_json(reports))
        return
    for report in reports:
        for line in report.lines():
            print(line)


def _outputs(output: Path | None, splits: Sequence[str], language: str) -> dict[str, Path | None]:
    """Return the file for the translations of each split: `output` for one, in a directory of that name for several.

    Raises ConfigError for standard output and several splits, DataError if the directory cannot be made.
    """
    if output is None or len(splits) == 1:
        return dict.fromkeys(splits, output)
    if str(output) == "-":
        raise ConfigError([f"--output - takes one split, found {', '.join(splits)}; choose one with --split"])
    try:
        output.mkdir(exist_ok=True)
    except OSError as error:
        raise DataError(f"{output}: {error.strerror}; it is to be a directory for several files") from error
    return {split: output / f"{split}.{language}" for split in splits}


def _show_history(run: Path | None, splits: Sequence[str], json: bool) -> None:
    from nmt.cli.defaults import run_or_newest
    from nmt.evaluate.report import History
    from nmt.layout import RunDir
    from nmt.runs.info import read_scores

    directory = RunDir(run_or_newest(run))
    records = [record for record in read_scores(directory) if not splits or record.split in splits]
    if not records:
        of = f" of {', '.join(splits)}" if splits else ""
        raise CheckpointError(f"{directory.path}: no scores{of} yet; nmt evaluate records what it measures")
    history = History(records)
    print(history.json() if json else history.text())
