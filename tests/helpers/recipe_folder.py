"""A run, the data directory it translates and its text, for the recipes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from nmt.config.load import dump_config
from nmt.layout import DataDir
from nmt.prepare.prepare import prepare
from nmt.recipes import directory
from places import GOLDEN
from tiny_corpus import tiny_settings, tiny_text

if TYPE_CHECKING:
    from nmt.translate.loading import Translator


def make_folder(path: Path) -> Path:
    """`text`, `data` prepared from it, and `run`, the golden run, which has learned to translate such text a little."""
    tiny_text(path / "text", n_train=40)
    prepare(tiny_settings(path / "text"), path / "data", GOLDEN / "run", echo=lambda _: None)
    shutil.copytree(GOLDEN / "run", path / "run")
    for name in ("config.yaml", "run.json"):
        file = path / "run" / name
        file.write_text(file.read_text(encoding="utf-8").replace("somewhere", str(path)), encoding="utf-8")
    return path


def make_split(path: Path, tokenizer_from: Path) -> Path:
    """`split`, a data directory with a development set and the test set `own` split off its text, most of whose lines
    are a side of several pairs, and `run`, the golden run as if it had been trained on it with --data."""
    tiny_text(path / "text", n_train=30)
    sides = {language: lines_of(path / "text" / f"train.{language}") for language in ("aa", "bb")}
    for language, more in (("aa", ("", " ba")), ("bb", (" ab", ""))):
        lines = [line + end for end in ("", *more) for line in sides[language]]
        (path / "text" / f"train.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    train = [
        {"files": {language: f"train.{language}" for language in ("aa", "bb")}, "repeat": 2, "name": "own", "test": 3}
    ]
    config = tiny_settings(path / "text", data={"valid": 5, "train": train, "dir": "not-here"})
    prepare(config, path / "split", tokenizer_from, echo=lambda _: None)
    shutil.copytree(tokenizer_from, path / "run")
    (path / "run" / "config.yaml").write_text(dump_config(config), encoding="utf-8")
    info = json.loads((path / "run" / "run.json").read_text(encoding="utf-8"))
    (path / "run" / "run.json").write_text(json.dumps(info | {"data_dir": str(path / "split")}), encoding="utf-8")
    return path / "split"


def small_chunks(patch: pytest.MonkeyPatch) -> None:
    """Translate in chunks of 16 lines, without waiting for the disk."""
    patch.setattr(directory, "CHUNK", 16)
    patch.setattr(os, "fsync", lambda _: None)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def dropped(data: Path) -> dict[str, int]:
    """Return the numbers of training pairs that `nmt prepare` has dropped, by reason."""
    return dict(json.loads(DataDir(data).manifest.read_bytes())["splits"]["train"]["clean"]["dropped"])


class Parrot:
    """A translator that returns the lines of the development set and of the training text in a cycle."""

    def __init__(self, data: DataDir, language: str) -> None:
        self.lines = [line for split in ("valid", "train") for line in lines_of(data.text(split, language))]

    def translate_window(self, lines: list[str], *_: object) -> Iterator[list[SimpleNamespace]]:
        for i, _line in enumerate(lines):
            yield [SimpleNamespace(text=self.lines[i % len(self.lines)], finished=True)]


def interrupt_after(n: int, patch: pytest.MonkeyPatch) -> list[int]:
    """Interrupt the window after the first `n`, as Ctrl-C does. Returns the list of the numbers of their first lines,
    which grows as they are translated."""
    from nmt.translate.loading import Translator

    real, firsts = Translator.translate_window, list[int]()

    def translate_window(self: Translator, *arguments: object) -> Iterator[object]:
        if len(firsts) == n:
            raise KeyboardInterrupt
        firsts.append(int(str(arguments[2])))
        return real(self, *arguments)  # type: ignore[arg-type]

    patch.setattr(Translator, "translate_window", translate_window)
    return firsts
