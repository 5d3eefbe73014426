"""The commands for inspecting runs: `nmt runs` and `nmt plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import FormatOption, option
from nmt.cli.options import runs as run_names
from nmt.console import say, show
from nmt.tables import render


@app.command()
def runs(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Directory that contains runs.  [default: runs]"),
    ] = None,
    curve: Annotated[
        Path | None,
        option("--curve", "Print the learning curve of this run instead.", "RUN", autocompletion=run_names),
    ] = None,
    format_: FormatOption = "text",
) -> None:
    """List the runs and sweeps in a directory, newest first.

    The columns are state, last step, the used percentage of the limit that will end the run (training.max_steps,
    max_epochs or max_minutes, of which most is used so far), best BLEU on the development set (chrF if its references
    have too few four-grams for BLEU; accuracy or perplexity for runs that write no text), the most recent test score
    recorded by nmt evaluate (marked with an asterisk if it has a note, such as ignored case), training time, and time
    since the last record of training. The state is running (the last column names host and process), finished, stopped
    (nmt train --resume continues the run) or broken (the last column says what is damaged). Otherwise the last column
    has search.split, which says when lines are split into sentences.

    --curve RUN prints the validations of a run: minutes, steps, and BLEU on the development set for
    the weights as trained, their moving average and the average of the last checkpoints, if they exist. chrF and
    perplexity belong to the weights with the highest BLEU, or chrF as above. For runs that write no text, perplexity
    and accuracy are printed.

    \b
    Examples:
      nmt runs
      nmt runs experiments --format json
      nmt runs --curve runs/multi30k-de-en --format markdown
    """
    if curve is not None:
        from nmt.layout import RunDir
        from nmt.runs.log import curve_table, learning_curve

        table = curve_table(learning_curve(RunDir(curve)))
        print(render(format_, [table], table.records))
        return
    from nmt.runs.listing import as_json, as_table, summarise_all

    summaries = summarise_all(directory or Path("runs"))
    print(render(format_, [as_table(summaries)], as_json(summaries)))


@app.command()
def plot(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Run directories, or folders of runs.", autocompletion=run_names),
    ] = [],
    output: Annotated[Path, option("--output", "Image to write: .png, .pdf or .svg.", "FILE")] = Path("plot.png"),
    group: Annotated[
        list[str],
        option("--group", "Runs that differ only in their seed, drawn as their mean; may be repeated.", "NAME=A,B,C"),
    ] = [],
    panel: Annotated[
        list[str],
        option("--panel", "Panel to draw: loss, score or rate over steps, time or cpu; may be repeated.", "Y/X"),
    ] = [],
    columns: Annotated[
        int | None, option("--columns", "Draw for a paper, in the width of 1 or 2 columns.", min=1, max=2)
    ] = None,
) -> None:
    """Plot the learning curves of one or more runs.

    Shows loss on the training and development sets, BLEU on the development set (accuracy for runs that write no text)
    and learning rate, over steps and over training time. Losses exclude label smoothing and the pair task. They are in
    nats per token; for masked language models and masked spans per masked piece, and for classifiers per text. The
    image is readable in black and white. Long training curves are drawn as means, with their range in grey.

    A group of runs, such as those of several seeds, is drawn as its mean, with a band from its lowest to its highest
    run, at the steps that all of its runs have logged. In a group, the pattern 'runs/plain-*' stands for all matching
    runs.

    --panel score/cpu draws BLEU over CPU seconds of training: the CPU time of all updates, without validations and
    checkpoints, which other programs on the machine affect less than training time. Runs of earlier versions have not
    logged it.

    --columns 1 draws 3.3 inches wide, --columns 2 6.9 inches, in type of 7 points. In PDF and SVG, text remains text.

    \b
    Examples:
      nmt plot runs/sample-de-en
      nmt plot runs/multi30k-de-en runs/multi30k-en-de --output curves.pdf
      nmt plot runs/sweep-sample
      nmt plot --group plain=runs/plain-1,runs/plain-2 'simcut=runs/simcut-*' --panel score/cpu --columns 1
    """
    from nmt.evaluate.compare.systems import group_members
    from nmt.figures.curves import DEFAULT_PANELS
    from nmt.figures.curves import plot as draw

    for line in draw(runs, output, group_members(group), panel or DEFAULT_PANELS, columns):
        say(line)
    show(f"{output}: written")
