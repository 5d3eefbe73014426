"""The part of `check.py` that measures Hugging Face transformers on the same batches: training and translation."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from nmt.data.batching import Batch
from nmt.model.device import autocast
from nmt.text.ids import BOS, EOS, PAD
from scripts.gpu.setting import Check, Found, rate

WARM_UP = 8


def peer(check: Check) -> Found:
    """The rates of a Marian model of the same size by transformers, in plain training and in search."""
    if importlib.util.find_spec("transformers") is None:
        yield {"left_out": "it needs the package transformers"}
        return
    model = marian(check)
    yield from training(check, model)
    yield from translation(check, model)


def marian(check: Check) -> Any:
    """A model of transformers of the size that is measured, with random weights, on the device."""
    from transformers import MarianConfig, MarianMTModel

    sizes, dropout = check.sizes.model, check.config().model.residual_dropout
    torch.manual_seed(1)
    config = MarianConfig(
        vocab_size=check.sizes.vocabulary,
        d_model=sizes["d_model"],
        encoder_layers=sizes["encoder_layers"],
        decoder_layers=sizes["decoder_layers"],
        encoder_attention_heads=sizes["n_heads"],
        decoder_attention_heads=sizes["n_heads"],
        encoder_ffn_dim=sizes["d_ff"],
        decoder_ffn_dim=sizes["d_ff"],
        dropout=dropout,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=1024,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        forced_eos_token_id=None,
        decoder_start_token_id=BOS,
    )
    model: Any = MarianMTModel(config)
    return model.to(check.device)


def training(check: Check, model: Any) -> Found:
    """Plain training with padded batches, PyTorch's fused Adam and autocast, as its documentation recommends."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    smoothing = check.config().training.label_smoothing

    def step(batch: Batch) -> None:
        with autocast(check.precision, check.device):
            logits = model(
                input_ids=batch.src, attention_mask=batch.src_mask, decoder_input_ids=batch.tgt_in, use_cache=False
            ).logits
        loss = F.cross_entropy(
            logits.float().flatten(0, 1), batch.tgt_out.flatten(), label_smoothing=smoothing, ignore_index=PAD
        )
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    model.train()
    for update_tokens in check.sizes.update_tokens[:2]:
        updates = check.updates(update_tokens)

        def learn(i: int, update_tokens: int = update_tokens, updates: Any = updates) -> int:
            update = updates[i % len(updates)]
            for rows in check.pairs.lengths.split(update.rows, 4 * update_tokens):
                step(check.pairs.batch(rows).to(check.device))
            return int(update.n_tokens)

        for i in range(WARM_UP):
            learn(i)
        found = rate(check, lambda i, learn=learn: learn(WARM_UP + i))  # type: ignore[misc]
        yield {"way": "transformers, padded", "update_tokens": update_tokens, **found}


def translation(check: Check, model: Any) -> Found:
    """Search of the sentences of the part "translation", each to the longest source of its batch."""
    model = model.eval().to(torch.float16 if check.precision == "fp16" else torch.bfloat16)
    lengths = check.pairs.lengths
    rows = lengths.sort(np.arange(check.sizes.n_sentences))
    for beam in (5, 1):
        for n_sentences, n_tokens in ((64, 4096), (512, 16_384)):
            n_done, start = 0, time.monotonic()
            for part in (part[:n_sentences] for part in lengths.split(rows, n_tokens)):
                if time.monotonic() - start > 2 * check.sizes.seconds:
                    break
                batch, longest = check.pairs.batch(part).to(check.device), int(lengths.src[part].max())
                generate(model, batch, beam, longest)
                n_done += len(part)
            check.wait()
            yield {
                "way": "transformers",
                "beam": beam,
                "batch_sentences": n_sentences,
                "batch_tokens": n_tokens,
                "sentences_per_s": round(n_done / (time.monotonic() - start), 1),
            }


def generate(model: Any, batch: Batch, beam: int, longest: int) -> None:
    """Search translations of a batch."""
    model.generate(
        input_ids=batch.src,
        attention_mask=batch.src_mask,
        num_beams=beam,
        do_sample=False,
        max_new_tokens=longest,
        min_new_tokens=longest,
    )
