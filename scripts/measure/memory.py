"""Print the peak of the memory that `nmt train` needs on a small and on a large synthetic corpus.

    python -m scripts.measure.memory [--pairs N N] [--updates N] [--dir FOLDER]

Memory is what the process has for itself: RssAnon + RssShmem of /proc/PID/status, sampled every 50 ms; pages of the
corpus that are mapped from the disk are not in it. FOLDER must be on a disk: what a process maps from a file in memory
(tmpfs) counts as RssShmem. The exit status is 1 if the peaks are further apart than 300 MB.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from nmt.data.corpus import Corpus
from nmt.data.manifest import SplitRecord
from nmt.layout import DataDir, RunDir
from nmt.prepare.write import SplitWriter, content_fingerprint, file_facts

LIMIT = 300.0  # MB = 2^20 bytes
SECONDS_BETWEEN_SAMPLES = 0.05
BASE_PAIRS, VALID_PAIRS, CHUNK = 20_000, 100, 50_000
SETTINGS = {
    "model.d_model": 128, "model.n_heads": 4, "model.d_ff": 256, "model.encoder_layers": 2, "model.decoder_layers": 2,
    "training.device": "cpu", "training.precision": "float32", "training.max_tokens": 8192, "training.average_last": 1,
    "training.keep_last": 2, "search.beam": 1, "search.max_length_ratio": 0,
}  # fmt: skip
DATA = Path(__file__).parents[2] / "data"
NMT = (sys.executable, "-m", "nmt")


@dataclass(frozen=True)
class Result:
    """Peak memory of a training (MB), its seconds, and its target tokens per second at the end."""

    megabytes: float
    seconds: float
    tokens_per_second: float


def prepare_base(folder: Path) -> Path:
    """Prepare a corpus of random words, whose tokenizer, development set and pairs the larger ones have; its config."""
    rng = random.Random(1)
    words = [
        "".join(rng.choice("bdfglmnrst") + rng.choice("aeiou") for _ in range(rng.randint(1, 5))) for _ in range(9000)
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
    config.write_text(json.dumps({"data": data, "tokenizer": {"vocab_size": 8000}}), encoding="utf-8")  # JSON is YAML
    subprocess.run([*NMT, "prepare", "--config", str(config), "--data", str(folder / "base")], check=True)
    return config


def grow(base: DataDir, directory: DataDir, n_pairs: int) -> None:
    """Write a data directory of `n_pairs` training pairs drawn from those of another, the rest alike."""
    shutil.copytree(base.path, directory.path, ignore=shutil.ignore_patterns("train.*"))
    corpus, rng = Corpus.open(base), random.Random(2)
    split = corpus.split("train")
    text = [split.text(language) for language in corpus.languages]
    ids = [corpus.tokenizers[language].encode_all(text[side]) for side, language in enumerate(corpus.languages)]
    with SplitWriter(directory, "train", corpus.tokenizers) as writer:
        for start in range(0, n_pairs, CHUNK):
            drawn = rng.choices(range(split.n), k=min(CHUNK, n_pairs - start))
            writer.add([[side[i] for i in drawn] for side in text], [[side[i] for i in drawn] for side in ids])
    directory.manifest.unlink()
    files = file_facts(directory.path)
    changes = {"files": files, "fingerprint": content_fingerprint(files)}
    splits = {**corpus.manifest.splits, "train": SplitRecord(pairs=writer.pairs)}
    manifest = corpus.manifest.model_copy(update={**changes, "splits": splits})
    directory.manifest.write_text(manifest.model_dump_json(exclude_unset=True), encoding="utf-8")


def train(config: Path, directory: DataDir, run: RunDir, n_updates: int) -> Result:
    """Train in a process of its own and watch its memory."""
    limits = {f"training.{name}": n_updates for name in ("max_steps", "validate_every_steps", "save_every_steps")}
    limits["training.log_every_steps"] = -(-n_updates // 3)  # the first record holds what comes before the first update
    settings = [f"--set={key}={value}" for key, value in {**SETTINGS, **limits}.items()]
    command = [*NMT, "train", "--config", str(config), "--data", str(directory.path), "--run", str(run.path), *settings]
    peak, begin = 0, time.monotonic()
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            peak = max(peak, own_memory(process.pid))
            time.sleep(SECONDS_BETWEEN_SAMPLES)
    if process.returncode:
        sys.exit(f"memory: nmt train ended with status {process.returncode}")
    seconds = time.monotonic() - begin
    records = [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]
    speeds = [record["tokens_per_second"] for record in records if record["kind"] == "train"]
    return Result(peak / 1024, seconds, speeds[-1])


def own_memory(pid: int) -> int:
    """Memory that a process shares with no file (kB); 0 once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return sum(int(kilobytes) for kilobytes in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB$", status, re.M))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, nargs=2, default=[50_000, 5_000_000], help="pairs of both corpora")
    parser.add_argument("--updates", type=int, default=60, help="updates to train on each")
    parser.add_argument("--dir", type=Path, default=DATA, help="folder for 2 GB of data, which are removed at the end")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="memory.", dir=options.dir) as temporary:
        folder = Path(temporary).resolve()
        config = prepare_base(folder)
        for n_pairs in options.pairs:
            directory = DataDir(folder / f"data-{n_pairs}")
            grow(DataDir(folder / "base"), directory, n_pairs)
            results.append(train(config, directory, RunDir(folder / f"run-{n_pairs}"), options.updates))
    for n_pairs, result in zip(options.pairs, results, strict=True):
        print(
            f"{n_pairs:>12,} pairs: peak {result.megabytes:6.0f} MB, {result.seconds:5.1f} s in all, "
            f"{result.tokens_per_second:,.0f} target tokens per second"
        )
    difference = results[1].megabytes - results[0].megabytes
    print(f"difference: {difference:.0f} MB, at most {LIMIT:.0f} MB allowed")
    return int(difference > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
