"""Measure the memory, start-up time and speed of `nmt train` on a small and a large training set of random ids.

    python -m scripts.measure.memory [--pairs N N] [--updates N N] [--dir FOLDER]      (make memory)

The pairs are random ids with lengths like those of sentences; more than 2^20 of them are in shards, as prepare writes
them, and are learned from in windows. Memory is all that is resident, with the mapped files: RssAnon + RssFile +
RssShmem of /proc/PID/status, sampled every 50 ms. The updates are large and the model is small, so that by default the
run goes through two windows; then it is resumed for one more update. CPU time is that of all updates but the first, so
that other work on the machine disturbs it less than tokens per second. The exit status is 1 if the peaks are further
apart than 300 MB.

    python -m scripts.measure.memory --counted

compares the memory that `nmt train` counts before it starts (nmt/training/memory.py) with the peak of two updates of
two micro-batches each, in float32 on one thread, and prints what adapting public models takes, which is counted only.
Each size is measured in a process of its own, in which the C library returns what is freed to the system: by default it
keeps some of it, which depends on the order of allocations.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from nmt.data.batching import Pairs
from nmt.data.corpus import SHARD_PAIRS, Corpus
from nmt.data.lines import Lines
from nmt.data.manifest import DATA_FORMAT, SHARDED_FORMAT, ShardRecord, SplitRecord, content_fingerprint, file_facts
from nmt.data.rows import RowPacking
from nmt.layout import DataDir, RunDir
from nmt.model.settings import ModelConfig
from nmt.model.transformer import Transformer
from nmt.text.ids import N_SPECIAL
from nmt.training.loss import token_loss
from nmt.training.memory import count_memory
from nmt.training.optim import Ema, make_optimizer
from nmt.training.settings import TrainingConfig
from nmt.training.setup.inputs import freeze

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
CPU = torch.device("cpu")


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


@dataclass(frozen=True)
class Case:
    """A size for which the count is compared with a measurement."""

    model: Mapping[str, object]
    training: Mapping[str, object]
    vocabulary: int
    n_tokens: int
    """The tokens of a micro-batch."""


SMALL: dict[str, object] = {"d_model": 256, "n_heads": 4, "d_ff": 1024, "encoder_layers": 3, "decoder_layers": 3}
WIDE: dict[str, object] = {"d_model": 512, "n_heads": 8, "d_ff": 2048, "encoder_layers": 6, "decoder_layers": 6}
POST: dict[str, object] = {"norm": "post", "activation": "gelu", "attention_dropout": 0.1, "activation_dropout": 0.1}
CASES = {
    "3+3 layers, width 256": Case(SMALL, {}, 8000, 4096),
    "the same, recomputed": Case(SMALL, {"recompute": True}, 8000, 4096),
    "the same, 2,048 tokens": Case(SMALL, {}, 8000, 2048),
    "the same, recomputed, 2,048 tokens": Case(SMALL, {"recompute": True}, 8000, 2048),
    "post-norm, gelu, all dropout, 2,048 tokens": Case(SMALL | POST, {}, 8000, 2048),
    "6+6 layers, width 512, 1,024 tokens": Case(WIDE, {}, 20_000, 1024),
    "the same, recomputed, 1,024 tokens": Case(WIDE, {"recompute": True}, 20_000, 1024),
    "the same, frozen embeddings and EMA": Case(WIDE, {"freeze": ["embeddings"], "ema": 0.99}, 20_000, 1024),
}
LARGE: dict[str, object] = {"d_model": 1024, "n_heads": 16, "d_ff": 4096, "encoder_layers": 12, "decoder_layers": 12}
PUBLIC = {
    "NLLB-200 600M": (LARGE, 256_206),
    "M2M-100 418M": (LARGE, 128_112),
    "either, cut to 20,000 pieces": (LARGE, 20_000),
    "opus-mt": (WIDE, 58_101),
}
"""Shapes and pieces of public models, whose embeddings and output layer are tied."""
WAYS: dict[str, dict[str, object]] = {
    "": {},
    "recomputed": {"recompute": True},
    "recomputed, embeddings frozen": {"recompute": True, "freeze": ["embeddings"]},
}


def counted(config: ModelConfig, n_pieces: int, settings: TrainingConfig, n_tokens: int) -> float:
    """Return the bytes that training a model takes by counting."""
    with torch.device("meta"):
        model = Transformer(config, n_pieces, n_pieces)
    freeze(model, settings.freeze)
    return sum(count_memory(config, settings, model, CPU, "float32", n_tokens).values())


def compare_counted() -> None:
    """Print counted and measured memory of each case, and counted memory of public models."""
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072", "OMP_NUM_THREADS": "1"}
    print("| size | counted (MB) | measured (MB) | ratio |\n|---|--:|--:|--:|")
    for name in CASES:
        command = [sys.executable, "-m", "scripts.measure.memory", "--case", name]
        subprocess.run(command, check=True, env=environment)
    print("\n| model | training | 1,024 tokens | 4,096 tokens |\n|---|---|--:|--:|")
    for name, (shape, n_pieces) in PUBLIC.items():
        for way, training in WAYS.items():
            settings = TrainingConfig.model_validate(training)
            gigabytes = []
            for n_tokens in (1024, 4096):
                n_bytes = counted(ModelConfig.model_validate(shape), n_pieces, settings, n_tokens)
                gigabytes.append(f"{n_bytes / 1e9:.1f} GB")
            print(f"| {name} | {way} | {' | '.join(gigabytes)} |")


def measure_counted(name: str) -> None:
    """Print counted and measured memory of a case, measured in this process."""
    case = CASES[name]
    settings = TrainingConfig.model_validate(case.training)
    rng = np.random.default_rng(0)
    sizes = np.clip(rng.gamma(2.0, 12.0, 4000), 2, 100).astype(int)
    lines = Lines.of([rng.integers(N_SPECIAL, case.vocabulary, n) for n in sizes])
    batches = RowPacking(Pairs(lines, lines))
    parts = batches.split(np.arange(len(sizes)), case.n_tokens)
    config = ModelConfig.model_validate(case.model)
    n_bytes = counted(config, case.vocabulary, settings, case.n_tokens)
    before = _own_memory("VmRSS")
    model = Transformer(config, case.vocabulary, case.vocabulary)
    freeze(model, settings.freeze)
    for stack in model.stacks:
        stack.recomputes = settings.recompute
    optimizer = make_optimizer(model, settings)
    average = Ema(model, settings.ema) if settings.ema else None
    validated = copy.deepcopy(model) if average else None
    for step in (1, 2):
        for _ in range(2):
            token_loss(model, batches.batch(next(parts)), settings).loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if average is not None:
            average.update(list(model.parameters()), step, torch.ones(()))
        optimizer.zero_grad(set_to_none=True)
    del validated
    measured = _own_memory("VmHWM") - before
    print(f"| {name} | {n_bytes / 1e6:,.0f} | {measured / 1e6:,.0f} | {n_bytes / measured:.2f} |", flush=True)


def _own_memory(field: str) -> int:
    """Return a field of the status of this process, in bytes."""
    match = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.M)
    assert match, f"Linux reports {field}"
    return 1024 * int(match[1])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--counted", action="store_true", help="compare counted and measured memory instead")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--pairs", type=int, nargs=2, default=[50_000, 20_000_000], help="pairs of both corpora")
    parser.add_argument("--updates", type=int, nargs=2, default=[200, 900], help="updates to train on each")
    parser.add_argument("--dir", type=Path, default=DATA, help="folder for 3 GB of data, which are removed at the end")
    options = parser.parse_args()
    if options.case:
        measure_counted(options.case)
        return 0
    if options.counted:
        compare_counted()
        return 0
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
