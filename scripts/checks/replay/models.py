"""Public models, made by the helpers of the tests: their vocabularies have pieces that the segmenters lack."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from scripts.checks.replay.inputs import ROOT, read

HELPERS = ROOT / "tests" / "helpers"


def write_models(inputs: Path) -> None:
    """Write the models below a folder of inputs."""
    import torch

    sys.path.append(str(HELPERS))
    from m2m import M2M
    from marian import Marian

    torch.set_num_threads(1)
    folder = inputs / "public"
    src = [line for line in read(inputs / "mono.de") if line]
    tgt = [line for line in read(inputs / "mono.en") if line]
    foreign = ("▁Extra", "▁two▁words", "▁", "ß▁x")
    kinds: dict[str, Any] = {
        "joint": Marian(tags=("deu", "swe")),
        "separate": Marian(is_joint=False, segmenter="bpe"),
        "foreign": Marian(extra_pieces=20, more_pieces=foreign),
        "separate_foreign": Marian(is_joint=False, extra_pieces=12, more_pieces=("▁Hund", "dog▁cat", "🙂")),
        "untied": Marian(is_tied=False, has_bias=False, file="pytorch_model.bin"),
        "start": Marian(more_pieces=("<s>",), activation="relu"),
        "tuned": Marian(has_zero_start=False, has_bias=False, dtype=torch.float16),
    }
    for name, kind in kinds.items():
        kind.write(folder / name, src, tgt)
    de, en, fr = (read(inputs / f"m.{language}")[:200] for language in ("de", "en", "fr"))
    M2M().write(folder / "m2m", [*de, *fr], en)
    M2M(is_nllb=True).write(folder / "nllb", [*de, *fr], en)
