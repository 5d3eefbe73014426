"""Exported folders equal the run, and damage is reported."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from export_run import LINES, write_run
from nmt.errors import CheckpointError, DataError, NmtError
from nmt.layout import RunDir
from nmt.model.transformer import Transformer
from nmt.runs.checkpoint import assign, load_weights
from nmt.runs.folder import Folder, is_folder, load_folder, new_directory, verify_export
from nmt.runs.model import open_saved
from nmt.search.settings import SearchConfig
from nmt.share.export import ExportOptions, export
from nmt.translate.loading import Translator
from nmt.translate.search import NativeSearcher

BEAM = SearchConfig(beam=3, max_length_ratio=1.0)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exports of one run: `folder`, and `ctranslate2` in int8."""
    path = tmp_path_factory.mktemp("exported")
    run = write_run(path / "run", joint=False, tie_embeddings="target")
    export(ExportOptions(run), path / "folder", "folder")
    export(ExportOptions(run, check_lines=2), path / "ctranslate2", "ctranslate2", "int8")
    return path


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
    assert chosen.tensors.keys() == weights.keys()
    assert all(torch.equal(chosen.tensors[name], weights[name]) for name in weights)
    assert list(translator_of(folder).translate_lines(LINES, BEAM, 3)) == before


# --- damage -----------------------------------------------------------------------------------------


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: list[Callable[[Path], None]] = [flip, Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1])]
FILES = {
    "folder": ["config.yaml", "tokenizer/de.model", "tokenizer/en.model", "weights.safetensors"],
    "ctranslate2": [
        "config.yaml", "tokenizer/de.model", "model.bin", "config.json", "source_vocabulary.json",
        "target_vocabulary.json",
    ],
}  # fmt: skip


def read_all(path: Path) -> None:
    folder = load_folder(path)
    if folder.info.kind == "folder":
        folder.weights()
    else:
        verify_export(folder.directory.path)


@pytest.mark.parametrize("damage", DAMAGES, ids=["flipped", "missing", "cut"])
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in FILES.items() for name in names])
def test_export_files_are_verified(
    kind: str, name: str, damage: Callable[[Path], None], exported: Path, tmp_path: Path
) -> None:
    path = tmp_path / kind
    shutil.copytree(exported / kind, path)
    read_all(path)
    damage(path / name)
    with pytest.raises(CheckpointError) as told:
        read_all(path)
    assert str(path / name) in str(told.value)
    assert "damaged" in str(told.value)


def say_otherwise(path: Path) -> None:
    path.write_text(path.read_text().replace('"step": 7', '"step": 8'))


def write(text: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(text) and None


@pytest.mark.parametrize("damage", [flip, say_otherwise, write("[]"), write("")])
def test_damaged_seal_raises(damage: Callable[[Path], None], exported: Path, tmp_path: Path) -> None:
    path = tmp_path / "folder"
    shutil.copytree(exported / "folder", path)
    damage(path / "translator.json")
    with pytest.raises(CheckpointError, match=r"translator\.json: damaged"):
        load_folder(path)


# --- writing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", [{"d_ff": 1 << 36}, {"encoder_layers": 9}, {"positions": "learned", "max_positions": 1 << 36}]
)
def test_oversized_model_raises_before_allocation(changes: dict[str, object], exported: Path) -> None:
    saved = open_saved(exported / "folder")
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


def test_failed_new_directory_is_removed(tmp_path: Path) -> None:
    with pytest.raises(NmtError, match="stop"), new_directory(tmp_path / "out") as part:
        part.config.touch()
        raise NmtError("stop")
    assert list(tmp_path.iterdir()) == []
