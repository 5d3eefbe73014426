"""`nmt rerank`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from nmt.cli.app import app
from nmt.cli.complete import runs
from nmt.cli.options import BeamOption, PenaltyOption, PrecisionOption, RunsOption, SearchOption
from nmt.errors import ConfigError

N_BEST = 20
"""Default number of candidates per line."""


@app.command()
def rerank(
    reverse: Annotated[
        list[Path],
        typer.Option(
            "--reverse",
            metavar="DIR",
            help="Run of the opposite direction; repeat for an ensemble.",
            show_default=False,
            autocompletion=runs,
        ),
    ],
    source: Annotated[Path, typer.Option("--src", metavar="F", help="Source text.", show_default=False)],
    run: RunsOption = None,
    rescore: Annotated[
        list[Path] | None,
        typer.Option(
            "--rescore",
            metavar="DIR",
            help="Also use the scores of this run of the same direction; may be repeated.",
            autocompletion=runs,
        ),
    ] = None,
    lm: Annotated[
        list[Path] | None,
        typer.Option(
            "--lm",
            metavar="DIR",
            help="Also use the scores of this target language model; may be repeated.",
            autocompletion=runs,
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", metavar="F|-", help="File to write.  [default: standard output]")
    ] = None,
    weights_file: Annotated[
        Path | None, typer.Option("--weights-file", metavar="F", help="Tuned weights to read, or to write with --tune.")
    ] = None,
    tune: Annotated[bool, typer.Option("--tune", help="Tune the weights on --src and --ref.")] = False,
    reference: Annotated[
        Path | None, typer.Option("--ref", metavar="F", help="With --tune: translations of --src, line by line.")
    ] = None,
    metric: Annotated[
        Literal["bleu", "chrf"] | None,
        typer.Option("--metric", help="With --tune: metric to maximize.  [default: bleu]"),
    ] = None,
    n_best: Annotated[
        int | None,
        typer.Option(
            "--n-best", metavar="N", min=1, help=f"Candidates per line; at most the beam size.  [default: {N_BEST}]"
        ),
    ] = None,
    n_best_file: Annotated[
        Path | None,
        typer.Option("--n-best-file", metavar="F", help="Candidates written by nmt translate --n-best."),
    ] = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    overrides: SearchOption = None,
    precision: PrecisionOption = "auto",
) -> None:
    """Translate with noisy-channel reranking.

    Each line is translated into N candidates, and the candidate with the highest weighted sum of these features is
    written (Yee et al., 2019). Blank lines stay blank.

    \b
      direct   score of the search; its weight is always 1
      channel  log-probability of the source given the candidate, by --reverse
      NAME     log-probability of the candidate, by --rescore DIR/NAME or --lm DIR/NAME
      length   number of pieces of the candidate

    Log-probabilities are divided by the length penalty, like scores of the search; by default they are means per piece.
    All weights are 1, except that of length, which is 0, unless --weights-file contains tuned weights.

    --tune tunes the weights on a development set, --src and --ref: it tries random weights, improves the best of them
    one weight at a time, and writes those with the highest BLEU or chrF to --weights-file. The same command finds the
    same weights. For comparison, it also shows the scores of the ranking of the search and of the best possible choice
    of candidates (the oracle).

    The beam size is at least N unless --beam is given. --n-best-file F reads candidates written by nmt translate
    --n-best; --length-penalty must then be the one used for F.

    \b
    Examples:
      nmt rerank --run runs/de-en --reverse runs/en-de --tune --src dev.de --ref dev.en --weights-file weights.json
      nmt rerank --run runs/de-en --reverse runs/en-de --src test.de --weights-file weights.json --output test.en
      nmt rerank --run runs/de-en --reverse runs/en-de --rescore runs/de-en-2 --src test.de --n-best 50
      nmt rerank --run runs/de-en --reverse runs/en-de --lm runs/lm-en --src test.de --n-best 50
    """
    if tune and (reference is None or weights_file is None or output is not None):
        raise ConfigError(["--tune needs --src F, --ref F and --weights-file F, and does not take --output"])
    if not tune and (reference is not None or metric is not None):
        raise ConfigError(["--ref and --metric need --tune; to score the output, use nmt evaluate --hyp F --ref F"])
    if n_best_file is not None and (n_best is not None or beam is not None):
        raise ConfigError(["--n-best-file cannot be combined with --n-best and --beam"])

    from nmt.cli.defaults import resolve_models, search_settings
    from nmt.console import say, show
    from nmt.files.document import document_text
    from nmt.files.write import open_output, refuse_overwriting
    from nmt.recipes.rerank import Request, Runs, read_weights, rerank_file, screen, tune_weights

    inputs = [source, reference, n_best_file]
    refuse_overwriting(*(([weights_file], inputs) if tune else ([output], [*inputs, weights_file])))
    loaded = Runs.load(resolve_models(run, None), reverse, rescore or (), lm or (), precision)
    config = loaded.direct.config
    search = search_settings(config, beam, length_penalty, overrides or ())
    n_candidates = None if n_best_file is not None else n_best or N_BEST
    if n_candidates is not None and beam is None and search.beam == config.search.beam:
        search = search.model_copy(update={"beam": max(search.beam, n_candidates)})
    request = Request(loaded, search, source, n_candidates, n_best_file)
    if tune and reference is not None and weights_file is not None:
        with open_output(weights_file) as file:
            tuned = tune_weights(request, reference, metric or "bleu")
            file.write(document_text(tuned).encode())
        show(*screen(tuned))
        say(f"{weights_file}: written")
        return
    features = loaded.features(search)
    defaults = tuple(feature.default for feature in features)
    rerank_file(request, defaults if weights_file is None else read_weights(weights_file, features), output or "-")
