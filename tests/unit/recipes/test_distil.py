"""Tests of sequence-level knowledge distillation."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
from sacrebleu.metrics.chrf import CHRF

from command import Command
from nmt import Translator
from nmt.config.load import dump_config, load_config
from nmt.errors import CheckpointError
from nmt.layout import DataDir, RunDir
from nmt.recipes import directory as commands
from nmt.recipes import distil
from nmt.recipes.distil import UNFINISHED, nearest
from nmt.recipes.teachers import RunTeacher
from nmt.runs.checkpoint import save_checkpoint
from nmt.runs.info import Selected, write_selected
from nmt.runs.model import ModelRef, open_saved
from nmt.search.settings import SearchConfig
from recipe_folder import dropped, interrupt_after, lines_of
from tiny_run import licensed


def test_student_trains_on_teacher_output(folder: Path, nmt: Command) -> None:
    teacher = shutil.copytree(folder / "run", Path("teacher"))
    (teacher / "config.yaml").write_text(dump_config(licensed(load_config(teacher / "config.yaml"))), encoding="utf-8")
    done = nmt("distil", "--teacher", teacher, "--output", "out", "--set", "model.d_ff=24")
    assert done.status == 0, done.err
    source, translations = lines_of(folder / "data" / "train.aa"), lines_of(Path("out/distilled.bb"))
    expected = Translator.load(teacher).translate_lines(source)
    assert translations == [best.text if best.finished else "" for best, *_ in expected]
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "config.yaml", "distilled.bb", "lock", "report.json", "settings.json",
    ]  # fmt: skip

    counts, n_blank = json.loads(Path("out/report.json").read_text(encoding="utf-8")), translations.count("")
    expected = {"lines": len(source), "translations": len(source) - n_blank, UNFINISHED: n_blank}
    assert counts | expected == counts
    assert f"\n{counts['translations']:>12,}  translations\n" in done.out

    config = load_config("out/config.yaml")
    assert (config.model.d_ff, config.training.init_from, config.data.root) == (24, None, ".")
    assert [source.license for source in config.data.train] == ["CC BY 4.0"], "that of the teacher's text"
    assert config.data.valid.files == {lang: str(folder / "text" / f"dev.{lang}") for lang in ("aa", "bb")}
    result = nmt("prepare", "--config", "out/config.yaml", "--tokenizer-from", teacher)
    assert result.status == 0, result.err
    assert dropped(Path("out/prepared")).get("empty", 0) == n_blank
    joint = "tokenizer/joint.model"
    assert Path("out/prepared", joint).read_bytes() == (teacher / joint).read_bytes()


def test_candidate_nearest_to_reference_is_written(folder: Path, nmt: Command) -> None:
    # the beam of the student, and that of the teacher
    options = ["--set", "search.beam=3", "--output", "out", "--n-best", "4", "--beam", "4", "--with-originals"]
    done = nmt("distil", "--teacher", folder / "run", *options)
    assert done.status == 0, done.err
    source, references = (lines_of(folder / "data" / f"train.{language}") for language in ("aa", "bb"))
    translator, n_other = Translator.load(folder / "run"), 0
    lists = translator.translate_lines(source, translator.search_settings({"beam": 4}), 4)
    for n_best, reference, taken in zip(lists, references, lines_of(Path("out/distilled.bb")), strict=True):
        texts = [best.text for best in n_best if best.finished]
        scores = {text: CHRF().sentence_score(text, [reference]).score for text in texts}
        assert scores.get(taken, 0.0) == pytest.approx(max(scores.values(), default=0.0))
        n_other += taken not in texts[:1]
    config = load_config("out/config.yaml")
    assert n_other > 0 and config.search.beam == 3
    assert [corpus.name for corpus in config.data.train] == ["originals", "distilled"]


def test_nearest_returns_most_similar_text() -> None:
    assert nearest([], "a", "chrf", "en") == ""
    assert nearest(["dog", "the cat", "the cat sits"], "the cat sat", "bleu", "en") == "the cat"
    assert nearest(["dog", "the cat", "the cat sits"], "the cat sat", "chrf", "en") == "the cat sits"


def test_failed_command_ends_recipe(folder: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    called, statuses = list[str](), {"prepare": 0, "train": 75}
    monkeypatch.setattr(commands, "run_nmt", lambda words: called.append(words[0]) or statuses[words[0]])
    again = ("distil", "--teacher", folder / "run", "--output", "out", "--beam", "1")
    assert nmt(*again).status == 0 and not called, "they are only printed"
    assert nmt(*again, "--train").status == 75 and called == ["prepare", "train"]
    statuses["prepare"] = 2
    assert nmt(*again, "--train").status == 2 and called[2:] == ["prepare"]


def test_changed_teacher_weights_are_rejected(folder: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDir(Path(shutil.copytree(folder / "run", "run")))
    again = ("distil", "--teacher", "run", "--output", "out")
    with monkeypatch.context() as patch:
        interrupt_after(1, patch)
        assert nmt(*again).status == 130
    new = {name: 0.9 * tensor for name, tensor in open_saved(run.path).weights.tensors.items()}
    for step in (400, 600):  # the run is trained anew, and further
        shutil.rmtree("run/checkpoints/step-00000400", ignore_errors=True)
        save_checkpoint(run.step(step), new, None, {})
        write_selected(run, Selected(best_step=step, weights="raw", reason="the last"))
        done = nmt(*again)
        assert done.status == 2 and re.search(rf"weights was \[\[400, 'raw', .*is \[\[{step}, 'raw', ", done.err)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--n-best", "9"], "n_best: 9 needs a beam"),
        (["--data", "none"], "no such data directory"),
        (["--search", "beem=3"], "search.beem"),
        (["--run", "x"], "No such option: --run; write --teacher"),
        (["x"], "distil takes no arguments, found x: write nmt distil --teacher x"),
    ],
)
def test_errors_are_reported_before_writing(words: list[str], message: str, folder: Path, nmt: Command) -> None:
    done = nmt("distil", "--teacher", folder / "run", "--output", "new", *words)
    assert done.status == 2 and message in done.err and done.err.count("\n") == 1
    assert not Path("new").exists()


# --- monolingual text, and a student with a tokenizer of its own -------------------------------------


def few(folder: Path, teacher: Path) -> list[str]:
    """Write text for a small student of a teacher without a data directory, and return the options of `nmt distil`."""
    lines = lines_of(folder / "text" / "train.aa")[:60]
    Path("mono.aa").write_text("".join(f"{line}\n" for line in [*lines, ""]), encoding="utf-8")
    for language in ("aa", "bb"):
        shutil.copy(folder / "text" / f"test.{language}", f"held.{language}")
    changes = {
        "tokenizer.vocab_size": 310, "model.d_model": 32, "model.d_ff": 32, "model.n_heads": 2,
        "model.encoder_layers": 1, "training.max_steps": 2, "training.device": "cpu", "training.precision": "float32",
        "training.run_dir": "student", "search.max_length_ratio": 0, "search.max_length_offset": 6, "data.valid": 2,
    }  # fmt: skip
    sets = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    return ["distil", "--teacher", str(teacher), "--student", "tiny", "--mono", "mono.aa", "--output", "out", *sets]


def test_student_of_monolingual_text_has_its_own_tokenizer(
    folder: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher = shutil.copytree(folder / "run", Path("teacher"))
    options = few(folder, teacher)
    monkeypatch.setattr(commands, "wait_for", lambda command: nmt(*command[3:]).status)
    done = nmt(*options, "--test-src", "held.aa", "--test-ref", "held.bb", "--train")
    assert done.status == 0, done.err
    assert "nmt prepare --config out/config.yaml\n" in done.out, "with a tokenizer of its own"
    assert "all 41 lines are already translated" in nmt(*options).err
    expected = Translator.load(teacher).translate_lines(lines_of(Path("mono.aa")))
    assert lines_of(Path("out/distilled.bb")) == [best.text if best.finished else "" for best, *_ in expected]
    run = load_config("out/config.yaml").run_directory
    config = load_config(run / "config.yaml")
    assert config.tokenizer.vocab_size == 310 and config.model.decoder_layers == 1
    student, other = (Translator.load(path).tokenizers.fingerprint for path in (run, teacher))
    assert student != other
    sizes = done.out[done.out.index("million parameters") :].splitlines()[1:]
    assert [line.split()[0].strip(",") for line in sizes[:1]] == ["teacher"]
    assert sizes[-1].startswith("student") and all(float(line.split()[-1]) > 0 for line in sizes)
    assert "test: aa-bb, 10 lines, compared with teacher" in done.out

    def table(search: SearchConfig) -> list[str]:
        request = distil.Distillation(RunTeacher(ModelRef((teacher,)), search), config, Path("out"))
        rows = distil.compared(request, run, DataDir(config.data.directory))
        return [row.split("  ")[0] for row in rows][-3:]

    real = distil.engine_for
    monkeypatch.setattr(distil, "engine_for", lambda paths, **_: real(paths))  # int8 is too coarse for such models
    unsupported = config.search.model_copy(update={"coverage_penalty": 0.2})
    assert table(unsupported) == ["teacher", "student", "student, int8"]
    assert "teacher: without int8: search.coverage_penalty: 0.2 " in capsys.readouterr().err
    monkeypatch.setattr(distil, "engine_for", Mock(side_effect=CheckpointError("inexact")))
    assert table(config.search)[1:] == ["teacher", "student"]
    assert "inexact" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--n-best", "2"], "--n-best"),
        (["--with-originals"], "training.max_steps"),
        (["--mono", "absent.aa"], "absent.aa"),
        (["--mono", "empty.aa"], "empty.aa"),
        (["--config", "sample.yaml"], "--config"),
        (["--test-src", "mono.aa"], "--test-ref"),
        (["--test-src", "held.aa", "--test-ref", "absent.bb"], "absent.bb"),
        (["--student", "huge"], "huge"),
    ],
)
def test_bad_options_of_distillation_are_refused(folder: Path, nmt: Command, options: list[str], expected: str) -> None:
    Path("empty.aa").touch()
    given = few(folder, folder / "run")
    if options[0] in given:
        at = given.index(options[0])
        del given[at : at + 2]
    result = nmt(*given, *options)
    assert result.status == 2 and expected in result.err
    assert not Path("out").exists()
