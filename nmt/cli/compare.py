"""`nmt compare`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.complete import runs as run_names
from nmt.cli.options import (
    BeamOption,
    CheckpointOption,
    CometCommandOption,
    CometOption,
    JsonOption,
    LowercaseOption,
    LowerIsBetterOption,
    PenaltyOption,
    PrecisionOption,
    RunDataOption,
    SearchOption,
    SplitOption,
    TokenizeOption,
    WeightsOption,
)
from nmt.errors import ConfigError

OF_RUNS = (
    "--ref F compares files: --hyp A B or --group NAME=A,B,C, without options of runs: --split, --data, --output, "
    "--beam, --length-penalty, --set, --checkpoint, --weights, --precision"
)


@app.command()
def compare(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN", help="Two or more run directories.", show_default=False, autocompletion=run_names
        ),
    ] = None,
    hyp: Annotated[
        list[Path] | None,
        typer.Option("--hyp", metavar="F...", help="Two or more files of translations to compare …"),
    ] = None,
    ref: Annotated[
        list[Path] | None,
        typer.Option("--ref", metavar="F...", help="… and their references; several files: several per line."),
    ] = None,
    src: Annotated[Path | None, typer.Option("--src", metavar="F", help="Source text of these files.")] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group", metavar="NAME=A,B,C", help="Runs or files that differ only in their seed; two or more groups."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="NAME", help="System to compare the others with.  [default: the first]"),
    ] = None,
    split: SplitOption = None,
    data: RunDataOption = None,
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
        typer.Option(
            "--segment-scores",
            metavar="NAME@SYSTEM=F",
            help="Also compare metric NAME, with SYSTEM's scores in F, one per line; give it for each system.",
        ),
    ] = None,
    lower_is_better: LowerIsBetterOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="DIR", help="Write the translations of each run into DIR.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="F", help="Also write a web page with all lines to F.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compare systems, with tests of significance.

    Runs translate the same split of their data directories; files of translations are compared with a file of
    references. BLEU, chrF and TER are shown with 95 % confidence intervals. Differences from the baseline are shown
    with an interval and a p-value, the probability of a difference at least as large between two equal systems. With
    several systems, p-values are corrected by Holm's method. A further column shows how often human judges agree with
    a difference of this size.

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
    from nmt.evaluate.comet import NeuralOptions, find_metrics
    from nmt.evaluate.compare.compare import compare as run_stage
    from nmt.evaluate.compare.screen import render_json, render_text
    from nmt.evaluate.compare.systems import (
        check_alike,
        find_baseline,
        group_members,
        grouped,
        names_of,
        read_systems,
        single_members,
        with_segment_scores,
    )
    from nmt.evaluate.metrics import check_tokenizer
    from nmt.files.write import open_output

    if sum(map(bool, (runs, hyp, group))) > 1:
        raise ConfigError(["RUN, --hyp and --group cannot be combined"])
    if (hyp or src) and not ref:
        raise ConfigError(["--hyp and --src need the references: --ref F"])
    check_tokenizer(tokenize)
    members = group_members(group) if group else single_members(runs or hyp or ())
    position = find_baseline(baseline, members)
    if comet and ref and not src:
        raise ConfigError(["--comet needs the source text of these files: --src F"])
    options = NeuralOptions(comet or (), comet_command, segment_scores or (), lower_is_better or ())
    neural = find_metrics(options, names_of(members))
    with nullcontext() if html is None else open_output(html) as page_file:
        if ref:
            of_runs = (split, data, output, beam, length_penalty, overrides, checkpoint, weights, precision)
            if runs or any(value not in (None, [], "best", "auto") for value in of_runs):
                raise ConfigError([OF_RUNS])
            text, systems = read_systems(members, ref, src)
        else:
            from nmt.cli.defaults import search_settings
            from nmt.evaluate.compare.runs import Translating, translate_runs

            how = Translating(
                lambda config: search_settings(config, beam, length_penalty, overrides or ()),
                split, data, checkpoint, weights, precision, output,
            )  # fmt: skip
            text, systems = translate_runs(members, how)
        text = check_alike(text, systems, lowercase)
        systems = with_segment_scores(text, systems, neural)
        comparison = run_stage(text, grouped(systems, members), position, lowercase=lowercase, tokenize=tokenize)
        if page_file is not None:
            from nmt.evaluate.compare.page import page

            page_file.write(page(comparison).encode())
    print(render_json(comparison) if json else render_text(comparison))
