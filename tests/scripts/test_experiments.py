"""The scripts of scripts/experiments."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from nmt.cli import app
from nmt.config import Config
from nmt.config.load import load_config
from places import GOLDEN, SCRIPTS

EXPERIMENTS = SCRIPTS / "experiments"
FAKE = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> commands
last=
for word; do [ "$last" = --run ] && mkdir -p "$word" && touch "$word/run.json"; last=$word; done
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trainings(*arguments: str, script: str = "multi30k.sh") -> tuple[int, str, list[list[str]]]:
    """Status, messages and the words of each `nmt train` that a script calls, of a `nmt` that does nothing."""
    Path("bin").mkdir(exist_ok=True)
    Path("bin/nmt").write_text(FAKE, encoding="utf-8")
    Path("bin/nmt").chmod(0o755)
    Path("commands").write_text("", encoding="utf-8")
    done = subprocess.run(
        [EXPERIMENTS / script, *arguments],
        env=os.environ | {"PATH": f"{Path('bin').resolve()}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    calls = [line.split() for line in Path("commands").read_text(encoding="utf-8").splitlines()]
    return done.returncode, done.stderr, [words for words in calls if words[0] == "train"]


def config_of(words: list[str]) -> Config:
    """The settings of a command, which are read as the command line does."""
    context = get_command(app).commands["train"].make_context("train", words[1:])  # type: ignore[attr-defined]
    return load_config(str(context.params["config"]), context.params["overrides"])


def test_arms_differ_in_what_their_names_say_and_go_on_with_the_same_settings() -> None:
    status, said, (plain, simcut, *brief) = trainings(
        "some/folder", "7", "plain", "simcut", "brief", "brief-post", "brief-bpe", "brief-4k"
    )
    assert (status, said) == (0, "")
    settings, of_plain = config_of(simcut), config_of(plain)
    assert (settings.data.root, settings.training.seed) == ("some/folder", 7)
    assert (settings.training.consistency, of_plain.training.consistency) == ("simcut", "none")
    of_brief, of_post, of_bpe, of_4k = map(config_of, brief)
    assert (of_brief.model.norm, of_post.model.norm) == ("pre", "post")
    assert of_brief.training == of_post.training and of_brief.data == of_post.data
    assert (of_brief.training.tgt_bpe_dropout, of_bpe.training.tgt_bpe_dropout) == (0, 0.1)
    assert (of_brief.tokenizer.vocab_size, of_4k.tokenizer.vocab_size) == (8000, 4000)
    assert of_brief.model == of_bpe.model == of_4k.model
    _, _, again = trainings("some/folder", "7", "simcut")
    assert again == [["train", "--resume", *simcut[1:]]]
    _, _, other = trainings("some/folder", "8", "simcut")
    assert other[0][-1] == "runs/multi30k/simcut-8" and "--resume" not in other[0]


def test_the_arm_span_is_mono_with_another_noise() -> None:
    for split in ("train", "val", "test_2016_flickr"):
        for language in ("de", "en"):
            Path(f"{split}.{language}").write_text("a\n", encoding="utf-8")
    status, said, calls = trainings(".", "3", "mono", "span", script="pretraining.sh")
    assert (status, said) == (0, "")
    noise_of_mono, mono, noise_of_span, span = map(config_of, calls)
    assert noise_of_mono.training.objective == "denoising" and noise_of_mono.training.noise == "infilling"
    changed = noise_of_mono.training.model_copy(update={"noise": "span"})
    assert noise_of_span == noise_of_mono.model_copy(update={"training": changed}) and span == mono
    starts = [words[words.index("--init-from") + 1] for words in calls if "--init-from" in words]
    assert starts == [calls[0][calls[0].index("--run") + 1], calls[2][calls[2].index("--run") + 1]]
    assert starts[0] != starts[1] and calls[0][calls[0].index("--data") + 1] == calls[2][calls[2].index("--data") + 1]


def test_an_arm_that_is_none_is_found_at_once() -> None:
    status, said, calls = trainings("some/folder", "1", "plain", "simcat")
    assert (status, calls) == (2, []) and said.endswith("no such arm: simcat\n")


@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        ("experiments/multi30k.sh", ["some/folder", "1"], "FOLDER, SEED and ARM are needed"),
        ("experiments/pretraining.sh", ["some/folder", "1"], "FOLDER, SEED and ARM are needed"),
        ("experiments/fairseq.sh", ["ted", "some/folder"], "TASK, FOLDER and MINUTES are needed"),
        ("experiments/table.py", [], "arguments are required: run"),
    ],
)
def test_what_lacks_is_named(script: str, words: list[str], said: str) -> None:
    command = [sys.executable] if script.endswith(".py") else []
    done = subprocess.run(
        [*command, str(EXPERIMENTS.parent / script), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and said in done.stderr.splitlines()[-1]


def test_runs_that_have_just_begun_are_in_the_table() -> None:
    shutil.copytree(GOLDEN / "run", "a-1")
    Path("a-1/log.jsonl").write_text(json.dumps({"kind": "ema", "step": 400, "minutes": 1.0, "bleu": 20.0}) + "\n")
    Path("a-2").mkdir()
    for name in ("run.json", "config.yaml"):
        shutil.copy(GOLDEN / "run" / name, "a-2")
    table = [sys.executable, str(EXPERIMENTS / "table.py"), "a-1", "a-2"]
    done = subprocess.run(table, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| a-")]
    assert rows == [["| a-1", "400", "1", "-", "20.00", "-", "raw |"], ["| a-2", "0", *"----", "broken |"]]
    assert done.stdout.endswith("| a | 1 | - | 20.00 | - |\n"), "means are of what is finished"


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_configs_are_valid(path: Path) -> None:
    assert load_config(str(path)).data.direction == "de-en"
