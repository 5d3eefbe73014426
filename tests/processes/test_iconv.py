"""The commands that are proposed for text in another encoding convert it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from encoded import USUAL, refused
from nmt.text.lines import read_lines


@pytest.mark.skipif(shutil.which("iconv") is None, reason="needs iconv")
@pytest.mark.parametrize(("language", "text", "encoding", "names"), USUAL)
def test_the_command_for_an_encoding_works(tmp_path: Path, language: str, text: str, encoding: str, names: str) -> None:
    path, message = refused(tmp_path, language, text, encoding)
    command = message.partition(", which may be wrong: ")[2]
    assert command.startswith(f"iconv -f {names.split()[0]} ")
    subprocess.run(command, shell=True, check=True)
    assert list(read_lines(Path(f"{path}.utf8"))) == ["plain", text]
