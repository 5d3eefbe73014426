"""Conversion of models to the format of CTranslate2, and their shortlists.

A shortlist has the target pieces that the translation of each source piece may need. With it, CTranslate2 computes the
scores of these pieces only, which takes less time than for the whole vocabulary. They are the likeliest
translations by IBM model 1 (Brown et al., 1993, aclanthology.org/J93-2003), learned from training pairs in seconds.

Legend: K different links of pieces, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from nmt.data.corpus import Corpus, lines_of
from nmt.data.lines import Indices, Lines
from nmt.errors import ConfigError
from nmt.files.write import write_file
from nmt.model.attention import MultiHeadAttention
from nmt.model.settings import ModelConfig
from nmt.model.transformer import ACTIVATIONS, DecoderLayer, EncoderLayer, SubLayer, Transformer
from nmt.runs.kinds import Quantization
from nmt.text.ids import EOS, N_SPECIAL, PAD, UNK
from nmt.text.lexicon import expected_counts, links
from nmt.text.tokenizer import Tokenizer

CTRANSLATE2_MISSING = "CTranslate2 is not installed; install it with pip install ctranslate2"


def library() -> ModuleType:
    """Import the package ctranslate2. Raises ConfigError if it is not installed."""
    try:
        import ctranslate2  # optional
    except ImportError as error:
        raise ConfigError(CTRANSLATE2_MISSING) from error
    module: ModuleType = ctranslate2
    return module


def save_ctranslate2(
    model: Transformer,
    config: ModelConfig,
    n_positions: int,
    vocabularies: tuple[Sequence[str], Sequence[str]],
    quantization: Quantization,
    directory: Path,
) -> None:
    """Write model.bin and the files that CTranslate2 reads with it.

    n_positions: the longest sequence, with sinusoidal positions. vocabularies: the pieces of source and target.
    CTranslate2 adds `</s>` to sources itself. Raises ConfigError if the package is not installed, and OSError.
    """
    library()
    from ctranslate2.specs import common_spec, transformer_spec

    spec = transformer_spec.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.n_heads,
        pre_norm=config.norm == "pre",
        activation=common_spec.Activation[ACTIVATIONS[config.activation].ctranslate2],
    )
    for stack_spec, embeddings, stack in (
        (spec.encoder, spec.encoder.embeddings[0], model.encoder),
        (spec.decoder, spec.decoder.embeddings, model.decoder),
    ):
        # both libraries scale by sqrt(D), but their sinusoidal positions differ
        embeddings.weight = _array(stack.embedding.weight)
        stack_spec.position_encodings.encodings = _array(stack.embedding.positions.first(n_positions))
        layers: Sequence[EncoderLayer | DecoderLayer] = stack.layers
        for layer_spec, layer in zip(stack_spec.layer, layers, strict=True):
            _layer(layer_spec, layer)
        if config.norm == "pre":
            _norm(stack_spec.layer_norm, stack.last_norm)
    spec.decoder.projection.weight = _array(model.output_weight)
    if model.output_bias is not None:
        spec.decoder.projection.bias = _array(model.output_bias)
    source, target = vocabularies
    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    spec.config.add_source_eos = True
    # an imported vocabulary may have a piece of its own that is spelled <s>
    spec.config.bos_token = spec.config.decoder_start_token = target[model.decoder.embedding.start]
    spec.config.unk_token = target[UNK]
    spec.config.eos_token = target[EOS]
    spec.config.layer_norm_epsilon = model.encoder.layers[0].attention_residual.norm.eps
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(directory))


def _layer(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    """Set the weights of a layer."""
    _attention(spec.self_attention, layer.attention, layer.attention_residual)
    if isinstance(layer, DecoderLayer):
        assert layer.cross_attention is not None, "a translator attends to its source"
        _attention(spec.attention, layer.cross_attention, layer.cross_attention_residual)
    _linear(spec.ffn.linear_0, layer.feed_forward.inner)
    _linear(spec.ffn.linear_1, layer.feed_forward.outer)
    _norm(spec.ffn.layer_norm, layer.feed_forward_residual.norm)


def _attention(spec: Any, attention: MultiHeadAttention, residual: SubLayer) -> None:
    """Set the weights of an attention module.

    Query, key and value share one projection; in cross-attention the query has its own.
    """
    d = attention.d_model
    parts = [slice(None)] if len(spec.linear) == 2 else [slice(d), slice(d, None)]
    for linear, part in zip(spec.linear, parts, strict=False):
        linear.weight = _array(attention.in_weight[part])
        linear.bias = _array(attention.in_bias[part])
    _linear(spec.linear[-1], attention.output)
    _norm(spec.layer_norm, residual.norm)


def _linear(spec: Any, linear: nn.Linear) -> None:
    spec.weight = _array(linear.weight)
    spec.bias = _array(linear.bias)


def _norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma = _array(norm.weight)
    spec.beta = _array(norm.bias)


def _array(tensor: Tensor) -> npt.NDArray[np.float32]:
    """Return a float32 copy, which quantization may overwrite."""
    return np.array(tensor.detach().float().cpu().numpy())


SHORTLIST = "vmap.txt"
"""The name of the file that CTranslate2 expects."""
N_PER_PIECE = 20
"""Number of translations of a source piece."""
N_FREQUENT = 200
"""Number of frequent target pieces that are always included."""
MAX_LINKS = 20_000_000
"""Maximum number of links of a direction; more take too much memory. Fewer pairs are read where sentences are long."""
N_ITERATIONS = 4


def write_shortlist(
    folder: Path, corpora: Iterable[tuple[Corpus, str, str]], tokenizers: tuple[Tokenizer, Tokenizer]
) -> None:
    """Write the shortlist of a CTranslate2 model.

    corpora: the corpus, source and target language of each direction; tokenizers: of the sources and the targets.
    """
    src, tgt = (tokenizer.pieces(range(tokenizer.n_pieces)) for tokenizer in tokenizers)
    translations = {i: set[int]() for i in range(N_SPECIAL, len(src))}
    frequent = set()
    for corpus, *languages in corpora:
        (sources, targets), probabilities, often = _learn(corpus, languages, len(tgt))
        frequent.update(often.tolist())
        order = np.lexsort((-probabilities, sources))
        starts = np.searchsorted(sources[order], np.arange(len(src) + 1))
        for i, of_piece in translations.items():
            of_piece.update(targets[order[starts[i] : starts[i + 1]][:N_PER_PIECE]].tolist())
    ids = {piece: i for i, piece in enumerate(tgt)}
    lines = [_line("", frequent, tgt)]
    for i, of_piece in translations.items():
        if src[i] in ids:  # names are often copied
            of_piece.add(ids[src[i]])
        lines.append(_line(src[i], of_piece, tgt))
    write_file(folder / SHORTLIST, "".join(lines).encode())


def _line(piece: str, ids: Iterable[int], tgt: Sequence[str]) -> str:
    """Return the line of a source piece, with the target pieces in the order of their ids."""
    translations = [tgt[i] for i in sorted(ids) if i >= N_SPECIAL]
    return f"{piece}\t{' '.join(translations)}\n"


def _learn(
    corpus: Corpus, languages: Sequence[str], n_pieces: int
) -> tuple[tuple[Indices, Indices], npt.NDArray[np.float64], Indices]:
    """Return the K links of a direction, as source and target pieces, the probability of the target piece given the
    source piece (K,), and the most frequent target pieces."""
    src_language, tgt_language = languages
    src = [lines_of(split, src_language) for split in corpus.train_splits]
    tgt = [lines_of(split, tgt_language) for split in corpus.train_splits]
    n_links = int((_n_ids(src) * _n_ids(tgt)).sum())
    step = max(1, -(-n_links // MAX_LINKS))
    src_ids, n_src = _every(step, src)
    tgt_ids, n_tgt = _every(step, tgt)
    tgt_token, src_token = links(n_tgt, n_src)
    linked = src_ids[src_token] * n_pieces + tgt_ids[tgt_token]
    del src_token  # large
    keys, kinds = np.unique(linked, return_inverse=True)
    sources = keys // n_pieces
    targets = keys % n_pieces
    counts, totals = expected_counts(kinds, tgt_token, sources, N_ITERATIONS)
    frequencies = np.bincount(tgt_ids, minlength=n_pieces)
    often = np.argsort(-frequencies, kind="stable")[:N_FREQUENT].astype(np.int64)
    return (sources, targets), counts / totals, often


def _n_ids(files: Sequence[Lines]) -> Indices:
    """Return the number of ids of each line, with `</s>`."""
    return np.concatenate([lines.n_ids() + 1 for lines in files]).astype(np.int64)


def _every(step: int, files: Sequence[Lines]) -> tuple[Indices, Indices]:
    """Return the ids of every `step`-th line of each file, with `</s>`, and their number in each of these lines."""
    ids = []
    sizes = []
    for lines in files:
        block = lines.gather(np.arange(0, len(lines), step), EOS)
        is_id = block != PAD
        ids.append(block[is_id])
        sizes.append(is_id.sum(1))
    return np.concatenate(ids), np.concatenate(sizes)
