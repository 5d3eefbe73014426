"""The commands `nmt train` and `nmt config`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from nmt.cli.app import app
from nmt.cli.options import DataOption, SetOption, configs, option
from nmt.config.load import dump_config, load_config
from nmt.errors import ConfigError
from nmt.process import Stop


@app.command()
def train(
    config: Annotated[
        str | None,
        option(
            "--config",
            "Config file, as for prepare.  [default: base.yaml, or the resumed run's]",
            "FILE",
            autocompletion=configs,
        ),
    ] = None,
    data: DataOption = None,
    run: Annotated[
        Path | None,
        option("--run", "Run directory to write.  [default: the config's training.run_dir]", "DIR"),
    ] = None,
    overrides: SetOption = None,
    init_from: Annotated[
        list[str] | None,
        option("--init-from", "Start from the weights of RUN; encoder=RUN, decoder=RUN for one stack.", "RUN"),
    ] = None,
    resume: Annotated[bool, option("--resume", "Continue from the last checkpoint.")] = False,
    stop_after: Annotated[
        float | None,
        option("--stop-after", "Save and stop after this time, as on SIGTERM.", "MINUTES", min=0.0),
    ] = None,
    stop_at: Annotated[
        int | None, option("--stop-at", "Save and stop after this update, as on SIGTERM.", "STEP", min=1)
    ] = None,
    profile: Annotated[bool, option("--profile", "Report how the time of ten steps is spent.")] = False,
) -> None:
    """Train a Transformer on a data directory.

    Prints the loss, nll (the loss without label smoothing, comparable with that of the development set), learning rate,
    speed and remaining time; validates with BLEU on the development set; keeps the best and the most recent
    checkpoints. The run directory is self-contained: it translates on any machine. `tensorboard --logdir runs` shows
    the curves.

    --resume continues the run given by --run, or the run directory of --config, or else the newest run in runs/. The
    run keeps its configuration; --set (or a changed --config) may change only limits and intervals such as
    training.max_steps.

    --init-from fine-tunes: a new run starts from the weights of RUN, a run or exported directory, that `nmt translate`
    would use. Both need the same tokenizer (nmt prepare --tokenizer-from RUN) and the same shapes of the weights that
    they share; data, dropout and learning rate may differ. encoder=RUN and decoder=RUN initialize single stacks.
    training.freeze names parts that are not trained. The initial weights are scored on the development set as step 0.

    SIGTERM, SIGINT (Ctrl-C), --stop-after and --stop-at finish the current update, save, and exit with status 75;
    --resume then continues as if the run had never stopped. A second Ctrl-C exits at once. To train with several
    processes, use torchrun --nproc-per-node 2 -m -- nmt train …; with --max-restarts 3 the run resumes automatically if
    a process dies.

    --profile traces ten steps shortly after the start, prints where their time is spent, writes the trace to the run
    directory, and continues training.

    \b
    Examples:
      nmt train --config sample.yaml
      nmt train --config multi30k.yaml --set data.direction=en-de
      nmt train --config mine.yaml --init-from runs/base-de-en --set 'training.freeze=[embeddings]'
      nmt train --resume --run runs/sample-de-en --set training.max_steps=4000
    """
    from nmt.cli.defaults import resolve_training

    stop = Stop(stop_after, stop_at)  # before the imports, whose seconds count
    given = (config, data, run, overrides or (), resume, init_from or ())
    # Before PyTorch is imported, which takes seconds. With several processes only rank 0 resolves the arguments.
    resolved = None if "RANK" in os.environ else resolve_training(*given)
    from nmt.training.loop import fit
    from nmt.training.parallel import joined

    with joined() as world:
        fit(*(resolved or world.on_rank0(lambda: resolve_training(*given))), stop, world, profile)


@app.command("config")
def show_config(
    config: Annotated[
        str | None,
        option("--config", "Config file, as for nmt train.  [default: base.yaml]", "FILE", autocompletion=configs),
    ] = None,
    overrides: SetOption = None,
    for_pairs: Annotated[
        int | None, option("--for-pairs", "Choose settings that suit this number of pairs.", "N", min=1)
    ] = None,
    minutes: Annotated[
        float | None,
        option("--minutes", "With --for-pairs: training time on this machine.  [default: 60]", "M", min=0.1),
    ] = None,
) -> None:
    """Print a complete configuration, or one for your text.

    The output describes every setting and is a valid configuration file: a starting point for your own.

    With --for-pairs, a short file is printed, with settings that suit the number of training pairs and the minutes of
    training on this machine, whose speed is measured first. The corpora are those of --config, or files to rename.

    \b
    Examples:
      nmt config
      nmt config --config multi30k.yaml --set data.direction=en-de > mine.yaml
      nmt config --config runs/sample-de-en/config.yaml
      nmt config --for-pairs 60000 --minutes 90 > mine.yaml
    """
    if for_pairs is None:
        if minutes is not None:
            raise ConfigError("--minutes needs --for-pairs N, the number of training pairs")
        print(dump_config(load_config(config or "base.yaml", overrides or ()), comments=True), end="")
        return
    from nmt.recipes.presets import preset

    print(preset(config, for_pairs, minutes or 60, overrides or ()), end="")
