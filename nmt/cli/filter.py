"""`nmt filter`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.complete import runs
from nmt.cli.options import CheckpointOption, PrecisionOption, RunOption, WeightsOption
from nmt.console import say
from nmt.errors import ConfigError


@app.command("filter")
def filter_pairs(
    source: Annotated[Path, typer.Option("--src", metavar="F", help="Source side of the pairs …")],
    target: Annotated[Path, typer.Option("--tgt", metavar="F", help="… and target side, line by line.")],
    run: RunOption = None,
    reverse: Annotated[
        Path | None,
        typer.Option("--reverse", metavar="RUN", help="Run from target to source.", autocompletion=runs),
    ] = None,
    classifier: Annotated[
        Path | None,
        typer.Option("--classifier", metavar="RUN", help="Run trained with training.pair_task.", autocompletion=runs),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", metavar="F|-", help="Write the scores to F, - for standard output.")
    ] = None,
    keep: Annotated[
        float | None, typer.Option("--keep", metavar="SHARE", help="Keep this share of the pairs, such as 0.75 …")
    ] = None,
    min_score: Annotated[
        float | None, typer.Option("--min-score", metavar="X", help="… or all pairs with at least this score.")
    ] = None,
    kept: Annotated[
        list[Path] | None,
        typer.Option("--kept", metavar="F F", help="Write source and target of the kept pairs to these files."),
    ] = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Score noisy parallel text and keep the best pairs.

    --run and --reverse compute dual conditional cross-entropy (Junczys-Dowmunt, 2018). With A the cross-entropy per
    piece of the target given the source, and B that of the source given the target, the score is
    exp(-(|A - B| + (A + B) / 2)), between 0 and 1. It is high if both runs find the pair about equally probable. Train
    the runs on clean text that resembles the noisy text.

    --classifier takes a run trained with training.pair_task to recognise translations. With x the log-odds that a pair
    is a translation, the score is (1 + x / (1 + |x|)) / 2, which is above 0.5 if that is more likely than not. If both
    methods are given, the score is the mean of the pair's two percentile ranks.

    --output writes one score per line. To use it in nmt prepare, name the file in score of a training corpus and set a
    threshold with clean.min_score. --kept writes the pairs that are kept, in their original order; without it, only
    their number and the threshold are reported. Among pairs with equal scores, --keep prefers the first.

    A pair with a blank side has score 0 and is never kept. If a line is too long for a model, only its start is scored.
    Both cases are counted on standard error, together with quantiles of the scores. The input is read more than once,
    so it cannot be a pipe.

    \b
    Examples:
      nmt filter --run runs/de-en --reverse runs/en-de --src web.de --tgt web.en --output web.scores
      nmt filter --run runs/de-en --reverse runs/en-de --src web.de --tgt web.en --output web.scores --keep 0.75
      nmt filter --reverse runs/en-de --src web.de --tgt web.en --min-score 0.05 --kept kept.de kept.en
      nmt filter --classifier runs/pairs --src web.de --tgt web.en --keep 0.75 --kept kept.de kept.en
    """
    if problem := _problem_of_runs(run, reverse, classifier) or _problem(output, keep, min_score, kept):
        raise ConfigError([problem])

    import numpy as np

    from nmt.cli.defaults import run_or_newest
    from nmt.console import Progress
    from nmt.files.write import open_output, refuse_overwriting
    from nmt.translate.filter import (
        PairClassifier,
        agreed,
        at_least,
        best,
        check_opposite,
        check_same_direction,
        classified,
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
    if reverse is not None:
        run = run_or_newest(run)
        if run.resolve() == reverse.resolve():
            raise ConfigError(
                [f"--run {run} and --reverse {reverse} are the same run; name two runs of opposite directions"]
            )
    with ExitStack() as opened:
        scores_file = opened.enter_context(open_output(output)) if output is not None else None
        kept_files = [opened.enter_context(open_output(path)) for path in kept or ()]
        forward, backward = (
            Translator.load(path, checkpoint, weights, precision=precision) if path is not None else None
            for path in (run, reverse)
        )
        judge = PairClassifier.load(classifier, checkpoint, weights, precision) if classifier is not None else None
        if forward is not None and backward is not None and reverse is not None:
            check_opposite(forward, backward, reverse)
            if judge is not None and classifier is not None:
                check_same_direction(forward, judge, classifier)
        # one score per pair and run
        n_scores = n_pairs * sum(each is not None for each in (forward, backward, judge))
        with Progress("scoring", n_scores, "scores", shown=output != "-") as progress:
            found = []
            if forward is not None and backward is not None:
                found.append(dual_cross_entropy(forward, backward, read_pairs(source, target), progress))
            if judge is not None:
                found.append(classified(judge, read_pairs(source, target), progress))
            if len(found) == 1:
                scores = collect_scores(found[0], scores_file)
            else:
                scores = agreed(collect_scores(found[0]), collect_scores(found[1]), scores_file)
        values = np.asarray(scores.values)
        messages = [*scores.lines()]
        if keep is not None or min_score is not None:
            is_kept = best(values, keep) if keep is not None else at_least(values, min_score or 0.0)
            messages.append(kept_message(values, is_kept))
            if kept_files:
                write_kept(read_pairs(source, target), is_kept, kept_files)
    for message in messages:
        say(message)


def _problem_of_runs(run: Path | None, reverse: Path | None, classifier: Path | None) -> str | None:
    """Return the problem of the choice of runs, or None."""
    if reverse is None and classifier is None:
        return "give --run and --reverse RUN, or --classifier RUN, or all of them"
    if reverse is None and run is not None:
        return "--run needs --reverse RUN, a run of the opposite direction; --classifier needs no other run"
    return None


def _problem(output: str | None, keep: float | None, min_score: float | None, kept: list[Path] | None) -> str | None:
    """Return the problem of the other options, or None."""
    if keep is not None and min_score is not None:
        return "--keep and --min-score cannot be combined"
    if keep is not None and not 0 < keep <= 1:
        return f"--keep {keep:g}: must be a share above 0 and at most 1, such as 0.75 for three quarters of the pairs"
    if min_score is not None and not 0 <= min_score <= 1:
        return f"--min-score {min_score:g}: must be between 0 and 1"
    if kept and keep is None and min_score is None:
        return "--kept needs --keep SHARE or --min-score X"
    if kept and (len(kept) != 2 or Path("-") in kept):
        return f"--kept takes two files, for source and target, found {' '.join(map(str, kept))}"
    if output is None and not kept:
        return "nothing to write: give --output F for the scores, or --keep SHARE --kept F F for the best pairs"
    return None
