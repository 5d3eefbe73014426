"""`nmt train`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.complete import configs
from nmt.cli.options import DataOption, SetOption


@app.command()
def train(
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="As for prepare.  [default: base.yaml, or the resumed run's]",
            autocompletion=configs,
        ),
    ] = None,
    data: DataOption = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="DIR", help="Run directory to write.  [default: the config's training.run_dir]"),
    ] = None,
    overrides: SetOption = None,
    init_from: Annotated[
        list[str] | None,
        typer.Option(
            "--init-from", metavar="RUN", help="Start from this run's weights; encoder=RUN, decoder=RUN: a stack of it."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint.")] = False,
    stop_after: Annotated[
        float | None,
        typer.Option("--stop-after", metavar="MINUTES", min=0.0, help="Save and stop by then, as on SIGTERM."),
    ] = None,
    profile: Annotated[bool, typer.Option("--profile", help="Report how the time of a few steps is spent.")] = False,
) -> None:
    """Train a Transformer on a data directory.

    Shows the loss, nll (the loss without label smoothing, comparable with the development set's), learning rate, speed
    and time left; validates with BLEU on the development set; keeps the best and the newest checkpoints. Everything is
    written to the run directory, which translates by itself on any machine. `tensorboard --logdir runs` draws the
    curves.

    With --resume the run is --run, else the run directory of --config, else the newest in runs/. It keeps its own
    configuration: --set (or a changed --config) may change only limits and intervals such as training.max_steps.

    --init-from fine-tunes: a new run starts from the weights that `translate` would use of RUN, a run or exported
    directory. The tokenizer must be that of RUN (nmt prepare --tokenizer-from RUN), and of the model what both have;
    data, dropout and learning rate are the new run's own. encoder=RUN and decoder=RUN take a stack of one run each.
    training.freeze names parts that are not trained. The development set is scored with the weights of RUN first
    (step 0).

    SIGTERM, SIGINT (Ctrl-C) and --stop-after finish the update, save, and exit with status 75; --resume continues as if
    the run had never stopped. A second Ctrl-C exits at once. Several processes train one model under torchrun:
    torchrun --nproc-per-node 2 -m -- nmt train … (with --max-restarts 3 the run resumes by itself if a process dies)

    --profile traces ten steps soon after the start, prints a table of how their time is spent, writes the trace to the
    run directory, and continues training.

    \b
    Examples:
      nmt train --config sample.yaml
      nmt train --config multi30k.yaml --set data.direction=en-de
      nmt train --config mine.yaml --init-from runs/base-de-en --set 'training.freeze=[embeddings]'
      nmt train --resume --run runs/sample-de-en --set training.max_steps=4000
    """
    from nmt.cli.defaults import resolve_training

    given = (config, data, run, overrides or (), resume, init_from or ())
    # before PyTorch is imported, which takes seconds; with several processes rank 0 does it
    resolved = None if "RANK" in os.environ else resolve_training(*given)
    from nmt.training.loop import fit
    from nmt.training.parallel.world import joined

    with joined() as world:
        fit(*(resolved or world.on_rank0(lambda: resolve_training(*given))), stop_after, world, profile)
