"""The notebooks of the documentation run from top to bottom, with less text and shorter trainings than they have."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

import nbformat
import pytest

from hub_server import Hub, serve
from marian import Marian
from places import ROOT

NOTEBOOKS = [ROOT / "docs" / "first-run.ipynb", ROOT / "docs" / "colab.ipynb"]
FIRST_RUN, COLAB = NOTEBOOKS
IN_PROCESS = {"!nmt ": "%run -m nmt "}
"""A command runs in the notebook's own process."""
SHORTER = {
    '"train": 6000, "dev": 100, "test": 150': '"train": 600, "dev": 10, "test": 20',
    "vocab_size: 2000": "vocab_size: 500",
    "warmup_steps: 60": "warmup_steps: 4", "_steps: 400": "_steps: 12", '_steps": 140': '_steps": 6',
}  # fmt: skip
"""The trainings in so few updates learn nothing."""

with warnings.catch_warnings():  # jupyter_client's and its dependencies' own
    warnings.simplefilter("ignore")
    from nbclient import NotebookClient


def executed(path: Path, changes: Mapping[str, str], folder: Path) -> nbformat.NotebookNode:
    """Return a notebook after it was executed in a folder, with changed source."""
    book = nbformat.read(path, as_version=4)
    for old, new in changes.items():
        assert any(old in cell.source for cell in book.cells), old
        for cell in book.cells:
            cell.source = cell.source.replace(old, new)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        patch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "jupyter"))
        NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return book


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    """The first notebook, executed in an empty folder."""
    return executed(FIRST_RUN, IN_PROCESS | SHORTER, tmp_path_factory.mktemp("notebook"))


def printed(notebook: nbformat.NotebookNode, words: str) -> str:
    """What the cell with these words in it has printed."""
    [cell] = [cell for cell in notebook.cells if cell.cell_type == "code" and words in cell.source]
    return "".join(output.text for output in cell.outputs if output.get("name") == "stdout")


def test_notebook_runs(
    notebook: nbformat.NotebookNode,
) -> None:
    scores = printed(notebook, "api.evaluate")
    assert re.findall(r"^(\w+) +\d+\.\d ", scores, re.M) == ["bleu", "chrf", "ter"]
    assert scores.count("  translation  ") == 4
    compared = printed(notebook, "api.compare")
    assert re.findall(r"^(\w+) +\d+\.\d -> +\d+\.\d, p = \d\.\d{4}$", compared, re.M) == ["bleu", "chrf", "ter"]
    assert "weights.safetensors" in printed(notebook, "nmt export")
    equal, of = re.findall(r"\d+", printed(notebook, "n_equal"))
    assert equal == of != "0"


@pytest.mark.exhaustive
def test_colab_notebook_adapts_a_public_model_and_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    de, en = (
        (ROOT / "data" / "sample" / f"train.{language}").read_text(encoding="utf-8").splitlines()[:1500]
        for language in ("de", "en")
    )
    Marian(updates=20).write(tmp_path / "model", de, en)
    hub = Hub()
    hub.add("Helsinki-NLP/opus-mt-de-en", "main", {p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()})
    folder = tmp_path / "work" / "translator"
    folder.mkdir(parents=True)
    rows = ["de\ten", *map("\t".join, zip(de, en, strict=True))]
    (folder / "mine.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    own_process = {"!nmt adapt ": f"!{sys.executable} -m nmt adapt "}  # the output of its commands is the cell's
    shorter = {"--minutes 20": "--set training.max_steps=6"}
    with serve(hub):
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        for _ in range(2):  # as after a disconnection
            book = executed(COLAB, own_process | IN_PROCESS | shorter, folder.parent)
            assert "BLEU" in printed(book, "nmt adapt")
    assert json.loads((folder / "runs/mine-de-en/selected.json").read_text())["finished_step"] == 6
    assert (folder / "mine.zip").is_file()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_has_no_outputs_and_links_point_to_files(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    assert all((cell.get("outputs", []), cell.get("execution_count")) == ([], None) for cell in cells)
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    found = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if not target.startswith("https:")]
    assert found and all((path.parent / target).is_file() for target in found)
