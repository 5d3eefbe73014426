"""What is installed: every module, the configs, the sample corpus and what pages are made of, with the commit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nmt import version
from places import ROOT


@pytest.mark.exhaustive
def test_wheel_contains_modules_configs_and_sample(tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    subprocess.run([*command, "build_py", "--build-lib", str(folder)], cwd=ROOT, check=True, capture_output=True)
    built = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "nmt").rglob("*.py")}
    configs = {f"nmt/configs/{path.name}" for path in (ROOT / "configs").glob("*.yaml")}
    sample = {f"nmt/data/sample/{split}.{language}" for split in ("train", "dev", "test") for language in ("de", "en")}
    kinds = ("html", "css", "js", "json", "svg", "onnx", "tsv", "yaml")
    pages = {path.relative_to(ROOT).as_posix() for kind in kinds for path in (ROOT / "nmt").rglob(f"*.{kind}")}
    assert built - {"nmt/commit.txt"} == modules | configs | sample | pages | {"nmt/py.typed"}
    commit = version.commit()
    assert ("nmt/commit.txt" in built) == (commit is not None)
    assert commit is None or (folder / "nmt" / "commit.txt").read_text().strip() == commit
