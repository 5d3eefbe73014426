"""The command `nmt compare`."""

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
    FormatOption,
    FromOption,
    LowercaseOption,
    LowerIsBetterOption,
    PenaltyOption,
    PrecisionOption,
    RunDataOption,
    SearchOption,
    SplitOption,
    TokenizeOption,
    ToOption,
    WeightsOption,
    option,
)
from nmt.cli.options import runs as run_names
from nmt.cli.refusals import refuse
from nmt.tables import render


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
