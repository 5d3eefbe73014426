"""Export to Hugging Face transformers: renamed weights, settings and tokenizer.json.

SentencePiece writes a space as U+2581. Here pieces have plain spaces, so that a U+2581 of the text is encoded as bytes
like any other character without a piece.

`AutoModelForSeq2SeqLM` and `AutoTokenizer` load the directory. Writing it requires no other package.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]
from torch import Tensor, nn

from nmt.config import Config
from nmt.files.write import write_file
from nmt.model.attention import MultiHeadAttention
from nmt.model.embedding import SinusoidalPositions, sinusoidal_table
from nmt.model.settings import ModelConfig
from nmt.model.transformer import ACTIVATIONS, DecoderLayer, EncoderLayer, Transformer
from nmt.runs.checkpoint import save_tensors
from nmt.search.forced import made_up
from nmt.share.formats import TRANSFORMERS_CLASSES
from nmt.text.ids import BOS, EOS, N_SPECIAL, PAD, UNK
from nmt.text.imported import ImportedVocabulary
from nmt.text.tokenizer import Tokenizer
from nmt.text.vocabularies import Tokenizers
from nmt.translate.segment import MAX_PIECES_FACTOR, longest_translation

FAIRSEQ_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
"""The first pieces of M2M-100 and NLLB."""

LANGUAGE_CODES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps "
    "pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
"""The languages whose tags follow the pieces of M2M-100, by `language_codes` of tokenizer_config.json."""

MARIAN_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
"""The values of activation_function in Marian models, and of `model.activation` here."""


_LOSSLESS = r"""
{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "normalizer": {"type": "Sequence", "normalizers": [
    {"type": "Replace", "pattern": {"Regex": "(?!\\t)\\p{Cc}"}, "content": " "},
    {"type": "Prepend", "prepend": " "}
  ]},
  "pre_tokenizer": null,
  "post_processor": {
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
    "pair": [
      {"Sequence": {"id": "A", "type_id": 0}},
      {"Sequence": {"id": "B", "type_id": 0}},
      {"SpecialToken": {"id": "</s>", "type_id": 0}}
    ],
    "special_tokens": {"</s>": {"id": "</s>", "ids": [3], "tokens": ["</s>"]}}
  },
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    {"type": "Replace", "pattern": {"Regex": "(?!\\t)\\p{Cc}"}, "content": " "}
  ]},
  "model": {
    "type": "BPE",
    "dropout": null,
    "unk_token": "<unk>",
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": true,
    "ignore_merges": false
  }
}
"""
"""The content of tokenizer.json for a `LosslessTokenizer`, besides its pieces. The pattern matches the characters of
`nmt.text.tokenizer.CONTROL`; Prepend adds nothing to an empty text."""

_SEGMENTER = """
{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "normalizer": {"type": "Sequence", "normalizers": [
    {"type": "Strip", "strip_left": true, "strip_right": true},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
  ]},
  "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true},
  "post_processor": null,
  "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true},
  "model": {
    "type": "BPE",
    "dropout": null,
    "unk_token": "<unk>",
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": true,
    "byte_fallback": false,
    "ignore_merges": false
  }
}
"""
"""The content of tokenizer.json for a SentencePiece model, besides its pieces. transformers adds NLLB's tags itself."""


END: dict[str, Any] = json.loads(_LOSSLESS)["post_processor"]
"""The step of tokenizer.json that adds `</s>`."""


def tokenizer_json(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the content of tokenizer.json."""
    pieces = [piece.replace("\u2581", " ") for piece in tokenizer.pieces(range(len(tokenizer)))]
    added = {i: i < N_SPECIAL for i in range(len(pieces)) if tokenizer.is_special(i)}
    return _with_pieces(_LOSSLESS, pieces, pieces[tokenizer.first_learned : tokenizer.n_pieces], added)


def segmenter_json(model: bytes, pieces: Sequence[str], added: Mapping[int, bool]) -> dict[str, Any]:
    """Return the content of tokenizer.json of a SentencePiece model of pairs (BPE), without special pieces at the ends.

    model: the serialised model. pieces: all pieces by their ids. added: see `_with_pieces`.
    """
    proto = ModelProto.FromString(model)
    learned = [piece.piece for piece in sorted(proto.pieces, key=lambda piece: -piece.score)]
    content = _with_pieces(_SEGMENTER, pieces, learned, added)
    if charsmap := base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode():
        step = {"type": "Precompiled", "precompiled_charsmap": charsmap}
        content["normalizer"]["normalizers"].insert(0, step)
    return content


def _with_pieces(
    content: str, pieces: Sequence[str], learned: Sequence[str], added: Mapping[int, bool]
) -> dict[str, Any]:
    """Return the content of tokenizer.json with pieces by id, and learned ones in the order in which they are merged.

    added: whether the piece of an id is special, for ids of special pieces and of tags, which users write before text.
    """
    result: dict[str, Any] = json.loads(content)
    flags = {"single_word": False, "lstrip": False, "normalized": False}
    result["added_tokens"] = [
        {"id": i, "content": pieces[i], "rstrip": not is_special, "special": is_special, **flags}
        for i, is_special in added.items()
    ]
    result["model"] |= {"vocab": ids_of(pieces), "merges": [*merges_of(learned)]}
    return result


def tokenizer_config(max_length: int) -> dict[str, Any]:
    """Return the content of tokenizer_config.json. max_length: maximum length of a source, including `</s>`."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": max_length,
        "padding_side": "right",
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # a "</s>" of the text is text
    }


def merges_of(pieces: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the merges, pairs of learned pieces that form another one, in the order of their priority.

    SentencePiece merges any two neighbours that form a piece, the piece with the lowest id first.
    """
    known = set(pieces)
    for piece in pieces:
        for i in range(1, len(piece)):
            if piece[:i] in known and piece[i:] in known:
                yield piece[:i], piece[i:]


def save_transformers(
    model: Transformer, config: Config, tokenizers: Tokenizers, n_positions: int, directory: Path
) -> None:
    """Write weights, configuration, search settings and tokenizer to `directory`. Raises OSError.

    An imported model is written with its original ids. The configuration must have passed `check_format` and have no
    settings of `lost_settings`. n_positions: maximum length of a sequence, including `</s>`.
    """
    imported = tokenizers.imported
    n_stored = n_positions if imported is None or config.model.positions == "marian" else 0
    tensors = {name: tensor.detach().float() for name, tensor in _tensors(model, n_stored, imported)}
    save_tensors(directory / "model.safetensors", tensors, {"format": "pt"})
    max_source = min(MAX_PIECES_FACTOR * config.data.max_pieces + 1, n_positions)
    sizes = [len(tokenizers[language]) for language in config.data.sides]
    ids = special_ids(imported, model.decoder.embedding.start)
    files = {
        "config.json": model_settings(config.model, sizes, n_positions) | ids,
        "generation_config.json": generation_settings(config, n_positions) | ids,
    }
    src, tgt = tokenizers.sides(config.data.direction)
    if imported is None:
        files["generation_config.json"]["suppress_tokens"] = tgt.never_written(config.joins_sentences)
        files |= {"tokenizer.json": tokenizer_json(src), "tokenizer_config.json": tokenizer_config(max_source)}
    elif imported.languages:
        files |= _m2m_files(imported, imported.languages, config.data.sides, src.model, max_source)
        [pieces] = imported.pieces
        files["config.json"]["vocab_size"] = len(pieces)
        tag = imported.languages[config.data.tgt]
        files["generation_config.json"] |= {"forced_bos_token_id": pieces.index(tag)}
        write_file(directory / "sentencepiece.bpe.model", src.model)
    else:
        files |= _marian_files(imported, config.data.sides, max_source)
        files["config.json"] |= {
            "vocab_size": len(imported.pieces[0]),
            "decoder_vocab_size": len(imported.pieces[-1]),
            "share_encoder_decoder_embeddings": tokenizers.joint,
        }
        files["generation_config.json"]["bad_words_ids"] = [[ids["pad_token_id"]]]
        write_file(directory / "source.spm", src.model)
        write_file(directory / "target.spm", tgt.model)
    for name, content in files.items():
        write_file(directory / name, f"{json.dumps(content, ensure_ascii=False, indent=2)}\n".encode())


def _m2m_files(
    imported: ImportedVocabulary, tag_of: Mapping[str, str], sides: tuple[str, str], model: bytes, max_source: int
) -> dict[str, Any]:
    """Return the files of the tokenizer of M2M-100 or NLLB. model: its serialised SentencePiece model."""
    [pieces] = imported.pieces
    tags = [*dict.fromkeys(tag_of.values())]
    source, target = (tag_of[language].strip("_") for language in sides)
    settings: dict[str, Any] = {
        "tokenizer_class": "NllbTokenizer",
        "src_lang": source,
        "tgt_lang": target,
        "additional_special_tokens": tags,
        "model_max_length": max_source,
        "split_special_tokens": True,  # a "</s>" or "deu_Latn" of the text is text
    }
    files = {"tokenizer_config.json": settings}
    if imported.has_fixed_tags:
        settings["tokenizer_class"] = "M2M100Tokenizer"
        settings["language_codes"] = "m2m100" if "__af__" in tags else "wmt21"  # its two lists
        files["vocab.json"] = ids_of(pieces[: pieces.index(tags[0])])
    else:
        special = {*FAIRSEQ_SPECIAL, *tags, "<mask>"}
        added = {i: True for i, piece in enumerate(pieces) if piece in special}
        files["tokenizer.json"] = segmenter_json(model, pieces, added)
    return files


def _marian_files(imported: ImportedVocabulary, sides: tuple[str, str], max_source: int) -> dict[str, Any]:
    """Return the files of the tokenizer of Marian."""
    files: dict[str, Any] = {}
    for name, pieces in zip(("vocab.json", "target_vocab.json"), imported.pieces, strict=False):
        files[name] = ids_of(pieces)
    files["tokenizer_config.json"] = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": sides[0],
        "target_lang": sides[1],
        "separate_vocabs": len(imported.pieces) > 1,
        "pad_token": imported.padding,
        "unk_token": imported.unknown,
        "eos_token": imported.end,
        "model_max_length": max_source,
        "split_special_tokens": True,
    }
    return files


def ids_of(pieces: Sequence[str]) -> dict[str, int]:
    """Return the numbers of pieces."""
    return {piece: i for i, piece in enumerate(pieces)}


def made_up_log_prob(directory: Path, imported: ImportedVocabulary | None) -> float:
    """Return the mean log-probability of a piece of `made_up` by an exported model in transformers (nats)."""
    import transformers  # optional

    transformers.logging.disable_progress_bar()
    exported = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory)
    rows: Sequence[Sequence[int | None]] = [range(exported.config.vocab_size)] * 2
    if imported is not None:
        rows = imported.original_rows(0), imported.original_rows(1)
    losses = []
    for pair in made_up(min(map(len, rows))):
        sides = []
        for of_side, ids in zip(rows, pair, strict=True):
            sides.append(torch.tensor([[*map(of_side.__getitem__, ids), exported.config.eos_token_id]]))
        src, tgt = sides
        losses.append(float(exported(src, labels=tgt).loss.detach()))
    return -sum(losses) / len(losses)


# --- weights --------------------------------------------------------------------------------------

TensorPart = tuple[str, Tensor, tuple[int, ...]]
"""The name of a tensor in transformers, a view of the weights here, and its dimensions that count units of hidden
states."""
TABLE_NAMES = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
"""The names of tables of embeddings: of both languages, of each, and of the output."""
OUTPUT_BIAS = "final_logits_bias"


def units_of(model: Transformer) -> Tensor:
    """Return the indices of the units of hidden states in the order of transformers.

    In Pegasus and Marian, the sines of a position precede its cosines instead of alternating with them. Marian computes
    them itself, so the units of all hidden states are reordered.
    """
    units = torch.arange(model.encoder.embedding.weight.size(1))
    positions = model.encoder.embedding.positions
    alternate = isinstance(positions, SinusoidalPositions) and positions.make is sinusoidal_table
    return torch.cat((units[::2], units[1::2])) if alternate else units


def tables_of(model: Transformer) -> Iterator[tuple[list[str], Tensor, Literal[0, 1]]]:
    """Yield the embedding tables and the output weight, unless it is tied: the names of each in transformers, the first
    of which is written, the table (V, D), and the side of its vocabulary, 0 for the source."""
    shared, encoder, decoder, output = TABLE_NAMES
    src_table = model.encoder.embedding.weight
    tgt_table = model.decoder.embedding.weight
    is_tied = model.output is None
    if src_table is tgt_table:
        names = [shared, encoder, decoder]
        if is_tied:
            names.append(output)
        yield names, tgt_table, 1
    elif is_tied:
        yield [encoder], src_table, 0
        yield [decoder, output], tgt_table, 1
    else:
        yield [encoder, shared], src_table, 0  # transformers 5 stores the shared table with untied weights
        yield [decoder], tgt_table, 1
    if model.output is not None:
        yield [output], model.output, 1


def weights_of(model: Transformer) -> Iterator[TensorPart]:
    """Yield all other weights, except positions and the output bias."""
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        layers: Sequence[EncoderLayer | DecoderLayer] = stack.layers
        for i, layer in enumerate(layers):
            for part, tensor, dims in _layer(layer):
                yield f"model.{name}.layers.{i}.{part}", tensor, dims
        if not isinstance(stack.norm, nn.Identity):
            for part, tensor, dims in _norm("layer_norm", stack.norm):
                yield f"model.{name}.{part}", tensor, dims


def _layer(layer: EncoderLayer | DecoderLayer) -> Iterator[TensorPart]:
    yield from _attention("self_attn", layer.attention)
    yield from _norm("self_attn_layer_norm", layer.attention_residual.norm)
    if isinstance(layer, DecoderLayer):
        assert layer.cross_attention is not None, "a translator attends to its source"
        yield from _attention("encoder_attn", layer.cross_attention)
        yield from _norm("encoder_attn_layer_norm", layer.cross_attention_residual.norm)
    inner = layer.feed_forward.inner
    outer = layer.feed_forward.outer
    yield from (("fc1.weight", inner.weight, (1,)), ("fc1.bias", inner.bias, ()))
    yield from (("fc2.weight", outer.weight, (0,)), ("fc2.bias", outer.bias, (0,)))
    yield from _norm("final_layer_norm", layer.feed_forward_residual.norm)


def _attention(name: str, attention: MultiHeadAttention) -> Iterator[TensorPart]:
    for part, weight, bias in zip("qkv", attention.in_weight.chunk(3), attention.in_bias.chunk(3), strict=True):
        yield from ((f"{name}.{part}_proj.weight", weight, (1,)), (f"{name}.{part}_proj.bias", bias, ()))
    output = attention.output
    yield from ((f"{name}.out_proj.weight", output.weight, (0,)), (f"{name}.out_proj.bias", output.bias, (0,)))


def _norm(name: str, norm: nn.LayerNorm) -> list[TensorPart]:
    return [(f"{name}.weight", norm.weight, (0,)), (f"{name}.bias", norm.bias, (0,))]


def _tensors(model: Transformer, n_positions: int, imported: ImportedVocabulary | None) -> Iterator[tuple[str, Tensor]]:
    """Yield all tensors with their names in transformers; tied tensors appear once.

    n_positions: the number of positions; 0: transformers computes them.
    """
    units = units_of(model)
    for names, table, side in tables_of(model):
        # Marian's decoder starts with padding
        starts_with_pad = imported is not None and not imported.languages
        pad = BOS if starts_with_pad and table is model.decoder.embedding.weight else PAD
        rows = slice(None) if imported is None else _ids_by_row(imported, side, pad)
        yield names[0], table[rows][:, units]
    if model.output_bias is not None and (imported is None or not imported.languages):
        bias: Tensor = model.output_bias
        if imported is not None:
            bias = bias[_ids_by_row(imported, 1, PAD)]
        yield OUTPUT_BIAS, bias[None]
    for name, tensor, dims in weights_of(model):
        for dim in dims:
            tensor = tensor.index_select(dim, units)
        yield name, tensor
    if n_positions:
        for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
            positions = stack.embedding.positions.first(n_positions)[:, units]
            yield f"model.{name}.embed_positions.weight", positions


def _ids_by_row(imported: ImportedVocabulary, side: Literal[0, 1], pad: int) -> list[int]:
    """Return the id of each piece of the public model, by its original id. pad: the id of padding."""
    ids = {row: i for i, row in enumerate(imported.original_rows(side)) if row is not None}
    ids[imported.original(side).index(imported.padding)] = pad
    return [ids[row] for row in range(len(ids))]


# --- settings -------------------------------------------------------------------------------------


def special_ids(imported: ImportedVocabulary | None, start: int) -> dict[str, int]:
    """Return the special ids. A translation begins with `start`, in a Marian model with padding, in an M2M-100 model
    with `</s>`, and always ends with `</s>`."""
    pad = PAD
    unk = UNK
    end = EOS
    if imported is not None:
        target = imported.original(1)
        pad, unk, end = (target.index(piece) for piece in (imported.padding, imported.unknown, imported.end))
        start = end if imported.languages else pad
    return {
        "pad_token_id": pad,
        "unk_token_id": unk,
        "bos_token_id": start,
        "eos_token_id": end,
        "decoder_start_token_id": start,
        "forced_eos_token_id": end,
    }


def model_settings(config: ModelConfig, n_pieces: Sequence[int], n_positions: int) -> dict[str, Any]:
    """Return the content of config.json, without special ids."""
    kind, name = TRANSFORMERS_CLASSES.get((config.norm, config.positions), TRANSFORMERS_CLASSES["post", "sinusoidal"])
    stacks = (("encoder", config.encoder_layers), ("decoder", config.decoder_layers))
    return {
        "architectures": [name],
        "model_type": kind,
        "vocab_size": n_pieces[0],
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
        "tie_word_embeddings": config.tie_embeddings != "none",
        "use_cache": True,
        "dtype": "float32",
        **({"encoder_no_repeat_ngram_size": 0} if kind == "blenderbot" else {}),
    }


def generation_settings(config: Config, n_positions: int) -> dict[str, Any]:
    """Return the content of generation_config.json, of the search settings without the `lost_settings`.

    All translations have the maximum length of a source with data.max_pieces pieces.
    """
    search = config.search
    limit = longest_translation(range(config.data.max_pieces), 0, search, n_positions)
    settings: dict[str, Any] = {
        "max_length": limit + 1,  # `<s>` is counted
        "encoder_no_repeat_ngram_size": 0,
        "no_repeat_ngram_size": search.no_repeat_ngram,
        "min_length": 0,
        "num_beams": search.beam,
    }
    if search.min_length:
        settings["min_length"] = search.min_length + 1
    if search.sample:
        settings |= {
            "num_beams": 1,
            "do_sample": True,
            "temperature": search.temperature,
            "top_k": search.top_k,
            "top_p": search.top_p,
        }
    elif search.beam > 1:
        settings |= {"length_penalty": search.length_penalty, "early_stopping": False}
    return settings
