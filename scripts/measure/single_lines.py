"""Measure how fast `nmt serve` and `nmt translate` in a pipe answer single lines, and how long they take to start.

    python -m scripts.measure.single_lines --run RUN --text FILE [--lines 100] [--words 13 17]

Lines of FILE, in the run's source language, that have from 13 to 17 words are sent one at a time, each once, so that no
cache helps: the next when the one before is answered. With CTranslate2 in int8 and in float32, and with PyTorch; the
first 5 lines are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nmt.runs.model import open_saved
from scripts.bench.load import Connection, translation
from scripts.bench.server import free_port, serving

NMT = [sys.executable, "-m", "nmt"]
ENGINES = {
    "CTranslate2, int8": ["--engine", "ctranslate2", "--int8"],
    "CTranslate2, float32": ["--engine", "ctranslate2"],
    "PyTorch": ["--engine", "native"],
}
N_WARM = 5


@dataclass(frozen=True)
class Measured:
    """Seconds."""

    name: str
    start: float
    """Until it is ready; of a pipe, until it has answered its first line."""
    lines: Sequence[float]


def of_server(name: str, options: Sequence[str], run: Path, lines: Sequence[str]) -> Measured:
    """Measure `nmt serve`."""
    config = open_saved(run).config.data
    port = free_port()

    async def answer_all() -> list[float]:
        connection, seconds = Connection(port), []
        for line in lines:
            began = time.perf_counter()
            answer = await connection.send(translation(line, (config.src, config.tgt)))
            seconds.append(time.perf_counter() - began)
            if answer.text is None:
                sys.exit(f"single_lines: the server answered {answer}")
        await connection.close()
        return seconds

    with tempfile.TemporaryDirectory() as folder:
        command = [*NMT, "serve", "--port", port, "--run", run, *options]
        with serving(command, port, Path(folder) / "log", ready="/ready", variables={}) as server:
            return Measured(f"nmt serve, {name}", server.seconds_to_ready, asyncio.run(answer_all())[N_WARM:])


@contextmanager
def translating(options: Sequence[str], run: Path) -> Iterator[Callable[[str], None]]:
    """Start `nmt translate` in a pipe; the function sends it a line and waits for the answer."""
    command = [*NMT, "translate", "--run", str(run), *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None and process.stdout is not None
        to, back = process.stdin, process.stdout

        def answer(line: str) -> None:
            to.write(f"{line}\n".encode())
            to.flush()
            if not back.readline():
                sys.exit("single_lines: nmt translate has ended")

        yield answer


def of_pipe(name: str, options: Sequence[str], run: Path, lines: Sequence[str]) -> Measured:
    """Measure `nmt translate`."""
    seconds, began = [], time.perf_counter()
    with translating(options, run) as answer:
        for line in lines:
            answer(line)
            seconds.append(time.perf_counter() - began)
            began = time.perf_counter()
    return Measured(f"nmt translate, {name}", seconds[0], seconds[N_WARM:])


def table(measured: Sequence[Measured]) -> list[str]:
    """The rows of all."""
    head = f"{'':<36}{'ready s':>9}{'p50 ms':>9}{'p90 ms':>9}{'p99 ms':>9}{'lines':>7}"
    rows = []
    for each in measured:
        of_lines = sorted(each.lines)
        shares = [1000 * of_lines[math.ceil(share * len(of_lines)) - 1] for share in (0.9, 0.99)]
        p50 = 1000 * statistics.median(of_lines)
        rows.append(f"{each.name:<36}{each.start:>9.1f}{p50:>9.1f}{shares[0]:>9.1f}{shares[1]:>9.1f}{len(of_lines):>7}")
    return [head, *rows]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", type=Path, required=True, help="run directory")
    parser.add_argument("--text", type=Path, required=True, help="lines of the source language")
    parser.add_argument("--lines", type=int, default=100, metavar="N", help="that are measured; default: 100")
    parser.add_argument("--words", type=int, nargs=2, default=(13, 17), metavar=("LEAST", "MOST"), help="of a line")
    options = parser.parse_args()
    least, most = options.words
    with options.text.open(encoding="utf-8") as file:
        fitting = (line for line in dict.fromkeys(map(str.strip, file)) if least <= len(line.split()) <= most)
        lines = list(islice(fitting, options.lines + N_WARM))
    if len(lines) <= N_WARM:
        sys.exit(
            f"single_lines: {options.text} has {len(lines)} lines of {least} to {most} words; {N_WARM} are not counted"
        )
    measured = []
    for name, words in ENGINES.items():
        for measure in (of_server, of_pipe):
            measure(name, words, options.run, lines[: N_WARM + 1])  # exports, and warms the disk's cache
            measured.append(measure(name, words, options.run, lines))
    print("\n".join(table(measured)))


if __name__ == "__main__":
    main()
