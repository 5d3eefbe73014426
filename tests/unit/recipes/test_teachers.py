"""Tests of recipes and of `nmt translate` with a language model, against a scripted server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from chat_server import ChatServer, serve_at_once
from command import Command
from nmt import Translator
from nmt.config.load import dump_config, load_config
from nmt.layout import RunDir
from nmt.model.weights import weights_fingerprint
from nmt.recipes import directory as commands
from nmt.runs.model import open_saved
from recipe_folder import dropped, lines_of


def swapped(line: str) -> str:
    """Return a translation of a line that no check rejects."""
    return " ".join(f"{word}x" for word in line.split())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with serve_at_once(swapped, monkeypatch) as server:
        yield server


def chat(server: ChatServer, *more: object) -> list[object]:
    return ["--teacher-url", server.url, "--teacher-model", "m", *more]


@pytest.fixture
def config(folder: Path) -> Path:
    """Return the config of the text, whose data directory is prepared."""
    text = load_config(folder / "run" / "config.yaml")
    data = text.data.model_copy(update={"dir": str(folder / "data")})
    Path("mine.yaml").write_text(dump_config(text.model_copy(update={"data": data})), encoding="utf-8")
    return Path("mine.yaml")


def test_student_learns_from_language_model(folder: Path, server: ChatServer, config: Path, nmt: Command) -> None:
    lines = lines_of(folder / "data" / "train.aa")
    server.special = {lines[0]: ["", ""]}
    again = ["distil", *chat(server, "--terms", "any use"), "--config", config, "--output", "out"]
    done = nmt(*again)
    assert done.status == 0, done.err
    n_blank = lines.count(lines[0])
    assert lines_of(Path("out/distilled.bb")) == ["" if line == lines[0] else swapped(line) for line in lines]
    counts = json.loads(Path("out/report.json").read_text(encoding="utf-8"))
    assert (counts["translations"], counts["left out: empty side"]) == (len(lines) - n_blank, n_blank)
    assert server.asked.total() == len({*lines}) + 1
    assert Path("out/rejected.tsv").read_text(encoding="utf-8") == f"empty side\t{lines[0]}\t\n" * n_blank

    [source] = load_config("out/config.yaml").data.train
    teacher = source.teacher
    assert (teacher.model, teacher.host, teacher.terms) == ("dictionary-1", "127.0.0.1", "any use")
    assert (teacher.lines, teacher.temperature) == (len(lines) - n_blank, 0.0) and "{text}" in teacher.prompt
    before = Path("out/config.yaml").read_bytes()
    assert nmt(*again).status == 0 and Path("out/config.yaml").read_bytes() == before
    assert server.asked.total() == len({*lines}) + 1
    assert nmt(*again, "--prompt", "absent").status == 2
    done = nmt(*again, "--candidates", "2")
    assert done.status == 2 and "candidates was 1, is 2" in done.err
    assert nmt("prepare", "--config", "out/config.yaml").status == 0
    assert dropped(Path("out/prepared"))["empty"] == n_blank
    manifest = json.loads(Path("out/prepared/manifest.json").read_text(encoding="utf-8"))
    assert manifest["config"]["data"]["train"][0]["teacher"]["terms"] == "any use"


def test_originals_are_learned_before_translations(server: ChatServer, config: Path, nmt: Command) -> None:
    Path("mono.aa").write_text("ba bo\nbi bu\n\n", encoding="utf-8")
    again = ["distil", *chat(server, "--terms", "any"), "--config", config, "--mono", "mono.aa", "--with-originals"]
    done = nmt(*again, "--output", "out", "--set", "training.max_steps=40")
    assert done.status == 0, done.err
    following = load_config("out/config.yaml")
    originals, distilled = following.data.train
    assert distilled.files["bb"] == "out/distilled.bb" and distilled.teacher is not None and originals.teacher is None
    first, second = following.training.stages
    assert first.steps == 20
    assert first.weights == {originals.label: 1.0} and second.weights == {"distilled": 1.0}
    assert following.data.valid.files["aa"].endswith("dev.aa") and following.data.test
    done = nmt(*again, "--output", "other", "--student", "tiny")
    assert done.status == 2 and "max_steps" in done.err
    lengths = ["--set", "training.max_minutes=null", "--set", "training.max_steps=10"]
    assert nmt(*again, "--output", "other", "--student", "tiny", *lengths).status == 0
    assert load_config("other/config.yaml").training.stages[0].steps == 5
    stages = "training.stages=[{weights: {distilled: 1}}]"
    assert nmt(*again, "--output", "third", "--student", "tiny", "--set", stages).status == 0


def test_dry_run_shows_cost_and_writes_nothing(server: ChatServer, config: Path, nmt: Command) -> None:
    Path("mono.aa").write_text("ba bo\n\nba bo\nbi bu\nbe be\nbu bu bu\n", encoding="utf-8")
    command = ["distil", *chat(server, "--price", "1,2"), "--config", config, "--mono", "mono.aa", "--output", "out"]
    done = nmt(*command, "--dry-run")
    assert done.status == 0, done.err
    rows = {name: int(n) for n, name in (line.split(maxsplit=1) for line in done.out.splitlines()[:3])}
    assert rows == {"lines to translate": 4, "not translated: blank line": 1, "repeated": 1}
    assert "cost 0.0" in done.out and server.asked.total() == 3 and done.out.count("x bux\n") <= 1
    assert not Path("out").exists()


def test_back_translation_by_language_model(server: ChatServer, config: Path, nmt: Command) -> None:
    Path("mono.bb").write_text("ba bo\nbi bu\n\n", encoding="utf-8")
    options = chat(server, "--terms", "any", "--lines-per-request", "2")
    done = nmt("back-translate", *options, "--mono", "mono.bb", "--config", config, "--output", "out")
    assert done.status == 0, done.err
    assert lines_of(Path("out/synthetic.aa")) == ["bax box", "bix bux", ""]
    *others, synthetic = load_config("out/config.yaml").data.train
    assert synthetic.teacher.lines == 2 and synthetic.to == "bb" and all(source.teacher is None for source in others)
    assert "prepare --config out/config.yaml\n" in done.out


def test_file_is_translated_by_language_model(server: ChatServer, nmt: Command) -> None:
    Path("a.de").write_text("Der Hund.\n\nDie Katze schläft laut.\nDer Hund.\n", encoding="utf-8")
    server.special = {"Die Katze schläft laut.": ["a\nb\nc"]}
    options = ["translate", *chat(server), "--from", "de", "--to", "en"]
    done = nmt(*options, "--input", "a.de", "--output", "a.en")
    assert done.status == 0, done.err
    assert lines_of(Path("a.en")) == ["Derx Hund.x", "", "", "Derx Hund.x"]
    assert "1 line blank: left out: several lines" in done.err
    assert Path("a.en.rejected.tsv").read_text(encoding="utf-8").startswith("several lines\tDie Katze")
    assert sorted(path.name for path in Path().iterdir()) == ["a.de", "a.en", "a.en.rejected.tsv"]
    done = nmt(*options, "a.de")
    assert done.status == 2 and "a.en: exists" in done.err
    Path("b.de").write_text("Ein Haus.\n", encoding="utf-8")
    assert nmt(*options, "b.de").status == 0 and lines_of(Path("b.en")) == ["Einx Haus.x"]
    done = nmt(*options, "Ein Haus.")
    assert (done.status, done.out) == (0, "Einx Haus.x\n")
    Path("c.de").write_text("".join(f"Haus {i}.\n" for i in range(9)), encoding="utf-8")
    done = nmt(*options, "--max-tokens", "1", "--parallel", "1", "--input", "c.de", "--output", "-")
    assert done.status == 75 and "answers are not kept" in done.err and not list(Path().glob("*.work"))


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["translate"], "--from"),
        (["translate", "--from", "de", "--to", "en", "--checkpoint", "last"], "--checkpoint"),
        (["translate", "--from", "de", "--to", "en", "--beam", "2"], "--beam"),
        (["translate", "--from", "de", "--to", "xx-y"], "xx"),
        (["translate", "--from", "de", "--to", "en", "--max-cost", "1"], "--price"),
        (["translate", "--from", "de", "--to", "en", "--input", "a.docx"], "--as-text"),
        (["distil", "--output", "out", "--config", "mine.yaml"], "--terms"),
        (["distil", "--output", "out", "--config", "mine.yaml", "--terms", "a", "--teacher", "x"], "--teacher"),
        (["distil", "--output", "out", "--config", "mine.yaml", "--terms", "a", "--n-best", "2"], "--n-best"),
        (["distil", "--output", "out", "--terms", "a"], "--config"),
        (["distil", "--output", "out", "--terms", "a", "--student", "tiny"], "--mono"),
        (["back-translate", "--output", "out", "--mono", "mine.yaml", "--terms", "a"], "--config"),
    ],
)
def test_options_that_do_not_fit_are_refused(server: ChatServer, nmt: Command, words: list[str], message: str) -> None:
    done = nmt(*words, *chat(server))
    assert done.status == 2 and message in done.err and done.err.count("\n") == 1
    assert not Path("out").exists() and not server.bodies


@pytest.mark.parametrize("words", [["distil", "--output", "out"], ["back-translate", "--output", "out", "--mono", "x"]])
def test_teacher_is_needed(words: list[str], nmt: Command) -> None:
    done = nmt(*words)
    assert done.status == 2 and "--teacher-url" in done.err
    assert nmt(*words, "--candidates", "2").status == 2


def test_run_behind_protocol_teaches_as_run_does(
    folder: Path, server: ChatServer, config: Path, nmt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without checks, the students are equal, too."""
    translator = Translator.load(folder / "run")

    def translate(line: str) -> str:
        [[best, *_]] = translator.translate_lines([line])
        return best.text if best.finished else ""

    server.translate = translate
    monkeypatch.setattr(commands, "wait_for", lambda command: nmt(*command[3:]).status)
    lines = lines_of(folder / "text" / "train.aa")[:60]
    Path("mono.aa").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    changes = {
        "tokenizer.vocab_size": 310, "model.d_model": 32, "model.d_ff": 32, "model.n_heads": 2,
        "model.encoder_layers": 1, "training.max_steps": 2, "training.device": "cpu", "training.precision": "float32",
        "search.max_length_ratio": 0, "search.max_length_offset": 6, "data.valid": 2,
    }  # fmt: skip
    sets = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    common = ["distil", "--student", "tiny", "--mono", "mono.aa", "--train", *sets]
    by_run = nmt(*common, "--teacher", folder / "run", "--output", "run", "--set", "training.run_dir=a")
    assert by_run.status == 0, by_run.err
    options = chat(server, "--terms", "any", "--config", config)
    by_chat = nmt(*common, *options, "--unchecked", "--output", "chat", "--set", "training.run_dir=b")
    assert by_chat.status == 0, by_chat.err
    assert "compared with teacher" in by_chat.out and "\nstudent " in by_chat.out
    assert nmt("export", "--run", "b", "--output", "exported").status == 0
    card = Path("exported/README.md").read_text(encoding="utf-8")
    assert "lines translated by dictionary-1 at 127.0.0.1" in card and "terms of the provider: any\n" in card
    assert lines_of(Path("chat/distilled.bb")) == lines_of(Path("run/distilled.bb"))
    students = [open_saved(RunDir(Path(name)).path).weights.tensors for name in ("a", "b")]
    assert weights_fingerprint(students[0]) == weights_fingerprint(students[1])

    assert nmt(*common[:5], *options, "--output", "checked").status == 0
    kept = zip(lines_of(Path("checked/distilled.bb")), lines_of(Path("run/distilled.bb")), strict=True)
    assert all(translation in ("", expected) for translation, expected in kept)


def test_run_chooses_candidate_and_prompt_has_terms_and_examples(
    folder: Path, server: ChatServer, config: Path, nmt: Command
) -> None:
    line = lines_of(folder / "text" / "train.aa")[0]
    answers = [line[::-1], swapped(line), swapped(line)]  # the right one is not the most frequent
    server.special = {line: [*answers]}
    Path("mono.aa").write_text(f"{line}\n", encoding="utf-8")
    first, *_ = line.split()
    Path("terms.tsv").write_text(f"{first}\tTERM\n", encoding="utf-8")
    Path("memory.tsv").write_text(f"aa\tbb\n{line} ba\tEXAMPLE\n", encoding="utf-8")
    options = chat(server, "--terms", "any", "--candidates", 3, "--parallel", 1, "--scorer", folder / "run")
    texts = ["--glossary", "terms.tsv", "--tm", "memory.tsv", "--mono", "mono.aa"]
    done = nmt("distil", *options, *texts, "--config", config, "--output", "out")
    assert done.status == 0, done.err
    scored = Translator.load(folder / "run").score([(line, answer) for answer in answers])
    scores = dict(zip(answers, [pair.score for pair in scored], strict=True))
    assert lines_of(Path("out/distilled.bb")) == [max(answers, key=scores.__getitem__)]
    prompt = server.bodies[0]["messages"][0]["content"]
    assert f"{first} = TERM" in prompt and "ba = EXAMPLE" in prompt
    assert nmt("distil", *options[:-1], "absent", "--config", config, *texts, "--output", "new").status == 2
