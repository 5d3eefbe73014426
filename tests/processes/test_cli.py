"""Tests of the command line: help, exit statuses and one-line errors."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from command import Command
from nmt import __version__
from nmt.cli import app
from nmt.config.load import load_config

SCRIPT = Path(sys.executable).with_name("nmt")
CONFIG = """\
data:
  direction: de-en
  dir: prepared
  train:
    - files: {de: a.de, en: a.en}
  valid:
    files: {de: v.de, en: v.en}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text(CONFIG)
    for name in ("a", "v"):
        for language in ("de", "en"):
            lines = [f"{name} {language} {i} word{i * 7 % 13}" for i in range(20)]
            (tmp_path / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


# --- the manual ---------------------------------------------------------------------------------


def test_help_has_each_command_on_one_line_and_options_under_headings(nmt: Command) -> None:
    whole, _, lists = nmt("--help").out.partition("Stages:")
    assert "Example" in whole + lists and "--install-completion" in whole + lists
    lines = [line for line in lists.splitlines() if line.startswith("  ")]
    assert sorted(line.split()[0] for line in lines) == sorted(get_command(app).commands)  # type: ignore[attr-defined]
    assert all(len(line) <= 80 and line.endswith(".") and "..." not in line for line in lines)
    page = nmt("evaluate", "--help").out
    headings = ["Options:", "Languages:", "Search:", "Metrics:", "Model:"]
    assert [line for line in page.splitlines() if line in headings] == headings
    places = [page.index(f"\n  {option} ") for option in ("--split", "--to", "--beam", "--tokenize", "--weights")]
    assert places == sorted(places) and places[0] < page.index("Languages:") < places[1]
    assert nmt("align", "--help").out.count("Options:") == 1


OPTIONS = {
    "prepare": ["--config", "--data", "--tokenizer-from", "--set"],
    "train": [
        "--config", "--data", "--run", "--set", "--init-from", "--resume", "--stop-after", "--stop-at", "--profile",
    ],
    "sweep": ["--grid", "--set", "--data", "--dir", "--jobs", "--devices", "--format"],
    "translate": [
        "--run", "--input", "--output", "--beam", "--length-penalty", "--n-best", "--checkpoint", "--weights",
    ],
    "evaluate": ["--run", "--split", "--hyp", "--ref", "--data", "--format", "--lowercase", "--tokenize"],
    "compare": ["--hyp", "--ref", "--group", "--baseline", "--split", "--html", "--format", "--output", "--lowercase"],
    "score": ["--src", "--ref", "--run", "--model", "--output", "--tokens", "--length-penalty", "--precision"],
    "distil": ["--teacher", "--output", "--n-best", "--nearest", "--with-originals", "--search", "--set", "--train"],
    "back-translate": ["--reverse", "--mono", "--output", "--how", "--search", "--upsample", "--set", "--train"],
    "bidirectional": ["--both", "--one", "--config", "--set", "--name"],
    "runs": ["--curve", "--format"],
    "plot": ["--output"],
    "config": ["--config", "--set", "--for-pairs", "--minutes", "--as-is", "--explain"],
}  # fmt: skip


@pytest.mark.parametrize("command", OPTIONS)
def test_command_help_describes_all_options(command: str, nmt: Command) -> None:
    page = nmt(command, "--help")
    assert page.status == 0 and "\\" not in page.out and re.search(r"^  Examples:\n    (nmt|echo) ", page.out, re.M)
    assert {*OPTIONS[command]} <= {*re.findall(r"^  (--[\w-]+)", page.out, re.M)}


def test_help_and_config_errors_do_not_import_torch() -> None:
    Path("run").mkdir()
    Path("run", "config.yaml").write_text(CONFIG)
    code = """
import sys
from nmt.cli import main
lines = {
    0: ("--help", "train --help", "config"),
    2: (
        "train --config none.yaml", "train --config c.yaml --set model.d_modle=3", "train --config c.yaml --run .",
        "translate --run none", "evaluate --run .", "translate --run run --set search.baem=3",
    ),
}
for status, commands in lines.items():
    for line in commands:
        try:
            main(line.split())
        except SystemExit as end:
            assert end.code == status, (line, end.code)
heavy = {"torch", "numpy", "pyarrow", "huggingface_hub", "sacrebleu", "sentencepiece", "matplotlib"} & set(sys.modules)
print("heavy:", sorted(heavy))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("heavy: []\n")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tr", ["train", "translate"]),
        ("translate --al", ["--alignments"]),
        ("config --set training.max_s", ["training.max_steps="]),
        ("data g", ["get"]),
        ("translate --set search.max_length_", ["search.max_length_ratio=", "search.max_length_offset="]),
        ("translate --set training.max_s", []),
        ("train --config mu", ["multi30k.yaml"]),
        ("prepare --config c", ["c.yaml"]),
        ("evaluate --run ", ["runs/one", "runs/two"]),
        ("compare runs/one ", ["runs/one", "runs/two"]),
        ("plot runs/o", ["runs/one"]),
        ("distil --teacher runs/o", ["runs/one"]),
        ("back-translate --search sam", ["sample="]),
        ("runs --curve runs/o", ["runs/one"]),
        ("plot nowhere/o", []),
        ("evaluate --weights a", ["auto", "average"]),
        ("--foo tra", ["train", "translate"]),
    ],
)
def test_shell_completion_offers_names(
    line: str, expected: list[str], nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "one.part"):
        Path("runs", name).mkdir(parents=True)
        Path("runs", name, "config.yaml").touch()
    words = f"nmt {line}"
    asked = {
        "bash": {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))},
        "zsh": {"_TYPER_COMPLETE_ARGS": words},
        "fish": {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }
    found = {}
    for shell, variables in asked.items():
        for name, value in (variables | {"_NMT_COMPLETE": f"complete_{shell}"}).items():
            monkeypatch.setenv(name, value)
        found[shell] = nmt().out
    fish = [row.partition("\t")[0] for row in found["fish"].split("\n") if row]
    assert found["bash"].split() == fish == expected and all(f'"{word}"' in found["zsh"] for word in expected)


def test_version_shows_commit(nmt: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = nmt("--version").out
    assert re.fullmatch(rf"nmt {re.escape(__version__)}( \([0-9a-f]{{7,}}(\+ [0-9a-f]{{8}})?\))?\n", shown)
    monkeypatch.setattr("nmt.version.PACKAGE", tmp_path)
    assert nmt("--version").out == f"nmt {__version__}\n"  # neither built nor a clone
    (tmp_path / "commit.txt").write_text("0123abc\n")
    assert nmt("--version").out == f"nmt {__version__} (0123abc)\n"


def test_config_prints_described_settings(nmt: Command) -> None:
    shown = nmt("config", "--config", "c.yaml", "--set", "training.seed=7")
    assert "  # Random seed of the initial weights" in shown.out
    Path("mine.yaml").write_text(shown.out)
    assert load_config("mine.yaml") == load_config("c.yaml", ["training.seed=7"])


def test_config_as_is_prints_the_file(nmt: Command) -> None:
    Path("c.yaml").write_text(f"# a comment\n{CONFIG}")
    assert nmt("config", "--config", "c.yaml", "--as-is").out == Path("c.yaml").read_text()
    assert nmt("config", "--config", "none.yaml", "--as-is").status == 2


def test_config_explains_a_setting(nmt: Command) -> None:
    assert nmt("config", "--explain", "training.seed").out.startswith("training.seed: ")
    assert nmt("config", "--explain", "training.sed").status == 2


# --- usage and bad input ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "Usage: nmt"),
        (["trian"], "No such command 'trian'"),
        (["train", "--confg", "x"], "No such option: --confg"),
        (["translate", "--beam", "0"], "'--beam'"),
        (["translate", "--n-best", "0"], "'--n-best'"),
        (["translate", "--weights", "best"], "'--weights'"),
        (["generate", "stray"], "generate takes no arguments, found stray"),
        (["--epochs", "3"], "No such option: --epochs"),
    ],
)
def test_usage_errors_exit_with_status_2(arguments: list[str], expected: str, nmt: Command) -> None:
    result = nmt(*arguments)
    assert (result.status, result.out) == (2, "") and expected in result.err
    assert not arguments or re.fullmatch(r"nmt: .*; see --help\n", result.err)


WITH_FILES = "for runs, so not available with --hyp and --ref"


NO_RUN = "runs: contains no run that this command can use; create one with nmt train, or give one with --run"


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["prepare", "--config", "no.yaml"],
            [
                "no.yaml: no such config here or in configs/; "
                "shipped configs: adapt.yaml, base-best.yaml, base.yaml, imdb.yaml, iwslt14.yaml, multi30k.yaml, "
                "sample.yaml, student-small.yaml, student-tiny.yaml"
            ],
        ),
        (
            ["prepare", "--config", "c.yaml", "--set", "training.warmup=1", "--set", "search.beam=none"],
            [
                "--set search.beam: must be a whole number, found 'none'",
                "--set training.warmup: no such setting; did you mean training.warmup_steps?",
            ],
        ),
        (
            ["prepare", "--config", "c.yaml", "--set", "data.root=nowhere"],
            ["nowhere/a.de: no such file; check data.root and files in the config"],
        ),
        (
            ["prepare", "--config", "c.yaml", "--tokenizer-from", "nowhere"],
            ["nowhere: no such directory"],
        ),
        (
            ["train", "--config", "c.yaml"],
            ["prepared: no such data directory; nmt prepare with the same --config creates it"],
        ),
        (["train", "--resume"], [NO_RUN]),
        (
            ["train", "--resume", "--run", "nowhere"],
            ["nowhere: no run to resume; leave out --resume to start a new one"],
        ),
        (["translate"], [NO_RUN]),
        (["evaluate"], [NO_RUN]),
        (
            ["translate", "--run", "nowhere"],
            ["nowhere: no such directory; make one with nmt train"],
        ),
        (["evaluate", "--hyp", "nowhere", "--ref", "a.en"], ["nowhere: no such file"]),
        (
            ["evaluate", "--hyp", "a.en"],
            ["--hyp F and --ref F must be given together"],
        ),
        (["evaluate", "--hyp", "a.en", "--ref", "v.en", "--split", "test"], [f"--split: {WITH_FILES}"]),
        (
            ["evaluate", "--hyp", "a.en", "--ref", "v.en", "--beam", "3", "--from", "x"],
            [f"--from, --beam: {WITH_FILES}"],
        ),
        (["evaluate", "--hyp", "a.en", "--ref", "v.en", "--checkpoint", "last"], [f"--checkpoint: {WITH_FILES}"]),
        (
            ["evaluate", "--format", "csv", "--samples", "3"],
            ["--samples cannot be combined with --format csv; --output F writes all translations"],
        ),
        (
            ["evaluate", "--history", "--beam", "1"],
            ["--history can be combined only with one --run, --split and --format"],
        ),
        (
            ["evaluate", "--history", "--run", "nowhere"],
            ["nowhere: no such directory; make one with nmt train"],
        ),
        (
            ["evaluate", "--hyp", "a.en", "--ref", "v.en", "--tokenize", "moses"],
            ["tokenize: 'moses' is not one of 13a, intl, zh, char, none"],
        ),
    ],
)
def test_bad_input_prints_one_line_and_exits_with_status_2(
    arguments: list[str], lines: list[str], nmt: Command, folder: Path
) -> None:
    before = sorted(folder.rglob("*"))
    result = nmt(*arguments)
    assert (result.status, result.out, sorted(result.err.splitlines())) == (2, "", [f"nmt: {line}" for line in lines])
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("command", [[SCRIPT], [sys.executable, "-m", "nmt"]])
def test_console_script_prints_no_traceback(command: list[str]) -> None:
    ran = subprocess.run([*command, "prepare", "--config", "no.yaml"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "") and re.fullmatch(r"nmt: no\.yaml: no such config.*\n", ran.stderr)


def test_closed_output_ends_command() -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run([SCRIPT, "config"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (ran.returncode, ran.stderr) == (
        2,
        b"nmt: output: No space left on device; make room and run the same command again\n",
    )
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run([SCRIPT, "config", "--config", "no.yaml"], stderr=full, check=False)
    assert ran.returncode == 2
    read, write = os.pipe()
    os.close(read)
    for arguments in ("config", "--help"):
        ran = subprocess.run([SCRIPT, arguments], stdout=write, stderr=subprocess.PIPE, check=False)
        assert (ran.returncode, ran.stderr) == (141, b"")
    os.close(write)


def test_text_is_written_as_utf8_in_any_locale() -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    Path("c.yaml").write_text(CONFIG.replace("prepared", "vorbereitet-für"), encoding="utf-8")
    command = [SCRIPT, "config", "--config", "c.yaml"]
    ran = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert "dir: vorbereitet-für\n" in ran.stdout.decode()


# --- how a command ends -------------------------------------------------------------------------


def test_ctrl_c_prints_one_line() -> None:
    Path("c.yaml").write_text(CONFIG)
    code = """
import os, signal, time
from nmt.cli import main
from nmt.prepare import build
build.open_source = lambda *_: (os.kill(os.getpid(), signal.SIGINT), time.sleep(60))
main(["prepare", "--config", "c.yaml"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "nmt: interrupted\n")
    assert not Path("prepared").exists()


def test_closed_stderr_descriptor_is_not_reused(tmp_path: Path) -> None:
    """Otherwise, messages of libraries on descriptor 2 would be written to the next opened file."""
    code = """
import os, sys
from nmt.cli import main
os.closerange(0, 3)
try:
    main(["--version"])
except BaseException:
    pass
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
os.write(file, f"{file > 2} {[os.readlink(f'/proc/self/fd/{i}') for i in range(3)]}".encode())
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "f")], check=False)
    assert (tmp_path / "f").read_text() == f"True {['/dev/null'] * 3}"
