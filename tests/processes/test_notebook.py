"""The notebook of the documentation runs from top to bottom, with less text and shorter trainings than it has."""

from __future__ import annotations

import re
import warnings

import nbformat
import pytest

from places import ROOT

NOTEBOOK = ROOT / "docs" / "first-run.ipynb"
SHORTER = {
    '"train": 6000, "dev": 100, "test": 150': '"train": 600, "dev": 10, "test": 20',
    "vocab_size: 2000": "vocab_size: 500",
    "warmup_steps: 60": "warmup_steps: 4", "_steps: 400": "_steps: 12", '_steps": 140': '_steps": 6',
    "!nmt ": "%run -m nmt ",
}  # fmt: skip
"""The trainings in so few updates learn nothing; and a command runs in the notebook's own process."""

with warnings.catch_warnings():  # jupyter_client's and its dependencies' own
    warnings.simplefilter("ignore")
    from nbclient import NotebookClient


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    """The notebook, executed in an empty folder."""
    book = nbformat.read(NOTEBOOK, as_version=4)
    for long, short in SHORTER.items():
        assert any(long in cell.source for cell in book.cells), long
        for cell in book.cells:
            cell.source = cell.source.replace(long, short)
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        patch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "jupyter"))
        NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return book


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


def test_notebook_has_no_outputs() -> None:
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        assert cell.cell_type != "code" or (cell.outputs, cell.execution_count) == ([], None)


def test_notebook_links_point_to_files() -> None:
    text = "\n".join(
        cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "markdown"
    )
    found = re.findall(r"\]\(([^)#\s]+)", text)
    assert found and all((NOTEBOOK.parent / target).is_file() for target in found)
