"""The kinds of exports, the values of `nmt export --format`: which program opens them, and what `nmt push` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["folder", "ctranslate2", "transformers", "argos", "onnx", "web"]
Quantization = Literal["float32", "float16", "int8"]


@dataclass(frozen=True)
class ExportKind:
    """A kind of exports."""

    program: str
    """The program that opens it."""
    engine: str | None = None
    """The value of `nmt translate --engine` that loads it; None: nmt does not load it."""
    load: str | None = None
    """The function of another library that loads it."""
    library: str = "nmt"
    """The name of the library on the Hub, the `library_name` of a model card."""
    quantizations: Sequence[Quantization] = ()
    """The number formats to choose from, the default first; none: the weights are those of the run."""
    check_lines: int = 0
    """The number of lines that are translated both by the run and by the export, by default."""

    @property
    def is_on_hub(self) -> bool:
        """Whether it can be loaded from the Hub."""
        return self.engine is not None or self.load is not None

    def from_hub(self, repository: str) -> str:
        """Return how it is used from a repository on the Hub, as a message."""
        if self.engine is None:
            return f'load it with {self.load}("{repository}") of {self.library}'
        command = f"nmt translate --model hf://{repository}"
        return f"translate with {command} --engine {self.engine}" if self.quantizations else f"translate with {command}"


KINDS: dict[Kind, ExportKind] = {
    "folder": ExportKind("nmt", engine="native"),
    "ctranslate2": ExportKind(
        "CTranslate2", engine="ctranslate2", quantizations=("float32", "float16", "int8"), check_lines=100
    ),
    "transformers": ExportKind(
        "Hugging Face transformers", load="AutoModelForSeq2SeqLM.from_pretrained", library="transformers"
    ),
    "argos": ExportKind("Argos Translate", quantizations=("int8", "float32", "float16"), check_lines=100),
    "onnx": ExportKind(
        "ONNX Runtime",
        load="MarianMTModel.from_pretrained",
        library="transformers.js",
        quantizations=("float32", "int8"),
        check_lines=200,
    ),
    "web": ExportKind("a web browser", quantizations=("int8", "float32"), check_lines=200),
}


def not_loaded(kind: Kind) -> str:
    """Return the message for an export that nmt does not load, where a translator is needed."""
    of = KINDS[kind]
    return (
        f"contains a model for {of.program} ({of.load}), which nmt does not load; "
        "export with --format folder or ctranslate2"
    )
