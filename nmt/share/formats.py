"""Limits of the kinds of exports: CTranslate2, Hugging Face transformers, Argos Translate and ONNX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from torch import nn

from nmt.errors import ConfigError
from nmt.languages.codes import parts_of
from nmt.model.transformer import Transformer
from nmt.runs.kinds import Kind
from nmt.runs.model import Saved
from nmt.search.settings import SearchConfig
from nmt.text.ids import N_SPECIAL

OTHERS_READ = 1024
"""Number of pieces of a line that CTranslate2 and programs based on it read by default."""
NO_CTRANSLATE2_TERMS = "terms are not supported by CTranslate2; use --engine native with a run or a folder export of it"

TRANSFORMERS_CLASSES = {
    ("pre", "sinusoidal"): ("pegasus", "PegasusForConditionalGeneration"),
    ("pre", "learned"): ("blenderbot", "BlenderbotForConditionalGeneration"),
    ("post", "sinusoidal"): ("marian", "MarianMTModel"),
    ("post", "marian"): ("marian", "MarianMTModel"),
    ("pre", "fairseq"): ("m2m_100", "M2M100ForConditionalGeneration"),
}
"""Type and class of the equivalent model in transformers, by norm and positions."""

_OTHERS = "use --format folder or ctranslate2"
_LACKS: dict[Kind, Sequence[str]] = {
    "folder": ["lm"],
    "ctranslate2": ["length_penalty_kind", "coverage_penalty", "diversity_groups", "patience", "lm", "protect"],
    "transformers": [
        "coverage_penalty", "diversity_groups", "inline_terms", "length_penalty_kind", "lm", "mbr", "protect", "split",
    ],
    "onnx": ["beam", "coverage_penalty", "diversity_groups", "inline_terms", "lm", "mbr", "protect", "split"],
}  # fmt: skip
"""The search settings that formats lack."""


def exported_search(kind: Kind, search: SearchConfig) -> SearchConfig:
    """Return the search settings of an export, without those of `lost_settings`."""
    off = SearchConfig(beam=1) if kind == "onnx" else SearchConfig()
    return search.model_copy(update={name: getattr(off, name) for name in lost_settings(kind, search)})


def lost_settings(kind: Kind, search: SearchConfig) -> list[str]:
    """Return the names of the search settings in use that a format lacks; a directory has no language model."""
    off = SearchConfig()
    is_used = {
        "beam": search.beam > 1,
        "length_penalty_kind": search.length_penalty_kind != "power" and search.length_penalty != 0,
        "patience": search.patience == 0,
        "split": search.split == "always",
    }
    return [name for name in _LACKS[kind] if is_used.get(name, getattr(search, name) != getattr(off, name))]


def unsupported(search: SearchConfig) -> list[str]:
    """Return the names of the search settings in use that CTranslate2 does not support."""
    return lost_settings("ctranslate2", search)


def check_supported(search: SearchConfig) -> None:
    """Raise ConfigError with each setting that CTranslate2 does not support."""
    problems = []
    for name in unsupported(search):
        value = getattr(search, name)
        problems.append(f"search.{name}: {value} is not supported by CTranslate2; use --engine native")
    if problems:
        raise ConfigError(*problems)


def check_format(kind: Kind, saved: Saved) -> None:
    """Raise ConfigError with all reasons why a model with these settings cannot be exported to a format."""
    if kind in _PROBLEMS and (problems := [*_PROBLEMS[kind](saved)]):
        raise ConfigError(*[f"{saved.path}: {problem}" for problem in problems])


def check_norm(kind: Kind, path: Path, model: Transformer) -> None:
    """Raise ConfigError if a format has no such norm as the model of the run at `path`."""
    if kind != "folder" and not isinstance(norm := model.encoder.last_norm, nn.LayerNorm):
        raise ConfigError(f"{path}: {norm} cannot be exported for {kind}, only LayerNorm; use --format folder")


def _transformers_problems(saved: Saved) -> Iterator[str]:
    model = saved.config.model
    imported = saved.tokenizers.imported
    if (model.norm, model.positions) not in TRANSFORMERS_CLASSES or (model.positions == "fairseq" and imported is None):
        kind = f"model.norm: {model.norm} and model.positions: {model.positions}"
        yield f"transformers has no model with {kind}; {_OTHERS}, or train with another norm or positions"
    if imported is None:
        if model.tie_embeddings != "all":
            supported = f"{model.tie_embeddings}, but transformers supports only all"
            yield f"model.tie_embeddings: {supported}; {_OTHERS}, or train with all"
        return
    if imported.languages and not imported.has_fixed_tags and imported.pieces[0][0] != "<s>":
        yield f"transformers has no tokenizer for a cut vocabulary of NLLB; {_OTHERS}"
    if imported.direction is None:
        yield f"transformers has no model with the vocabulary of a tokenizer.model; {_OTHERS}"


def _argos_problems(saved: Saved) -> Iterator[str]:
    data = saved.config.data
    model = saved.config.model
    code = language_code(data.src)
    if saved.tokenizers.imported is not None:
        yield "its tokenizer is not of nmt, and Argos Translate cannot use it; use --format ctranslate2"
    elif data.has_language_tags or saved.tokenizers[data.src].tags:
        yield "has tags, which Argos Translate cannot use; use --format ctranslate2"
    elif model.positions == "learned" and model.max_positions < OTHERS_READ:
        yield (
            f"has learned positions for {model.max_positions:,} pieces, but Argos Translate reads {OTHERS_READ:,}; "
            f"train with model.max_positions={OTHERS_READ} or sinusoidal positions"
        )
    elif code == language_code(data.tgt):
        yield f"Argos Translate has one code, {code}, for {data.src} and {data.tgt}"


def _onnx_problems(saved: Saved) -> Iterator[str]:
    imported = saved.tokenizers.imported
    if imported is None:
        return
    if imported.languages:
        yield "the tokenizer of M2M-100 and NLLB cannot be exported; use --format transformers"
    elif any(tokenizer.first_learned > N_SPECIAL for tokenizer in saved.tokenizers.by_language.values()):
        yield f"a public tokenizer with pieces of bytes cannot be exported; {_OTHERS}"


_PROBLEMS: dict[Kind, Callable[[Saved], Iterator[str]]] = {
    "transformers": _transformers_problems,
    "argos": _argos_problems,
    "onnx": _onnx_problems,
}


def language_code(name: str) -> str:
    """Return the code of Argos Translate and LibreTranslate for a language: of two letters if there is one."""
    language, script, region = parts_of(name)
    if (language, script) == ("zh", "Hant"):
        return "zt"
    return "pb" if (language, region) == ("pt", "BR") else language
