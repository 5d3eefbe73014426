"""Models in Marian's own format, with random weights, and what Marian computes with them, in NumPy."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from sentences import sentence_pairs

D_MODEL, D_FF, N_HEADS = 8, 12, 2
PAIRS = sentence_pairs(40)
SETTINGS: dict[str, Any] = {
    "type": "transformer", "dim-emb": D_MODEL, "transformer-dim-ffn": D_FF, "transformer-heads": N_HEADS,
    "enc-depth": 1, "dec-depth": 2, "transformer-preprocess": "", "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d", "transformer-postprocess-top": "", "transformer-ffn-activation": "relu",
    "transformer-decoder-autoreg": "self-attention", "transformer-tied-layers": [], "version": "v1.12.42 b7be0e964",
}  # fmt: skip
Arrays = dict[str, np.ndarray[Any, Any]]


@cache
def segmenter(language: str) -> bytes:
    """Return a SentencePiece model of `de`, `en` or both, as Marian trains them."""
    model = io.BytesIO()
    lines = [
        line for pair in PAIRS for name, line in zip(("de", "en"), pair, strict=True) if language in (name, "both")
    ]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=70, hard_vocab_limit=False, minloglevel=2,
        bos_id=-1, eos_id=0, unk_id=1, normalization_rule_name="identity",
    )  # fmt: skip
    return model.getvalue()


def pieces_of(model: bytes) -> list[str]:
    """Return the pieces of a SentencePiece model by their ids."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [str(processor.id_to_piece(i)) for i in range(processor.get_piece_size())]


@dataclass(frozen=True)
class Original:
    """The kind of a model."""

    tied: str = "all"
    """Which tables are shared: all, target, src or none."""
    has_bias: bool = True
    activation: str = "relu"
    has_two: bool = False
    """Whether each language has its own vocabulary."""
    tags: tuple[str, ...] = ()
    """Tags of target languages, in a vocabulary in YAML."""
    in_yaml: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    """Other settings of the model; None removes one."""

    @property
    def segmenters(self) -> list[bytes]:
        """The SentencePiece models of both languages."""
        return [segmenter(name) for name in (("de", "en") if self.has_two else ("both", "both"))]

    @property
    def vocabularies(self) -> list[list[str]]:
        """The pieces of both languages."""
        return [[*pieces_of(model), *(f">>{tag}<<" for tag in self.tags)] for model in self.segmenters]

    def arrays(self) -> Arrays:
        """Return the arrays of a model, without its settings."""
        rng = np.random.default_rng(1)

        def matrix(rows: int, columns: int, scale: float = 0.5) -> np.ndarray[Any, Any]:
            return rng.normal(scale=scale, size=(rows, columns)).astype(np.float32)

        src, tgt = map(len, self.vocabularies)
        arrays = {"Wemb": matrix(src, D_MODEL)}
        if self.tied in ("target", "none"):
            arrays = {"encoder_Wemb": matrix(src, D_MODEL), "decoder_Wemb": matrix(tgt, D_MODEL)}
        if self.tied in ("src", "none"):
            arrays["decoder_ff_logit_out_Wt"] = matrix(tgt, D_MODEL)
        if self.has_bias:
            arrays["decoder_ff_logit_out_b"] = matrix(1, tgt, 1.0)
        layers = [("encoder_l1", ["self"]), ("decoder_l1", ["self", "context"]), ("decoder_l2", ["self", "context"])]
        for layer, attentions in layers:
            for name in attentions:
                for part in "qkvo":
                    arrays[f"{layer}_{name}_W{part}"] = matrix(D_MODEL, D_MODEL)
                    arrays[f"{layer}_{name}_b{part}"] = matrix(1, D_MODEL)
            arrays[f"{layer}_ffn_W1"], arrays[f"{layer}_ffn_b1"] = matrix(D_MODEL, D_FF), matrix(1, D_FF)
            arrays[f"{layer}_ffn_W2"], arrays[f"{layer}_ffn_b2"] = matrix(D_FF, D_MODEL), matrix(1, D_MODEL)
            for norm in [*(f"{name}_Wo" for name in attentions), "ffn_ffn"]:
                arrays[f"{layer}_{norm}_ln_scale"] = 1 + matrix(1, D_MODEL, 0.1)
                arrays[f"{layer}_{norm}_ln_bias"] = matrix(1, D_MODEL, 0.1)
        return arrays

    def all_settings(self) -> dict[str, Any]:
        """Return the settings of the model."""
        tied = {f"tied-embeddings{suffix}": self.tied == name for name, suffix in _TIED.items()}
        settings = {
            **SETTINGS, **tied, "output-omit-bias": not self.has_bias,
            "transformer-ffn-activation": self.activation, **self.settings,
        }  # fmt: skip
        return {name: value for name, value in settings.items() if value is not None}

    def write(self, folder: Path, arrays: Arrays | None = None, **decoder: Any) -> Arrays:
        """Write a model and its vocabularies, with settings of translation beside it, and return its arrays."""
        folder.mkdir(parents=True)
        arrays = self.arrays() if arrays is None else arrays
        text = json.dumps(self.all_settings()).encode()  # JSON is YAML, too
        settings = np.frombuffer(text + bytes(8), np.int8)
        np.savez(folder / "model.npz", **arrays, **{"special:model.yml": settings})  # type: ignore[arg-type]
        if self.in_yaml:
            names = ["vocab.yml"] * 2 if self.vocabularies[0] == self.vocabularies[1] else ["de.yml", "en.yml"]
            for name, pieces in zip(names, self.vocabularies, strict=True):
                (folder / name).write_text(yaml_of(pieces), encoding="utf-8")
        else:
            names = ["de.spm", "en.spm"] if self.has_two else ["vocab.spm"] * 2
        for name, model in zip(["source.spm", "target.spm"] if self.in_yaml else names, self.segmenters, strict=True):
            (folder / name).write_bytes(model)
        content = {"models": ["/elsewhere/model.npz"], "vocabs": [f"/elsewhere/{name}" for name in names]} | decoder
        (folder / "model.npz.decoder.yml").write_text(json.dumps(content))
        return arrays

    def log_prob(self, arrays: Arrays, src: Sequence[int], tgt: Sequence[int]) -> float:
        """Return the log-probability of a translation, both as ids with `</s>` (nats), as Marian computes it."""
        shared = arrays.get("Wemb")
        src_table, tgt_table = (arrays.get(f"{stack}_Wemb", shared) for stack in ("encoder", "decoder"))
        assert src_table is not None and tgt_table is not None
        memory = self._layer(arrays, "encoder_l1", _embedded(src_table[src]), None)
        embedded = tgt_table[tgt]
        x = _embedded(np.concatenate((np.zeros_like(embedded[:1]), embedded[:-1])))
        for layer in ("decoder_l1", "decoder_l2"):
            x = self._layer(arrays, layer, x, memory)
        logits = x @ arrays.get("decoder_ff_logit_out_Wt", tgt_table).T + arrays.get("decoder_ff_logit_out_b", 0)
        log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        return float(log_probs[range(len(tgt)), tgt].sum())

    def _layer(
        self, arrays: Arrays, layer: str, x: np.ndarray[Any, Any], memory: np.ndarray[Any, Any] | None
    ) -> np.ndarray[Any, Any]:
        part = {name.removeprefix(f"{layer}_"): array for name, array in arrays.items() if name.startswith(layer)}
        mask = np.zeros((len(x), len(x))) if memory is None else np.triu(np.full((len(x), len(x)), -1e9), 1)
        x = _normed(part, "self_Wo", x + _attended(part, "self", x, x, mask))
        if memory is not None:
            mask = np.zeros((len(x), len(memory)))
            x = _normed(part, "context_Wo", x + _attended(part, "context", x, memory, mask))
        inner = x @ part["ffn_W1"] + part["ffn_b1"]
        if self.activation == "relu":
            inner = inner.clip(0)
        elif self.activation == "swish":
            inner = inner / (1 + np.exp(-inner))
        else:
            inner = inner * (1 + np.vectorize(math.erf)(inner / math.sqrt(2))) / 2
        return _normed(part, "ffn_ffn", x + inner @ part["ffn_W2"] + part["ffn_b2"])


_TIED = {"all": "-all", "target": "", "src": "-src"}


def yaml_of(pieces: Sequence[str]) -> str:
    """Return a vocabulary as Marian writes it: with quotes where YAML needs them, of one kind or the other."""
    lines = []
    for i, piece in enumerate(pieces):
        key = piece
        if i % 3 == 0 or not piece.strip("\u2581").isalnum():
            key = json.dumps(piece, ensure_ascii=False) if i % 2 else "'" + piece.replace("'", "''") + "'"
        lines.append(f"{key}: {i}\n")
    return "".join(lines)


def _embedded(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    rates = 10_000.0 ** (-np.arange(D_MODEL // 2) / (D_MODEL // 2 - 1))
    angles = np.arange(len(rows))[:, None] * rates
    return rows * math.sqrt(D_MODEL) + np.concatenate((np.sin(angles), np.cos(angles)), 1)


def _attended(
    part: Arrays, name: str, x: np.ndarray[Any, Any], memory: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    q, k, v = (
        (rows @ part[f"{name}_W{kind}"] + part[f"{name}_b{kind}"]).reshape(len(rows), N_HEADS, -1).swapaxes(0, 1)
        for kind, rows in (("q", x), ("k", memory), ("v", memory))
    )
    weights = np.exp(q @ k.swapaxes(1, 2) / math.sqrt(D_MODEL // N_HEADS) + mask)
    heads = weights / weights.sum(2, keepdims=True) @ v
    return heads.swapaxes(0, 1).reshape(len(x), D_MODEL) @ part[f"{name}_Wo"] + part[f"{name}_bo"]


def _normed(part: Arrays, name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-9)
    return x * part[f"{name}_ln_scale"] + part[f"{name}_ln_bias"]
