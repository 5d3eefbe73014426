"""The commands `nmt train` and `nmt config`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nmt.cli.app import app
from nmt.cli.options import DataOption, SetOption, configs, keys, option
from nmt.config.load import Override, dump_config, load_config, read_config
from nmt.errors import ConfigError
from nmt.layout import RunDir
from nmt.process import Stop

if TYPE_CHECKING:
    from nmt.training.plan import TrainingPlan


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
    overrides: SetOption = [],
    init_from: Annotated[
        list[str],
        option("--init-from", "Start from the weights of RUN; encoder=RUN, decoder=RUN for one stack.", "RUN"),
    ] = [],
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
    stop = Stop(stop_after, stop_at)  # before the imports, whose seconds count

    def resolved() -> TrainingPlan:
        """Return the plan. A resumed run keeps its own configuration; with --config, it is the run that this names."""
        from nmt.cli.defaults import run_or_newest
        from nmt.training.plan import TrainingPlan, check_exists

        changes = with_initial(overrides, init_from)
        if config is None and resume:
            directory = run_or_newest(run, ())
            check_exists(RunDir(directory))  # before its config, which an imported run has without training text
            return TrainingPlan.of(load_config(RunDir(directory).config, changes), data, directory, resume)
        return TrainingPlan.of(load_config(config or "base.yaml", changes), data, run, resume)

    # Before PyTorch is imported, which takes seconds. With several processes only rank 0 resolves the arguments.
    plan = None if "RANK" in os.environ else resolved()
    from nmt.training.parallel import joined
    from nmt.training.start import fit

    with joined() as world:
        fit(plan or world.on_rank0(resolved), stop, world, profile)


def with_initial(overrides: Sequence[str], init_from: Sequence[str]) -> list[Override]:
    """Return overrides with the value of `training.init_from` for the values of --init-from. Raises ConfigError."""
    if not init_from:
        return [*overrides]
    value: str | dict[str, str] = init_from[0]
    by_stack = {}
    for given in init_from:
        stack, equals, path = given.partition("=")
        if equals and stack in ("encoder", "decoder"):
            by_stack[stack] = path
    if len(by_stack) == len(init_from):
        value = by_stack
    elif len(init_from) > 1:
        raise ConfigError("--init-from: give one RUN, or encoder=RUN and decoder=RUN")
    return [*overrides, ("training.init_from", value)]


@app.command("config")
def show_config(
    config: Annotated[
        str | None,
        option("--config", "Config file, as for nmt train.  [default: base.yaml]", "FILE", autocompletion=configs),
    ] = None,
    overrides: SetOption = [],
    for_pairs: Annotated[
        int | None, option("--for-pairs", "Choose settings that suit this number of pairs.", "N", min=1)
    ] = None,
    minutes: Annotated[
        float | None,
        option("--minutes", "With --for-pairs: training time on this machine.  [default: 60]", "M", min=0.1),
    ] = None,
    as_is: Annotated[
        bool, option("--as-is", "Print the file itself, without the settings that it does not have.")
    ] = False,
    explained: Annotated[str | None, option("--explain", "Explain one setting.", "KEY", autocompletion=keys)] = None,
) -> None:
    """Print a complete configuration, or explain a setting.

    The output describes every setting and is a valid configuration file: a starting point for your own.

    With --for-pairs, a short file is printed, with settings that suit the number of training pairs and the minutes of
    training on this machine, whose speed is measured first. The corpora are those of --config, or files to rename.

    --as-is prints the file of --config as it is, to be copied: settings that it does not have are then those of the
    defaults, or of the run of --init-from (adapt.yaml).

    --explain training.peak_lr prints the meaning of a setting, its values and default, the shipped configs that change
    it, and what has been measured about it.

    \b
    Examples:
      nmt config
      nmt config --config multi30k.yaml --set data.direction=en-de > mine.yaml
      nmt config --config runs/sample-de-en/config.yaml
      nmt config --config adapt.yaml --as-is > mine.yaml
      nmt config --for-pairs 60000 --minutes 90 --set data.direction=cs-en > mine.yaml
      nmt config --explain training.peak_lr
    """
    if explained is not None:
        from nmt.config.explanation import explain

        print(explain(explained))
        return
    if as_is:
        print(read_config(config or "base.yaml")[1], end="")
        return
    if for_pairs is None:
        print(dump_config(load_config(config or "base.yaml", overrides), comments=True), end="")
        return
    from nmt.recipes.presets import preset

    print(preset(config, for_pairs, minutes or 60, overrides), end="")
