"""Run the command line of nmt with made-up results.

    python -m scripts.gpu.null.commands                   # the sample corpus, from preparing to evaluating
    python -m scripts.gpu.null.commands train --config …  # or one command
    python -m torch.distributed.run --nproc_per_node 2 -m -- scripts.gpu.null.commands train …

Two processes need stubs that show two GPUs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import scripts.gpu.null.counts  # noqa: F401  checks that the stubs are there
from scripts.gpu.null.made_up import make_up
from scripts.gpu.setting import ROOT

SETTINGS = {"device": "cuda", "compile": "off", "warmup_steps": 5, "max_steps": 20, "validate_every_steps": 10,
            "save_every_steps": 10, "log_every_steps": 5, "ema": 0.99}  # fmt: skip


OBJECTIVES = {
    "denoising": ["training.objective=denoising"],
    "masked": [
        "training.objective=masked",
        "model.kind=encoder",
        "training.masked.pair_task=[shuffled]",
    ],
    "causal": ["training.objective=causal", "model.kind=decoder"],
    "decoder": ["model.kind=decoder"],
}
LABELLED = ["data.direction=de-label", "data.train=[{files: {de: text, label: labels}}]", "data.valid=0.2",
            "data.test={}", "training.objective=classification"]  # fmt: skip


def everything() -> int:
    """Run all commands, and print how each ended."""
    with tempfile.TemporaryDirectory() as scratch:
        data, run, text, out = (str(Path(scratch) / name) for name in ("data", "run", "text", "out"))
        lines = (ROOT / "data" / "sample" / "dev.de").read_text(encoding="utf-8").splitlines(keepends=True)
        Path(text).write_text("".join(lines[:20]), encoding="utf-8")
        Path(scratch, "labels").write_text("".join(f"{i % 2}\n" for i in range(20)), encoding="utf-8")
        settings = _set([f"training.{name}={value}" for name, value in SETTINGS.items()])
        prepare, train = (["prepare", "--config", "sample.yaml"], ["train", "--config", "sample.yaml", *settings])
        labels = _set([f"data.root={scratch}", *LABELLED, "tokenizer.vocab_size=330"])
        others = {name: str(Path(scratch) / name) for name in (*OBJECTIVES, "labelled", "classes", "lm-classes")}
        commands = (
            [*prepare, "--data", data],
            [*train, "--data", data, "--run", run],
            ["train", "--resume", "--run", run, "--data", data, "--set", "training.max_steps=30"],
            ["translate", "--run", run, "--input", text, "--output", out],
            ["translate", "--run", run, "--input", text, "--output", out, "--beam", "1"],
            ["evaluate", "--run", run, "--data", data],
            *([*train, "--data", data, "--run", others[name], *_set(of)] for name, of in OBJECTIVES.items()),
            [*train, "--data", data, "--run", f"{run}-2", "--init-from", others["denoising"]],
            [*train, "--data", data, "--run", f"{run}-3", "--init-from", run, *_set(["data.directions=[de-en,en-de]"])],
            ["translate", "--run", run, "--lm", others["causal"], "--input", text, "--output", out],
            ["translate", "--run", others["decoder"], "--input", text, "--output", out],
            ["score", "--run", others["causal"], "--ref", text],
            ["generate", "--run", others["causal"], "--samples", "3"],
            [*prepare, "--data", others["labelled"], *labels, "--set", "model.kind=encoder"],
            *(
                [*train, "--data", others["labelled"], "--run", others[name], *labels, *_set(of)]
                for name, of in (
                    ("classes", ["model.kind=encoder"]),
                    ("lm-classes", ["model.kind=decoder"]),
                )
            ),
            ["classify", "--run", others["lm-classes"], "--input", text],
            ["evaluate", "--run", others["classes"], "--data", others["labelled"], "--split", "valid"],
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


def _set(settings: Sequence[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(everything())
    make_up()
    from nmt.cli import main

    main()
