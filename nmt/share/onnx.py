"""Export for ONNX Runtime and transformers.js, and a searcher by which it is compared with the run.

The directory has the files of a Marian model of transformers.js. Its tokenizer numbers the pieces as the run does;
pieces of a public tokenizer that its model does not know follow them, and are embedded as unknown ones.

Legend: B sentences, S source length, L tokens of each in a step, V vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]
from torch import Tensor

from nmt.config import Config
from nmt.console import printable_sentence
from nmt.errors import CheckpointError, ConfigError
from nmt.files.write import write_file
from nmt.model.transformer import Transformer
from nmt.runs.kinds import Quantization
from nmt.search.forced import ForcedDecoder
from nmt.search.methods import find_hypotheses
from nmt.search.rules import Rules, ShouldStop
from nmt.search.settings import SearchConfig
from nmt.search.step import Pair, Scores, padded
from nmt.share.onnx_graph import decoder_graph, encoder_graph
from nmt.share.transformers import (
    END,
    generation_settings,
    model_settings,
    segmenter_json,
    special_ids,
    tokenizer_config,
    tokenizer_json,
)
from nmt.text.ids import BOS, EOS, N_SPECIAL, PAD, UNK
from nmt.text.imported import ImportedTokenizer
from nmt.text.tokenizer import Tokenizer
from nmt.text.vocabularies import Tokenizers
from nmt.translate.search import Hypotheses, SearchedBatches, search_batches
from nmt.translate.segment import MAX_PIECES_FACTOR
from nmt.translate.types import Sentence

_OF_TEXT = (ModelProto.SentencePiece.NORMAL, ModelProto.SentencePiece.USER_DEFINED)
UNIGRAM = 1  # of TrainerSpec.ModelType in sentencepiece_model.proto

TARGET = "target"
"""The directory of the tokenizer of translations, if it is not that of sources."""
MOST_DIFFERING = 0.005
"""Maximum share of lines whose pieces may differ, where several spellings are as likely."""
MAX_BYTES = 2**31
"""The size of a file from which on this format does not work."""
_PAIRS = 16  # scored at once
_MARIAN = {"model_type": "marian", "architectures": ["MarianMTModel"]}

PACKAGES = ("onnx", "onnxruntime", "tokenizers")
"""The packages of the extra `onnx`."""


def package(name: str) -> ModuleType:
    """Import a package of the extra `onnx`. Raises ConfigError if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigError(f"{name} is not installed; install it with pip install 'nmt-train[onnx]'") from error


def model_files(directory: Path, quantization: Quantization) -> list[Path]:
    """Return the paths of the encoder and of the decoder."""
    ending = "_quantized" if quantization == "int8" else ""
    return [directory / "onnx" / f"{name}{ending}.onnx" for name in ("encoder_model", "decoder_model_merged")]


def save_onnx(
    model: Transformer,
    config: Config,
    tokenizers: Tokenizers,
    n_positions: int,
    quantization: Quantization,
    directory: Path,
) -> None:
    """Write a model, its settings and its tokenizers. n_positions: the longest sequence, including `</s>`.

    The configuration must have passed `check_format` and have no settings of `lost_settings`.

    Raises ConfigError if the model is too large, and OSError. Requires the package onnx.
    """
    src, tgt = tokenizers.sides(config.data.direction)
    content, rows = _tokenizer(src, encodes=True)
    int8 = quantization == "int8"
    with torch.no_grad():
        graphs = [encoder_graph(model, rows, n_positions, int8), decoder_graph(model, n_positions, int8)]
    (directory / "onnx").mkdir()
    for path, graph in zip(model_files(directory, quantization), graphs, strict=True):
        if graph.ByteSize() >= MAX_BYTES:
            raise ConfigError("the model is too large for this format in float32; use --quantization int8")
        write_file(path, graph.SerializeToString())
    max_source = min(MAX_PIECES_FACTOR * config.data.max_pieces + 1, n_positions)
    start = special_ids(None, model.decoder.embedding.start)
    settings = model_settings(config.model, [len(rows), len(tgt)], n_positions)
    generation = generation_settings(config, n_positions)
    files = {
        "config.json": settings | start | _MARIAN | {"transformers.js_config": {"dtype": "q8" if int8 else "fp32"}},
        "generation_config.json": generation | start | {"suppress_tokens": tgt.never_written(config.joins_sentences)},
        "tokenizer.json": content,
        "tokenizer_config.json": tokenizer_config(max_source),
    }
    if has_target_tokenizer(tokenizers, config.data.direction):
        (directory / TARGET).mkdir()
        files[f"{TARGET}/tokenizer.json"] = _tokenizer(tgt, encodes=False)[0]
        files[f"{TARGET}/tokenizer_config.json"] = tokenizer_config(n_positions)
    for name, value in files.items():
        write_file(directory / name, f"{json.dumps(value, ensure_ascii=False, indent=1)}\n".encode())


def has_target_tokenizer(tokenizers: Tokenizers, direction: str) -> bool:
    """Return whether translations are written with other pieces than sources."""
    src, tgt = tokenizers.sides(direction)
    return src.model != tgt.model


def check_tokenizers(directory: Path, sides: Sequence[Tokenizer], lines: Sequence[str]) -> None:
    """Raise CheckpointError if an exported tokenizer spells lines with other pieces than that of the run.

    sides: the tokenizers of sources and translations. The lines are compared in the form that the run reads.
    """
    src, tgt = sides
    load = package("tokenizers").Tokenizer.from_file
    of_target = directory / TARGET / "tokenizer.json"
    encoder = load(str(directory / "tokenizer.json"))
    decoder = load(str(of_target)) if of_target.exists() else encoder
    rows = _tokenizer(src, encodes=True)[1]
    differing = []
    for line, ids, written in zip(lines, src.encode_all(lines, to=""), tgt.encode_all(lines, to=""), strict=True):
        exported = [rows[i] for i in encoder.encode(src.as_read(line)).ids]
        if exported != [*ids, EOS] or decoder.decode(written) != tgt.decode(written):
            differing.append(line)
    if len(differing) > MOST_DIFFERING * len(lines):
        raise CheckpointError(
            f"{len(differing)} of {len(lines)} lines have other pieces in the export than in the run, such as "
            f"{printable_sentence(differing[0])}"
        )


def _tokenizer(tokenizer: Tokenizer, encodes: bool) -> tuple[dict[str, Any], list[int]]:
    """Return the content of tokenizer.json, and for each of its ids the id here. encodes: whether it encodes text."""
    rows = [*range(len(tokenizer))]
    if not isinstance(tokenizer, ImportedTokenizer):
        return tokenizer_json(tokenizer), rows
    names = tokenizer.pieces(rows)
    known = {*names}
    tags = {*tokenizer.tags.values(), *tokenizer.target_languages.values()}
    added = {i: i < N_SPECIAL for i in (*range(N_SPECIAL), *sorted(tags))}
    proto = ModelProto.FromString(tokenizer.model)
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type in _OF_TEXT}
    lowest = min(scores.values()) - 10  # as of unknown characters
    for i, name in enumerate(names):
        if i not in added and name not in scores:
            # the segmenter does not write it, but the vocabulary may have a character that the segmenter does not know
            scores[name] = lowest
            if encodes and len(name) > 1:
                names[i] = f"\0{i}"
    unknown = [name for name in scores if name not in known]
    names += unknown
    rows += [UNK] * len(unknown)
    content = segmenter_json(tokenizer.model, names, added)
    content["post_processor"] = END
    if proto.trainer_spec.model_type == UNIGRAM:
        vocabulary = [(name, scores.get(name, 0.0)) for name in names]
        content["model"] = {"type": "Unigram", "unk_id": UNK, "vocab": vocabulary, "byte_fallback": False}
    return content, rows


class _Step:
    """A `StepModel` with one hypothesis for each sentence."""

    def __init__(self, encoder: Any, decoder: Any, sources: Sequence[Sequence[int]]) -> None:
        """encoder and decoder: sessions of ONNX Runtime. sources: ids without `</s>`."""
        ids = padded([[*source, EOS] for source in sources])
        mask = (ids != PAD).long().numpy()
        [hidden] = encoder.run(None, {"input_ids": ids.numpy(), "attention_mask": mask})
        self._decoder = decoder
        self._source = {"encoder_hidden_states": hidden, "encoder_attention_mask": mask}
        self._past = {}
        for cached in decoder.get_inputs()[3:]:
            _, n_heads, _, width = cached.shape
            self._past[cached.name] = np.zeros((len(ids), n_heads, 0, width), np.float32)

    def step(self, tokens: Tensor) -> Iterator[Scores]:
        logits, *present = self._decoder.run(None, {"input_ids": tokens.numpy(), **self._source, **self._past})
        self._past = dict(zip(self._past, present, strict=True))
        scores = torch.from_numpy(logits)
        yield scores, scores.logsumexp(-1)

    def select(self, sentences: Tensor, beams: Tensor) -> None:
        del beams  # there is only one
        for arrays in (self._source, self._past):
            for name, array in arrays.items():
                arrays[name] = array[sentences.numpy()]

    def attention(self) -> Tensor:
        raise NotImplementedError("these models do not return it")


class OnnxSearcher:
    """A greedy searcher with the files that `save_onnx` has written, for comparisons."""

    max_positions = None

    def __init__(self, directory: Path, quantization: Quantization, never_written: Sequence[int]) -> None:
        """Load the model. Raises ConfigError if the package onnxruntime is not installed."""
        runtime = package("onnxruntime")
        encoder, decoder = (runtime.InferenceSession(path) for path in model_files(directory, quantization))
        self._step = partial(_Step, encoder, decoder)
        self.precision = self.quantization = quantization
        self.weights = self.fingerprint = str(directory)
        self._banned = torch.tensor(never_written)

    def check(self, search: SearchConfig, has_terms: bool, language: str) -> None:
        """Accept the default settings, with which models are compared."""

    def forced_decoder(self, search: SearchConfig) -> ForcedDecoder:  # noqa: ARG002 (the protocol's)
        """Raise ConfigError, because there is none."""
        raise ConfigError("ONNX Runtime has no forced decoder")

    def search(
        self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int, should_stop: ShouldStop | None = None
    ) -> SearchedBatches:
        """Yield the hypotheses of batches of sentences; see `Searcher`."""
        yield from search_batches(self._search_batch, sentences, search, n_best, torch.device("cpu"), should_stop)

    def _search_batch(
        self, sentences: Sequence[Sentence], search: SearchConfig, n_best: int, should_stop: ShouldStop | None
    ) -> Hypotheses:
        limits = torch.tensor([sentence.max_length for sentence in sentences])
        rules = Rules(self._banned, limits, search.min_length, search.no_repeat_ngram, should_stop=should_stop)
        step = self._step([sentence.src_ids for sentence in sentences])
        return find_hypotheses(step, rules, search, [0] * len(sentences), n_best)

    def log_probs(self, pairs: Sequence[Pair]) -> list[list[float]]:
        """Return the log-probabilities (nats) of each pair's target tokens, `</s>` last."""
        scored = []
        for start in range(0, len(pairs), _PAIRS):
            sources, targets = zip(*pairs[start : start + _PAIRS], strict=True)
            tokens = padded([[BOS, *ids, EOS] for ids in targets])
            step = self._step(sources)
            # in two parts, of which the second one depends on the keys and values of the first, as in search
            steps = [next(step.step(part)) for part in tokens[:, :-1].chunk(2, dim=1)]
            logits, log_z = (torch.cat(values, 1) for values in zip(*steps, strict=True))
            by_token = logits.gather(2, tokens[:, 1:, None])[..., 0] - log_z
            for ids, row in zip(targets, by_token.tolist(), strict=True):
                scored.append(row[: len(ids) + 1])
        return scored
