"""M2M-100 models in the format of Hugging Face transformers, made by transformers and SentencePiece alone."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece
import torch

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


@dataclass(frozen=True)
class M2M:
    """The kind of a model."""

    is_nllb: bool = False
    """Whether the vocabulary is that of NLLB, which numbers its pieces as SentencePiece does."""
    updates: int = 0
    batch: int = 32
    d_model: int = 32
    n_layers: int = 2
    vocab_size: int = 200
    n_unused: int = 8
    """The number of rows beyond the vocabulary."""

    def write(self, folder: Path, texts: Mapping[str, Sequence[str]]) -> None:
        """Write a model of all languages of the tokenizer; it learns the directions between those of `texts`, in which
        line n is the same in all languages."""
        from transformers import M2M100Config, M2M100ForConditionalGeneration

        folder.mkdir(parents=True)
        model = io.BytesIO()
        lines = [line for text in texts.values() for line in text]
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=self.vocab_size,
            hard_vocab_limit=False, minloglevel=2,
        )  # fmt: skip
        (folder / "sentencepiece.bpe.model").write_bytes(model.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        pieces = [str(processor.id_to_piece(i)) for i in range(3, processor.get_piece_size())]
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
        tokenizer = self.tokenizer(folder, *[*texts][:2])
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
            self._train(made, tokenizer, texts)
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
            return list(tokenization_nllb.FAIRSEQ_LANGUAGE_CODES)
        return [f"__{code}__" for code in tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]]

    def _train(self, model: Any, tokenizer: Any, texts: Mapping[str, Sequence[str]]) -> None:
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
        directions = [(src, tgt) for src in texts for tgt in texts if src != tgt]
        model.train()
        rng = random.Random(2)
        for step in range(self.updates):
            tokenizer.src_lang, tokenizer.tgt_lang = src, tgt = directions[step % len(directions)]
            rows = rng.sample(range(len(texts[src])), self.batch)
            batch = tokenizer(
                [texts[src][row] for row in rows], text_target=[texts[tgt][row] for row in rows], return_tensors="pt",
                padding=True,
            )  # fmt: skip
            batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
