"""`nmt sweep`: many trainings, one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import SetOption
from nmt.errors import ConfigError

FAILED = 1  # exit status, if any training has failed


@app.command()
def sweep(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="That file, else configs/CONFIG, else the shipped one.")
    ],
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
        Path | None, typer.Option("--dir", metavar="DIR", help="Where the runs go.  [default: runs/sweep-CONFIG]")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, help="Trainings at a time.  [default: 1]")
    ] = None,
    devices: Annotated[
        str | None, typer.Option("--devices", metavar="0,1", help="GPUs: a training at a time on each.")
    ] = None,
    include_shorter: Annotated[
        bool, typer.Option("--include-shorter", help="Average also over what training.max_minutes ended earlier.")
    ] = False,
) -> None:
    """Train every combination of the given values of settings, and compare them.

    Each training is an `nmt train` in a process of its own with a run directory of its own, named after its values:
    runs/sweep-sample/seed=2,peak_lr=3e-4. What it says is in logs/. Values are YAML, as for --set; one that holds a
    comma needs quotes or brackets. All combinations are checked before anything starts.

    The same command again goes on: finished trainings are left alone, stopped ones resumed, others started. Ctrl-C and
    SIGTERM have each training finish its update and save, and end with status 75. A training that fails does not keep
    the others from their end; the status is then 1.

    The data directory of the config is prepared if it is not there. If the grid changes the text or its tokenizer
    (data.…, tokenizer.…), each such combination gets a data directory of its own in the directory of the sweep.

    The table has the best BLEU on the development set, and which weights it selected; with several values of
    training.seed also means and standard deviations over the seeds. A training that training.max_minutes has ended
    with less than 95 % of the steps of the longest of the same settings is named, and counts in no mean unless
    --include-shorter is given.
    Test sets are left alone, so that nothing is chosen on them: evaluate the winner once. sweep.tsv holds the same
    table for programs.

    With --jobs N each training gets its share of the cores (OMP_NUM_THREADS, unless it is set).

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
    from nmt.sweep.plan import Request
    from nmt.sweep.sweep import sweep as run_stage

    rows = run_stage(Request(config, grid, overrides or (), data, directory, jobs or 1, names, include_shorter))
    if any(row.state == "failed" for row in rows):
        raise typer.Exit(FAILED)
