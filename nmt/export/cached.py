"""CTranslate2 models of runs: exported once into the run directory and then reused."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from nmt.console import say
from nmt.engine.bindings import library
from nmt.engine.search import Engine
from nmt.engine.translator import engine_translator, load_ctranslate2
from nmt.errors import CheckpointError, ConfigError
from nmt.export.export import Request, export_into, without_places
from nmt.files.read import refuse_links
from nmt.layout import RunDir
from nmt.runs.folder import Quantization, alone_in, fingerprint, is_folder, load_folder
from nmt.runs.model import Saved, open_saved
from nmt.translate.translator import Translator

CHECK_LINES = 20
"""Number of lines to compare; few, since a user is waiting."""


def engine_for(
    paths: Sequence[Path], checkpoint: str = "best", weights: str = "auto", int8: bool = False
) -> Translator:
    """Load the CTranslate2 translator of a run, or of a directory that `nmt export` wrote.

    Raises ConfigError for several runs and for options that do not apply to an exported directory, and what `export`
    and `load_ctranslate2` raise.
    """
    if len(paths) > 1:
        raise ConfigError(["several runs: CTranslate2 translates with one; --engine native makes an ensemble"])
    [path] = paths
    if not is_folder(path):
        return load_ctranslate2(engine_folder(path, "int8" if int8 else "float32", checkpoint, weights))
    if (checkpoint, weights) != ("best", "auto"):
        raise ConfigError([f"{path}: an exported folder has one set of weights; leave out --checkpoint, --weights"])
    engine = Engine(load_folder(path))
    if int8 and engine.quantization != "int8":
        raise ConfigError(
            [f"{path}: has weights in {engine.quantization}, found --int8; export the run with --quantization int8"]
        )
    return engine_translator(engine)


def engine_folder(run: Path, quantization: Quantization, checkpoint: str = "best", weights: str = "auto") -> Path:
    """Return the path of a run's CTranslate2 model, in the run directory; export it if there is none of these weights.

    Raises what `export` raises.
    """
    library()
    saved = open_saved(run, checkpoint, weights)
    saved.check_exports()
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
    """Whether `path` is an export of these weights and settings."""
    try:
        folder = load_folder(path)
    except CheckpointError:
        return False
    wanted = fingerprint(saved.weights.tensors), without_places(saved.config)
    return (folder.info.tensors, folder.config) == wanted
