"""The commands `nmt challenge` and `nmt robustness`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from nmt.cli.app import app
from nmt.cli.options import (
    BeamOption,
    CheckpointOption,
    FormatOption,
    FromOption,
    PenaltyOption,
    PrecisionOption,
    ReferenceOption,
    RunDataOption,
    RunsOption,
    SearchOption,
    SourceOption,
    SplitOption,
    ToOption,
    WeightsOption,
    names_in,
    option,
)
from nmt.errors import ConfigError
from nmt.tables import rendered


@app.command()
def challenge(
    run: RunsOption = [],
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
        challenge_run,
        contrasts_json,
        of_contrastive,
        of_published,
        of_text,
    )
    from nmt.evaluate.run import choose_text
    from nmt.files.write import open_output, refuse_overwriting
    from nmt.runs.model import ModelRef
    from nmt.translate.loading import Translator

    refuse_overwriting([output], [source, reference, contrastive, pairs])
    with nullcontext() if output is None else open_output(output) as file:
        translator = Translator.load(
            ModelRef(resolve_models(run, None), checkpoint, weights, to, from_), precision=precision
        )
        if pairs is not None:
            contrasts = of_published(pairs, documents, translator.config.data.sides, context)
        else:
            text = choose_text(translator, data, split, source, reference)
            if contrastive is not None:
                contrasts = of_contrastive(text, contrastive, context)
            else:
                contrasts = of_text(text, seed, context)
        report = challenge_run(translator, contrasts)
        if file is not None:
            file.write(contrasts_json(report.outcomes).encode())
    print(*report.failures(samples), rendered(format_, [report]), sep="\n")


@app.command()
def robustness(
    run: RunsOption = [],
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
    overrides: SearchOption = [],
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
        CHANGES,
        RobustnessPlan,
        default_changes,
        measure_run,
        write_texts,
    )
    from nmt.evaluate.run import choose_text
    from nmt.files.write import refuse_overwriting, writing
    from nmt.runs.model import ModelRef
    from nmt.translate.loading import Translator

    chosen = names_in("--changes", changes, CHANGES, "kind of change")
    percentages = _rates(rates)
    if output is not None:
        with writing(output, "; a directory is needed for several files"):
            output.mkdir(parents=True, exist_ok=True)
    model = ModelRef(resolve_models(run, None), checkpoint, weights, to, from_)
    translator = Translator.load(model, precision=precision)
    search = search_settings(translator.config, beam, length_penalty, overrides)
    translator.check(search, 1)
    text = choose_text(translator, data, split, source, reference)
    plan = RobustnessPlan(chosen or default_changes(text.languages[0]), percentages, seed, lines)
    if output is not None:
        names = ["original", *(f"{change}-{rate:g}" for change in plan.changes for rate in plan.rates)]
        outputs = [output / f"{name}.{language}" for name in names for language in text.languages]
        refuse_overwriting(outputs, [source, reference])
    report = measure_run(translator, search, text, plan)
    if output is not None:
        write_texts(output, report.measured, text.languages)
    print(rendered(format_, [report]))


def _rates(given: str) -> tuple[float, ...]:
    """Return the percentages in the value of --rates. Raises ConfigError."""
    try:
        rates = tuple(dict.fromkeys(float(rate) for rate in given.split(",")))
    except ValueError:
        rates = (0.0,)
    if not all(0 < rate <= 100 for rate in rates):
        raise ConfigError(f"--rates {given}: must be percentages above 0 and at most 100, such as 1,5,10")
    return rates
