"""Measure the cost of preparing a pair, compared with another version of nmt or OpusFilter.

    python -m scripts.bench.prepare FILE.de FILE.en [--pairs N] [--baseline CHECKOUT] [--opusfilter]
                                    [--workers N ...] [--rounds N] [--dir DIR]

Cleaning, removal of duplicates and encoding, with a vocabulary of 32,000 pieces that is learned before. Each arm
prepares a thousand pairs and then all of them, in turn with the others; a round gives the differences of the CPU times,
divided by the pairs, and of the seconds: of a few hundred thousand pairs at least, or the start counts for too much. If
N is more than the files have, the pairs are repeated with two words before each, so that they differ. New words are
what encoding takes time for: such a text has fewer of them than a real one, and their number is printed. OpusFilter's
nearest steps are filters of length and ratio, `remove_duplicates` and subword-nmt; it is installed into an environment
of its own. Every result is appended to prepare.jsonl in DIR. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nmt.cli.app import user_errors
from nmt.layout import DataDir
from scripts.bench.install import FailedError
from scripts.bench.prepare_arms import FEW_PAIRS, Arm, Text, make_text, nmt, opusfilter

ROOT = Path(__file__).resolve().parents[2]
METER = """
import json, resource, subprocess, sys, time
began = time.monotonic()
status = subprocess.call(sys.argv[1:], stdout=sys.stderr)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss]))
sys.exit(status)
"""
"""Runs a command. In a small process: the peak memory of a child is at least what its parent had when it began."""


@dataclass(frozen=True)
class Cost:
    """What an arm has used in a round."""

    cpu_us: float
    """CPU time of a pair, in microseconds."""
    seconds: float
    """From the start to the end, less those for a thousand pairs."""
    megabytes: float
    """Peak memory of the largest process."""


def measure(arm: Arm, text: Text, home: Path) -> Cost:
    """Prepare few pairs, then all. Raises FailedError."""
    few_cpu, few_seconds, _ = run(arm, "few", home)
    cpu, seconds, megabytes = run(arm, "all", home)
    return Cost((cpu - few_cpu) * 1e6 / (text.n_pairs - FEW_PAIRS), seconds - few_seconds, megabytes)


def run(arm: Arm, size: str, home: Path) -> tuple[float, float, float]:
    """Return CPU seconds and seconds of a preparation, and the peak memory of its largest process in MB."""
    out, log = output(arm, home), home / "logs" / "prepare.log"
    shutil.rmtree(out, ignore_errors=True)
    for folder in (out.parent, log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(arm.folder), "OMP_NUM_THREADS": "1"}
    with log.open("ab") as file:
        command = [sys.executable, "-c", METER, *arm.command(size, out)]
        done = subprocess.run(
            command, cwd=arm.folder, env=environment, stdout=subprocess.PIPE, stderr=file, check=False
        )
    if done.returncode:
        raise FailedError(f"{arm.title} failed: {log}")
    cpu, seconds, kilobytes = json.loads(done.stdout)
    return cpu, seconds, kilobytes / 1024


def output(arm: Arm, home: Path) -> Path:
    """Return the folder that an arm writes."""
    return home / "prepared" / arm.title.lower().replace(" ", "-").replace(",", "")


def bench(options: argparse.Namespace) -> str:
    """Measure all arms, round by round. Returns the table."""
    home = options.dir.expanduser().resolve()
    text = make_text([path.resolve() for path in options.files], options.pairs, home)
    learning = nmt(f"vocabulary {text.folder.name}", ROOT, text, None)
    vocabulary = output(learning, home)
    if not DataDir(vocabulary).manifest.is_file():
        run(learning, "vocabulary", home)
    arms = [nmt("baseline", options.baseline.resolve(), text, vocabulary)] if options.baseline else []
    arms += [nmt(f"nmt, workers {n}", ROOT, text, vocabulary, n) for n in options.workers]
    arms += [opusfilter(f"OpusFilter, jobs {n}", text, home, n) for n in options.workers if options.opusfilter]
    rounds: list[list[Cost]] = []
    for number in range(1, options.rounds + 1):
        rounds.append([])
        for arm in arms:
            rounds[-1].append(cost := measure(arm, text, home))
            print(f"bench: round {number}, {arm.title}: {cost.cpu_us:.1f} us a pair", file=sys.stderr, flush=True)
            record = {
                "text": text.folder.name,
                "pairs": text.n_pairs,
                "round": number,
                "arm": arm.title,
                **asdict(cost),
            }
            with (home / "prepare.jsonl").open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(record)}\n")
    lines = [f"{text.n_pairs:,} pairs, {text.n_words:.2f} different words a pair", "", *render(arms, rounds)]
    if options.baseline:
        first, *others = (fingerprint(output(arm, home)) for arm in arms if not arm.title.startswith("OpusFilter"))
        lines += ["", f"content as of the baseline: {'yes' if all(each == first for each in others) else 'no'}"]
    return "\n".join(lines)


def render(arms: Sequence[Arm], rounds: Sequence[Sequence[Cost]]) -> list[str]:
    """Return the lines of the table: medians over the rounds, with the smallest and largest value of what is compared.

    The ratio is that of the CPU time of the first arm to that of this one, in the same round.
    """
    lines = ["| | CPU µs a pair | pairs a CPU second | ratio | seconds | MB |", "|---|---|---|---|---|---|"]
    for number, arm in enumerate(arms):
        own = [costs[number] for costs in rounds]
        cpu = [cost.cpu_us for cost in own]
        ratios = [costs[0].cpu_us / costs[number].cpu_us for costs in rounds]
        cells = (
            arm.title, spread(cpu, ".1f"), f"{1e6 / statistics.median(cpu):,.0f}", spread(ratios, ".2f"),
            f"{statistics.median(cost.seconds for cost in own):.1f}", f"{max(cost.megabytes for cost in own):.0f}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def spread(values: Sequence[float], form: str) -> str:
    """Return the median, and the smallest and largest value."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def fingerprint(directory: Path) -> object:
    """Return the fingerprint of the content of a data directory."""
    return json.loads(DataDir(directory).manifest.read_bytes())["fingerprint"]


def parse() -> argparse.Namespace:
    """The command line."""
    home = os.environ.get("PEERS") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "nmt-peers"
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", type=Path, nargs=2, help="aligned text, named after its languages: text.de text.en")
    parser.add_argument("--pairs", type=int, help="default: those of the files")
    parser.add_argument("--baseline", type=Path, help="checkout of another version")
    parser.add_argument("--opusfilter", action="store_true", help="measure OpusFilter, too")
    parser.add_argument("--workers", type=int, nargs="+", default=[1], help="processes; several are measured in turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=Path(home), help=f"of what is installed and kept; default: {home}")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = parse()
    with user_errors():
        print(bench(options))


if __name__ == "__main__":
    main()
