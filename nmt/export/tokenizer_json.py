"""A tokenizer as tokenizer.json, the file of the library Hugging Face tokenizers, with the ids of `Tokenizer`.

SentencePiece writes a space as U+2581. Here pieces have plain spaces, so that a U+2581 of the text is spelled in bytes
like any other character without a piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nmt.text.tokenizer import BOS, EOS, FIRST_LEARNED, N_SPECIAL, PAD, UNK, Tokenizer

_CONTROL = {"Regex": r"(?!\t)\p{Cc}"}
"""The characters of `nmt.text.tokenizer.CONTROL`."""


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
            {"type": "Prepend", "prepend": " "},  # nothing to an empty text
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
            "merges": list(_merges(pieces[FIRST_LEARNED:])),
        },
    }


def tokenizer_config(tokenizer: Tokenizer, max_length: int) -> dict[str, Any]:
    """Return the content of tokenizer_config.json. max_length: of a source, `</s>` counted."""
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
    """Yield the pairs of learned pieces that make another one, first those that are merged first.

    SentencePiece merges any two neighbours that make a piece, the piece with the lowest id first.
    """
    known = set(pieces)
    for piece in pieces:
        for i in range(1, len(piece)):
            if piece[:i] in known and piece[i:] in known:
                yield piece[:i], piece[i:]
