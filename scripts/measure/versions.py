"""Compare two checkouts on the sample corpus: equal results, and the CPU time and peak memory of each stage.

    python -m scripts.measure.versions BASELINE [CHECKOUT] [--rounds N] [--threads N] [--stages STAGE ...]

Both checkouts prepare the corpus, train 60 updates in float32, translate the test set and serve it over HTTP. The
files of ids and text, the tokenizer and translations must have equal bytes, weights and optimizer state equal tensors.
Then each stage is repeated in turn, every time as a new process. The median ratio of the CPU seconds (checkout /
baseline) is printed with its quartiles, and the median peak memory in MiB. Stages after the last of `--stages` do not
run. Run it on an idle machine; with 10 rounds it takes 15 minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import Request, urlopen

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("prepare", "train", "translate", "serve")
TRAIN = ("training.precision=float32", "training.compile=off", "training.max_steps=60", "training.warmup_steps=20",
         "training.validate_every_steps=60", "training.save_every_steps=60")  # fmt: skip
REQUESTS = 20  # each of 25 lines


def usage(command: list[str], checkout: Path, folder: Path, threads: int) -> tuple[subprocess.Popen[bytes], Path]:
    """Start `nmt` of a checkout in `folder`; its output goes to the returned file."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": str(threads)}
    output = folder / "output.txt"
    with output.open("wb") as file:
        words = [sys.executable, "-P", "-m", "nmt", *command]
        return subprocess.Popen(words, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT), output


def ended(process: subprocess.Popen[bytes], output: Path, statuses: tuple[int, ...] = (0,)) -> tuple[float, float]:
    """Wait for a process, and return its CPU seconds and its peak memory in MiB."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in statuses:
        sys.exit(f"{process.args!r}: exit status {process.returncode}\n{output.read_text()}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def serve(checkout: Path, folder: Path, threads: int, lines: list[str]) -> tuple[float, float]:
    """Send the lines to a server in requests of 25, and return its CPU seconds and its peak memory in MiB."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["serve", "--run", "run", "--engine", "native", "--port", str(port), "--threads", str(threads)]
    process, output = usage(command, checkout, folder, threads)
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urlopen(f"{address}/health", timeout=5).close()
            break
        except (URLError, OSError):
            if process.poll() is not None:
                sys.exit(f"{process.args!r}: exit status {process.returncode}\n{output.read_text()}")
            time.sleep(0.1)
    answers = []
    for number in range(REQUESTS):
        body = json.dumps({"q": lines[25 * number : 25 * (number + 1)], "source": "de", "target": "en"}).encode()
        request = Request(f"{address}/translate", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=120) as answer:
            answers += json.loads(answer.read())["translatedText"]
    (folder / "answers.json").write_text(json.dumps(answers))
    process.terminate()
    return ended(process, output)


def stage(name: str, checkout: Path, folder: Path, threads: int) -> tuple[float, float]:
    """Run a stage of a checkout in its folder, and return its CPU seconds and its peak memory in MiB."""
    sample = ROOT / "data" / "sample"
    config = ["--config", str(checkout / "configs" / "sample.yaml"), "--set", f"data.root={sample}"]
    if name == "prepare":
        shutil.rmtree(folder / "data", ignore_errors=True)
        return ended(*usage(["prepare", *config, "--data", "data", "--workers", "1"], checkout, folder, threads))
    if name == "train":
        shutil.rmtree(folder / "run", ignore_errors=True)
        settings = [word for setting in TRAIN for word in ("--set", setting)]
        return ended(*usage(["train", *config, "--data", "data", "--run", "run", *settings], checkout, folder, threads))
    if name == "translate":
        command = ["translate", "--run", "run", "--input", str(sample / "test.de"), "--output", "test.out", "--force"]
        (folder / "test.out").unlink(missing_ok=True)
        return ended(*usage(command[:-1], checkout, folder, threads))
    return serve(checkout, folder, threads, (sample / "test.de").read_text(encoding="utf-8").splitlines())


RESULTS = {
    "prepare": ("data/**/*.bin", "data/**/*.npy", "data/**/*.model", "data/**/*.de", "data/**/*.en"),
    "train": ("run/checkpoints/step-*60/*.safetensors", "run/checkpoints/step-*60/*.pt"),
    "translate": ("test.out",),
    "serve": ("answers.json",),
}
"""The files of each stage that must be equal."""


def differences(name: str, one: Path, other: Path) -> list[str]:
    """Return the names of a stage's files that differ between two folders."""
    files = sorted({p.relative_to(f) for f in (one, other) for pattern in RESULTS[name] for p in f.glob(pattern)})
    print(f"{name}: {len(files)} files compared: {' '.join(map(str, files))}")
    return [
        str(file)
        for file in files
        if not ((one / file).exists() and (other / file).exists() and equal(one / file, other / file))
    ]


def equal(one: Path, other: Path) -> bool:
    """Return whether two files have equal bytes, or equal tensors, whatever else a version writes beside them."""
    if one.suffix != ".safetensors":
        return one.read_bytes() == other.read_bytes()
    tensors, others = load_file(one), load_file(other)
    return tensors.keys() == others.keys() and all(torch.equal(tensors[name], others[name]) for name in tensors)


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("baseline", type=Path, help="a checkout")
    parser.add_argument("checkout", type=Path, nargs="?", default=ROOT, help="another; default: this one")
    parser.add_argument("--rounds", type=int, default=10, help="pairs of each stage")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, help="stages to repeat")
    options = parser.parse_args()
    checkouts = options.baseline.resolve(), options.checkout.resolve()
    with TemporaryDirectory() as name:
        folders = Path(name, "baseline"), Path(name, "checkout")
        for folder in folders:
            folder.mkdir()
        last = max(STAGES.index(what) for what in options.stages)
        for what in STAGES[: last + 1]:
            for checkout, folder in zip(checkouts, folders, strict=True):
                stage(what, checkout, folder, options.threads)
            unequal = differences(what, *folders)
            print(f"{what}: {', '.join(unequal) if unequal else 'equal'}", flush=True)
        for what in options.stages:
            pairs = []
            for number in range(options.rounds):
                order = (0, 1) if number % 2 == 0 else (1, 0)
                seen = {index: stage(what, checkouts[index], folders[index], options.threads) for index in order}
                pairs.append((seen[0], seen[1]))
            ratios = sorted(new[0] / old[0] for old, new in pairs)
            low, middle, high = statistics.quantiles(ratios, n=4)
            peaks = [statistics.median(pair[index][1] for pair in pairs) for index in (0, 1)]
            print(f"{what}: CPU {middle:.3f} ({low:.3f}-{high:.3f}), memory {peaks[0]:.0f} -> {peaks[1]:.0f} MiB",
                  flush=True)  # fmt: skip
    print(f"load {os.getloadavg()[0]:.1f}, own CPU {resource.getrusage(resource.RUSAGE_SELF).ru_utime:.0f} s")


if __name__ == "__main__":
    main()
