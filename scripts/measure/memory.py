"""Measure the memory, start-up time and speed of `nmt train` on a small and a large training set of random ids.

    python -m scripts.measure.memory [--pairs N N] [--updates N N] [--dir FOLDER]      (make memory)

The pairs are random ids with lengths like those of sentences; more than 2^20 of them are in shards, as prepare writes
them, and are learned from in windows. Memory is all that is resident, with the mapped files: RssAnon + RssFile +
RssShmem of /proc/PID/status, sampled every 50 ms. The updates are large and the model is small, so that by default the
run goes through two windows; then it is resumed for one more update. CPU time is that of all updates but the first, so
that other work on the machine disturbs it less than tokens per second. The exit status is 1 if the peaks are further
apart than 300 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nmt.data.corpus import SHARD_PAIRS, Corpus
from nmt.data.manifest import DATA_FORMAT, SHARDED_FORMAT, ShardRecord, SplitRecord, content_fingerprint, file_facts
from nmt.layout import DataDir, RunDir
from nmt.text.ids import N_SPECIAL

LIMIT = 300.0  # MB = 2^20 bytes
SECONDS_BETWEEN_SAMPLES = 0.05
BASE_PAIRS, VALID_PAIRS, VOCABULARY, LONGEST = 5000, 20, 1000, 170
SETTINGS = {
    "model.d_model": 16, "model.n_heads": 2, "model.d_ff": 32, "model.encoder_layers": 1, "model.decoder_layers": 1,
    "training.device": "cpu", "training.precision": "float32", "training.update_tokens": 65536,
    "training.max_tokens": 16384, "training.average_last": 1, "training.keep_last": 2, "training.log_every_steps": 1,
    "search.beam": 1, "search.max_length_ratio": 0, "search.max_length": 20,
}  # fmt: skip
DATA = Path(__file__).parents[2] / "data"
NMT = (sys.executable, "-m", "nmt")


@dataclass(frozen=True)
class Result:
    """Figures of a training."""

    megabytes: float
    """Peak memory."""
    first_update: float
    """Seconds from its start to the first update."""
    resumed: float
    """The same, after it was resumed."""
    tokens_per_second: float
    """Target tokens, the median over its updates."""
    cpu: float
    """CPU seconds per update, of all threads."""


def prepare_base(folder: Path) -> Path:
    """Prepare a corpus of random words, whose tokenizer and development set the others have, too; its config."""
    rng = random.Random(1)
    words = [
        "".join(rng.choice("bdfglmnrst") + rng.choice("aeiou") for _ in range(rng.randint(1, 5))) for _ in range(900)
    ]
    for name, n in (("train", BASE_PAIRS), ("valid", VALID_PAIRS)):
        sizes = [rng.randint(3, 25) for _ in range(n)]
        for language in ("aa", "bb"):
            lines = (" ".join(rng.choices(words, k=size + rng.randint(0, 2))) for size in sizes)
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = {
        name: {"files": {language: f"{name}.{language}" for language in ("aa", "bb")}} for name in ("train", "valid")
    }
    data = {"direction": "aa-bb", "root": str(folder), "train": [files["train"]], "valid": files["valid"]}
    config = folder / "config.yaml"
    tree = {"data": data, "tokenizer": {"vocab_size": VOCABULARY}}
    config.write_text(json.dumps(tree), encoding="utf-8")  # JSON is YAML
    subprocess.run([*NMT, "prepare", "--config", str(config), "--data", str(folder / "base")], check=True)
    return config


def write_data(base: DataDir, directory: DataDir, n_pairs: int) -> None:
    """Write a data directory of `n_pairs` random training pairs, the rest as in another."""
    shutil.copytree(base.path, directory.path, ignore=shutil.ignore_patterns("train.*", "manifest.json"))
    corpus, is_sharded = Corpus.open(base), n_pairs > SHARD_PAIRS
    shards = list(_write_shards(corpus, directory, n_pairs)) if is_sharded else None
    if shards is None:
        _write_ids(corpus, directory, "train", n_pairs, np.int64)
    files = file_facts(directory.path)
    train = SplitRecord(pairs=n_pairs) if shards is None else SplitRecord(pairs=n_pairs, shards=shards)
    manifest = corpus.manifest.model_copy(update={
        "format": SHARDED_FORMAT if is_sharded else DATA_FORMAT, "files": files,
        "fingerprint": content_fingerprint(files),
        "splits": {**corpus.manifest.splits, "train": train},
    })  # fmt: skip
    directory.manifest.write_text(manifest.model_dump_json(exclude_unset=True), encoding="utf-8")


def _write_shards(corpus: Corpus, directory: DataDir, n_pairs: int) -> Iterator[ShardRecord]:
    for number, start in enumerate(range(0, n_pairs, SHARD_PAIRS)):
        name, n = f"train.0-{number:05}", min(SHARD_PAIRS, n_pairs - start)
        _write_ids(corpus, directory, name, n, np.uint32)
        yield ShardRecord(name=name, source="train.0", pairs=n)


def _write_ids(corpus: Corpus, directory: DataDir, name: str, n: int, dtype: type[np.integer]) -> None:
    """Write random ids; training does not need the text."""
    rng = np.random.default_rng([1, len(name), int(name[-5:]) if name[-5:].isdecimal() else 0])
    src = np.clip(rng.gamma(2.0, 12.0, n), 1, LONGEST)
    for language, sizes in zip(
        corpus.languages, (src, np.clip(src * rng.normal(0.98, 0.15, n), 1, LONGEST)), strict=True
    ):
        ends = np.cumsum(sizes.astype(np.int64))
        ids = rng.integers(N_SPECIAL, len(corpus.tokenizers[language]), int(ends[-1]), np.uint16)
        np.save(directory.ids(name, language), ids)
        np.save(directory.ends(name, language), ends.astype(dtype))


def train(config: Path, directory: DataDir, run: RunDir, n_updates: int) -> Result:
    """Train in a process of its own and watch its memory; then resume it for one update."""
    command = [*NMT, "train", "--config", str(config), "--data", str(directory.path), "--run", str(run.path)]
    first = _watch(command, run, n_updates)
    records = [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]
    updates = [record for record in records if record["kind"] == "train"]
    again = _watch([*command, "--resume"], run, n_updates + 1)
    speed = float(np.median([record["tokens_per_second"] for record in updates]))
    return Result(
        max(first.kilobytes, again.kilobytes) / 1024, first.seconds, again.seconds, speed, first.cpu / (n_updates - 1)
    )


@dataclass(frozen=True)
class _Watched:
    """Measurements of a process: its peak memory, when it made its first update, and the CPU seconds after that."""

    kilobytes: int
    seconds: float
    cpu: float


def _watch(command: Sequence[str], run: RunDir, n_updates: int) -> _Watched:
    limits = {f"training.{name}": n_updates for name in ("max_steps", "validate_every_steps", "save_every_steps")}
    settings = [f"--set={key}={value}" for key, value in {**SETTINGS, **limits}.items()]
    size = run.log.stat().st_size if run.log.is_file() else 0
    peak, begin, seconds, cpu_before, cpu = 0, time.monotonic(), 0.0, 0.0, 0.0
    with subprocess.Popen([*command, *settings], stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, resident_memory(process.pid))
            cpu = cpu_seconds(process.pid) or cpu
            if not seconds and run.log.is_file() and run.log.stat().st_size > size:
                seconds, cpu_before = time.monotonic() - begin, cpu
            time.sleep(SECONDS_BETWEEN_SAMPLES)
    if process.returncode:
        sys.exit(f"memory: nmt train ended with status {process.returncode}")
    return _Watched(peak, seconds, cpu - cpu_before)


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its threads; 0 once it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_memory(pid: int) -> int:
    """Memory of a process, with the files that it has mapped (kB); 0 once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return sum(int(kilobytes) for kilobytes in re.findall(r"^Rss(?:Anon|File|Shmem):\s+(\d+) kB$", status, re.M))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, nargs=2, default=[50_000, 20_000_000], help="pairs of both corpora")
    parser.add_argument("--updates", type=int, nargs=2, default=[200, 900], help="updates to train on each")
    parser.add_argument("--dir", type=Path, default=DATA, help="folder for 3 GB of data, which are removed at the end")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="memory.", dir=options.dir) as temporary:
        folder = Path(temporary).resolve()
        config = prepare_base(folder)
        for n_pairs, n_updates in zip(options.pairs, options.updates, strict=True):
            directory = DataDir(folder / f"data-{n_pairs}")
            write_data(DataDir(folder / "base"), directory, n_pairs)
            results.append(train(config, directory, RunDir(folder / f"run-{n_pairs}"), n_updates))
    for n_pairs, result in zip(options.pairs, results, strict=True):
        print(
            f"{n_pairs:>12,} pairs: peak {result.megabytes:6.0f} MB, first update after {result.first_update:5.1f} s, "
            f"{result.resumed:.1f} s when resumed, {result.tokens_per_second:,.0f} target tokens per second, "
            f"{result.cpu:.3f} CPU seconds per update"
        )
    difference = results[1].megabytes - results[0].megabytes
    print(f"difference: {difference:.0f} MB, at most {LIMIT:.0f} MB allowed")
    return int(difference > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
