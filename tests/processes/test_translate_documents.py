"""A folder of documents whose translation is killed and started again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from command import Command
from nmt.text.tokenizer import Tokenizer
from nmt.translate import documents
from nmt.translate.loading import Translator
from nmt.translate.types import Line
from tiny_run import PLAIN, write_run

KILLED = """
import os, signal, sys
from nmt.cli import main
from nmt.runs import model
from nmt.translate import documents
from nmt.translate.loading import Translator

def translate(self, lines, *arguments, **options):
    if "STOP" in lines[0].text:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, lines, *arguments, **options)

model.pick_float32_library = lambda *_: "mkl"  # as in the tests' own process
documents.TEXTS, real, Translator.translate_window = 1, Translator.translate_window, translate
main(sys.argv[1:])
"""


def test_killed_translation_of_folder_is_continued(
    tokenizer: Tokenizer, translator: Translator, nmt: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "run", translator.config, tokenizer, translator.searcher.models[0])
    texts = {"a.txt": PLAIN[:2], "b.txt": [PLAIN[2], f"STOP {PLAIN[3]}"], "c.txt": PLAIN[4:5]}
    (tmp_path / "letters").mkdir()
    for name, lines in texts.items():
        (tmp_path / "letters" / name).write_text("\n".join(lines), encoding="utf-8")
    command = ["translate", "--run", str(run), "--input", str(tmp_path / "letters"), "--output-dir"]
    killed = subprocess.run([sys.executable, "-c", KILLED, *command, tmp_path / "out"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path.name for path in (tmp_path / "out").glob("*.txt")] == ["a.txt"]
    seen, real = list[str](), Translator.translate_window

    def translate(self: Translator, lines: Sequence[Line], *arguments: Any, **options: Any) -> Iterator[Any]:
        seen.extend(line.text for line in lines)
        return real(self, lines, *arguments, **options)

    monkeypatch.setattr(documents, "TEXTS", 1)
    monkeypatch.setattr(Translator, "translate_window", translate)
    assert nmt(*command, tmp_path / "out").status == 0
    assert seen == [texts["b.txt"][1], *texts["c.txt"]]
    monkeypatch.undo()
    assert nmt(*command, tmp_path / "whole").status == 0
    folders = [[*(tmp_path / name).rglob("*.*")] for name in ("out", "whole")]
    outputs = [{path.name: path.read_bytes() for path in paths if path.is_file()} for paths in folders]
    assert outputs[0] == outputs[1] and outputs[0].keys() == {*texts, *(f"{name}.json" for name in texts)}
