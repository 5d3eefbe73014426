"""Run the command line with bad input of every kind, and print the exit status and the last line of each message.

    python -m scripts.checks.bad_inputs [WORD ...]     # only the cases whose names have one of these words

Every case is a few lines of shell in a copy of a folder with a tiny corpus, its data directory `data` and a trained run
`runs/tiny`. A case fails if its status is not the expected one, if it ends in a traceback, says more than a line for
each problem, takes more than a minute, or leaves anything behind.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from scripts.checks.bad_inputs_cases import CASES, Case

LIMIT = 60  # seconds for one command
MUCH = 1 << 32  # bytes of a file that is not read
CONFIG = """\
data:
  direction: aa-bb
  dir: data
  root: text
  train:
    - files: {aa: train.aa, bb: train.bb}
  valid:
    files: {aa: dev.aa, bb: dev.bb}
  test:
    test:
      files: {aa: test.aa, bb: test.bb}
  max_pieces: 100
tokenizer: {vocab_size: 330}
model: {d_model: 32, n_heads: 2, d_ff: 64, encoder_layers: 1, decoder_layers: 1}
training:
  run_dir: runs/tiny
  device: cpu
  precision: float32
  update_tokens: 300
  max_tokens: 120
  warmup_steps: 10
  max_steps: 4
  validate_every_steps: 2
  save_every_steps: 2
  average_last: 2
search: {beam: 2}
"""
# Definitions for the shell of every case.
PRELUDE = """\
first=runs/tiny/checkpoints/step-00000002 last=runs/tiny/checkpoints/step-00000004
flip() { printf '\\377' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }  # FILE BYTE
config() { sed -i "s|$1|$2|" c.yaml; }                                           # PATTERN REPLACEMENT
seal() {  # tamper with every checkpoint: Python lines about `folder` and `seal`, and right checksums again
  python - "$1" << 'END'
import hashlib, json, pathlib, sys
def digest(data): return hashlib.sha256(data).hexdigest()
for file in pathlib.Path("runs/tiny/checkpoints").glob("*/state.json"):
    folder, seal = file.parent, json.loads(file.read_text())
    del seal["seal"]
    exec(sys.argv[1])
    for name in seal.get("checksums", ()):
        seal["checksums"][name] = digest((folder / name).read_bytes())
    file.write_text(json.dumps({**seal, "seal": digest(json.dumps(seal, sort_keys=True).encode())}))
END
}
"""
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "100",
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case."""

    status: int
    err: str
    problems: list[str]
    """Descriptions of what is wrong."""


def shell(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run lines of shell in a folder, for at most `LIMIT` seconds."""
    return subprocess.run(
        ["bash", "-c", PRELUDE + text],
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=LIMIT,
        check=False,
    )


def make_template(folder: Path) -> None:
    """Make the folder that every case gets a copy of."""
    rng = random.Random(5)
    words = ["".join(rng.choices("abdeghiklmnorstu", k=rng.randint(2, 6))) for _ in range(60)]
    (folder / "text").mkdir(parents=True)
    for name, n in (("train", 200), ("dev", 12), ("test", 10)):
        lines = [" ".join(rng.choices(words, k=rng.randint(2, 9))) for _ in range(n)]
        (folder / "text" / f"{name}.aa").write_text("".join(f"{line}\n" for line in lines))
        (folder / "text" / f"{name}.bb").write_text("".join(f"{line[::-1]}\n" for line in lines))
    (folder / "c.yaml").write_text(CONFIG)
    made = shell("nmt prepare --config c.yaml && nmt train --config c.yaml", folder)
    if made.returncode:
        sys.exit(f"the template cannot be made:\n{made.stderr}")


def tree(folder: Path) -> dict[str, str]:
    """Return the content of a folder as a digest per file. The content of a lock is ignored: it names its holder."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file() and path.stat().st_size > MUCH:
            found[name] = f"{path.stat().st_size} bytes"
        elif path.is_file():
            found[name] = "" if path.name == "lock" else hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "directory" if path.is_dir() else "special"
    return found


def run_case(case: Case, template: Path, folder: Path) -> Outcome:
    """Run one case in a folder of its own, which is removed again."""
    shutil.copytree(template, folder, symlinks=True)
    info = folder / "runs" / "tiny" / "run.json"
    info.write_text(info.read_text().replace(str(template), str(folder)))
    try:
        prepared = shell(f"set -e\n{case.setup}", folder)
        if prepared.returncode:
            return Outcome(prepared.returncode, prepared.stderr, [f"its set-up fails: {case.setup}"])
        before, started = readable_tree(folder), time.monotonic()
        try:
            ran = shell(case.command, folder)
        except subprocess.TimeoutExpired:
            return Outcome(124, "", [f"takes more than {time.monotonic() - started:.0f} s"])
        after = readable_tree(folder)
        return Outcome(ran.returncode, ran.stderr, list(problems_of(case, ran, before, after)))
    finally:
        open_up(folder)
        shutil.rmtree(folder)


def readable_tree(folder: Path) -> dict[str, str]:
    """Return `tree` of a folder with unreadable parts, whose permissions are restored afterwards."""
    changed = open_up(folder)
    found = tree(folder)
    for path, mode in reversed(changed):
        path.chmod(mode)
    return found


def open_up(folder: Path) -> list[tuple[Path, int]]:
    """Give the owner every permission; return the changed paths with their previous modes."""
    changed = []
    for path in [folder, *folder.rglob("*")]:
        needed = 0o700 if path.is_dir() else 0o600
        mode = stat.S_IMODE(path.lstat().st_mode)
        if not path.is_symlink() and mode & needed != needed:
            changed.append((path, mode))
            path.chmod(mode | needed)
    return changed


def problems_of(
    case: Case, ran: subprocess.CompletedProcess[str], before: dict[str, str], after: dict[str, str]
) -> Iterator[str]:
    """Describe what is wrong with the outcome of a case."""
    if ran.returncode != case.status:
        yield f"status {ran.returncode} instead of {case.status}"
    if "Traceback" in ran.stderr:
        yield "ends in a traceback"
    lines = ran.stderr.splitlines()
    if case.n_lines is not None and len(lines) != case.n_lines:
        yield f"{len(lines)} lines instead of {case.n_lines}"
    if case.status == 2 and case.n_lines and not all(line.startswith("nmt: ") for line in lines):
        yield "a line is not nmt's own"
    if case.said is not None and re.search(case.said, ran.stderr) is None:
        yield f"does not say {case.said!r}"
    if not case.writes:
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        if changed:
            yield f"leaves {', '.join(sorted(changed)[:4])}"


def row(case: Case, outcome: Outcome) -> str:
    """A line of the Markdown table."""
    lines = outcome.err.splitlines()
    message = lines[-1].removeprefix("nmt: ") if lines else ""  # the last is the reason, if there are several
    message = re.sub(r"\S*/case-[0-9]+/", "", message)
    message = textwrap.shorten(message, 230, placeholder=" …").replace("|", "\\|")
    verdict = f" **{'; '.join(outcome.problems)}**" if outcome.problems else ""
    return f"| {case.name} | {outcome.status} | {message}{verdict} |"


def drop_root_privileges() -> None:
    """Make file permissions apply to child processes, also when this runs as root."""
    libc = ctypes.CDLL(None, use_errno=True)
    drop, dac_override, dac_read_search = 24, 1, 2  # PR_CAPBSET_DROP and two capabilities
    for capability in (dac_override, dac_read_search):
        libc.prctl(drop, capability, 0, 0, 0)


def main(wanted: Sequence[str]) -> int:
    """Run the cases; 1 if one fails."""
    drop_root_privileges()
    cases = [case for case in CASES if not wanted or any(word in case.name for word in wanted)]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        folder = Path(name)
        make_template(folder / "template")
        print("| case | status | message |\n|---|---|---|")
        outcomes = pool.map(
            lambda item: run_case(item[1], folder / "template", folder / f"case-{item[0]}"), enumerate(cases)
        )
        n_failed = 0
        for case, outcome in zip(cases, outcomes, strict=True):
            print(row(case, outcome), flush=True)
            n_failed += bool(outcome.problems)
    print(f"\n{len(cases)} cases in {time.monotonic() - started:.0f} s, {n_failed} failed")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
