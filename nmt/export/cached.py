"""CTranslate2 as the engine of a run: exported once into the run directory, and then at hand."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from nmt.console import say
from nmt.engine.search import library
from nmt.engine.translator import EngineTranslator
from nmt.errors import CheckpointError, ConfigError
from nmt.export.export import Request, export_into
from nmt.files.read import refuse_links
from nmt.layout import RunDir
from nmt.runs.folder import Quantization, alone_in, fingerprint, is_folder, load_folder
from nmt.runs.model import Saved, open_saved

CHECK_LINES = 20
"""So many are compared, since somebody waits."""


def engine_for(
    paths: Sequence[Path], checkpoint: str = "best", weights: str = "auto", int8: bool = False
) -> EngineTranslator:
    """The translator by CTranslate2 of one run or of what nmt export has written.

    Raises ConfigError for several runs and for options that an exported directory has no choice of, and what `export`
    and `EngineTranslator` raise.
    """
    if len(paths) > 1:
        raise ConfigError(["several runs: CTranslate2 translates with one; --engine native makes an ensemble"])
    [path] = paths
    if not is_folder(path):
        return EngineTranslator.of(engine_folder(path, "int8" if int8 else "float32", checkpoint, weights))
    if (checkpoint, weights) != ("best", "auto"):
        raise ConfigError([f"{path}: an exported folder has one set of weights; leave out --checkpoint, --weights"])
    translator = EngineTranslator.of(path)
    own = translator.engine.quantization
    if int8 and own != "int8":
        raise ConfigError([f"{path}: has weights in {own}, found --int8; export the run with --quantization int8"])
    return translator


def engine_folder(run: Path, quantization: Quantization, checkpoint: str = "best", weights: str = "auto") -> Path:
    """The CTranslate2 model of a run, in the run directory; it is made where there is none yet of these weights.

    Raises what `export` raises.
    """
    library()
    saved = open_saved(run, checkpoint, weights)
    path = RunDir(run).ctranslate2(quantization).path
    refuse_links([path])
    with alone_in(run):
        if _is_of(path, saved):
            return path
        say(f"{path}: exporting {run} for CTranslate2, once")
        shutil.rmtree(path, ignore_errors=True)
        request = Request(run, checkpoint, weights, check_lines=CHECK_LINES)
        say(f"{export_into(request, path, 'ctranslate2', quantization).comparison}")
    return path


def _is_of(path: Path, saved: Saved) -> bool:
    """Whether there is an export of these weights and settings."""
    try:
        folder = load_folder(path)
    except CheckpointError:
        return False
    return (folder.info.tensors, folder.config) == (fingerprint(saved.weights.tensors), saved.config)
