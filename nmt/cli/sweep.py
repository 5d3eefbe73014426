"""`nmt sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.app import app
from nmt.cli.options import SetOption
from nmt.errors import ConfigError

FAILED = 1  # exit status if a run failed


@app.command()
def sweep(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="Path, name in configs/, or shipped config.")],
    grid: Annotated[
        list[str],
        typer.Option("--grid", metavar="KEY=A,B", help="Setting and its values; may be repeated.", show_default=False),
    ],
    overrides: SetOption = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Data directory.  [default: the config's data.dir]")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Directory of the runs.  [default: runs/sweep-CONFIG]")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, help="Number of runs at a time.  [default: 1]")
    ] = None,
    devices: Annotated[
        str | None, typer.Option("--devices", metavar="0,1", help="GPUs to use, one run at a time on each.")
    ] = None,
    include_shorter: Annotated[
        bool, typer.Option("--include-shorter", help="Include runs ended early by max_minutes in the means.")
    ] = False,
) -> None:
    """Train all combinations of settings and compare the runs.

    Each combination is trained by `nmt train` in its own process and run directory, named after its values, such as
    runs/sweep-sample/seed=2,peak_lr=3e-4. The output is in logs/. Values are YAML, as for --set; a value with a comma
    needs quotes or brackets. All combinations are checked before training starts.

    The same command continues a sweep: finished runs are kept, stopped runs are resumed, and the others are started. On
    Ctrl-C and SIGTERM, each run finishes its update and saves, and the exit status is 75. If a run fails, the others
    continue, and the exit status is 1.

    The config's data directory is prepared if it does not exist. If the grid changes the text or the tokenizer (data.…,
    tokenizer.…), each combination of these settings has its own data directory in the directory of the sweep.

    The table shows, best run first, the best score on the development set and the weights that nmt translate would use.
    The score is BLEU, or accuracy for classifiers, or perplexity (lower is better) for runs that write no text. With
    several values of training.seed, means and standard deviations over the seeds are shown. A run that
    training.max_minutes ended with less than 95 % of the steps of the longest run with the same settings is named and,
    unless --include-shorter is given, left out of the means. Test sets are not used, so that they remain unbiased:
    evaluate only the winner on them. sweep.tsv contains the same table.

    With --jobs N, the cores are divided among the runs (OMP_NUM_THREADS, unless it is set).

    \b
    Examples:
      nmt sweep sample.yaml --grid training.peak_lr=3e-4,7e-4 --grid training.seed=1,2,3
      nmt sweep multi30k.yaml --set training.max_steps=4000 --grid tokenizer.vocab_size=4000,8000 --jobs 2
      nmt sweep mine.yaml --grid model.norm=pre,post --devices 0,1 --dir runs/norms
    """
    if jobs is not None and devices is not None:
        raise ConfigError(["--jobs and --devices cannot be combined"])
    names = [] if devices is None else [name.strip() for name in devices.split(",")]
    if not all(names):
        raise ConfigError([f"--devices {devices}: must be numbers of GPUs, such as 0,1"])
    from nmt.recipes.sweep import sweep as run_stage
    from nmt.recipes.sweep_plan import Request

    rows = run_stage(Request(config, grid, overrides or (), data, directory, jobs or 1, names, include_shorter))
    if any(row.state == "failed" for row in rows):
        raise typer.Exit(FAILED)
