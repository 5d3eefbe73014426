"""Kill the translation of documents at random moments, start it again, and compare the result with an undisturbed one.

    python -m scripts.checks.documents --run RUN [--kills 20] [--seed 1] FILE...

The files are documents of any format. They are translated into a directory by the command line, first without
disturbance; then into another directory, with SIGKILL at random moments, until it ends; and again, until there were so
many kills. The exit status is 1 if a file differs, or if something else is left.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def content(directory: Path) -> dict[str, bytes]:
    """Return the content of all files in a directory, by name."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    inputs = [part for file in given.files for part in ("--input", str(file))]
    command = [sys.executable, "-m", "nmt", "translate", "--run", str(given.run), *inputs, "--output-dir"]
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder) / "whole", Path(folder) / "killed"
        start = time.monotonic()
        subprocess.run([*command, whole], check=True)
        seconds, n_kills, n_rounds = time.monotonic() - start, 0, 0
        while n_kills < given.kills:
            shutil.rmtree(killed, ignore_errors=True)
            n_rounds += 1
            while True:
                child = subprocess.Popen([*command, killed], stderr=subprocess.DEVNULL)
                try:
                    status = child.wait(rng.uniform(0, 1.2 * seconds))
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
                    n_kills += 1
                    continue
                if status:
                    sys.exit(f"{' '.join(map(str, command))} ended with status {status}")
                break
            if content(killed) != content(whole):
                sys.exit(f"round {n_rounds}, after {n_kills} kills: the files differ")
        size = sum(map(len, content(whole).values()))
        print(f"{len(given.files)} documents, {size:,} bytes in {seconds:.0f} s")
        print(f"equal after {n_kills} kills in {n_rounds} rounds")


if __name__ == "__main__":
    main()
