"""`nmt evaluate`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import (
    BeamOption,
    CheckpointOption,
    CometCommandOption,
    CometOption,
    LowerIsBetterOption,
    PenaltyOption,
    PrecisionOption,
    RunsOption,
    SearchOption,
    WeightsOption,
)
from nmt.errors import ConfigError

FILES_ALONE = (
    "--hyp F and --ref F must be given together, without options of a run: --run, --split, --data, --output, "
    "--samples, --beam, --length-penalty, --set, --checkpoint, --weights, --precision"
)


@app.command()
def evaluate(
    run: RunsOption = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="Split to translate.  [default: the only test set]")
    ] = None,
    hyp: Annotated[Path | None, typer.Option("--hyp", metavar="F", help="Score this file of translations …")] = None,
    ref: Annotated[
        list[Path] | None,
        typer.Option("--ref", metavar="F", help="… against this file of references; may be repeated."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Data directory.  [default: the run's]")
    ] = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    overrides: SearchOption = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Ignore case, for comparison with papers that do.")
    ] = False,
    tokenize: Annotated[
        str | None, typer.Option("--tokenize", metavar="NAME", help="BLEU's tokenizer: 13a, intl, zh, char or none.")
    ] = None,
    src: Annotated[
        Path | None, typer.Option("--src", metavar="F", help="File of sources for --comet, with --hyp and --ref.")
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
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score translations: BLEU, chrF and TER by sacrebleu.

    Either a run, or an ensemble of several, translates a split of its data directory (a test set, valid or train); or a
    file of translations is scored against a file of references. Several reference files are several references for
    each line (nrefs in the signature).

    Scores are cased and on raw text. Each comes with a signature that says how it was computed; scores with different
    signatures cannot be compared. TER is cased, too: the sacrebleu command ignores case by default
    (--ter-case-sensitive).

    \b
    Examples:
      nmt evaluate
      nmt evaluate --run runs/multi30k-de-en --split valid --beam 1
      nmt evaluate --hyp news.en --ref news.ref.en --json
      nmt evaluate --hyp news.en --ref news.ref.en --src news.de --comet Unbabel/wmt22-comet-da
    """
    from nmt.evaluate.neural import NeuralOptions, find_metrics
    from nmt.evaluate.report import SYSTEM, evaluate_files, render_json, render_text, with_neural_metrics

    if comet and hyp and src is None:
        raise ConfigError(["--comet needs the sources of --hyp: --src F"])
    if src and not (comet and hyp):
        raise ConfigError(["--src F is for --comet with --hyp and --ref; a run has its sources"])
    options = NeuralOptions(comet or (), comet_command, segment_scores or (), lower_is_better or ())
    neural = find_metrics(options, [SYSTEM])
    render = render_json if json else render_text
    if hyp is not None or ref:
        of_a_run = (run, split, data, output, samples, beam, length_penalty, overrides, checkpoint, weights, precision)
        if hyp is None or not ref or any(value not in (None, 0, [], "best", "auto") for value in of_a_run):
            raise ConfigError([FILES_ALONE])
        print(render(evaluate_files(hyp, ref, lowercase, tokenize, src, neural)))
        return
    if json and samples:
        raise ConfigError(["--samples cannot be combined with --json; --output F writes all translations"])

    from nmt.cli.defaults import resolve_models, search_settings
    from nmt.evaluate.run import evaluate_run
    from nmt.files.write import open_output
    from nmt.translate.translator import Translator

    with nullcontext() if output is None else open_output(output) as file:
        translator = Translator.load(resolve_models(run, None), checkpoint, weights, precision=precision)
        search = search_settings(translator.config, beam, length_penalty, overrides or ())
        evaluation = evaluate_run(translator, data, split, search, lowercase, tokenize)
        if file is not None:
            file.writelines(f"{line}\n".encode() for line in evaluation.translations)
    texts = evaluation.sources, evaluation.references, evaluation.translations
    report = with_neural_metrics(evaluation.report, neural, *texts)
    print(*evaluation.samples(samples), render(report), sep="\n")
