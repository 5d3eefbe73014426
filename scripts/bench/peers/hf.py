"""Hugging Face Transformers: the Marian model, trained from scratch by `Seq2SeqTrainer`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.bench import task
from scripts.bench.peer import Counts, Decoding, Loaded, Output, Peer, Search, Training, spelled

NO_LABEL = -100
PAIR_TOKENS = 15.3  # of a target, on average: it has no batches of about equal numbers of tokens
TITLE = "Hugging Face Marian 5.23.0"
REQUIREMENTS = ("transformers[torch]==5.23.0", "sentencepiece", "datasets", "sacrebleu")
END, UNKNOWN, PADDING = "</s>", "<unk>", "<pad>"


def count(_: Any, __: Any, inputs: Any, *___: Any, **____: Any) -> Counts:
    """Padding of the labels is what the loss ignores."""
    labels, mask = inputs["labels"], inputs["attention_mask"]
    return Counts(labels.size(0), int((labels != NO_LABEL).sum()), labels.numel(), int(mask.sum()), mask.numel())


def arguments(options: Sequence[str], text: Path, run: Path, plan: task.Plan) -> list[str]:
    """Arguments of `train` below."""
    return [",".join(options), str(text), str(run), *map(str, plan)]


def train() -> None:
    """Train as a user of the library would.

    sys.argv has further options that are switched on, the folders of the text and of the run, and how long.
    """
    options = dict.fromkeys(filter(None, sys.argv[1].split(",")), True)
    text, run = map(Path, sys.argv[2:4])
    steps, batch_tokens, warmup, factor = sys.argv[4:]
    plan = task.Plan(int(steps), int(batch_tokens), int(warmup), float(factor))
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
        args=make_training(hf, run, plan, options),
        train_dataset=read_pairs(text, ids),
        data_collator=hf.DataCollatorForSeq2Seq(tokenizer, model=model),
    )
    trainer.train()
    trainer.save_model(str(run / "model"))


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


def make_training(hf: Any, run: Path, plan: task.Plan, options: dict[str, bool]) -> Any:
    """Training arguments; sentences of similar length are batched together."""
    return hf.Seq2SeqTrainingArguments(
        output_dir=str(run / "model"),
        per_device_train_batch_size=round(plan.batch_tokens / PAIR_TOKENS),
        train_sampling_strategy="group_by_length",
        max_steps=plan.steps,
        learning_rate=plan.peak_lr,
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=plan.warmup,
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
        **options,
    )


def read_pairs(text: Path, ids: dict[str, int]) -> list[dict[str, list[int]]]:
    """The training pairs as ids; a list is a dataset."""

    def side(language: str) -> list[list[int]]:
        lines = (text / f"pieces.train.{language}").read_text(encoding="utf-8").split("\n")[:-1]
        return [[*(ids.get(piece, ids[UNKNOWN]) for piece in line.split()), ids[END]] for line in lines]

    return [{"input_ids": src, "labels": tgt} for src, tgt in zip(side(task.SRC), side(task.TGT), strict=True)]


def loader(kind: str) -> Callable[[Path, Path, Search], Loaded]:
    """Translate as a user of the library would: `generate` with its cache, on batches of similar length."""

    def load(run: Path, _: Path, search: Search) -> Loaded:
        hf: Any = import_module("transformers")
        torch: Any = import_module("torch")
        ids: dict[str, int] = json.loads((run / "vocabulary.json").read_text(encoding="utf-8"))
        pieces = list(ids)
        model = hf.MarianMTModel.from_pretrained(run / "model", dtype=kind).eval()
        lengths = {"max_new_tokens": search.longest, **({"min_new_tokens": search.pieces} if search.pieces else {})}

        def translate(lines: Sequence[str]) -> list[Output]:
            src = [[*(ids.get(piece, ids[UNKNOWN]) for piece in line.split()), ids[END]] for line in lines]
            order = sorted(range(len(src)), key=lambda i: -len(src[i]))
            found = {}
            for start in range(0, len(src), search.batch):
                rows = order[start : start + search.batch]
                longest = len(src[rows[0]])
                batch = torch.tensor([src[i] + [ids[PADDING]] * (longest - len(src[i])) for i in rows])
                mask = (batch != ids[PADDING]).long()
                with torch.inference_mode():
                    best = model.generate(
                        input_ids=batch, attention_mask=mask, num_beams=search.beam, do_sample=False, **lengths
                    )
                for i, row in zip(rows, best[:, 1:].tolist(), strict=True):
                    end = row.index(ids[END]) if ids[END] in row else len(row)
                    found[i] = spelled([pieces[word] for word in row[:end] if word != ids[PADDING]])
            return [found[i] for i in range(len(lines))]

        return Loaded(translate)

    return load


def arm(name: str, title: str, options: Sequence[str] = (), kind: str | None = None) -> Peer:
    """Training with further options, and translation in a number format, if any, with the model of float32."""
    return Peer(
        name=name,
        title=f"{TITLE}{title}",
        training=Training(
            entry="scripts.bench.peers.hf:train",
            step="transformers:Trainer.training_step",
            count=count,
            arguments=partial(arguments, options),
            at_least=100.0,  # it has its batches from long to short, fifty at a time
        ),
        decoding=None if kind is None else Decoding(loader(kind), "hf", kind={"bfloat16": "bf16"}.get(kind, kind)),
        environment="hf",
        requirements=REQUIREMENTS,
    )


ARMS = (
    arm("hf", "", kind="float32"),
    arm("hf-bf16", " bf16", ["bf16"], kind="bfloat16"),
    arm("hf-compile", ", compiled", ["torch_compile"]),
    arm("hf-bf16-compile", " bf16, compiled", ["bf16", "torch_compile"]),
)
