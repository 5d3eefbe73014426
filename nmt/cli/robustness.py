"""`nmt robustness`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import (
    BeamOption,
    CheckpointOption,
    JsonOption,
    PenaltyOption,
    PrecisionOption,
    RunDataOption,
    RunsOption,
    SearchOption,
    SplitOption,
    WeightsOption,
)
from nmt.errors import ConfigError, DataError


@app.command()
def robustness(
    run: RunsOption = None,
    split: SplitOption = None,
    data: RunDataOption = None,
    source: Annotated[Path | None, typer.Option("--src", metavar="F", help="Or use these files: the source …")] = None,
    reference: Annotated[Path | None, typer.Option("--ref", metavar="F", help="… and its references.")] = None,
    changes: Annotated[
        str | None,
        typer.Option(
            "--changes", metavar="A,B", help="Kinds of changes.  [default: all that apply to the source language]"
        ),
    ] = None,
    rates: Annotated[str, typer.Option("--rates", metavar="R,S", help="Percentages of places to change.")] = "1,5,10",
    lines: Annotated[
        int | None, typer.Option("--lines", metavar="N", min=1, help="Use N evenly spread lines.  [default: all]")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Random seed of the places.")] = 1,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    overrides: SearchOption = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
    output: Annotated[
        Path | None, typer.Option("--output", metavar="DIR", help="Write all sources and translations to DIR.")
    ] = None,
    json: JsonOption = False,
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
      nmt robustness --src news.de --ref news.en --output changed --json
    """
    from nmt.cli.defaults import resolve_models, search_settings
    from nmt.evaluate.robustness import (
        Plan,
        Report,
        default_changes,
        file_text,
        measure_run,
        render_json,
        render_text,
        split_text,
        write_texts,
    )
    from nmt.evaluate.run import subject_of
    from nmt.files.write import refuse_overwriting
    from nmt.translate.translator import Translator

    if (source is None) != (reference is None):
        raise ConfigError(["--src F and --ref F must be given together"])
    if source is not None and (split is not None or data is not None):
        raise ConfigError(["--split and --data cannot be combined with --src and --ref"])
    chosen, percentages = _changes(changes), _rates(rates)
    if output is not None:
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{output}: {error.strerror}; a directory is needed for several files") from error
    translator = Translator.load(resolve_models(run, None), checkpoint, weights, precision=precision)
    search = search_settings(translator.config, beam, length_penalty, overrides or ())
    if source is not None and reference is not None:
        whole = file_text(translator, source, reference)
    else:
        whole = split_text(translator, data, split)
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
    print((render_json if json else render_text)(report))


def _changes(given: str | None) -> tuple[str, ...]:
    """Parse the kinds of changes; return none if the option is not given. Raises ConfigError."""
    from nmt.evaluate.robustness import CHANGES

    names = tuple(dict.fromkeys(given.split(","))) if given is not None else ()
    for name in names:
        if name not in CHANGES:
            raise ConfigError([f"--changes {given}: {name!r} is not one of {', '.join(CHANGES)}"])
    return names


def _rates(given: str) -> tuple[float, ...]:
    """Parse the rates in percent. Raises ConfigError."""
    try:
        rates = tuple(dict.fromkeys(float(rate) for rate in given.split(",")))
    except ValueError:
        rates = (0.0,)
    if not all(0 < rate <= 100 for rate in rates):
        raise ConfigError([f"--rates {given}: must be percentages above 0 and at most 100, such as 1,5,10"])
    return rates
