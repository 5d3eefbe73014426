"""The four commands on a toy language: every word has one translation and the order stays."""

import io
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

from command import Command, Result
from places import ROOT

WORDS = {
    "aba": "moto", "ibi": "luku", "ubu": "siso", "ede": "pipu", "odo": "kalo",
    "aga": "tari", "igi": "nupo", "ugu": "vemi", "eke": "rosa", "oko": "hiku",
}  # fmt: skip

CONFIG = """\
data:
  direction: de-en
  dir: prepared
  train:
    - files: {de: train.de, en: train.en}
  valid:
    files: {de: dev.de, en: dev.en}
  test:
    toy:
      files: {de: test.de, en: test.en}
tokenizer: {vocab_size: 400}
model:
  {d_model: 32, n_heads: 2, d_ff: 64, encoder_layers: 1, decoder_layers: 1, positions: sinusoidal,
   embedding_dropout: 0.0, residual_dropout: 0.0}
training:
  {device: cpu, precision: float32, update_tokens: 512, label_smoothing: 0.0, schedule: inverse_sqrt, peak_lr: 1e-2,
   warmup_steps: 40, max_steps: 120, log_every_steps: 30, validate_every_steps: 60, save_every_steps: 30}
search: {beam: 3}
"""
RUN = Path("runs/de-en")

pytestmark = pytest.mark.usefixtures("toy")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, nmt: Command) -> Path:
    """A folder in which `prepare` and `train` have run, with 600 training, 20 development and 20 test pairs, none of
    them twice."""
    folder = tmp_path_factory.mktemp("toy")
    chance = random.Random(1)
    sources: dict[str, None] = {}
    while len(sources) < 640:
        sources[" ".join(chance.choices(list(WORDS), k=chance.randint(2, 4)))] = None
    lines = list(sources)
    for name, chosen in (("dev", lines[:20]), ("test", lines[20:40]), ("train", lines[40:])):
        targets = [" ".join(WORDS[word] for word in line.split()) for line in chosen]
        (folder / f"{name}.de").write_text("".join(f"{line}\n" for line in chosen))
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in targets))

    (folder / "toy.yaml").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done(nmt("prepare", "--config", "toy.yaml"))
        done(nmt("train", "--config", "toy.yaml"))
    return folder


def done(result: Result) -> Result:
    assert result.status == 0, result.err
    return result


@pytest.fixture
def toy(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder to do anything to, as the working directory."""
    folder = tmp_path / "copy"
    shutil.copytree(trained, folder)
    monkeypatch.chdir(folder)
    return folder


def records(run: Path, kind: str) -> list[dict[str, float]]:
    found = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [record for record in found if record["kind"] == kind]


def test_training_reduces_loss_and_reaches_high_scores(nmt: Command) -> None:
    losses = [record["loss"] for record in records(RUN, "train")]
    assert losses[-1] < 0.5 * losses[0]
    report = json.loads(done(nmt("evaluate", "--run", RUN, "--format=json")).out)
    bleu, chrf, ter = (score["value"] for score in report["scores"])
    assert bleu > 50 and chrf > 60 and ter < 50


def test_translate_output_equals_translations_of_evaluate(nmt: Command) -> None:
    done(nmt("translate", "--run", RUN, "--input", "test.de", "--output", "hyp.en"))
    hyps = Path("hyp.en").read_text().splitlines()
    refs = Path("test.en").read_text().splitlines()
    whole = done(nmt("evaluate", "--run", RUN, "--split", "toy", "--output", "again.en", "--format=json"))
    of_files = done(nmt("evaluate", "--hyp", "hyp.en", "--ref", "test.en", "--format=json"))
    assert Path("again.en").read_text() == Path("hyp.en").read_text()
    report = json.loads(whole.out)
    assert report["scores"] == json.loads(of_files.out)["scores"]
    text = done(
        nmt("evaluate", "--run", RUN, "--src", "test.de", "--ref", "test.en", "--ref", "test.en", "--format=json")
    ).out
    assert [score["value"] for score in json.loads(text)["scores"]] == [score["value"] for score in report["scores"]]
    bleu = sacrebleu.corpus_bleu(hyps, [refs]).score
    assert {score["metric"]: score["value"] for score in report["scores"]}["bleu"] == pytest.approx(bleu)
    assert (report["run"], report["split"], report["lines"], len(hyps)) == (str(RUN), "toy", 20, 20)
    twin = shutil.copytree(RUN, "twin")  # of two equal models the mean is that of one
    both = json.loads(done(nmt("evaluate", "--run", RUN, "--run", twin, "--split", "toy", "--format=json")).out)
    member = {name: report[name] for name in ("run", "step", "weights")}
    assert both["ensemble"] == [member, {**member, "run": "twin"}]
    assert (both["run"], both["scores"]) == (None, report["scores"])


def test_evaluate_records_nothing_if_comet_fails(nmt: Command) -> None:
    """If COMET fails, the translations are kept all the same."""
    script, arguments = (
        ROOT / "tests" / "helpers" / "comet_stand_in.py",
        ("--run", RUN, "--split", "toy", "--format=json"),
    )
    of_comet = "--output", "hyp.en", "--comet", "Unbabel/wmt22-comet-da", "--comet-command"
    failed = nmt("evaluate", *arguments, *of_comet, f"{sys.executable} {script} fails")
    assert (failed.status, failed.out, "KeyError" in failed.err) == (2, "", True)
    assert len(Path("hyp.en").read_text().splitlines()) == 20 and not (RUN / "scores.jsonl").exists()
    report = json.loads(done(nmt("evaluate", *arguments, *of_comet, f"{sys.executable} {script} well")).out)
    (record,) = (json.loads(line) for line in (RUN / "scores.jsonl").read_text().splitlines())
    assert report["scores"] == record["scores"]
    assert report["scores"][3]["metric"] == "wmt22-comet-da" and report["scores"][3]["value"] > 0.5
    assert re.search(r"wmt22-comet-da +precision", done(nmt("evaluate", "--run", RUN, "--history")).out)


def test_evaluate_rejects_unknown_tokenizer_before_translating(nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.translate.loading.Translator.translate_lines", None)
    result = nmt("evaluate", "--run", RUN, "--tokenize", "moses")
    assert (result.status, result.err) == (2, "nmt: tokenize: 'moses' is not one of 13a, intl, zh, char, none\n")


def test_run_directory_is_self_contained(
    toy: Path, nmt: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tmp_path / "elsewhere" / "my run"
    moved.parent.mkdir()
    RUN.rename(moved)
    expected = " ".join(WORDS[word] for word in ("aba", "oko"))
    monkeypatch.chdir(moved.parent)
    shutil.rmtree(toy)
    text = "aba oko\n\n \t\naba oko\r\naba\x00oko\n\ufeffaba oko\naba oko"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    lines = done(nmt("translate", "--run", moved)).out.split("\n")
    assert [*lines[:4], *lines[6:]] == [expected, "", "", expected, expected, ""]


def test_resume_continues_training(nmt: Command) -> None:
    finished = done(nmt("train", "--resume")).err
    assert "using runs/de-en, the newest run" in finished and "finished at step 120" in finished
    done(nmt("train", "--resume", "--config", "toy.yaml", "--set", "training.max_steps=130"))
    assert (RUN / "checkpoints/step-00000130").is_dir() and records(RUN, "valid")[-1]["step"] == 130
    assert "max_steps: 130" in (RUN / "config.yaml").read_text()


def test_resume_finds_data_directory_of_run(nmt: Command) -> None:
    Path("prepared").rename("kept")
    info = json.loads((RUN / "run.json").read_text())
    (RUN / "run.json").write_text(json.dumps(info | {"data_dir": str(Path("kept").resolve())}))
    done(nmt("train", "--resume", "--set", "training.max_steps=121"))
    (RUN / "run.json").write_text(json.dumps(info | {"data_dir": "gone"}))
    lost = nmt("train", "--resume", "--set", "training.max_steps=122")
    assert (lost.status, lost.err.splitlines()[-1]) == (
        2,
        "nmt: gone: the data directory of runs/de-en does not exist; give its new path with --data",
    )
    done(nmt("train", "--resume", "--data", "kept", "--set", "training.max_steps=122"))


def test_data_of_another_pair_or_tokenizer_is_rejected(toy: Path, nmt: Command) -> None:
    for name in ("train", "dev", "test"):
        shutil.copy(f"{name}.en", f"{name}.fr")
    (toy / "other.yaml").write_text(CONFIG.replace("{de: ", "{fr: ").replace(".de,", ".fr,").replace("de-en", "en-fr"))
    Path("train.fr").write_text(Path("train.de").read_text())
    done(nmt("prepare", "--config", "other.yaml", "--data", "other"))
    done(nmt("prepare", "--config", "toy.yaml", "--set", "tokenizer.vocab_size=330", "--data", "smaller"))
    cases = {
        ("train", "--config", "toy.yaml", "--run", "new", "--data", "other"):
            "other: contains en-fr, but the config needs de-en",
        ("evaluate", "--run", RUN, "--data", "other"):
            "other: contains en-fr, not de-en; nmt evaluate (and calibrate, challenge, robustness) also takes a text "
            "with --src and --ref",
        ("evaluate", "--run", RUN, "--data", "smaller"): f"smaller: its tokenizer differs from that of {RUN}; "
            f"nmt prepare --tokenizer-from {RUN} reuses it",
        ("train", "--resume", "--run", RUN, "--data", "smaller", "--set", "training.max_steps=130"):
            f"smaller: its tokenizer is not the one that {RUN} was trained with",
    }  # fmt: skip
    for arguments, message in cases.items():
        result = nmt(*arguments)
        assert (result.status, result.err) == (2, f"nmt: {message}\n")
    assert not Path("new").exists()


def test_new_test_set_is_evaluated_with_old_run(nmt: Command) -> None:
    changes = ["--set", "data.test.more={files: {de: dev.de, en: dev.en}}", "--tokenizer-from", RUN]
    done(nmt("prepare", "--config", "toy.yaml", "--data", "wider", *changes))
    done(nmt("evaluate", "--run", RUN, "--data", "wider", "--split", "more"))
    both = done(nmt("evaluate", "--run", RUN, "--data", "wider", "--samples", "1", "--output", "all"))
    assert both.err.count("wider is not the data that runs/de-en was trained on") == 1, "it is opened once"
    assert [line for line in both.out.splitlines() if line.startswith(("split", "line "))][:4] == [
        "split toy", "line 1", "split more", "line 1",
    ]  # fmt: skip
    rows = [line.split() for line in both.out.splitlines()[-6:-3]]
    assert [row[2:4] for row in rows[1:]] == [["toy", "20"], ["more", "20"]]
    assert {path.name: path.read_text().count("\n") for path in Path("all").iterdir()} == {"more.en": 20, "toy.en": 20}
    reports = json.loads(done(nmt("evaluate", "--run", RUN, "--data", "wider", "--split", "all", "--format=json")).out)
    assert [report["split"] for report in reports] == ["toy", "more"]
    assert rows[2][6:9] == [f"{score['value']:.2f}" for score in reports[1]["scores"]]
    recorded = [json.loads(line) for line in (RUN / "scores.jsonl").read_text().splitlines()]
    assert [record["split"] for record in recorded] == ["more", "toy", "more", "toy", "more"]
    assert recorded[-1]["data"] == str(Path("wider").resolve())
    assert [recorded[-1][key] for key in ("scores", "step")] == [reports[1][key] for key in ("scores", "step")]
    history = done(nmt("evaluate", "--run", RUN, "--history", "--split", "toy", "--format=json"))
    assert [record["text"] for record in json.loads(history.out)] == [recorded[1]["text"]] * 2
    assert rows[1][6] in done(nmt("evaluate", "--history")).out
    latex = done(nmt("evaluate", "--run", RUN, "--data", "wider", "--split", "all", "--format", "latex")).out
    assert f"split toy & 20 & {rows[1][6]} & {rows[1][7]} & {rows[1][8]} \\\\" in latex.splitlines()
    assert f"more {float(rows[2][6]):.1f}" in done(nmt("runs")).out, "it was measured last"


def test_closed_output_pipe_ends_quietly() -> None:
    script = Path(sys.executable).with_name("nmt")
    Path("long.de").write_text("aba oko\n" * 20_000)
    command = [script, "translate", "--run", RUN, "--input", "long.de", "--beam", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr and process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_interactive_translates_lines_as_translate_does(nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Path("test.de").read_text().splitlines()[0]
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{line}\n:run nowhere\n:run {RUN}\n{line}\n"))
    result = done(nmt("translate", "--interactive", "--run", RUN))
    translated = done(nmt("translate", "--run", RUN, "--input", "test.de")).out.splitlines()[0]
    rows = [row for row in result.out.splitlines() if not row.startswith(" ")]
    assert rows == [translated, translated] and "nowhere: no such directory" in result.err


def test_demo_runs_all_stages_and_shows_their_commands(nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.cli.demo.CONFIG", "toy.yaml")
    before = (RUN / "log.jsonl").read_bytes()
    terminal = io.StringIO("aba ibi\n:quit\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    result = done(nmt("demo", "--run", RUN))
    commands = [row.split()[2] for row in result.out.splitlines() if row.startswith("$ ")]
    assert commands == ["prepare", "train", "evaluate", "translate"]
    assert "BLEU" in result.out and result.out.count("probability per piece") == 1
    assert result.out.index("600 German words") < result.out.index("$ nmt translate")
    assert (RUN / "log.jsonl").read_bytes() == before  # a finished run is not trained again


def test_demo_without_a_terminal_has_no_prompt(nmt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.cli.demo.CONFIG", "toy.yaml")
    monkeypatch.setattr("sys.stdin", io.StringIO("aba ibi\n"))
    result = done(nmt("demo", "--run", RUN))
    assert re.findall(r"^\$ nmt (\w+)", result.out, re.M)[-1] == "evaluate" and "600 German words" not in result.out


def test_demo_starts_a_new_run_and_ends_with_the_status_of_a_failed_stage(
    nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.cli.demo.CONFIG", "toy.yaml")
    Path("new").write_text("in the way")
    result = nmt("demo", "--run", "new")
    assert result.status == 2 and re.findall(r"^\$ nmt (.*)", result.out, re.M)[-1].startswith(
        "train --config toy.yaml --run new"
    )
