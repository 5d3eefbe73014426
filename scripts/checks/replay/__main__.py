"""Compare two checkouts: `python -m scripts.checks.replay OLD NEW` (see the package's docstring)."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from scripts.checks.replay import compare, documents, inputs
from scripts.checks.replay.calls import MISSING
from scripts.checks.replay.compare import Difference, Expected
from scripts.checks.replay.play import Place
from scripts.checks.replay.tables import FOLDER, Case, read_cases, with_needs

ROOT = Path(__file__).resolve().parents[3]
TABLES = FOLDER
SOURCES = ("nmt", "configs", "data/sample", "docs/settings.md")
"""The parts of a checkout that decide how it behaves."""

INPUTS = ("inputs.py", "values.txt", "documents.py", "models.py")
PLAYER = ("play.py", "calls.py", "requests.py")
"""Modules whose changes make recordings useless."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the cases with both checkouts and compare them; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.checks.replay", description=__doc__)
    parser.add_argument("old", type=Path, metavar="OLD", help="checkout whose behaviour is right")
    parser.add_argument("new", type=Path, metavar="NEW", help="checkout that is compared with it")
    parser.add_argument("--quick", action="store_true", help="only the cases of the quick form (about three minutes)")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="only such cases, as in 'translate.*'")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep all that is written; OLD's part is reused")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (default: 2)")
    options = parser.parse_args(arguments)
    cases = read_cases(TABLES)
    chosen = [case for case in cases if case.is_quick or not options.quick]
    if options.only:
        chosen = [case for case in chosen if any(fnmatchcase(case.name, pattern) for pattern in options.only)]
    start = time.monotonic()
    with _folder(options.keep) as folder:
        place = Place(folder)
        prepare(place, {"old": options.old, "new": options.new}, cases)
        play(place, {"old": with_needs(chosen, cases), "new": chosen}, options.jobs)
        paths = _paths(place)
        found = [
            difference
            for case in chosen
            for difference in compare.differences(
                case.name, place.case("old", case.name), place.case("new", case.name), paths
            )
        ]
        found += [difference for case in chosen for difference in wrong_calls(place, case)]
    print(f"{len(chosen)} cases in {time.monotonic() - start:.0f} s")
    return report(chosen, found, compare.read_expected(TABLES / "expected.tsv"))


def _paths(place: Place) -> list[tuple[str, str]]:
    """The paths that outputs may name, with what they are compared as."""
    paths = [(str(place.code(version)), "CODE") for version in ("old", "new")]
    return [
        *paths,
        *((str(place.folder / version), "CASES") for version in ("old", "new")),
        (str(place.folder), "PLACE"),
    ]


@contextlib.contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """The folder to keep, or a temporary one."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="replay-") as folder:
            yield Path(folder).resolve()


def prepare(place: Place, checkouts: dict[str, Path], cases: Sequence[Case]) -> None:
    """Write the inputs, and forget what was recorded with another OLD, other inputs or other steps."""
    inputs_print = _checksum([FOLDER / name for name in INPUTS], FOLDER)
    known = place.folder / "recording.json"
    recording = {
        "inputs": inputs_print,
        "player": _checksum([FOLDER / name for name in PLAYER], FOLDER),
        "old": _checksum(_sources(checkouts["old"]), checkouts["old"]),
    }
    recorded = json.loads(known.read_text()) if known.exists() else {}
    if recorded != recording:
        shutil.rmtree(place.folder / "old", ignore_errors=True)
        if recorded.get("inputs") != inputs_print:
            shutil.rmtree(place.inputs, ignore_errors=True)
            write_inputs(place.inputs)
        known.write_text(json.dumps(recording))
    for name in ("new", "code", "home"):
        shutil.rmtree(place.folder / name, ignore_errors=True)
    for version, checkout in checkouts.items():
        (place.folder / version / "played").mkdir(parents=True, exist_ok=True)
        for source in _sources(checkout):
            copy = place.code(version) / source.relative_to(checkout)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    (place.folder / "home").mkdir()
    for case in cases:
        marker = place.marker("old", case.name)
        if not marker.exists() or json.loads(marker.read_text())["fingerprint"] != case.fingerprint:
            shutil.rmtree(place.case("old", case.name), ignore_errors=True)
            marker.unlink(missing_ok=True)


def write_inputs(folder: Path) -> None:
    """Write the files that the cases read."""
    inputs.write_inputs(folder)
    documents.write_documents(folder / "docs")
    subprocess.run(
        [sys.executable, "-c", f"from pathlib import Path; from scripts.checks.replay.models import write_models; "
         f"write_models(Path({str(folder)!r}))"],
        check=True, cwd=ROOT, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _sources(checkout: Path) -> list[Path]:
    paths = [path for part in SOURCES for path in [checkout / part, *sorted((checkout / part).rglob("*"))]]
    return [path for path in paths if path.is_file() and "__pycache__" not in path.parts]


def _checksum(paths: Sequence[Path], root: Path) -> str:
    checksum = hashlib.sha256()
    for path in paths:
        checksum.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return checksum.hexdigest()


def play(place: Place, cases: dict[str, list[Case]], jobs: int) -> None:
    """Play the cases of both checkouts, each in one process or more."""
    processes = []
    waiting = {
        version: [case for case in chosen if not place.marker(version, case.name).exists()]
        for version, chosen in cases.items()
    }
    busy = [version for version, chosen in waiting.items() if chosen]
    for number in range(max(jobs, len(busy))):
        version = busy[number % len(busy)]
        names = place.folder / f"{version}.json"
        names.write_text(json.dumps([case.name for case in waiting[version]]))
        arguments = [str(place.folder), version, str(names), str(TABLES)]
        command = [sys.executable, "-m", "scripts.checks.replay.play", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        processes.append(subprocess.Popen(command, cwd=place.folder, env=environment))
    try:
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):  # others may wait for its cases
                raise RuntimeError("a process that plays cases ended early")
            time.sleep(0.2)
    finally:
        for process in processes:
            process.terminate()
    if any(process.wait() for process in processes):
        raise RuntimeError("a process that plays cases ended early")


def wrong_calls(place: Place, case: Case) -> Iterator[Difference]:
    """Rows of calls.tsv whose function a checkout lacks under the given names, or takes other arguments."""
    for version in ("old", "new"):
        for path in sorted((place.case(version, case.name) / "steps").glob("*.calls")):
            results = path.read_text(encoding="utf-8", errors="replace").splitlines() or ["!! TypeError: no calls"]
            if MISSING in results[0] or all(result.startswith("!! TypeError") for result in results):
                yield Difference(case.name, path.name, (f"{version.upper()}: {results[0]}",))


def report(cases: Sequence[Case], found: Sequence[Difference], expected: Sequence[Expected]) -> int:
    """Print the differences and the counts; 1 if there are differences that are not expected."""
    unexpected = [difference for difference in found if not any(row.covers(difference) for row in expected)]
    shown = ""
    for difference in unexpected:
        if difference.case != shown:
            print(f"\n{difference.case}")
            shown = difference.case
        print(f"  {difference.file}")
        for line in difference.lines:
            print(f"    {line}")
    idle = [
        row
        for row in expected
        if any(row.concerns(case.name) for case in cases) and not any(row.covers(difference) for difference in found)
    ]
    for row in idle:
        print(f"expected difference that does not occur: {row.pattern} ({row.reason})")
    differing = {difference.case for difference in found}
    surprising = {difference.case for difference in unexpected}
    print(
        f"{len(cases)} cases: {len(cases) - len(differing)} equal, {len(differing - surprising)} with only expected "
        f"differences, {len(surprising)} with others"
    )
    return int(bool(unexpected))


if __name__ == "__main__":
    sys.exit(main())
