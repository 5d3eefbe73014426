"""Test that the attention of a model trained to copy aligns each word with itself."""

from __future__ import annotations

import random

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from nmt.model.masks import Padded
from nmt.model.settings import ModelConfig
from nmt.model.transformer import Transformer
from nmt.search.forced import ForcedDecoder
from nmt.text.ids import BOS, EOS, PAD
from nmt.text.tokenizer import Tokenizer, train_tokenizer
from nmt.training.loss import fused_loss
from nmt.translate.align import alignments
from nmt.translate.types import Part, Translation

pytestmark = pytest.mark.usefixtures("no_coverage")

CPU = torch.device("cpu")
WORDS = [f"{first}{vowel}m{vowel}" for first in "bdfg" for vowel in "aeiou"]
N_STEPS, N_ROWS = 350, 16


@pytest.fixture(scope="module")
def copier() -> tuple[Transformer, Tokenizer]:
    """A model trained for a few seconds to copy its source.

    No line repeats a word, since attention to either copy would be correct.
    """
    rng = random.Random(1)
    tokenizer = train_tokenizer([" ".join(rng.sample(WORDS, k=4)) for _ in range(200)], 420)
    torch.manual_seed(1)
    config = ModelConfig(
        d_model=32, n_heads=4, d_ff=64, encoder_layers=1, decoder_layers=1, embedding_dropout=0.0, residual_dropout=0.0
    )
    model = Transformer(config, len(tokenizer), len(tokenizer))
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(N_STEPS):
        optimizer.param_groups[0]["lr"] = 8e-3 * min(1, (step + 1) / 30, 2 * (1 - step / N_STEPS))
        ids = tokenizer.encode_all([" ".join(rng.sample(WORDS, k=rng.randint(3, 10))) for _ in range(N_ROWS)])
        tgt_out = pad_sequence([torch.tensor([*each, EOS]) for each in ids], batch_first=True, padding_value=PAD)
        tgt_in = torch.cat((torch.full((N_ROWS, 1), BOS), tgt_out[:, :-1]), 1)
        layout = Padded(tgt_out != PAD)
        hidden = model(tgt_out, layout, tgt_in, layout)[layout.mask]
        sums = fused_loss((hidden,), model.output_weight, tgt_out[layout.mask], 0.0)
        optimizer.zero_grad()
        (sums.loss / sums.n_tokens).backward()
        optimizer.step()
    return model.eval(), tokenizer


def test_copy_model_aligns_diagonally(copier: tuple[Transformer, Tokenizer]) -> None:
    model, tokenizer = copier
    decoder = ForcedDecoder([model], CPU, "float32", 1000)
    rng = random.Random(2)
    lines = [" ".join(rng.sample(WORDS, k=rng.randint(3, 10))) for _ in range(50)]
    ids = tokenizer.encode_all(lines)
    translations = [Translation(line, parts=(Part(line, i, i),)) for line, i in zip(lines, ids, strict=True)]
    found = alignments(decoder, tokenizer, tokenizer, lines, translations)
    n_words = sum(len(line.split()) for line in lines)
    assert sum(map(len, found)) >= 0.97 * n_words
    assert sum(i == j for aligned in found for i, j in aligned) >= 0.97 * n_words
    [weights] = decoder.attention([(ids[0], ids[0])])
    assert weights.argmax(1).tolist() == list(range(len(ids[0]) + 1))
