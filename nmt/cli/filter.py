"""`nmt filter`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import CheckpointOption, PrecisionOption, ReverseOption, RunOption, WeightsOption
from nmt.console import say
from nmt.errors import ConfigError


@app.command("filter")
def filter_pairs(
    reverse: ReverseOption,
    source: Annotated[Path, typer.Option("--src", metavar="F", help="Text in the source language of --run …")],
    target: Annotated[Path, typer.Option("--tgt", metavar="F", help="… and in its target language, line by line.")],
    run: RunOption = None,
    output: Annotated[
        str | None, typer.Option("--output", metavar="F|-", help="Write the scores to F, - for standard output.")
    ] = None,
    keep: Annotated[
        float | None, typer.Option("--keep", metavar="SHARE", help="Keep this share of the pairs, such as 0.75 …")
    ] = None,
    min_score: Annotated[
        float | None, typer.Option("--min-score", metavar="X", help="… or all with at least this score.")
    ] = None,
    kept: Annotated[
        list[Path] | None,
        typer.Option("--kept", metavar="F F", help="Write both sides of the pairs that are kept to these two files."),
    ] = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Score the pairs of noisy parallel text by two runs of opposite directions, and keep the best.

    Dual conditional cross-entropy (Junczys-Dowmunt, 2018): with A the cross-entropy per piece of the target given the
    source, and B that of the source given the target, the score is exp(-(|A - B| + (A + B) / 2)), between 0 and 1. It
    is high if both runs find the pair probable, and about equally so. Train the runs on text that is clean, and as like
    the noisy text as possible.

    --output has a score for each line, in order, which nmt prepare reads: name it in score of a training corpus, and
    the threshold in clean.min_score. --kept writes the pairs that are kept, in their order; without it the number and
    the threshold are only told. Of pairs with the same score, --keep takes the first.

    A pair with a blank side has score 0 and is never kept. If a line is too long for a model, only its start is scored.
    Both are counted on standard error, with quantiles of the scores. The texts are read more than once, so they cannot
    be pipes.

    \b
    Examples:
      nmt filter --run runs/de-en --reverse runs/en-de --src web.de --tgt web.en --output web.scores
      nmt filter --run runs/de-en --reverse runs/en-de --src web.de --tgt web.en --output web.scores --keep 0.75
      nmt filter --reverse runs/en-de --src web.de --tgt web.en --min-score 0.05 --kept kept.de kept.en
    """
    if problem := _problem(output, keep, min_score, kept):
        raise ConfigError([problem])

    import numpy as np

    from nmt.cli.defaults import run_or_newest
    from nmt.console import Progress
    from nmt.files.write import open_output, refuse_overwriting
    from nmt.translate.filter import (
        at_least,
        best,
        check_opposite,
        collect_scores,
        count_pairs,
        dual_cross_entropy,
        kept_message,
        write_kept,
    )
    from nmt.translate.score import read_pairs
    from nmt.translate.translator import Translator

    refuse_overwriting([output, *(kept or ())], [source, target])
    n_pairs = count_pairs(source, target)
    run = run_or_newest(run)
    if run.resolve() == reverse.resolve():
        raise ConfigError([f"--run {run} and --reverse {reverse} are the same run: name two of opposite directions"])
    with ExitStack() as opened:
        scores_file = opened.enter_context(open_output(output)) if output is not None else None
        kept_files = [opened.enter_context(open_output(path)) for path in kept or ()]
        forward, backward = (Translator.load(path, checkpoint, weights, precision=precision) for path in (run, reverse))
        check_opposite(forward, backward, reverse)
        # of each pair two, by either run
        with Progress("scoring", 2 * n_pairs, "scores", shown=output != "-") as progress:
            pairs = read_pairs(source, target)
            scores = collect_scores(dual_cross_entropy(forward, backward, pairs, progress), scores_file)
        values = np.asarray(scores.values)
        messages = [*scores.lines()]
        if keep is not None or min_score is not None:
            is_kept = best(values, keep) if keep is not None else at_least(values, min_score or 0.0)
            messages.append(kept_message(values, is_kept))
            if kept_files:
                write_kept(read_pairs(source, target), is_kept, kept_files)
    for message in messages:
        say(message)


def _problem(output: str | None, keep: float | None, min_score: float | None, kept: list[Path] | None) -> str | None:
    """Return what is wrong with the options, None if nothing is."""
    if keep is not None and min_score is not None:
        return "--keep and --min-score: give one of them"
    if keep is not None and not 0 < keep <= 1:
        return f"--keep {keep:g}: must be a share above 0 and at most 1, such as 0.75 for three quarters of the pairs"
    if min_score is not None and not 0 <= min_score <= 1:
        return f"--min-score {min_score:g}: must be between 0 and 1, as the scores are"
    if kept and keep is None and min_score is None:
        return "--kept needs --keep SHARE or --min-score X, which say what is kept"
    if kept and (len(kept) != 2 or Path("-") in kept):
        return f"--kept takes two files, for source and target, found {' '.join(map(str, kept))}"
    if output is None and not kept:
        return "nothing to write: give --output F for the scores, or --keep SHARE --kept F F for the best pairs"
    return None
