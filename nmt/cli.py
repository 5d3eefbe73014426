"""The command line: four stages and `nmt config`. Each command imports its stage inside, so help comes at once.

Exit statuses: 0 done; 2 bad input or configuration; 3 training gave up; 75 training was stopped and can be resumed;
130 interrupted; 141 nobody reads the output.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from nmt import __version__
from nmt.config_file import dump_config, load_config
from nmt.errors import ConfigError
from nmt.exits import errors_for_people
from nmt.process import set_up


class _Commands(TyperGroup):
    # Here and not around the whole program, because Typer has its own way with interrupts and closed pipes.
    def invoke(self, ctx: Any) -> Any:
        with errors_for_people():
            result = super().invoke(ctx)
            if sys.stdout is not None:  # `nmt config >&-`
                sys.stdout.flush()
            return result


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


# What PyTorch's libraries read when they are loaded.
FILES_ALONE = (
    "--hyp F and --ref F go together, without what belongs to a run: --run, --split, --data, --output, --samples, "
    "--beam, --length-penalty, --checkpoint, --weights"
)

Weights = Literal["auto", "raw", "average"]
ConfigOption = Annotated[
    str, typer.Option("--config", metavar="FILE", help="That file, else configs/FILE, else the shipped one.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, training.seed=2; may be repeated."),
]
DataOption = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Data directory.  [default: the config's data.dir]")
]
RunOption = Annotated[
    Path | None, typer.Option("--run", metavar="DIR", help="Run directory.  [default: the newest in runs/]")
]
BeamOption = Annotated[
    int | None, typer.Option("--beam", metavar="N", min=1, help="Beam width; 1 is greedy.  [default: the config's]")
]
PenaltyOption = Annotated[
    float | None,
    typer.Option("--length-penalty", metavar="A", help="Exponent; more favours longer.  [default: the config's]"),
]
CheckpointOption = Annotated[str, typer.Option("--checkpoint", metavar="best|last|STEP", help="Which checkpoint.")]
WeightsOption = Annotated[
    Weights,
    typer.Option("--weights", help="As trained, averaged, or (auto) as trained but for the best what scored higher."),
]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"nmt {__version__}")
        raise typer.Exit()


@app.callback()
def nmt(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train a translator from raw parallel text and measure it honestly.

    Four stages, each of which reads a directory and writes one:

    \b
      nmt prepare    text -> data directory    clean, train a tokenizer, encode
      nmt train      data -> run directory     train a Transformer
      nmt translate  run -> translations       a line for every line
      nmt evaluate   run -> BLEU, chrF, TER    score a test set

    `nmt runs` lists the runs there are, `nmt plot` draws their curves.
    One YAML file holds every setting; without --config it is base.yaml (IWSLT 2017, German-English).
    `nmt config` prints it with an explanation of each. `nmt COMMAND --help` is the manual of a command.

    \b
    Example, on the German-English corpus that comes with nmt:
      nmt prepare --config sample.yaml
      nmt train --config sample.yaml
      echo "Der Hund schläft." | nmt translate
      nmt evaluate
    """


@app.command()
def prepare(
    config: ConfigOption = "base.yaml",
    data: DataOption = None,
    tokenizer_from: Annotated[
        Path | None,
        typer.Option("--tokenizer-from", metavar="RUN", help="Take this run's tokenizer instead of training one."),
    ] = None,
    overrides: SetOption = None,
) -> None:
    """Turn raw parallel text into a data directory.

    Reads the corpora that the config names, drops unusable pairs and counts why, removes training pairs that
    stand in a development or test set, trains a SentencePiece tokenizer on the training text and writes text,
    ids and a manifest. The directory serves both translation directions. Run again with nothing changed, it
    does nothing.

    \b
    Examples:
      nmt prepare --config sample.yaml
      nmt prepare --config multi30k.yaml --set data.root=corpora/multi30k
      nmt prepare --config mine.yaml --data data/prepared/mine --tokenizer-from runs/base-de-en
    """
    from nmt.prepare import prepare as run_stage

    settings = load_config(config, overrides or ())
    run_stage(settings, data or settings.data.directory, tokenizer_from)


@app.command()
def train(
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="FILE", help="As for prepare.  [default: base.yaml, or the resumed run's]"),
    ] = None,
    data: DataOption = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="DIR", help="Run directory to write.  [default: the config's training.run_dir]"),
    ] = None,
    overrides: SetOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
    stop_after: Annotated[
        float | None,
        typer.Option("--stop-after", metavar="MINUTES", min=0.0, help="Stop by then, as by SIGTERM, to be resumed."),
    ] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Tell where the time of a few steps goes.")] = False,
) -> None:
    """Train a Transformer on a data directory.

    Shows loss, perplexity, learning rate, speed and time left; validates with BLEU on the development set; keeps
    the best and the newest checkpoints. Everything is written to the run directory, which then translates alone,
    anywhere. `tensorboard --logdir runs` draws the curves.

    With --resume the run is --run, else the run directory of --config, else the newest in runs/. It goes on with
    its own configuration: --set (or a changed --config) may only alter limits and intervals such as
    training.max_steps.

    SIGTERM, SIGINT (Ctrl-C) and --stop-after finish the update, save, and end with status 75: --resume goes on as if
    nothing had happened. A second Ctrl-C ends at once. Several processes train one model under torchrun:
    torchrun --nproc-per-node 2 -m -- nmt train … (with --max-restarts 3 the run goes on by itself after a process died)

    --profile traces ten steps soon after the start, prints a table of where their time goes, keeps the trace in the run
    directory, and goes on training.

    \b
    Examples:
      nmt train --config sample.yaml
      nmt train --config multi30k.yaml --set data.direction=en-de
      nmt train --resume --run runs/sample-de-en --set training.max_steps=4000
    """
    from nmt.defaults import what_to_train
    from nmt.training.dist import joined
    from nmt.training.loop import fit

    with joined() as world:
        what = world.from_first(lambda: what_to_train(config, data, run, overrides or (), resume))
        settings, data_dir, run_dir, goes_on = what
        fit(settings, data_dir, run_dir, goes_on, stop_after, world, profile)


@app.command()
def translate(
    run: RunOption = None,
    source: Annotated[
        str, typer.Option("--input", metavar="F|-", help="Text to translate, - for standard input.")
    ] = "-",
    target: Annotated[str, typer.Option("--output", metavar="F|-", help="Where to, - for standard output.")] = "-",
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    n_best: Annotated[
        int, typer.Option("--n-best", metavar="N", min=1, help="Translations per line; at most as many as the beam.")
    ] = 1,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
) -> None:
    """Translate text, a line for every line.

    Raw UTF-8 text in, raw text out; blank lines stay blank. Lines are read 4,096 at a time and sorted by length (at a
    terminal, one at a time). Standard output gets each line as soon as its batch is done; a file is written as
    F.part and renamed when it is complete.

    With --n-best N above 1 every line has up to N translations, best first, in four columns separated by tabs: line
    number, score, log-probability, translation.

    \b
    Examples:
      echo "Der Hund schläft." | nmt translate
      nmt translate --run runs/multi30k-de-en --input news.de --output news.en
      nmt translate --beam 10 --n-best 10 --input news.de
    """
    from nmt.defaults import run_or_newest, search_settings
    from nmt.translate import Translator, translate_file

    translator = Translator.load(run_or_newest(run), checkpoint, weights)
    translate_file(translator, source, target, search_settings(translator.config, beam, length_penalty), n_best)


@app.command()
def evaluate(
    run: RunOption = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="What to translate.  [default: the only test set]")
    ] = None,
    hyp: Annotated[Path | None, typer.Option("--hyp", metavar="F", help="Score this file of translations …")] = None,
    ref: Annotated[Path | None, typer.Option("--ref", metavar="F", help="… against this file of references.")] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Data directory.  [default: the one of training]")
    ] = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    checkpoint: CheckpointOption = "best",
    weights: WeightsOption = "auto",
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Ignore case, to compare with papers that do.")
    ] = False,
    tokenize: Annotated[
        str | None, typer.Option("--tokenize", metavar="NAME", help="BLEU's tokenizer: 13a, intl, zh, char or none.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", metavar="N", min=0, help="Show N translations too.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", metavar="F", help="Write the translations to F.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure translations: BLEU, chrF and TER by sacrebleu.

    Scores are of raw text, with case, and each comes with the signature that says how it was computed; scores with
    different signatures cannot be compared. Either a run translates a split of its data directory (a test set, or
    valid, or train), or a file of translations is scored against a file of references.

    \b
    Examples:
      nmt evaluate
      nmt evaluate --run runs/multi30k-de-en --split valid --beam 1
      nmt evaluate --hyp news.en --ref news.ref.en --json
    """
    from nmt.evaluate import evaluate_files, render_json, render_text

    render = render_json if json else render_text
    if hyp is not None or ref is not None:
        of_a_run = (run, split, data, output, samples, beam, length_penalty, checkpoint, weights)
        if hyp is None or ref is None or of_a_run != (None, None, None, None, 0, None, None, "best", "auto"):
            raise ConfigError([FILES_ALONE])
        print(render(evaluate_files(hyp, ref, lowercase, tokenize)))
        return
    if json and samples:
        raise ConfigError(["--samples is for the screen, not for --json; --output F writes all translations"])

    from nmt.defaults import run_or_newest, search_settings
    from nmt.evaluate_run import evaluate_run
    from nmt.files import open_output
    from nmt.translate import Translator

    with nullcontext() if output is None else open_output(output) as file:
        translator = Translator.load(run_or_newest(run), checkpoint, weights)
        search = search_settings(translator.config, beam, length_penalty)
        found = evaluate_run(translator, data, split, search, lowercase, tokenize)
        if file is not None:
            file.writelines(f"{line}\n".encode() for line in found.translations)
    print(*found.samples(samples), render(found.report), sep="\n")


@app.command()
def runs(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of runs.")] = Path("runs"),
    json: Annotated[bool, typer.Option("--json", help="Print a list of JSON objects.")] = False,
) -> None:
    """List the runs of a directory, the newest first.

    Each with its state, its last step of training.max_steps, its best BLEU on the development set, how long it has
    trained, and how long ago it last wrote something. A run is running (the last column says on which host and in
    which process), finished, stopped (nmt train --resume goes on with it) or broken (the last column says what is
    damaged).

    \b
    Examples:
      nmt runs
      nmt runs experiments --json
    """
    from nmt.runs import render_json, render_text, summarise_all

    found = summarise_all(directory)
    print(render_json(found) if json else render_text(found))


@app.command()
def plot(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run directories.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", metavar="FILE", help="The picture; its ending is .png, .pdf or .svg.")
    ] = Path("plot.png"),
) -> None:
    """Draw the curves of one or several runs into one picture.

    Loss on training and development set, BLEU on the development set and learning rate, over steps and over time of
    training. Both losses are without label smoothing, in nats per token. The picture can be read in black and white.
    A long training curve is drawn as means, with the range of what they stand for in grey behind them.

    \b
    Examples:
      nmt plot runs/sample-de-en
      nmt plot runs/multi30k-de-en runs/multi30k-en-de --output curves.pdf
    """
    from nmt.plot import plot as draw

    for line in draw(runs, output):
        print(f"nmt: {line}", file=sys.stderr)
    print(f"{output}: written")


@app.command("config")
def show_config(config: ConfigOption = "base.yaml", overrides: SetOption = None) -> None:
    """Print a configuration in full, with the meaning of every setting.

    What is printed is a valid configuration file: a start for one of your own.

    \b
    Examples:
      nmt config
      nmt config --config multi30k.yaml --set data.direction=en-de > mine.yaml
      nmt config --config runs/sample-de-en/config.yaml
    """
    print(dump_config(load_config(config, overrides or ()), comments=True), end="")


def main(args: Sequence[str] | None = None) -> None:
    """The console script `nmt`; always ends in SystemExit with the exit status."""
    set_up()
    app(args=args, prog_name="nmt")
