"""Export to Hugging Face transformers: renamed weights, settings and tokenizer.json.

SentencePiece writes a space as U+2581. Here pieces have plain spaces, so that a U+2581 of the text is encoded as bytes
like any other character without a piece.

`AutoModelForSeq2SeqLM` and `AutoTokenizer` load the directory. Writing it requires no other package.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from nmt.config import Config, ModelConfig, SearchConfig
from nmt.errors import ConfigError
from nmt.files.write import write_file
from nmt.model.attention import MultiHeadAttention
from nmt.model.embedding import LearnedPositions
from nmt.model.transformer import ACTIVATIONS, Decoder, DecoderLayer, Encoder, EncoderLayer, Transformer
from nmt.text.tokenizer import BOS, EOS, N_SPECIAL, PAD, UNK, Tokenizer
from nmt.translate.sentences import MAX_PIECES_FACTOR, longest_translation

_CONTROL = {"Regex": r"(?!\t)\p{Cc}"}
"""A pattern that matches the characters of `nmt.text.tokenizer.CONTROL`."""


def tokenizer_json(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the content of tokenizer.json."""
    pieces = [piece.replace("\u2581", " ") for piece in tokenizer.pieces(range(len(tokenizer)))]
    end = pieces[EOS]
    sequence, ends = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special(i, piece) for i, piece in enumerate(pieces[:N_SPECIAL])],
        "normalizer": _sequence(
            "normalizers",
            {"type": "Replace", "pattern": _CONTROL, "content": " "},
            {"type": "Prepend", "prepend": " "},  # adds nothing to an empty text
        ),
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [sequence, ends],
            "pair": [sequence, {"Sequence": {"id": "B", "type_id": 0}}, ends],
            "special_tokens": {end: {"id": end, "ids": [EOS], "tokens": [end]}},
        },
        "decoder": _sequence(
            "decoders",
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            {"type": "Replace", "pattern": _CONTROL, "content": " "},
        ),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": pieces[UNK],
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": {piece: i for i, piece in enumerate(pieces)},
            "merges": list(_merges(pieces[tokenizer.first_learned :])),
        },
    }


def tokenizer_config(tokenizer: Tokenizer, max_length: int) -> dict[str, Any]:
    """Return the content of tokenizer_config.json. max_length: maximum length of a source, including `</s>`."""
    pad, unk, bos, eos = tokenizer.pieces([PAD, UNK, BOS, EOS])
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": pad,
        "unk_token": unk,
        "bos_token": bos,
        "eos_token": eos,
        "model_max_length": max_length,
        "padding_side": "right",
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # a "</s>" of the text is text
    }


def _special(i: int, piece: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": i, "content": piece, **flags}


def _sequence(kind: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", kind: list(steps)}


def _merges(pieces: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the merges, pairs of learned pieces that form another one, in the order of their priority.

    SentencePiece merges any two neighbours that form a piece, the piece with the lowest id first.
    """
    known = set(pieces)
    for piece in pieces:
        for i in range(1, len(piece)):
            if piece[:i] in known and piece[i:] in known:
                yield piece[:i], piece[i:]


_CLASSES = {
    ("pre", "sinusoidal"): ("pegasus", "PegasusForConditionalGeneration"),
    ("pre", "learned"): ("blenderbot", "BlenderbotForConditionalGeneration"),
    ("post", "sinusoidal"): ("marian", "MarianMTModel"),
}
"""Type and class of the equivalent model in transformers, by norm and positions."""
_OTHERS = "use --format folder or ctranslate2"

_NOT_CARRIED = (
    "coverage_penalty", "diversity_groups", "mbr", "lm", "protect", "inline_terms",
)  # fmt: skip


def check_held(run: Path, config: Config) -> None:
    """Raise ConfigError with all reasons if no class of transformers is equivalent to the model."""
    model, problems = config.model, []
    if (model.norm, model.positions) not in _CLASSES:
        problems.append(
            f"{run}: transformers has no model with model.norm: {model.norm} and model.positions: {model.positions}; "
            f"{_OTHERS}, or train with another norm or positions"
        )
    if model.tie_embeddings != "all":
        problems.append(
            f"{run}: model.tie_embeddings: {model.tie_embeddings}, but transformers supports only all; {_OTHERS}, "
            "or train with all"
        )
    if problems:
        raise ConfigError(problems)


def not_carried(search: SearchConfig) -> list[str]:
    """Return the search settings in use that have no equivalent in transformers."""
    off = SearchConfig()
    names = [name for name in _NOT_CARRIED if getattr(search, name) != getattr(off, name)]
    if search.length_penalty_kind != "power" and search.length_penalty:
        names.append("length_penalty_kind")
    if search.split == "always":
        names.append("split")
    return [f"search.{name}" for name in sorted(names)]


def save_transformers(
    model: Transformer, config: Config, tokenizer: Tokenizer, n_positions: int, directory: Path
) -> None:
    """Write weights, configuration, search settings and tokenizer to `directory`. Raises OSError.

    The configuration must have passed `check_held`. n_positions: maximum length of a sequence, including `</s>`.
    """
    tensors = {name: tensor.detach().float().cpu().clone() for name, tensor in _tensors(model, n_positions)}
    n_learned, n_written = (
        sum(weight.numel() for name, weight in weights.items() if "positions" not in name)
        for weights in (dict(model.named_parameters()), tensors)
    )
    assert n_written == n_learned, "transformers has no place for some weights"
    write_file(directory / "model.safetensors", save(tensors, metadata={"format": "pt"}))
    max_source = min(MAX_PIECES_FACTOR * config.data.max_pieces + 1, n_positions)
    for name, content in {
        "config.json": _config(config.model, len(tokenizer), n_positions),
        "generation_config.json": _generation(config, n_positions),
        "tokenizer.json": tokenizer_json(tokenizer),
        "tokenizer_config.json": tokenizer_config(tokenizer, max_source),
    }.items():
        write_file(directory / name, f"{json.dumps(content, ensure_ascii=False, indent=2)}\n".encode())


# --- weights --------------------------------------------------------------------------------------


def _tensors(model: Transformer, n_positions: int) -> Iterator[tuple[str, Tensor]]:
    """Yield all tensors with their names in transformers; tied tensors appear once.

    In Pegasus and Marian, the sines of a position precede its cosines instead of alternating with them. Marian computes
    them itself, so the units of all hidden states are reordered.
    """
    weight, learned = model.encoder.embedding.weight, model.encoder.embedding.positions
    units = torch.arange(weight.size(1))
    if not isinstance(learned, LearnedPositions):
        units = torch.cat((units[::2], units[1::2]))
    yield "model.shared.weight", weight[:, units]
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        yield f"model.{name}.embed_positions.weight", stack.embedding.positions.first(n_positions)[:, units]
        for part, of_weight, of_bias in _stack(stack, units):
            yield f"model.{name}.{part}.weight", of_weight
            yield f"model.{name}.{part}.bias", of_bias


def _stack(stack: Encoder | Decoder, units: Tensor) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield the name, weight and bias of each part of an encoder or decoder."""
    layers: Sequence[EncoderLayer | DecoderLayer] = stack.layers
    for i, layer in enumerate(layers):
        for name, weight, bias in _layer(layer, units):
            yield f"layers.{i}.{name}", weight, bias
    if not isinstance(stack.norm, nn.Identity):
        yield _norm("layer_norm", stack.norm, units)


def _layer(layer: EncoderLayer | DecoderLayer, units: Tensor) -> Iterator[tuple[str, Tensor, Tensor]]:
    yield from _attention("self_attn", layer.attention, units)
    yield _norm("self_attn_layer_norm", layer.attention_residual.norm, units)
    if isinstance(layer, DecoderLayer):
        assert layer.cross_attention is not None, "a translator attends to its source"
        yield from _attention("encoder_attn", layer.cross_attention, units)
        yield _norm("encoder_attn_layer_norm", layer.cross_attention_residual.norm, units)
    inner, outer = layer.feed_forward.inner, layer.feed_forward.outer
    yield "fc1", inner.weight[:, units], inner.bias
    yield "fc2", outer.weight[units], outer.bias[units]
    yield _norm("final_layer_norm", layer.feed_forward_residual.norm, units)


def _attention(name: str, attention: MultiHeadAttention, units: Tensor) -> Iterator[tuple[str, Tensor, Tensor]]:
    weights, biases = attention.in_weight[:, units].chunk(3), attention.in_bias.chunk(3)
    for part, weight, bias in zip("qkv", weights, biases, strict=True):
        yield f"{name}.{part}_proj", weight, bias
    yield f"{name}.out_proj", attention.output.weight[units], attention.output.bias[units]


def _norm(name: str, norm: nn.LayerNorm, units: Tensor) -> tuple[str, Tensor, Tensor]:
    return name, norm.weight[units], norm.bias[units]


# --- settings -------------------------------------------------------------------------------------


def _ids() -> dict[str, int]:
    """Return the special ids. A translation begins with `<s>` and always ends with `</s>`."""
    return {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": EOS,
    }


def _config(config: ModelConfig, n_pieces: int, n_positions: int) -> dict[str, Any]:
    kind, name = _CLASSES[config.norm, config.positions]
    stacks = (("encoder", config.encoder_layers), ("decoder", config.decoder_layers))
    return {
        "architectures": [name],
        "model_type": kind,
        "vocab_size": n_pieces,
        "d_model": config.d_model,
        **{f"{stack}_layers": n_layers for stack, n_layers in stacks},
        **{f"{stack}_attention_heads": config.n_heads for stack, _ in stacks},
        **{f"{stack}_ffn_dim": config.d_ff for stack, _ in stacks},
        "activation_function": ACTIVATIONS[config.activation].transformers,
        "max_position_embeddings": n_positions,
        "scale_embedding": True,
        "dropout": config.residual_dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "is_encoder_decoder": True,
        "tie_word_embeddings": True,
        "use_cache": True,
        "dtype": "float32",
        "unk_token_id": UNK,
        **_ids(),
        **({"encoder_no_repeat_ngram_size": 0} if kind == "blenderbot" else {}),
    }


def _generation(config: Config, n_positions: int) -> dict[str, Any]:
    """Return the content of generation_config.json: the run's search settings that transformers supports.

    All translations have the maximum length of a source with data.max_pieces pieces.
    """
    search = config.search
    limit = longest_translation(range(config.data.max_pieces), 0, search, n_positions)
    settings: dict[str, Any] = {
        **_ids(),
        "max_length": limit + 1,  # `<s>` is counted
        "suppress_tokens": [i for i in range(N_SPECIAL) if i != EOS],
        "encoder_no_repeat_ngram_size": 0,
        "no_repeat_ngram_size": search.no_repeat_ngram,
        "min_length": search.min_length + 1 if search.min_length else 0,
        "num_beams": 1 if search.sample else search.beam,
    }
    if search.sample:
        settings |= {
            "do_sample": True, "temperature": search.temperature, "top_k": search.top_k, "top_p": search.top_p,
        }  # fmt: skip
    elif search.beam > 1:
        is_power = search.length_penalty_kind == "power" or not search.length_penalty
        settings |= {"length_penalty": search.length_penalty if is_power else 1.0, "early_stopping": False}
    return settings
