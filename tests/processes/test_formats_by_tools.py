"""Files that the usual commands write are read as what was put into them."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import polib
import pytest

from nmt.data.sources import Source, TrainPath
from nmt.prepare.sources import open_source
from sentences import sentence_pairs

PAIRS = sentence_pairs(300)


def run(command: str, folder: Path) -> None:
    """Run a shell command in a folder; skip the test if there is no such command here."""
    for part in command.split("|"):
        if shutil.which(shlex.split(part)[0]) is None:
            pytest.skip(f"no {shlex.split(part)[0]} here")
    subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], cwd=folder, check=True, capture_output=True, timeout=60
    )


def read(source: Source, folder: Path) -> list[tuple[str, str]]:
    return [(pair.src, pair.tgt) for pair in open_source(source, ("de", "en"), folder).pairs()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files of JSON Lines, one of them below a folder with a long name in other letters."""
    for name, pairs in (
        ("a.jsonl", PAIRS[:100]),
        ("b.2.jsonl", PAIRS[100:200]),
        (f"ü{'x' * 120}/c.jsonl", PAIRS[200:]),
    ):
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps({"de": de, "en": en}) + "\n" for de, en in pairs), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("zip -r c.zip corpus", "c.zip"),
        ("zip -r0 c.zip corpus", "c.zip"),
        ("zip -r9 - corpus | cat > c.zip", "c.zip"),  # sizes after each member
        ("zip -r -fz c.zip corpus", "c.zip"),  # zip64
        ("tar --format=pax -cf c.tar corpus", "c.tar"),
        ("tar --format=gnu -cf c.tar corpus", "c.tar"),
        ("tar --sort=name -czf c.tar.gz corpus", "c.tar.gz"),
        ("tar --sort=name -cjf c.tbz2 corpus", "c.tbz2"),
        ("tar --sort=name -c corpus | xz -9 > c.tar.xz", "c.tar.xz"),
        ("tar --sort=name -c corpus | zstd -q --long=27 > c.tar.zst", "c.tar.zst"),
    ],
)
def test_archives_of_other_tools_are_read(command: str, name: str, folder: Path) -> None:
    run(command, folder)
    assert sorted(read(TrainPath(path=name), folder)) == sorted(PAIRS)


@pytest.mark.parametrize(
    ("command", "suffix"),
    [
        ("gzip -9 -c all", "gz"), ("bzip2 -c all", "bz2"), ("xz -T2 --block-size=4096 -c all", "xz"),
        ("zstd -q -19 -c all", "zst"), ("split -l 70 --filter='zstd -q -c' all", "zst"),
        ("split -l 70 --filter='xz -c' all", "xz"), ("split -l 70 --filter='gzip -c' all", "gz"),
    ],
)  # fmt: skip
def test_compressed_files_of_other_tools_are_read(command: str, suffix: str, folder: Path) -> None:
    """Of one block or stream, or of several."""
    (folder / "all").write_text("".join(f"{de}\t{en}\n" for de, en in PAIRS), encoding="utf-8")
    run(f"{command} > all.tsv.{suffix}", folder)
    assert read(TrainPath(path=f"all.tsv.{suffix}", columns={"de": "1", "en": "2"}), folder) == PAIRS


@pytest.mark.parametrize(
    "command", ["msgcat --sort-output", "msgconv -t ISO-8859-1", "msgcat -w 30", "msgcat --no-wrap"]
)
def test_gettext_catalogues_are_read(command: str, tmp_path: Path) -> None:
    pairs = sorted({en: de for de, en in PAIRS}.items())
    file = polib.POFile()
    file.metadata = {"Language": "de", "Content-Type": "text/plain; charset=UTF-8"}
    for en, de in pairs:
        file.append(polib.POEntry(msgid=en, msgstr=de))
    file.save(str(tmp_path / "a.po"))
    run(f"{command} a.po > b.po", tmp_path)
    assert sorted(read(TrainPath(path="b.po"), tmp_path)) == sorted((de, en) for en, de in pairs)
