"""Check that nmt computes the same on a GPU as on a CPU and never waits for it, and measure its speed.

    python -m scripts.gpu.check [--output found.jsonl] [--wheels build/gpu-wheels] [--data data/multi30k]
    python -m scripts.gpu.check --device cpu --small         # checks the script itself, and no speed

Every part is a process of its own with a time limit, the most informative first, and prints findings as JSON lines: a
part that fails, hangs or crashes does not affect the others. Its last line has its status (ok, failed, out of time,
left out) and seconds; the line "total" names the parts that were not ok. The exit status is then 1; 2 without a GPU.

A machine without network and without nmt's dependencies takes them from --wheels, a folder that scripts/gpu/wheels.sh
fills; it must have PyTorch, and to compile also Triton and a C compiler. DATA is a folder of Multi30k (data/README.md);
by default the sample corpus is trained on.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# name -> its module, and the most seconds it may take. This process imports none of these modules: it has to survive
# whatever is missing there, hangs or crashes
PARTS = {
    "versions": ("machine", 60),
    "agreement": ("agreement", 90),
    "waits": ("machine", 120),
    "eager": ("speed", 90),
    "compiled": ("speed", 180),
    "profile": ("speed", 120),
    "bleu": ("training", 150),
    "ranks": ("training", 90),
    "translation": ("speed", 60),
    "peer": ("peer", 90),
    "resume": ("training", 180),
    "attention": ("machine", 60),
    "graphs": ("speed", 120),
}
LEAST = 20.0
"""Seconds: with fewer left, a part is not begun."""

Report = Callable[[dict[str, Any]], None]


def unpacked(wheels: Path, folder: Path) -> Path:
    """A folder with the packages of all wheels, which need no installation beyond that."""
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    return folder


def command(part: str, options: argparse.Namespace, packages: Path | None) -> list[str]:
    """Return the command that runs one part."""
    arguments = ["--part", part, "--device", options.device]
    arguments += ["--small"] if options.small else []
    arguments += ["--data", str(options.data.resolve())] if options.data is not None else []
    arguments += ["--packages", str(packages)] if packages is not None else []
    return [sys.executable, "-m", "scripts.gpu.check", *arguments]


def run_part(part: str, arguments: list[str], seconds: float, report: Report) -> str:
    """Run one part for at most so many seconds, reporting findings as they come; return its status."""
    start, status, is_late = time.monotonic(), "", threading.Event()
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        assert process.stdout is not None

        def end() -> None:
            is_late.set()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with what it has started, as a compiler's processes

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            with process.stdout as lines:
                for line in lines:
                    try:
                        found = json.loads(line)
                    except ValueError:  # it was killed within a line
                        found = {"cut_off": line[-1500:], "ok": False}
                    status = found.pop("status", status)
                    if found:
                        report({"part": part, **found})
            process.wait()
        finally:
            timer.cancel()
            if process.poll() is None:
                end()
                process.wait()
        how: dict[str, Any] = {"status": "out of time" if is_late.is_set() else status or "failed"}
        if not status or is_late.is_set():  # it has not come to its end: what it said last
            errors.seek(0)
            how |= {"exit": process.returncode, "stderr": errors.read()[-1500:]}
    report({"part": part, **how, "seconds": round(time.monotonic() - start, 1)})
    return str(how["status"])


def do_part(part: str, options: argparse.Namespace, report: Report) -> None:
    """In the process of a part: run it and report its status. Exceptions are reported, too."""
    is_good = True
    try:
        from scripts.gpu.setting import Check

        check = Check(options.device, options.small, options.data)
        if check.lacks_gpu:
            error = "this PyTorch sees no GPU; --device cpu --small checks the script"
            report({"ok": False, "status": "no GPU", "error": error})
            return
        for found in getattr(importlib.import_module(f"scripts.gpu.{PARTS[part][0]}"), part)(check):
            is_good &= bool(found.get("ok", True))
            report(found)
    except Exception as error:
        import traceback

        frames = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
        message = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        report({"error": message, "at": " > ".join(frames[-5:]), "ok": False})
        is_good = False
    report({"status": "ok" if is_good else "failed"})


def one_part(options: argparse.Namespace) -> None:
    """The process of a part: its standard output takes JSON lines only, what libraries print goes to the other one."""
    sys.path += [str(options.packages)] if options.packages is not None else []  # the machine's own come first
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def report(found: dict[str, Any]) -> None:
        print(json.dumps(found), file=out, flush=True)

    from nmt.process import set_up

    set_up()
    do_part(options.part, options, report)


def main(arguments: list[str] | None = None) -> int:
    """Run the parts; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="file that takes the lines, too")
    parser.add_argument("--wheels", type=Path, help="folder of wheels for what this Python lacks")
    parser.add_argument("--data", type=Path, help="folder of Multi30k; without it the sample corpus")
    parser.add_argument("--seconds", type=float, default=720, help="of all parts together (%(default)s)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="only these")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to check this script")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--packages", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.part is not None:
        one_part(options)
        return 0
    with tempfile.TemporaryDirectory() as folder, (options.output or Path(os.devnull)).open("a") as file:
        packages = None if options.wheels is None else unpacked(options.wheels, Path(folder))

        def report(found: dict[str, Any]) -> None:
            for place in (sys.stdout, file):
                print(json.dumps(found), file=place, flush=True)

        start, statuses = time.monotonic(), {}
        for part in options.parts:
            left = options.seconds - (time.monotonic() - start)
            if left < LEAST:
                statuses[part] = "left out"
                report({"part": part, "status": "left out", "left": round(left, 1)})
                continue
            statuses[part] = run_part(part, command(part, options, packages), min(PARTS[part][1], left), report)
            if statuses[part] == "no GPU":
                return 2
        not_ok = [part for part, status in statuses.items() if status != "ok"]
        report({"part": "total", "not_ok": not_ok, "seconds": round(time.monotonic() - start, 1)})
    return int(bool(not_ok))


if __name__ == "__main__":
    sys.exit(main())
