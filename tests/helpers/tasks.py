"""Functions for tasks in other processes. Each call appends its number to a log file."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np

from nmt.errors import ConfigError, DataError
from nmt.tasks.perform import Json, Task
from waiting import until

DRIVER = """
import sys
from pathlib import Path
from nmt.cli.app import user_errors
from nmt.tasks.runners import open_runner
from nmt.tasks.perform import run_all
from tasks import several_slow

if __name__ == "__main__":
    address, log, work, seconds, n = sys.argv[1:]
    name, address = ("ray", address) if address else ("local", None)
    with user_errors(), open_runner(name, 2, address) as engine:
        run_all(engine, Path(work), several_slow(int(n), Path(log), float(seconds)))
"""
"""A program that does tasks in two workers."""


def write(folder: Path, arguments: Json) -> Json:
    """Write two files, one of them in a folder."""
    with Path(str(arguments["log"])).open("a") as log:
        log.write(f"{arguments['number']}\n")
    text = f"{arguments['number']}\n" * 1000
    (folder / "inner").mkdir()
    (folder / "inner" / "text").write_text(text)
    (folder / "text").write_text(text[::-1])
    return {"number": arguments["number"], "shape": (1, 2)}


def slow(folder: Path, arguments: Json) -> Json:
    """Write the files after some seconds."""
    (folder / "begun").touch()
    time.sleep(float(str(arguments["seconds"])))
    return write(folder, arguments)


def gated(folder: Path, arguments: Json) -> Json:
    """Write the files as soon as another file exists."""
    (folder / "begun").touch()
    until(Path(str(arguments["gate"])).exists)
    return write(folder, arguments)


def dying(folder: Path, arguments: Json) -> Json:
    """Remove a file of a folder and die; write the files when the folder is empty."""
    for life in Path(str(arguments["lives"])).iterdir():
        life.unlink()
        (folder / "text").write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)
    return write(folder, arguments)


def failing(folder: Path, arguments: Json) -> Json:
    """Write a file and raise an error."""
    (folder / "text").write_text("half")
    if arguments["kind"] == "full for numpy":
        np.zeros(10_000).tofile("/dev/full")
    raise {
        "data": DataError("text.de: not UTF-8 at line 3"), "config": ConfigError("one", "two"),
        "full": OSError(28, "No space left on device", str(folder / "text")),
    }.get(str(arguments["kind"]), ZeroDivisionError("a bug"))  # fmt: skip


def whereabouts(folder: Path, arguments: Json) -> Json:
    """Report the process, its number of threads and its GPU."""
    time.sleep(0.1)
    seen = {"threads": os.environ.get("OMP_NUM_THREADS"), "gpu": os.environ.get("CUDA_VISIBLE_DEVICES")}
    return write(folder, arguments) | {"pid": os.getpid(), **seen}


def numbered(n: int, log: Path) -> list[Task]:
    """Return tasks that write files."""
    return [Task(f"part/{number:05d}", write, {"number": number, "log": str(log)}) for number in range(n)]


def several_slow(n: int, log: Path, seconds: float) -> list[Task]:
    """Return tasks that take a number of seconds each."""
    arguments = {"log": str(log), "seconds": seconds}
    return [Task(f"part/{number:05d}", slow, {"number": number, **arguments}) for number in range(n)]


def children() -> set[int]:
    """Return the process ids of this process's children."""
    found = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True, check=False).stdout
    return {int(pid) for pid in found.split()}


def left(work: Path) -> dict[str, bytes]:
    """Return all files below a folder, with their content."""
    return {str(path.relative_to(work)): path.read_bytes() for path in sorted(work.rglob("*")) if path.is_file()}
