"""A process of a toolkit, with the Python of its environment, two threads, no GPU and no network."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.bench.install import FailedError, bin_of
from scripts.bench.peer import Peer
from scripts.bench.task import THREADS

ROOT = Path(__file__).resolve().parents[2]


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of a toolkit's process, `variables` its own."""
    return {
        **os.environ,
        **variables,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": str(THREADS),
        "MKL_NUM_THREADS": str(THREADS),
        "CUDA_VISIBLE_DEVICES": "",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",  # older toolkits have objects of their own in checkpoints
    }


def run_python(
    peer: Peer,
    home: Path,
    words: Sequence[object],
    *,
    log: Path,
    run: Path,
    variables: Mapping[str, str],
    seconds: float | None = None,
) -> int:
    """The exit status of its Python with these arguments in the folder `run`. Raises FailedError after `seconds`."""
    command = [str(bin_of(peer, home) / "python"), *map(str, words)]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as file:
        try:
            done = subprocess.run(
                command,
                cwd=run,
                env=environment(variables),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise FailedError(f"took too long: {log}") from None
    return done.returncode
