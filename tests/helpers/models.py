"""Tiny models and batches for the tests."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.model.masks import Packed, Padded
from nmt.model.settings import ModelConfig
from nmt.model.transformer import DecoderModel, Transformer
from nmt.text.ids import BOS, EOS, SEPARATOR

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


def decisive(kind: str, seed: int = 0, **changes: object) -> Transformer | DecoderModel:
    """Return a `translation` model, a `language model`, or a decoder that sees its `source`, whose probabilities are
    far from uniform."""
    torch.manual_seed(seed)
    config = model_config(**changes)
    decoder = DecoderModel(config, VOCAB, sees_source=kind == "source")
    model = Transformer(config, VOCAB, VOCAB) if kind == "translation" else decoder
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.0 if parameter.dim() == 1 else 2.0)
    return model.eval()


@torch.inference_mode()
def forced_log_probs(model: Transformer | DecoderModel, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Return the log-probabilities (T + 1, V) of a single target and its end, computed by `forward`."""
    before = [*source, SEPARATOR] if isinstance(model, DecoderModel) and model.sees_source else []
    src, tgt_in = torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *before, *target]])
    layouts = [Padded(torch.ones(ids.shape, dtype=torch.bool)) for ids in (src, tgt_in)]
    hidden = model(src, layouts[0], tgt_in, layouts[1])[0, len(before) :]
    return (hidden @ model.output_weight.T).log_softmax(-1)


def loss_and_gradients(model: torch.nn.Module, loss: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Return a loss, and the gradients of it by the names of the parameters that have one."""
    model.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


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
