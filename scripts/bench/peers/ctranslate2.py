"""CTranslate2, which cannot train: it translates with the model and the pieces of nmt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.bench.peer import Decoding, Loaded, Output, Peer, Search, spelled
from scripts.bench.task import THREADS


def exporter(kind: str) -> Callable[[Path, Path], list[str]]:
    """`nmt export`, with weights of this number format."""

    def export(run: Path, folder: Path) -> list[str]:
        places = ["--run", str(run / "run"), "--output", str(folder)]
        return ["export", "--format", "ctranslate2", "--quantization", kind, *places]

    return export


def arm(kind: str) -> Peer:
    """One number format."""

    def load(folder: Path, _: Path, search: Search) -> Loaded:
        ct2: Any = import_module("ctranslate2")
        # a thread for each of two batches is faster than two for each; one by one there is one batch at a time
        batches = 1 if search.batch == 1 else THREADS
        model = ct2.Translator(
            str(folder), device="cpu", compute_type=kind, inter_threads=batches, intra_threads=THREADS // batches
        )
        options = {
            "beam_size": search.beam,
            "max_batch_size": search.batch,
            "batch_type": "examples",
            "min_decoding_length": search.pieces or 1,
            "max_decoding_length": search.longest,
        }

        def translate(lines: Sequence[str]) -> list[Output]:
            words = [line.split(" ") for line in lines]
            groups = [[line] for line in words] if search.batch == 1 else [words]
            found = [result for group in groups for result in model.translate_batch(group, **options)]
            return [spelled(result.hypotheses[0]) for result in found]

        return Loaded(translate)

    return Peer(
        name=f"ct2-{kind}",
        title=f"CTranslate2 4.8.5 {kind}",
        decoding=Decoding(
            load,
            model="nmt-auto",
            source="nmt/pieces.test",
            pieces="nmt",
            kind=kind,
            export=exporter(kind),
            exported=f"ctranslate2-{kind}",
        ),
        environment="ct2",
        requirements=("ctranslate2==4.8.5",),
        torch=False,
    )


ARMS = (arm("float32"), arm("int8"))
