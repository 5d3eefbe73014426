"""Hugging Face Transformers: the Marian model, trained from nothing by `Seq2SeqTrainer`."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from bench import task
from bench.peer import Counts, Peer, Training

NO_LABEL = -100
PAIRS = 268  # of a batch: it has no batches of about equal numbers of tokens, and this is 4,096 on average
END, UNKNOWN, PADDING = "</s>", "<unk>", "<pad>"


def count(_: Any, __: Any, inputs: Any, *___: Any, **____: Any) -> Counts:
    """Padding of the labels is what the loss ignores."""
    labels, mask = inputs["labels"], inputs["attention_mask"]
    return Counts(labels.size(0), int((labels != NO_LABEL).sum()), labels.numel(), int(mask.sum()), mask.numel())


def arguments(text: Path, run: Path) -> list[str]:
    """Of `train` below."""
    return [str(text), str(run)]


def train() -> None:
    """What a user of the library writes; sys.argv has the folders of the text and of the run."""
    text, run = map(Path, sys.argv[1:])
    hf: Any = import_module("transformers")
    pieces = (text / "vocabulary.txt").read_text(encoding="utf-8").split("\n")[:-1]
    ids = {piece: i for i, piece in enumerate([END, UNKNOWN, *pieces, PADDING])}
    (run / "vocabulary.json").write_text(json.dumps(ids), encoding="utf-8")
    bpe = str(text / "bpe.model")
    tokenizer = hf.MarianTokenizer(
        source_spm=bpe, target_spm=bpe, vocab=str(run / "vocabulary.json"), source_lang=task.SRC, target_lang=task.TGT
    )
    import_module("torch").manual_seed(task.SEED)
    model = hf.MarianMTModel(make_config(hf, ids))
    trainer = hf.Seq2SeqTrainer(
        model=model,
        args=make_training(hf, run),
        train_dataset=read_pairs(text, ids),
        data_collator=hf.DataCollatorForSeq2Seq(tokenizer, model=model),
    )
    trainer.train()


def make_config(hf: Any, ids: dict[str, int]) -> Any:
    """The model. Marian has its norms after the residual sums, and no choice of that."""
    return hf.MarianConfig(
        vocab_size=len(ids),
        d_model=task.WIDTH,
        encoder_layers=task.LAYERS,
        decoder_layers=task.LAYERS,
        encoder_attention_heads=task.HEADS,
        decoder_attention_heads=task.HEADS,
        encoder_ffn_dim=task.FFN,
        decoder_ffn_dim=task.FFN,
        dropout=task.DROPOUT,
        attention_dropout=task.DROPOUT,
        activation_dropout=task.DROPOUT,
        activation_function="relu",
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        max_position_embeddings=task.MAX_PIECES,
        pad_token_id=ids[PADDING],
        eos_token_id=ids[END],
        bos_token_id=None,
        decoder_start_token_id=ids[PADDING],
        forced_eos_token_id=None,
    )


def make_training(hf: Any, run: Path) -> Any:
    """How it learns; sentences of similar length together."""
    return hf.Seq2SeqTrainingArguments(
        output_dir=str(run / "model"),
        per_device_train_batch_size=PAIRS,
        train_sampling_strategy="group_by_length",
        max_steps=task.NEVER,
        learning_rate=task.PEAK_LR,
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=task.WARMUP,
        adam_beta1=task.BETA1,
        adam_beta2=task.BETA2,
        weight_decay=0.0,
        max_grad_norm=0.0,
        label_smoothing_factor=task.SMOOTHING,
        use_cpu=True,
        seed=task.SEED,
        logging_steps=task.LOG_EVERY,
        save_strategy="no",
        report_to=[],
        dataloader_num_workers=0,
    )


def read_pairs(text: Path, ids: dict[str, int]) -> list[dict[str, list[int]]]:
    """The training pairs as ids; a list is a dataset."""

    def side(language: str) -> list[list[int]]:
        lines = (text / f"pieces.train.{language}").read_text(encoding="utf-8").split("\n")[:-1]
        return [[*(ids.get(piece, ids[UNKNOWN]) for piece in line.split()), ids[END]] for line in lines]

    return [{"input_ids": src, "labels": tgt} for src, tgt in zip(side(task.SRC), side(task.TGT), strict=True)]


PEER = Peer(
    name="hf",
    title="Hugging Face Marian 5.23.0",
    training=Training(
        entry="bench.peers.hf:train",
        step="transformers:Trainer.training_step",
        count=count,
        arguments=arguments,
        at_least=100.0,  # it has its batches from long to short, fifty at a time
    ),
    environment="hf",
    requirements=("transformers[torch]==5.23.0", "sentencepiece", "datasets", "sacrebleu"),
)
