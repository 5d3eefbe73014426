"""`nmt generate`."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import CheckpointOption, PrecisionOption, RunOption, SearchOption, WeightsOption
from nmt.errors import ConfigError


@app.command()
def generate(
    run: RunOption = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="TEXT", help="Start of the lines.  [default: none]")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--input", metavar="F|-", help="File with starts of lines, - for standard input."),
    ] = None,
    target: Annotated[str, typer.Option("--output", metavar="F|-", help="File to write, - for standard output.")] = "-",
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", min=1, help="Number of lines to write per start.")
    ] = 1,
    beam: Annotated[
        int | None,
        typer.Option("--beam", metavar="K", min=1, help="Search for the most probable lines instead of sampling."),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", metavar="T", help="Values below 1 favour likely pieces.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", metavar="K", min=0, help="Sample from the K most probable pieces; 0: all.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option("--top-p", metavar="P", help="Sample from the smallest set of pieces of probability P."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", min=0, help="Random seed.")] = None,
    overrides: SearchOption = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Generate text with a language model.

    Samples lines from a run of training.objective: causal. Each line can continue a given start: --prefix TEXT, or the
    lines of --input. --samples N writes N lines per start, one after the other. The same seed produces the same lines.

    --beam K searches for the N most probable lines instead, where K must be at least N. A line has at most
    search.max_length pieces, by default data.max_pieces of the run.

    \b
    Examples:
      nmt generate --run runs/lm-en --samples 5
      nmt generate --run runs/lm-en --prefix "A man in a" --samples 5 --top-p 0.9
      nmt generate --run runs/lm-en --input beginnings.en --output lines.en --temperature 0.7 --seed 2
      nmt generate --run runs/lm-en --prefix "A man in a" --beam 5
    """
    if prefix is not None and source is not None:
        raise ConfigError(["--prefix and --input: give one of them"])
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given = {name: value for name, value in sampling.items() if value is not None}
    if beam is not None and given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ConfigError([f"{options}: of sampling, not with --beam"])

    from nmt.cli.defaults import run_or_newest, search_settings
    from nmt.translate.generate import Generator, generate_file
    from nmt.translate.language_model import LanguageModel

    language_model = LanguageModel.load(run_or_newest(run), checkpoint, weights, precision=precision)
    config = language_model.config
    settings = [f"search.{name}={value}" for name, value in ({"sample": beam is None} | given).items()]
    search = search_settings(config, beam, None, [*settings, *(overrides or ())])
    generator = Generator(language_model, search, samples)
    generate_file(generator, source, target, prefix or "", config.learned_languages[-1])
