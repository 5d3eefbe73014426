"""The commands for evaluation: `nmt evaluate`, `compare`, `calibrate`, `challenge` and `robustness`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
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
    PenaltyOption,
    PrecisionOption,
    RunDataOption,
    RunOption,
    RunsOption,
    SearchOption,
    SplitOption,
    TokenizeOption,
    ToOption,
    ViaOption,
    WeightsOption,
    option,
)
from nmt.cli.options import runs as run_names
from nmt.cli.refusals import HISTORY_ALONE, refuse
from nmt.config.foreign import did_you_mean, misspelt
from nmt.console import show
from nmt.errors import CheckpointError, ConfigError
from nmt.tables import Format, render

if TYPE_CHECKING:
    from nmt.evaluate.report import Report
    from nmt.runs.info import ScoreRecord
    from nmt.runs.model import ModelRef

SourceOption = Annotated[Path | None, option("--src", "Or use these files: the source …", "F")]
ReferenceOption = Annotated[Path | None, option("--ref", "… and its references.", "F")]


@app.command()
def evaluate(
    context: typer.Context,
    run: RunsOption = None,
    split: Annotated[
        list[str] | None,
        option("--split", "Split to translate; may be repeated.  [default: all test sets]", "NAME"),
    ] = None,
    hyp: Annotated[Path | None, option("--hyp", "File of translations to score …", "F")] = None,
    ref: Annotated[
        list[Path] | None,
        option("--ref", "… against this file of references; may be repeated.", "F"),
    ] = None,
    data: RunDataOption = None,
    to: ToOption = None,
    from_: FromOption = None,
    via: ViaOption = None,
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
        option("--src", "File to translate and score against --ref; or the source of --hyp.", "F"),
    ] = None,
    comet: CometOption = None,
    comet_command: CometCommandOption = None,
    segment_scores: Annotated[
        list[str] | None,
        option(
            "--segment-scores",
            "Also show the mean of the scores in F (one per line) as metric NAME; may be repeated.",
            "NAME=F",
        ),
    ] = None,
    lower_is_better: LowerIsBetterOption = None,
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
    from nmt.evaluate.comet import find_metrics
    from nmt.evaluate.report import SYSTEM, evaluate_files, with_neural_metrics

    if history:
        _show_history(run or (), split or (), format_)
        return
    neural = find_metrics([SYSTEM], comet or (), comet_command, segment_scores or (), lower_is_better or ())
    if hyp is not None and ref:
        print(_rendered([evaluate_files(hyp, ref, lowercase, tokenize, src, neural, to)], (), format_))
        return

    from nmt.cli.defaults import resolve_models, search_settings
    from nmt.evaluate.run import (
        corpus_of,
        evaluate_run,
        evaluate_run_on_files,
        record_scores,
        texts_of,
    )
    from nmt.files.write import open_output
    from nmt.runs.model import ModelRef
    from nmt.translate.translator import Translator

    paths = resolve_models(run, None)
    model = ModelRef(paths, checkpoint, weights)
    if _is_classifier(paths):
        refuse(context, "classifier", path=paths[0])
        _evaluate_classifier(model, data, split or (), precision, format_)
        return
    translator = Translator.load(model, precision=precision)
    if src or via:
        translator = translator.towards(to, from_, via)
        translators = [translator]
    else:
        translators = translator.by_direction(to, from_)
    search = search_settings(translators[0].config, beam, length_penalty, overrides)
    texts = {} if src else texts_of(translators, lambda one: corpus_of(one, data), split or ())
    names = {label: f"{each.split}.{each.translator.config.data.translation_suffix}" for label, each in texts.items()}
    names = names or {str(src): str(src)}
    if len(names) > 1:
        refuse(context, "several-texts", names=", ".join(names))

    if samples is None:
        samples = 5 if format_ == "text" and sys.stdout.isatty() else 0
    reports, records = [], []
    for label, path in _outputs(output, names).items():
        with nullcontext() if path is None else open_output(path) as file:
            if src:
                evaluation = evaluate_run_on_files(translator, src, ref or (), search, lowercase, tokenize)
            else:
                evaluation = evaluate_run(*texts[label], search, lowercase, tokenize)
            if file is not None:
                file.writelines(f"{line}\n".encode() for line in evaluation.translations)
        reports.append(
            with_neural_metrics(
                evaluation.report, neural, evaluation.sources, evaluation.references, evaluation.translations
            )
        )
        if label in texts and translator.origin is not None:
            records.append(record_scores(reports[-1], translator.origin, texts[label].corpus))
        if samples and len(names) > 1:
            print(f"split {label}")
        for line in evaluation.samples(samples):
            print(line)
    print(_rendered(reports, records, format_))


def _rendered(reports: Sequence[Report], records: Sequence[ScoreRecord], how: Format) -> str:
    """Format the report of one text, or a table of several and the means over directions of the recorded ones."""
    from nmt.evaluate.report import History, as_json, macro_averages, render_text, score_table

    objects = [as_json(report) for report in reports]
    if len(reports) == 1:
        return render(how, [score_table(reports, render_text(*reports))], *objects)
    means = macro_averages(records)
    table = score_table(reports, "\n".join([render("text", [History(records).table()], None), *means]))
    return render(how, [replace(table, notes=[*table.notes, *means])], objects)


def _is_classifier(paths: Sequence[Path]) -> bool:
    """Return whether `paths` is a single run of a classifier."""
    from nmt.config.load import load_saved_config
    from nmt.layout import RunDir

    config = RunDir(paths[0]).config
    return len(paths) == 1 and config.is_file() and load_saved_config(config).training.facts.classifies


def _evaluate_classifier(
    model: ModelRef, data: Path | None, splits: Sequence[str], precision: str, how: Format
) -> None:
    from nmt.evaluate.classification import Classifier, evaluate_classifier
    from nmt.evaluate.report import score_table
    from nmt.evaluate.run import choose_splits, open_corpus
    from nmt.layout import RunDir

    classifier = Classifier.load(model, precision=precision)
    corpus = open_corpus(RunDir(model.path), classifier.config.data.sides, data)
    reports = [evaluate_classifier(classifier, corpus, name) for name in choose_splits(corpus, splits)]
    text = "\n".join(line for report in reports for line in report.lines())
    objects = [report.json() for report in reports]
    table = score_table([report.report for report in reports], text)
    print(render(how, [table], objects[0] if len(objects) == 1 else objects))


def _outputs(output: Path | None, names: Mapping[str, str]) -> dict[str, Path | None]:
    """Return the output file of each text: `output`, or for several texts a file of the given name in that directory.

    Raises ConfigError for several texts on standard output, DataError if the directory cannot be created.
    """
    from nmt.files.write import writing

    if output is None or len(names) == 1:
        return dict.fromkeys(names, output)
    if str(output) == "-":
        raise ConfigError(
            f"--output - needs one split, found {', '.join(names)}; choose it with --split, --to and --from"
        )
    with writing(output, "; a directory is needed for several files"):
        output.mkdir(exist_ok=True)
    return {label: output / name for label, name in names.items()}


def _show_history(runs: Sequence[Path], splits: Sequence[str], how: Format) -> None:
    from nmt.cli.defaults import run_or_newest
    from nmt.evaluate.report import History
    from nmt.layout import RunDir
    from nmt.runs.info import read_scores

    if len(runs) > 1:
        raise ConfigError(HISTORY_ALONE)
    directory = RunDir(run_or_newest(runs[0] if runs else None))
    records = [record for record in read_scores(directory) if not splits or record.split in splits]
    if not records:
        of = f" of {', '.join(splits)}" if splits else ""
        raise CheckpointError(f"{directory.path}: no scores{of} recorded yet; run nmt evaluate first")
    history = History(records)
    print(render(how, [history.table()], history.json()))


@app.command()
def compare(
    context: typer.Context,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN", help="Two or more run directories.", autocompletion=run_names),
    ] = None,
    hyp: Annotated[
        list[Path] | None,
        option("--hyp", "Two or more files of translations to compare …", "F..."),
    ] = None,
    ref: Annotated[
        list[Path] | None,
        option("--ref", "… and their references; several files: several per line.", "F..."),
    ] = None,
    src: Annotated[Path | None, option("--src", "Source text of these files.", "F")] = None,
    group: Annotated[
        list[str] | None,
        option("--group", "Runs or files that differ only in their seed; two or more groups.", "NAME=A,B,C"),
    ] = None,
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
    overrides: SearchOption = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
    lowercase: LowercaseOption = False,
    tokenize: TokenizeOption = None,
    comet: CometOption = None,
    comet_command: CometCommandOption = None,
    segment_scores: Annotated[
        list[str] | None,
        option(
            "--segment-scores",
            "Also compare metric NAME, with SYSTEM's scores in F, one per line; give it for each system.",
            "NAME@SYSTEM=F",
        ),
    ] = None,
    lower_is_better: LowerIsBetterOption = None,
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
    from nmt.evaluate.compare.compare import compare as run_stage
    from nmt.evaluate.compare.screen import as_json, as_tables
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
    from nmt.runs.model import ModelRef

    check_tokenizer(tokenize)
    members = group_members(group) if group else single_members(runs or hyp or ())
    if group:
        check_groups(members)
    position = find_baseline(baseline, members)
    names = distinct_names(all_paths(members))
    neural = find_metrics(names, comet or (), comet_command, segment_scores or (), lower_is_better or ())
    settings = Translating(
        lambda config: search_settings(config, beam, length_penalty, overrides),
        split, data, ModelRef(checkpoint=checkpoint, weights=weights, to=to, source=from_), precision, output,
        lowercase,
    )  # fmt: skip
    directions = [settings] if ref else for_directions(members, settings)
    if len(directions) > 1:
        refuse(context, "several-directions")
    comparisons = []
    with nullcontext() if html is None else open_output(html) as page_file:
        for direction in directions:
            if ref:
                text, groups = read_systems(members, ref, src, to, lowercase)
            else:
                text, groups = translate_runs(members, direction)
            groups = with_segment_scores(text, groups, neural)
            comparison = run_stage(text, groups, position, lowercase=lowercase, tokenize=tokenize)
            if page_file is not None:
                from nmt.evaluate.compare.page import page

                page_file.write(page(comparison).encode())
            comparisons.append(comparison)
    objects = [as_json(comparison) for comparison in comparisons]
    print(render(format_, as_tables(comparisons), objects[0] if len(objects) == 1 else objects))


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
    overrides: SearchOption = None,
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
    from nmt.evaluate.run import read_split
    from nmt.figures.attention import check_picture, save_picture
    from nmt.runs.model import ModelRef
    from nmt.translate.translator import Translator

    if plot is not None:
        check_picture(plot)
    path = run_or_newest(run)
    translator = Translator.load(ModelRef((path,), checkpoint, weights), precision=precision).towards(to, from_)
    search = search_settings(translator.config, beam, length_penalty, overrides)
    opposite = None
    if reverse is not None:
        backwards = "-".join(reversed(translator.config.data.sides))
        opposite = reverse, Translator.load_for(backwards, "--reverse", [reverse], precision)
    text = read_split(translator, data, split, source, reference)
    search = search.with_tags(translator.config.data.tags_of(text[0]))
    calibrated = run_calibration(translator, search, text, opposite, samples)
    show(*calibrated.lines())
    if plot is not None:
        save_picture(draw_reliability(calibrated.by_map["PyTorch"], text[0]), plot)
    show(f"wrote {calibrated.path}; nmt translate --confidence uses it")


@app.command()
def challenge(
    run: RunsOption = None,
    split: Annotated[str | None, option("--split", "Split to change.  [default: the only test set]", "NAME")] = None,
    data: RunDataOption = None,
    source: SourceOption = None,
    reference: Annotated[Path | None, option("--ref", "… its correct translations …", "F")] = None,
    contrastive: Annotated[Path | None, option("--contrastive", "… and, optionally, wrong translations.", "F")] = None,
    pairs: Annotated[Path | None, option("--pairs", "Or use a JSON file of LingEval97 or ContraPro.", "F")] = None,
    context: Annotated[int, option("--context", "Score lines after N lines before them.", "N", min=0)] = 0,
    documents: Annotated[Path | None, option("--documents", "… from this folder of ContraPro.", "DIR")] = None,
    to: ToOption = None,
    from_: FromOption = None,
    seed: Annotated[int, option("--seed", "Random seed of the changes.", "N")] = 1,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
    samples: Annotated[int, option("--samples", "Also show N failures of each kind, worst first.", "N", min=0)] = 0,
    output: Annotated[Path | None, option("--output", "Write all pairs and their scores to F, as JSON.", "F")] = None,
    format_: FormatOption = "text",
) -> None:
    """Test a model with contrastive translations.

    Measures how often the model prefers a wrong translation to the correct one. Creates wrong translations of a test
    set by changing one thing in a reference: a number, a negation (removed or inserted), letters of a name, or an
    omitted clause; in German also the gender of an article, the number of a verb, and a pronoun for "It" at the start,
    and in English the number of a verb. A line has at most one pair of each kind. The result is the share of pairs, by
    kind, in which the model finds the reference more probable than the changed translations. With --context, a model
    trained with training.modifiers.join reads the sentences before, which may name what a pronoun stands for.

    As in LingEval97, log-probabilities are summed over all pieces; a second column compares means per piece. Some kinds
    need word lists, which exist for the target languages de and en. Pairs are created by rules, and some of the changed
    translations may be correct: check them with --samples and --output.

    --output writes the format of LingEval97 with the log-probability of each line, which other toolkits can score and
    --pairs can read.

    \b
    Examples:
      nmt challenge --run runs/multi30k-de-en --samples 3
      nmt challenge --src news.en --ref news.de --output pairs.json
      nmt challenge --pairs lingeval97.json
      nmt challenge --src test.en --ref test.de --contrastive wrong.de --format json
      nmt challenge --pairs contrapro.json --context 1 --documents ContraPro/documents
    """
    from nmt.cli.defaults import resolve_models
    from nmt.evaluate.challenge import (
        as_json,
        as_table,
        challenge_run,
        contrasts_json,
        of_files,
        of_published,
        of_split,
    )
    from nmt.files.write import open_output, refuse_overwriting
    from nmt.runs.model import ModelRef
    from nmt.translate.translator import Translator

    refuse_overwriting([output], [source, reference, contrastive, pairs])
    with nullcontext() if output is None else open_output(output) as file:
        translator = Translator.load(
            ModelRef(resolve_models(run, None), checkpoint, weights, to, from_), precision=precision
        )
        src, tgt = translator.config.data.sides
        if pairs is not None:
            given = of_published(pairs, documents, (src, tgt), context)
        elif source is not None and reference is not None:
            given = of_files(source, reference, contrastive, tgt, seed, context)
        else:
            given = of_split(translator, data, split, seed, context)
        report = challenge_run(translator, given)
        if file is not None:
            file.write(contrasts_json(report.outcomes).encode())
    print(*report.failures(samples), render(format_, [as_table(report)], as_json(report)), sep="\n")


@app.command()
def robustness(
    run: RunsOption = None,
    split: SplitOption = None,
    data: RunDataOption = None,
    source: SourceOption = None,
    reference: ReferenceOption = None,
    to: ToOption = None,
    from_: FromOption = None,
    changes: Annotated[
        str | None,
        option("--changes", "Kinds of changes.  [default: all that apply to the source language]", "A,B"),
    ] = None,
    rates: Annotated[str, option("--rates", "Percentages of places to change.", "R,S")] = "1,5,10",
    lines: Annotated[int | None, option("--lines", "Use N evenly spread lines.  [default: all]", "N", min=1)] = None,
    seed: Annotated[int, option("--seed", "Random seed of the places.", "N")] = 1,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    overrides: SearchOption = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
    output: Annotated[Path | None, option("--output", "Write all sources and translations to DIR.", "DIR")] = None,
    format_: FormatOption = "text",
) -> None:
    """Measure robustness to typos, changed case and the like.

    Translates a test set in its original and changed forms. Reports chrF and BLEU against the references, the share of
    chrF that is retained, chrF between the two translations, and how many translations are empty, copied, repetitive,
    or far too long or short.

    \b
    Kinds of changes, and the places at which they can apply:
      typos                letters inside words of at least four letters: swapped with the
                           next, omitted, doubled, or replaced by a neighbour on the keyboard
      upper_case           words, converted to capitals
      lower_case           words with a capital
      title_case           words that start with a small letter
      punctuation_removed  punctuation marks
      punctuation_changed  punctuation marks with an alternative, such as . and !, or “ and "
      umlauts              words with ä, ö, ü or ß, written with ae, oe, ue, ss (German source)
      accents              words of Latin or Greek letters with accents (other sources)

    A rate of 5 changes 5 % of all places. The choice depends only on the seed and the line, and a higher rate changes
    the same places and more. URLs, numbers, tags and the like are not changed. A line that remains the same under
    several changes is translated once.

    \b
    Examples:
      nmt robustness --run runs/multi30k-de-en
      nmt robustness --changes typos,umlauts --rates 5,20 --lines 200 --beam 1
      nmt robustness --src news.de --ref news.en --output changed --format json
    """
    from nmt.cli.defaults import resolve_models, search_settings
    from nmt.evaluate.robustness import (
        Plan,
        Report,
        as_json,
        as_table,
        default_changes,
        measure_run,
        read_text,
        write_texts,
    )
    from nmt.evaluate.run import subject_of
    from nmt.files.write import refuse_overwriting, writing
    from nmt.runs.model import ModelRef
    from nmt.translate.translator import Translator

    chosen, percentages = _changes(changes), _rates(rates)
    if output is not None:
        with writing(output, "; a directory is needed for several files"):
            output.mkdir(parents=True, exist_ok=True)
    model = ModelRef(resolve_models(run, None), checkpoint, weights, to, from_)
    translator = Translator.load(model, precision=precision)
    search = search_settings(translator.config, beam, length_penalty, overrides)
    translator.check(search, 1)
    whole = read_text(translator, data, split, source, reference)
    text = whole if lines is None else whole.sampled(lines)
    plan = Plan(chosen or default_changes(text.languages[0]), percentages, seed)
    if output is not None:
        names = ["original", *(f"{change}-{rate:g}" for change in plan.changes for rate in plan.rates)]
        outputs = [output / f"{name}.{language}" for name in names for language in text.languages]
        refuse_overwriting(outputs, [source, reference])
    measured = measure_run(translator, search, text, plan)
    if output is not None:
        write_texts(output, measured, text.languages)
    place = {"split": text.name} if source is None else {"ref": text.name}
    subject = subject_of(translator, search, **place)
    report = Report(subject, len(text.sources), len(whole.sources), plan, measured)
    print(render(format_, [as_table(report)], as_json(report)))


def _changes(given: str | None) -> tuple[str, ...]:
    """Return the kinds of changes in the value of --changes; none if the option is not given. Raises ConfigError."""
    from nmt.evaluate.robustness import CHANGES

    names = tuple(dict.fromkeys(given.split(","))) if given is not None else ()
    for name in names:
        if name not in CHANGES:
            meant = did_you_mean(misspelt(name, CHANGES)) or f"; choose from {', '.join(CHANGES)}"
            raise ConfigError(f"--changes {given}: no such kind of change: {name!r}{meant}")
    return names


def _rates(given: str) -> tuple[float, ...]:
    """Return the percentages in the value of --rates. Raises ConfigError."""
    try:
        rates = tuple(dict.fromkeys(float(rate) for rate in given.split(",")))
    except ValueError:
        rates = (0.0,)
    if not all(0 < rate <= 100 for rate in rates):
        raise ConfigError(f"--rates {given}: must be percentages above 0 and at most 100, such as 1,5,10")
    return rates
