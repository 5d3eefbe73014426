"""`nmt challenge`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import CheckpointOption, JsonOption, PrecisionOption, RunDataOption, RunsOption, WeightsOption
from nmt.errors import ConfigError


@app.command()
def challenge(
    run: RunsOption = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="Split to change.  [default: the only test set]")
    ] = None,
    data: RunDataOption = None,
    source: Annotated[Path | None, typer.Option("--src", metavar="F", help="Or use these files: the source …")] = None,
    reference: Annotated[Path | None, typer.Option("--ref", metavar="F", help="… its correct translations …")] = None,
    contrastive: Annotated[
        Path | None, typer.Option("--contrastive", metavar="F", help="… and, optionally, wrong translations.")
    ] = None,
    pairs: Annotated[
        Path | None, typer.Option("--pairs", metavar="F", help="Or use a JSON file of LingEval97 or ContraPro.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Random seed of the changes.")] = 1,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", min=0, help="Also show N failures of each kind, worst first.")
    ] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="F", help="Write all pairs and their scores to F, as JSON.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Test a model with contrastive translations.

    Measures how often the model prefers a wrong translation to the correct one. Creates wrong translations of a test
    set by changing one thing in a reference: a number, a negation (removed or inserted), letters of a name, or an
    omitted clause; in German also the gender of an article and the number of a verb, and in English the number of a
    verb. A line has at most one pair of each kind. The result is the share of pairs, by kind, in which the model finds
    the reference more probable than the changed translation.

    As in LingEval97, log-probabilities are summed over all pieces; a second column compares means per piece. Some kinds
    need word lists, which exist for the target languages de, en, es and fr. Pairs are created by rules, and some of the
    changed translations may be correct: check them with --samples and --output.

    --output writes the format of LingEval97 with the log-probability of each line, which other toolkits can score and
    --pairs can read.

    \b
    Examples:
      nmt challenge --run runs/multi30k-de-en --samples 3
      nmt challenge --src news.en --ref news.de --output pairs.json
      nmt challenge --pairs lingeval97.json
      nmt challenge --src test.en --ref test.de --contrastive wrong.de --json
    """
    of_text, of_run = (source, reference), (split, data)
    if (source is None) != (reference is None) or (contrastive is not None and source is None):
        raise ConfigError(["--src F and --ref F must be given together, and --contrastive F only with them"])
    n_sets = sum((any(of_run), any(of_text), pairs is not None))
    if n_sets > 1:
        raise ConfigError(["--split and --data, --src and --ref, and --pairs cannot be combined"])
    if seed != 1 and (pairs is not None or contrastive is not None):
        raise ConfigError(["--seed: not available with --pairs or --contrastive, which need no changes"])
    if json and samples:
        raise ConfigError(["--samples cannot be combined with --json; --output F writes all pairs"])

    from nmt.cli.defaults import resolve_models
    from nmt.evaluate.challenge import (
        challenge_run,
        contrasts_json,
        of_files,
        of_published,
        of_split,
        render_json,
        render_text,
    )
    from nmt.files.write import open_output, refuse_overwriting
    from nmt.translate.translator import Translator

    refuse_overwriting([output], [source, reference, contrastive, pairs])
    with nullcontext() if output is None else open_output(output) as file:
        given = of_published(pairs) if pairs is not None else None
        translator = Translator.load(resolve_models(run, None), checkpoint, weights, precision=precision)
        if source is not None and reference is not None:
            given = of_files(source, reference, contrastive, translator.config.data.tgt, seed)
        report = challenge_run(translator, given or of_split(translator, data, split, seed))
        if file is not None:
            file.write(contrasts_json(report.outcomes).encode())
    print(*report.failures(samples), (render_json if json else render_text)(report), sep="\n")
