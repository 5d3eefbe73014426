"""Exported directories, which are written atomically and verified before use.

Two kinds are loaded here: `folder` with weights.safetensors for the native engine, and `ctranslate2` with a CTranslate2
model. Exports for other programs, see `nmt.runs.kinds`, are written and verified in the same way, but not loaded here.
translator.json has the checksums of all other files except the model card, is sealed, and is written last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from nmt.config import Config
from nmt.config.load import load_saved_config
from nmt.errors import CheckpointError, DataError
from nmt.files.document import Document, Sealed, read_document, sealed_text
from nmt.files.read import checksums_in
from nmt.files.write import staged, write_file, writing
from nmt.layout import EXPORT_FORMAT, ExportDir
from nmt.runs.checkpoint import ChosenWeights, parse_tensors, read_verified
from nmt.runs.info import Precision, PublicModel, Weights
from nmt.runs.kinds import KINDS, Kind, Quantization, not_loaded
from nmt.text.vocabularies import Tokenizers


class ExportInfo(Document):
    """Metadata of an exported translator, in translator.json."""

    kind: Kind
    nmt: str
    """The version of nmt that wrote the export."""
    direction: str | None = None
    """Source and target language, such as `de-en`; the first of several. None in exports of earlier versions."""
    has_tag: bool = False
    """Whether the target language is chosen, by a tag."""
    tag: str | None = None
    """In an export for another library, the tag with which each line must begin, or one of several such tags."""
    step: int
    weights: Weights
    reason: str
    """The reason for the choice of the weights, as text for the user."""
    tokenizer: str
    """The fingerprint of the tokenizer."""
    tensors: str
    """The fingerprint of the run's weights."""
    precision: Precision
    """Number format of the matrix products in training."""
    device_name: str | None = None
    """The device on which the model was trained."""
    public: PublicModel | None = None
    """The public model from which the run, or a run that it started with, was imported."""
    float32_library: str | None = None
    """The library for float32 matrix products in training."""
    quantization: Quantization | None = None
    """Number format of the weights, of a kind with several."""
    has_target_tokenizer: bool | None = None
    """Whether an export for ONNX Runtime has a tokenizer of its own for translations; None for other kinds."""
    positions: Annotated[int, Field(ge=2)] | None = None
    """The maximum sequence length of a model for another library, including `</s>`."""
    identical: float | None = None
    """The share of lines that the run and the export translated identically, if they were compared."""


class ExportDocument(Sealed):
    """The content of translator.json."""

    translator: ExportInfo
    checksums: dict[str, str]
    """The SHA-256 of all other files except the model card, by name."""


@dataclass(frozen=True)
class Folder:
    """An exported directory with its verified configuration and tokenizers."""

    directory: ExportDir
    info: ExportInfo
    config: Config
    tokenizers: Tokenizers
    checksums: Mapping[str, str]

    def weights(self) -> ChosenWeights:
        """Load the verified weights. Raises CheckpointError if they are damaged or a CTranslate2 model."""
        path = self.directory.weights
        if self.info.kind != "folder":
            raise CheckpointError(
                f"{self.directory.path}: contains a CTranslate2 model, which only --engine ctranslate2 can use; for "
                "what that does not support, such as terms of a glossary, export the run with --format folder"
            )
        tensors = parse_tensors(read_verified(self.directory.path, path.name, self.checksums), path)
        return ChosenWeights(self.info.step, self.info.weights, self.info.reason, tensors)


def is_folder(path: Path) -> bool:
    """Return whether a directory was written by `nmt export`."""
    return ExportDir(path).info.is_file()


def load_folder(path: Path) -> Folder:
    """Open an exported directory.

    Raises CheckpointError if it is missing or damaged, has another format, or is for another library.
    """
    directory = ExportDir(path)
    document = _read(directory)
    info = document.translator
    checksums = document.checksums
    if KINDS[info.kind].engine is None:
        raise CheckpointError(f"{path}: {not_loaded(info.kind)}")
    for name in checksums:
        if name == directory.config.name or name.startswith(f"{directory.tokenizer.path.name}/"):
            read_verified(path, name, checksums)
    config = load_saved_config(directory.config)
    try:
        tokenizers = Tokenizers.load(directory.tokenizer, config.data.all_languages)
    except DataError as error:
        raise CheckpointError(str(error)) from error
    if tokenizers.fingerprint != info.tokenizer:
        raise CheckpointError(f"{directory.tokenizer.path}: not the tokenizer of this model")
    return Folder(directory, info, config, tokenizers, checksums)


def verify_export(path: Path) -> ExportInfo:
    """Verify all files of an exported directory of any kind, and return its metadata.

    Raises CheckpointError if it is missing or damaged, or has another format.
    """
    document = _read(ExportDir(path))
    for name in document.checksums:
        read_verified(path, name, document.checksums)
    return document.translator


def _read(directory: ExportDir) -> ExportDocument:
    missing = f"{directory.path}: not an exported directory, {directory.info.name} is missing"
    return read_document(
        directory.info, ExportDocument, CheckpointError, "; export the run again", (EXPORT_FORMAT,), missing
    )


def require_empty(path: Path) -> None:
    """Raise DataError unless `path` is missing or an empty directory."""
    if path.is_dir() and any(path.iterdir()):
        raise DataError(f"{path}: is not empty; choose another directory, or remove this one")
    if path.exists() and not path.is_dir():
        raise DataError(f"{path}: is a file, but the output is a directory; choose another path")


@contextmanager
def new_directory(path: Path) -> Iterator[ExportDir]:
    """Yield a temporary directory, which becomes `path` if the block succeeds.

    The caller holds `alone_in` on the parent directory. Raises DataError if `path` is not empty or cannot be written.
    """
    require_empty(path)
    with writing(path), staged(path, is_directory=True) as part:
        yield ExportDir(part)


def seal(directory: ExportDir, info: ExportInfo) -> None:
    """Write translator.json, again if it exists, with the checksums of the other files in the directory. Raises
    OSError."""
    directory.info.unlink(missing_ok=True)
    content = {"format": EXPORT_FORMAT, "translator": info.model_dump(exclude_none=True)}
    content["checksums"] = checksums_in(directory.path)
    write_file(directory.info, sealed_text(content).encode())
