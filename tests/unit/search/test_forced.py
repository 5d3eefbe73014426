"""Forced decoding: probabilities and attention, independent of batches."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from models import decisive, forced_log_probs, model_config, sentences, tiny_model
from nmt.data.batching import Pairs, even_batches
from nmt.data.corpus import Corpus, lines_of
from nmt.errors import CheckpointError
from nmt.layout import DataDir
from nmt.model.transformer import Transformer
from nmt.search.forced import ForcedDecoder, Pair, check_equal
from nmt.text.ids import EOS
from nmt.training.loss import cross_entropy

PAIRS: list[Pair] = [
    (src.tolist(), tgt.tolist())
    for src, tgt in zip(sentences([5, 1, 9, 3, 7, 2]), sentences([4, 0, 6, 8, 1, 12], seed=2), strict=True)
]


def decoder(*models: Any, max_tokens: int = 1000, precision: str = "float32") -> ForcedDecoder:
    return ForcedDecoder(models, torch.device("cpu"), precision, max_tokens)


def test_log_probabilities_of_diverged_models_are_equal_as_far_as_float32_computes() -> None:
    assert check_equal(-1.8e12, -1.8e12 - 131072.0, "search") == 131072.0
    for trained, other in ((-8.0, -8.01), (-8.0, math.nan), (math.nan, -8.0)):
        with pytest.raises(CheckpointError, match=f"{other:.4f}"):
            check_equal(trained, other, "search")


@pytest.mark.parametrize("max_tokens", [1, 20, 1000])
@pytest.mark.parametrize("changes", [{}, {"positions": "learned", "tie_embeddings": "none", "norm": "post"}])
@pytest.mark.parametrize("kind", ["translation", "language model", "source"])
def test_forced_probabilities_do_not_depend_on_batch(kind: str, max_tokens: int, changes: dict[str, object]) -> None:
    model = decisive(kind, **changes)
    found = decoder(model, max_tokens=max_tokens).log_probs(PAIRS)
    backwards = decoder(model, max_tokens=max_tokens).log_probs(PAIRS[::-1])[::-1]
    for (src, tgt), values, others in zip(PAIRS, found, backwards, strict=True):
        expected = forced_log_probs(model, src, tgt)[torch.arange(len(tgt) + 1), torch.tensor([*tgt, EOS])]
        torch.testing.assert_close(torch.tensor(values), expected, atol=1e-5, rtol=0)
        assert others == pytest.approx(values, abs=1e-5)
    assert decoder(model).log_probs([]) == decoder(tiny_model()).attention([]) == []


@pytest.mark.parametrize("kind", ["translation", "source"])
def test_ensemble_averages_probabilities(kind: str) -> None:
    one, other = decisive(kind), tiny_model(1).eval()
    first, second = (decoder(model).log_probs(PAIRS) for model in (one, other))
    for both, *alone in zip(decoder(one, other).log_probs(PAIRS), first, second, strict=True):
        mean = torch.tensor(alone, dtype=torch.float64).exp().mean(0)
        torch.testing.assert_close(torch.tensor(both, dtype=torch.float64).exp(), mean, rtol=1e-4, atol=0)


def test_corpus_score_equals_training_loss(tiny_data: Path) -> None:
    """Validation sums the losses in different batches."""
    corpus = Corpus.open(DataDir(tiny_data))
    split, n_pieces = corpus.split("train"), len(corpus.tokenizers["aa"])
    torch.manual_seed(2)
    model = Transformer(model_config(), n_pieces, n_pieces).eval()
    pairs = Pairs(lines_of(split, "aa"), lines_of(split, "bb"))
    with torch.inference_mode():
        sums = [cross_entropy(model, pairs.batch(rows), 0.0) for rows in even_batches(pairs.lengths, 300)]
    nll, n_tokens = math.fsum(float(each.nll) for each in sums), sum(each.n_tokens for each in sums)
    texts = zip(*(corpus.tokenizers[side].encode_all(split.text(side)) for side in ("aa", "bb")), strict=True)
    found = decoder(model, max_tokens=4000).log_probs(list(texts))
    assert sum(map(len, found)) == n_tokens > 1000
    assert -math.fsum(math.fsum(values) for values in found) == pytest.approx(nll, rel=1e-5)


def test_nan_model_raises() -> None:
    model = tiny_model()
    with torch.no_grad():
        model.output_weight[30] = math.nan
    with pytest.raises(CheckpointError, match=r"probabilities are not finite: the checkpoint is damaged"):
        decoder(model).log_probs(PAIRS)


# --- attention ----------------------------------------------------------------------------------


@pytest.mark.parametrize("max_tokens", [1, 1000])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_rows_of_attention_sum_to_one_over_the_source(max_tokens: int, precision: str) -> None:
    asked = decoder(tiny_model(), max_tokens=max_tokens, precision=precision)
    for (src, tgt), weights in zip(PAIRS, asked.attention(PAIRS), strict=True):
        assert (weights.shape, weights.dtype) == ((len(tgt) + 1, len(src) + 1), torch.float32)
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(1), torch.ones(len(tgt) + 1), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("n_layers", "chosen"), [(1, 0), (2, 0), (4, 2)])
def test_alignment_uses_second_last_layer(n_layers: int, chosen: int) -> None:
    """A model that ends after this layer has the same attention, the mean over its heads."""
    model = tiny_model(decoder_layers=n_layers).eval()
    [found] = decoder(model).attention(PAIRS[:1])
    seen = {}
    for i, layer in enumerate(model.decoder.layers):
        attention = layer.cross_attention
        assert attention is not None
        explicit = attention.cross

        def spy(x: Tensor, memory: Any, see: Any, _: object, i: int = i, explicit: Any = explicit) -> Any:
            output = explicit(x, memory, see, weights := [])
            [seen[i]] = weights
            return output

        attention.cross = spy  # type: ignore[method-assign]
    forced_log_probs(model, *PAIRS[0])
    assert sorted(seen) == list(range(n_layers))
    torch.testing.assert_close(found, seen[chosen][0].mean(0))
    others = [seen[i][0].mean(0) for i in range(n_layers) if i != chosen]
    assert not any(torch.allclose(found, other, atol=1e-3) for other in others)


def test_attention_of_an_ensemble_is_the_mean() -> None:
    one, other = tiny_model(0), tiny_model(1)
    both = decoder(one, other).attention(PAIRS)
    for mean, *each in zip(both, decoder(one).attention(PAIRS), decoder(other).attention(PAIRS), strict=True):
        torch.testing.assert_close(mean, torch.stack(each).mean(0))
