"""COMET scores by a separate process: arguments, output, errors and interruption."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from command import Command
from nmt.errors import DataError
from nmt.evaluate.comet import find_comet, score_segments
from places import ROOT
from waiting import until

pytestmark = pytest.mark.usefixtures("no_coverage")

HELPERS = ROOT / "tests" / "helpers"
MODEL = "Unbabel/wmt22-comet-da"
SIGNATURE = f"COMET|nrefs:1|model:{MODEL}|license:Apache-2.0|version:unknown"
SOURCES = ["ein Hund", "", "zwei\u2028Frauen \x0c und \x85 mehr", "lang " * 20_000, "eine\rZeile\r"]
REFS = ["a dog", "empty", "two\u2028women", "long word", "one line"]
GOOD = ["a dog", "", "two women", "long " * 20_000, "one\rline"]
BAD = ["dog", "empty", "x", "", "line\r\rline"]
SYSTEMS = {"good": GOOD, "bad": BAD}


def stand_in(how: str) -> str:
    """The command line of COMET's stand-in."""
    return shlex.join([sys.executable, str(HELPERS / "comet_stand_in.py"), how])


def test_comet_scores_each_system_and_line(capsys: pytest.CaptureFixture[str]) -> None:
    found = score_segments(find_comet(stand_in("well")), MODEL, SOURCES, REFS, SYSTEMS)
    assert {name: scores.values for name, scores in found.items()} == {
        "good": (1.0, 0.0, 1.0, 0.5, 1.0), "bad": (0.5, 1.0, 0.0, 0.0, 0.5),
    }, "a carriage return ends no line"  # fmt: skip
    assert all((scores.signature, scores.higher_is_better) == (SIGNATURE, True) for scores in found.values())
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"nmt: scoring 5 lines of 2 systems with {MODEL}\n"), "its chatter is hidden"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("fails", """ended with status 1: KeyError: "Model 'x' not supported by COMET.\""""),
        ("killed", "was killed by SIGKILL; perhaps memory ran out"),
        ("silent", "has not written the JSON of COMET 2: is it COMET's comet-score?"),
        ("text", "has not written the JSON of COMET 2: is it COMET's comet-score?"),
        ("other", "has not written the JSON of COMET 2: is it COMET's comet-score?"),
        ("words", "has not written the JSON of COMET 2: is it COMET's comet-score?"),
        ("fewer", ": bad: found 4 scores for 5 lines"),
        ("nan", "has not written the JSON of COMET 2: is it COMET's comet-score?"),
        ("infinite", "has not written the JSON of COMET 2: is it COMET's comet-score?"),
        ("well --gpus x", r"ended with status 2: comet_stand_in.py: error: .*invalid int value: 'x'"),
    ],
)
def test_failing_comet_command_raises_one_line_error(how: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"^{Path(sys.executable).name}[^\n]*{message.replace('?', '[?]')}$"):
        score_segments(find_comet(f"{stand_in(how.split()[0])} {how.partition(' ')[2]}"), MODEL, SOURCES, REFS, SYSTEMS)


def test_missing_comet_command_raises(tmp_path: Path) -> None:
    for command, message in (
        ("nowhere/comet-score --gpus 2", "nowhere/comet-score: no such command; install COMET in a separate "),
        ("'a", "--comet-command 'a: No closing quotation$"),
        (" ", "--comet-command is empty"),
    ):
        with pytest.raises(DataError, match=f"^{message}"):
            find_comet(command)
    broken = tmp_path / "comet-score"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    with pytest.raises(DataError, match=r"comet-score: cannot be run: Exec format error$"):
        score_segments(find_comet(str(broken)), MODEL, SOURCES, REFS, SYSTEMS)


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    for name, lines in (("hyp", BAD), ("ref", REFS), ("src", SOURCES)):
        (tmp_path / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
    return [option for name in ("hyp", "ref", "src") for option in (f"--{name}", tmp_path / name)]


def test_interrupt_kills_processes_of_comet(nmt: Command, tmp_path: Path, files: list[object]) -> None:
    started = tmp_path / "pids"

    def interrupt() -> None:
        until(lambda: len(pids(started)) == 2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    ended = nmt("evaluate", *files, "--comet", started, "--comet-command", stand_in("hangs"))
    thread.join()
    assert (ended.status, ended.out, ended.err.splitlines()[-1]) == (130, "", "nmt: interrupted")
    for pid in pids(started):
        until(lambda pid=pid: not is_running(pid))


def pids(started: Path) -> list[int]:
    """The processes that the stand-in wrote down; its file is empty for a moment."""
    return [int(pid) for pid in started.read_text(encoding="utf-8").split()] if started.is_file() else []


def is_running(pid: int) -> bool:
    """Whether there is such a process; one that nobody has waited for yet has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


COMET = shutil.which(os.environ.get("COMET_SCORE", "comet-score"))
MISSING = "COMET is not installed: COMET_SCORE may name its command"


@pytest.mark.skipif(COMET is None, reason=MISSING)
@pytest.mark.parametrize("kind", ["regression_metric", "referenceless_regression_metric", "unified_metric"])
def test_real_comet_scores_with_tiny_model(tmp_path: Path, kind: str) -> None:
    assert COMET is not None
    make = [Path(COMET).resolve().parent / "python", HELPERS / "comet_checkpoint.py", tmp_path / "tiny", kind]
    subprocess.run([*map(str, make)], check=True, capture_output=True)
    model = tmp_path / "tiny" / "checkpoints" / "model.ckpt"
    comet = find_comet(f"{COMET} --gpus 0 --batch_size 2")
    found = score_segments(comet, str(model), SOURCES, REFS, SYSTEMS)
    assert found["good"].values[0] != found["bad"].values[0]
    assert all(len(scores.values) == len(SOURCES) for scores in found.values())
    assert re.fullmatch(rf"COMET\|nrefs:1\|model:{model}\|version:2\.[0-9.]+", found["bad"].signature)
