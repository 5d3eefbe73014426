"""Train a translation model and translate with it, using the functions that `nmt train` uses.

    nmt prepare --config sample.yaml
    python docs/minimal.py

In about a minute, a small model learns to translate most of the simple German sentences that come with `nmt`. Read this
file from top to bottom: ids, batches, model, loss, updates, search. The heading of each section names the files whose
functions it uses.

With the same settings, `nmt train` makes the same updates; a test compares the losses. The end of this file lists the
other features of `nmt train`.

Legend: B sentences, S source length, T target length, N target tokens of a batch, D width, V vocabulary size.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import torch

from nmt.data.batching import PairLengths, Pairs, Update, epoch_updates
from nmt.data.corpus import Corpus, lines_of
from nmt.data.rows import RowBatch, RowPacking
from nmt.errors import NmtError
from nmt.layout import DataDir
from nmt.model.inference import InferenceModel
from nmt.model.masks import Padded
from nmt.model.settings import ModelConfig
from nmt.model.transformer import Transformer
from nmt.search.greedy import greedy_search
from nmt.search.rules import Rules
from nmt.search.settings import SearchConfig
from nmt.search.step import TransformerStep, padded
from nmt.text.ids import BOS, EOS, N_SPECIAL, PAD
from nmt.text.vocabularies import Tokenizers
from nmt.training.loss import LossSums, fused_loss
from nmt.training.optim import learning_rate, make_optimizer
from nmt.training.settings import TrainingConfig
from nmt.translate.segment import longest_translation


@dataclass(frozen=True)
class Settings:
    """The settings of a model, its training and its search, each declared in the module `settings` of its package."""

    model: ModelConfig
    training: TrainingConfig
    search: SearchConfig
    src: str = "de"
    tgt: str = "en"
    data: Path = Path("data/prepared/sample")
    """The data directory. To use other text, prepare it with your own configuration and name its directory here."""


SETTINGS = Settings(
    ModelConfig(
        d_model=128,
        n_heads=4,
        d_ff=256,
        encoder_layers=1,
        decoder_layers=1,
        embedding_dropout=0.0,
        residual_dropout=0.0,
    ),
    TrainingConfig(
        optimizer="adam", update_tokens=1024, schedule="cosine", peak_lr=6e-3, warmup_steps=200, max_steps=800
    ),
    SearchConfig(),
)
"""A smaller model than in `make demo`, and smaller updates."""


# --- ids: nmt/data/corpus.py --------------------------------------------------------------------
#
# `nmt prepare` has cleaned the text, learned a vocabulary of pieces from it (byte-pair encoding, one vocabulary for
# both languages) and stored each line as the ids of its pieces. Training uses only these ids.


def show_pair(corpus: Corpus, settings: Settings) -> None:
    """Print the first training pair, as text and as pieces."""
    split = corpus.split("train")
    for language in (settings.src, settings.tgt):
        ids = split.ids(language)[: split.ends(language)[0]].tolist()  # the ids of all lines are one array
        print(f"{language}      {split.text(language)[0]}")
        print(f"pieces  {' '.join(corpus.tokenizers[language].pieces(ids))}")
        print(f"ids     {' '.join(map(str, ids))}")


# --- batches: nmt/data/batching.py, nmt/data/rows.py ---------------------------------------------
#
# An update, one step of the optimizer, learns from about `update_tokens` target tokens, however many sentences those
# are, so the gradient is about equally noisy with long and short sentences. Its sentences have all lengths. They are
# laid out in rows, several in a row, and the rows are padded to the same length. With the ids 0 for padding, 2 for the
# start of a sentence (<s>) and 3 for its end (</s>), the pairs (5 6 7 -> 8 9) and (5 -> 9 8 7) make this row of eight:
#
#     src  5 6 7 3 5 3 0 0      tgt_in  2 8 9 2 9 8 7 0      tgt_out  8 9 3 9 8 7 3 0
#
# At each position the decoder reads the reference translation so far (`tgt_in`) and predicts the next token
# (`tgt_out`). As the input does not depend on the predictions, all positions are computed at once (teacher forcing).


def all_updates(lengths: PairLengths, training: TrainingConfig) -> Iterator[Update]:
    """Yield the rows of each update, epoch after epoch, without end.

    The order depends on the seed and the epoch only, so that a stopped run can continue where it was.
    """
    for epoch in count():
        yield from epoch_updates(lengths, training.update_tokens, training.seed, epoch)


# --- model: nmt/model/transformer.py, nmt/model/masks.py, nmt/model/attention.py -----------------
#
# The encoder computes a vector for each source token; these vectors are the memory. The decoder attends to it and to
# the translation so far, and computes a hidden state for each target position. Masks hide the other sentences of a row
# and, from the decoder, all later positions, which contain the answer.


def make_model(corpus: Corpus, settings: Settings) -> Transformer:
    """Return a model with random weights, which depend on the seed."""
    torch.manual_seed(settings.training.seed)
    sizes = corpus.tokenizers.sizes
    return Transformer(settings.model, sizes[settings.src], sizes[settings.tgt])


# --- loss: nmt/training/loss.py -----------------------------------------------------------------
#
# The product of a hidden state and the output weights is a logit for each piece of the vocabulary; the softmax turns
# these into the probabilities of the next piece. The loss is the cross-entropy with the reference. Label smoothing
# reserves some probability for all other pieces, so that the model does not become overconfident.


def loss_of(model: Transformer, batch: RowBatch, smoothing: float) -> LossSums:
    """Return the loss of a batch and how many tokens were predicted right, as sums over its target tokens."""
    hidden = model(batch.src, batch.src_layout, batch.tgt_in, batch.tgt_layout)  # (B, L, D), B rows of L tokens
    # the loss ignores padding, so its logits need not be computed
    hidden = hidden.flatten(0, 1)[batch.token_indices]  # (N, D)
    targets = batch.tgt_out.flatten()[batch.token_indices]  # (N,)
    # `plain_cross_entropy` in the same file is the formula. This function computes the same value one block of tokens
    # at a time, since the logits of all tokens, (N, V), would be by far the largest tensor.
    return fused_loss((hidden,), model.output_weight, targets, smoothing)


# --- updates: nmt/training/optim.py -------------------------------------------------------------
#
# Each update has a forward pass, a backward pass, clipping and an optimizer step. The loss is a sum and is divided
# once, by the target tokens of the whole update, so that `nmt train` can split an update into micro-batches, or over
# GPUs, and add up the gradients.


def train(model: Transformer, pairs: Pairs, settings: Settings) -> Iterator[LossSums]:
    """Train the model, and yield the loss of each update after the update."""
    training = settings.training
    optimizer = make_optimizer(model, training)
    model.train()  # with dropout
    updates = islice(all_updates(pairs.lengths, training), training.max_steps)
    batches = RowPacking(pairs)
    for step, update in enumerate(updates, start=1):
        # Dropout also depends only on the seed and the number of earlier updates.
        torch.manual_seed((training.seed << 32) + step - 1)
        sums = loss_of(model, batches.batch(update.rows), training.label_smoothing)
        (sums.loss / update.n_tokens).backward()  # type: ignore[no-untyped-call]
        # A few batches have a gradient so large that it would undo earlier progress; clipping keeps its direction.
        torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm or math.inf)
        # The rate first rises, while Adam has seen few gradients and cannot estimate their size, and then falls.
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, training, settings.model.d_model)
        optimizer.step()
        optimizer.zero_grad()
        yield sums


# --- search: nmt/search/step.py, nmt/search/greedy.py --------------------------------------------
#
# In search there is no reference: the decoder reads its own translation. Greedy search appends the most probable token,
# step by step, until it is </s>. `InferenceModel` computes the same function as the model above for one position at a
# time, and keeps the keys and values of earlier positions, so that nothing is computed twice.


@torch.inference_mode()
def translate(model: Transformer, lines: Sequence[str], tokenizers: Tokenizers, settings: Settings) -> list[str]:
    """Translate lines greedily, as one batch."""
    encoded = tokenizers[settings.src].encode_all(lines)
    src = padded([[*ids, EOS] for ids in encoded])  # (B, S)
    step_model = TransformerStep(InferenceModel(model, "float32"), src, src != PAD)
    rules = Rules(
        # a translation has no special pieces, such as padding
        banned=torch.tensor([i for i in range(N_SPECIAL) if i != EOS]),
        # a model that has learned little may never predict the end
        limits=torch.tensor([longest_translation(ids, 0, settings.search, model.max_positions) for ids in encoded]),
    )
    hypotheses = greedy_search(step_model, rules, settings.search)
    return [tokenizers[settings.tgt].decode(hypothesis.ids) for hypothesis in hypotheses]


# --- beam search: nmt/search/beam.py -------------------------------------------------------------
#
# Beam search keeps the K most probable translations so far, not just one: each step continues all of them by all tokens
# and keeps the K best continuations. Those that end are finished; they compete by their mean log-probability per token,
# since a sum would favour short translations. The function below searches one sentence and computes the model anew for
# each step, which is easy to read but slow. `nmt/search/beam.py` computes the same for a batch of sentences, with the
# keys and values that `InferenceModel` keeps; a test compares the translations of 200 lines.
#
# So `nmt` computes the model in two ways: `Transformer` computes all positions of a translation at once, which training
# needs, and `InferenceModel` one position after another. tests/unit/search/test_methods.py compares the two.


@torch.inference_mode()
def beam_search(model: Transformer, src_ids: Sequence[int], search: SearchConfig, limit: int) -> list[int]:
    """Return the ids of the best translation of one sentence. limit: its maximum length, including </s>."""
    beam = search.beam
    src = torch.tensor([[*src_ids, EOS]])
    live, finished = [(0.0, [BOS])], list[tuple[float, list[int]]]()  # log-probabilities and ids
    for length in range(1, limit + 1):
        ids = torch.tensor([hypothesis for _, hypothesis in live])  # (M, length)
        sources = src.expand(len(live), -1)
        hidden = model(sources, Padded(sources != PAD), ids, Padded(ids != PAD))[:, -1]  # (M, D), the last position
        log_probs = (hidden @ model.output_weight.T).log_softmax(-1)  # (M, V)
        banned = [i for i in range(log_probs.size(1) if length == limit else N_SPECIAL) if i != EOS]
        log_probs[:, banned] = -math.inf
        totals = torch.tensor([total for total, _ in live])[:, None] + log_probs
        best, places = totals.flatten().topk(2 * beam)  # of these, at least K do not end
        before, live = live, []
        for rank, (total, place) in enumerate(zip(best.tolist(), places.tolist(), strict=True)):
            hypothesis = [*before[place // log_probs.size(1)][1], place % log_probs.size(1)]
            if hypothesis[-1] == EOS and rank < beam and total > -math.inf:
                finished.append((total / length, hypothesis[1:-1]))
            elif hypothesis[-1] != EOS and len(live) < beam:
                live.append((total, hypothesis))
        # a longer translation has a lower sum, so its mean is at most the sum divided by the limit
        if len(finished) >= round(search.patience * beam) or (finished and max(finished)[0] >= live[0][0] / limit):
            break
    return max(finished, key=lambda each: each[0])[1]


# --- all of it ----------------------------------------------------------------------------------


def main(settings: Settings) -> None:
    """Train on a data directory, and translate three lines of its development set."""
    torch.set_num_threads(1)  # the operations of a small model are too short to divide among threads
    corpus = Corpus.open(DataDir(settings.data))
    show_pair(corpus, settings)

    text = corpus.split("train")
    pairs = Pairs(lines_of(text, settings.src), lines_of(text, settings.tgt))
    model = make_model(corpus, settings)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"\n{len(pairs):,} pairs, {n_parameters:,} parameters, {settings.training.max_steps} updates")

    for step, sums in enumerate(train(model, pairs, settings), start=1):
        if step == 1 or step % 25 == 0:
            print(f"update {step:4}  loss {sums.loss_per_token:.3f}  {sums.accuracy:4.0%} of the tokens right")

    held_out = corpus.split("valid")  # the development set, which is not used for training
    lines, references = (held_out.text(language)[:3] for language in (settings.src, settings.tgt))
    translations = translate(model, lines, corpus.tokenizers, settings)
    for line, translation, reference in zip(lines, translations, references, strict=True):
        print(f"\nsource       {line}\ntranslation  {translation}\nreference    {reference}")


# --- what else `nmt train` does: nmt/training/loop.py -------------------------------------------
#
# `nmt train` also saves checkpoints, from which a stopped run is resumed with the same result. It translates the
# development set at intervals and keeps the best weights, halves micro-batches when memory runs out, skips updates
# whose gradient is not finite, sums gradients over several processes, and computes in half precision where that is
# faster. Settings change the loss (R-Drop, SimCut), the text (BPE-dropout, modifiers) and the objective (denoising,
# language models, classification).

if __name__ == "__main__":
    try:
        main(SETTINGS)
    except NmtError as error:  # such as a missing data directory
        sys.exit(str(error))
