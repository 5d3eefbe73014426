"""Measure `nmt serve` under load, compared with `nmt translate` on the same text and with LibreTranslate's server.

    python -m scripts.bench.serve --run RUN --text FILE [--arms nmt,file,libretranslate] [--clients N] [--seconds S]
                                  [--quantization int8|float32] [--threads N] [--dir DIR]

Clients on this machine send the lines of FILE, each line once and alone, and the next when they have an answer. FILE
needs as many different lines as are translated in S seconds; the cache of a server finds nothing. The arms:

    nmt             `nmt serve` with CTranslate2
    file            `nmt translate` of the lines that `nmt serve` has translated, with the same engine: the time beside
                    that of a file of one line
    libretranslate  LibreTranslate's server, in an environment of its own that is made on first use, with the same
                    weights as a package of Argos Translate, and the run's beam size

The answer to each line is compared with the file's: an answer that is not the file's is `other` (batches of other sizes
are rounded differently, and Argos Translate searches with another length penalty), and `crossed` if it is that of
another line, which happens by chance with a weak model and another search. Pieces are those of the run's tokenizer in
the source. The clients take CPU time from the servers on the same cores; the table tells how much. Results are appended
to serve.jsonl in DIR. Linux only; leave the machine alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from nmt.cli.app import user_errors
from nmt.errors import ConfigError, DataError
from nmt.runs.model import Saved, open_saved
from scripts.bench.install import FailedError, bin_of, install, logged
from scripts.bench.load import Load, run_load
from scripts.bench.once import once
from scripts.bench.peer import Peer
from scripts.bench.server import Server, free_port, serving
from scripts.bench.task import THREADS

LIBRETRANSLATE = Peer(
    name="libretranslate",
    title="LibreTranslate 1.9.6",
    environment="libretranslate",
    requirements=("libretranslate==1.9.6",),
    torch=False,
)
ARMS = ("nmt", "file", "libretranslate")
NMT = [sys.executable, "-m", "nmt"]
INSTALL_PACKAGE = "import sys; from argostranslate import package; package.install_from_path(sys.argv[1])"


@dataclass
class Row:
    """What was measured of an arm."""

    name: str
    sentences_per_s: float
    pieces_per_s: float
    answers: int
    p50_ms: float | None = None
    p99_ms: float | None = None
    errors: dict[str, int] | None = None
    other: int | None = None
    crossed: int | None = None
    server_cpu_s: float | None = None
    clients_cpu_s: float | None = None
    seconds: float = 0.0
    memory_mb: float | None = None


class Bench:
    """One run of the benchmark."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Reads the text. Raises CheckpointError or DataError."""
        self.options = options
        self.run: Path = options.run.resolve()
        self.home: Path = options.dir.expanduser().resolve() / "serve"
        self.saved: Saved = open_saved(self.run)
        data = self.saved.config.data
        self.languages = data.src, data.tgt
        self.lines = read_lines(options.text)
        self.variables = {"OMP_NUM_THREADS": str(options.threads), "CUDA_VISIBLE_DEVICES": ""}
        self.int8 = ["--int8"] if options.quantization == "int8" else []
        self.rows, self.loads = list[Row](), list[tuple[Row, Load]]()
        self.expected: dict[str, str] = {}

    def measure(self) -> None:
        """Measure all arms; what was answered by `nmt serve` is the text of the others. Raises FailedError."""
        for arm in self.options.arms.split(","):
            if arm == "file":
                self._file()
            else:
                with self._server(arm) as server:
                    self._load(arm, server)
        for row, load in self.loads:
            row.other, row.crossed = compared(load.answers, self.expected) if self.expected else (None, None)

    @contextmanager
    def _server(self, arm: str) -> Iterator[Server]:
        port, log = free_port(), self.home / "logs" / f"{arm}.log"
        if arm == "nmt":
            words = ["--run", self.run, "--engine", "ctranslate2", *self.int8, "--threads", self.options.threads]
            command = [*NMT, "serve", "--port", port, *words]
            with serving(command, port, log, ready="/ready", variables=self.variables) as server:
                yield server
            return
        install(LIBRETRANSLATE, self.home.parent)
        folder = self._packages()
        src, tgt = self.languages
        words = ["--load-only", f"{src},{tgt}", "--disable-web-ui", "--disable-files-translation"]
        command = [bin_of(LIBRETRANSLATE, self.home.parent) / "libretranslate", "--port", port, *words]
        with serving(
            command, port, log, ready="/languages", variables=self._argos_variables(folder), cwd=folder, seconds=300
        ) as server:
            yield server

    def _argos_variables(self, folder: Path) -> dict[str, str]:
        """A search as ours, and requests side by side, one a core: each has only one sentence."""
        return {
            **self.variables,
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder),
            "XDG_CACHE_HOME": str(folder),
            "ARGOS_PACKAGES_DIR": str(folder / "packages"),
            "ARGOS_BEAM_SIZE": str(self.saved.config.search.beam),
            "ARGOS_INTER_THREADS": str(self.options.threads),
            "ARGOS_INTRA_THREADS": "1",
            "HTTPS_PROXY": "http://127.0.0.1:9",  # it looks for new packages at the start: nothing leaves this machine
            "HTTP_PROXY": "http://127.0.0.1:9",
        }

    def _packages(self) -> Path:
        """Return the folder of the installed package, made on first use. Raises FailedError."""
        folder, log = self.home / "argos", self.home / "logs" / "argos.log"
        package = folder / "run.argosmodel"
        recipe = f"{self.run} {self.saved.origin.step} {self.saved.origin.weights} {self.options.quantization}"

        def make() -> None:
            log.unlink(missing_ok=True)
            export = ["export", "--run", self.run, "--format", "argos", "--quantization", self.options.quantization]
            logged([*map(str, [*NMT, *export, "--output", package])], log)
            python = str(bin_of(LIBRETRANSLATE, self.home.parent) / "python")
            variables = [f"{name}={value}" for name, value in self._argos_variables(folder).items()]
            logged(["env", *variables, python, "-c", INSTALL_PACKAGE, str(package)], log)

        once(folder, recipe, make)
        return folder

    def _load(self, arm: str, server: Server) -> None:
        """Measure a server."""
        first, *texts = self.lines if arm == "nmt" else [self.lines[0], *(self.expected or self.lines[1:])]
        asyncio.run(run_load(server.port, [first], self.languages, 1, 60))  # warm
        cpu = server.cpu_seconds()
        load = asyncio.run(run_load(server.port, texts, self.languages, self.options.clients, self.options.seconds))
        if not load.answers:
            raise FailedError(f"{arm}: no translation came, but {dict(load.errors)}: {server.log}")
        row = self._row(arm, [text for text, _ in load.answers], load.seconds)
        row.p50_ms, row.p99_ms = (1000 * percentile(load.waits, share) for share in (0.5, 0.99))
        row.errors, row.clients_cpu_s = dict(load.errors), load.cpu_seconds
        row.server_cpu_s, row.memory_mb = server.cpu_seconds() - cpu, server.memory_mb()
        self.loads.append((row, load))
        if arm == "nmt":
            self.expected = dict(load.answers)  # of these lines; `_file` puts its own translations in their place

    def _file(self) -> None:
        """Measure `nmt translate`."""
        texts = list(self.expected) or self.lines
        _, start = self._translate(texts[:1])
        translations, seconds = self._translate(texts)
        self._row("file", texts, seconds - start)
        self.expected = dict(zip(texts, translations, strict=True))

    def _translate(self, texts: Sequence[str]) -> tuple[list[str], float]:
        """Return translations, and the seconds of the command."""
        source, target = self.home / "source.txt", self.home / "target.txt"
        self.home.mkdir(parents=True, exist_ok=True)
        source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        words = ["--run", self.run, "--engine", "ctranslate2", *self.int8, "--input", source, "--output", target]
        began = time.monotonic()
        done = subprocess.run(
            [*map(str, [*NMT, "translate", *words])], env={**os.environ, **self.variables}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise FailedError(f"nmt translate failed: {done.stderr.strip()}")
        return target.read_text(encoding="utf-8").split("\n")[:-1], time.monotonic() - began

    def _row(self, name: str, texts: Sequence[str], seconds: float) -> Row:
        tokenizer = self.saved.tokenizers[self.languages[0]]
        pieces = sum(map(len, tokenizer.encode_all(texts)))
        row = Row(name, len(texts) / seconds, pieces / seconds, len(texts), seconds=seconds)
        self.rows.append(row)
        say(f"{name}: {row.sentences_per_s:,.1f} sentences/s, {row.pieces_per_s:,.0f} source pieces/s")
        return row


def read_lines(path: Path) -> list[str]:
    """Return the different lines of a file without blank ones, in an order of chance. Raises DataError."""
    try:
        lines = list(dict.fromkeys(filter(None, map(str.strip, path.read_text(encoding="utf-8").split("\n")))))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    if len(lines) < 2:
        raise DataError(f"{path}: has no text; give lines of the source language")
    random.Random(1).shuffle(lines)
    return lines


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def compared(answers: Sequence[tuple[str, str]], expected: dict[str, str]) -> tuple[int, int]:
    """Return how many answers are not the expected ones, and how many of these are the expected ones of other texts."""
    others = [answer for text, answer in answers if answer != expected.get(text, answer)]
    of_any = set(expected.values())
    return len(others), sum(answer in of_any for answer in others)


def render(rows: Sequence[Row], clients: int) -> str:
    """Return the tables, and the ratios to `nmt serve`."""
    lines = [
        f"| {clients} clients | sentences/s | source pieces/s | p50 ms | p99 ms | answers | errors | other | crossed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        errors = None if row.errors is None else ", ".join(f"{n} {kind}" for kind, n in row.errors.items()) or "0"
        cells = [number(row.p50_ms), number(row.p99_ms), f"{row.answers:,}", errors or "–"]
        cells += ["–" if n is None else f"{n:,}" for n in (row.other, row.crossed)]
        lines.append(f"| {row.name} | {row.sentences_per_s:,.1f} | {row.pieces_per_s:,.0f} | {' | '.join(cells)} |")
    lines += ["", "| | CPUs of the server | CPUs of the clients | MB |", "|---|---|---|---|"]
    for row in rows:
        if row.server_cpu_s is not None and row.clients_cpu_s is not None:
            cpus = [f"{seconds / row.seconds:.2f}" for seconds in (row.server_cpu_s, row.clients_cpu_s)]
            lines.append(f"| {row.name} | {' | '.join(cpus)} | {number(row.memory_mb)} |")
    rates = {row.name: row.sentences_per_s for row in rows}
    if "nmt" in rates:
        lines += ["", *(f"nmt / {name}: {rates['nmt'] / rate:.2f}" for name, rate in rates.items() if name != "nmt")]
    return "\n".join(lines)


def number(value: float | None) -> str:
    """Round a number; a dash for none."""
    return "–" if value is None else f"{value:,.0f}"


def say(line: str) -> None:
    """Report progress."""
    print(f"bench: {line}", file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    """The command line."""
    home = os.environ.get("PEERS") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "nmt-peers"
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True, help="run directory")
    parser.add_argument("--text", type=Path, required=True, help="lines of the source language")
    parser.add_argument("--arms", default=",".join(ARMS), help=f"of {','.join(ARMS)}; default: all")
    parser.add_argument("--clients", type=int, default=200, help="at once; default: 200")
    parser.add_argument("--seconds", type=float, default=60.0, help="of load; default: 60")
    parser.add_argument("--quantization", choices=("int8", "float32"), default="int8", help="default: int8")
    parser.add_argument("--threads", type=int, default=THREADS, help=f"that translate; default: {THREADS}")
    parser.add_argument("--dir", type=Path, default=Path(home), help=f"of what is installed and kept; default: {home}")
    options = parser.parse_args()
    unknown = [arm for arm in options.arms.split(",") if arm not in ARMS]
    if unknown:
        parser.error(f"--arms: no {', '.join(unknown)}; there are {', '.join(ARMS)}")
    return options


def main() -> int:
    """Measure and print."""
    options = parse()
    with user_errors():
        bench = Bench(options)
        try:
            bench.measure()
        except FailedError as error:
            raise ConfigError(str(error)) from error
        print(render(bench.rows, options.clients))
        with (bench.home / "serve.jsonl").open("a", encoding="utf-8") as file:
            for row in bench.rows:
                file.write(json.dumps({"clients": options.clients, **asdict(row)}) + "\n")
    return int(any(row.errors or row.crossed for row in bench.rows if row.name == "nmt"))


if __name__ == "__main__":
    sys.exit(main())
