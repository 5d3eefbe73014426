"""Kill a training run at many random moments, resume it each time, and check that it ends like an undisturbed run.

    python -m scripts.checks.torture [--setting plain|all|rdrop|denoising|pretrain] [--kills 100] [--seed 1]
        [--keep DIR]

A tiny model is trained on a made-up corpus, first without disturbance. Then the same run is made again by the real
command line, gets SIGKILL from outside at random moments and is resumed, until it finishes; and again from its start,
until there were so many kills. Whatever such a run leaves must be the same but for times: weights, optimizer, log,
TensorBoard, selection and translations. The exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

from nmt.layout import RunDir
from nmt.runs.info import read_info, read_selected
from nmt.runs.state import saved_steps

NMT = (sys.executable, "-m", "nmt")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
TIMES = {
    "minutes", "seconds", "cpu_seconds", "tokens_per_second", "log_bytes", "seal",
    "update_seconds", "paused_seconds", "check_seconds", "last_check_seconds",
}  # fmt: skip
MAX_STEPS, VALIDATE_EVERY = 120, 10
CONFIG = f"""\
data:
  direction: aa-bb
  dir: data
  train: [{{files: {{aa: train.aa, bb: train.bb}}}}]
  valid: {{files: {{aa: dev.aa, bb: dev.bb}}}}
tokenizer: {{vocab_size: 330}}
model: {{d_model: 64, n_heads: 4, d_ff: 128, encoder_layers: 2, decoder_layers: 2, embedding_dropout: 0.1,
        residual_dropout: 0.1, attention_dropout: 0.1, activation_dropout: 0.1}}
training: {{device: cpu, precision: float32, update_tokens: 800, max_tokens: 300, warmup_steps: 40, cooldown: 0.2,
           max_steps: {MAX_STEPS}, log_every_steps: 4, validate_every_steps: {VALIDATE_EVERY}, save_every_steps: 2,
           keep_last: 4, average_last: 3, patience: 40, select_by: loss}}
search: {{beam: 4, max_length_ratio: 1.0}}
"""

SETTINGS = {
    "plain": (),
    "all": (
        "training.init_from=before", "data.directions=[aa-bb, bb-aa]", "training.freeze=[cross_attention]",
        "training.consistency=simcut", "training.bpe_dropout=0.1",
        "training.ema=0.95", "training.optimizer=adamw", "training.weight_decay=0.01",
    ),
    "rdrop": (
        "training.schedule=constant", "training.cooldown=0", "training.peak_lr=3e-3",
        "training.consistency=rdrop", "training.consistency_weight=5",
        "training.bpe_dropout=0.2",
    ),
    "denoising": ("training.objective=denoising", "training.consistency=simcut", "training.ema=0.95"),
    "pretrain": (
        "training.objective=masked",
        "model.kind=encoder",
        "training.masked.pair_task=[shuffled, cut, replaced, number, copied]",
        "training.max_tokens=600", "training.ema=0.95", "training.consistency=simcut",
    ),
}  # fmt: skip
"""Settings that differ from CONFIG. `all` has every option that can be combined, the next two the others."""


def write_corpus() -> None:
    """Lines of made-up words; a translation is the line read backwards."""
    rng = random.Random(5)
    words = [
        "".join(rng.choice("bdfglmnrst") + rng.choice("aeiou") for _ in range(rng.randint(1, 3))) for _ in range(60)
    ]
    for name, n in (("train", 900), ("dev", 60)):
        lines = [" ".join(rng.choices(words, k=rng.randint(2, 9))) for _ in range(n)]
        Path(f"{name}.aa").write_text("".join(f"{line}\n" for line in lines))
        Path(f"{name}.bb").write_text("".join(f"{line[::-1]}\n" for line in lines))


def nmt(*arguments: str) -> str:
    """Run the command line and return its standard output."""
    return subprocess.run((*NMT, *arguments), env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout


def live(run: RunDir, setting: str, seconds: float | None, at_work: bool = False) -> str | None:
    """Start or resume a run and kill it after so many seconds, counted from its start or (`at_work`) from the end of
    its start-up. Return the phase it was killed in; None if it finished before."""
    changes = [part for change in SETTINGS[setting] for part in ("--set", change)]
    how = ["--resume"] if run.info.exists() else ["--config", "config.yaml", *changes]
    with Path("output.txt").open("w") as output:
        child = subprocess.Popen((*NMT, "train", "--run", str(run.path), *how), env=ENVIRONMENT, stderr=output)
        while at_work and child.poll() is None and not is_at_work():
            time.sleep(0.02)
        try:
            status = child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            return phase(run)
    if status:
        sys.exit(f"nmt train {' '.join(how)} ended with status {status}:\n{Path('output.txt').read_text()}")
    return None


def is_at_work() -> bool:
    """Return whether the running process has logged what it trains."""
    return bool(re.search(r" (pairs|lines), ", Path("output.txt").read_text()))


def phase(run: RunDir) -> str:
    """Return the phase that a killed run was in, as far as its files show."""
    if not is_at_work():
        return "start-up"
    if any(run.path.rglob("*.part")):
        return "save"
    step = max(saved_steps(run), default=0)
    state = json.loads(run.step(step).state.read_text())["state"] if step else {}
    if step == MAX_STEPS:
        return "end"
    return "validation" if step and step % VALIDATE_EVERY == 0 and state["last_check"] != step else "training"


def left_by(run: RunDir) -> dict[str, Any]:
    """Return everything that a finished run leaves, without times."""
    found: dict[str, Any] = {"selected.json": read_selected(run), "log.jsonl": []}
    for path in sorted(run.path.rglob("*")):
        name = str(path.relative_to(run.path))
        if path.name == "state.json":
            found[name] = timeless(json.loads(path.read_text()))
        elif path.is_file() and path not in (run.log, run.lock, run.selected) and run.tensorboard not in path.parents:
            found[name] = path.read_bytes()
    for line in run.log.read_text().splitlines():
        found["log.jsonl"].append(timeless(json.loads(line)))
    board = EventAccumulator(str(run.tensorboard)).Reload()
    for name in board.Tags()["scalars"]:
        if not TIMES & set(name.split("/")):
            found[f"TensorBoard {name}"] = [(scalar.step, scalar.value) for scalar in board.Scalars(name)]
    if "objective: translation" in run.config.read_text():
        found["nmt translate"] = nmt("translate", "--run", str(run.path), "--input", "dev.aa", "--to", "bb")
    return found


def timeless(value: Any) -> Any:
    """Return a copy without times, and without what depends on their number of digits."""
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if key not in TIMES}
    return value


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Return the names of what differs."""
    return [name for name in sorted(found.keys() | wanted.keys()) if found.get(name) != wanted.get(name)]


def torture(setting: str, n_kills: int, seed: int) -> bool:
    """Kill a run in the current directory so many times; return whether all results are equal."""
    rng, kills, begun = random.Random(seed), Counter[str](), time.monotonic()
    write_corpus()
    Path("config.yaml").write_text(CONFIG)
    nmt("prepare", "--config", "config.yaml")
    nmt("train", "--config", "config.yaml", "--run", "before", "--set", "training.max_steps=10")
    start = time.monotonic()
    live(RunDir(Path("whole")), setting, None)
    whole = time.monotonic() - start
    wanted, wrong = left_by(RunDir(Path("whole"))), 0
    library = read_info(RunDir(Path("whole"))).float32_library
    records = [json.loads(line) for line in RunDir(Path("whole")).log.read_text().splitlines()]
    work = 60 * max(record["minutes"] for record in records)
    start_up = whole - work
    print(f"undisturbed: {whole:.0f} seconds, {start_up:.1f} of them before the first update", flush=True)

    n_runs = n_lives = 0
    while kills.total() < n_kills:
        n_runs += 1
        run = RunDir(Path(f"run-{n_runs}"))
        is_begun = False
        while True:
            n_lives += 1
            at_work = rng.random() < 0.6
            moment = rng.uniform(0.0, work / 6 if at_work else start_up)
            ended_in = live(run, setting, moment, at_work) if kills.total() < n_kills else live(run, setting, None)
            if not is_begun and run.info.is_file():  # a later change of the library is a difference
                is_begun = read_info(run).float32_library == library
                if not is_begun:
                    shutil.rmtree(run.path)  # on a busy machine, another library was the faster one, and sums differ
                    continue
            if ended_in is None:
                break
            kills[ended_in] += 1
            if kills.total() % 10 == 0:
                print(f"{kills.total():>4} kills, run {n_runs} at step {max(saved_steps(run), default=0)}", flush=True)
        differing = differences(left_by(run), wanted)
        wrong += bool(differing)
        print(f"run {n_runs} is over: {', '.join(differing) or 'equal'}", flush=True)

    table = {f"killed in {name}": kills[name] for name in ("start-up", "training", "save", "validation", "end")}
    table |= {"kills": kills.total(), "resumes": n_lives - n_runs, "runs": n_runs, "not equal": wrong}
    for name, value in table.items():
        print(f"{name:<24}{value:>6}")
    print(f"{'minutes':<24}{(time.monotonic() - begun) / 60:>6.1f}")
    return not wrong


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--setting", choices=SETTINGS, default="all")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work there, and leave everything")
    options = parser.parse_args()
    logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it logs every restart
    with tempfile.TemporaryDirectory() as folder:
        if options.keep:
            options.keep.mkdir(parents=True)
        os.chdir(options.keep or folder)
        is_equal = torture(options.setting, options.kills, options.seed)
        os.chdir("/")
    print("equal" if is_equal else "NOT EQUAL")
    sys.exit(not is_equal)


if __name__ == "__main__":
    main()
