"""Read thousands of damaged files of every format with the code of `nmt prepare`.

    python -m scripts.checks.fuzz_formats [--files 1000] [--seed 1] [--formats tsv tmx ...]
    python -m scripts.checks.fuzz_formats --case tmx:123 [--seed 1] --keep FOLDER

Good small files (`fuzz_formats_files`) are damaged in one to four places, before or after they are compressed or put
into an archive. A file may be read, with units that are no pair counted, or be refused with one line that names it.
Anything else is a finding: another exception, a crash, more than 5 seconds of CPU time or 1 GB of memory, and a shift:

- aligned text, TSV and JSON Lines that are read must give the pairs that Python's own `split` and `json` find in them;
- what is damaged after it was compressed, or packed with checksums, must be refused or give what is in it undamaged;
- in all other formats, at most two pairs per damage may consist of texts that did not belong together.

It prints a row for each format, and each finding, which --case repeats with its traceback, and --keep with the file.
The exit status is 1 if there are findings. It takes about 4 ms of CPU time a file; a folder for
temporary files in memory (TMPDIR=/dev/shm) spares the disk.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

from nmt.config.source import Source, TrainFiles
from nmt.errors import ConfigError, DataError
from nmt.prepare.pipeline.read import cut_aligned, read_range
from nmt.prepare.sources import open_source
from scripts.checks.fuzz_formats_cases import Case, Pairs, make_case
from scripts.checks.fuzz_formats_files import COMPRESSIONS, FORMATS, LANGUAGES, PAIRS

SECONDS = 5.0
"""Of CPU time, for one file."""
MEMORY = 1 << 30
"""That reading a file may take, in addition to what the process has."""
OUTCOMES = ("read", "read, some skipped", "refused, with the place", "refused", "finding")
KNOWN = [{" ".join(texts[side].replace(":", ",").split()): i for i, texts in enumerate(PAIRS)} for side in (0, 1)]
_PLACE = re.compile(r"\b(line|row|byte|character|unit|tu|trans-unit) \d")


class FindingError(Exception):
    """A case was read wrongly, or failed in another way than with a DataError."""


class TooSlowError(BaseException):
    """Too much time; no `except Exception` on the way takes it for damage."""


def check_pairs(kind: str, case: Case, pairs: Pairs) -> None:
    """Raise FindingError if the pairs that were read cannot be right."""
    found = [(" ".join(one.split()), " ".join(two.split())) for one, two in pairs]
    if case.expected is not None:
        expected = [(" ".join(one.split()), " ".join(two.split())) for one, two in case.expected]
        if found != expected:
            raise FindingError(f"other pairs than its lines have: {len(found)} instead of {len(expected)}")
    numbers = [(_number(0, one), _number(1, two)) for one, two in found]
    whole = [one for one, two in numbers if one is not None and one == two]
    if case.is_damaged_outside and whole[: len(PAIRS)] != _good(kind):
        raise FindingError(f"damage was not noticed: it has the pairs {whole}")
    mixed = [pair for pair in numbers if None not in pair and pair[0] != pair[1]]
    if kind != "aligned" and len(mixed) > 2 * case.n_damages:
        raise FindingError(f"{len(mixed)} pairs of texts that did not belong together: {mixed[:5]}")


def _number(side: int, text: str) -> int | None:
    """Return the number of the pair that a text is of, None if it is damaged."""
    in_csv = text.replace(":", ",").removesuffix(' "quoted"').removesuffix(" next line")
    return KNOWN[side].get(in_csv)


def _good(kind: str) -> list[int]:
    return [number for number in range(len(PAIRS)) if kind != "po" or number != 4]  # which is fuzzy


# --- reading --------------------------------------------------------------------------------------------


def outcome(kind: str, number: int, seed: int, folder: Path) -> str:
    """Read a case. Returns how it went, in words; raises FindingError."""
    case = make_case(kind, number, seed, folder)
    try:
        with limited():
            opened = open_source(case.source, LANGUAGES, folder)
            pairs = [(pair.src, pair.tgt) for pair in opened.pairs()]
    except (DataError, ConfigError) as error:
        check_message(str(error), folder)
        check_ranges(case.source, folder, None)
        return "refused, with the place" if _PLACE.search(str(error)) else "refused"
    check_pairs(kind, case, pairs)
    check_ranges(case.source, folder, pairs)
    return "read, some skipped" if opened.units.skipped else "read"


def check_message(message: str, folder: Path) -> None:
    """Raise FindingError unless a message is one line of reasonable length that names the file."""
    if "\n" in message or "\r" in message:
        raise FindingError(f"a message of several lines: {message!r}")
    if len(message) > 2000:
        raise FindingError(f"a message of {len(message)} characters: {message[:300]!r}")
    if "file" not in message.replace(str(folder), ""):
        raise FindingError(f"a message without the file: {message!r}")


def check_ranges(source: Source, folder: Path, pairs: Pairs | None) -> None:
    """Raise FindingError unless aligned files, cut into ranges as `nmt prepare` does, give the same; None: an error."""
    if not isinstance(source, TrainFiles) or any(name.endswith(tuple(COMPRESSIONS)) for name in source.files.values()):
        return
    first, second = (folder / source.files[language] for language in LANGUAGES)
    try:
        found = [pair for part in cut_aligned([first, second], 5) for pair in read_range(part)]
    except DataError as error:
        check_message(str(error), folder)
        if pairs is not None:
            raise FindingError(f"read as a whole, but refused in ranges: {error}") from error
        return
    if pairs is not None and found != pairs:
        raise FindingError("other pairs in ranges")


@contextmanager
def limited() -> Iterator[None]:
    """Raise TooSlowError where the block takes too much time; its memory is limited, too."""

    def give_up(*_: object) -> None:
        raise TooSlowError(f"more than {SECONDS:.0f} s")

    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


# --- many files -----------------------------------------------------------------------------------------


def run(kind: str, first: int, last: int, seed: int, pipe: int) -> None:
    """Read cases, and write the outcome of each into a pipe as a line of JSON."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    warnings.simplefilter("error")
    with os.fdopen(pipe, "w") as results, Path(os.devnull).open("w") as null, redirect_stderr(null):
        importlib.import_module("pyarrow.parquet")  # not part of the memory of a file
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        for number in range(first, last):
            with tempfile.TemporaryDirectory() as folder:
                start = time.process_time()
                try:
                    found, is_bad = outcome(kind, number, seed, Path(folder)), False
                except (Exception, TooSlowError) as error:
                    found, is_bad = f"{type(error).__name__}: {error}", True
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            results.write(json.dumps([number, found, is_bad, time.process_time() - start, peak]) + "\n")
            results.flush()


def fuzz(kind: str, n_files: int, seed: int) -> int:
    """Read cases of a format in a process of their own, and print a row. Returns the number of findings."""
    counts, findings, slowest, peak, number = Counter[str](), 0, 0.0, 0, 0
    while number < n_files:
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ours)
            run(kind, number, n_files, seed, theirs)
            os._exit(0)
        os.close(theirs)
        with os.fdopen(ours) as results:
            for line in results:
                number, found, is_bad, seconds, peak_now = json.loads(line)
                slowest, peak, number = max(slowest, seconds), max(peak, peak_now), number + 1
                if is_bad:
                    print(f"{kind}:{number - 1}: {found}", flush=True)
                findings += is_bad
                counts["finding" if is_bad else found] += 1
        _, status = os.waitpid(child, 0)
        if status != 0:
            print(f"{kind}:{number}: the process died: {os.waitstatus_to_exitcode(status)}", flush=True)
            findings, number = findings + 1, number + 1
            counts["finding"] += 1
    row = [f"{counts[name]:,}" for name in OUTCOMES]
    print(" | ".join(["", kind, f"{n_files:,}", *row, f"{slowest:.1f} s", f"{peak} MB", ""]).strip(), flush=True)
    return findings


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=int, default=1000, help="of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=[*FORMATS])
    parser.add_argument("--case", metavar="FORMAT:NUMBER", help="read only this one")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="folder for the files of --case")
    options = parser.parse_args()
    if options.case:
        kind, _, number = options.case.rpartition(":")
        options.keep.mkdir(parents=True)
        print(outcome(kind, int(number), options.seed, options.keep))
        return
    print(f"| {' | '.join(['format', 'files', *OUTCOMES, 'slowest', 'peak memory'])} |")
    n_findings = sum(fuzz(kind, options.files, options.seed) for kind in options.formats)
    print(f"{n_findings} findings in {options.files * len(options.formats):,} files")
    sys.exit(n_findings > 0)


if __name__ == "__main__":
    main()
