"""Exported folders equal the run, and damage is reported."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from export_run import LINES, write_run
from nmt.errors import CheckpointError, DataError
from nmt.layout import RunDir
from nmt.model.transformer import Transformer
from nmt.runs.checkpoint import assign, load_weights
from nmt.runs.folder import Folder, is_folder, load_folder
from nmt.runs.model import open_saved
from nmt.search.settings import SearchConfig
from nmt.share.export import ExportOptions, export
from nmt.translate.loading import Translator
from nmt.translate.search import NativeSearcher

BEAM = SearchConfig(beam=3, max_length_ratio=1.0)


def translator_of(folder: Folder) -> Translator:
    """Return the translator of a folder."""
    data, tokenizers = folder.config.data, folder.tokenizers
    model = Transformer(folder.config.model, len(tokenizers[data.src]), len(tokenizers[data.tgt]))
    assign(model, folder.weights().tensors, "folder")
    searcher = NativeSearcher([model.eval()], tokenizers[folder.config.data.tgt], torch.device("cpu"), "float32")
    return Translator.configured(searcher, tokenizers, folder.config)


def test_moved_export_translates_equally(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", joint=False, tie_embeddings="target")
    weights = load_weights(RunDir(run).step(7))
    before = list(Translator.load(run, device="cpu", precision="float32").translate_lines(LINES, BEAM, 3))
    export(ExportOptions(run), tmp_path / "folder", "folder")
    shutil.rmtree(run)
    moved = shutil.move(tmp_path / "folder", tmp_path / "else where")

    assert is_folder(moved)
    folder = load_folder(moved)
    chosen = folder.weights()
    assert (chosen.step, chosen.kind, folder.info.precision) == (7, "raw", "float32")
    torch.testing.assert_close(dict(chosen.tensors), weights, rtol=0.0, atol=0.0)
    assert list(translator_of(folder).translate_lines(LINES, BEAM, 3)) == before


# --- writing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", [{"d_ff": 1 << 36}, {"encoder_layers": 9}, {"positions": "learned", "max_positions": 1 << 36}]
)
def test_oversized_model_raises_before_allocation(changes: dict[str, object], tmp_path: Path) -> None:
    export(ExportOptions(write_run(tmp_path / "run")), tmp_path / "folder", "folder")
    saved = open_saved(tmp_path / "folder")
    model = saved.config.model.model_copy(update=changes)
    with pytest.raises(CheckpointError):
        replace(saved, config=saved.config.model_copy(update={"model": model})).model()


def test_export_into_nonempty_directory_raises(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    output = tmp_path / "taken"
    output.mkdir()
    (output / "letter").write_text("dear")
    with pytest.raises(DataError, match=r"taken: is not empty; choose another directory"):
        export(ExportOptions(run), output, "folder")
    assert [path.name for path in output.iterdir()] == ["letter"]
    (output / "letter").unlink()
    export(ExportOptions(run), output, "folder")  # an empty one is taken
    load_folder(output)
    with pytest.raises(DataError, match=r"README\.md: is a file, but the output is a directory"):
        export(ExportOptions(run), output / "README.md", "folder")


def test_failed_export_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run")

    def full(path: Path, _: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("nmt.share.export.save_tensors", full)
    with pytest.raises(DataError, match="out: cannot be written: No space left on device"):
        export(ExportOptions(run), tmp_path / "out", "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
