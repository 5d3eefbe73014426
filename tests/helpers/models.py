"""Tiny models and batches for the tests."""

import torch
from torch import Tensor

from nmt.model.masks import Packed
from nmt.model.settings import ModelConfig
from nmt.model.transformer import Transformer

VOCAB = 40


def padding_mask(lengths: Tensor, max_len: int | None = None) -> Tensor:
    """Return the mask (B, L) for lengths (B,), True at tokens. L is `max_len`, by default the largest length."""
    longest = int(lengths.max()) if max_len is None else max_len
    return torch.arange(longest) < lengths[:, None]


def model_config(**changes: object) -> ModelConfig:
    """Return the settings of a tiny model: two encoder and two decoder layers, width 16, no dropout."""
    settings: dict[str, object] = {
        "d_model": 16, "n_heads": 2, "d_ff": 32, "encoder_layers": 2, "decoder_layers": 2,
        "embedding_dropout": 0.0, "residual_dropout": 0.0,
    }  # fmt: skip
    return ModelConfig(**{**settings, **changes})  # type: ignore[arg-type]


def tiny_model(seed: int = 0, **changes: object) -> Transformer:
    """Return a Transformer with weights so large that every part of it affects the output."""
    torch.manual_seed(seed)
    model = Transformer(model_config(**changes), VOCAB, VOCAB)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def sentences(lengths: list[int], seed: int = 1) -> list[Tensor]:
    """Return random ids other than special ids."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(20, VOCAB, (length,), generator=generator) for length in lengths]


def pad(rows: list[Tensor]) -> Tensor:
    """Return rows of different lengths as one tensor, padded with 0 on the right."""
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def packed(lengths: list[int], max_len: int | None = None) -> Packed:
    """Return the layout of consecutive sentences of these lengths."""
    bounds = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    positions = torch.cat([torch.arange(length) for length in lengths])
    return Packed(bounds, positions, max(lengths) if max_len is None else max_len)
