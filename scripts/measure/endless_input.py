"""Send an endless stream of lines to `nmt translate`, and print its memory use and its response time for single lines.

    python -m scripts.measure.endless_input RUN [--minutes M] [--text FILE]

First single lines go down the open pipe, each after the answer to the one before. Then lines are written as fast as
they are taken, those of FILE over and over, each with a random word behind it so that none comes twice. Memory is what
the process has for itself (RssAnon + RssShmem of /proc/PID/status). The exit status is 1 if a single line took more
than 2 seconds, or if the peak of memory in the last quarter of the time is more than 3 % above that in the second.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

SAMPLE = Path(__file__).parents[2] / "data" / "sample" / "test.de"
N_SINGLE = 10
MOST_SECONDS = 2.0
MOST_GROWTH = 0.03


def own_memory(pid: int) -> float:
    """Memory that a process shares with no file (MB)."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return sum(int(kilobytes) for kilobytes in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB$", status, re.M)) / 1024


def answer_times(pipe_in: IO[bytes], pipe_out: IO[bytes], lines: list[str]) -> list[float]:
    """Seconds from each line to its answer; the next is written only then."""
    seconds = []
    for line in lines:
        begin = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # then there is no answer
            pipe_in.write(f"{line}\n".encode())
            pipe_in.flush()
        if not pipe_out.readline():
            sys.exit("endless_input: nmt translate ended before it answered")
        seconds.append(time.monotonic() - begin)
    return seconds


class Feeder:
    """Writes lines until it is told to stop, and counts the answers."""

    def __init__(self, pipe_in: IO[bytes], pipe_out: IO[bytes], lines: list[str]) -> None:
        self.n_answers = 0
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(pipe_in, lines)),
            threading.Thread(target=self._count, args=(pipe_out,)),
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, pipe_in: IO[bytes], lines: list[str]) -> None:
        rng = random.Random(1)
        try:
            for line in itertools.cycle(lines):
                if self._stop.is_set():
                    break
                pipe_in.write(f"{line} {rng.randint(0, 10**9):x}\n".encode())
        except BrokenPipeError:
            pass  # the process has ended, which `watch` reports
        finally:
            with contextlib.suppress(BrokenPipeError):
                pipe_in.close()

    def _count(self, pipe_out: IO[bytes]) -> None:
        for _ in pipe_out:
            self.n_answers += 1

    def stop(self) -> None:
        """End the input, and wait for the last answers."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


def watch(process: subprocess.Popen[bytes], feeder: Feeder, seconds: float) -> list[float]:
    """Print memory and answers 20 times in so many seconds; the memory at each of them (MB)."""
    begin, found = time.monotonic(), []
    print(f"{'seconds':>8}{'MB':>10}{'answers':>10}")
    for i in range(1, 21):
        time.sleep(max(0.0, begin + i * seconds / 20 - time.monotonic()))
        if process.poll() is not None:
            sys.exit(f"endless_input: nmt translate ended with status {process.returncode}")
        found.append(own_memory(process.pid))
        print(f"{time.monotonic() - begin:>8.0f}{found[-1]:>10.1f}{feeder.n_answers:>10,}", flush=True)
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Memory and answer times of nmt translate on endless input.")
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--minutes", type=float, default=5.0, metavar="M", help="how long to feed it")
    parser.add_argument("--text", type=Path, default=SAMPLE, metavar="FILE", help="source text")
    options = parser.parse_args()
    lines = options.text.read_text(encoding="utf-8").splitlines()
    command = [sys.executable, "-m", "nmt", "translate", "--run", str(options.run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        first, *others = answer_times(process.stdin, process.stdout, lines[: N_SINGLE + 1])
        print(f"first answer {first:.2f} s after the start; a line alone: at most {max(others):.2f} s")
        feeder = Feeder(process.stdin, process.stdout, lines)
        memory = watch(process, feeder, 60 * options.minutes)
        # what it has read is translated to the end, which nobody needs
        process.terminate()
        feeder.stop()
    growth = max(memory[15:]) / max(memory[5:10]) - 1
    print(f"memory: {max(memory):.1f} MB at most; from the second to the last quarter {growth:+.1%}")
    return int(growth > MOST_GROWTH or max(others) > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
