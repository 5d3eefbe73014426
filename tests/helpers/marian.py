"""Marian models in the format of Hugging Face transformers, made by transformers and SentencePiece alone."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import sentencepiece
import torch

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"


@dataclass(frozen=True)
class Marian:
    """The kind of a model."""

    activation: str = "swish"
    is_joint: bool = True
    has_bias: bool = True
    dtype: torch.dtype = torch.float32
    file: Literal["model.safetensors", "pytorch_model.bin"] = "model.safetensors"
    segmenter: Literal["unigram", "bpe"] = "unigram"
    tags: tuple[str, ...] = ()
    has_zero_start: bool = True
    """Whether the embedding of padding is zero, as after training with Marian; transformers trains it."""
    updates: int = 0
    d_model: int = 32
    n_layers: int = 2
    vocab_size: int = 120
    """The number of pieces of each segmenter."""
    extra_pieces: int = 0
    """The number of pieces of the vocabulary that the segmenters lack."""
    more_pieces: tuple[str, ...] = ()
    """Pieces of the vocabulary that the segmenters lack, by name."""
    is_tied: bool = True
    license: str | None = "cc-by-4.0"

    def write(self, folder: Path, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Write the model; segmenters and, with `updates`, weights are trained on the lines."""
        from transformers import MarianMTModel, MarianTokenizer

        folder.mkdir(parents=True)
        pieces = [
            segmented(folder / name, lines, self.segmenter, self.vocab_size)
            for name, lines in (("source.spm", sources), ("target.spm", targets))
        ]
        n = min(map(len, pieces))  # padding has the same id in both vocabularies
        vocabularies = [[*dict.fromkeys([*pieces[0], *pieces[1]])]] if self.is_joint else [each[:n] for each in pieces]
        ids = [self._ids(each) for each in vocabularies]
        for name, each in zip(("vocab.json", "target_vocab.json"), ids, strict=False):
            (folder / name).write_text(json.dumps(each, ensure_ascii=False), encoding="utf-8")
        about = {"source_lang": "de", "target_lang": "en", "separate_vocabs": not self.is_joint,
                 "tokenizer_class": "MarianTokenizer", "model_max_length": 512}  # fmt: skip
        (folder / "tokenizer_config.json").write_text(json.dumps(about))
        if self.license is not None:
            (folder / "README.md").write_text(f"---\nlanguage: de\nlicense: {self.license}\n---\n# A model\n")
        torch.manual_seed(1)
        model: Any = MarianMTModel(self._config(ids))
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1 and weight.requires_grad:  # not positions
                    torch.nn.init.xavier_uniform_(weight)
            for table in {model.get_encoder().embed_tokens, model.get_decoder().embed_tokens}:
                table.weight.normal_(std=self.d_model**-0.5)
                table.weight[model.config.pad_token_id] = 0
            if self.has_bias:
                model.final_logits_bias.normal_()
        if self.updates:
            table = model.get_decoder().embed_tokens.weight if self.has_zero_start else None
            train(model, MarianTokenizer.from_pretrained(folder), [(sources, targets)], self.updates, table)
        self.save(model, folder)

    def save(self, model: Any, folder: Path) -> None:
        """Write the weights and settings of a float32 model, in the number format and file of this kind."""
        model.to(self.dtype)
        model.generation_config.update(num_beams=4, max_length=64, bad_words_ids=[[model.config.pad_token_id]])
        if self.file == "model.safetensors":
            model.save_pretrained(folder)
        else:
            model.config.save_pretrained(folder)
            model.generation_config.save_pretrained(folder)
            weights = model.state_dict()
            if self.dtype != torch.float32:  # of rounded positions, transformers would make something else
                weights = {name: weight for name, weight in weights.items() if "embed_positions" not in name}
            torch.save(weights, folder / self.file)

    def _ids(self, pieces: Sequence[str]) -> dict[str, int]:
        """Number pieces unlike the segmenter, without the rarest one, and with padding at the end."""
        shuffled = sorted(pieces[:-1])
        random.Random(1).shuffle(shuffled)
        more = [
            *(f">>{tag}<<" for tag in self.tags),
            *(f"extra{i}" for i in range(self.extra_pieces)),
            *self.more_pieces,
        ]
        return {piece: i for i, piece in enumerate([END, UNKNOWN, *more, *shuffled, PAD])}

    def _config(self, ids: Sequence[dict[str, int]]) -> Any:
        from transformers import MarianConfig

        sizes = {"layers": self.n_layers, "attention_heads": 4, "ffn_dim": 4 * self.d_model}
        sides: Any = {f"{stack}_{name}": n for stack in ("encoder", "decoder") for name, n in sizes.items()}
        pad = len(ids[0]) - 1
        return MarianConfig(
            vocab_size=len(ids[0]), decoder_vocab_size=len(ids[-1]), d_model=self.d_model, **sides,
            activation_function=self.activation, scale_embedding=True, pad_token_id=pad, eos_token_id=0,
            decoder_start_token_id=pad, forced_eos_token_id=0, share_encoder_decoder_embeddings=self.is_joint,
            max_position_embeddings=512, dropout=0.1, tie_word_embeddings=self.is_tied,
        )  # fmt: skip


def segmented(path: Path, lines: Sequence[str], kind: str, vocab_size: int) -> list[str]:
    """Train a normalising SentencePiece model, and return its pieces without the special ones."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type=kind, vocab_size=vocab_size,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    path.write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [str(processor.id_to_piece(i)) for i in range(3, processor.get_piece_size())]


def train(
    model: Any,
    tokenizer: Any,
    texts: Sequence[tuple[Sequence[str], Sequence[str]]],
    updates: int,
    zeros: Any = None,
    languages: Sequence[tuple[str, str]] = (),
) -> None:
    """Train on texts in turn, whose `languages` the tokenizer is told; padding keeps its row of `zeros` zero."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 1.0 if languages else min((step + 1) / 40, 1 - step / (updates + 1))
    )
    model.train()
    rng = random.Random(2)
    for step in range(updates):
        sources, targets = texts[step % len(texts)]
        if languages:
            tokenizer.src_lang, tokenizer.tgt_lang = languages[step % len(texts)]
        rows = rng.sample(range(len(sources)), min(32, len(sources)))
        batch = tokenizer(
            [sources[row] for row in rows], text_target=[targets[row] for row in rows], return_tensors="pt",
            padding=True, truncation=True, max_length=100,
        )  # fmt: skip
        batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
        model(**batch).loss.backward()
        optimizer.step()
        rate.step()
        optimizer.zero_grad()
        if zeros is not None:
            zeros.data[tokenizer.pad_token_id] = 0
    model.eval()
