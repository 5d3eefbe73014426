"""`nmt sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import SetOption
from nmt.errors import ConfigError

FAILED = 1  # exit status if any run has failed


@app.command()
def sweep(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="Path, else configs/CONFIG, else a shipped config.")],
    grid: Annotated[
        list[str],
        typer.Option(
            "--grid", metavar="KEY=A,B", help="A setting and its values; may be repeated.", show_default=False
        ),
    ],
    overrides: SetOption = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Data directory.  [default: the config's data.dir]")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Directory of the runs.  [default: runs/sweep-CONFIG]")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, help="Runs at a time.  [default: 1]")
    ] = None,
    devices: Annotated[
        str | None, typer.Option("--devices", metavar="0,1", help="GPUs to use, one run at a time on each.")
    ] = None,
    include_shorter: Annotated[
        bool, typer.Option("--include-shorter", help="Include runs ended early by max_minutes in the means.")
    ] = False,
) -> None:
    """Train every combination of a grid of settings and compare the runs.

    Each combination is trained by `nmt train` in its own process and run directory, named after its values:
    runs/sweep-sample/seed=2,peak_lr=3e-4. Its output is in logs/. Values are YAML, as for --set; a value with a comma
    needs quotes or brackets. All combinations are checked before anything starts.

    The same command continues a sweep: finished runs are kept, stopped ones resumed, the others started. On Ctrl-C and
    SIGTERM each run finishes its update and saves; the status is 75. A failed run does not stop the others; the status
    is then 1.

    The config's data directory is prepared if it does not exist. If the grid changes the text or the tokenizer (data.…,
    tokenizer.…), each such combination gets its own data directory in the directory of the sweep.

    The table shows the best score on the development set, the best run first, and the weights that nmt translate
    takes. The score is BLEU; of runs that do not translate it is the perplexity, where lower is better, and of
    classifiers the accuracy, as in nmt runs. With several values of training.seed there are also means and standard
    deviations over the seeds. A run that training.max_minutes ended with less than 95 % of the steps of the longest run
    with the same settings is named, and left out of the means unless --include-shorter is given. Test sets are not
    used, so that nothing is chosen on them: evaluate the winner once. sweep.tsv is the same table for programs.

    With --jobs N each run gets its share of the cores (OMP_NUM_THREADS, unless it is set).

    \b
    Examples:
      nmt sweep sample.yaml --grid training.peak_lr=3e-4,7e-4 --grid training.seed=1,2,3
      nmt sweep multi30k.yaml --set training.max_steps=4000 --grid tokenizer.vocab_size=4000,8000 --jobs 2
      nmt sweep mine.yaml --grid model.norm=pre,post --devices 0,1 --dir runs/norms
    """
    if jobs is not None and devices is not None:
        raise ConfigError(["--jobs and --devices: give one of them"])
    names = [] if devices is None else [name.strip() for name in devices.split(",")]
    if not all(names):
        raise ConfigError([f"--devices {devices}: write it as 0,1"])
    from nmt.recipes.sweep import sweep as run_stage
    from nmt.recipes.sweep_plan import Request

    rows = run_stage(Request(config, grid, overrides or (), data, directory, jobs or 1, names, include_shorter))
    if any(row.state == "failed" for row in rows):
        raise typer.Exit(FAILED)
