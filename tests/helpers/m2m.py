"""M2M-100 models in the format of Hugging Face transformers, made by transformers and SentencePiece alone."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from marian import segmented, train

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


@dataclass(frozen=True)
class M2M:
    """The kind of a model."""

    is_nllb: bool = False
    """Whether the vocabulary is that of NLLB, which numbers its pieces as SentencePiece does."""
    updates: int = 0
    d_model: int = 32
    n_layers: int = 2
    vocab_size: int = 200
    n_unused: int = 8
    """The number of rows beyond the vocabulary."""
    without: tuple[str, ...] = ()
    """Codes of languages whose tags the model lacks."""

    @property
    def languages(self) -> tuple[str, str]:
        """Return the public model's codes of German and English."""
        return ("deu_Latn", "eng_Latn") if self.is_nllb else ("de", "en")

    def write(self, folder: Path, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Write a model of all languages of the tokenizer; it learns both directions of the text."""
        from transformers import M2M100Config, M2M100ForConditionalGeneration

        folder.mkdir(parents=True)
        lines = [*sources, *targets]
        pieces = segmented(folder / "sentencepiece.bpe.model", lines, "bpe", self.vocab_size)
        if not self.is_nllb:
            random.Random(1).shuffle(pieces)
            ids = {piece: i for i, piece in enumerate([*SPECIAL, *pieces])}
            (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
        (folder / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n# A model\n")
        listed = {"additional_special_tokens": self._tags()}  # as in the repositories of Meta
        (folder / "special_tokens_map.json").write_text(json.dumps(listed))
        about: dict[str, Any] = {"tokenizer_class": "M2M100Tokenizer", **listed}
        n_pieces = len(SPECIAL) + len(pieces)
        if self.is_nllb:
            added = {n_pieces + i: token for i, token in enumerate([*self._tags(), "<mask>"])}
            decoder = {row: {"content": token, "special": True} for row, token in added.items()}
            about = {"tokenizer_class": "NllbTokenizer", "added_tokens_decoder": decoder}
        (folder / "tokenizer_config.json").write_text(json.dumps(about))
        tokenizer = self.tokenizer(folder, *self.languages)
        if self.is_nllb:
            tokenizer.save_pretrained(folder)
        n_rows = n_pieces + len(self._tags()) + self.n_unused
        torch.manual_seed(1)
        sizes: Any = {"layers": self.n_layers, "attention_heads": 4, "ffn_dim": 4 * self.d_model}
        sides: Any = {f"{stack}_{name}": n for stack in ("encoder", "decoder") for name, n in sizes.items()}
        config = M2M100Config(
            vocab_size=n_rows, d_model=self.d_model, **sides, encoder_layerdrop=0.0, decoder_layerdrop=0.0,
            init_std=self.d_model**-0.5,
        )  # fmt: skip
        made: Any = M2M100ForConditionalGeneration(config)
        if self.updates:
            texts = [(sources, targets), (targets, sources)]
            train(made, tokenizer, texts, self.updates, languages=[self.languages, self.languages[::-1]])
        made.generation_config.update(num_beams=4, max_length=64)
        made.save_pretrained(folder)

    def tokenizer(self, folder: Path, src: str, tgt: str) -> Any:
        """Return the tokenizer of transformers for a direction."""
        from transformers import M2M100Tokenizer, NllbTokenizer

        if self.is_nllb:
            return NllbTokenizer.from_pretrained(folder, src_lang=src, tgt_lang=tgt)
        return M2M100Tokenizer.from_pretrained(folder, src_lang=src, tgt_lang=tgt)

    def _tags(self) -> list[str]:
        from transformers.models.m2m_100 import tokenization_m2m_100
        from transformers.models.nllb import tokenization_nllb

        if self.is_nllb:
            return [code for code in tokenization_nllb.FAIRSEQ_LANGUAGE_CODES if code not in self.without]
        return [f"__{code}__" for code in tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]]
