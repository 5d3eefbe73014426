"""The recipes of scripts/: distillation, back-translation, bidirectional pre-training."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from sacrebleu.metrics.chrf import CHRF
from typer.main import get_command

import back_translate
import distil
import recipe
from command import Command, run_command
from kept_run import quicken
from nmt import Translator
from nmt.cli import app
from nmt.config import Source
from nmt.config.load import changed_config, dump_config, load_config
from nmt.data.corpus import read_manifest
from nmt.errors import DataError
from nmt.files.write import Lock
from nmt.layout import DataDir, RunDir
from nmt.prepare.prepare import prepare
from nmt.runs.checkpoint import saved_steps
from nmt.runs.info import read_info
from places import GOLDEN, SCRIPTS
from tiny_corpus import tiny_settings, tiny_text

Script = Callable[[Sequence[str]], int]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`text`, `data` prepared from it, and `run`, the kept run, which has learned to translate such text a little."""
    found = tmp_path_factory.mktemp("recipes")
    tiny_text(found / "text", n_train=60)
    prepare(tiny_settings(found / "text"), found / "data", echo=lambda _: None)
    shutil.copytree(GOLDEN / "run", found / "run")
    for name in ("config.yaml", "run.json"):
        file = found / "run" / name
        file.write_text(file.read_text(encoding="utf-8").replace("somewhere", str(found)), encoding="utf-8")
    return found


@pytest.fixture(autouse=True)
def small(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 16 lines, and the working directory of a test's own."""
    assert (folder / "data").is_dir()
    monkeypatch.setattr(recipe, "CHUNK", 16)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.chdir(tmp_path)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def dropped(data: Path) -> dict[str, int]:
    """What `nmt prepare` has dropped, by reason."""
    counts = read_manifest(DataDir(data))["splits"]["train"]["clean"]["dropped"]
    return dict(counts)


def fails(script: Script, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The message of a script that ends with status 2; it is one line."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        script([str(argument) for argument in arguments])
    assert end.value.code == 2
    (message,) = capsys.readouterr().err.splitlines()
    return message


def interrupt_after(n: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ctrl-C in the window after the first `n`; the list of windows' first lines that is returned fills itself."""
    real, seen = Translator.translate_window, list[int]()

    def translate_window(self: Translator, *arguments: object) -> Iterator[object]:
        if len(seen) == n:
            raise KeyboardInterrupt
        seen.append(int(str(arguments[3])))
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "translate_window", translate_window)
    return seen


# --- distillation -------------------------------------------------------------------------------


def test_a_student_learns_from_what_the_teacher_says(
    folder: Path, tmp_path: Path, nmt: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher = str(folder / "run")
    assert distil.main(["--teacher", teacher, "--output", "out", "--set", "model.d_ff=24"]) == 0
    source, translations = lines_of(folder / "data" / "train.aa"), lines_of(tmp_path / "out" / "distilled.bb")
    found = Translator.load(folder / "run").translate_lines(source)
    assert translations == [best.text if best.finished else "" for best, *_ in found]
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "config.yaml", "distilled.bb", "lock", "report.json", "settings.json",
    ]  # fmt: skip

    counts = json.loads(Path("out/report.json").read_text(encoding="utf-8"))
    n_blank = translations.count("")
    assert counts["lines"] == len(source) == counts["translations"] + counts[distil.UNFINISHED]
    assert counts[distil.UNFINISHED] == n_blank
    said = capsys.readouterr().out
    assert f"\n{counts['translations']:>12,}  translations\n" in said

    config = load_config("out/config.yaml")
    assert (config.model.d_ff, config.training.init_from, config.data.root) == (24, None, ".")
    assert config.data.valid.files == {lang: str(folder / "text" / f"dev.{lang}") for lang in ("aa", "bb")}
    result = nmt("prepare", "--config", "out/config.yaml", "--tokenizer-from", teacher)
    assert result.status == 0, result.err
    assert dropped(Path("out/prepared")).get("empty", 0) == n_blank
    assert (
        Path("out/prepared/tokenizer/joint.model").read_bytes()
        == (GOLDEN / "run" / "tokenizer/joint.model").read_bytes()
    )


def test_of_several_the_one_nearest_to_the_reference_is_taken(folder: Path) -> None:
    arguments = ["--teacher", str(folder / "run"), "--output", "out", "--n-best", "4", "--beam", "4"]
    assert distil.main([*arguments, "--with-originals"]) == 0
    source, references = (lines_of(folder / "data" / f"train.{language}") for language in ("aa", "bb"))
    translator = Translator.load(folder / "run")
    search = translator.config.search.model_copy(update={"beam": 4})
    n_other = 0
    for found, reference, taken in zip(
        translator.translate_lines(source, search, 4), references, lines_of(Path("out/distilled.bb")), strict=True
    ):
        texts = [each.text for each in found if each.finished]
        scores = {text: CHRF().sentence_score(text, [reference]).score for text in texts}
        assert scores.get(taken, 0.0) == pytest.approx(max(scores.values(), default=0.0))
        n_other += bool(texts) and taken != texts[0]
    assert n_other > 0
    corpora = load_config("out/config.yaml").data.train
    assert [corpus.name for corpus in corpora] == ["originals", "distilled"]


def test_nothing_is_nearest_where_nothing_is() -> None:
    assert distil.nearest([], "a", "chrf", "en") == ""
    assert distil.nearest(["dog", "the cat", "the cat sits"], "the cat sat", "bleu", "en") == "the cat"
    assert distil.nearest(["dog", "the cat", "the cat sits"], "the cat sat", "chrf", "en") == "the cat sits"


def test_an_ensemble_teaches(folder: Path) -> None:
    run = str(folder / "run")
    assert distil.main(["--teacher", run, "--teacher", run, "--output", "out", "--beam", "1"]) == 0
    assert distil.main(["--teacher", run, "--output", "alone", "--beam", "1"]) == 0
    assert Path("out/distilled.bb").read_bytes() == Path("alone/distilled.bb").read_bytes()
    assert len(json.loads(Path("out/settings.json").read_text(encoding="utf-8"))["runs"]) == 2


def test_the_commands_that_follow_are_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quicken(monkeypatch)
    called = list[list[str]]()

    def run(command: Sequence[str]) -> int:
        assert command[1:3] == ["-m", "nmt"]
        called.append(list(command[3:]))
        result = run_command(*command[3:])
        assert result.status in (0, 2), result.err
        return result.status

    monkeypatch.setattr(recipe, "run_to_its_end", run)
    short = ["max_steps=2", "warmup_steps=1", "validate_every_steps=2", "save_every_steps=1"]
    settings = [word for setting in short for word in ("--set", f"training.{setting}")]
    arguments = ["--teacher", str(folder / "run"), "--output", "out", "--beam", "1", *settings]
    assert distil.main(arguments) == 0 and called == []
    printed = [line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.startswith("nmt ")]
    assert distil.main([*arguments, "--run"]) == 0
    assert called == printed and [words[0] for words in called] == ["prepare", "train", "evaluate"]
    assert distil.main([*arguments, "--run"]) == 0, "what was trained is not trained again"
    assert called[4] == ["train", "--resume", "--config", "out/config.yaml", "--run", "runs/distilled-out-aa-bb"]
    assert distil.main([*arguments, "--set", "model.d_ff=24", "--run"]) == 2, "another model is another run"
    del called[:]
    shutil.rmtree("out/prepared")
    Path("out/prepared").write_text("in the way", encoding="utf-8")
    assert distil.main([*arguments, "--run"]) == 2, "prepare has failed"
    assert [words[0] for words in called] == ["prepare"]


SLOW = """
import signal, sys, time
asked = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: asked.append(number))
print("begun", flush=True)
while not asked: time.sleep(0.01)
time.sleep(0.5)
print("saved", len(asked), flush=True)
sys.exit(75)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_asked_to_stop_may_save_first(number: signal.Signals) -> None:
    """Ctrl-C reaches all processes of the terminal, `kill` only the one that it names."""
    program = f"import sys; from recipe import *; sys.exit(run_to_its_end([sys.executable, '-c', {SLOW!r}]))"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(SCRIPTS)}, stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as caller:  # fmt: skip
        assert caller.stdout is not None and caller.stdout.readline() == "begun\n"
        (os.killpg if number == signal.SIGINT else os.kill)(caller.pid, number)
        assert caller.stdout.read() == "saved 1\n"
    assert caller.returncode == 75


# --- back-translation ---------------------------------------------------------------------------


def mono(folder: Path) -> list[str]:
    """Text in the language that the kept run translates from, with all that there is to count."""
    lines = lines_of(folder / "text" / "train.aa")[:40]
    lines[3], lines[17] = "", " \u00a0"
    lines[5] = lines_of(folder / "text" / "dev.aa")[2]
    lines[6] = f" {lines_of(folder / 'text' / 'test.aa')[1]}"
    lines[20] = "ba " * 400
    lines[33] = "ba\x0clo"
    Path("mono.aa").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return lines


def test_every_line_is_counted_and_keeps_its_place(folder: Path, nmt: Command) -> None:
    lines = mono(folder)
    arguments = ["--reverse", str(folder / "run"), "--mono", "mono.aa", "--output", "out", "--how", "greedy"]
    assert back_translate.main([*arguments, "--upsample", "3"]) == 0
    found = lines_of(Path("out/synthetic.bb"))
    skipped = (3, 5, 6, 17, 20, 33)
    translator = Translator.load(folder / "run")
    search = translator.config.search.model_copy(update={"beam": 1})
    for i, (best, *_) in enumerate(translator.translate_lines(lines, search)):
        assert found[i] == ("" if i in skipped or not best.finished else best.text)

    counts = json.loads(Path("out/report.json").read_text(encoding="utf-8"))
    n_lines, n_pairs = counts.pop("lines"), counts.pop("pairs")
    assert n_lines == len(lines) == n_pairs + sum(counts.values())
    not_translated = {what: n for what, n in counts.items() if what.startswith("not translated")}
    assert not_translated == {
        "not translated: blank": 2, "not translated: in a dev or test set": 2,
        "not translated: too long (characters)": 1, "not translated: control character": 1,
    }  # fmt: skip

    config = load_config("out/config.yaml")
    assert config.data.direction == "bb-aa"
    assert config.data.train[0].files == {lang: str(folder / "text" / f"train.{lang}") for lang in ("aa", "bb")}
    assert config.data.train[1].files == {"bb": "out/synthetic.bb", "aa": "mono.aa"}
    result = nmt("prepare", "--config", "out/config.yaml", "--tokenizer-from", folder / "run")
    assert result.status == 0, result.err
    kept = read_manifest(DataDir(Path("out/prepared")))["sources"]["train.1"]["kept"]
    sources = read_manifest(DataDir(Path("out/prepared")))["sources"]
    n_texts = len(lines_of(Path("out/prepared/train.aa")))
    assert n_texts == 3 * sources["train.0"]["kept"] + sources["train.1"]["kept"]
    by_reason = dropped(Path("out/prepared"))
    assert kept == n_pairs - by_reason.pop("duplicate", 0) > 20, "some lines are of the authentic text"
    assert by_reason.pop("empty") == 6 + counts.get(back_translate.UNFINISHED, 0)
    assert sum(by_reason.values()) == sum(n for what, n in counts.items() if "will drop" in what)


@pytest.mark.parametrize(
    ("translation", "line", "what"),
    [
        ("ein Hund", "a dog", None),
        ("a dog", "a dog", "nmt prepare will drop: copied source"),
        ("wau " * 30, "a dog", "nmt prepare will drop: length ratio"),
        (" ", "a dog", back_translate.UNFINISHED),
        ("ein Hund", " ", "not translated: blank"),
        ("ein Hund", "x" * 1001, "not translated: too long (characters)"),
        ("ein Hund", " a test ", "not translated: in a dev or test set"),
    ],
)
def test_what_becomes_of_a_pair(translation: str, line: str, what: str | None) -> None:
    rules = back_translate.Rules(load_config("sample.yaml").data, ["a test\t"])
    assert rules.of_pair(translation, line) == what


def test_stopped_and_gone_on_is_never_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mono(folder)
    arguments = ["--reverse", str(folder / "run"), "--mono", "mono.aa", "--output"]
    assert back_translate.main([*arguments, "whole"]) == 0
    whole = {path.name: path.read_bytes() for path in Path("whole").iterdir() if path.suffix != ".yaml"}
    with monkeypatch.context() as patch:
        seen = interrupt_after(2, patch)
        with pytest.raises(SystemExit) as end:
            back_translate.main([*arguments, "parts"])
        assert end.value.code == 130 and seen == [0, 16]
    assert sorted(path.name for path in Path("parts").iterdir()) == ["chunks", "lock", "settings.json"]
    with monkeypatch.context() as patch:
        seen = interrupt_after(9, patch)
        assert back_translate.main([*arguments, "parts"]) == 0
        assert seen == [32], "what was there is not translated again"
    parts = {path.name: path.read_bytes() for path in Path("parts").iterdir() if path.suffix != ".yaml"}
    assert {name for name in whole if whole[name] != parts.get(name)} <= {"lock"} and parts.keys() == whole.keys()

    monkeypatch.setattr(recipe, "load_translator", lambda _: pytest.fail("nothing is to be translated"))
    capsys.readouterr()
    assert back_translate.main([*arguments, "parts"]) == 0
    said = capsys.readouterr()
    assert "parts/synthetic.bb: all 40 lines are there" in said.err
    assert f"{json.loads(whole['report.json'])['pairs']:>12,}  pairs\n" in said.out


def test_samples_differ_from_line_to_line_and_from_what_a_beam_finds(folder: Path) -> None:
    line = lines_of(folder / "text" / "train.aa")[0]
    Path("mono.aa").write_text(f"{line}\n" * 40, encoding="utf-8")
    found = {}
    for how in back_translate.HOW:
        assert not back_translate.main(
            ["--reverse", str(folder / "run"), "--mono", "mono.aa", "--output", how, "--how", how]
        )
        found[how] = lines_of(Path(how) / "synthetic.bb")
    assert len(set(found["beam"])) == len(set(found["greedy"])) == 1
    # line n draws as line n in any chunk: no two chunks are alike
    assert found["sample"][:8] != found["sample"][16:24] != found["sample"][32:40]


# --- both ---------------------------------------------------------------------------------------


def test_what_does_not_belong_together_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mono(folder)
    run = folder / "run"
    back = ("--reverse", run, "--mono", "mono.aa", "--output")
    assert back_translate.main([*map(str, back), "out", "--how", "greedy"]) == 0
    main = back_translate.main
    assert "search.sample was False, is True" in fails(main, capsys, *back, "out")
    config = load_config(run / "config.yaml", ["data.direction=bb-aa"])
    files = {lang: folder / "text" / f"train.{lang}" for lang in ("aa", "bb")}
    more = {"training": Source(files={lang: str(path) for lang, path in files.items()})}
    tree = config.model_copy(update={"data": config.data.model_copy(update={"test": more})})
    Path("more.yaml").write_text(dump_config(tree), encoding="utf-8")
    another_test_set = fails(main, capsys, *back, "out", "--how", "greedy", "--config", "more.yaml")
    assert "dev_and_test_lines was" in another_test_set, "its lines may have been translated"
    with Path("mono.aa").open("a", encoding="utf-8") as file:
        file.write("more\n")
    assert "begun with other settings: text was" in fails(main, capsys, *back, "out", "--how", "greedy")
    assert "holds other files" in fails(main, capsys, *back, folder)
    assert "mono.aa: a file, where a folder" in fails(main, capsys, *back, "mono.aa")
    assert "what follows a aa-bb run is bb-aa" in fails(main, capsys, *back, "new", "--config", run / "config.yaml")
    assert "model.d_fff" in fails(main, capsys, *back, "new", "--set", "model.d_fff=3")
    assert "search.beem" in fails(main, capsys, *back, "new", "--search", "beem=3")
    assert "none: no such file" in fails(main, capsys, "--reverse", run, "--mono", "none", "--output", "new")
    Path("latin").write_bytes(b"ba\nb\xe4\n")
    assert "not UTF-8 at line 2" in fails(main, capsys, "--reverse", run, "--mono", "latin", "--output", "new")
    assert "not a run directory" in fails(main, capsys, "--reverse", ".", "--mono", "mono.aa", "--output", "new")
    teach = ("--teacher", run, "--output", "new")
    assert "n_best: 9 needs a beam" in fails(distil.main, capsys, *teach, "--n-best", "9")
    assert "no such data directory" in fails(distil.main, capsys, *teach, "--data", "none")
    assert not Path("new").exists(), "found before anything is written"


def test_weights_that_are_others_now_are_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder / "run", "run")
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        interrupt_after(1, patch)
        distil.main(["--teacher", "run", "--output", "out"])
    selected = json.loads(Path("run/selected.json").read_text(encoding="utf-8"))
    Path("run/selected.json").write_text(json.dumps(selected | {"best_step": 900}), encoding="utf-8")
    again = ("--teacher", "run", "--output", "out")
    assert "weights was [[400, 'raw']], is [[900, 'raw']]" in fails(distil.main, capsys, *again)
    average = {"best_step": 400, "weights": "average", "average_steps": [200, 400]}
    Path("run/selected.json").write_text(json.dumps(selected | average), encoding="utf-8")
    assert "is [[[200, 400], 'average']]" in fails(distil.main, capsys, *again), "the best step is not what translates"


def test_two_at_a_time_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("out").mkdir()
    lock = Lock(Path("out/lock"), "works")
    try:
        assert "another process works here" in fails(
            distil.main, capsys, "--teacher", folder / "run", "--output", "out"
        )
    finally:
        lock.release()


def test_a_damaged_chunk_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        interrupt_after(1, patch)
        distil.main(["--teacher", str(folder / "run"), "--output", "out"])
    Path("out/chunks/000000000000").write_text("ba\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        distil.main(["--teacher", str(folder / "run"), "--output", "out"])
    assert "000000000000: damaged: 1 lines, there must be 16; remove it" in capsys.readouterr().err
    assert not Path("out/distilled.bb").exists()


def test_a_text_is_read_as_it_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    n_read = 0

    def rows() -> Iterator[str]:
        nonlocal n_read
        for number in range(100):
            n_read += 1
            yield str(number)

    def translate(_: Translator, chunk: Sequence[str], first: int) -> list[str]:
        assert n_read == min(first + 16, 100) and chunk[0] == str(first)
        return [f"t{line}" for line in chunk]

    monkeypatch.setattr(recipe, "load_translator", lambda _: None)
    made = recipe.Recipe(Path("out"), {}, [])
    made.make("all", rows(), 100, translate, lambda path: {"lines": len(lines_of(path))})
    assert lines_of(Path("out/all")) == [f"t{number}" for number in range(100)]


# --- bidirectional ------------------------------------------------------------------------------

FAKE = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> commands
case $1 in
    config) case $* in *data.direction=en-de*) cat bin/turned ;; *) cat bin/given ;; esac ;;
    train) for word; do [ "${last:-}" = --run ] && mkdir -p "$word" && touch "$word/run.json"; last=$word; done ;;
esac
"""


def bidirectional(
    *arguments: str, directions: tuple[str, str] = ("de-en", "en-de")
) -> tuple[int, str, list[list[str]]]:
    """Status, messages, and the commands of `nmt` that the script calls, of a `nmt` that can do `config` alone."""
    Path("bin").mkdir(exist_ok=True)
    config = arguments[0] if arguments and Path(arguments[0]).is_file() else "sample.yaml"
    for name, direction in zip(("given", "turned"), directions, strict=True):
        result = run_command("config", "--config", config, "--set", f"data.direction={direction}")
        Path("bin", name).write_text(result.out, encoding="utf-8")
    Path("bin/nmt").write_text(FAKE, encoding="utf-8")
    Path("bin/nmt").chmod(0o755)
    Path("commands").write_text("", encoding="utf-8")
    path = f"{Path('bin').resolve()}:{os.environ['PATH']}"
    done = subprocess.run(
        [SCRIPTS / "bidirectional.sh", *arguments],
        env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr, [line.split() for line in lines_of(Path("commands"))]


def test_first_both_directions_then_one() -> None:
    status, said, (_, both, one) = bidirectional("sample.yaml", "900", "20m", "--set", "training.seed=2")
    assert status == 0, said
    settings = ["--config", "sample.yaml", "--set", "training.seed=2"]
    limit = ["--set", "training.max_minutes=null", "--set", "training.max_steps=900"]
    two = ["--set", "training.both_directions=true", "--set", "data.direction=de-en"]
    first = ["--run", "runs/sample-both", *settings, *limit, *two]
    assert both == ["train", *first]
    run = "runs/sample-both-de-en"
    last = ["--run", run, *settings, "--set", "training.max_minutes=20", "--init-from", "runs/sample-both"]
    assert one == ["train", *last]
    command = get_command(app)
    for name, *words in (both, one):
        context = command.commands[name].make_context(name, list(words))  # type: ignore[attr-defined]
        load_config(str(context.params["config"]), context.params["overrides"])

    shutil.rmtree(run)
    _, _, (_, _, both, one) = bidirectional("sample.yaml", "900", "20m", "--set", "training.seed=2")
    assert both == ["train", "--resume", *first], "what was begun goes on, if its settings are these"
    assert one == ["train", *last]
    other = ("--set", "training.seed=2", "--set", "data.direction=en-de")
    _, _, (*_, both, one) = bidirectional("sample.yaml", "900", "20m", *other)
    assert both[-2:] == two[-2:], "in the direction it was begun for, though it has learned both"
    assert one[:3] == ["train", "--run", "runs/sample-both-en-de"]


def test_one_direction_goes_on_from_both(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole recipe, with the commands run in this process, called twice as for a run that was stopped."""
    quicken(monkeypatch)
    config = tiny_settings(folder / "text", data={"dir": "split", "valid": 1000}, search={"beam": 1}, training={
        "average_last": 1, "update_tokens": 60, "precision": "float32",
    })  # fmt: skip
    prepare(config, Path("split"), folder / "run", echo=lambda _: None)
    Path("small.yaml").write_text(dump_config(config), encoding="utf-8")
    for again in (False, True):
        said = ""
        status, errors, commands = bidirectional("small.yaml", "3", "2", directions=("aa-bb", "bb-aa"))
        assert status == 0, errors
        if not again:
            shutil.rmtree("runs")  # which the commands were only said to have made
        trainings = [words for words in commands if words[0] == "train"]
        assert [words[1] == "--resume" for words in trainings] == [again, again]
        for words in trainings:
            result = run_command(*words)
            assert result.status == 0, result.err
            said += result.err
    assert said.count("finished at step") == 2, "nothing was left to do"
    both, one = (RunDir(Path(f"runs/small-both{end}")) for end in ("", "-aa-bb"))
    assert saved_steps(both)[-1] == 3 and saved_steps(one)[-1] == 2
    assert read_info(one).initial.step == 3
    configs = [load_config(run.config).training for run in (both, one)]
    assert [config.both_directions for config in configs] == [True, False]


@pytest.mark.parametrize("arguments", [(), ("sample.yaml", "900"), ("sample.yaml", "3h", "3"), ("a", "3", "2m3")])
def test_lengths_that_are_none_are_refused(arguments: tuple[str, ...]) -> None:
    status, said, commands = bidirectional(*arguments)
    assert status == 2 and said.count("\n") == 1 and "--help" in said and not commands


@pytest.mark.parametrize("script", ["distil.py", "back_translate.py", "bidirectional.sh"])
def test_help_has_an_example(script: str) -> None:
    command = [sys.executable, SCRIPTS / script] if script.endswith(".py") else [SCRIPTS / script]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"scripts/{script} " in done.stdout


def test_the_sample_corpus_that_is_installed_is_found() -> None:
    assert not Path("data").exists()
    for _, source in recipe.rooted(load_config("sample.yaml")).data.sources():
        assert source.files and all(Path(name).is_file() for name in source.files.values())


class Parrot:
    """In place of a translator: says the lines of the development set, then of the training text, again and again."""

    def __init__(self, data: DataDir, language: str) -> None:
        self.lines = [line for split in ("valid", "train") for line in lines_of(data.text(split, language))]

    def translate_window(self, lines: Sequence[str], *_: object) -> Iterator[list[SimpleNamespace]]:
        for i, _line in enumerate(lines):
            yield [SimpleNamespace(text=self.lines[i % len(self.lines)], finished=True)]


@pytest.fixture
def split(folder: Path, tmp_path: Path) -> Path:
    """A run that was trained with --data on `data`: of its text, a development set was split off, and most lines are a
    side of several pairs."""
    tiny_text(tmp_path / "text", n_train=30)
    sides = {language: lines_of(tmp_path / "text" / f"train.{language}") for language in ("aa", "bb")}
    for language, more in (("aa", ("", " ba")), ("bb", (" ab", ""))):
        lines = [line + end for end in ("", *more) for line in sides[language]]
        (tmp_path / "text" / f"train.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    train = [{"files": {language: f"train.{language}" for language in ("aa", "bb")}, "repeat": 2}]
    config = tiny_settings(tmp_path / "text", data={"valid": 5, "train": train, "dir": "not-here"})
    prepare(config, tmp_path / "split", folder / "run", echo=lambda _: None)
    shutil.copytree(folder / "run", "run", ignore=shutil.ignore_patterns("checkpoints"))
    Path("run/config.yaml").write_text(dump_config(config), encoding="utf-8")
    info = json.loads(Path("run/run.json").read_text(encoding="utf-8"))
    Path("run/run.json").write_text(json.dumps(info | {"data_dir": str(tmp_path / "split")}), encoding="utf-8")
    return tmp_path / "split"


@pytest.mark.parametrize("which", ["distil", "back_translate", "back_translate --config"])
def test_nothing_of_a_development_set_that_was_split_off_is_learned(
    which: str, split: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = DataDir(split)
    assert dropped(split)["shared"] >= 5
    if which == "distil":
        monkeypatch.setattr(recipe, "load_translator", lambda _: Parrot(data, "bb"))
        teach = ["--teacher", "run", "--data", "split", "--output", "out", "--with-originals"]
        assert distil.main(teach) == 0
    else:
        Path("mono.aa").write_text("".join(f"{line} bo\n" for line in lines_of(data.text("train", "aa"))), "utf-8")
        monkeypatch.setattr(recipe, "load_translator", lambda _: Parrot(data, "bb"))
        back = ["--reverse", "run", "--mono", "mono.aa", "--output", "out", "--upsample", "3"]
        if "--config" in which:
            change = ["data.direction=bb-aa", "data.dir=split"]
            Path("mine.yaml").write_text(dump_config(load_config("run/config.yaml", change)), encoding="utf-8")
            back += ["--config", "mine.yaml"]
        assert back_translate.main(back) == 0
    config = load_config("out/config.yaml")
    prepare(config, Path("out/prepared"), Path("run"), echo=lambda _: None)
    made = DataDir(Path("out/prepared"))
    for language in ("aa", "bb"):
        valid = lines_of(made.text("valid", language))
        assert valid == lines_of(data.text("valid", language)) and len(valid) == 5
        assert not set(valid) & set(lines_of(made.text("train", language)))
    # what was split off apart, everything is there, as often as it was asked for
    pairs = list(zip(*(lines_of(made.text("train", language)) for language in ("aa", "bb")), strict=True))
    authentic = set(zip(*(lines_of(data.text("train", language)) for language in ("aa", "bb")), strict=True))
    assert {pairs.count(pair) for pair in authentic} == ({1} if which == "distil" else {6})
    assert len(set(pairs)) > len(authentic)


def test_corpora_that_repeat_differently_have_lost_that_in_the_prepared_text(
    split: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_config("run/config.yaml")
    train = [*config.data.train, config.data.train[0].model_copy(update={"repeat": 7})]
    Path("run/config.yaml").write_text(
        dump_config(config.model_copy(update={"data": config.data.model_copy(update={"train": train})})), "utf-8"
    )
    Path("mono.aa").write_text("ba\n", encoding="utf-8")
    message = fails(
        back_translate.main, capsys, "--reverse", "run", "--mono", "mono.aa", "--output", "out", "--upsample", "3"
    )
    assert "run: corpora repeat differently" in message and split.is_dir() and not Path("out").exists()


def test_a_development_set_that_was_split_off_stays_what_it_is(folder: Path) -> None:
    config = tiny_settings(folder / "text", data={"valid": 10, "dir": "data"})
    with pytest.raises(DataError, match=r"^data: no development set is here yet, and data\.valid says to split it off"):
        recipe.rooted(config)
    place = folder / "data"
    for found in (recipe.rooted(config, place), recipe.rooted(changed_config(config, [f"data.dir={place}"]))):
        assert isinstance(found.data.valid, Source)
        assert found.data.valid.files == {language: str(place / f"valid.{language}") for language in ("aa", "bb")}
        (train,) = found.data.train
        assert train.files == {language: str(place / f"train.{language}") for language in ("aa", "bb")}
