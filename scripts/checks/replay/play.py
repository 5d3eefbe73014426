"""Play cases with one checkout, each step in a forked child, so that torch is imported only once.

This process is started by `__main__.py` for OLD and for NEW. It writes, for each case, `files/` (the working directory
of its steps) and `steps/` (output, messages and status of each step).
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import pkgutil
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.checks.replay import calls, requests
from scripts.checks.replay.tables import REFERENCE, Call, Case, Code, Command, Serve, Step, read_cases

TIMEOUT = 900.0
"""Seconds after which a step is killed; its status is then "timeout"."""

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC", "HF_HUB_OFFLINE": "1",
    "SOURCE_DATE_EPOCH": "1700000000", "PYTHONHASHSEED": "0",
}  # fmt: skip

PRELOADED = ("sacrebleu", "ctranslate2", "transformers", "matplotlib.pyplot")
"""What steps import themselves, each of them again if this process has not."""


@dataclass(frozen=True)
class Place:
    """Folders of a comparison: inputs, and what each checkout wrote."""

    folder: Path

    @property
    def inputs(self) -> Path:
        return self.folder / "in"

    def code(self, version: str) -> Path:
        """A copy of the checkout without its history, so that both have the same version and length of path."""
        return self.folder / "code" / version

    def case(self, version: str, name: str) -> Path:
        return self.folder / version / name

    def marker(self, version: str, name: str) -> Path:
        """A file that is written when a case has been played, with its fingerprint and its processor time."""
        return self.folder / version / "played" / name


class Player:
    """Plays cases with the checkout whose modules have been imported."""

    def __init__(self, place: Place, version: str) -> None:
        self.place, self.version = place, version
        self._cpu_seconds = 0.0

    def play(self, case: Case) -> None:
        """Run the steps of a case, unless another process does."""
        folder = self.place.case(self.version, case.name)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            return
        self._cpu_seconds = 0.0
        for name in ("files", "steps"):
            (folder / name).mkdir()
        (folder / "files" / "in").symlink_to(self.place.inputs)
        copies = _copied(case, self.place, folder / "files")
        for number, step in enumerate(case.steps):
            status = self._run(step, folder / "files", folder / "steps" / str(number))
            (folder / "steps" / f"{number}.status").write_text(f"{status}\n")
        (folder / "files" / "in").unlink()
        for original, copy in copies:
            _remove_unchanged(original, copy)
        played = {"fingerprint": case.fingerprint, "cpu_seconds": round(self._cpu_seconds, 2)}
        marker = self.place.marker(self.version, case.name)
        part = marker.with_name(f"{marker.name}.part")
        part.write_text(json.dumps(played))
        part.rename(marker)

    def _run(self, step: Step, folder: Path, log: Path) -> int | str:
        """Run a step in a child process; its status."""
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            os.chdir(folder)
            _redirect(log, step.stdin if isinstance(step, Command) else None)
            os._exit(_status(lambda: self._perform(step, log)))
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpgid(child, child)
        end = time.monotonic() + TIMEOUT
        while True:
            finished, status, usage = os.wait4(child, os.WNOHANG)
            if finished:
                self._cpu_seconds += usage.ru_utime + usage.ru_stime
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > end:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return "timeout"
            time.sleep(0.01)

    def _perform(self, step: Step, log: Path) -> None:
        match step:
            case Command():
                _nmt([_local(word) for word in step.words])
            case Code():
                code = compile(_local(step.text), "<case>", "exec")
                api, nmt = importlib.import_module("nmt.api"), importlib.import_module("nmt")
                exec(code, {"api": api, "Translator": nmt.Translator, "Path": Path, "__name__": "case"})
            case Call():
                calls.perform(step, self.place.inputs, log.with_suffix(".calls"))
            case Serve():
                words = [_local(word) for word in step.words]
                requests.perform(lambda port: _serve(words, port), step.requests, log)


def _nmt(words: list[str]) -> None:
    sys.argv = ["nmt", *words]
    importlib.import_module("nmt.__main__").main()


def _serve(words: list[str], port: int) -> None:
    os._exit(_status(lambda: _nmt(["serve", *words, "--port", str(port)])))


def _local(text: str) -> str:
    """Text in which references are to the copies in the working directory."""
    return REFERENCE.sub(lambda reference: f"from-{reference[1]}", text)


def _copied(case: Case, place: Place, folder: Path) -> list[tuple[Path, Path]]:
    """Wait until OLD has played the cases that this one needs, and copy what they wrote."""
    copies = []
    for name in case.needs:
        while not place.marker("old", name).exists():
            time.sleep(0.05)
        original, copy = place.case("old", name) / "files", folder / f"from-{name}"
        shutil.copytree(original, copy, ignore=shutil.ignore_patterns("from-*", "tensorboard"))
        copies.append((original, copy))
    return copies


def _remove_unchanged(original: Path, copy: Path) -> None:
    """Remove files of a copy that are as they were, so that only what the case wrote is kept and compared."""
    for path in copy.rglob("*"):
        source = original / path.relative_to(copy)
        if path.is_file() and source.is_file() and path.read_bytes() == source.read_bytes():
            path.unlink()


def _redirect(log: Path, stdin: str | None) -> None:
    """Give this process the files of a step as standard streams."""
    files = (
        os.open(stdin or os.devnull, os.O_RDONLY),
        os.open(log.with_suffix(".out"), os.O_WRONLY | os.O_CREAT, 0o644),
        os.open(log.with_suffix(".err"), os.O_WRONLY | os.O_CREAT, 0o644),
    )
    for stream, file in enumerate(files):
        os.dup2(file, stream)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w")), encoding="utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w")), encoding="utf-8", errors="backslashreplace", write_through=True
    )
    # processes that a step spawns import the main module again, which must not be this one
    sys.modules["__main__"] = importlib.import_module("nmt.__main__")


def _status(perform: Callable[[], None]) -> int:
    """Run a function as a program is run; its exit status."""
    status = 0
    try:
        perform()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 98
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    return status


def import_checkout(checkout: Path) -> None:
    """Import all modules of the checkout's `nmt`, and none of this one's."""
    root = str(Path(__file__).resolve().parents[3])
    sys.path[:] = [str(checkout), *(path for path in sys.path if path and str(Path(path).resolve()) != root)]
    os.environ["PYTHONPATH"] = str(checkout)
    nmt = importlib.import_module("nmt")
    assert nmt.__file__ and Path(nmt.__file__).is_relative_to(checkout), nmt.__file__
    for module in pkgutil.walk_packages(nmt.__path__, "nmt."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(module.name)
    if "torch" in sys.modules:
        # nmt would choose the library of matrix products by measured speed, which differs from run to run
        vars(importlib.import_module("torch.backends.mkldnn"))["is_available"] = lambda: False
        for name in PRELOADED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def main() -> None:
    """Play the cases that are named in a file: `play.py FOLDER VERSION NAMES TABLES`."""
    folder, version, names, tables = (
        Path(sys.argv[1]),
        sys.argv[2],
        json.loads(Path(sys.argv[3]).read_text()),
        sys.argv[4],
    )
    place = Place(folder)
    home = folder / "home"
    os.environ.update(ENVIRONMENT, HOME=str(home), XDG_CACHE_HOME=str(home / "cache"), HF_HOME=str(home / "hf"))
    cases = {case.name: case for case in read_cases(Path(tables))}
    import_checkout(place.code(version))
    player = Player(place, version)
    for name in names:
        player.play(cases[name])


if __name__ == "__main__":
    main()
