"""nmt's command line where results are made up.

    python -m scripts.gpu.null.commands                   # the sample corpus, from preparing to evaluating
    python -m scripts.gpu.null.commands train --config …  # or one command
    python -m torch.distributed.run --nproc_per_node 2 -m scripts.gpu.null.commands train …

Two processes need stubs that show two GPUs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import scripts.gpu.null.counts  # noqa: F401  checks that the stubs are there
from scripts.gpu.null.made_up import make_up
from scripts.gpu.setting import ROOT

SETTINGS = {"device": "cuda", "compile": "off", "warmup_steps": 5, "max_steps": 20, "validate_every_steps": 10,
            "save_every_steps": 10, "log_every_steps": 5, "ema": 0.99}  # fmt: skip


def everything() -> int:
    """Run all commands, and print how each ended."""
    with tempfile.TemporaryDirectory() as scratch:
        data, run, text, out = (str(Path(scratch) / name) for name in ("data", "run", "text", "out"))
        lines = (ROOT / "data" / "sample" / "dev.de").read_text(encoding="utf-8").splitlines(keepends=True)
        Path(text).write_text("".join(lines[:20]), encoding="utf-8")
        settings = [x for name, value in SETTINGS.items() for x in ("--set", f"training.{name}={value}")]
        commands = (
            ["prepare", "--config", "sample.yaml", "--data", data],
            ["train", "--config", "sample.yaml", "--data", data, "--run", run, *settings],
            ["train", "--resume", "--run", run, "--data", data, "--set", "training.max_steps=30"],
            ["translate", "--run", run, "--input", text, "--output", out],
            ["translate", "--run", run, "--input", text, "--output", out, "--beam", "1"],
            ["evaluate", "--run", run, "--data", data],
        )
        failed = False
        for arguments in commands:
            done = subprocess.run(
                [sys.executable, "-m", "scripts.gpu.null.commands", *arguments],
                cwd=ROOT,
                capture_output=True,
                text=True,
            )
            failed |= done.returncode != 0
            print(
                f"nmt {arguments[0]}: {'ok' if done.returncode == 0 else f'exit status {done.returncode}'}", flush=True
            )
            if done.returncode:
                print((done.stdout + done.stderr)[-3000:], flush=True)
    return int(failed)


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(everything())
    make_up()
    from nmt.cli import main

    main()
