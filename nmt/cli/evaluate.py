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

HISTORY_ALONE = "--history can be combined only with one --run, --split and --json"
FILES_ALONE = (
    "--hyp F and --ref F must be given together, without options of a run: --run, --split, --data, --output, "
    "--samples, --beam, --length-penalty, --set, --checkpoint, --weights, --precision"
)

CLASSIFIER_ALONE = (
    "is a classifier, for which only --split, --data, --checkpoint, --weights, --precision, --json and --history are "
    "available; nmt classify writes labels"
)


@app.command()
def evaluate(
    run: RunsOption = None,
    split: Annotated[
        list[str] | None,
        typer.Option("--split", metavar="NAME", help="Split to translate; may be repeated.  [default: all test sets]"),
    ] = None,
    hyp: Annotated[Path | None, typer.Option("--hyp", metavar="F", help="File of translations to score …")] = None,
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
        typer.Option("--src", metavar="F", help="File to translate and score against --ref; or the source of --hyp."),
    ] = None,
    comet: CometOption = None,
    comet_command: CometCommandOption = None,
    segment_scores: Annotated[
        list[str] | None,
        typer.Option(
            "--segment-scores",
            metavar="NAME=F",
            help="Also show the mean of the scores in F (one per line) as metric NAME; may be repeated.",
        ),
    ] = None,
    lower_is_better: LowerIsBetterOption = None,
    samples: Annotated[int, typer.Option("--samples", metavar="N", min=0, help="Also show N translations.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", metavar="F", help="Write the translations to F.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Only show the scores recorded so far.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object, or a list for several splits.")] = False,
) -> None:
    """Score translations with BLEU, chrF and TER (sacrebleu).

    By default, a run or an ensemble of runs translates the test sets of its data directory, or the splits given by
    --split (the name of a test set, valid, train, or all for all test sets). Scores of several splits are shown as a
    table, and --output F is then a directory for the translations, F/SPLIT.LANGUAGE.

    --src F and --ref F score a run on other files: it translates the one and is scored against the other. These scores
    are not recorded. --hyp F and --ref F score a file of translations. With several --ref files, each line has several
    references (nrefs in the signature).

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
        raise ConfigError(["--comet needs the source text of --hyp: --src F"])
    if src and not (comet if hyp else ref):
        raise ConfigError(["--src F needs --ref F (to translate and score it), or --hyp, --ref and --comet"])
    if src and not hyp and (split or data):
        raise ConfigError(["--src F and --ref F cannot be combined with --split and --data"])
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
        raise ConfigError(
            [f"--segment-scores needs a single split, found {', '.join(outputs)}; choose it with --split"]
        )
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
    """Whether these paths are a single run with a classifier."""
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
    """Return the output file of each split: `output` for a single split, files in the directory `output` for several.

    Raises ConfigError for several splits on standard output, DataError if the directory cannot be created.
    """
    if output is None or len(splits) == 1:
        return dict.fromkeys(splits, output)
    if str(output) == "-":
        raise ConfigError([f"--output - needs one split, found {', '.join(splits)}; choose it with --split"])
    try:
        output.mkdir(exist_ok=True)
    except OSError as error:
        raise DataError(f"{output}: {error.strerror}; a directory is needed for several files") from error
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
        raise CheckpointError(f"{directory.path}: no scores{of} recorded yet; nmt evaluate records scores")
    history = History(records)
    print(history.json() if json else history.text())
