"""Measure the memory and the time that `nmt prepare` takes for many pairs of made-up text.

    python -m scripts.measure.prepare_memory [--pairs 20000000] [--workers 2] [--folder DIR]

The text has the sizes of real text: about 13 words a side, a vocabulary with the frequencies of Zipf's law, every
twentieth pair a duplicate. What is printed last is the largest sum of the resident memory of all processes, sampled
twice a second; pages that they share are counted in each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

N_WORDS, N_PHRASES, BLOCK = 40_000, 30_000, 200_000
CONFIG = """data:
  direction: de-en
  root: {folder}
  train: [{{files: {{de: text.de, en: text.en}}}}]
  valid: 2000
tokenizer: {{vocab_size: 16000}}
"""


def words(rng: np.random.Generator, letters: str) -> list[str]:
    """Return made-up words."""
    lengths = rng.integers(2, 12, N_WORDS)
    choice = rng.integers(0, len(letters), (N_WORDS, 12))
    return ["".join(letters[i] for i in row[:n]) for row, n in zip(choice.tolist(), lengths.tolist(), strict=True)]


def write_text(folder: Path, n_pairs: int) -> None:
    """Write text.de and text.en: each line is three phrases, which have a translation each."""
    rng = np.random.default_rng(1)
    ranks = np.minimum(rng.zipf(1.2, (N_PHRASES, 5)) - 1, N_WORDS - 1)
    sizes = rng.integers(3, 6, N_PHRASES)
    phrases = []
    for letters in ("aeiounrstdlmhgbäöüß", "aeiounrstdlmhgbcykw"):
        own = words(rng, letters)
        phrases.append(
            [" ".join(own[i] for i in row[:n]) for row, n in zip(ranks.tolist(), sizes.tolist(), strict=True)]
        )
    with (
        (folder / "text.de").open("w", encoding="utf-8") as src,
        (folder / "text.en").open("w", encoding="utf-8") as tgt,
    ):
        for start in range(0, n_pairs, BLOCK):
            chosen = rng.integers(0, N_PHRASES, (min(BLOCK, n_pairs - start), 3))
            chosen[19::20] = chosen[18::20][: len(chosen[19::20])]
            for file, own in zip((src, tgt), phrases, strict=True):
                file.writelines(f"{own[a]} {own[b]} {own[c]}.\n" for a, b, c in chosen.tolist())


def resident(pid: int) -> int:
    """Return the resident memory of a process and of those that it has started, in bytes."""
    total, waiting = 0, [pid]
    while waiting:
        process = Path(f"/proc/{waiting.pop()}")
        with suppress(OSError, ValueError):
            for task in (process / "task").iterdir():
                waiting += map(int, (task / "children").read_text(encoding="ascii").split())
            total += int((process / "statm").read_text(encoding="ascii").split()[1]) * 4096
    return total


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=20_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where text and data directory go, and stay; else they are removed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder, options.pairs)
        config = folder / "config.yaml"
        config.write_text(CONFIG.format(folder=folder), encoding="utf-8")
        command = [sys.executable, "-m", "nmt", "prepare", "--config", str(config), "--data", str(folder / "data")]
        start, peak = time.monotonic(), 0
        with subprocess.Popen([*command, "--workers", str(options.workers)]) as process:
            while process.poll() is None:
                peak = max(peak, resident(process.pid))
                time.sleep(0.5)
        seconds = time.monotonic() - start
    if process.returncode:
        raise SystemExit(process.returncode)
    print(f"{options.pairs:,} pairs, {options.workers} workers: {seconds:.0f} s, {peak / 1e9:.2f} GB resident at most")


if __name__ == "__main__":
    main()
