"""The scripts of scripts/experiments."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from nmt.cli import app
from nmt.config import Config
from nmt.config.load import load_config
from places import SCRIPTS

EXPERIMENTS = SCRIPTS / "experiments"
FAKE = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> commands
last=
for word; do [ "$last" = --run ] && mkdir -p "$word" && touch "$word/run.json"; last=$word; done
"""


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
    """Return the settings of a command, parsed as by the command line."""
    commands: Any = get_command(app)
    context = commands.commands["train"].make_context("train", words[1:], **commands.context_settings)
    return load_config(str(context.params["config"]), context.params["overrides"])


def test_arms_differ_in_settings_and_resume() -> None:
    status, said, (plain, simcut, *brief) = trainings(
        "some/folder", "7", "plain", "simcut", "brief", "brief-post", "brief-bpe"
    )
    assert (status, said) == (0, "")
    settings, of_plain = config_of(simcut), config_of(plain)
    assert (settings.data.root, settings.training.seed) == ("some/folder", 7)
    assert (settings.training.consistency, of_plain.training.consistency) == ("simcut", "none")
    of_brief, of_post, of_bpe = map(config_of, brief)
    assert (of_brief.model.norm, of_post.model.norm) == ("pre", "post") and of_brief.training == of_post.training
    assert (of_brief.training.bpe_dropout, of_bpe.training.bpe_dropout) == (0, 0.1)
    _, _, again = trainings("some/folder", "7", "simcut")
    assert again == [["train", "--resume", *simcut[1:]]]
    _, _, other = trainings("some/folder", "8", "simcut")
    assert other[0][-1] == "runs/multi30k/simcut-8" and "--resume" not in other[0]


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_configs_are_valid(path: Path) -> None:
    assert {"de", "en"} <= {*load_config(str(path)).data.all_languages}
